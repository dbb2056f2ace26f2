//! A1, A2, A3, A4 and D2, each by a process that dies between two writes of one turn.

use stateway_engine::{RetryFrom, Steer};
use stateway_model::SubState;

use super::*;

/// An execution that waits for a person, and what was done so far.
async fn waiting(lab: &Lab, deeds: &Deeds) -> Arc<str> {
    lab.apply(GATED).await;
    let worker = deeds.worker(lab, "w");
    let id = lab.start("gated", json!(1)).await.id;
    lab.until(&id, |view| view.sub_state == SubState::Waiting)
        .await;
    worker.abort();
    id
}

/// The turn that this leads to is torn between its events and its row.
async fn torn_by(trap: &Trap, act: impl Future<Output = Result<View, EngineError>>) {
    trap.set(Write::Status, Fate::Torn);
    let refused = act.await.unwrap_err();
    assert_eq!(refused.reason, "STORE_FAILED", "what died answers nothing");
    assert!(trap.sprung());
}

#[tokio::test]
async fn a1_the_row_waits_and_the_log_has_gone_on() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    let id = waiting(&lab, &deeds).await;
    torn_by(&trap, decide(&lab, &id, true)).await;

    let lab = die(lab, Code::A1);
    deeds.worker(&lab, "w");
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
    let audit = audit(&lab, &id).await;
    assert_eq!(audit.len(), 1, "{audit:?}");
    assert!(audit[0].0.starts_with("A1: "), "{audit:?}");
    assert_eq!((audit[0].1, audit[0].2, &*audit[0].4), (0, 0, "engine"));
    // The person is not asked again, and nothing is done twice.
    assert_eq!((deeds.of("a"), deeds.of("b")), (1, 1));
    all_is_well(&lab).await;
}

#[tokio::test]
async fn a2_the_log_waits_and_the_row_does_not() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply(GATED).await;
    let mut worker = lab.worker("w", &["x"], 1);
    let id = lab.start("gated", json!(1)).await.id;
    let task = worker.task().await;
    trap.set(Write::Status, Fate::Torn);
    worker.done(&task, json!("done once"));
    while !matches!(worker.message().await, WorkerMessage::Closed { .. }) {}

    let lab = die(lab, Code::A2);
    assert_eq!(lab.get(&id).await.sub_state, SubState::Waiting);
    deeds.worker(&lab, "w");
    decide(&lab, &id, true).await.unwrap();
    let ended = lab.ended(&id).await;
    assert_eq!(ended.sub_state, SubState::Succeeded);
    // What the worker said before the crash counts: it is not asked again.
    assert_eq!((deeds.of("a"), deeds.of("b")), (0, 1));
    assert!(audit(&lab, &id).await[0].0.starts_with("A2: "));
    all_is_well(&lab).await;
}

#[tokio::test]
async fn a3_the_log_has_ended_and_the_row_has_not() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply("name: one\nsteps: [{name: a, agent: x, timeout: 1h}]")
        .await;
    let mut worker = lab.worker("w", &["x"], 1);
    let id = lab.start("one", json!(1)).await.id;
    let task = worker.task().await;
    trap.set(Write::Status, Fate::Torn);
    worker.done(&task, json!("done once"));
    while !matches!(worker.message().await, WorkerMessage::Closed { .. }) {}

    let lab = die(lab, Code::A3);
    deeds.worker(&lab, "w");
    let ended = lab.ended(&id).await;
    assert_eq!(*ended.output.unwrap(), json!({"a": "done once"}));
    assert_eq!(deeds.of("a"), 0, "nothing is done again");
    assert!(audit(&lab, &id).await[0].0.starts_with("A3: "));
    // It counts as over everywhere: a list finds it so, and its place is free.
    let survey = lab.engine.survey().await.unwrap();
    assert_eq!(survey.active, 0);
    all_is_well(&lab).await;
}

#[tokio::test]
async fn a4_a_step_failed_and_the_row_does_not_say_so() {
    for (policy, shown) in [("abort", SubState::Failed), ("escalate", SubState::Error)] {
        let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
        let source =
            format!("name: one\nsteps: [{{name: a, agent: x, timeout: 1h, onFailure: {policy}}}]");
        lab.apply(&source).await;
        let mut worker = lab.worker("w", &["x"], 1);
        let id = lab.start("one", json!(1)).await.id;
        let task = worker.task().await;
        trap.set(Write::Status, Fate::Torn);
        worker.failed(&task, stateway_model::ErrorCategory::Validation);
        while !matches!(worker.message().await, WorkerMessage::Closed { .. }) {}

        let lab = die(lab, Code::A4);
        deeds.worker(&lab, "w");
        let view = lab.until(&id, |view| view.sub_state == shown).await;
        assert_eq!(view.last_error.unwrap().message, "no");
        assert_eq!(deeds.of("a"), 0, "what failed for good is not tried again");
        assert!(audit(&lab, &id).await[0].0.starts_with("A4: "));
        all_is_well(&lab).await;
    }
}

#[tokio::test]
async fn d2_the_log_went_on_as_another_branch_and_the_row_did_not() {
    for (write, fate) in [(Write::Status, Fate::Torn), (Write::Branch, Fate::Lost)] {
        let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
        let id = waiting(&lab, &deeds).await;
        trap.set(write, fate);
        let from = RetryFrom {
            step: "a".into(),
            ..RetryFrom::default()
        };
        let request = lab.key(3);
        let asked = lab
            .engine
            .retry_from(id.clone(), from, "ada".into(), request);
        let asked = asked.await;
        assert_eq!(asked.is_err(), fate == Fate::Torn);
        assert!(trap.sprung());

        let lab = die(lab, Code::D2);
        deeds.worker(&lab, "w");
        lab.until(&id, |view| {
            view.branch == 1 && view.sub_state == SubState::Waiting
        })
        .await;
        decide(&lab, &id, true).await.unwrap();
        assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);
        // What was asked for is done, once: `a` again on the new branch.
        assert_eq!((deeds.of("a"), deeds.of("b")), (2, 1));
        let audit = audit(&lab, &id).await;
        assert!(audit[0].0.starts_with("D2: "), "{audit:?}");
        assert_eq!(audit[0].2, 1);
        all_is_well(&lab).await;
    }
}

#[tokio::test]
async fn a_branch_that_was_only_prepared_is_harmless() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    let id = waiting(&lab, &deeds).await;
    trap.set(Write::Events, Fate::Torn);
    let from = || RetryFrom {
        step: "a".into(),
        ..RetryFrom::default()
    };
    let asked = lab
        .engine
        .retry_from(id.clone(), from(), "ada".into(), lab.key(3));
    assert!(asked.await.is_err());
    let lab = lab.restart();
    all_is_well(&lab).await;
    assert!(audit(&lab, &id).await.is_empty());
    deeds.worker(&lab, "w");
    let asked = lab
        .engine
        .retry_from(id.clone(), from(), "ada".into(), lab.key(3));
    assert_eq!(
        asked.await.unwrap().branch,
        2,
        "its number is not used again"
    );
    lab.until(&id, |view| view.sub_state == SubState::Waiting)
        .await;
    all_is_well(&lab).await;
}

#[tokio::test]
async fn a_recovery_is_asked_for_by_resuming() {
    let ((lab, trap), deeds) = (lab(|_| {}), Deeds::default());
    lab.apply(GATED).await;
    let mut worker = lab.worker("w", &["x"], 1);
    let id = lab.start("gated", json!(1)).await.id;
    let task = worker.task().await;
    // It stays in memory, where nothing is wrong; only the row did not learn that it is held.
    trap.set(Write::Status, Fate::Lost);
    let pause = Steer::Pause {
        cause: "look".into(),
    };
    lab.steer(&id, pause).await.unwrap();
    assert!(trap.sprung());
    assert!(audit(&lab, &id).await.is_empty());
    lab.steer(&id, Steer::Resume).await.unwrap();
    let events = lab.engine.history(id.clone(), 0, 1_000).await.unwrap();
    let recovered = events
        .iter()
        .find(|record| matches!(record.event.fact, Fact::ExecutionRecovered { .. }));
    assert_eq!(&*recovered.unwrap().event.causation, "resume");
    worker.done(&task, json!("done"));
    drop(worker);
    lab.until(&id, |view| view.sub_state == SubState::Waiting)
        .await;
    all_is_well(&lab).await;
    assert_eq!(deeds.of("a"), 0);
}

#[tokio::test]
async fn nobody_grants_what_they_had_done_again() {
    let ((lab, _), deeds) = (lab(|_| {}), Deeds::default());
    let id = waiting(&lab, &deeds).await;
    deeds.worker(&lab, "w");
    let from = RetryFrom {
        step: "a".into(),
        input: Some(Arc::new(json!("other"))),
        ..RetryFrom::default()
    };
    let again = lab
        .engine
        .retry_from(id.clone(), from, "bob".into(), lab.key(3));
    again.await.unwrap();
    lab.until(&id, |view| {
        view.branch == 1 && view.sub_state == SubState::Waiting
    })
    .await;
    let refused = decide(&lab, &id, true).await.unwrap_err();
    assert_eq!(refused.reason, "SELF_APPROVAL");
    let by_another = Decide {
        step: "ok".into(),
        attempt: 1,
        branch: None,
        grant: true,
        roles: vec!["boss".into()],
        comment: "".into(),
    };
    let granted = lab
        .engine
        .decide(id.clone(), by_another, "eve".into(), lab.key(8));
    granted.await.unwrap();
    assert_eq!(lab.ended(&id).await.sub_state, SubState::Succeeded);

    // A step that only waits takes no input.
    let from = RetryFrom {
        step: "ok".into(),
        input: Some(Arc::new(json!("other"))),
        ..RetryFrom::default()
    };
    let refused = lab
        .engine
        .retry_from(id.clone(), from, "ada".into(), lab.key(3));
    assert_eq!(refused.await.unwrap_err().reason, "STEP_TAKES_NO_INPUT");
}
