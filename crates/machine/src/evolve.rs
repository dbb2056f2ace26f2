//! What an event makes of a state. Total: no error, no clock, no arm for "everything else".

mod adopt;
mod attempt;
mod change;
mod end;
mod lifecycle;
mod person;
mod signal;
mod undo;

use stateway_model::Reason;

use crate::ExecutionState;
use crate::event::{Event, Fact};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::State;

/// The state after an event. Applying the same events to the same state always gives the same
/// state. A fact about a step that the plan does not have changes nothing but the sequence;
/// [`crate::replay`] refuses a log of another definition instead.
#[must_use]
pub fn evolve(mut state: State, event: &Event) -> State {
    apply(&mut state, event);
    state
}

impl State {
    /// [`evolve`] in place, for whoever keeps a state and never goes back.
    pub fn apply(&mut self, event: &Event) {
        apply(self, event);
    }
}

/// One arm per fact; what a fact does stands in the module of its kind.
pub(crate) fn apply<L: Ledger>(l: &mut L, event: &Event) {
    l.head_mut().sequence = event.sequence;
    let before = l.head_mut().times.updated.replace(event.at);
    match &event.fact {
        Fact::ExecutionCreated {
            execution,
            branch,
            revision: _,
            initiator,
            input,
        } => {
            lifecycle::created(l, execution, *branch, initiator, input, event);
        }
        Fact::ExecutionQueued { by: _ } => lifecycle::queued(l),
        Fact::ExecutionStarted { deadline } => lifecycle::started(l, *deadline, event),
        Fact::BranchOpened {
            branch,
            parent: _,
            cutoff: _,
            by: _,
            redo,
        } => {
            lifecycle::branched(l, *branch, before, event);
            if let Some(redo) = redo {
                with(l, &redo.step, |l, ix| lifecycle::redone(l, ix, redo));
            }
        }
        // It tells of what is kept beside the log, and changes nothing of what the log says.
        Fact::ExecutionRecovered { .. } => {}
        Fact::RevisionAdopted {
            revision: _,
            definition,
        } => adopt::adopt(l, definition),

        Fact::StepStarted {
            step,
            attempt,
            due,
            heartbeat_due,
        } => with(l, step, |l, ix| {
            attempt::started(l, ix, *attempt, (*due, *heartbeat_due), event);
        }),
        Fact::StepWaiting {
            step,
            attempt,
            wait,
            due,
        } => with(l, step, |l, ix| {
            attempt::waiting(l, ix, *attempt, wait, *due, event);
        }),
        Fact::TaskAssigned { task, worker } => with(l, &task.step, |l, ix| {
            attempt::assigned(l, ix, task, worker);
        }),
        Fact::TaskReleased { task } => with(l, &task.step, |l, ix| attempt::released(l, ix)),
        Fact::HeartbeatRecorded {
            step,
            attempt: _,
            heartbeat_due,
        } => with(l, step, |l, ix| {
            l.run_mut(ix).heartbeat_due = *heartbeat_due;
        }),
        Fact::ProgressReported {
            step,
            attempt: _,
            progress,
            detail,
        } => with(l, step, |l, ix| {
            attempt::progressed(l, ix, *progress, detail);
        }),
        Fact::UsageReported { task: _, usage } => {
            let head = l.head_mut();
            head.usage = head.usage + *usage;
        }
        Fact::StepCompleted {
            step,
            attempt: _,
            output,
        } => with(l, step, |l, ix| {
            attempt::completed(l, ix, output, event);
        }),
        Fact::AttemptFailed {
            step,
            attempt: _,
            failure,
        } => with(l, step, |l, ix| {
            attempt::failed(l, ix, failure.clone(), event);
        }),
        Fact::RetryScheduled {
            step,
            attempt: _,
            at,
        } => with(l, step, |l, ix| {
            attempt::scheduled(l, ix, *at, event);
        }),
        Fact::CorrectionRequested {
            step,
            attempt,
            feedback,
            due,
            heartbeat_due,
        } => {
            with(l, step, |l, ix| {
                attempt::corrected(l, ix, *attempt, feedback, (*due, *heartbeat_due), event);
            });
        }
        Fact::StepSkipped { step, cause } => with(l, step, |l, ix| {
            attempt::skipped(l, ix, cause, event);
        }),

        Fact::SignalReceived { name, id, payload } => signal::received(l, name, id, payload),
        Fact::SignalDelivered { name, id, step: _ } => signal::delivered(l, name, id),
        Fact::ApprovalGranted {
            step,
            attempt,
            by,
            comment: _,
        } => {
            with(l, step, |l, ix| person::decided(l, ix, *attempt, true, by));
        }
        Fact::ApprovalRejected {
            step,
            attempt,
            by,
            comment,
        } => with(l, step, |l, ix| {
            person::rejected(l, ix, *attempt, by, comment, event);
        }),
        Fact::ApprovalExpired { step, attempt: _ } => {
            with(l, step, |l, ix| person::expired(l, ix, event));
        }
        Fact::ExecutionPaused { cause } => person::paused(l, cause),
        Fact::ExecutionResumed { by: _ } => person::resumed(l),
        Fact::ExecutionEscalated { step, reason: _ } => {
            with(l, step, |l, ix| person::escalated(l, ix, event));
        }
        Fact::EscalationResolved {
            step,
            resolution,
            by: _,
            comment: _,
        } => {
            with(l, step, |l, ix| person::resolved(l, ix, resolution));
        }

        Fact::CompensationStarted { cause } => undo::turned(l, cause, event),
        Fact::StepCompensationStarted { step, attempt, due } => with(l, step, |l, ix| {
            undo::started(l, ix, *attempt, *due, event);
        }),
        Fact::StepCompensationFailed {
            step,
            attempt: _,
            failure,
            retry_at,
        } => {
            with(l, step, |l, ix| {
                undo::failed(l, ix, failure, *retry_at, event);
            });
        }
        Fact::StepCompensated { step, attempt: _ } => {
            with(l, step, |l, ix| undo::done(l, ix, event));
        }

        Fact::ExecutionCompleted { output } => end::completed(l, output, event),
        Fact::ExecutionRolledBack { reason: _ } => {
            end::end(
                l,
                ExecutionState::RolledBack,
                Some(Reason::RolledBack),
                event,
            );
        }
        Fact::ExecutionFailed { step: _, reason } => {
            end::end(l, ExecutionState::Failed, Some(*reason), event);
        }
        Fact::ExecutionCancelled {
            by: _,
            reason,
            comment: _,
        } => {
            end::end(l, ExecutionState::Cancelled, Some(*reason), event);
        }
    }
}

/// Applies something to a step by its name.
fn with<L: Ledger>(ledger: &mut L, step: &str, apply: impl FnOnce(&mut L, StepIx)) {
    if let Some(ix) = ledger.head().plan.find(step) {
        apply(ledger, ix);
    }
}
