//! Applies an event to a state. Total: no error, no clock, no wildcard arm.

mod adopt;
mod attempt;
mod change;
mod compensation;
mod end;
mod lifecycle;
mod pause;
mod person;
mod signal;

pub(crate) use lifecycle::spent;

use stateway_model::Reason;

use crate::event::{Event, Fact};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::{State, note};
use crate::{ExecutionState, FailureCause};

/// The state after an event. Applying the same events to the same state always gives the same
/// state. A fact about a step that the plan does not have changes nothing but the sequence;
/// [`crate::replay`] refuses a log of another definition instead.
#[must_use]
pub fn evolve(mut state: State, event: &Event) -> State {
    apply(&mut state, event);
    state
}

impl State {
    /// [`evolve`] in place, for callers that never need the previous state.
    pub fn apply(&mut self, event: &Event) {
        apply(self, event);
    }
}

/// One arm per fact. The module of its kind has the effects of the fact.
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
            redone_by,
        } => {
            lifecycle::created(l, execution, *branch, initiator, input, event);
            l.head_mut().redone_by.clone_from(redone_by);
        }
        Fact::ExecutionQueued { by: _ } => lifecycle::queued(l),
        Fact::ExecutionStarted { deadline } => lifecycle::started(l, *deadline, event),
        Fact::BranchOpened {
            branch,
            parent: _,
            cutoff: _,
            by,
            redo,
            spent,
            spent_by_step,
        } => {
            lifecycle::branched(l, *branch, before, event);
            lifecycle::spent(l, *spent, spent_by_step);
            if let Some(redo) = redo {
                lifecycle::redone(l, redo, by);
            }
        }
        Fact::ExecutionReopened { by, from } => lifecycle::reopened(l, by, *from, event),
        Fact::ExecutionForked {
            from,
            branch: _,
            cutoff: _,
            by,
            redo,
            own_times,
        } => {
            let timeout = lifecycle::timeout(l);
            lifecycle::forked(l, from, before, event);
            if *own_times {
                lifecycle::begin_again(l, timeout, event);
            }
            if let Some(redo) = redo {
                lifecycle::redone(l, redo, by);
            }
        }
        // It reports a repair of what is kept beside the log, and changes nothing in the log.
        Fact::ExecutionRecovered { .. } => {}
        Fact::RevisionAdopted {
            revision: _,
            definition,
        } => {
            adopt::adopt(l, definition);
            // The adopter chose what runs from here on. Logs of version 1 do not name them.
            note(&mut l.head_mut().redone_by, &event.actor);
        }

        Fact::StepStarted {
            step,
            attempt,
            queue_due,
            due,
            heartbeat_due,
        } => with(l, step, |l, ix| {
            let limits = attempt::Limits {
                queue_due: *queue_due,
                due: *due,
                heartbeat_due: *heartbeat_due,
            };
            attempt::started(l, ix, *attempt, limits, event);
        }),
        Fact::StepWaiting {
            step,
            attempt,
            wait,
            due,
        } => with(l, step, |l, ix| {
            attempt::waiting(l, ix, *attempt, wait, *due, event);
        }),
        Fact::TaskAssigned {
            task,
            worker,
            identity,
            due,
            heartbeat_due,
        } => with(l, &task.step, |l, ix| {
            let hands = attempt::Hands { worker, identity };
            attempt::assigned(l, ix, task, hands, (*due, *heartbeat_due), event);
        }),
        Fact::TaskReleased {
            task,
            lost,
            queue_due,
        } => with(l, &task.step, |l, ix| {
            attempt::released(l, ix, *lost, *queue_due, event);
        }),
        Fact::PolicyDecided {
            task,
            rule,
            decision,
        } => with(l, &task.step, |l, ix| {
            attempt::judged(l, ix, rule, decision, event);
        }),
        Fact::OutcomeUnknown {
            step,
            attempt: _,
            compensate,
        } => with(l, step, |l, ix| {
            compensation::unknown(l, ix, *compensate, event);
        }),
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
        Fact::UsageReported { task, usage } => {
            let head = l.head_mut();
            head.usage = head.usage + *usage;
            with(l, &task.step, |l, ix| {
                let run = l.run_mut(ix);
                run.usage = run.usage + *usage;
            });
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
            queue_due,
            due,
            heartbeat_due,
        } => {
            with(l, step, |l, ix| {
                let limits = attempt::Limits {
                    queue_due: *queue_due,
                    due: *due,
                    heartbeat_due: *heartbeat_due,
                };
                attempt::corrected(l, ix, *attempt, feedback, limits, event);
            });
        }
        Fact::StepSkipped { step, cause } => with(l, step, |l, ix| {
            attempt::skipped(l, ix, cause, event);
        }),

        Fact::SignalReceived { name, id, payload } => {
            signal::received(l, name, id, payload, event);
        }
        Fact::SignalDelivered { name, id, step } => with(l, step, |l, ix| {
            signal::delivered(l, ix, name, id);
        }),
        Fact::ApprovalGranted {
            step,
            attempt,
            by,
            comment: _,
            queue_due,
        } => {
            with(l, step, |l, ix| {
                person::granted(l, ix, *attempt, by, *queue_due, event);
            });
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
        Fact::ExecutionPaused { cause } => person::paused(l, cause, event),
        Fact::ExecutionResumed { by: _ } => person::resumed(l, event),
        Fact::ExecutionEscalated {
            step,
            reason: _,
            attempt: _,
            role,
        } => {
            with(l, step, |l, ix| person::escalated(l, ix, role, event));
        }
        Fact::EscalationResolved {
            step,
            attempt: _,
            resolution,
            by,
            comment: _,
        } => {
            with(l, step, |l, ix| {
                person::resolved(l, ix, resolution, by, event);
            });
        }

        Fact::CompensationStarted {
            cause,
            message,
            awaited,
        } => compensation::turned(l, cause, message, awaited, event),
        Fact::CancellationStarted {
            by,
            reason,
            comment,
            awaited,
        } => end::cancelling(l, (by, *reason, comment), awaited, event),
        Fact::StepCompensationStarted {
            step,
            attempt,
            queue_due,
            due,
        } => with(l, step, |l, ix| {
            compensation::started(l, ix, *attempt, (*queue_due, *due), event);
        }),
        Fact::StepCompensationFailed {
            step,
            attempt: _,
            failure,
            retry_at,
        } => {
            with(l, step, |l, ix| {
                compensation::failed(l, ix, failure, *retry_at, event);
            });
        }
        Fact::StepCompensated { step, attempt: _ } => {
            with(l, step, |l, ix| compensation::done(l, ix, event));
        }

        Fact::ExecutionCompleted { output } => end::completed(l, output, event),
        Fact::ExecutionRolledBack { reason: _, left } => {
            l.head_mut().left_behind.clone_from(left);
            end::end(
                l,
                ExecutionState::RolledBack,
                Some(Reason::RolledBack),
                event,
            );
        }
        Fact::ExecutionFailed {
            step,
            reason,
            message,
            left,
        } => {
            l.head_mut().left_behind.clone_from(left);
            if step.is_none() {
                let cause = match reason {
                    Reason::TimedOut => FailureCause::TimedOut,
                    _ => FailureCause::InvalidOutput,
                };
                end::fault(l, cause, message, event);
            }
            end::end(l, ExecutionState::Failed, Some(*reason), event);
        }
        Fact::ExecutionCancelled {
            by,
            reason,
            comment,
            left,
        } => {
            l.head_mut().left_behind.clone_from(left);
            end::cancelled(l, by, comment, event);
            end::end(l, ExecutionState::Cancelled, Some(*reason), event);
        }
    }
    if let Some(step) = event.fact.step() {
        with(l, step, |l, ix| l.run_mut(ix).last_event = event.sequence);
    }
}

/// Finds a step by its name and passes it to `apply`.
fn with<L: Ledger>(ledger: &mut L, step: &str, apply: impl FnOnce(&mut L, StepIx)) {
    if let Some(ix) = ledger.head().plan.find(step) {
        apply(ledger, ix);
    }
}
