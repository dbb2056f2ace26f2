//! Rolling back and cancelling while workers are busy: their answers are awaited and compensated in
//! their place, a lost worker's step by rule, and a kill waits for nobody.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stateway_engine::{Steer, View, WorkerMessage, WorkerTask};
use stateway_machine::{CancelMode, ExecutionState, Fact};
use stateway_model::{ErrorCategory, Reason, SubState};

use crate::lab::{Hand, Lab};
use crate::time::pass;

const SECOND: i64 = 1_000;

/// After `a`, `b` and `c` run at the same time; `a` and `c` have compensations. `d` has no worker.
fn saga(of_c: &str) -> String {
    format!(
        "
name: saga
failurePolicy: compensate
steps:
  - {{name: a, agent: x, timeout: 1h}}
  - {{name: b, agent: y, timeout: 1h, dependsOn: [a]}}
  - {{name: c, agent: z, timeout: 1m, dependsOn: [a]}}
  - {{name: d, agent: nobody, timeout: 1h, dependsOn: [a]}}
compensation:
  - {{step: a, agent: u, action: undo-a}}
  - {{step: c, agent: u, action: undo-c{of_c}}}
"
    )
}

/// An execution of the saga whose step `b` has failed while a worker has `c`.
struct InFlight {
    id: Arc<str>,
    task: WorkerTask,
    worker: Hand,
    undoes: Hand,
}

impl InFlight {
    async fn new(lab: &Lab, of_c: &str) -> Self {
        lab.apply(&saga(of_c)).await;
        let (mut one, mut worker) = (
            lab.worker("w1", &["x", "y"], 1),
            lab.worker("w2", &["z"], 1),
        );
        let undoes = lab.worker("w3", &["u"], 1);
        let started = lab.start("saga", json!(null)).await;
        let a = one.task().await;
        one.done(&a, json!({"a": 1}));
        let task = worker.task().await;
        let b = one.task().await;
        one.failed(&b, ErrorCategory::Validation);
        lab.until(&started.id, |view| {
            view.state == ExecutionState::Compensating
        })
        .await;
        let WorkerMessage::Cancel { token } = worker.message().await else {
            panic!("the worker is asked to cancel");
        };
        assert_eq!(token, task.token);
        Self {
            id: started.id,
            task,
            worker,
            undoes,
        }
    }

    /// Completes the compensations of these steps, in this order, and nothing else.
    async fn undone(&mut self, lab: &Lab, steps: &[&str]) -> View {
        for step in steps {
            let task = self.undoes.task().await;
            assert_eq!((&*task.task.step, task.task.undo), (*step, true));
            self.undoes.done(&task, json!(null));
        }
        lab.ended(&self.id).await
    }
}

async fn recorded(lab: &Lab, id: &Arc<str>) -> Vec<Fact> {
    let history = lab.engine.history(id.clone(), 0, 1_000).await.unwrap();
    history
        .into_iter()
        .map(|record| record.event.fact)
        .collect()
}

async fn cancel(lab: &Lab, id: &Arc<str>, mode: CancelMode) -> View {
    let cause = "no longer wanted".into();
    lab.steer(id, Steer::Cancel { mode, cause }).await.unwrap()
}

#[tokio::test]
async fn work_in_flight_is_awaited_and_compensated_in_the_order_of_its_completion() {
    let lab = Lab::new();
    let mut flight = InFlight::new(&lab, "").await;
    let facts = recorded(&lab, &flight.id).await;
    let awaited = facts.iter().find_map(|fact| match fact {
        Fact::CompensationStarted { awaited, .. } => Some(awaited.clone()),
        _ => None,
    });
    assert_eq!(awaited, Some(vec!["c".into()]), "`d` was with no worker");
    let compensating = |fact: &Fact| matches!(fact, Fact::StepCompensationStarted { .. });
    assert!(!facts.iter().any(compensating), "`c` is awaited first");
    flight.worker.done(&flight.task, json!({"c": 1}));
    let WorkerMessage::Accepted { token } = flight.worker.message().await else {
        panic!("the answer is accepted");
    };
    assert_eq!(token, flight.task.token);
    let undo = flight.undoes.task().await;
    assert_eq!((&*undo.task.step, &*undo.action), ("c", "undo-c"));
    assert_eq!((&*undo.input, undo.unknown), (&json!({"c": 1}), false));
    flight.undoes.done(&undo, json!(null));
    let view = flight.undone(&lab, &["a"]).await;
    assert_eq!(
        (view.state, view.reason),
        (ExecutionState::RolledBack, Some(Reason::RolledBack))
    );
    assert_eq!(view.not_rolled_back, Vec::<Arc<str>>::new());
    let d = view.steps.iter().find(|step| step.name == "d");
    let d = d.map(|step| step.native_state.as_str());
    assert_eq!(d, Some("cancelled"), "no worker had `d`");
}

#[tokio::test]
async fn work_in_flight_that_fails_or_is_given_back_is_not_compensated() {
    for given_back in [false, true] {
        let lab = Lab::new();
        let mut flight = InFlight::new(&lab, "").await;
        if given_back {
            let answers = flight.worker.session.answers();
            let token = flight.task.token.clone();
            answers.settle(
                token,
                stateway_engine::Outcome::Released { begun: false },
                None,
            );
        } else {
            flight.worker.failed(&flight.task, ErrorCategory::Transient);
        }
        assert!(matches!(
            flight.worker.message().await,
            WorkerMessage::Accepted { .. }
        ));
        let view = flight.undone(&lab, &["a"]).await;
        assert_eq!(view.state, ExecutionState::RolledBack);
    }
}

#[tokio::test]
async fn a_step_whose_worker_is_lost_is_compensated_and_its_outcome_recorded_as_unknown() {
    let lab = Lab::with(|config| config.reconnect = Duration::from_millis(1));
    let InFlight {
        id,
        worker,
        mut undoes,
        ..
    } = InFlight::new(&lab, "").await;
    drop(worker);
    let undo = undoes.task().await;
    assert_eq!((&*undo.task.step, undo.unknown), ("c", true));
    assert_eq!(*undo.input, json!(null), "nobody knows an output");
    undoes.done(&undo, json!(null));
    let undo = undoes.task().await;
    assert_eq!((&*undo.task.step, undo.unknown), ("a", false));
    undoes.done(&undo, json!(null));
    let view = lab.ended(&id).await;
    assert_eq!(view.state, ExecutionState::RolledBack);
    let unknown = Fact::OutcomeUnknown {
        step: "c".into(),
        attempt: 1,
        compensate: true,
    };
    assert!(recorded(&lab, &id).await.contains(&unknown));
}

#[tokio::test]
async fn a_step_whose_worker_is_lost_is_not_compensated_where_the_definition_says_so() {
    let lab = Lab::with(|config| config.reconnect = Duration::from_millis(1));
    let flight = InFlight::new(&lab, ", compensateUnknown: false").await;
    let InFlight {
        id,
        worker,
        mut undoes,
        ..
    } = flight;
    drop(worker);
    let undo = undoes.task().await;
    assert_eq!(&*undo.task.step, "a");
    undoes.done(&undo, json!(null));
    lab.ended(&id).await;
    let unknown = Fact::OutcomeUnknown {
        step: "c".into(),
        attempt: 1,
        compensate: false,
    };
    assert!(recorded(&lab, &id).await.contains(&unknown));
}

#[tokio::test]
async fn work_in_flight_is_awaited_no_longer_than_its_timeout() {
    let (lab, clock) = Lab::by_hand();
    let mut flight = InFlight::new(&lab, "").await;
    pass(&lab, &clock, 60 * SECOND).await;
    let WorkerMessage::Withdrawn { reason, .. } = flight.worker.message().await else {
        panic!("the task is withdrawn");
    };
    assert_eq!(reason, "TIMED_OUT");
    let view = flight.undone(&lab, &["c", "a"]).await;
    assert_eq!(view.state, ExecutionState::RolledBack);
}

#[tokio::test]
async fn a_cancelled_execution_ends_when_its_work_in_flight_has() {
    let lab = Lab::new();
    lab.apply(&saga("")).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("saga", json!(null)).await;
    let a = worker.task().await;
    let view = cancel(&lab, &started.id, CancelMode::Stop).await;
    assert_eq!(view.state, ExecutionState::Cancelling);
    assert!(matches!(
        worker.message().await,
        WorkerMessage::Cancel { .. }
    ));
    worker.done(&a, json!(1));
    let view = lab.ended(&started.id).await;
    assert_eq!(
        (view.state, view.reason),
        (ExecutionState::Cancelled, Some(Reason::Cancelled))
    );
}

#[tokio::test]
async fn a_kill_waits_for_nobody() {
    let lab = Lab::new();
    lab.apply(&saga("")).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("saga", json!(null)).await;
    let a = worker.task().await;
    let view = cancel(&lab, &started.id, CancelMode::Kill).await;
    assert_eq!(
        (view.state, view.reason),
        (ExecutionState::Cancelled, Some(Reason::Killed))
    );
    let WorkerMessage::Withdrawn { reason, .. } = worker.message().await else {
        panic!("the task is withdrawn");
    };
    assert_eq!(reason, "CANCELLED");
    worker.done(&a, json!(1));
    assert!(matches!(
        worker.message().await,
        WorkerMessage::Refused { .. }
    ));
}

#[tokio::test]
async fn a_cancellation_reaches_a_worker_that_reconnects() {
    let lab = Lab::new();
    lab.apply(&saga("")).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("saga", json!(null)).await;
    let a = worker.task().await;
    drop(worker);
    cancel(&lab, &started.id, CancelMode::Compensate).await;
    let mut again = lab.worker("w1", &["x"], 1);
    assert!(matches!(again.message().await, WorkerMessage::Task(task) if task.token == a.token));
    assert!(matches!(again.message().await, WorkerMessage::Cancel { token } if token == a.token));
    again.done(&a, json!(1));
    let mut undoes = lab.worker("w3", &["u"], 1);
    let undo = undoes.task().await;
    undoes.done(&undo, json!(null));
    let view = lab.ended(&started.id).await;
    assert_eq!(view.state, ExecutionState::Cancelled);
}

const ONE: &str = "
name: one
failurePolicy: compensate
steps:
  - {name: a, agent: x, timeout: 1h}
  - {name: b, agent: x, timeout: 1h, dependsOn: [a]}
compensation:
  - {step: a, agent: u, timeout: 1m}
";

/// An execution that has to compensate `a`.
async fn compensating(lab: &Lab) -> Arc<str> {
    lab.apply(ONE).await;
    let mut worker = lab.worker("w1", &["x"], 1);
    let started = lab.start("one", json!(null)).await;
    let a = worker.task().await;
    worker.done(&a, json!(1));
    let b = worker.task().await;
    worker.failed(&b, ErrorCategory::Validation);
    lab.until(&started.id, |view| {
        view.state == ExecutionState::Compensating
    })
    .await;
    started.id
}

#[tokio::test]
async fn a_compensation_survives_a_transient_failure_and_a_timeout() {
    let (lab, clock) = Lab::by_hand();
    let id = compensating(&lab).await;
    let mut undoes = lab.worker("u1", &["u"], 1);
    let undo = undoes.task().await;
    undoes.failed(&undo, ErrorCategory::Transient);
    assert!(matches!(
        undoes.message().await,
        WorkerMessage::Accepted { .. }
    ));
    pass(&lab, &clock, 60 * SECOND).await;
    let undo = undoes.task().await;
    assert_eq!(undo.task.attempt, 2);
    pass(&lab, &clock, 60 * SECOND).await;
    let WorkerMessage::Withdrawn { reason, .. } = undoes.message().await else {
        panic!("the task is withdrawn");
    };
    assert_eq!(reason, "TIMED_OUT");
    pass(&lab, &clock, 60 * SECOND).await;
    let undo = undoes.task().await;
    assert_eq!(undo.task.attempt, 3);
    undoes.done(&undo, json!(null));
    let view = lab.ended(&id).await;
    assert_eq!(
        (view.state, view.reason),
        (ExecutionState::RolledBack, Some(Reason::RolledBack))
    );
}

#[tokio::test]
async fn a_compensation_waits_for_a_worker() {
    let (lab, clock) = Lab::by_hand();
    let id = compensating(&lab).await;
    pass(&lab, &clock, 24 * 3_600 * SECOND).await;
    let view = lab.get(&id).await;
    assert_eq!(
        (view.sub_state, view.reason),
        (SubState::Waiting, Some(Reason::NoWorker))
    );
    let mut undoes = lab.worker("u1", &["u"], 1);
    let undo = undoes.task().await;
    assert_eq!(undo.task.attempt, 1);
    undoes.done(&undo, json!(null));
    assert_eq!(lab.ended(&id).await.state, ExecutionState::RolledBack);
}

#[tokio::test]
async fn a_compensation_that_is_never_to_be_retried_ends_the_rollback_partially() {
    let lab = Lab::new();
    let id = compensating(&lab).await;
    let mut undoes = lab.worker("u1", &["u"], 1);
    let undo = undoes.task().await;
    let mut failure = stateway_machine::Failure::reported(ErrorCategory::Transient, "gone");
    failure.no_retry = true;
    let answers = undoes.session.answers();
    let failed = stateway_engine::Outcome::Failed(failure);
    answers.settle(undo.token.clone(), failed, None);
    let view = lab.ended(&id).await;
    assert_eq!(view.reason, Some(Reason::PartiallyRolledBack));
    assert_eq!(view.not_rolled_back, ["a".into()] as [Arc<str>; 1]);
}
