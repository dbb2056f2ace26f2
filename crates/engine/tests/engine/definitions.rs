//! Deleting definitions, and disabling and enabling their triggers.

use std::sync::Arc;

use serde_json::json;
use stateway_engine::{
    ApplyDefinition, DeleteDefinition, DeletedDefinition, EngineError, ErrorKind, Publish,
    SwitchTrigger,
};
use stateway_machine::Fact;
use stateway_model::SubState;

use crate::lab::Lab;

const GATE: &str = "name: gate\nsteps: [{name: a, signal: go}]";
const NIGHTLY: &str =
    "name: nightly\ntrigger: {schedule: '0 2 * * *', event: dusk}\nsteps: [{name: a, signal: go}]";
const HOUR: i64 = 3_600_000;

async fn delete(
    lab: &Lab,
    name: &str,
    keep_running: bool,
) -> Result<DeletedDefinition, EngineError> {
    let delete = DeleteDefinition {
        name: name.into(),
        keep_running,
        request: lab.key(9),
    };
    lab.engine.delete_definition(delete).await
}

async fn switch(lab: &Lab, name: &str, enabled: bool) -> Result<(), EngineError> {
    let switch = SwitchTrigger {
        name: name.into(),
        enabled,
        actor: "ada".into(),
        comment: "maintenance".into(),
        request: lab.key(8),
    };
    lab.engine.switch_trigger(switch).await
}

async fn finish(lab: &Lab, id: &Arc<str>) -> SubState {
    let signal = stateway_engine::Steer::Signal {
        name: "go".into(),
        payload: Arc::new(json!(null)),
    };
    lab.steer(id, signal).await.unwrap();
    lab.ended(id).await.sub_state
}

async fn publish(lab: &Lab, id: &str) -> stateway_engine::Published {
    let event = Publish {
        name: "dusk".to_owned(),
        payload: Arc::new(json!(null)),
        id: id.into(),
        labels: Default::default(),
        actor: "sky".into(),
    };
    lab.engine.publish(event).await.unwrap()
}

#[tokio::test]
async fn a_definition_in_use_is_not_deleted_and_the_error_counts_its_executions() {
    let lab = Lab::new();
    lab.apply(GATE).await;
    let first = lab.start("gate", json!(null)).await.id;
    lab.start("gate", json!(null)).await;
    let refused = delete(&lab, "gate", false).await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.reason),
        (ErrorKind::FailedPrecondition, "DEFINITION_IN_USE")
    );
    assert_eq!(refused.metadata, [("open_executions", "2".to_owned())]);
    assert_eq!(finish(&lab, &first).await, SubState::Succeeded);
    let refused = delete(&lab, "gate", false).await.unwrap_err();
    assert_eq!(refused.metadata, [("open_executions", "1".to_owned())]);
    assert_eq!(lab.engine.definitions(None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn open_executions_of_a_deleted_definition_finish_under_their_revision() {
    let lab = Lab::new();
    lab.apply(GATE).await;
    let open = lab.start("gate", json!(null)).await;
    let deleted = delete(&lab, "gate", true).await.unwrap();
    assert_eq!(deleted, DeletedDefinition { open_executions: 1 });
    assert!(lab.engine.definitions(None, 10).await.unwrap().is_empty());
    let refused = lab.engine.start(lab.start_of("gate", json!(null))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.reason, "DEFINITION_NOT_FOUND");
    assert_eq!(refused.message, "the definition `gate` was deleted");

    let lab = lab.restart();
    let refused = lab
        .engine
        .definition("gate".into(), None)
        .await
        .unwrap_err();
    assert_eq!(refused.message, "the definition `gate` was deleted");
    let revision = Some(open.revision.clone());
    let kept = lab
        .engine
        .definition("gate".into(), revision)
        .await
        .unwrap();
    assert_eq!(kept.source, GATE);
    assert_eq!(finish(&lab, &open.id).await, SubState::Succeeded);
    crate::lab::all_is_well(&lab).await;
    let recording = lab.engine.recording(open.id.clone()).await.unwrap();
    assert_eq!(recording.definitions[0].source, GATE);
}

#[tokio::test]
async fn the_revisions_of_a_deleted_definition_go_with_its_last_execution() {
    let lab = Lab::new();
    lab.apply(GATE).await;
    let id = lab.start("gate", json!(null)).await.id;
    finish(&lab, &id).await;
    delete(&lab, "gate", false).await.unwrap();
    let revisions = || lab.engine.revisions("gate".into());
    assert_eq!(revisions().await.unwrap().len(), 1);
    lab.engine.remove(id).await.unwrap();
    assert!(revisions().await.unwrap().is_empty());
    let refused = delete(&lab, "gate", false).await.unwrap_err();
    assert_eq!(refused.message, "there is no definition `gate`");
}

#[tokio::test]
async fn a_repeated_delete_does_not_delete_what_was_applied_meanwhile() {
    let lab = Lab::new();
    lab.apply(GATE).await;
    let delete = DeleteDefinition {
        name: "gate".into(),
        keep_running: false,
        request: lab.key(9),
    };
    for _ in 0..2 {
        lab.engine.delete_definition(delete.clone()).await.unwrap();
    }
    lab.apply(GATE).await;
    lab.engine.delete_definition(delete.clone()).await.unwrap();
    assert_eq!(lab.engine.definitions(None, 10).await.unwrap().len(), 1);
    let mut other = delete;
    other.request.body = [7; 16];
    let refused = lab.engine.delete_definition(other).await.unwrap_err();
    assert_eq!(refused.reason, "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn applying_a_deleted_definition_again_brings_it_back() {
    let lab = Lab::new();
    lab.apply(GATE).await;
    let old = lab.start("gate", json!(null)).await;
    // Both in quick succession, so that they may share a turn.
    let apply = ApplyDefinition {
        source: GATE.to_owned(),
        source_name: "gate.yaml".to_owned(),
        request: None,
    };
    let (deleted, applied) = tokio::join!(delete(&lab, "gate", true), lab.engine.apply(apply));
    deleted.unwrap();
    assert!(applied.unwrap().changed);
    let new = lab.start("gate", json!(null)).await;
    assert_eq!(new.revision, old.revision);
    let lab = lab.restart();
    assert_eq!(lab.engine.definitions(None, 10).await.unwrap().len(), 1);
    assert_eq!(finish(&lab, &new.id).await, SubState::Succeeded);
}

#[tokio::test]
async fn a_child_of_a_deleted_definition_fails_its_step_with_a_clear_error() {
    let lab = Lab::new();
    lab.apply(GATE).await;
    lab.apply("name: parent\nsteps: [{name: wait, signal: now}, {name: child, workflow: gate, dependsOn: [wait]}]")
        .await;
    let parent = lab.start("parent", json!(null)).await.id;
    // A stored execution is what keeps the name of a deleted definition known.
    let earlier = lab.start("gate", json!(null)).await.id;
    finish(&lab, &earlier).await;
    delete(&lab, "gate", false).await.unwrap();
    let signal = stateway_engine::Steer::Signal {
        name: "now".into(),
        payload: Arc::new(json!(null)),
    };
    lab.steer(&parent, signal).await.unwrap();
    let ended = lab.ended(&parent).await;
    assert_eq!(ended.sub_state, SubState::Failed);
    let error = ended.last_error.unwrap();
    assert_eq!(error.message, "the definition `gate` was deleted");
}

#[tokio::test]
async fn a_deleted_definition_is_started_neither_by_its_schedule_nor_by_events() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(NIGHTLY).await;
    delete(&lab, "nightly", false).await.unwrap();
    assert!(lab.engine.survey().await.unwrap().scheduled.is_empty());
    assert_eq!(publish(&lab, "e1").await, Default::default());
    let lab = lab.restart_after(|| clock.advance(48 * HOUR));
    assert!(lab.engine.survey().await.unwrap().scheduled.is_empty());
    assert_eq!(publish(&lab, "e2").await, Default::default());
    assert!(lab.ids().await.is_empty());
}

#[tokio::test]
async fn a_disabled_trigger_starts_nothing_after_a_restart_and_a_new_revision_either() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(NIGHTLY).await;
    switch(&lab, "nightly", false).await.unwrap();
    let refused = publish(&lab, "e1").await.refused;
    assert_eq!(
        refused,
        [("nightly".into(), "the trigger is disabled".to_owned())]
    );
    let lab = lab.restart_after(|| clock.advance(48 * HOUR));
    lab.apply(&format!("{NIGHTLY}\ndescription: Another revision."))
        .await;
    clock.advance(48 * HOUR);
    let survey = lab.engine.survey().await.unwrap();
    assert_eq!(survey.scheduled.len(), 1);
    assert_eq!(survey.scheduled[0].next, None);
    let disabled = survey.scheduled[0].disabled.clone().unwrap();
    assert_eq!((&*disabled.by, &*disabled.comment), ("ada", "maintenance"));
    assert_eq!(disabled.at.to_string(), "2026-01-01T00:00:00Z");
    assert!(lab.ids().await.is_empty());
    // A definition is started by hand all the same.
    lab.start("nightly", json!(null)).await;
}

#[tokio::test]
async fn an_enabled_schedule_does_not_make_up_for_the_times_it_missed() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(NIGHTLY).await;
    switch(&lab, "nightly", false).await.unwrap();
    clock.advance(71 * HOUR);
    switch(&lab, "nightly", true).await.unwrap();
    let lab = lab.restart();
    let scheduled = lab.engine.survey().await.unwrap().scheduled;
    let next = scheduled[0].next.unwrap();
    assert_eq!(next.to_string(), "2026-01-04T02:00:00Z");
    assert!(lab.engine.disabled_triggers().await.unwrap().is_empty());
    assert!(lab.ids().await.is_empty());
    clock.advance(3 * HOUR);
    lab.until_started(1).await;
    assert_eq!(lab.ids().await, ["nightly~20260104T020000Z".into()]);
    assert_eq!(publish(&lab, "e1").await.started.len(), 1);
}

#[tokio::test]
async fn switching_a_trigger_twice_is_the_same_as_once() {
    let (lab, clock) = Lab::by_hand();
    lab.apply(NIGHTLY).await;
    switch(&lab, "nightly", true).await.unwrap();
    switch(&lab, "nightly", false).await.unwrap();
    clock.advance(HOUR);
    switch(&lab, "nightly", false).await.unwrap();
    let disabled = lab.engine.disabled_triggers().await.unwrap();
    assert_eq!(disabled["nightly"].at.to_string(), "2026-01-01T00:00:00Z");
    delete(&lab, "nightly", false).await.unwrap();
    lab.apply(NIGHTLY).await;
    assert!(lab.engine.disabled_triggers().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_trigger_that_does_not_exist_cannot_be_disabled() {
    let lab = Lab::new();
    lab.apply(GATE).await;
    let refused = switch(&lab, "gate", false).await.unwrap_err();
    assert_eq!(refused.reason, "NO_TRIGGER");
    let refused = switch(&lab, "other", false).await.unwrap_err();
    assert_eq!(refused.reason, "DEFINITION_NOT_FOUND");
}

#[tokio::test]
async fn a_repeated_event_is_answered_as_before_though_the_trigger_is_disabled() {
    let lab = Lab::new();
    lab.apply(NIGHTLY).await;
    let first = publish(&lab, "e1").await;
    assert_eq!(first.started.len(), 1);
    switch(&lab, "nightly", false).await.unwrap();
    assert_eq!(publish(&lab, "e1").await, first);
    let history = lab.engine.history(first.started[0].clone(), 0, 10).await;
    let history = history.unwrap();
    assert!(matches!(
        history[0].event.fact,
        Fact::ExecutionCreated { .. }
    ));
}

#[tokio::test]
async fn a_definition_that_waits_for_itself_through_others_gets_a_warning() {
    let lab = Lab::new();
    let apply = async |source: &str| {
        let apply = stateway_engine::ApplyDefinition {
            source: source.to_owned(),
            source_name: "test.yaml".to_owned(),
            request: None,
        };
        let applied = lab.engine.apply(apply).await.unwrap();
        let found = applied.warnings.into_iter();
        let found = found.filter(|found| found.rule == stateway_definition::Rule::WaitsForItself);
        found.map(|found| found.to_string()).collect::<Vec<_>>()
    };
    let none: [String; 0] = [];
    assert_eq!(
        apply("name: a\nsteps: [{name: s, workflow: b}]").await,
        none
    );
    assert_eq!(
        apply("name: b\nconcurrency: 3\nsteps: [{name: s, workflow: c}]").await,
        none
    );
    let found = apply("name: c\nsteps:\n  - {name: s, workflow: a}").await;
    assert_eq!(
        found,
        [
            "test.yaml:3:25: warning[waits-for-itself]: `c` starts `a`, `a` starts `b`, `b` starts `c`: \
             at most 3 executions of `b` run at a time, so a child can wait for its own parent forever\n  \
             hint: Remove `concurrency` of `b`, or do not start `c` from its children."
        ]
    );
    // Without a limit it is a recursion that may end.
    assert_eq!(
        apply("name: b\nsteps: [{name: s, workflow: c}]").await,
        none
    );
}
