//! A time has come.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use stateway_definition::FailurePolicy;
use stateway_model::{ErrorCategory, Reason};

use super::{start, task, undo};
use crate::event::{Data, Fact, TurnCause, WaitFor};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::timer::{StepTimer, Timer};
use crate::{ExecutionState, Failure, FailureCause, Rejection, StepState};

pub(super) fn fire(draft: &mut Draft<'_>, timer: &Timer) -> Result<(), Rejection> {
    match timer {
        Timer::Execution => {
            check(draft, deadline(draft))?;
            expire(draft);
            Ok(())
        }
        Timer::Step {
            step,
            attempt,
            kind,
        } => {
            let ix = super::find(draft, step)?;
            fire_step(draft, ix, *attempt, *kind)
        }
    }
}

/// When the workflow's own timeout ends it; an undoing is not cut short.
fn deadline(draft: &Draft<'_>) -> Option<Timestamp> {
    let undoing = draft.head().state == ExecutionState::Compensating;
    draft.head().deadline.filter(|_| !undoing)
}

fn check(draft: &Draft<'_>, due: Option<Timestamp>) -> Result<(), Rejection> {
    match due {
        None => Err(Rejection::StaleTimer),
        Some(due) if due > draft.now() => Err(Rejection::TimerNotDue),
        Some(_) => Ok(()),
    }
}

/// The workflow's timeout goes before every step's, and the failure policy follows.
fn expire(draft: &mut Draft<'_>) {
    let policy = draft.head().plan.definition().failure_policy;
    draft.push(match policy {
        FailurePolicy::Abort => Fact::ExecutionFailed {
            step: None,
            reason: Reason::TimedOut,
        },
        FailurePolicy::Compensate => Fact::CompensationStarted {
            cause: TurnCause::TimedOut,
        },
    });
}

fn fire_step(
    draft: &mut Draft<'_>,
    ix: StepIx,
    attempt: u32,
    kind: StepTimer,
) -> Result<(), Rejection> {
    check(draft, set_for(draft, ix, attempt, kind))?;
    // Both may be due at once, in whatever order they are fired: the workflow's goes first.
    if check(draft, deadline(draft)).is_ok() {
        expire(draft);
        return Ok(());
    }
    match kind {
        StepTimer::Timeout => time_out(draft, ix, FailureCause::TimedOut, "took too long"),
        StepTimer::Heartbeat => {
            time_out(
                draft,
                ix,
                FailureCause::WentSilent,
                "the worker went silent",
            );
        }
        StepTimer::Expiry => {
            let step = draft.head().plan.name(ix);
            draft.push(Fact::ApprovalExpired { step, attempt });
        }
        StepTimer::Retry => start::open(draft, ix),
        StepTimer::Sleep => task::accept(draft, ix, Data::new(Value::Null)),
        StepTimer::UndoTimeout => {
            let category = ErrorCategory::Timeout;
            undo::failed(
                draft,
                ix,
                Failure::of(FailureCause::TimedOut, category, "took too long"),
            );
        }
        StepTimer::UndoRetry => undo::begin(draft, ix),
    }
    Ok(())
}

/// When this very timer is due; nothing when it is not set (any more).
fn set_for(draft: &Draft<'_>, ix: StepIx, attempt: u32, kind: StepTimer) -> Option<Timestamp> {
    let run = draft.run(ix);
    let approves = matches!(run.wait, Some(WaitFor::Approval(_)));
    let undoing = run.state == StepState::Compensating;
    let current = if undoing {
        run.undo_attempt
    } else {
        run.attempt
    };
    if current != attempt {
        return None;
    }
    match kind {
        StepTimer::Timeout if !approves && !undoing => run.due,
        StepTimer::Expiry if approves => run.due,
        StepTimer::Heartbeat => run.heartbeat_due,
        // Nothing is begun while the execution is held; the time is looked at again afterwards.
        StepTimer::Retry
            if run.state == StepState::BackingOff && draft.head().state.is_active() =>
        {
            run.resume_at
        }
        StepTimer::Sleep if run.wait == Some(WaitFor::Timer) => run.resume_at,
        StepTimer::UndoTimeout if undoing => run.due,
        StepTimer::UndoRetry if undoing => run.resume_at,
        _ => None,
    }
}

fn time_out(draft: &mut Draft<'_>, ix: StepIx, cause: FailureCause, message: &str) {
    let message: Arc<str> = message.into();
    task::reject(
        draft,
        ix,
        Failure::of(cause, ErrorCategory::Timeout, message),
    );
}
