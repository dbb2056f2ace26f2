//! A leaf as a step observation: word, qualifiers, attempts, waits, errors.

use std::time::Duration;

use jiff::Timestamp;
use stateway_model::{Blocker, ErrorCategory, ExecutionError, RetryBasis, Wait, WaitKind};
use stateway_provider_api::{NativeState, RetryEvidence, RetryPhase, StepObservation};

use super::leaf::{FollowUp, Leaf};
use crate::Definition;
use crate::definition::WaitTime;
use crate::fold::{Failure, TaskCall, Visit};
use crate::qualifier;

/// The most characters of a cause that become a message.
const LONGEST_MESSAGE: usize = 1_024;

pub(super) fn observation(leaf: &Leaf<'_>, definition: &Definition) -> StepObservation {
    match leaf {
        Leaf::Visit {
            visit,
            name,
            follow_up,
        } => {
            let native = native(visit, definition, follow_up.as_ref());
            let mut step = StepObservation::new(name, native);
            step.last_error = visit
                .failures
                .last()
                .map(|failure| error(failure, name, attempts_failed(visit)));
            step.retry = evidence(visit, follow_up.as_ref(), definition, name);
            step.waits = waits(visit, definition);
            step.start_time = visit.entered_at;
            step
        }
        Leaf::Iteration {
            frame,
            name,
            follow_up,
        } => {
            let word = match frame.failure {
                Some(_) => "MapIterationFailed",
                None => "MapIterationStarted",
            };
            let native = with_follow_up(NativeState::new(word), follow_up.as_ref());
            let mut step = StepObservation::new(name, native);
            step.last_error = frame
                .failure
                .as_ref()
                .map(|failure| error(failure, name, 0));
            step.retry = follow_up
                .as_ref()
                .and_then(|follow_up| promised(follow_up, step.last_error.clone()));
            step.start_time = frame.since;
            step
        }
    }
}

fn native(visit: &Visit, definition: &Definition, follow_up: Option<&FollowUp>) -> NativeState {
    let mut native = NativeState::new(&visit.newest);
    if let Some((_, gate)) = visit.name.rsplit_once('~') {
        native = native.with(qualifier::GATE, gate);
    } else if is_for_people(visit, definition) {
        native = native.with(qualifier::GATE, "signal");
    }
    if visit.call.as_ref().is_some_and(is_token_call) {
        native = native.with(qualifier::TOKEN, "yes");
    }
    with_follow_up(native, follow_up)
}

fn with_follow_up(native: NativeState, follow_up: Option<&FollowUp>) -> NativeState {
    match follow_up {
        Some(follow_up) => native.with(qualifier::FOLLOW_UP, follow_up.as_str()),
        None => native,
    }
}

fn is_token_call(call: &TaskCall) -> bool {
    call.resource.ends_with(".waitForTaskToken")
}

fn attempts_failed(visit: &Visit) -> u32 {
    u32::try_from(visit.failures.len()).unwrap_or(u32::MAX)
}

/// What is known of the attempts of a state that can have any.
fn evidence(
    visit: &Visit,
    follow_up: Option<&FollowUp>,
    definition: &Definition,
    name: &str,
) -> Option<RetryEvidence> {
    let failed = attempts_failed(visit);
    let last_error = visit
        .failures
        .last()
        .map(|failure| error(failure, name, failed));
    if let Some(follow_up @ FollowUp::Retry { .. }) = follow_up {
        return promised(follow_up, last_error);
    }
    if visit.attempts == 0 && failed == 0 || matches!(visit.kind, "Fail" | "") {
        return None;
    }
    let exhausted = matches!(follow_up, Some(FollowUp::Exhausted));
    Some(RetryEvidence {
        attempt: if visit.failed { failed } else { failed + 1 },
        max_attempts: most_attempts(visit, definition),
        phase: if exhausted {
            RetryPhase::Exhausted
        } else {
            RetryPhase::UnderWay
        },
        next_attempt_time: None,
        delay: None,
        jitter: None,
        last_error,
        basis: RetryBasis::Inferred,
    })
}

/// How many attempts there may be, where the definition leaves no doubt: each retrier counts on
/// its own, so with several of them it depends on the errors still to come.
fn most_attempts(visit: &Visit, definition: &Definition) -> Option<u32> {
    let retriers = &definition.state(&visit.name)?.retriers;
    match retriers.as_slice() {
        [] => Some(1),
        [only] => Some(only.max_attempts.saturating_add(1)),
        _ => None,
    }
}

fn promised(follow_up: &FollowUp, last_error: Option<ExecutionError>) -> Option<RetryEvidence> {
    let FollowUp::Retry {
        attempt,
        promise,
        failed_at,
        ..
    } = follow_up
    else {
        return None;
    };
    let mut evidence = RetryEvidence {
        attempt: *attempt,
        max_attempts: None,
        phase: RetryPhase::BetweenAttempts,
        next_attempt_time: None,
        delay: None,
        jitter: None,
        last_error: last_error.map(|error| ExecutionError {
            attempt: *attempt,
            ..error
        }),
        basis: RetryBasis::Inferred,
    };
    if let Some(promise) = promise {
        let left = promise.max_retries - promise.retry;
        evidence.max_attempts = Some(attempt.saturating_add(left).saturating_add(1));
        // With full jitter the pause is drawn from none to the whole.
        let (delay, jitter) = if promise.full_jitter {
            (Duration::ZERO, Some(promise.delay))
        } else {
            (promise.delay, None)
        };
        evidence.next_attempt_time = after(*failed_at, delay);
        evidence.delay = Some(delay);
        evidence.jitter = jitter;
    }
    Some(evidence)
}

fn after(at: Option<Timestamp>, pause: Duration) -> Option<Timestamp> {
    at?.checked_add(pause).ok()
}

fn waits(visit: &Visit, definition: &Definition) -> Vec<Wait> {
    let wait = |kind, name: &str, since, deadline| {
        vec![Wait {
            since,
            deadline,
            ..Wait::new(kind, name)
        }]
    };
    if visit.newest == "WaitStateEntered" {
        let deadline = wake_time(visit, definition);
        return wait(WaitKind::Timer, &visit.name, visit.entered_at, deadline);
    }
    let Some(call) = &visit.call else {
        return Vec::new();
    };
    let deadline = call.timeout_seconds.and_then(|seconds| {
        let seconds = u64::try_from(seconds).ok()?;
        after(call.at, Duration::from_secs(seconds))
    });
    let activity = || call.resource.rsplit(':').next().unwrap_or_default();
    match visit.newest.as_str() {
        "TaskSubmitted" if is_token_call(call) => {
            let answerable = token_path(visit, definition).is_some();
            let kind = if answerable {
                WaitKind::Signal
            } else {
                WaitKind::Callback
            };
            wait(kind, &visit.name, call.at, deadline)
        }
        "TaskSubmitted" if call.resource_type == "states" => {
            wait(WaitKind::Child, "", call.at, deadline)
        }
        "ActivityScheduled" | "ActivityStarted" if is_for_people(visit, definition) => {
            wait(WaitKind::Signal, &visit.name, call.at, deadline)
        }
        "ActivityScheduled" | "ActivityStarted" if is_gate(&visit.name) => {
            wait(WaitKind::Callback, &visit.name, call.at, deadline)
        }
        "ActivityScheduled" => vec![Wait {
            since: call.at,
            deadline,
            ..Wait::capacity(Blocker::Worker, activity())
        }],
        _ => Vec::new(),
    }
}

/// A task of an activity that a signal answers.
fn is_for_people(visit: &Visit, definition: &Definition) -> bool {
    let state = definition.state(&visit.name);
    let open = matches!(
        visit.newest.as_str(),
        "ActivityScheduled" | "ActivityStarted"
    );
    open && state.is_some_and(|state| state.for_people)
}

/// A gate of a compiled definition: an activity that a controller answers.
fn is_gate(state: &str) -> bool {
    state.ends_with("~gate") || state.ends_with("~paused")
}

/// Where the token of a task that waits for one can be found in its parameters.
pub(super) fn token_path(visit: &Visit, definition: &Definition) -> Option<Vec<String>> {
    let waits = visit.newest == "TaskSubmitted" && is_token_call(visit.call.as_ref()?);
    let state = definition.state(&visit.name)?;
    state.token_path.clone().filter(|_| waits)
}

fn wake_time(visit: &Visit, definition: &Definition) -> Option<Timestamp> {
    match definition.state(&visit.name)?.wait? {
        WaitTime::Until(time) => Some(time),
        WaitTime::Seconds(seconds) => {
            let pause = Duration::try_from_secs_f64(seconds).ok()?;
            after(visit.entered_at, pause)
        }
    }
}

/// A failure as clients see it.
pub(crate) fn error(failure: &Failure, step: &str, attempt: u32) -> ExecutionError {
    ExecutionError {
        step: step.to_owned(),
        message: message(failure),
        native_code: failure.error.clone().unwrap_or_default(),
        category: failure.error.as_deref().and_then(category),
        attempt,
        at: failure.at,
    }
}

/// One line. A Lambda function's cause is a JSON document with a stack trace, which stays with the
/// engine.
fn message(failure: &Failure) -> String {
    let cause = failure.cause.as_deref().unwrap_or_default();
    let inner = serde_json::from_str::<serde_json::Value>(cause).ok();
    let inner = inner
        .as_ref()
        .and_then(|cause| cause.get("errorMessage")?.as_str());
    let line = inner
        .unwrap_or(cause)
        .lines()
        .next()
        .unwrap_or_default()
        .trim();
    let line = if line.is_empty() {
        failure.error.as_deref().unwrap_or("failed without a cause")
    } else {
        line
    };
    line.chars().take(LONGEST_MESSAGE).collect()
}

fn category(error: &str) -> Option<ErrorCategory> {
    match error {
        "States.Timeout" | "States.HeartbeatTimeout" => Some(ErrorCategory::Timeout),
        "States.DataLimitExceeded"
        | "States.QueryEvaluationError"
        | "States.ParameterPathFailure"
        | "States.ResultPathMatchFailure"
        | "States.IntrinsicFailure"
        | "States.NoChoiceMatched" => Some(ErrorCategory::Validation),
        "States.Permissions" => Some(ErrorCategory::Governance),
        _ => None,
    }
}
