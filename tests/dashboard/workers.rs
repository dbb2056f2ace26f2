//! Workers: who they are, what they hold, and what waits for whom.

use serde_json::json;
use stateway_client::v1;
use stateway_provider_api::ErrorKind;
use stateway_visitor::Visitor;

use crate::support::{BuiltInRig, Puppet, TestGateway};

const ONE: &str = "\
name: one
steps:
  - {name: greet, agent: greeter, skill: polite, timeout: 5m}
";

#[tokio::test]
async fn a_role_that_nobody_has_is_named_with_what_waits_for_it() {
    let rig = BuiltInRig::start().await;
    rig.apply(ONE).await;
    rig.begin("one", "w1", "ada", json!({})).await;
    rig.begin("one", "w2", "ada", json!({})).await;
    let page = Visitor::new(&rig.gateway).get("/workers").await.is(200);
    page.has(&[
        "<bdi>greeter</bdi>",
        "with the skill <bdi>polite</bdi>",
        "2 tasks",
        "✕ none is connected",
        "data-for=",
        "No worker is connected.",
    ]);
}

#[tokio::test]
async fn a_worker_shows_roles_room_lease_and_what_it_holds_live() {
    let rig = BuiltInRig::start().await;
    rig.apply(ONE).await;
    let mut visit = Visitor::new(&rig.gateway);
    let mut live = visit.listen("/workers/live").await;
    live.line("No worker is connected").await;
    rig.begin("one", "w1", "ada", json!({})).await;
    let offer = v1::Offer {
        worker_id: "busy".into(),
        roles: vec!["greeter".into()],
        skills: vec!["polite".into()],
        capacity: 3,
        tenant: String::new(),
        version: "<b>1.4".into(),
        sdk: "acme-sdk/2".into(),
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    worker.task().await;
    live.line("href=\"/executions/b/w1\"").await;
    let page = visit.get("/workers").await.is(200);
    page.has(&[
        "<bdi>busy</bdi>",
        "connected",
        "Tasks: 1 of 3",
        "everyone's tasks",
        "its tasks go to other workers",
        "<bdi>greet</bdi> of <a href=\"/executions/b/w1\"><bdi>w1</bdi></a>, attempt 1",
        "No task waits for a worker.",
        "<dt>Version</dt><dd><bdi>&lt;b&gt;1.4</bdi></dd>",
        "<dt>Library</dt><dd><bdi>acme-sdk/2</bdi></dd>",
        "0.0 completed and 0.0 failed per minute",
    ]);
}

#[tokio::test]
async fn the_page_of_a_worker_shows_its_rate_and_its_last_failure() {
    let rig = BuiltInRig::start().await;
    rig.apply(ONE).await;
    rig.begin("one", "w1", "ada", json!({})).await;
    let offer = v1::Offer {
        worker_id: "busy".into(),
        roles: vec!["greeter".into()],
        skills: vec!["polite".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    let task = worker.task().await;
    let mut visit = Visitor::new(&rig.gateway);
    visit
        .get("/workers/b/busy")
        .await
        .is(200)
        .lacks(&["Last error"]);
    worker.say(v1::stream_tasks_request::Message::Failed(v1::TaskFailed {
        task_token: task.task_token,
        message: "the <printer> is on fire".into(),
        ..v1::TaskFailed::default()
    }));
    rig.until("w1", |view| view.end_time.is_some()).await;
    visit.get("/workers/b/busy").await.is(200).has(&[
        "0.0 completed and 1.0 failed per minute",
        "Last error",
        "the &lt;printer&gt; is on fire",
    ]);
}

#[tokio::test]
async fn without_an_engine_that_hands_out_tasks_the_page_says_so() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let mut visit = Visitor::new(&gateway);
    visit
        .get("/workers")
        .await
        .is(200)
        .has(&["No provider hands out tasks"]);
    let inbox = visit.get("/inbox").await.is(200);
    inbox.has(&["role=\"alert\""]);
    visit.get("/definitions").await.is(200);
}

#[tokio::test]
async fn a_provider_that_does_not_answer_does_not_hide_the_workers_of_the_others() {
    let (good, bad) = (Puppet::with_workers(&["w1"]), Puppet::with_workers(&["w2"]));
    let mut gateway = TestGateway::new()
        .with_puppet("bad", &bad)
        .with_puppet("good", &good);
    gateway.settings.default_upstream.health_interval = std::time::Duration::from_secs(3600);
    let gateway = gateway.start().await;
    bad.fail(ErrorKind::Unavailable, None);
    let page = Visitor::new(&gateway).get("/workers").await.is(200);
    page.has(&[
        "<bdi>w1</bdi>",
        "No answer from <b><bdi>bad</bdi></b>. Its workers and tasks are missing here.",
    ]);
}

#[tokio::test]
async fn workers_that_are_not_shown_are_announced() {
    let ids: Vec<_> = (0..1_001).map(|number| format!("w{number}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    for (count, expected) in [
        (1_001, [">1000+</span>", "and at least 900 more"]),
        (1_000, [">1000</span>", "and 900 more"]),
    ] {
        let gateway = TestGateway::new()
            .with_puppet("p", &Puppet::with_workers(&ids[..count]))
            .start()
            .await;
        let page = Visitor::new(&gateway).get("/workers").await.is(200);
        page.has(&expected);
    }
}
