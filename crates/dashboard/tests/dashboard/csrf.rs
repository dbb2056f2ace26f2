//! Only a page of ours, made for this visitor, may send a form.

use crate::support::{GATE, Rig};

const CANCEL: &str = "/executions/b/one/do/cancel";

#[tokio::test]
async fn a_form_without_its_token_or_from_elsewhere_changes_nothing() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let question = browser.get(CANCEL).await;
    let token = question.field("csrf");
    let mut other = rig.browser();
    let foreign = other.get(CANCEL).await.field("csrf");
    let same = "sec-fetch-site: same-origin\r\n";
    let host = rig.address;
    // The gateway refuses requests of other sites on every route; the dashboard refuses a form that no
    // page of its own sent.
    let gateway = "A page of another site sent this request.";
    let dashboard = "not sent from a page of this gateway";
    let elsewhere = [
        (String::new(), dashboard),
        ("sec-fetch-site: none\r\n".to_owned(), dashboard),
        ("sec-fetch-site: cross-site\r\n".to_owned(), gateway),
        ("sec-fetch-site: same-site\r\n".to_owned(), gateway),
        ("origin: http://evil.example\r\n".to_owned(), gateway),
        ("origin: null\r\n".to_owned(), gateway),
        (
            format!("sec-fetch-site: cross-site\r\norigin: http://{host}\r\n"),
            gateway,
        ),
    ];
    let fields = [("csrf", token.as_str()), ("actor", "ada")];
    for (headers, reason) in &elsewhere {
        let refused = browser.post_with(CANCEL, &fields, headers).await;
        assert_eq!(refused.status, 403, "{headers}");
        assert!(refused.body.contains(reason), "{headers}: {}", refused.body);
    }
    for wrong in ["", "AAAA", foreign.as_str()] {
        let fields = [("csrf", wrong), ("actor", "ada")];
        let refused = browser.post_with(CANCEL, &fields, same).await;
        assert_eq!(refused.status, 403, "{wrong}");
        assert!(
            refused.body.contains("Nothing was changed"),
            "{}",
            refused.body
        );
    }
    let mut nobody = rig.browser();
    assert_eq!(nobody.post_with(CANCEL, &fields, same).await.status, 403);
    assert_eq!(rig.get(&name).await.native_state, "awaiting_signal");
    let origin = format!("origin: http://{host}\r\n");
    let done = browser.post_with(CANCEL, &fields, &origin).await;
    assert_eq!(done.status, 303, "{}", done.body);
    assert_eq!(rig.get(&name).await.reason().label(), "CANCELLED");
}

#[tokio::test]
async fn the_session_is_for_this_site_and_no_script() {
    let rig = Rig::start().await;
    let page = rig.browser().get("/executions").await;
    let line = page.header("set-cookie");
    assert!(line.starts_with("stateway_session="), "{line}");
    assert!(
        line.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{line}"
    );
}

#[tokio::test]
async fn a_flood_is_refused() {
    let rig = Rig::start().await;
    let mut browser = rig.browser();
    let token = browser.get("/acting").await.field("csrf");
    let flood = "x".repeat(3 * 1024 * 1024);
    let fields = [("csrf", token.as_str()), ("actor", &flood)];
    let refused = browser.post("/acting", &fields).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
}
