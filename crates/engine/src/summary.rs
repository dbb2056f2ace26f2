//! An event of the engine's log in one line, for people.

use stateway_machine::{Fact, PauseCause, Redo, Resolution, SkipCause, Task, TurnCause, WaitFor};
use stateway_model::{AttemptPhase, Event};

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
    }
}

const fn phase(fact: &Fact) -> Option<AttemptPhase> {
    match fact {
        Fact::StepStarted { .. } | Fact::StepWaiting { .. } => Some(AttemptPhase::Started),
        Fact::StepCompleted { .. } => Some(AttemptPhase::Succeeded),
        Fact::AttemptFailed { .. } => Some(AttemptPhase::Failed),
        Fact::StepCompensationStarted { .. } => Some(AttemptPhase::UndoStarted),
        Fact::StepCompensated { .. } => Some(AttemptPhase::Undone),
        Fact::StepCompensationFailed { .. } => Some(AttemptPhase::UndoFailed),
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
        | Fact::StepCompensated { attempt, .. } => *attempt,
        Fact::TaskAssigned { task, .. }
        | Fact::TaskReleased { task }
        | Fact::UsageReported { task, .. } => task.attempt,
        _ => 0,
    }
}

fn words(fact: &Fact) -> String {
    match fact {
        Fact::ExecutionCreated { initiator, .. } => format!("asked for by {initiator}"),
        Fact::ExecutionQueued { .. } => "waits for its turn".to_owned(),
        Fact::ExecutionStarted { deadline: None } => "its turn has come".to_owned(),
        Fact::ExecutionStarted {
            deadline: Some(deadline),
        } => format!("its turn has come; it has until {deadline}"),
        Fact::StepStarted { .. } => "ready for a worker".to_owned(),
        Fact::StepWaiting { wait, .. } => waiting(wait),
        Fact::TaskAssigned { task, worker } => format!("{}with worker {worker}", undoing(task)),
        Fact::TaskReleased { task } => format!("{}with no worker any more", undoing(task)),
        Fact::HeartbeatRecorded { .. } => "the worker is alive".to_owned(),
        Fact::ProgressReported {
            progress, detail, ..
        } => said(&format!("{:.0} %", progress.get() * 100.0), detail),
        Fact::UsageReported { usage, .. } => format!(
            "used {} + {} tokens, {} millionths",
            usage.input_tokens, usage.output_tokens, usage.cost_micros
        ),
        Fact::StepCompleted { .. } => "done".to_owned(),
        Fact::AttemptFailed { failure, .. } => format!("{}: {}", failure.category, failure.message),
        Fact::RetryScheduled { at, .. } => format!("tried again at {at}"),
        Fact::CorrectionRequested { feedback, .. } => format!("to be corrected: {feedback}"),
        Fact::StepSkipped { cause, .. } => match cause {
            SkipCause::Condition => "left out: its condition does not hold".to_owned(),
            SkipCause::Upstream(step) => format!("left out: {step} was"),
            SkipCause::Failure => "left out after its failure".to_owned(),
        },
        Fact::SignalReceived { name, .. } => format!("signal {name} came"),
        Fact::SignalDelivered { name, .. } => format!("signal {name} ended the wait"),
        Fact::ApprovalGranted { by, comment, .. } => said(&format!("granted by {by}"), comment),
        Fact::ApprovalRejected { by, comment, .. } => said(&format!("rejected by {by}"), comment),
        Fact::ApprovalExpired { .. } => "nobody decided in time".to_owned(),
        Fact::ExecutionPaused { cause } => match cause {
            PauseCause::ByHand { by, comment } => said(&format!("held by {by}"), comment),
            PauseCause::StepFailed { step } => format!("held after the failure of {step}"),
            PauseCause::RevisionMismatch { offered, conflicts } => {
                format!("paused: {}", incompatible(offered, conflicts))
            }
        },
        Fact::ExecutionResumed { by } => format!("let go on by {by}"),
        Fact::ExecutionEscalated { reason, .. } => format!("a person has to decide: {reason}"),
        Fact::EscalationResolved {
            resolution,
            by,
            comment,
            ..
        } => {
            let what = match resolution {
                Resolution::Resume => "to be tried again".to_owned(),
                Resolution::Reassign { role } => format!("given to {role}"),
                Resolution::Cancel => "to be ended".to_owned(),
            };
            said(&format!("{what}, says {by}"), comment)
        }
        Fact::CompensationStarted { cause } => match cause {
            TurnCause::StepFailed { step, .. } => format!("undone after the failure of {step}"),
            TurnCause::TimedOut => "undone because it took too long".to_owned(),
            TurnCause::Cancelled { by, comment } => {
                said(&format!("undone because {by} cancelled it"), comment)
            }
        },
        Fact::StepCompensationStarted { .. } => "ready to be undone".to_owned(),
        Fact::StepCompensationFailed {
            failure, retry_at, ..
        } => {
            let why = format!("not undone: {}: {}", failure.category, failure.message);
            match retry_at {
                Some(at) => format!("{why}; tried again at {at}"),
                None => why,
            }
        }
        Fact::StepCompensated { .. } => "undone".to_owned(),
        Fact::ExecutionCompleted { .. } => "every step is settled".to_owned(),
        Fact::ExecutionRolledBack { .. } => "everything that was done is undone".to_owned(),
        Fact::ExecutionFailed { reason, .. } => format!("failed: {reason}"),
        Fact::ExecutionCancelled {
            by,
            reason,
            comment,
        } => match &**by {
            "" => said(reason.as_str(), comment),
            by => said(&format!("{reason} by {by}"), comment),
        },
        Fact::RevisionAdopted { revision, .. } => format!("continues under revision {revision}"),
        Fact::BranchOpened {
            branch,
            cutoff,
            by,
            redo,
            ..
        } => {
            let what = redo.as_deref().map(|redo| format!(" ({})", again(redo)));
            let what = what.unwrap_or_default();
            format!("done again after event {cutoff}, says {by}: branch {branch}{what}")
        }
        Fact::ExecutionRecovered {
            reason, by, again, ..
        } => match again.join(", ") {
            again if again.is_empty() => format!("recovered by {by}: {reason}"),
            again => format!("recovered by {by}: {reason}; done again: {again}"),
        },
    }
}

/// What is done again, and what is new about it.
pub(crate) fn again(redo: &Redo) -> String {
    let mut words = format!("from {}", redo.step);
    if redo.input.is_some() {
        words.push_str(", with other input");
    }
    if !redo.feedback.is_empty() {
        words = format!("{words}, told: {}", redo.feedback);
    }
    words
}

fn waiting(wait: &WaitFor) -> String {
    match wait {
        WaitFor::Timer => "waits for its time".to_owned(),
        WaitFor::Signal(name) => format!("waits for signal {name}"),
        WaitFor::Approval(role) => format!("waits for the approval of {role}"),
        WaitFor::Child(definition) => format!("waits for an execution of {definition}"),
        WaitFor::Person => "waits for a person".to_owned(),
    }
}

const fn undoing(task: &Task) -> &'static str {
    if task.undo { "undo " } else { "" }
}

fn said(what: &str, comment: &str) -> String {
    match comment {
        "" => what.to_owned(),
        comment => format!("{what}: {comment}"),
    }
}

/// Why an execution cannot continue under a revision that was offered to it.
pub(crate) fn incompatible(offered: &str, conflicts: &[String]) -> String {
    let short = offered.get(..12).unwrap_or(offered);
    format!(
        "revision {short} is not compatible: {}",
        conflicts.join("; ")
    )
}
