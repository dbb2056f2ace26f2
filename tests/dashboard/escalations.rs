//! Escalations: a stuck step is resumed, given to another role, or its execution cancelled.

use serde_json::json;
use stateway_machine::ExecutionState;
use stateway_proto::v1;

use super::visit::{Page, Visit};
use crate::support::BuiltInRig;

const FORBIDDEN: &str = "\
name: forbidden
steps:
  - name: pay
    agent: billing
    timeout: 5m
    onFailure: escalate
";

const NAME: &str = "providers/b/executions/e1/escalations/pay";

fn escalated(view: &stateway_engine::View) -> bool {
    view.state == ExecutionState::Escalated
}

async fn stuck() -> (BuiltInRig, crate::support::TestWorker) {
    let rig = BuiltInRig::start().await;
    rig.apply(FORBIDDEN).await;
    let offer = v1::Offer {
        roles: vec!["billing".into(), "treasury".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    rig.begin("forbidden", "e1", "ada", json!({"amount": 9}))
        .await;
    let task = worker.task().await;
    worker.fail(&task, "governance");
    rig.until("e1", escalated).await;
    (rig, worker)
}

async fn ask(visit: &mut Visit, action: &str) -> Page {
    let name = NAME.replace('/', "%2F");
    visit
        .get(&format!("/inbox/resolve?name={name}&action={action}"))
        .await
}

#[tokio::test]
async fn what_does_not_fit_on_a_page_is_on_the_next() {
    let (rig, mut worker) = stuck().await;
    for number in 2..=27 {
        let id = format!("e{number}");
        rig.begin("forbidden", &id, "ada", json!({})).await;
        let task = worker.task().await;
        worker.fail(&task, "governance");
        rig.until(&id, escalated).await;
    }
    let mut visit = Visit::by(&rig.gateway, "eve", "").await;
    let first = visit.get("/inbox").await.is(200);
    let second = visit.get(&first.link("Older")).await.is(200);
    let counts = [&first, &second].map(|page| page.body.matches("Resume…").count());
    assert_eq!(counts, [25, 2]);
}

#[tokio::test]
async fn a_card_says_what_happened_and_what_can_be_done() {
    let (rig, _worker) = stuck().await;
    let mut visit = Visit::by(&rig.gateway, "eve", "").await;
    let page = visit.get("/inbox").await.is(200);
    page.has(&[
        "<bdi>pay</bdi>",
        "it did not work",
        "governance",
        "attempt 1",
        "&quot;amount&quot;: 9",
        "What happened",
        "Resume…",
        "Reassign…",
        "Cancel it…",
    ]);
    let nobody = Visit::new(&rig.gateway).get("/inbox").await;
    nobody.lacks(&["Resume…"]);
}

#[tokio::test]
async fn resume_tries_again_and_reassign_asks_another_role() {
    let (rig, mut worker) = stuck().await;
    let mut visit = Visit::by(&rig.gateway, "eve", "").await;
    let question = ask(&mut visit, "resume").await.is(200);
    question.has(&["tried again as it is"]);
    let etag = question.hidden("etag");
    let fields = [
        ("name", NAME),
        ("action", "resume"),
        ("etag", &etag),
        ("comment", "again"),
    ];
    visit
        .send(&question, "/inbox/resolve", &fields)
        .await
        .is(303);
    let task = worker.task().await;
    assert_eq!((task.role.as_str(), task.attempt), ("billing", 2));
    worker.fail(&task, "governance");
    rig.until("e1", escalated).await;

    let question = ask(&mut visit, "reassign").await.is(200);
    let nobody = [
        ("name", NAME),
        ("action", "reassign"),
        ("role", ""),
        ("comment", "kept"),
    ];
    let refused = visit
        .send(&question, "/inbox/resolve", &nobody)
        .await
        .is(400);
    refused.has(&["role=\"alert\"", "kept"]);
    let treasury = [("name", NAME), ("action", "reassign"), ("role", "treasury")];
    let question = ask(&mut visit, "reassign").await;
    visit
        .send(&question, "/inbox/resolve", &treasury)
        .await
        .is(303);
    visit
        .get("/inbox")
        .await
        .has(&["Given to another role: step pay"]);
    assert_eq!(worker.task().await.role, "treasury");
}

#[tokio::test]
async fn cancel_ends_the_execution_and_cannot_be_done_twice() {
    let (rig, _worker) = stuck().await;
    let mut visit = Visit::by(&rig.gateway, "eve", "").await;
    let question = ask(&mut visit, "cancel").await.is(200);
    question.has(&["The execution ends here"]);
    let fields = [("name", NAME), ("action", "cancel")];
    visit
        .send(&question, "/inbox/resolve", &fields)
        .await
        .is(303);
    rig.until("e1", |view| view.state == ExecutionState::Cancelled)
        .await;
    ask(&mut visit, "resume")
        .await
        .is(404)
        .has(&["Nothing is escalated"]);
    let other = visit.get("/acting").await;
    let late = [("name", NAME), ("action", "resume")];
    visit.send(&other, "/inbox/resolve", &late).await.is(409);
    let wrong = [("name", NAME), ("action", "explode")];
    visit.send(&other, "/inbox/resolve", &wrong).await.is(400);
}

#[tokio::test]
async fn nobody_resolves_without_a_name_or_a_token() {
    let (rig, _worker) = stuck().await;
    let mut visit = Visit::new(&rig.gateway);
    let question = ask(&mut visit, "cancel").await.is(200);
    let fields = [("name", NAME), ("action", "cancel")];
    let refused = visit
        .send(&question, "/inbox/resolve", &fields)
        .await
        .is(403);
    refused.has(&["Nobody is named"]);
    visit
        .post("/inbox/resolve", &fields, "same-origin")
        .await
        .is(403);
    let view = rig.engine.get("e1".into()).await.unwrap();
    assert_eq!(view.state, ExecutionState::Escalated);
}
