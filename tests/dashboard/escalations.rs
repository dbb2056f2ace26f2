//! Escalations: an escalated step is resumed or reassigned, or its execution is cancelled.

use serde_json::json;
use stateway_client::v1;
use stateway_visitor::{Page, Visitor};

use crate::support::BuiltInRig;

const FORBIDDEN: &str = "\
name: forbidden
steps:
  - name: pay
    agent: billing
    timeout: 5m
    onFailure: escalate
";

/// The escalation of the attempt that follows.
const SECOND: &str = "providers/b/executions/e1/escalations/pay~2";
const NAME: &str = "providers/b/executions/e1/escalations/pay~1";

fn escalated(view: &v1::Execution) -> bool {
    view.native_state == "escalated"
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
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("e1", escalated).await;
    (rig, worker)
}

async fn ask(visit: &mut Visitor, name: &str, action: &str) -> Page {
    let name = name.replace('/', "%2F");
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
        worker.fail(&task, v1::ErrorCategory::Governance);
        rig.until(&id, escalated).await;
    }
    let mut visit = Visitor::by(&rig.gateway, "eve", "operator").await;
    let first = visit.get("/inbox").await.is(200);
    let second = visit.get(&first.link("Older")).await.is(200);
    let counts = [&first, &second].map(|page| page.body.matches("Resume…").count());
    assert_eq!(counts, [25, 2]);
}

#[tokio::test]
async fn a_card_says_what_happened_and_what_can_be_done() {
    let (rig, _worker) = stuck().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "operator").await;
    let page = visit.get("/inbox").await.is(200);
    page.has(&[
        "<bdi>pay</bdi>",
        "it did not work",
        "governance",
        "attempt 1",
        "&quot;amount&quot;: 9",
        "one person with the role",
        "operator",
        "but not <bdi>ada</bdi>, who started it",
        "Attempts",
        "GOVERNANCE",
        "Resume…",
        "Reassign…",
        "Cancel the execution…",
    ]);
    let nobody = Visitor::new(&rig.gateway).get("/inbox").await;
    nobody.lacks(&["Resume…"]);
    for (actor, roles, why) in [
        ("ada", "operator", "someone else has to decide"),
        ("eve", "intern", "Only the role"),
    ] {
        let mut visit = Visitor::by(&rig.gateway, actor, roles).await;
        let page = visit.get("/inbox").await.is(200);
        page.has(&[why]).lacks(&["Resume…"]);
        let mine = visit.get("/inbox?mine=1").await.is(200);
        mine.lacks(&["it did not work"]);
    }
}

#[tokio::test]
async fn resume_tries_again_and_reassign_asks_another_role() {
    let (rig, mut worker) = stuck().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "operator").await;
    let question = ask(&mut visit, NAME, "resume").await.is(200);
    question.has(&["runs again unchanged"]);
    let etag = question.field("etag");
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
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("e1", escalated).await;

    let question = ask(&mut visit, SECOND, "reassign").await.is(200);
    let nobody = [
        ("name", SECOND),
        ("action", "reassign"),
        ("role", ""),
        ("comment", "kept"),
    ];
    let refused = visit
        .send(&question, "/inbox/resolve", &nobody)
        .await
        .is(400);
    refused.has(&["role=\"alert\"", "kept"]);
    let treasury = [
        ("name", SECOND),
        ("action", "reassign"),
        ("role", "treasury"),
    ];
    let question = ask(&mut visit, SECOND, "reassign").await;
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
    let mut visit = Visitor::by(&rig.gateway, "eve", "operator").await;
    let question = ask(&mut visit, NAME, "cancel").await.is(200);
    question.has(&["The execution is cancelled", "failurePolicy"]);
    let fields = [("name", NAME), ("action", "cancel")];
    visit
        .send(&question, "/inbox/resolve", &fields)
        .await
        .is(303);
    rig.until("e1", |view| view.native_state == "cancelled")
        .await;
    // The second decider sees who decided what, and no button.
    let late = ask(&mut visit, NAME, "resume").await.is(200);
    late.has(&["not pending any more", "cancelled", "<bdi>eve</bdi>"]);
    late.lacks(&["action=\"/inbox/resolve\""]);
    let inbox = visit.get("/inbox").await.is(200);
    inbox.has(&["Recent decisions", "cancelled</span> by"]);
    let other = visit.get("/acting").await;
    let late = [("name", NAME), ("action", "resume")];
    visit.send(&other, "/inbox/resolve", &late).await.is(409);
    let wrong = [("name", NAME), ("action", "explode")];
    visit.send(&other, "/inbox/resolve", &wrong).await.is(400);
}

#[tokio::test]
async fn the_person_who_cancels_an_escalation_chooses_the_compensation() {
    let (rig, _worker) = stuck().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "operator").await;
    let question = ask(&mut visit, NAME, "cancel").await.is(200);
    question.has(&[
        "name=\"compensation\"",
        "according to the definition's failurePolicy",
        "compensate nothing",
    ]);
    let wrong = [
        ("name", NAME),
        ("action", "cancel"),
        ("compensation", "perhaps"),
    ];
    let refused = visit.send(&question, "/inbox/resolve", &wrong).await;
    refused
        .is(400)
        .has(&["choice about compensation is unknown"]);
    let fields = [
        ("name", NAME),
        ("action", "cancel"),
        ("compensation", "compensate"),
    ];
    let question = ask(&mut visit, NAME, "cancel").await.is(200);
    visit
        .send(&question, "/inbox/resolve", &fields)
        .await
        .is(303);
    rig.until("e1", |view| view.native_state == "cancelled")
        .await;
    let events = v1::ListEventsRequest {
        parent: "providers/b/executions/e1".into(),
        page_size: 100,
        ..v1::ListEventsRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    let events = client.list_events(events).await.unwrap().into_inner();
    let mut kinds = events.events.iter().map(|event| event.native_type.as_str());
    assert!(kinds.any(|kind| kind == "CompensationStarted"));
    ask(&mut visit, NAME, "resume")
        .await
        .is(200)
        .lacks(&["name=\"compensation\""]);
}

#[tokio::test]
async fn nobody_resolves_without_a_name_or_a_token() {
    let (rig, _worker) = stuck().await;
    let mut visit = Visitor::new(&rig.gateway);
    let question = ask(&mut visit, NAME, "cancel").await.is(200);
    let fields = [("name", NAME), ("action", "cancel")];
    let refused = visit
        .send(&question, "/inbox/resolve", &fields)
        .await
        .is(403);
    refused.has(&["A decision needs your name"]);
    visit.post("/inbox/resolve", &fields).await.is(403);
    assert_eq!(rig.get("e1").await.native_state, "escalated");
}

#[tokio::test]
async fn the_page_of_an_escalated_execution_has_its_decision_and_no_plain_resume() {
    let (rig, mut worker) = stuck().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "operator").await;
    let page = visit.get("/executions/b/e1").await.is(200);
    page.has(&["A person has to decide", "Resume…", "Reassign…"]);
    page.lacks(&["/executions/b/e1/do/resume", "waits for approval"]);
    let question = visit.get(&page.link("Resume…")).await.is(200);
    let fields = [
        ("name", NAME),
        ("action", "resume"),
        ("back", "/executions/b/e1"),
    ];
    let answer = visit.send(&question, "/inbox/resolve", &fields).await;
    assert_eq!(answer.is(303).header("location"), "/executions/b/e1");
    assert_eq!(worker.task().await.attempt, 2);
}

#[tokio::test]
async fn the_cancel_dialog_offers_the_choice_to_compensate() {
    let (rig, _worker) = stuck().await;
    let mut visit = Visitor::by(&rig.gateway, "eve", "").await;
    let question = visit.get("/executions/b/e1/do/cancel").await.is(200);
    question.has(&[
        "name=\"compensation\"",
        "according to the definition's failurePolicy",
        "compensate nothing",
    ]);
    let wrong = [("compensation", "perhaps")];
    let refused = visit
        .send(&question, "/executions/b/e1/do/cancel", &wrong)
        .await
        .is(400);
    refused.has(&["choice about compensation is unknown"]);
    let none = [("compensation", "none")];
    let question = visit.get("/executions/b/e1/do/cancel").await.is(200);
    visit
        .send(&question, "/executions/b/e1/do/cancel", &none)
        .await
        .is(303);
    rig.until("e1", |view| view.native_state == "cancelled")
        .await;
    let kill = visit.get("/executions/b/e1/do/kill").await;
    kill.lacks(&["name=\"compensation\""]);
}
