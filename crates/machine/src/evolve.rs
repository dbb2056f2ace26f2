//! What an event makes of a state. Total: no error, no clock, no arm for "everything else".

mod adopt;
mod change;
mod end;

use std::sync::Arc;

use crate::event::{Event, Fact, Resolution, Task, TurnCause, WaitFor};
use crate::ledger::Ledger;
use crate::plan::StepIx;
use crate::state::{Decision, Ending, State, insert, remove};
use crate::{ExecutionState, Failure, FailureCause, StepState};
use change::{Refresh, change, refresh, settle_dependants};
use stateway_model::{ErrorCategory, Reason};

/// The state after an event. Applying the same events to the same state always gives the same
/// state. A fact about a step that the plan does not have changes nothing but the sequence;
/// [`crate::replay`] refuses such a log instead.
#[must_use]
pub fn evolve(mut state: State, event: &Event) -> State {
    apply(&mut state, event);
    state
}

pub(crate) fn apply<L: Ledger>(ledger: &mut L, event: &Event) {
    let head = ledger.head_mut();
    head.sequence = event.sequence;
    head.times.updated = Some(event.at);
    apply_fact(ledger, event);
}

/// One line per fact; what a fact does to a step stands in the functions below.
fn apply_fact<L: Ledger>(l: &mut L, event: &Event) {
    let at = event.at;
    match &event.fact {
        Fact::ExecutionCreated {
            execution,
            branch,
            revision: _,
            initiator,
            input,
        } => {
            let head = l.head_mut();
            head.id = Arc::clone(execution);
            head.branch = *branch;
            head.correlation = Arc::clone(&event.correlation);
            head.initiator = Arc::clone(initiator);
            head.input = Arc::clone(input);
            head.times.created = Some(at);
        }
        Fact::ExecutionQueued { by: _ } => {
            l.head_mut().state = ExecutionState::Queued;
            l.head_mut().reason = Some(Reason::Queued);
        }
        Fact::ExecutionStarted { deadline } => {
            let head = l.head_mut();
            (head.state, head.reason) = (ExecutionState::Running, None);
            (head.deadline, head.times.started) = (*deadline, Some(at));
        }
        Fact::StepStarted {
            step,
            attempt,
            due,
            heartbeat_due,
        } => with(l, step, |l, ix| {
            open(l, ix, StepState::Running, *attempt, event);
            let run = l.run_mut(ix);
            (run.due, run.heartbeat_due) = (*due, *heartbeat_due);
            refresh(l, Refresh::Always);
        }),
        Fact::StepWaiting {
            step,
            attempt,
            wait,
            due,
        } => with(l, step, |l, ix| {
            open_wait(l, ix, *attempt, wait, *due, event);
        }),
        Fact::TaskAssigned { task, worker } => with(l, &task.step, |l, ix| {
            assigned(l, ix, task, worker);
        }),
        Fact::TaskReleased { task } => with(l, &task.step, |l, ix| l.run_mut(ix).worker = None),
        Fact::HeartbeatRecorded {
            step,
            attempt: _,
            heartbeat_due,
        } => with(l, step, |l, ix| {
            l.run_mut(ix).heartbeat_due = *heartbeat_due;
        }),
        Fact::StepCompleted {
            step,
            attempt: _,
            output,
        } => with(l, step, |l, ix| {
            let before = l.head().last_completed;
            close(l, ix, StepState::Completed, event);
            let run = l.run_mut(ix);
            (run.output, run.completed_before) = (Some(Arc::clone(output)), before);
            l.head_mut().last_completed = Some(ix);
            settled(l, ix);
        }),
        Fact::AttemptFailed {
            step,
            attempt: _,
            failure,
        } => with(l, step, |l, ix| {
            failed(l, ix, failure.clone(), event);
        }),
        Fact::RetryScheduled {
            step,
            attempt: _,
            at,
        } => with(l, step, |l, ix| {
            remove(&mut l.head_mut().unsettled, ix);
            change(l, ix, |run| {
                (run.state, run.ended, run.resume_at) = (StepState::BackingOff, None, Some(*at));
            });
            refresh(l, Refresh::Always);
        }),
        Fact::CorrectionRequested {
            step,
            attempt,
            feedback,
            due,
            heartbeat_due,
        } => {
            with(l, step, |l, ix| {
                remove(&mut l.head_mut().unsettled, ix);
                open(l, ix, StepState::Correcting, *attempt, event);
                let run = l.run_mut(ix);
                run.corrections += 1;
                run.feedback = Some(Arc::clone(feedback));
                (run.due, run.heartbeat_due) = (*due, *heartbeat_due);
                refresh(l, Refresh::Always);
            });
        }
        Fact::StepSkipped { step, cause } => with(l, step, |l, ix| {
            let by_failure = *cause == crate::event::SkipCause::Failure;
            remove(&mut l.head_mut().unsettled, ix);
            close(l, ix, StepState::Skipped, event);
            l.run_mut(ix).skipped_by_failure = by_failure;
            settled(l, ix);
        }),
        Fact::SignalReceived { name, id, payload } => {
            let signals = Arc::make_mut(&mut l.head_mut().signals);
            signals.seen.insert(Arc::clone(id));
            let queue = signals.waiting.entry(Arc::clone(name)).or_default();
            queue.push_back((Arc::clone(id), Arc::clone(payload)));
        }
        Fact::SignalDelivered { name, id, step: _ } => {
            let signals = Arc::make_mut(&mut l.head_mut().signals);
            if let Some(queue) = signals.waiting.get_mut(name) {
                queue.retain(|(waiting, _)| waiting != id);
                if queue.is_empty() {
                    signals.waiting.remove(name);
                }
            }
        }
        Fact::ApprovalGranted {
            step,
            attempt,
            by,
            comment: _,
        } => {
            with(l, step, |l, ix| decided(l, ix, *attempt, true, by));
        }
        Fact::ApprovalRejected {
            step,
            attempt,
            by,
            comment,
        } => with(l, step, |l, ix| {
            decided(l, ix, *attempt, false, by);
            let message = format!("rejected by {by}: {comment}");
            let category = ErrorCategory::Governance;
            failed(
                l,
                ix,
                Failure::of(FailureCause::Rejected, category, message),
                event,
            );
        }),
        Fact::ApprovalExpired { step, attempt: _ } => with(l, step, |l, ix| {
            let category = ErrorCategory::Timeout;
            let failure = Failure::of(FailureCause::Expired, category, "nobody decided in time");
            failed(l, ix, failure, event);
        }),
        Fact::ExecutionPaused { cause } => {
            let head = l.head_mut();
            (head.state, head.reason) = (ExecutionState::Paused, Some(Reason::Paused));
            head.hold = Some(cause.clone());
            if let crate::event::PauseCause::StepFailed { step } = cause {
                with(l, step, |l, ix| {
                    remove(&mut l.head_mut().unsettled, ix);
                    insert(&mut l.head_mut().parked, ix);
                });
            }
        }
        Fact::ExecutionResumed { by: _ } => resumed(l),
        Fact::ExecutionEscalated { step, reason: _ } => with(l, step, |l, ix| {
            escalated(l, ix, event);
        }),
        Fact::EscalationResolved {
            step,
            resolution,
            by: _,
            comment: _,
        } => {
            with(l, step, |l, ix| resolved(l, ix, resolution));
        }
        Fact::CompensationStarted { cause } => turned(l, cause, event),
        Fact::StepCompensationStarted { step, attempt, due } => with(l, step, |l, ix| {
            let next = l.run(ix).completed_before;
            change(l, ix, |run| {
                (run.state, run.undo_attempt) = (StepState::Compensating, *attempt);
                (run.since, run.due, run.resume_at, run.worker) = (Some(at), *due, None, None);
            });
            l.head_mut().undo_next = next;
        }),
        Fact::StepCompensationFailed {
            step,
            attempt: _,
            failure,
            retry_at,
        } => {
            with(l, step, |l, ix| {
                undo_failed(l, ix, failure, *retry_at, event)
            });
        }
        Fact::StepCompensated { step, attempt: _ } => with(l, step, |l, ix| {
            close(l, ix, StepState::Compensated, event);
        }),
        Fact::ExecutionCompleted { output } => {
            l.head_mut().output = Some(Arc::clone(output));
            end::end(l, ExecutionState::Completed, None, event);
        }
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
        Fact::RevisionAdopted {
            revision: _,
            definition,
        } => adopt::adopt(l, definition),
        Fact::BranchOpened {
            branch,
            parent: _,
            cutoff: _,
            by: _,
        } => l.head_mut().branch = *branch,
    }
}

fn with<L: Ledger>(ledger: &mut L, step: &str, apply: impl FnOnce(&mut L, StepIx)) {
    if let Some(ix) = ledger.head().plan.find(step) {
        apply(ledger, ix);
    }
}

/// Opens an attempt.
fn open<L: Ledger>(l: &mut L, ix: StepIx, state: StepState, attempt: u32, event: &Event) {
    remove(&mut l.head_mut().ready, ix);
    change(l, ix, |run| {
        (run.state, run.attempt) = (state, attempt);
        (run.since, run.first_started) = (Some(event.at), run.first_started.or(Some(event.at)));
        (run.due, run.heartbeat_due, run.resume_at) = (None, None, None);
        (run.worker, run.wait, run.feedback, run.ended) = (None, None, None, None);
    });
}

fn open_wait<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    attempt: u32,
    wait: &WaitFor,
    due: Option<jiff::Timestamp>,
    event: &Event,
) {
    open(l, ix, StepState::Waiting, attempt, event);
    change(l, ix, |run| {
        run.wait = Some(wait.clone());
        // A sleep ends at its time; every other wait fails at it.
        let sleeps = *wait == WaitFor::Timer;
        (run.due, run.resume_at) = if sleeps { (None, due) } else { (due, None) };
    });
    refresh(l, Refresh::Always);
}

/// Ends what is under way in a step.
fn close<L: Ledger>(l: &mut L, ix: StepIx, state: StepState, event: &Event) {
    remove(&mut l.head_mut().ready, ix);
    change(l, ix, |run| {
        (run.state, run.ended) = (state, Some(event.at));
        (run.due, run.heartbeat_due, run.resume_at, run.wait) = (None, None, None, None);
    });
}

/// A step is completed or skipped: its dependants come one step nearer.
fn settled<L: Ledger>(l: &mut L, ix: StepIx) {
    l.head_mut().left -= 1;
    settle_dependants(l, ix);
    refresh(l, Refresh::Always);
}

fn failed<L: Ledger>(l: &mut L, ix: StepIx, failure: Failure, event: &Event) {
    close(l, ix, StepState::Failed, event);
    let run = l.run_mut(ix);
    run.failures += 1;
    run.failure = Some(Arc::new(failure));
    let head = l.head_mut();
    head.last_failed = Some(ix);
    insert(&mut head.unsettled, ix);
    refresh(l, Refresh::WhileOpen);
}

fn assigned<L: Ledger>(l: &mut L, ix: StepIx, task: &Task, worker: &Arc<str>) {
    change(l, ix, |run| {
        run.worker = Some(Arc::clone(worker));
        if !task.undo {
            run.state = StepState::Running;
        }
    });
}

fn decided<L: Ledger>(l: &mut L, ix: StepIx, attempt: u32, grant: bool, by: &Arc<str>) {
    l.run_mut(ix).decision = Some(Decision {
        attempt,
        grant,
        by: Arc::clone(by),
    });
}

/// Steps for which the execution was held begin afresh.
fn resumed<L: Ledger>(l: &mut L) {
    let head = l.head_mut();
    (head.state, head.reason, head.hold) = (ExecutionState::Running, None, None);
    for ix in std::mem::take(&mut head.parked) {
        begin_afresh(l, ix);
    }
    refresh(l, Refresh::WhileOpen);
}

fn begin_afresh<L: Ledger>(l: &mut L, ix: StepIx) {
    change(l, ix, |run| {
        (run.state, run.wait, run.ended) = (StepState::Pending, None, None);
        (run.failures, run.corrections) = (0, 0);
    });
    insert(&mut l.head_mut().ready, ix);
}

fn escalated<L: Ledger>(l: &mut L, ix: StepIx, event: &Event) {
    remove(&mut l.head_mut().unsettled, ix);
    change(l, ix, |run| {
        (run.state, run.wait) = (StepState::Waiting, Some(WaitFor::Person));
        (run.since, run.ended) = (Some(event.at), None);
    });
    let head = l.head_mut();
    insert(&mut head.escalated, ix);
    (head.state, head.reason) = (ExecutionState::Escalated, Some(Reason::Escalated));
}

fn resolved<L: Ledger>(l: &mut L, ix: StepIx, resolution: &Resolution) {
    remove(&mut l.head_mut().escalated, ix);
    match resolution {
        Resolution::Cancel => return,
        Resolution::Resume => {}
        Resolution::Reassign { role } => l.run_mut(ix).role = Some(Arc::clone(role)),
    }
    begin_afresh(l, ix);
    let head = l.head_mut();
    if head.escalated.is_empty() {
        (head.state, head.reason) = (ExecutionState::Running, None);
        refresh(l, Refresh::WhileOpen);
    }
}

fn turned<L: Ledger>(l: &mut L, cause: &TurnCause, event: &Event) {
    end::give_up(l, event);
    let head = l.head_mut();
    (head.state, head.reason) = (ExecutionState::Compensating, Some(Reason::Compensating));
    head.undo_next = head.last_completed;
    head.ending = Some(match cause {
        TurnCause::StepFailed { .. } | TurnCause::TimedOut => Ending::RolledBack,
        TurnCause::Cancelled { by } => Ending::Cancelled { by: Arc::clone(by) },
    });
}

fn undo_failed<L: Ledger>(
    l: &mut L,
    ix: StepIx,
    failure: &Failure,
    retry_at: Option<jiff::Timestamp>,
    event: &Event,
) {
    l.head_mut().last_failed = Some(ix);
    l.run_mut(ix).failure = Some(Arc::new(failure.clone()));
    if retry_at.is_none() {
        return close(l, ix, StepState::Failed, event);
    }
    change(l, ix, |run| {
        (run.resume_at, run.due, run.worker) = (retry_at, None, None)
    });
}
