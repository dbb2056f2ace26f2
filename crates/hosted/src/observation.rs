//! An execution of the machine as an observation: its state, sub-state and evidence.
//!
//! The core computes the sub-states. The qualifiers here only select the row of the table that
//! ExplainExecution shows.

use jiff::Timestamp;
use serde_json::Value;
use stateway_driver::{PauseKind, QueueCause, View as Seen};
use stateway_machine::{Data, ExecutionState, StepState};
use stateway_model::{
    Blocker, ExecutionError, ExecutionId, Payload, Reason, Step, SubState, Wait, WaitKind,
};
use stateway_provider_api::{
    NativeState, Observation, ObservedDefinition, RetryEvidence, RetryPhase, StepObservation,
    Version, View,
};

use crate::qualifier;

/// An execution as its host shows it.
#[must_use]
pub fn observation(seen: &Seen, view: View) -> Observation {
    let id = ExecutionId::new(&*seen.id).expect("a host takes only good ids");
    let mut shown = Observation::new(id, native(seen));
    shown.version = Some(version(seen));
    shown.definition = Some(ObservedDefinition::Portable(seen.definition.to_string()));
    shown.revision = seen.revision.to_string();
    shown.reported = Some((seen.sub_state, seen.reason));
    shown.steps = steps(seen);
    shown.waits = own_waits(seen);
    shown.last_error.clone_from(&seen.last_error);
    shown.create_time = seen.times.created;
    shown.start_time = seen.times.started;
    shown.update_time = seen.times.updated;
    shown.end_time = seen.times.ended;
    shown.usage = Some(seen.usage).filter(|usage| !usage.is_zero());
    shown.abandoned_usage = Some(seen.abandoned_usage).filter(|usage| !usage.is_zero());
    shown.cancellation = seen.cancel_info();
    shown.pause = seen.pause_info();
    shown.reopen = seen.reopen_info();
    shown.forked_from = seen.forked_from.as_deref().and_then(id_of);
    shown.not_rolled_back = seen
        .not_rolled_back
        .iter()
        .map(|step| step.to_string())
        .collect();
    shown.notes = notes(seen);
    shown.labels = (*seen.labels).clone();
    if view == View::Full {
        shown.input = payload(&seen.input);
        shown.output = seen.output.as_ref().and_then(payload);
    }
    shown
}

/// An execution of which the stored view cannot be read.
pub(crate) fn unreadable(id: ExecutionId, why: &str) -> Observation {
    let state = NativeState::new(ExecutionState::Running.as_str());
    let mut shown = Observation::new(id, state);
    shown.reported = Some((SubState::Error, Some(Reason::Stuck)));
    shown.last_error = Some(ExecutionError::message(why));
    shown
}

/// The id of an execution; `None` for a text that is no id.
#[must_use]
pub fn id_of(id: &str) -> Option<ExecutionId> {
    ExecutionId::new(id).ok()
}

/// What people did to the execution, a line each.
fn notes(seen: &Seen) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(cancelled) = seen.cancel_info() {
        notes.push(with_comment(
            &by("cancelled", &cancelled.by),
            &cancelled.comment,
        ));
    }
    if let Some(pause) = seen.pause_info() {
        notes.push(
            match (pause.step.as_str(), pause.offered_revision.as_str()) {
                ("", "") => with_comment(&by("paused", &pause.by), &pause.comment),
                ("", offered) => format!("paused: it cannot adopt revision {offered}"),
                (step, _) => format!("paused after the failure of step `{step}`"),
            },
        );
        notes.extend(pause.conflicts);
    }
    if let Some(reopened) = seen.reopen_info() {
        let (by, from) = (by("reopened", &reopened.by), reopened.from);
        notes.push(format!("{by}; it had ended as `{from}`"));
    }
    if let Some(from) = &seen.forked_from {
        notes.push(format!("forked from execution `{from}`"));
    }
    if !seen.not_rolled_back.is_empty() {
        notes.push(format!(
            "not rolled back: {}",
            seen.not_rolled_back.join(", ")
        ));
    }
    notes
}

fn by(what: &str, who: &str) -> String {
    match who {
        "" => what.to_owned(),
        who => format!("{what} by {who}"),
    }
}

fn with_comment(what: &str, comment: &str) -> String {
    match comment {
        "" => what.to_owned(),
        comment => format!("{what}: {comment}"),
    }
}

/// How far an execution is: which execution of the id, which branch, which event.
#[must_use]
pub fn version(seen: &Seen) -> Version {
    // Numbers begin at 1.
    let number = u64::try_from(seen.number).unwrap_or_default();
    Version::of_parts([number, seen.branch.into(), seen.sequence])
}

fn native(seen: &Seen) -> NativeState {
    let native = NativeState::new(seen.state.as_str());
    match seen.state {
        ExecutionState::Paused => match seen.pause {
            Some(kind) => native.with(qualifier::PAUSE_CAUSE, pause_cause(kind)),
            None => native,
        },
        ExecutionState::Failed | ExecutionState::Cancelled => ended(native, seen.cause),
        ExecutionState::Compensating if !seen.unserved.is_empty() => {
            native.with(qualifier::ASSIGNED, "nobody")
        }
        ExecutionState::Compensating if seen.sub_state == SubState::BackingOff => {
            native.with(qualifier::ASSIGNED, "later")
        }
        ExecutionState::Created
        | ExecutionState::Queued
        | ExecutionState::Running
        | ExecutionState::AwaitingSignal
        | ExecutionState::AwaitingApproval
        | ExecutionState::Escalated
        | ExecutionState::Cancelling
        | ExecutionState::Compensating
        | ExecutionState::Completed
        | ExecutionState::RolledBack => native,
    }
}

const fn pause_cause(kind: PauseKind) -> &'static str {
    match kind {
        PauseKind::Hand => "hand",
        PauseKind::Failure => "failure",
        PauseKind::Revision => "revision",
    }
}

/// Adds the cause of an end as the table's rows name it.
fn ended(native: NativeState, reason: Option<Reason>) -> NativeState {
    let cause = match reason {
        Some(Reason::TimedOut) => "timeout",
        Some(Reason::RetriesExhausted) => "exhausted",
        Some(Reason::NotRetryable) => "not_retryable",
        Some(Reason::Governance) => "governance",
        Some(Reason::Rejected) => "rejected",
        Some(Reason::Killed) => "killed",
        Some(Reason::PartiallyRolledBack) => {
            return native
                .with(qualifier::CAUSE, "compensation")
                .with(qualifier::ROLLBACK, "partial");
        }
        _ => return native,
    };
    native.with(qualifier::CAUSE, cause)
}

fn steps(seen: &Seen) -> Vec<StepObservation> {
    let states = seen.step_states.iter();
    let mut steps: Vec<_> = seen
        .steps
        .iter()
        .zip(states)
        .map(|(seen, state)| step(seen, *state))
        .collect();
    for (step, why) in steps.iter_mut().zip(&seen.not_retried) {
        step.notes.extend(why.clone());
    }
    for (step, child) in steps.iter_mut().zip(&seen.children) {
        step.child = child.as_deref().and_then(id_of);
    }
    steps
}

fn step(seen: &Step, state: StepState) -> StepObservation {
    StepObservation {
        reported: Some((seen.sub_state, seen.reason)),
        retry: retry(seen, state),
        waits: seen.waits.clone(),
        last_error: seen.last_error.clone(),
        start_time: seen.start_time,
        end_time: seen.end_time,
        progress: seen.progress.clone(),
        usage: seen.usage,
        blocked_by: seen.blocked_by.clone(),
        ..StepObservation::new(&seen.name, step_native(seen, state))
    }
}

fn step_native(seen: &Step, state: StepState) -> NativeState {
    let native = NativeState::new(state.as_str());
    match state {
        StepState::Running | StepState::Correcting | StepState::Compensating
            if seen.reason == Some(Reason::NoWorker) =>
        {
            native.with(qualifier::ASSIGNED, "nobody")
        }
        StepState::Compensating if seen.sub_state == SubState::BackingOff => {
            native.with(qualifier::ASSIGNED, "later")
        }
        StepState::Running if waits_for_a_worker(&seen.waits) => {
            native.with(qualifier::ASSIGNED, "no")
        }
        StepState::Waiting if seen.reason == Some(Reason::Escalated) => {
            native.with(qualifier::ESCALATED, "yes")
        }
        // `onFailure` has not been applied yet, or the execution is paused because of the failure.
        StepState::Failed if seen.reason == Some(Reason::FailurePending) => {
            native.with(qualifier::CAUSE, "pending")
        }
        StepState::Failed if seen.sub_state == SubState::Error => {
            ended(native, seen.reason).with(qualifier::PARKED, "yes")
        }
        StepState::Failed => ended(native, seen.reason),
        StepState::Pending
        | StepState::Running
        | StepState::BackingOff
        | StepState::Correcting
        | StepState::Waiting
        | StepState::Completed
        | StepState::Skipped
        | StepState::Cancelled
        | StepState::Compensating
        | StepState::Compensated => native,
    }
}

fn waits_for_a_worker(waits: &[Wait]) -> bool {
    waits.iter().any(|wait| wait.kind == WaitKind::Capacity)
}

/// A step that never had an attempt has no evidence of one.
fn retry(seen: &Step, state: StepState) -> Option<RetryEvidence> {
    let retry = &seen.retry;
    if retry.attempt == 0 {
        return None;
    }
    let phase = match state {
        StepState::BackingOff | StepState::Compensating
            if seen.sub_state == SubState::BackingOff =>
        {
            RetryPhase::BetweenAttempts
        }
        StepState::Failed => RetryPhase::Exhausted,
        // A person decides what follows the failure.
        StepState::Waiting if seen.reason == Some(Reason::Escalated) && has_failed(seen) => {
            RetryPhase::Exhausted
        }
        _ => RetryPhase::UnderWay,
    };
    Some(RetryEvidence {
        attempt: retry.attempt,
        max_attempts: retry.max_attempts,
        phase,
        next_attempt_time: retry.next_attempt_time,
        delay: retry.delay,
        jitter: retry.jitter,
        last_error: retry.last_error.clone(),
        basis: retry.basis,
    })
}

/// Whether the present attempt is the one that failed.
fn has_failed(seen: &Step) -> bool {
    let error = seen.last_error.as_ref();
    error.is_some_and(|error| error.attempt == seen.retry.attempt)
}

/// What the execution waits for beside its steps' waits: its time, or its turn.
fn own_waits(seen: &Seen) -> Vec<Wait> {
    let since = seen.times.updated.or(seen.times.created);
    match seen.state {
        ExecutionState::Created => seen
            .not_before
            .map(|due| timed(WaitKind::Timer, "start", since, Some(due)))
            .into_iter()
            .collect(),
        ExecutionState::Queued => vec![Wait {
            detail: queue_detail(seen),
            blocker: Some(queue_blocker(seen)),
            ..timed(WaitKind::Capacity, "", since, None)
        }],
        _ => Vec::new(),
    }
}

/// The limit that keeps a queued execution from beginning.
const fn queue_blocker(seen: &Seen) -> Blocker {
    match seen.queued {
        Some(QueueCause::Concurrency { .. }) => Blocker::Concurrency,
        Some(QueueCause::Memory) => Blocker::Memory,
        Some(QueueCause::MaxActive { .. } | QueueCause::TriedAgain | QueueCause::Next) | None => {
            Blocker::Slot
        }
    }
}

/// Why a queued execution has not begun, with figures.
fn queue_detail(seen: &Seen) -> String {
    match &seen.queued {
        Some(QueueCause::Concurrency { running, limit }) => format!(
            "{running} of {limit} executions of `{}` are running (`concurrency` of the definition)",
            seen.definition
        ),
        Some(QueueCause::MaxActive { active, limit }) => {
            format!("{active} of {limit} executions are active (`max_active` of the engine)")
        }
        Some(QueueCause::Memory) => {
            "the active executions fill the memory of the engine (`max_memory_bytes`)".to_owned()
        }
        Some(QueueCause::TriedAgain) => "it could not begin and is tried again".to_owned(),
        Some(QueueCause::Next) | None => String::new(),
    }
}

fn timed(
    kind: WaitKind,
    name: &str,
    since: Option<Timestamp>,
    deadline: Option<Timestamp>,
) -> Wait {
    Wait {
        since,
        deadline,
        ..Wait::new(kind, name)
    }
}

/// `null` is what an execution without a payload has.
#[must_use]
pub fn payload(data: &Data) -> Option<Payload> {
    match &**data {
        Value::Null => None,
        value => Some(Payload::json(value.to_string())),
    }
}
