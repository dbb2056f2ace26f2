//! What starts executions by itself, and how many run at once.

use std::sync::Arc;

use serde_json::json;
use stateway_engine::Publish;
use stateway_model::SubState;

use crate::lab::Lab;

fn event(name: &str, id: &str, payload: serde_json::Value) -> Publish {
    Publish {
        name: name.to_owned(),
        payload: Arc::new(payload),
        id: id.into(),
        labels: Default::default(),
        actor: "shop".into(),
    }
}

#[tokio::test]
async fn an_event_starts_what_it_triggers_once() {
    let lab = Lab::new();
    lab.apply("name: big\ntrigger: {event: paid, condition: '${event.total} > 100'}\nsteps: [{name: a, signal: go}]")
        .await;
    lab.apply("name: any\ntrigger: {event: paid}\nsteps: [{name: a, signal: go}]")
        .await;
    let small = lab.engine.publish(event("paid", "e1", json!({"total": 1})));
    assert_eq!(small.await.unwrap().started.len(), 1);
    let first = lab
        .engine
        .publish(event("paid", "e2", json!({"total": 500})));
    let first = first.await.unwrap();
    assert_eq!(first.started.len(), 2);
    let lab = lab.restart();
    let again = lab
        .engine
        .publish(event("paid", "e2", json!({"total": 500})));
    assert_eq!(again.await.unwrap(), first);
    crate::lab::all_is_well(&lab).await;
    let other = lab
        .engine
        .publish(event("paid", "e2", json!({"total": 501})));
    assert_eq!(other.await.unwrap_err().reason, "REQUEST_ID_REUSED");
    let nobody = lab.engine.publish(event("refunded", "e3", json!(null)));
    assert_eq!(nobody.await.unwrap(), Default::default());
    assert_eq!(lab.ids().await.len(), 3);
}

#[tokio::test]
async fn a_schedule_starts_at_its_times_and_once_for_those_it_missed() {
    let (lab, clock) = Lab::by_hand();
    lab.apply("name: nightly\ntrigger: {schedule: '0 2 * * *'}\nsteps: [{name: a, signal: go}]")
        .await;
    clock.advance(2 * 3_600_000);
    lab.until_started(1).await;
    assert_eq!(lab.ids().await, ["nightly~20260101T020000Z".into()]);
    let lab = lab.restart_after(|| clock.advance(3 * 24 * 3_600_000));
    lab.until_started(2).await;
    let survey = lab.engine.survey().await.unwrap();
    let next = survey.scheduled[0].next.unwrap();
    assert_eq!(next.to_string(), "2026-01-05T02:00:00Z");
    crate::lab::all_is_well(&lab).await;
    assert_eq!(lab.ids().await[0], "nightly~20260104T020000Z".into());
    assert_eq!(lab.ids().await.len(), 2);
}

#[tokio::test]
async fn no_more_executions_of_a_definition_run_than_it_allows() {
    let lab = Lab::new();
    lab.apply("name: narrow\nconcurrency: 1\nsteps: [{name: a, agent: x, timeout: 1m}]")
        .await;
    let first = lab.start("narrow", json!(1)).await;
    let second = lab.start("narrow", json!(2)).await;
    assert_eq!(first.state.as_str(), "running");
    assert_eq!(
        (second.sub_state, second.state.as_str()),
        (SubState::Waiting, "queued")
    );
    let lab = lab.restart();
    assert_eq!(lab.engine.survey().await.unwrap().queued[0].waiting, 1);
    lab.worker("w1", &["x"], 4).diligent();
    for id in [first.id, second.id] {
        assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    }
}

#[tokio::test]
async fn tenants_take_turns_for_slots() {
    let lab = Lab::with(|config| config.max_active = 1);
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1m}]")
        .await;
    for (tenant, id) in [
        ("loud", "l1"),
        ("loud", "l2"),
        ("loud", "l3"),
        ("quiet", "q1"),
    ] {
        let mut start = lab.start_of("one", json!(null));
        start.id = Some(id.into());
        start.labels.insert("tenant".into(), tenant.into());
        lab.engine.start(start).await.unwrap();
    }
    let mut worker = lab.worker("w1", &["x"], 1);
    let mut order = Vec::new();
    for _ in 0..4 {
        let task = worker.task().await;
        order.push(task.execution.to_string());
        worker.done(&task, json!(null));
    }
    assert_eq!(order, ["l1", "l2", "q1", "l3"]);
}
