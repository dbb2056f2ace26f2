//! A panic inside the engine costs one execution; a keeper that has ended is noticed.

use std::sync::{Arc, Mutex};

use serde_json::json;
use stateway_engine::{ErrorKind, Faults, Steer};
use stateway_model::{Reason, SubState};

use crate::lab::Lab;

const WAITS: &str = "
name: waits
steps:
  - {name: go, signal: go}
";

/// The id for which the keeper panics.
#[derive(Clone, Default)]
struct Panicking(Arc<Mutex<Option<Arc<str>>>>);

impl Panicking {
    fn lab(&self) -> Lab {
        let armed = self.clone();
        let faults = Faults::panicking(move |id| armed.0.lock().unwrap().as_deref() == Some(id));
        Lab::with(|config| config.faults = faults)
    }

    fn arm(&self, id: &str) {
        *self.0.lock().unwrap() = Some(id.into());
    }

    fn disarm(&self) {
        *self.0.lock().unwrap() = None;
    }
}

fn go() -> Steer {
    Steer::Signal {
        name: "go".into(),
        payload: Arc::new(json!(1)),
    }
}

#[tokio::test]
async fn a_panic_costs_the_execution_that_was_being_processed_and_no_other() {
    let panicking = Panicking::default();
    let lab = panicking.lab();
    lab.apply(WAITS).await;
    let good = lab.start("waits", json!({})).await.id;
    let bad = lab.start("waits", json!({})).await.id;
    panicking.arm(&bad);

    let lost = lab.steer(&bad, go()).await.unwrap_err();
    assert_eq!(
        (lost.kind, lost.reason),
        (ErrorKind::Internal, "REQUEST_ABANDONED")
    );
    let refused = lab.steer(&bad, go()).await.unwrap_err();
    assert_eq!(refused.reason, "EXECUTION_SET_ASIDE");
    let shown = lab.get(&bad).await;
    assert_eq!(
        (shown.sub_state, shown.reason),
        (SubState::Error, Some(Reason::Stuck))
    );
    let survey = lab.engine.survey().await.unwrap();
    let damaged: Vec<_> = survey.damaged.iter().map(|one| &one.id).collect();
    assert_eq!(damaged, [&bad]);

    lab.steer(&good, go()).await.unwrap();
    assert_eq!(lab.ended(&good).await.sub_state, SubState::Succeeded);
    let new = lab.start("waits", json!({})).await.id;
    lab.steer(&new, go()).await.unwrap();
    assert_eq!(lab.ended(&new).await.sub_state, SubState::Succeeded);

    // Its log is unchanged: a build without the defect continues it.
    panicking.disarm();
    let lab = lab.restart();
    lab.steer(&bad, go()).await.unwrap();
    assert_eq!(lab.ended(&bad).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn an_execution_that_panics_while_it_is_loaded_does_not_keep_the_engine_from_starting() {
    let panicking = Panicking::default();
    let lab = panicking.lab();
    lab.apply("name: task\nsteps: [{name: a, agent: x}]").await;
    let bad = lab.start("task", json!({})).await.id;
    let good = lab.start("task", json!({})).await.id;
    panicking.arm(&bad);
    let lab = lab.restart();
    lab.worker("w1", &["x"], 1).diligent();
    assert_eq!(lab.ended(&good).await.sub_state, SubState::Succeeded);
    assert_eq!(lab.get(&bad).await.sub_state, SubState::Error);
    assert_eq!(lab.engine.survey().await.unwrap().damaged.len(), 1);
}

#[tokio::test]
async fn workers_of_an_abandoned_turn_reconnect_and_their_results_count() {
    let panicking = Panicking::default();
    let lab = panicking.lab();
    lab.apply("name: task\nsteps: [{name: a, agent: x}]").await;
    lab.apply(WAITS).await;
    let good = lab.start("task", json!({})).await.id;
    let mut worker = lab.worker("w1", &["x"], 1);
    let task = worker.task().await;
    let bad = lab.start("waits", json!({})).await.id;
    panicking.arm(&bad);
    lab.steer(&bad, go()).await.unwrap_err();
    let mut again = lab.worker("w1", &["x"], 1).remembers(&task);
    again.done(&task, json!({"done": true}));
    assert_eq!(lab.ended(&good).await.sub_state, SubState::Succeeded);
    again.forgets(&task);
}

#[tokio::test]
async fn a_keeper_that_has_ended_is_noticed_and_reading_continues() {
    let panicking = Panicking::default();
    let lab = panicking.lab();
    lab.apply(WAITS).await;
    let id = lab.start("waits", json!({})).await.id;
    assert!(lab.engine.is_running());
    panicking.arm("");
    let _ = lab.engine.survey().await;
    let mut committed = lab.engine.committed();
    while committed.changed().await.is_ok() {}
    let lost = lab.steer(&id, go()).await.unwrap_err();
    assert_eq!(
        (lost.kind, lost.reason),
        (ErrorKind::Unavailable, "ENGINE_STOPPED")
    );
    assert!(!lab.engine.is_running());
    assert_eq!(lab.get(&id).await.sub_state, SubState::Waiting);
}

const FAMILY: &str = "
name: family
steps:
  - {name: child, workflow: waits}
";

#[tokio::test]
async fn a_panic_about_a_child_that_is_not_on_disk_costs_its_parent() {
    let panicking = Panicking::default();
    let lab = panicking.lab();
    lab.apply(WAITS).await;
    lab.apply(FAMILY).await;
    let good = lab.start("waits", json!({})).await.id;
    let mut start = lab.start_of("family", json!({}));
    start.id = Some("p1".into());
    let delay = jiff::SignedDuration::from_millis(1);
    start.not_before = jiff::Timestamp::now().checked_add(delay).ok();
    panicking.arm("p1~child~1");
    let parent = lab.engine.start(start).await.unwrap().id;
    // Setting aside is no event, so nobody is notified.
    let set_aside = async {
        while lab.get(&parent).await.reason != Some(Reason::Stuck) {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(crate::lab::PATIENCE, set_aside).await;
    waited.expect("the parent is set aside");
    lab.steer(&good, go()).await.unwrap();
    assert_eq!(lab.ended(&good).await.sub_state, SubState::Succeeded);
}

#[tokio::test]
async fn a_parent_that_was_set_aside_continues_after_a_restart_although_its_child_has_ended() {
    let panicking = Panicking::default();
    let lab = panicking.lab();
    lab.apply(WAITS).await;
    lab.apply(FAMILY).await;
    let mut start = lab.start_of("family", json!({}));
    start.id = Some("p1".into());
    let parent = lab.engine.start(start).await.unwrap().id;
    let child: Arc<str> = "p1~child~1".into();
    panicking.arm("p1");
    lab.steer(&child, go()).await.unwrap_err();
    lab.steer(&child, go()).await.unwrap();
    assert_eq!(lab.ended(&child).await.sub_state, SubState::Succeeded);
    panicking.disarm();
    let lab = lab.restart();
    assert_eq!(lab.ended(&parent).await.sub_state, SubState::Succeeded);
}
