//! Every action, from its question to its effect, without a script.

use std::time::Duration;

use stateway_proto::v1::SubState;

use crate::headers::between;
use stateway_visitor::{Page, Visitor};

use crate::support::{GATE, Rig, SAGA};

/// Where the visitor is sent, and what the next page says.
async fn told(browser: &mut Visitor, answer: &Page) -> (String, String) {
    assert_eq!(answer.status, 303, "{}", answer.body);
    let to = answer.header("location").to_owned();
    let page = browser.get(&to).await;
    assert_eq!(page.status, 200, "{}", page.body);
    let note = between(&page.body, "<div class=\"note ", "</div>");
    let again = browser.get(&to).await;
    assert!(!again.body.contains("<div class=\"note good"), "told twice");
    (to, note)
}

#[tokio::test]
async fn a_signal_is_sent_with_its_payload() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let path = "/executions/b/one/do/signal";
    let question = browser.get(path).await;
    assert!(
        question.body.contains("name=\"signal\" required")
            && question.body.contains("value=\"go\"")
    );
    let wrong = browser
        .answer(
            path,
            &[("signal", "go"), ("payload", "{oops"), ("actor", "ada")],
        )
        .await;
    assert_eq!(wrong.status, 400);
    assert!(
        wrong.body.contains("The payload is not JSON"),
        "{}",
        wrong.body
    );
    assert!(
        wrong.body.contains("{oops</textarea>"),
        "what was typed stays"
    );
    let payload = r#"{"ok": true}"#;
    let sent = browser
        .answer(
            path,
            &[("signal", "go"), ("payload", payload), ("actor", "ada")],
        )
        .await;
    let (to, note) = told(&mut browser, &sent).await;
    assert_eq!(to, "/executions/b/one");
    assert!(note.contains("The signal was sent."), "{note}");
    let page = browser.get(&to).await;
    let timeline = between(&page.body, "id=\"timeline\"", "</section>");
    assert!(timeline.contains("attempt 1: done"), "{timeline}");
    let seen = rig.get(&name).await;
    assert_eq!(seen.sub_state(), SubState::Succeeded);
    let output = String::from_utf8(seen.output.unwrap().data.to_vec()).unwrap();
    assert!(output.contains("\"ok\":true"), "{output}");
}

#[tokio::test]
async fn who_paused_it_is_on_record_and_it_goes_on() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let paused = browser
        .answer(
            "/executions/b/one/do/pause",
            &[("comment", "lunch"), ("actor", "ada@example.org")],
        )
        .await;
    let (_, note) = told(&mut browser, &paused).await;
    assert!(note.contains("The execution is paused."), "{note}");
    assert_eq!(rig.get(&name).await.reason().label(), "PAUSED");
    let page = browser.get("/executions/b/one").await;
    assert!(page.body.contains("ada@example.org"), "{}", page.body);
    assert!(
        page.body.contains("Acting as <b><bdi>ada@example.org"),
        "the name is kept"
    );
    let resumed = browser.answer("/executions/b/one/do/resume", &[]).await;
    let (_, note) = told(&mut browser, &resumed).await;
    assert!(note.contains("The execution continues."), "{note}");
    assert_ne!(rig.get(&name).await.reason().label(), "PAUSED");
}

#[tokio::test]
async fn a_cancel_says_what_will_be_undone_and_a_kill_what_will_not() {
    let rig = Rig::start().await;
    rig.apply(SAGA).await;
    let mut browser = rig.browser();
    for (id, action) in [("one", "cancel"), ("two", "kill")] {
        let name = rig.begin("saga", id, "").await;
        let path = format!("/executions/b/{id}/do/{action}");
        let question = browser.get(&path).await.body;
        match action {
            "cancel" => assert!(
                question.contains("cancels the execution. The execution waits for running work"),
                "{question}"
            ),
            _ => {
                assert!(
                    question.contains("ends the execution immediately"),
                    "{question}"
                );
                assert!(
                    question.contains("<bdi>reserve</bdi></b> could be"),
                    "{question}"
                );
            }
        }
        let done = browser
            .answer(&path, &[("comment", "why not"), ("actor", "ada")])
            .await;
        told(&mut browser, &done).await;
        rig.until(&name, |seen| seen.sub_state() == SubState::Failed)
            .await;
    }
    let killed = rig.get("providers/b/executions/two").await;
    assert_eq!(killed.reason().label(), "KILLED");
}

#[tokio::test]
async fn an_attempt_is_made_now() {
    let rig = Rig::start().await;
    let name = rig.begin("m/flaky", "one", "").await;
    rig.clock.advance(Duration::from_secs(2));
    let mut browser = rig.browser();
    let page = browser.get("/executions/m/one").await;
    assert!(
        page.body
            .contains("/executions/m/one/do/retry-now?step=charge")
    );
    let path = "/executions/m/one/do/retry-now?step=charge";
    let done = browser.answer(path, &[("actor", "ada")]).await;
    let (_, note) = told(&mut browser, &done).await;
    assert!(note.contains("The next attempt is made now."), "{note}");
    let seen = rig.get(&name).await;
    assert_eq!(seen.steps[0].retry.as_ref().unwrap().attempt, 2);
}

#[tokio::test]
async fn work_is_done_again_from_a_step_and_a_record_removed() {
    let rig = Rig::start().await;
    rig.begin("m/doomed", "one", "").await;
    rig.clock.advance(Duration::from_secs(60));
    let mut browser = rig.browser();
    let path = "/executions/m/one/do/retry-from?step=pay";
    let question = browser.get(path).await.body;
    assert!(question.contains("Side effects"), "{question}");
    let done = browser.answer(path, &[("actor", "ada")]).await;
    let (to, note) = told(&mut browser, &done).await;
    assert!(note.contains("The steps run again."), "{note}");
    rig.clock.advance(Duration::from_secs(60));
    let purged = browser.answer(&format!("{to}/do/purge"), &[]).await;
    let (list, note) = told(&mut browser, &purged).await;
    assert_eq!(list, "/executions");
    assert!(note.contains("The record was removed."), "{note}");
    assert_eq!(browser.get(&to).await.status, 404);
}

#[tokio::test]
async fn a_form_that_is_sent_twice_happens_once() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let question = browser.get("/executions/b/one/do/pause").await;
    let (token, id) = (question.field("csrf"), question.field("request_id"));
    let fields = [
        ("csrf", token.as_str()),
        ("request_id", id.as_str()),
        ("actor", "ada"),
    ];
    for _ in 0..2 {
        let sent = browser.post("/executions/b/one/do/pause", &fields).await;
        let (_, note) = told(&mut browser, &sent).await;
        assert!(note.contains("The execution is paused."), "{note}");
    }
    let request = stateway_proto::v1::ListEventsRequest {
        parent: name,
        ..Default::default()
    };
    let events = rig.api().await.list_events(request).await.unwrap();
    let events = events.into_inner().events;
    let held = events
        .iter()
        .filter(|event| event.native_type == "ExecutionPaused");
    assert_eq!(held.count(), 1);
}

#[tokio::test]
async fn a_refusal_of_the_api_is_told_with_its_hint() {
    let rig = Rig::start().await;
    rig.begin("m/hello", "one", "").await;
    rig.clock.advance(Duration::from_secs(60));
    let mut browser = rig.browser();
    let late = browser
        .answer("/executions/m/one/do/cancel", &[("actor", "ada")])
        .await;
    let (_, note) = told(&mut browser, &late).await;
    assert!(note.starts_with("bad"), "{note}");
    assert!(note.contains("provider m:"), "{note}");
}

#[tokio::test]
async fn a_name_is_checked_kept_and_forgotten() {
    let rig = Rig::start().await;
    let mut browser = rig.browser();
    let token = browser.get("/acting").await.field("csrf");
    let wrong = browser
        .post("/acting", &[("csrf", &token), ("actor", "a b")])
        .await;
    assert_eq!(wrong.status, 400);
    let fields = [
        ("csrf", token.as_str()),
        ("actor", "ada"),
        ("roles", "ops, release"),
        ("back", "//evil.example"),
    ];
    let kept = browser.post("/acting", &fields).await;
    assert_eq!(kept.header("location"), "/executions");
    let page = browser.get("/acting").await;
    assert!(page.body.contains("value=\"ada\"") && page.body.contains("value=\"ops,release\""));
    let forget = [("csrf", token.as_str()), ("forget", "1"), ("actor", "")];
    browser.post("/acting", &forget).await;
    assert!(
        browser
            .get("/executions")
            .await
            .body
            .contains("Acting without a name")
    );
}

#[tokio::test]
async fn a_proxy_that_says_who_it_is_is_believed() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    let token = browser
        .get("/executions/b/one/do/pause")
        .await
        .field("csrf");
    let headers = "sec-fetch-site: same-origin\r\nx-stateway-actor: grace\r\n";
    let fields = [("csrf", token.as_str()), ("actor", "mallory")];
    let path = "/executions/b/one/do/pause";
    let done = browser.post_with(path, &fields, headers).await;
    assert_eq!(done.status, 303);
    let page = browser.get("/executions/b/one").await;
    assert!(page.body.contains("grace"), "{}", page.body);
    assert!(
        page.body.contains("Acting without a name"),
        "nothing is kept"
    );
}

#[tokio::test]
async fn what_cannot_be_undone_is_not_what_enter_does() {
    let rig = Rig::start().await;
    rig.apply(GATE).await;
    let name = rig.begin("gate", "one", "").await;
    let mut browser = rig.browser();
    browser
        .answer("/executions/b/one/do/kill", &[("actor", "ada")])
        .await;
    rig.until(&name, |seen| seen.reason().label() == "KILLED")
        .await;
    let purge = browser.get("/executions/b/one/do/purge").await;
    assert!(
        purge.body.contains("data-close autofocus>Back</a>"),
        "{}",
        purge.body
    );
    // Where something is to be typed, that comes first.
    let stranger = rig.browser().get("/executions/b/one/do/purge").await;
    assert!(!stranger.body.contains("autofocus"), "{}", stranger.body);
}
