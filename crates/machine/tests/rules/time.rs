//! Time: an attempt's own timeout counts in a worker's hands, waiting for a worker has its own limit,
//! and a paused or escalated execution stops both. The workflow's timeout counts everything.

use std::time::Duration;

use serde_json::json;
use stateway_machine::ExecutionState::{
    Compensating, Escalated, Failed, Paused, RolledBack, Running,
};
use stateway_machine::{
    Fact, FailureCause, Rejection, Resolution, StepState, StepTimer, Task, Timer, Verb, last_error,
    later, sub_state, waits,
};
use stateway_model::ErrorCategory::{AgentError, Governance, Timeout};
use stateway_model::{SubState, WaitKind};

use crate::kit::Run;

const TIMED: &str = "steps: [{name: a, timeout: 5m, retryPolicy: {maxRetries: 3}}]";
const QUEUED: &str = "steps: [{name: a, agent: clerk, queueTimeout: 10m}]";

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

#[test]
fn the_timeout_of_an_attempt_counts_from_the_moment_a_worker_takes_it() {
    let mut run = Run::started(TIMED);
    assert_eq!(run.timers(), [], "no worker has it");
    run.wait(minutes(60));
    run.assign("a", "w");
    assert_eq!(run.due_in("a", StepTimer::Timeout), Some(300));
    assert_eq!(run.order("a").due, Some(later(run.now, minutes(5))));
}

#[test]
fn an_attempt_that_is_given_back_has_its_whole_timeout_with_the_next_worker() {
    let mut run = Run::started(TIMED);
    run.assign("a", "w1");
    run.wait(minutes(4));
    run.release("a");
    assert_eq!(run.timers(), []);
    run.wait(minutes(4));
    run.assign("a", "w2");
    assert_eq!(run.due_in("a", StepTimer::Timeout), Some(300));
}

#[test]
fn an_attempt_that_takes_too_long_is_not_retried_and_its_answer_is_refused() {
    let mut run = Run::started(TIMED);
    run.assign("a", "w");
    let task = run.task("a");
    assert_eq!(
        run.fire("a", StepTimer::Timeout),
        ["AttemptFailed", "ExecutionFailed"]
    );
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "TIMED_OUT"));
    let error = last_error(&run.state).unwrap();
    assert_eq!(error.message, "the attempt took longer than 5m");
    run.refused(Verb::complete(task, json!(1).into()));
}

#[test]
fn a_timeout_is_retried_where_the_step_lists_it() {
    let yaml = "steps: [{name: a, timeout: 5m, retryPolicy: {retryOn: [timeout]}}]";
    let mut run = Run::started(yaml);
    run.assign("a", "w");
    assert_eq!(
        run.fire("a", StepTimer::Timeout),
        ["AttemptFailed", "RetryScheduled"]
    );
}

#[test]
fn a_timeout_escalates_where_the_step_configures_it() {
    let mut run = Run::started("steps: [{name: a, timeout: 5m, onTimeout: escalate}]");
    run.assign("a", "w");
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
fn waiting_for_a_worker_has_no_limit_unless_one_is_configured() {
    let run = Run::started("steps: [{name: a, timeout: 5m, heartbeatTimeout: 30s}]");
    assert_eq!(run.timers(), []);
    let wait = waits(&run.state).remove(0);
    assert_eq!((wait.kind, wait.deadline), (WaitKind::Capacity, None));
}

#[test]
fn a_task_that_no_worker_takes_fails_as_a_retryable_timeout_with_its_own_code() {
    let mut run = Run::started(QUEUED);
    let wait = waits(&run.state).remove(0);
    assert_eq!(wait.deadline, Some(later(run.now, minutes(10))));
    assert_eq!(
        run.fire("a", StepTimer::Queue),
        ["AttemptFailed", "RetryScheduled"]
    );
    let Fact::AttemptFailed { failure, .. } = run.fact("AttemptFailed") else {
        unreachable!()
    };
    assert_eq!(
        (failure.category, failure.cause, &*failure.code),
        (Timeout, FailureCause::QueueTimedOut, "QUEUE_TIMEOUT")
    );
    assert_eq!(
        &*failure.message,
        "no worker of role `clerk` took the task within 10m"
    );
}

#[test]
fn a_queue_timeout_is_not_retried_where_the_step_lists_other_failures() {
    let yaml = "steps: [{name: a, queueTimeout: 10m, retryPolicy: {retryOn: [transient]}}]";
    let mut run = Run::started(yaml);
    assert_eq!(
        run.fire("a", StepTimer::Queue),
        ["AttemptFailed", "ExecutionFailed"]
    );
    assert_eq!(run.reason(), "TIMED_OUT");
}

#[test]
fn the_host_adds_what_it_knows_to_the_message_of_a_queue_timeout() {
    let mut run = Run::started(QUEUED);
    let (timer, due) = run.timer("a", StepTimer::Queue).unwrap();
    run.now = due;
    run.ok(Verb::FireTimer {
        timer,
        note: "2 workers of the role are connected, none has the skill".into(),
    });
    let error = last_error(&run.state).unwrap();
    assert_eq!(
        error.message,
        "no worker of role `clerk` took the task within 10m: 2 workers of the role are connected, \
         none has the skill"
    );
}

#[test]
fn the_queue_timeout_ends_when_a_worker_takes_the_task_and_starts_again_when_it_is_given_back() {
    let mut run = Run::started(QUEUED);
    run.wait(minutes(9));
    run.assign("a", "w");
    assert_eq!(run.timer("a", StepTimer::Queue), None);
    run.wait(minutes(30));
    run.release("a");
    assert_eq!(run.due_in("a", StepTimer::Queue), Some(600));
}

#[test]
fn the_definitions_queue_timeout_is_the_default_of_steps_and_compensations() {
    let yaml = "queueTimeout: 7m\nsteps: [{name: a}, {name: b, dependsOn: [a], queueTimeout: 3m, \
                onFailure: compensate}]\ncompensation: [{step: a}]";
    let mut run = Run::started(yaml);
    assert_eq!(run.due_in("a", StepTimer::Queue), Some(420));
    run.done("a");
    assert_eq!(run.due_in("b", StepTimer::Queue), Some(180));
    run.fail("b", AgentError);
    assert_eq!(run.due_in("a", StepTimer::UndoQueue), Some(420));
}

#[test]
fn the_timeout_of_a_compensation_counts_in_a_workers_hands_too() {
    let yaml = "steps: [{name: a}, {name: b, dependsOn: [a], onFailure: compensate}]\n\
                compensation: [{step: a, timeout: 1m}]";
    let mut run = Run::started(yaml);
    run.done("a");
    run.fail("b", AgentError);
    assert_eq!(run.timers(), [], "it waits for a worker without a limit");
    run.wait(minutes(600));
    run.assign("a", "w");
    assert_eq!(run.due_in("a", StepTimer::UndoTimeout), Some(60));
}

#[test]
fn heartbeats_count_only_while_a_worker_has_the_task() {
    let mut run = Run::started("steps: [{name: a, heartbeatTimeout: 30s}]");
    assert_eq!(run.timers(), []);
    run.wait(minutes(5));
    run.assign("a", "w");
    assert_eq!(run.due_in("a", StepTimer::Heartbeat), Some(30));
    run.wait(Duration::from_secs(20));
    assert_eq!(run.ok(Verb::heartbeat("a", 1)), ["HeartbeatRecorded"]);
    assert_eq!(run.due_in("a", StepTimer::Heartbeat), Some(30));
    run.release("a");
    assert_eq!(run.timer("a", StepTimer::Heartbeat), None);
}

/// A worker that lost the task may still send heartbeats; they must not start a timer.
#[test]
fn a_heartbeat_for_a_task_that_no_worker_has_is_refused() {
    let mut run = Run::started("steps: [{name: a, heartbeatTimeout: 30s}]");
    let stale = Rejection::StaleAttempt {
        step: "a".into(),
        attempt: 1,
        state: StepState::Running,
    };
    assert_eq!(run.refused(Verb::heartbeat("a", 1)), stale);
    run.assign("a", "w");
    run.release("a");
    assert_eq!(run.refused(Verb::heartbeat("a", 1)), stale);
    assert_eq!(run.timers(), []);
}

#[test]
fn the_workflow_timeout_counts_the_time_without_a_worker() {
    let mut run = Run::started("timeout: 10m\nsteps: [{name: a, agent: clerk, timeout: 5m}]");
    assert_eq!(run.expire(), ["ExecutionFailed"]);
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "TIMED_OUT"));
}

#[test]
fn the_workflow_timeout_goes_before_the_steps_and_waiting_counts() {
    let yaml = "timeout: 10m\nsteps: [{name: a, approval: {role: boss, expiresAfter: 1h}}]";
    let mut run = Run::started(yaml);
    assert_eq!(run.expire(), ["ExecutionFailed"]);
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "TIMED_OUT"));
}

/// Both are due at the same moment; a step that may be skipped must not save the workflow.
#[test]
fn the_workflow_timeout_goes_first_whichever_timer_is_fired() {
    let yaml = "timeout: 10m\nsteps: [{name: a, timeout: 10m, onFailure: skip}]";
    let mut run = Run::started(yaml);
    run.assign("a", "w");
    assert_eq!(run.fire("a", StepTimer::Timeout), ["ExecutionFailed"]);
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "TIMED_OUT"));
}

#[test]
fn the_workflow_timeout_counts_while_paused_and_while_escalated() {
    let mut run = Run::started("timeout: 10m\nsteps: [{name: a}]");
    run.pause();
    assert_eq!(run.expire(), ["ExecutionFailed"]);
    let mut run = Run::started("timeout: 10m\nsteps: [{name: a}]");
    run.fail("a", Governance);
    assert_eq!(run.expire(), ["ExecutionFailed"]);
}

#[test]
fn the_workflow_timeout_follows_the_failure_policy_and_is_the_last_error() {
    let yaml = "timeout: 10m\nfailurePolicy: compensate\nsteps: [{name: a}, {name: b, agent: clerk, \
                dependsOn: [a]}]\ncompensation: [{step: a}]";
    let mut run = Run::started(yaml);
    run.done("a");
    assert_eq!(
        run.expire(),
        ["CompensationStarted", "StepCompensationStarted"]
    );
    assert_eq!(run.at(), Compensating);
    run.done("a");
    assert_eq!(run.at(), RolledBack);
    let error = last_error(&run.state).unwrap();
    assert_eq!(
        error.message,
        "the execution took longer than its timeout of 10m: step `b` waited for a worker of role \
         `clerk`"
    );
    assert_eq!((error.step.as_str(), error.category), ("", Some(Timeout)));
}

#[test]
fn a_workflow_timeout_without_compensation_is_the_last_error_too() {
    let mut run = Run::started("timeout: 10m\nsteps: [{name: a, signal: go}]");
    run.expire();
    let error = last_error(&run.state).unwrap();
    assert_eq!(
        error.message,
        "the execution took longer than its timeout of 10m: step `a` waited for signal `go`"
    );
    assert_eq!(error.at, Some(run.now));
}

#[test]
fn the_host_adds_what_it_knows_to_the_message_of_a_workflow_timeout() {
    let mut run = Run::started("timeout: 10m\nsteps: [{name: a, agent: clerk}]");
    run.wait(minutes(10));
    run.ok(Verb::FireTimer {
        timer: Timer::Execution,
        note: "no worker of role `clerk` is connected".into(),
    });
    assert_eq!(
        last_error(&run.state).unwrap().message,
        "the execution took longer than its timeout of 10m: step `a` waited for a worker of role \
         `clerk`: no worker of role `clerk` is connected"
    );
}

#[test]
fn the_workflow_timeout_does_not_cut_a_rollback_short() {
    let yaml = "timeout: 10m\nsteps: [{name: a}, {name: b, dependsOn: [a], onFailure: compensate}]\n\
                compensation: [{step: a}]";
    let mut run = Run::started(yaml);
    run.done("a");
    run.fail("b", AgentError);
    run.assign("a", "w");
    assert_eq!(run.timers(), []);
    run.wait(minutes(11));
    let rejection = run.refused(Verb::fire(Timer::Execution));
    assert_eq!(rejection, Rejection::StaleTimer);
}

const ALL_KINDS: &str = "steps: [{name: held, timeout: 5m, heartbeatTimeout: 30s}, {name: queued, \
                         queueTimeout: 6m}, {name: gate, approval: {role: boss, expiresAfter: 7m}}, \
                         {name: go, signal: go, timeout: 8m}, {name: nap, sleep: 9m}]";

fn remaining(run: &Run) -> [Option<i64>; 6] {
    [
        run.due_in("held", StepTimer::Timeout),
        run.due_in("queued", StepTimer::Queue),
        run.due_in("gate", StepTimer::Expiry),
        run.due_in("go", StepTimer::Timeout),
        run.due_in("held", StepTimer::Heartbeat),
        run.due_in("nap", StepTimer::Sleep),
    ]
}

#[test]
fn timeouts_of_steps_stand_still_while_paused() {
    let mut run = Run::started(ALL_KINDS);
    run.assign("held", "w");
    run.wait(minutes(1));
    run.pause();
    assert_eq!(
        remaining(&run),
        [None, None, None, None, Some(-30), Some(480)],
        "only the worker's heartbeat and the sleep still count"
    );
    run.ok(Verb::heartbeat("held", 1));
    run.wait(minutes(100));
    run.ok(Verb::heartbeat("held", 1));
    run.resume();
    assert_eq!(
        remaining(&run),
        [
            Some(240),
            Some(300),
            Some(360),
            Some(420),
            Some(30),
            Some(-5520)
        ]
    );
}

#[test]
fn timeouts_of_steps_stand_still_while_escalated() {
    let yaml = ALL_KINDS.replace(
        "{name: nap, sleep: 9m}",
        "{name: nap, sleep: 9m}, {name: risky}",
    );
    let mut run = Run::started(&yaml);
    run.assign("held", "w");
    run.wait(minutes(1));
    run.fail("risky", Governance);
    assert_eq!(run.at(), Escalated);
    assert_eq!(remaining(&run)[..4], [None; 4]);
    run.wait(minutes(100));
    run.resolve("risky", Resolution::Resume);
    assert_eq!(run.at(), Running);
    assert_eq!(
        remaining(&run)[..4],
        [Some(240), Some(300), Some(360), Some(420)]
    );
}

#[test]
fn a_timer_that_stands_still_is_refused() {
    let mut run = Run::started(QUEUED);
    let (timer, due) = run.timer("a", StepTimer::Queue).unwrap();
    run.pause();
    run.now = due;
    assert_eq!(run.refused(Verb::fire(timer)), Rejection::StaleTimer);
}

/// An approval whose expiry stands still cannot have expired.
#[test]
fn an_approval_does_not_expire_while_the_execution_is_paused() {
    let yaml = "steps: [{name: g, approval: {role: boss, expiresAfter: 1h}}, {name: b}]";
    let mut run = Run::started(yaml);
    run.wait(minutes(30));
    run.pause();
    run.wait(minutes(90));
    assert_eq!(
        run.vote("g", 1, true, "bob"),
        Ok(vec!["ApprovalGranted", "StepCompleted"])
    );
}

#[test]
fn an_approval_that_expired_before_the_pause_stays_expired() {
    let mut run = Run::started("steps: [{name: g, approval: {role: boss, expiresAfter: 1h}}]");
    run.wait(minutes(60));
    run.pause();
    let expired = Rejection::ApprovalExpired { step: "g".into() };
    assert_eq!(run.vote("g", 1, true, "bob"), Err(expired));
}

/// Only the part of the pause after the hand-out is added.
#[test]
fn a_task_taken_while_paused_has_its_whole_timeout_after_the_resume_and_no_more() {
    let mut run = Run::started(TIMED);
    run.pause();
    run.wait(minutes(60));
    run.assign("a", "w");
    assert_eq!(run.order("a").due, Some(later(run.now, minutes(5))));
    run.wait(minutes(60));
    run.resume();
    assert_eq!(run.due_in("a", StepTimer::Timeout), Some(300));
}

#[test]
fn a_task_given_back_while_paused_waits_for_a_worker_as_long_as_configured_after_the_resume() {
    let mut run = Run::started(QUEUED);
    run.assign("a", "w");
    run.pause();
    run.wait(minutes(60));
    run.release("a");
    run.wait(minutes(60));
    run.resume();
    assert_eq!(run.due_in("a", StepTimer::Queue), Some(600));
}

#[test]
fn a_sleep_ends_while_paused_and_what_follows_waits_for_the_resume() {
    let mut run = Run::started("steps: [{name: nap, sleep: 10m}, {name: b, dependsOn: [nap]}]");
    run.pause();
    assert_eq!(run.fire("nap", StepTimer::Sleep), ["StepCompleted"]);
    assert_eq!(run.at(), Paused);
    assert_eq!(run.resume(), ["ExecutionResumed", "StepStarted"]);
    assert_eq!(run.tasks(), [Task::of("b", 1)]);
}
