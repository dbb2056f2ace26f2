//! What clients see: the back-off record, waits, errors.

use std::time::Duration;

use crate::kit::Run;
use stateway_machine::{Verb, last_error, step_views, sub_state, waits};
use stateway_model::ErrorCategory::{AgentError, Transient};
use stateway_model::{Reason, RetryBasis, SubState, WaitKind};

#[test]
fn a_step_between_attempts_shows_the_next_attempt_and_the_last_error() {
    let mut run =
        Run::started("steps: [{name: a, retryPolicy: {maxRetries: 4, initialDelay: 3s}}]");
    run.wait(Duration::from_secs(9));
    run.fail("a", Transient);
    let step = step_views(&run.state).remove(0);
    assert_eq!(
        (step.sub_state, step.native_state.as_str()),
        (SubState::BackingOff, "backing_off")
    );
    let retry = step.retry;
    assert_eq!(
        (retry.attempt, retry.max_attempts, retry.retry_count),
        (1, Some(5), 0)
    );
    assert_eq!(retry.delay, Some(Duration::from_secs(3)));
    assert_eq!(
        retry.next_attempt_time,
        Some(stateway_machine::later(run.now, Duration::from_secs(3)))
    );
    assert_eq!(retry.basis, RetryBasis::Reported);
    let error = retry.last_error.unwrap();
    assert_eq!((error.message.as_str(), error.attempt), ("it broke", 1));
    assert_eq!((error.category, error.at), (Some(Transient), Some(run.now)));
}

#[test]
fn a_ready_step_runs_and_waits_for_capacity_until_a_worker_has_it() {
    let mut run = Run::started("steps: [{name: a, agent: clerk}]");
    let (kind, name) = (WaitKind::Capacity, "clerk");
    assert_eq!(sub_state(&run.state), (SubState::Running, None));
    let wait = waits(&run.state).remove(0);
    assert_eq!((wait.kind, wait.name.as_str()), (kind, name));
    run.assign("a", "w");
    assert_eq!(waits(&run.state), []);
}

#[test]
fn every_wait_shows_what_is_awaited_and_until_when() {
    let yaml = "steps: [{name: z, sleep: 1m}, {name: s, signal: go, timeout: 2m}, {name: g, approval: \
                {role: boss, expiresAfter: 3m}}, {name: k, workflow: child, timeout: 4m}]";
    let run = Run::started(yaml);
    let seen: Vec<_> = waits(&run.state)
        .into_iter()
        .map(|wait| {
            (
                wait.kind,
                wait.name,
                wait.deadline.map(|at| at.duration_since(run.now).as_secs()),
            )
        })
        .collect();
    let expected = [
        (WaitKind::Timer, "z", 60),
        (WaitKind::Signal, "go", 120),
        (WaitKind::Approval, "boss", 180),
        (WaitKind::Child, "child", 240),
    ];
    let expected = expected.map(|(kind, name, secs)| (kind, name.to_owned(), Some(secs)));
    assert_eq!(seen, expected);
}

#[test]
fn with_several_open_steps_running_goes_before_backing_off_before_waiting() {
    let mut run = Run::started("steps: [{name: a}, {name: z, sleep: 1h}]");
    assert_eq!(sub_state(&run.state).0, SubState::Running);
    run.fail("a", Transient);
    assert_eq!(sub_state(&run.state).0, SubState::BackingOff);
    run.ok(Verb::RetryNow {
        step: "a".into(),
        by: "bob".into(),
    });
    run.done("a");
    assert_eq!(
        sub_state(&run.state),
        (SubState::Waiting, Some(Reason::AwaitingTimer))
    );
}

#[test]
fn the_last_error_survives_the_end() {
    let mut run = Run::started("steps: [{name: a}]");
    run.fail("a", AgentError);
    let error = last_error(&run.state).unwrap();
    assert_eq!(
        (error.step.as_str(), error.message.as_str()),
        ("a", "it broke")
    );
    assert_eq!(run.state.times().ended, Some(run.now));
}

#[test]
fn steps_that_have_not_started_are_shown_in_the_order_of_the_definition() {
    let mut run = Run::started("steps: [{name: z, dependsOn: [a]}, {name: a}]");
    let steps = |run: &Run| -> Vec<_> {
        step_views(&run.state)
            .into_iter()
            .map(|step| (step.name, step.sub_state, step.reason))
            .collect()
    };
    let not_started = Some(Reason::NotStarted);
    assert_eq!(
        steps(&run),
        [
            ("z".to_owned(), SubState::Waiting, not_started),
            ("a".to_owned(), SubState::Running, None)
        ]
    );
    let view = step_views(&run.state).remove(0);
    assert_eq!(
        (
            view.native_state.as_str(),
            view.retry.basis,
            view.start_time
        ),
        ("pending", RetryBasis::None, None)
    );
    run.fail("a", AgentError);
    assert_eq!(
        steps(&run)[0],
        ("z".to_owned(), SubState::Failed, not_started),
        "it never will"
    );
}

#[test]
fn steps_that_have_not_started_have_no_part_in_the_state_of_the_execution() {
    let run = Run::created("steps: [{name: a}]");
    assert_eq!(
        sub_state(&run.state),
        (SubState::Waiting, Some(Reason::Scheduled))
    );
    assert_eq!(waits(&run.state), []);
}
