//! Retries, corrections, and what follows a failure that is not retried.

use std::time::Duration;

use serde_json::json;
use stateway_machine::ExecutionState::{Completed, Escalated, Failed, Paused};
use stateway_machine::{
    Failure, FailureCause, Rejection, StepState, StepTimer, Task, Verb, last_error, not_retried,
    obligations, step_views, sub_state,
};
use stateway_model::ErrorCategory::{
    AgentError, External, Governance, Timeout, Transient, Validation,
};
use stateway_model::{RetryBasis, SubState, Usage};

use crate::kit::Run;

const RETRY: &str = "steps: [{name: a, retryPolicy: {maxRetries: 2, initialDelay: 4s}}]";
const CORRECTED: &str = "steps: [{name: a, outputSchema: {type: object, required: [id]}, \
                         maxCorrectionAttempts: 1}]";

#[test]
fn a_transient_failure_is_retried_after_a_back_off_until_the_bound() {
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
fn back_offs_double_and_the_timer_is_due_at_their_end() {
    let mut run = Run::started(RETRY);
    run.fail("a", Transient);
    assert_eq!(run.due_in("a", StepTimer::Retry), Some(4));
    run.fire("a", StepTimer::Retry);
    run.fail("a", Transient);
    assert_eq!(run.due_in("a", StepTimer::Retry), Some(8));
}

#[test]
fn a_retry_before_its_time_is_refused_and_retry_now_is_not() {
    let retry_now = || Verb::RetryNow {
        step: "a".into(),
        by: "bob".into(),
    };
    let mut run = Run::started(RETRY);
    run.fail("a", Transient);
    let (timer, _) = run.timer("a", StepTimer::Retry).unwrap();
    assert_eq!(
        run.refused(Verb::fire(timer.clone())),
        Rejection::TimerNotDue
    );
    assert_eq!(run.ok(retry_now()), ["StepStarted"]);
    assert_eq!(run.refused(Verb::fire(timer)), Rejection::StaleTimer);
    let rejection = run.refused(retry_now());
    assert_eq!(rejection, Rejection::NotBackingOff { step: "a".into() });
}

#[test]
fn retry_all_starts_every_step_that_is_backing_off_and_no_other() {
    let retry = "retryPolicy: {maxRetries: 2}";
    let mut run = Run::started(&format!(
        "steps: [{{name: a, {retry}}}, {{name: b, {retry}}}, {{name: c}}]"
    ));
    let retry_all = || Verb::RetryAll { by: "bob".into() };
    assert_eq!(run.refused(retry_all()), Rejection::NothingBacksOff);
    run.fail("a", Transient);
    run.fail("b", Transient);
    assert_eq!(run.ok(retry_all()), ["StepStarted", "StepStarted"]);
    assert_eq!(
        run.tasks(),
        [Task::of("a", 2), Task::of("b", 2), Task::of("c", 1)]
    );
    run.cancel(stateway_machine::CancelMode::Kill);
    let refused = run.refused(retry_all());
    let state = stateway_machine::ExecutionState::Cancelled;
    assert_eq!(refused, Rejection::AlreadyFinished { state });
}

#[test]
fn retry_all_starts_a_compensation_that_is_backing_off() {
    let mut run = Run::started(
        "steps: [{name: a, retryPolicy: {maxRetries: 1}}, {name: b, dependsOn: [a], onFailure: \
         compensate}]\ncompensation: [{step: a}]",
    );
    run.done("a");
    run.fail("b", stateway_model::ErrorCategory::AgentError);
    run.fail("a", Transient);
    let started = run.ok(Verb::RetryAll { by: "bob".into() });
    assert_eq!(started, ["StepCompensationStarted"]);
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
    let key = |run: &Run| run.order("a").key.to_string();
    assert_eq!(key(&run), "e1/0/a/1");
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    assert_eq!(key(&run), "e1/0/a/2");
    run.ok(Verb::OpenBranch {
        branch: 1,
        cutoff: 3,
        by: "bob".into(),
        redo: None,
        reopened: None,
        spent: Usage::default(),
        spent_by_step: std::collections::BTreeMap::new(),
    });
    assert_eq!(key(&run), "e1/1/a/2");
}

#[test]
fn an_agent_error_without_a_policy_is_final() {
    let mut run = Run::started("steps: [{name: a}]");
    assert_eq!(
        run.fail("a", AgentError),
        ["AttemptFailed", "ExecutionFailed"]
    );
}

fn fail_for_good(run: &mut Run, step: &str, failure: Failure) -> Vec<&'static str> {
    let failure = Failure {
        no_retry: true,
        ..failure
    };
    let task = run.task(step);
    run.ok(Verb::fail(task, failure))
}

#[test]
fn a_failure_that_the_worker_marks_as_final_is_not_retried_whatever_the_policy() {
    let yaml = "steps: [{name: a, retryPolicy: {maxRetries: 9, retryOn: [transient]}}]";
    let mut run = Run::started(yaml);
    let events = fail_for_good(&mut run, "a", Failure::reported(Transient, "no such user"));
    assert_eq!(events, ["AttemptFailed", "ExecutionFailed"]);
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "NOT_RETRYABLE"));
    let why = not_retried(&run.state, "a").unwrap();
    assert_eq!(
        why,
        "not retried: the worker reported that no retry can succeed"
    );
}

/// A correction is another attempt too.
#[test]
fn a_failure_that_the_worker_marks_as_final_is_not_corrected() {
    let mut run = Run::started(CORRECTED);
    let events = fail_for_good(&mut run, "a", Failure::reported(Validation, "cannot be"));
    assert_eq!(events, ["AttemptFailed", "ExecutionFailed"]);
}

#[test]
fn a_governance_failure_that_is_final_still_goes_to_a_person() {
    let mut run = Run::started("steps: [{name: a}]");
    let events = fail_for_good(&mut run, "a", Failure::reported(Governance, "forbidden"));
    assert_eq!(events, ["AttemptFailed", "ExecutionEscalated"]);
}

#[test]
fn without_an_action_of_the_step_the_failure_policy_decides() {
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
fn pause_on_failure_lasts_until_resumed_and_then_the_step_starts_over() {
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
fn a_governance_failure_escalates_whatever_the_step_configures() {
    let mut run = Run::started("steps: [{name: a, onFailure: skip, retryPolicy: {maxRetries: 9}}]");
    assert_eq!(
        run.fail("a", Governance),
        ["AttemptFailed", "ExecutionEscalated"]
    );
    assert_eq!(run.at(), Escalated);
}

#[test]
fn an_output_that_does_not_fit_is_corrected_with_feedback_up_to_the_bound() {
    let mut run = Run::started(CORRECTED);
    assert_eq!(
        run.complete("a", json!({})),
        ["AttemptFailed", "CorrectionRequested"]
    );
    assert_eq!(
        (run.step("a"), run.task("a")),
        (StepState::Correcting, Task::of("a", 2))
    );
    assert_eq!(
        run.order("a").feedback.as_deref(),
        Some("the output: \"id\" is a required property")
    );
    run.assign("a", "w");
    assert_eq!(run.step("a"), StepState::Running);
    assert_eq!(
        run.complete("a", json!({})),
        ["AttemptFailed", "ExecutionFailed"]
    );
}

#[test]
fn a_corrected_output_completes_the_step() {
    let mut run = Run::started(CORRECTED);
    run.complete("a", json!("seven"));
    assert_eq!(
        run.complete("a", json!({"id": 7})),
        ["StepCompleted", "ExecutionCompleted"]
    );
}

fn finish(attempt: u32, outcome: Result<stateway_machine::Data, Failure>) -> Verb {
    Verb::FinishChild {
        step: "a".into(),
        attempt,
        outcome,
        usage: Usage::default(),
    }
}

#[test]
fn a_child_gives_its_output_or_its_failure() {
    let yaml = "steps: [{name: a, workflow: child, retryPolicy: {maxRetries: 1}}]";
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

/// A child starts over and takes no feedback; no worker replaces it.
#[test]
fn a_child_is_not_corrected_and_its_step_is_never_given_to_a_worker() {
    let yaml = "steps: [{name: a, workflow: child, outputSchema: {type: string}, \
                maxCorrectionAttempts: 2}]";
    let mut run = Run::started(yaml);
    let events = run.ok(finish(1, Ok(json!(1).into())));
    assert_eq!(events, ["AttemptFailed", "ExecutionFailed"]);
    assert_eq!(run.tasks(), []);
}

#[test]
fn the_last_error_names_the_attempt_that_failed() {
    let mut run = Run::started(RETRY);
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    assert_eq!(run.task("a").attempt, 2);
    assert_eq!(last_error(&run.state).unwrap().attempt, 1);
    run.fail("a", Transient);
    assert_eq!(last_error(&run.state).unwrap().attempt, 2);
}

#[test]
fn a_finished_step_keeps_its_retry_figures() {
    let mut run = Run::started(RETRY);
    for _ in 0..2 {
        run.fail("a", Transient);
        run.fire("a", StepTimer::Retry);
    }
    run.fail("a", Transient);
    assert_eq!(run.at(), Failed);
    let retry = step_views(&run.state).remove(0).retry;
    assert_eq!(
        (retry.attempt, retry.max_attempts, retry.retry_count),
        (3, Some(3), 2)
    );
    assert_eq!(retry.basis, RetryBasis::Reported);
    assert_eq!(retry.last_error.unwrap().attempt, 3);

    let mut run = Run::started(RETRY);
    run.fail("a", Transient);
    run.fire("a", StepTimer::Retry);
    run.done("a");
    assert_eq!(run.at(), Completed);
    let retry = step_views(&run.state).remove(0).retry;
    assert_eq!((retry.attempt, retry.retry_count), (2, 1));
    assert_eq!(retry.basis, RetryBasis::Reported);
}

#[test]
fn the_highest_number_of_attempts_depends_on_the_kind_of_failure() {
    let most = |yaml: &str, category| {
        let mut run = Run::started(yaml);
        run.fail("a", category);
        step_views(&run.state).remove(0).retry.max_attempts
    };
    assert_eq!(most("steps: [{name: a}]", Transient), Some(4));
    assert_eq!(most("steps: [{name: a}]", AgentError), Some(1));
    assert_eq!(most(RETRY, AgentError), Some(3));
    assert_eq!(most(RETRY, Timeout), Some(1));
    let before = |yaml: &str| {
        let run = Run::started(yaml);
        step_views(&run.state).remove(0).retry.max_attempts
    };
    assert_eq!(before("steps: [{name: a}]"), None, "no failure, no policy");
    assert_eq!(before(RETRY), Some(3));
}

#[test]
fn the_reason_why_no_retry_follows_is_one_sentence() {
    let why = |yaml: &str, failure: Failure| {
        let mut run = Run::started(yaml);
        let task = run.task("a");
        run.ok(Verb::fail(task, failure));
        not_retried(&run.state, "a")
    };
    let plain = "steps: [{name: a}]";
    let listed = "steps: [{name: a, retryPolicy: {retryOn: [transient]}}]";
    let none = "steps: [{name: a, retryPolicy: {maxRetries: 0}}]";
    let of = |category| Failure::reported(category, "x");
    for (yaml, failure, sentence) in [
        (
            plain,
            of(AgentError),
            "`agent_error` failures need a `retryPolicy`",
        ),
        (
            plain,
            of(External),
            "`external` failures need a `retryPolicy`",
        ),
        (
            plain,
            of(Timeout),
            "`timeout` failures are not retried unless `retryOn` lists them",
        ),
        (
            plain,
            of(Governance),
            "governance failures are never retried; a person decides",
        ),
        (
            listed,
            of(External),
            "`external` is not in the step's `retryOn`",
        ),
        (none, of(Transient), "`maxRetries` is 0"),
    ] {
        assert_eq!(why(yaml, failure), Some(format!("not retried: {sentence}")));
    }
    assert_eq!(why(plain, of(Transient)), None, "a retry follows");

    let mut run = Run::started(
        "steps: [{name: b}, {name: a, dependsOn: [b], input: \
                                \"${steps.b.output.x}\", onFailure: pause}]",
    );
    run.done("b");
    let missing = "not retried: a retry cannot supply the missing value";
    assert_eq!(not_retried(&run.state, "a").as_deref(), Some(missing));
}

#[test]
fn a_workers_retry_after_overrides_a_shorter_back_off() {
    let mut run = Run::started(RETRY);
    let task = run.task("a");
    run.ok(Verb::fail(
        task,
        Failure {
            retry_after: Some(Duration::from_secs(90)),
            ..Failure::reported(Transient, "busy")
        },
    ));
    assert_eq!(run.due_in("a", StepTimer::Retry), Some(90));
}

#[test]
fn every_cause_of_a_failure_has_a_code_unless_a_worker_reported_it() {
    let mut run = Run::started("steps: [{name: a, timeout: 1m}]");
    run.assign("a", "w");
    run.fire("a", StepTimer::Timeout);
    let error = last_error(&run.state).unwrap();
    assert_eq!(error.native_code, FailureCause::TimedOut.as_str());
    let mut run = Run::started("steps: [{name: a}]");
    run.fail("a", AgentError);
    assert_eq!(last_error(&run.state).unwrap().native_code, "");
}
