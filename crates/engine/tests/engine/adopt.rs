//! A running execution is offered another revision of its definition.

use std::sync::Arc;

use serde_json::json;
use stateway_engine::{AdoptDefinition, EngineError, ErrorKind, RetryFrom, Steer, View};
use stateway_model::{ErrorCategory, Reason, SubState};

use crate::lab::{Hand, Lab};

const OLD: &str = "
name: chain
steps:
  - {name: a, agent: x, timeout: 1m}
  - {name: b, agent: x, dependsOn: [a], timeout: 1m}
";
/// The second step is done by another role, and a third step follows.
const LONGER: &str = "
name: chain
steps:
  - {name: a, agent: x, timeout: 1m}
  - {name: b, agent: y, dependsOn: [a], timeout: 1m}
  - {name: c, agent: y, dependsOn: [b], timeout: 1m}
";
/// The first step is another one.
const OTHER: &str = "
name: chain
steps:
  - {name: a, agent: x, timeout: 2m}
  - {name: b, agent: x, dependsOn: [a], timeout: 1m}
";

async fn adopt(lab: &Lab, id: &Arc<str>, revision: Option<&str>) -> Result<View, EngineError> {
    let revision = revision.map(Into::into);
    let adopt = AdoptDefinition {
        revision,
        actor: "ada".into(),
    };
    lab.engine
        .adopt_definition(id.clone(), adopt, lab.key(5))
        .await
}

/// An execution under [`OLD`] whose first step is with a worker.
async fn begun(lab: &Lab, worker: &mut Hand) -> (View, stateway_engine::WorkerTask) {
    lab.apply(OLD).await;
    let view = lab.start("chain", json!(null)).await;
    let task = worker.task().await;
    assert_eq!(&*task.task.step, "a");
    (view, task)
}

#[tokio::test]
async fn a_compatible_revision_is_adopted_and_survives_a_restart() {
    let lab = Lab::new();
    let mut worker = lab.worker("w1", &["x"], 1);
    let (old, a) = begun(&lab, &mut worker).await;
    lab.apply(LONGER).await;
    let adopted = adopt(&lab, &old.id, None).await.unwrap();
    assert_ne!(adopted.revision, old.revision);
    assert_eq!(adopted.sub_state, SubState::Running);

    let lab = lab.restart();
    let worker = lab.worker("w1", &["x"], 1).remembers(&a);
    worker.done(&a, json!(1));
    let mut other = lab.worker("w2", &["y"], 1);
    let b = other.task().await;
    assert_eq!(&*b.task.step, "b");
    other.done(&b, json!(2));
    let c = other.task().await;
    other.done(&c, json!({"did": "c"}));
    let ended = lab.ended(&old.id).await;
    assert_eq!(ended.revision, adopted.revision);
    assert_eq!(*ended.output.unwrap(), json!({"c": {"did": "c"}}));
    crate::lab::all_is_well(&lab).await;
}

#[tokio::test]
async fn a_snapshot_after_the_adoption_is_read_back() {
    let lab = Lab::with(|config| config.snapshot_events = 1);
    let mut worker = lab.worker("w1", &["x"], 1);
    let (old, a) = begun(&lab, &mut worker).await;
    lab.apply(LONGER).await;
    let adopted = adopt(&lab, &old.id, None).await.unwrap();
    worker.done(&a, json!(1));
    let waiting = |view: &View| !view.unserved.is_empty();
    lab.until(&old.id, waiting).await;
    let lab = lab.restart();
    assert_eq!(lab.get(&old.id).await.revision, adopted.revision);
    lab.worker("w2", &["y"], 1).diligent();
    assert_eq!(lab.ended(&old.id).await.sub_state, SubState::Succeeded);
    crate::lab::all_is_well(&lab).await;
}

#[tokio::test]
async fn a_branch_has_the_revision_of_the_place_it_grows_from() {
    let lab = Lab::new();
    let mut worker = lab.worker("w1", &["x", "y"], 1);
    let (old, a) = begun(&lab, &mut worker).await;
    lab.apply(LONGER).await;
    let adopted = adopt(&lab, &old.id, None).await.unwrap();
    worker.done(&a, json!(1));
    let b = worker.task().await;
    worker.failed(&b, ErrorCategory::AgentError);
    assert_eq!(lab.ended(&old.id).await.sub_state, SubState::Failed);
    let from = async |lab: &Lab, step: &str| {
        let from = RetryFrom {
            step: step.into(),
            ..RetryFrom::default()
        };
        let asked = lab
            .engine
            .retry_from(old.id.clone(), from, "eve".into(), lab.key(3));
        asked.await.unwrap()
    };
    // After the adoption: the new revision.
    let again = from(&lab, "b").await;
    assert_eq!(again.revision, adopted.revision);
    let lab = lab.restart();
    assert_eq!(lab.get(&old.id).await.revision, adopted.revision);
    // Before it: the revision of that time.
    let again = from(&lab, "a").await;
    assert_eq!(again.revision, old.revision);
    let lab = lab.restart();
    assert_eq!(lab.get(&old.id).await.revision, old.revision);
    lab.worker("w3", &["x"], 1).diligent();
    let ended = lab.ended(&old.id).await;
    assert_eq!(*ended.output.unwrap(), json!({"b": {"did": "b"}}));
    crate::lab::all_is_well(&lab).await;
}

#[tokio::test]
async fn an_incompatible_revision_pauses_the_execution_and_names_the_difference() {
    let lab = Lab::new();
    let mut worker = lab.worker("w1", &["x"], 1);
    let (old, a) = begun(&lab, &mut worker).await;
    lab.apply(OTHER).await;
    let paused = adopt(&lab, &old.id, None).await.unwrap();
    assert_eq!(paused.revision, old.revision);
    assert_eq!(
        (paused.sub_state, paused.reason),
        (SubState::Error, Some(Reason::Paused))
    );
    let error = paused.last_error.unwrap();
    assert_eq!(error.native_code, "REVISION_MISMATCH");
    let difference = "step `a` has begun and is different in the new revision: `timeout` was 1m and \
                      is now 2m";
    assert!(error.message.ends_with(difference), "{}", error.message);

    let lab = lab.restart();
    let shown = lab.get(&old.id).await.last_error.unwrap();
    assert_eq!(shown.message, error.message);
    // Offered again, the answer is the same difference.
    let refused = adopt(&lab, &old.id, None).await.unwrap_err();
    assert_eq!(refused.reason, "INCOMPATIBLE_REVISION");
    assert!(refused.message.contains(difference), "{}", refused.message);
    // Resumed, it continues under the old revision.
    let resumed = lab.steer(&old.id, Steer::Resume).await.unwrap();
    assert_eq!((resumed.revision, resumed.last_error), (old.revision, None));
    let worker = lab.worker("w1", &["x"], 1).remembers(&a);
    worker.done(&a, json!(1));
    worker.diligent();
    assert_eq!(lab.ended(&old.id).await.sub_state, SubState::Succeeded);
    crate::lab::all_is_well(&lab).await;
}

#[tokio::test]
async fn a_named_revision_is_offered_and_a_repeated_request_has_no_further_effect() {
    let lab = Lab::new();
    let mut worker = lab.worker("w1", &["x"], 1);
    let (old, _) = begun(&lab, &mut worker).await;
    lab.apply(LONGER).await;
    let longer = lab.engine.definition("chain".into(), None).await.unwrap();
    lab.apply(OTHER).await;
    let key = lab.key(5);
    let named = AdoptDefinition {
        revision: Some(longer.revision.clone()),
        actor: "ada".into(),
    };
    for _ in 0..2 {
        let asked = lab
            .engine
            .adopt_definition(old.id.clone(), named.clone(), key.clone());
        assert_eq!(asked.await.unwrap().revision, longer.revision);
    }
    // Its own revision changes nothing.
    let before = lab.get(&old.id).await.sequence;
    let same = adopt(&lab, &old.id, Some(&longer.revision)).await.unwrap();
    assert_eq!(same.sequence, before);
    let refused = adopt(&lab, &old.id, Some(&"0".repeat(64)))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind, refused.reason),
        (ErrorKind::NotFound, "REVISION_NOT_FOUND")
    );
    let unknown = adopt(&lab, &"nobody".into(), None).await.unwrap_err();
    assert_eq!(unknown.reason, "EXECUTION_NOT_FOUND");
}

#[tokio::test]
async fn a_finished_execution_adopts_nothing() {
    let lab = Lab::new();
    lab.apply(OLD).await;
    lab.worker("w1", &["x"], 1).diligent();
    let id = lab.start("chain", json!(null)).await.id;
    lab.ended(&id).await;
    lab.apply(LONGER).await;
    let refused = adopt(&lab, &id, None).await.unwrap_err();
    assert_eq!(refused.reason, "ALREADY_FINISHED");
}

#[tokio::test]
async fn an_adopted_revision_is_kept_when_the_definition_is_deleted() {
    let lab = Lab::with(|config| config.snapshot_events = 1);
    let mut worker = lab.worker("w1", &["x"], 1);
    let (old, a) = begun(&lab, &mut worker).await;
    lab.apply(LONGER).await;
    let adopted = adopt(&lab, &old.id, None).await.unwrap();
    let delete = stateway_engine::DeleteDefinition {
        name: "chain".into(),
        keep_running: true,
        request: lab.key(9),
    };
    lab.engine.delete_definition(delete).await.unwrap();
    let refused = adopt(&lab, &old.id, None).await.unwrap_err();
    assert_eq!(refused.message, "the definition `chain` was deleted");
    let lab = lab.restart();
    let worker = lab.worker("w1", &["x"], 1).remembers(&a);
    worker.done(&a, json!(1));
    lab.worker("w2", &["y"], 1).diligent();
    let ended = lab.ended(&old.id).await;
    assert_eq!(
        (ended.sub_state, ended.revision),
        (SubState::Succeeded, adopted.revision)
    );
    crate::lab::all_is_well(&lab).await;
}
