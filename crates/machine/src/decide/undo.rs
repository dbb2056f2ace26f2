//! Undoing, by seed 000 section 4: completed steps only, the last completed first, one at a time.

use std::sync::Arc;

use stateway_definition::RetryPolicy;
use stateway_model::{ErrorCategory, Reason};

use crate::backoff::{later, pause, seed};
use crate::event::Fact;
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::state::Ending;
use crate::{Failure, StepState};

/// Begins the next undo, or ends the execution when there is none. False when nothing follows.
pub(super) fn next(draft: &mut Draft<'_>) -> bool {
    if !draft.head().open.is_empty() {
        return false;
    }
    match candidate(draft) {
        Some(ix) => begin(draft, ix),
        None => finish(draft),
    }
    false
}

/// The last completed step that has something to undo.
fn candidate(draft: &Draft<'_>) -> Option<StepIx> {
    let mut next = draft.head().undo_next;
    // A broken log can make a ring of it; a whole one never has more links than steps.
    for _ in 0..draft.head().plan.len() {
        let ix = next?;
        let run = draft.run(ix);
        let undoable = draft.head().plan.compensation(ix).is_some();
        if undoable && run.state == StepState::Completed {
            return Some(ix);
        }
        next = run.completed_before;
    }
    None
}

/// Opens the next attempt to undo a step.
pub(super) fn begin(draft: &mut Draft<'_>, ix: StepIx) {
    let plan = Arc::clone(&draft.head().plan);
    let timeout = plan
        .compensation(ix)
        .and_then(|compensation| compensation.timeout);
    let due = timeout.map(|timeout| later(draft.now(), timeout));
    let (step, attempt) = (plan.name(ix), draft.run(ix).undo_attempt + 1);
    draft.push(Fact::StepCompensationStarted { step, attempt, due });
}

pub(super) fn done(draft: &mut Draft<'_>, ix: StepIx) {
    let (step, attempt) = (draft.head().plan.name(ix), draft.run(ix).undo_attempt);
    draft.push(Fact::StepCompensated { step, attempt });
}

/// A failed undo is repeated where the compensation has a retry policy. Otherwise the execution
/// ends partially rolled back; what was completed earlier stays done.
pub(super) fn failed(draft: &mut Draft<'_>, ix: StepIx, failure: Failure) {
    let plan = Arc::clone(&draft.head().plan);
    let (step, attempt) = (plan.name(ix), draft.run(ix).undo_attempt);
    let policy = plan
        .compensation(ix)
        .and_then(|undo| undo.retry_policy.as_ref());
    let again = policy.filter(|policy| repeats(policy, &failure, attempt));
    let retry_at = again.map(|policy| {
        let seed = seed(&draft.head().id, &step, attempt);
        later(draft.now(), pause(policy, attempt, seed))
    });
    let step_failed = Arc::clone(&step);
    draft.push(Fact::StepCompensationFailed {
        step,
        attempt,
        failure,
        retry_at,
    });
    if retry_at.is_none() {
        let reason = Reason::PartiallyRolledBack;
        draft.push(Fact::ExecutionFailed {
            step: Some(step_failed),
            reason,
        });
    }
}

fn repeats(policy: &RetryPolicy, failure: &Failure, attempt: u32) -> bool {
    let listed = policy.retry_on.as_ref();
    let wanted = listed.map_or(failure.category != ErrorCategory::Governance, |listed| {
        listed.contains(&failure.category)
    });
    wanted && attempt <= policy.max_retries
}

fn finish(draft: &mut Draft<'_>) {
    let ending = draft.head().ending.clone();
    draft.push(match ending {
        Some(Ending::Cancelled { by }) => Fact::ExecutionCancelled {
            by,
            reason: Reason::Cancelled,
            comment: "everything was undone".into(),
        },
        Some(Ending::RolledBack) | None => Fact::ExecutionRolledBack {
            reason: Reason::RolledBack,
        },
    });
}
