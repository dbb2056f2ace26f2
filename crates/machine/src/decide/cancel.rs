//! Cancelling: by a caller, by a rejection, or by an expired approval. The same rules apply to all: the
//! definition's failure policy decides whether completed steps are compensated, unless the caller
//! chooses, and the execution waits for the tasks that workers have.

use std::sync::Arc;

use stateway_definition::FailurePolicy;
use stateway_model::Reason;

use super::compensation::{left_behind, not_compensated};
use crate::command::CancelMode;
use crate::event::{Fact, TurnCause};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::state::Ending;
use crate::{ExecutionState, Rejection};

pub(super) fn cancel(
    draft: &mut Draft<'_>,
    mode: CancelMode,
    by: Arc<str>,
    comment: Arc<str>,
) -> Result<(), Rejection> {
    let state = draft.head().state;
    let cancels = matches!(draft.head().ending, Some(Ending::Cancelled { .. }));
    match (state, mode) {
        (ExecutionState::Cancelled, _) => return Ok(()),
        (_, CancelMode::Kill) => {
            let left = left(draft);
            draft.push(Fact::ExecutionCancelled {
                by,
                reason: Reason::Killed,
                comment,
                left,
            });
            return Ok(());
        }
        (state, _) if state.is_ending() && cancels => return Ok(()),
        (state, _) if state.is_ending() => return Err(Rejection::RollingBack),
        _ => {}
    }
    let compensate = match mode {
        CancelMode::Compensate => true,
        CancelMode::Stop | CancelMode::Kill => false,
        CancelMode::Policy => compensates(draft),
    };
    turn(draft, by, Reason::Cancelled, comment, compensate);
    Ok(())
}

/// Whether the definition compensates after a failure.
pub(super) fn compensates(draft: &Draft<'_>) -> bool {
    draft.head().plan.definition().failure_policy == FailurePolicy::Compensate
}

/// Cancels the execution for a reason, with or without compensation.
pub(super) fn turn(
    draft: &mut Draft<'_>,
    by: Arc<str>,
    reason: Reason,
    comment: Arc<str>,
    compensate: bool,
) {
    let begun = draft.head().times.started.is_some();
    let awaited = in_hands(draft);
    let fact = if begun && compensate {
        Fact::CompensationStarted {
            cause: TurnCause::Cancelled {
                by,
                comment,
                reason: (reason != Reason::Cancelled).then_some(reason),
            },
            message: "".into(),
            awaited,
        }
    } else if awaited.is_empty() {
        let left = left(draft);
        Fact::ExecutionCancelled {
            by,
            reason,
            comment,
            left,
        }
    } else {
        Fact::CancellationStarted {
            by,
            reason,
            comment,
            awaited,
        }
    };
    draft.push(fact);
}

/// The steps that were not rolled back although the definition compensates, or although a rollback had
/// begun.
fn left(draft: &Draft<'_>) -> Vec<Arc<str>> {
    if compensates(draft) {
        not_compensated(draft)
    } else {
        left_behind(draft)
    }
}

/// The steps that a worker or a child is busy with.
pub(super) fn in_hands(draft: &Draft<'_>) -> Vec<Arc<str>> {
    let busy = |ix: &&StepIx| draft.run(**ix).is_in_hands();
    let head = draft.head();
    head.open
        .iter()
        .filter(busy)
        .map(|ix| head.plan.name(*ix))
        .collect()
}

/// Ends a cancelled execution once nothing is in a worker's hands. False: nothing follows.
pub(super) fn finish(draft: &mut Draft<'_>) -> bool {
    if !draft.head().open.is_empty() {
        return false;
    }
    let (by, comment, reason) = match draft.head().ending.clone() {
        Some(Ending::Cancelled {
            by,
            comment,
            reason,
        }) => (by, comment, reason),
        Some(Ending::RolledBack | Ending::Escalated(_)) | None => ("".into(), "".into(), None),
    };
    let left = left(draft);
    draft.push(Fact::ExecutionCancelled {
        by,
        reason: reason.unwrap_or(Reason::Cancelled),
        comment,
        left,
    });
    false
}
