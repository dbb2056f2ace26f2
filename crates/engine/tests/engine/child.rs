//! Children and their parents: timers beside them, ends, branches, slots, restarts.

use std::sync::Arc;

use serde_json::json;
use stateway_engine::{ListQuery, RetryFrom, Steer};
use stateway_machine::CancelMode;
use stateway_model::{Reason, SubState, Usage};

use crate::lab::Lab;

const INNER: &str = "name: inner\nsteps: [{name: i, agent: x, timeout: 9h}]";

async fn child_of(lab: &Lab, parent: &Arc<str>) -> stateway_engine::View {
    let query = ListQuery {
        definition: Some("inner".into()),
        limit: 10,
        ..ListQuery::default()
    };
    let page = lab.engine.list(query).await.unwrap();
    let mut found = page.items.into_iter();
    let child = found.find(|view| view.id.starts_with(&**parent));
    child.expect("a child")
}

#[tokio::test]
async fn a_parent_that_waits_for_a_child_keeps_its_own_time() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(INNER).await;
    lab.apply("name: outer\ntimeout: 2h\nsteps: [{name: o, workflow: inner}]")
        .await;
    let parent = lab.start("outer", json!(null)).await;
    clock.advance(3 * 3_600_000);
    let ended = lab.ended(&parent.id).await;
    assert_eq!(ended.reason, Some(Reason::TimedOut));
    // The child has nobody to work for any more.
    let child = child_of(&lab, &parent.id).await;
    assert_eq!(lab.ended(&child.id).await.sub_state, SubState::Failed);
}

#[tokio::test]
async fn a_parent_that_waits_holds_no_slot() {
    let lab = Lab::with(|config| config.max_active = 1);
    lab.apply(INNER).await;
    lab.apply("name: outer\nsteps: [{name: o, workflow: inner}]")
        .await;
    lab.worker("w1", &["x"], 1).diligent();
    let parent = lab.start("outer", json!(null)).await;
    assert_eq!(lab.ended(&parent.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn a_parent_and_its_child_are_taken_up_after_a_restart_and_counted_once() {
    let lab = Lab::with(|config| config.max_active = 2);
    lab.apply(INNER).await;
    lab.apply("name: outer\nsteps: [{name: o, workflow: inner}]")
        .await;
    let parent = lab.start("outer", json!(null)).await;
    let lab = lab.restart();
    assert!(lab.engine.survey().await.unwrap().active <= 2);
    lab.worker("w1", &["x"], 1).diligent();
    assert_eq!(lab.ended(&parent.id).await.sub_state, SubState::Succeeded);
    lab.until_idle().await;
}

#[tokio::test]
async fn cancelling_a_parent_ends_its_child() {
    let lab = Lab::new();
    lab.apply(INNER).await;
    lab.apply("name: outer\nsteps: [{name: o, workflow: inner}]")
        .await;
    let parent = lab.start("outer", json!(null)).await;
    let cancel = Steer::Cancel {
        mode: CancelMode::Compensate,
        cause: "".into(),
    };
    lab.steer(&parent.id, cancel).await.unwrap();
    let child = child_of(&lab, &parent.id).await;
    assert_eq!(lab.ended(&child.id).await.sub_state, SubState::Failed);
    lab.until_idle().await;
}

#[tokio::test]
async fn work_done_again_has_a_child_of_its_own() {
    let lab = Lab::new();
    lab.apply(INNER).await;
    lab.apply("name: outer\nsteps: [{name: o, workflow: inner}]")
        .await;
    let parent = lab.start("outer", json!(null)).await;
    let old = child_of(&lab, &parent.id).await;
    let from = RetryFrom {
        step: "o".into(),
        ..stateway_engine::RetryFrom::default()
    };
    let again = lab
        .engine
        .retry_from(parent.id.clone(), from, "ada".into(), lab.key(5))
        .await
        .unwrap();
    assert_eq!(again.branch, 1);
    // The child of the branch that was left is ended, and its end is not the new one's.
    assert_eq!(lab.ended(&old.id).await.sub_state, SubState::Failed);
    assert_eq!(lab.get(&parent.id).await.sub_state, SubState::Waiting);
    lab.worker("w1", &["x"], 2).diligent();
    assert_eq!(lab.ended(&parent.id).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn an_id_of_the_engines_own_kind_is_refused() {
    let lab = Lab::new();
    lab.apply(INNER).await;
    for id in ["outer-1~o~1".to_owned(), "x".repeat(200)] {
        let mut start = lab.start_of("inner", json!(null));
        start.id = Some(id.into());
        let error = lab.engine.start(start).await.unwrap_err();
        assert_eq!(error.reason, "INVALID_EXECUTION_ID");
    }
}

#[tokio::test]
async fn a_number_is_not_given_twice_after_a_purge_and_a_restart() {
    let lab = Lab::new();
    lab.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    let start = lab.start_of("gate", json!(1));
    let first = lab.engine.start(start.clone()).await.unwrap();
    let kill = Steer::Cancel {
        mode: CancelMode::Kill,
        cause: "".into(),
    };
    lab.steer(&first.id, kill).await.unwrap();
    lab.engine.remove(first.id.clone()).await.unwrap();
    let lab = lab.restart();
    let second = lab.start("gate", json!(2)).await;
    assert!(second.number > first.number);
    let again = lab.engine.start(start).await.unwrap_err();
    assert_eq!(again.reason, "EXECUTION_NOT_FOUND");
}

#[tokio::test]
async fn a_definition_at_its_limit_does_not_block_the_others() {
    let lab = Lab::new();
    lab.apply("name: narrow\nconcurrency: 1\nsteps: [{name: a, signal: go}]")
        .await;
    lab.apply("name: free\nsteps: [{name: a, agent: x, timeout: 1m}]")
        .await;
    for _ in 0..100 {
        lab.start("narrow", json!(null)).await;
    }
    lab.worker("w1", &["x"], 1).diligent();
    let free = lab.start("free", json!(null)).await;
    assert_eq!(lab.ended(&free.id).await.sub_state, SubState::Succeeded);
    assert_eq!(lab.engine.survey().await.unwrap().queued[0].waiting, 99);
}

#[tokio::test]
async fn the_usage_of_children_counts_for_the_parent_and_for_the_step() {
    let lab = Lab::new();
    lab.apply(INNER).await;
    lab.apply("name: middle\nsteps: [{name: m, workflow: inner}]")
        .await;
    lab.apply("name: outer\nsteps: [{name: o, workflow: middle}, {name: p, agent: x}]")
        .await;
    let used = |input_tokens| Usage {
        input_tokens,
        ..Usage::default()
    };
    let mut worker = lab.worker("w1", &["x"], 1);
    let parent = lab.start("outer", json!(null)).await.id;
    for _ in 0..2 {
        let task = worker.task().await;
        let tokens = if &*task.task.step == "p" { 1 } else { 10 };
        worker.done_with(&task, json!(1), used(tokens));
    }
    let view = lab.ended(&parent).await;
    assert_eq!(view.usage, used(11));
    let by_step: Vec<_> = view.steps.iter().map(|step| step.usage).collect();
    assert_eq!(by_step, [Some(used(10)), Some(used(1))]);
}
