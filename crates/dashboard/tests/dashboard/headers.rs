//! The headers of every answer, and the switch.

use stateway_provider_api::Capabilities;

use crate::support::{GATE, Rig};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

#[tokio::test]
async fn every_answer_has_a_strict_policy() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    rig.begin("gate", "one", "{\"a\":1}").await;
    let mut browser = rig.browser();
    let list = browser.get("/executions").await;
    let style = between(&list.body, "rel=\"stylesheet\" href=\"", "\"");
    for (path, status) in [
        ("/", 303),
        ("/executions", 200),
        ("/executions?filter=nonsense", 200),
        ("/executions/b/one", 200),
        ("/executions/b/none", 404),
        ("/executions/nobody/one", 404),
        ("/executions/b/one/input", 200),
        ("/executions/b/one/output", 404),
        ("/executions/b/one/do/cancel", 200),
        ("/executions/b/one/do/explode", 404),
        ("/acting", 200),
        (style.as_str(), 200),
        ("/assets/0000/none.js", 404),
        ("/nonsense", 404),
    ] {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        assert_eq!(answer.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(
            answer.header("cross-origin-opener-policy"),
            "same-origin",
            "{path}"
        );
        let kept = answer.header("cache-control");
        if path.starts_with("/assets") && status == 200 {
            assert_eq!(kept, "public, max-age=31536000, immutable", "{path}");
        } else {
            assert_eq!(kept, "no-store", "{path}");
        }
        let inline = [
            "<script>",
            "style=\"",
            " onclick=",
            " onload=",
            "javascript:",
        ];
        for word in inline {
            assert!(!answer.body.contains(word), "{path} has {word}");
        }
    }
    let refused = browser.post_with("/acting", &[], "").await;
    assert_eq!(refused.status, 403);
    assert_eq!(refused.header("content-security-policy"), POLICY);
    let mut live = browser.listen("/executions/live").await;
    live.until(|heard| heard.contains("\r\n\r\n")).await;
    assert!(live.heard.contains(POLICY), "{}", live.heard);
}

#[tokio::test]
async fn an_unknown_address_shows_a_browser_the_navigation_and_others_a_text() {
    let rig = Rig::start().await;
    let head = "GET /nonsense HTTP/1.1\r\naccept: text/html,*/*;q=0.8\r\n";
    let page = rig.browser().raw(head).await.is(404);
    page.has(&[
        "There is no page at this address.",
        "href=\"/executions\"",
        "href=\"/inbox\"",
    ]);
    let plain = rig
        .browser()
        .raw("GET /nonsense HTTP/1.1\r\n")
        .await
        .is(404);
    assert_eq!(plain.body, "This gateway has no such page.\n");
    let method = "POST /stateway.v1.Executions/GetExecution HTTP/1.1\r\ncontent-length: 0\r\n";
    rig.browser().raw(method).await.is(415);
}

#[tokio::test]
async fn the_rest_of_the_port_is_as_it_was() {
    let rig = Rig::start().await;
    let healthz = rig.browser().get("/healthz").await;
    assert_eq!((healthz.status, healthz.body.as_str()), (200, "ok\n"));
    assert_eq!(healthz.header("content-security-policy"), "");
}

#[tokio::test]
async fn who_does_not_want_it_does_not_get_it() {
    let rig = Rig::with(Capabilities::ALL, |settings| settings.dashboard = false).await;
    let answer = rig.browser().get("/executions").await;
    assert!(!answer.body.contains("<html"), "{}", answer.body);
    assert_eq!(rig.browser().get("/healthz").await.status, 200);
}

pub(crate) fn between(text: &str, start: &str, end: &str) -> String {
    let (_, rest) = text.split_once(start).expect("the start");
    rest.split(end).next().unwrap().to_owned()
}
