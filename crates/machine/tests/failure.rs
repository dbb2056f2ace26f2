//! Retries, corrections, timeouts, and what follows a failure.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod kit;

use std::time::Duration;

use kit::Run;
use serde_json::json;
use stateway_machine::ExecutionState::{Compensating, Completed, Escalated, Failed, Paused};
use stateway_machine::{
    Failure, Obligation, Rejection, StepState, StepTimer, Task, Verb, obligations, sub_state,
};
use stateway_model::ErrorCategory::{AgentError, External, Governance, Timeout, Transient};
use stateway_model::SubState;

const RETRY: &str = "steps: [{name: a, retryPolicy: {maxRetries: 2, initialDelay: 4s}}]";

#[test]
fn a_transient_failure_is_repeated_after_a_pause_until_the_bound() {
    let mut run = Run::started(RETRY);
    assert_eq!(
        run.fail("a", Transient),
        ["AttemptFailed", "RetryScheduled"]
    );
    assert_eq!(run.step("a"), StepState::BackingOff);
    assert_eq!(sub_state(&run.state).0, SubState::BackingOff);
    assert_eq!(run.fire("a", StepTimer::Retry), ["StepStarted"]);
    run.fail("a", External);
    run.fire("a", StepTimer::Retry);
    assert_eq!(run.task("a"), Task::of("a", 3));
    assert_eq!(
        run.fail("a", Transient),
        ["AttemptFailed", "ExecutionFailed"]
    );
    assert_eq!(
        (run.at(), run.reason().as_str()),
        (Failed, "RETRIES_EXHAUSTED")
    );
}

#[test]
fn pauses_double_and_the_timer_says_when() {
    let mut run = Run::started(RETRY);
    let begun = run.now;
    run.fail("a", Transient);
    assert_eq!(
        run.timers()[0].1,
        stateway_machine::later(begun, Duration::from_secs(4))
    );
    run.fire("a", StepTimer::Retry);
    let again = run.now;
    run.fail("a", Transient);
    assert_eq!(
        run.timers()[0].1,
        stateway_machine::later(again, Duration::from_secs(8))
    );
}

#[test]
fn a_retry_before_its_time_is_refused_and_retry_now_is_not() {
    let mut run = Run::started(RETRY);
    run.fail("a", Transient);
    let (timer, _) = run.timers().remove(0);
    assert_eq!(
        run.refused(Verb::FireTimer {
            timer: timer.clone()
        }),
        Rejection::TimerNotDue
    );
    assert_eq!(run.ok(Verb::RetryNow { step: "a".into() }), ["StepStarted"]);
    assert_eq!(
        run.refused(Verb::FireTimer { timer }),
        Rejection::StaleTimer
    );
    let rejection = run.refused(Verb::RetryNow { step: "a".into() });
    assert_eq!(rejection, Rejection::NotBackingOff { step: "a".into() });
}

#[test]
fn an_answer_to_an_older_attempt_is_refused() {
    let mut run = Run::started(RETRY);
    let first = run.task("a");
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    let failure = Failure::reported(Transient, "late");
    let rejection = run.refused(Verb::fail(first, failure));
    let state = StepState::Running;
    assert_eq!(
        rejection,
        Rejection::StaleAttempt {
            step: "a".into(),
            attempt: 1,
            state
        }
    );
}

#[test]
fn the_key_of_an_attempt_names_execution_branch_step_and_attempt() {
    let mut run = Run::started(RETRY);
    let keys = |run: &Run| {
        let orders = obligations(&run.state).into_iter();
        orders
            .filter_map(|o| {
                if let Obligation::Task(t) = o {
                    Some(t.key.to_string())
                } else {
                    None
                }
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&run), ["e1/0/a/1"]);
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    assert_eq!(keys(&run), ["e1/0/a/2"]);
    run.ok(Verb::OpenBranch {
        branch: 1,
        cutoff: 3,
        by: "bob".into(),
        redo: None,
    });
    assert_eq!(keys(&run), ["e1/1/a/2"]);
}

#[test]
fn an_agent_error_without_a_policy_is_final() {
    let mut run = Run::started("steps: [{name: a}]");
    assert_eq!(
        run.fail("a", AgentError),
        ["AttemptFailed", "ExecutionFailed"]
    );
}

#[test]
fn an_attempt_that_takes_too_long_is_not_repeated_and_its_answer_is_refused() {
    let mut run = Run::started("steps: [{name: a, timeout: 5m, retryPolicy: {maxRetries: 3}}]");
    let task = run.task("a");
    assert_eq!(
        run.fire("a", StepTimer::Timeout),
        ["AttemptFailed", "ExecutionFailed"]
    );
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "TIMED_OUT"));
    run.refused(Verb::complete(task, json!(1).into()));
}

#[test]
fn a_timeout_is_repeated_where_the_step_says_so() {
    let yaml = "steps: [{name: a, timeout: 5m, retryPolicy: {retryOn: [timeout]}}]";
    let mut run = Run::started(yaml);
    assert_eq!(
        run.fire("a", StepTimer::Timeout),
        ["AttemptFailed", "RetryScheduled"]
    );
}

#[test]
fn a_timeout_escalates_where_the_step_says_so() {
    let mut run = Run::started("steps: [{name: a, timeout: 5m, onTimeout: escalate}]");
    assert_eq!(
        run.fire("a", StepTimer::Timeout),
        ["AttemptFailed", "ExecutionEscalated"]
    );
    assert_eq!(
        (run.at(), sub_state(&run.state).0),
        (Escalated, SubState::Error)
    );
}

#[test]
fn a_heartbeat_puts_the_silence_off_and_silence_fails_the_attempt() {
    let mut run = Run::started("steps: [{name: a, heartbeatTimeout: 30s}]");
    run.wait(Duration::from_secs(20));
    assert_eq!(run.ok(Verb::heartbeat("a", 1)), ["HeartbeatRecorded"]);
    let due = run.timers()[0].1;
    assert_eq!(
        due,
        stateway_machine::later(run.now, Duration::from_secs(30))
    );
    assert_eq!(
        run.fire("a", StepTimer::Heartbeat),
        ["AttemptFailed", "ExecutionFailed"]
    );
}

#[test]
fn the_workflow_timeout_goes_before_the_steps_and_waiting_counts() {
    let yaml = "timeout: 10m\nsteps: [{name: a, approval: {role: boss, expiresAfter: 1h}}]";
    let mut run = Run::started(yaml);
    assert_eq!(run.expire(), ["ExecutionFailed"]);
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "TIMED_OUT"));
}

/// Both are due at the same moment; a step that may be left out must not save the workflow.
#[test]
fn the_workflow_timeout_goes_first_whichever_timer_is_fired() {
    let yaml = "timeout: 10m\nsteps: [{name: a, timeout: 10m, onFailure: skip}]";
    let mut run = Run::started(yaml);
    assert_eq!(run.fire("a", StepTimer::Timeout), ["ExecutionFailed"]);
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "TIMED_OUT"));
}

#[test]
fn the_workflow_timeout_counts_while_held() {
    let mut run = Run::started("timeout: 10m\nsteps: [{name: a}]");
    run.pause();
    assert_eq!(run.expire(), ["ExecutionFailed"]);
}

#[test]
fn the_workflow_timeout_follows_the_failure_policy() {
    let yaml = "timeout: 10m\nfailurePolicy: compensate\nsteps: [{name: a}, {name: b, dependsOn: \
                [a]}]\ncompensation: [{step: a}]";
    let mut run = Run::started(yaml);
    run.done("a");
    assert_eq!(
        run.expire(),
        ["CompensationStarted", "StepCompensationStarted"]
    );
    assert_eq!(run.at(), Compensating);
}

#[test]
fn without_a_word_of_the_step_the_failure_policy_decides() {
    let yaml = "failurePolicy: compensate\nsteps: [{name: a}, {name: b, onFailure: abort}]";
    let mut run = Run::started(yaml);
    assert_eq!(
        run.fail("b", AgentError),
        ["AttemptFailed", "ExecutionFailed"]
    );
    let mut run = Run::started(yaml);
    let events = run.fail("a", AgentError);
    assert_eq!(
        events,
        [
            "AttemptFailed",
            "CompensationStarted",
            "ExecutionRolledBack"
        ]
    );
}

#[test]
fn pause_on_failure_holds_until_resumed_and_then_tries_afresh() {
    let mut run = Run::started("steps: [{name: a, on_failure: pause_workflow}]");
    assert_eq!(
        run.fail("a", AgentError),
        ["AttemptFailed", "ExecutionPaused"]
    );
    assert_eq!(
        (run.at(), sub_state(&run.state).0),
        (Paused, SubState::Error)
    );
    assert!(obligations(&run.state).is_empty());
    assert_eq!(run.resume(), ["ExecutionResumed", "StepStarted"]);
    assert_eq!(run.task("a"), Task::of("a", 2));
    assert_eq!(run.done("a"), ["StepCompleted", "ExecutionCompleted"]);
    assert_eq!(run.at(), Completed);
}

#[test]
fn a_forbidden_action_escalates_whatever_the_step_says() {
    let mut run = Run::started("steps: [{name: a, onFailure: skip, retryPolicy: {maxRetries: 9}}]");
    assert_eq!(
        run.fail("a", Governance),
        ["AttemptFailed", "ExecutionEscalated"]
    );
    assert_eq!(run.at(), Escalated);
}

#[test]
fn an_output_that_does_not_fit_is_corrected_with_feedback_up_to_the_bound() {
    let yaml = "steps: [{name: a, outputSchema: {type: object, required: [id]}, \
                maxCorrectionAttempts: 1}]";
    let mut run = Run::started(yaml);
    assert_eq!(
        run.complete("a", json!({})),
        ["AttemptFailed", "CorrectionRequested"]
    );
    assert_eq!(
        (run.step("a"), run.task("a")),
        (StepState::Correcting, Task::of("a", 2))
    );
    let feedback = obligations(&run.state)
        .into_iter()
        .find_map(|obligation| match obligation {
            Obligation::Task(order) => order.feedback,
            _ => None,
        });
    assert_eq!(
        feedback.as_deref(),
        Some("the output: \"id\" is a required property")
    );
    run.ok(Verb::AssignTask {
        task: Task::of("a", 2),
        worker: "w".into(),
    });
    assert_eq!(run.step("a"), StepState::Running);
    assert_eq!(
        run.complete("a", json!({})),
        ["AttemptFailed", "ExecutionFailed"]
    );
}

#[test]
fn a_corrected_output_completes_the_step() {
    let yaml = "steps: [{name: a, outputSchema: {type: integer}, maxCorrectionAttempts: 2}]";
    let mut run = Run::started(yaml);
    run.complete("a", json!("seven"));
    assert_eq!(
        run.complete("a", json!(7)),
        ["StepCompleted", "ExecutionCompleted"]
    );
}

#[test]
fn a_worker_keeps_its_task_and_another_cannot_take_it() {
    let mut run = Run::started("steps: [{name: a}]");
    let assign = |worker: &str| Verb::AssignTask {
        task: Task::of("a", 1),
        worker: worker.into(),
    };
    assert_eq!(run.ok(assign("w1")), ["TaskAssigned"]);
    assert_eq!(run.ok(assign("w1")), Vec::<&str>::new());
    let worker = "w1".into();
    let taken = Rejection::AlreadyAssigned {
        step: "a".into(),
        attempt: 1,
        worker,
    };
    assert_eq!(run.refused(assign("w2")), taken);
    assert_eq!(
        run.ok(Verb::ReleaseTask {
            task: Task::of("a", 1)
        }),
        ["TaskReleased"]
    );
    assert_eq!(run.ok(assign("w2")), ["TaskAssigned"]);
}

#[test]
fn a_child_gives_its_answer_or_its_failure() {
    let yaml = "steps: [{name: a, workflow: child, retryPolicy: {maxRetries: 1}}]";
    let finish = |attempt, outcome| Verb::FinishChild {
        step: "a".into(),
        attempt,
        outcome,
    };
    let mut run = Run::started(yaml);
    let failure = Failure::reported(Timeout, "the child failed");
    run.refused(finish(2, Err(failure)));
    let failure = Failure::reported(Transient, "the child failed");
    assert_eq!(
        run.ok(finish(1, Err(failure))),
        ["AttemptFailed", "RetryScheduled"]
    );
    assert_eq!(run.fire("a", StepTimer::Retry), ["StepWaiting"]);
    let events = run.ok(finish(2, Ok(json!("fine").into())));
    assert_eq!(events, ["StepCompleted", "ExecutionCompleted"]);
}

/// A child starts over; it cannot be told what was wrong, and no worker stands in for it.
#[test]
fn a_child_is_not_corrected_and_its_step_is_never_given_to_a_worker() {
    let yaml = "steps: [{name: a, workflow: child, outputSchema: {type: string}, \
                maxCorrectionAttempts: 2}]";
    let mut run = Run::started(yaml);
    let events = run.ok(Verb::FinishChild {
        step: "a".into(),
        attempt: 1,
        outcome: Ok(json!(1).into()),
    });
    assert_eq!(events, ["AttemptFailed", "ExecutionFailed"]);
    assert_eq!(run.tasks(), []);
}
