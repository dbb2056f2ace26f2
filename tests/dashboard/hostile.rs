//! What others write is text on every page, and a page holds no script and no style of its own.

use serde_json::json;
use stateway_client::v1;
use stateway_visitor::{Page, Visitor};

use crate::support::{BuiltInRig, by};

/// Markup, an end of an attribute, an end of a script, a turn of the reading direction.
pub(crate) const EVIL: &str =
    "<script>window.evil=1</script>\"'><img src=x onerror=window.evil=1>\u{202e}{{7*7}}</textarea>";

/// The same, as long as a role may be.
const ROLE: &str = "\"'><img src=x onerror=window.evil=1>";

const PAGES: [&str; 8] = [
    "/executions",
    "/inbox",
    "/inbox?mine=1",
    "/definitions",
    "/definitions/evil",
    "/providers",
    "/providers/b",
    "/workers",
];

/// A definition whose every text is hostile, an execution that asks and one that is stuck.
pub(crate) async fn hostile() -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    let text = serde_json::to_string(EVIL).unwrap();
    let role = serde_json::to_string(ROLE).unwrap();
    let source = format!(
        "name: evil\ndescription: {text}\nsteps:\n  - {{name: ask, approval: {{role: ops}}}}\n  - \
         {{name: pay, agent: {role}, action: {text}, timeout: 5m, onFailure: escalate}}\n"
    );
    rig.apply(&source).await;
    let start = v1::StartExecutionRequest {
        definition: "definitions/evil".into(),
        execution_id: "e1".into(),
        input: Some(v1::Payload {
            data: json!({EVIL: EVIL}).to_string().into(),
            content_type: String::new(),
        }),
        labels: [("note".to_owned(), EVIL.to_owned())].into(),
        ..v1::StartExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client.start_execution(by("ada", "", start)).await.unwrap();
    let offer = v1::Offer {
        worker_id: "w".into(),
        roles: vec![ROLE.into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    let task = worker.task().await;
    worker.say(v1::stream_tasks_request::Message::Failed(v1::TaskFailed {
        task_token: task.task_token,
        category: v1::ErrorCategory::Governance.into(),
        message: EVIL.into(),
        code: EVIL.into(),
        ..v1::TaskFailed::default()
    }));
    rig.until("e1", |view| view.native_state == "escalated")
        .await;
    rig
}

#[track_caller]
fn is_harmless(page: &Page, path: &str) {
    let body = &page.body;
    assert!(
        !body.contains("<script>") && !body.contains("<img"),
        "{path}: {body}"
    );
    assert!(!body.contains('\u{202e}'), "{path}");
    assert!(
        !body.contains("<style") && !body.contains(" style="),
        "{path}: {body}"
    );
    assert!(!body.contains("javascript:"), "{path}");
    for (at, _) in body.match_indices("<script") {
        assert!(body[at..].starts_with("<script src=\"/assets/"), "{path}");
    }
    let policy = page.header("content-security-policy");
    assert!(
        policy.contains("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
}

#[tokio::test]
async fn hostile_text_is_text_on_every_page() {
    let rig = hostile().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    for path in PAGES {
        let page = visit.get(path).await.is(200);
        is_harmless(&page, path);
    }
    let inbox = visit.get("/inbox").await;
    inbox.has(&["&lt;script&gt;window.evil=1&lt;/script&gt;", "\\u{202e}"]);
    let definition = visit.get("/definitions/evil").await;
    definition.has(&["&lt;img src=x onerror"]);
}

#[tokio::test]
async fn hostile_addresses_and_forms_are_answered_as_text() {
    let rig = hostile().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "ops").await;
    let evil = "%3Cscript%3Ewindow.evil%3D1%3C%2Fscript%3E%22%27";
    for path in [
        format!("/executions?filter={evil}"),
        format!("/definitions/{evil}"),
        format!("/definitions/evil?revision={evil}"),
        format!("/definitions/evil?from={evil}&to={evil}"),
        format!("/definitions?page={evil}&of={evil}"),
        format!("/providers/{evil}"),
        format!("/inbox/decide?name={evil}&answer=grant"),
        format!("/inbox/resolve?name={evil}&action=resume"),
        format!("/acting?back={evil}"),
    ] {
        let page = visit.get(&path).await;
        is_harmless(&page, &path);
    }
    let page = visit.get("/definitions/evil").await;
    // Typed text with a bidirectional override is returned in its input field, and nowhere else.
    let evil = EVIL.replace('\u{202e}', "");
    let evil = evil.as_str();
    let fields = [("input", evil), ("id", evil), ("labels", evil)];
    let answer = visit
        .send(&page, "/definitions/evil/start", &fields)
        .await
        .is(400);
    is_harmless(&answer, "start");
}
