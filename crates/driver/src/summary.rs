//! An event of the engine's log in one line, for people.

use std::sync::Arc;

use crate::revision_conflict;
use stateway_machine::{
    Fact, PauseCause, PolicyDecision, Redo, Resolution, SkipCause, Task, TurnCause, WaitFor,
};
use stateway_model::{AttemptPhase, Event, EventDetail, Payload};

/// An event of the log as an event of a history.
#[must_use]
pub fn summary(sequence: u64, event: &stateway_machine::Event) -> Event {
    Event {
        sequence,
        time: Some(event.at),
        native_type: event.fact.name().to_owned(),
        step: event
            .fact
            .step()
            .map(|step| step.to_string())
            .unwrap_or_default(),
        attempt: attempt(&event.fact),
        summary: words(&event.fact),
        phase: phase(&event.fact),
        detail: None,
    }
}

/// The most bytes of the payload of an event in a summary.
const MOST_PAYLOAD_BYTES: usize = 16 * 1024;
/// The most bytes of payloads that a page of events should hold.
pub const MOST_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// The same with everything that was recorded beside it. `cause` is the number of the event that
/// caused it, in the numbering of `sequence`.
#[must_use]
pub fn detailed(sequence: u64, event: &stateway_machine::Event, cause: Option<u64>) -> Event {
    let fact = serde_json::to_vec(&event.fact).unwrap_or_default();
    let (payload, payload_truncated) = Payload::json(fact).cut(MOST_PAYLOAD_BYTES);
    Event {
        detail: Some(Box::new(EventDetail {
            payload: Some(payload),
            payload_truncated,
            correlation_id: event.correlation.to_string(),
            request_id: event.causation.to_string(),
            cause_sequence: cause.unwrap_or_default(),
            actor: event.actor.to_string(),
        })),
        ..summary(sequence, event)
    }
}

const fn phase(fact: &Fact) -> Option<AttemptPhase> {
    match fact {
        Fact::StepStarted { .. } | Fact::StepWaiting { .. } => Some(AttemptPhase::Started),
        Fact::StepCompleted { .. } => Some(AttemptPhase::Succeeded),
        Fact::AttemptFailed { .. } => Some(AttemptPhase::Failed),
        Fact::StepCompensationStarted { .. } => Some(AttemptPhase::CompensationStarted),
        Fact::StepCompensated { .. } => Some(AttemptPhase::Compensated),
        Fact::StepCompensationFailed { .. } => Some(AttemptPhase::CompensationFailed),
        _ => None,
    }
}

const fn attempt(fact: &Fact) -> u32 {
    match fact {
        Fact::StepStarted { attempt, .. }
        | Fact::StepWaiting { attempt, .. }
        | Fact::HeartbeatRecorded { attempt, .. }
        | Fact::ProgressReported { attempt, .. }
        | Fact::StepCompleted { attempt, .. }
        | Fact::AttemptFailed { attempt, .. }
        | Fact::RetryScheduled { attempt, .. }
        | Fact::CorrectionRequested { attempt, .. }
        | Fact::ApprovalGranted { attempt, .. }
        | Fact::ApprovalRejected { attempt, .. }
        | Fact::ApprovalExpired { attempt, .. }
        | Fact::StepCompensationStarted { attempt, .. }
        | Fact::StepCompensationFailed { attempt, .. }
        | Fact::OutcomeUnknown { attempt, .. }
        | Fact::ExecutionEscalated { attempt, .. }
        | Fact::EscalationResolved { attempt, .. }
        | Fact::StepCompensated { attempt, .. } => *attempt,
        Fact::TaskAssigned { task, .. }
        | Fact::TaskReleased { task, .. }
        | Fact::PolicyDecided { task, .. }
        | Fact::UsageReported { task, .. } => task.attempt,
        _ => 0,
    }
}

fn words(fact: &Fact) -> String {
    match fact {
        Fact::ExecutionCreated { initiator, .. } => format!("started by {initiator}"),
        Fact::ExecutionQueued { .. } => "queued".to_owned(),
        Fact::ExecutionStarted { deadline: None } => "started".to_owned(),
        Fact::ExecutionStarted {
            deadline: Some(deadline),
        } => format!("started; times out at {deadline}"),
        Fact::StepStarted { .. } => "ready for a worker".to_owned(),
        Fact::StepWaiting { wait, .. } => waiting(wait),
        Fact::TaskAssigned {
            task,
            worker,
            identity,
            ..
        } => {
            let identity = if identity.is_empty() {
                String::new()
            } else {
                format!(" ({identity})")
            };
            format!("{}taken by worker {worker}{identity}", of_task(task))
        }
        Fact::TaskReleased { task, lost, .. } => {
            let how = if *lost {
                "worker lost; ready for another worker"
            } else {
                "given back by its worker"
            };
            format!("{}{how}", of_task(task))
        }
        Fact::PolicyDecided { rule, decision, .. } => decided(rule, decision),
        Fact::OutcomeUnknown {
            compensate: true, ..
        } => "worker lost: outcome unknown, compensated in case it completed".to_owned(),
        Fact::OutcomeUnknown { .. } => "worker lost: outcome unknown".to_owned(),
        Fact::HeartbeatRecorded { .. } => "heartbeat".to_owned(),
        Fact::ProgressReported {
            progress, detail, ..
        } => with_comment(&format!("{:.0} %", progress.get() * 100.0), detail),
        Fact::UsageReported { usage, .. } => format!(
            "used {} + {} tokens, cost {} millionths",
            usage.input_tokens, usage.output_tokens, usage.cost_micros
        ),
        Fact::StepCompleted { .. } => "completed".to_owned(),
        Fact::AttemptFailed { failure, .. } => format!("{}: {}", failure.category, failure.message),
        Fact::RetryScheduled { at, .. } => format!("next attempt at {at}"),
        Fact::CorrectionRequested { feedback, .. } => format!("correction requested: {feedback}"),
        Fact::StepSkipped { cause, .. } => match cause {
            SkipCause::Condition => "skipped: its condition does not hold".to_owned(),
            SkipCause::Upstream(step) => format!("skipped: {step} was skipped"),
            SkipCause::Failure => "skipped after its failure".to_owned(),
        },
        Fact::SignalReceived { name, .. } => format!("signal {name} received"),
        Fact::SignalDelivered { name, .. } => format!("signal {name} delivered"),
        _ => of_people(fact),
    }
}

/// What people decided, and how the execution ended.
fn of_people(fact: &Fact) -> String {
    match fact {
        Fact::ApprovalGranted { by, comment, .. } => {
            with_comment(&format!("granted by {by}"), comment)
        }
        Fact::ApprovalRejected { by, comment, .. } => {
            with_comment(&format!("rejected by {by}"), comment)
        }
        Fact::ApprovalExpired { .. } => "expired: nobody decided in time".to_owned(),
        Fact::ExecutionPaused { cause } => match cause {
            PauseCause::ByHand { by, comment } => with_comment(&format!("paused by {by}"), comment),
            PauseCause::StepFailed { step } => format!("paused after the failure of {step}"),
            PauseCause::RevisionMismatch { offered, conflicts } => {
                format!("paused: {}", revision_conflict(offered, conflicts))
            }
        },
        Fact::ExecutionResumed { by } => format!("resumed by {by}"),
        Fact::ExecutionEscalated { reason, role, .. } => match &**role {
            "" => format!("escalated: {reason}"),
            role => format!("escalated to {role}: {reason}"),
        },
        Fact::EscalationResolved {
            resolution,
            by,
            comment,
            ..
        } => {
            let what = match resolution {
                Resolution::Resume => format!("resumed by {by}"),
                Resolution::Reassign { role } => format!("reassigned to {role} by {by}"),
                Resolution::Cancel => format!("cancelled by {by}"),
            };
            with_comment(&what, comment)
        }
        Fact::RevisionAdopted { revision, .. } => format!("adopted revision {revision}"),
        Fact::BranchOpened {
            branch,
            parent,
            cutoff,
            by,
            redo,
            ..
        } => {
            let what = redo.as_deref().map(|redo| format!(" ({})", again(redo)));
            let what = what.unwrap_or_default();
            // A fork copies the branches of its source as one log, all of them numbered 0.
            if branch == parent {
                return format!(
                    "branch of the forked execution after event {cutoff} by {by}{what}"
                );
            }
            format!("branch {branch} opened after event {cutoff} by {by}{what}")
        }
        Fact::ExecutionReopened { by, from } => format!("reopened by {by}; it had ended as {from}"),
        Fact::ExecutionForked {
            from,
            branch,
            cutoff,
            by,
            own_times,
            ..
        } => {
            let times = if *own_times {
                "; the execution is created here, and its timeout counts from here"
            } else {
                ""
            };
            format!("forked from {from}, branch {branch}, after event {cutoff} by {by}{times}")
        }
        Fact::ExecutionRecovered {
            reason, by, again, ..
        } => match again.join(", ") {
            again if again.is_empty() => format!("recovered by {by}: {reason}"),
            again => format!("recovered by {by}: {reason}; runs again: {again}"),
        },
        _ => of_end(fact),
    }
}

/// The facts about rollback and end.
fn of_end(fact: &Fact) -> String {
    match fact {
        Fact::CompensationStarted {
            cause,
            message,
            awaited,
        } => {
            let why = match cause {
                TurnCause::StepFailed { step, .. } => {
                    format!("rolling back after the failure of {step}")
                }
                TurnCause::TimedOut | TurnCause::OutputTooLarge => {
                    with_comment("rolling back", message)
                }
                TurnCause::Cancelled { by, comment, .. } => {
                    with_comment(&cancelled_by(by), comment)
                }
            };
            awaiting(&why, awaited)
        }
        Fact::CancellationStarted {
            by,
            comment,
            awaited,
            ..
        } => awaiting(&with_comment(&cancelled_by(by), comment), awaited),
        Fact::StepCompensationStarted { .. } => "compensation ready for a worker".to_owned(),
        Fact::StepCompensationFailed {
            failure, retry_at, ..
        } => {
            let why = format!(
                "compensation failed: {}: {}",
                failure.category, failure.message
            );
            match retry_at {
                Some(at) => format!("{why}; next attempt at {at}"),
                None => why,
            }
        }
        Fact::StepCompensated { .. } => "compensated".to_owned(),
        Fact::ExecutionCompleted { .. } => "completed: every step is settled".to_owned(),
        Fact::ExecutionRolledBack { left, .. } => rolled_back("rolled back", left),
        Fact::ExecutionFailed {
            reason,
            message,
            left,
            ..
        } => {
            let failed = with_comment(&format!("failed: {reason}"), message);
            not_rolled_back(&failed, left)
        }
        Fact::ExecutionCancelled {
            by,
            reason,
            comment,
            left,
        } => {
            let what = match &**by {
                "" => reason.to_string(),
                by => format!("{reason} by {by}"),
            };
            not_rolled_back(&with_comment(&what, comment), left)
        }
        other => other.name().to_owned(),
    }
}

fn decided(rule: &str, decision: &PolicyDecision) -> String {
    match decision {
        PolicyDecision::Allow => format!("allowed by policy rule {rule}"),
        PolicyDecision::Deny { message } => {
            with_comment(&format!("denied by policy rule {rule}"), message)
        }
        PolicyDecision::RequireApproval { role, .. } => {
            format!("policy rule {rule} requires an approval by {role}")
        }
    }
}

fn cancelled_by(by: &str) -> String {
    match by {
        "" => "cancelled".to_owned(),
        by => format!("cancelled by {by}"),
    }
}

fn awaiting(what: &str, awaited: &[Arc<str>]) -> String {
    if awaited.is_empty() {
        return what.to_owned();
    }
    format!("{what}; waits for work in flight: {}", awaited.join(", "))
}

fn rolled_back(what: &str, left: &[Arc<str>]) -> String {
    if left.is_empty() {
        return format!("{what}: every completed step was compensated");
    }
    format!("{what}; no compensation for: {}", left.join(", "))
}

fn not_rolled_back(what: &str, left: &[Arc<str>]) -> String {
    if left.is_empty() {
        return what.to_owned();
    }
    format!("{what}; not rolled back: {}", left.join(", "))
}

/// The step that runs again, and what is new about it.
#[must_use]
pub fn again(redo: &Redo) -> String {
    let mut words = format!("from {}", redo.step);
    if redo.input.is_some() {
        words.push_str(", with other input");
    }
    if !redo.feedback.is_empty() {
        words = format!("{words}, with feedback: {}", redo.feedback);
    }
    words
}

fn waiting(wait: &WaitFor) -> String {
    match wait {
        WaitFor::Timer => "sleeping".to_owned(),
        WaitFor::Signal(name) => format!("waits for signal {name}"),
        WaitFor::Approval(role) => format!("waits for an approval by {role}"),
        WaitFor::Child(definition) => format!("waits for an execution of {definition}"),
        WaitFor::Person => "waits for a person".to_owned(),
    }
}

const fn of_task(task: &Task) -> &'static str {
    if task.undo { "compensation: " } else { "" }
}

fn with_comment(what: &str, comment: &str) -> String {
    match comment {
        "" => what.to_owned(),
        comment => format!("{what}: {comment}"),
    }
}
