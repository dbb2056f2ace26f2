//! Begin, hold, go on, end.

use std::sync::Arc;

use stateway_model::Reason;

use crate::backoff::later;
use crate::command::CancelMode;
use crate::event::{Data, Fact, PauseCause, Redo, TurnCause};
use crate::ledger::{Draft, Ledger as _};
use crate::{ExecutionState, Rejection};

pub(super) fn create(
    draft: &mut Draft<'_>,
    execution: Arc<str>,
    correlation: Arc<str>,
    initiator: Arc<str>,
    input: Data,
) {
    draft.correlate(correlation);
    let revision = draft.head().plan.shared_revision();
    draft.push(Fact::ExecutionCreated {
        execution,
        branch: 0,
        revision,
        initiator,
        input,
    });
}

pub(super) fn trigger(draft: &mut Draft<'_>, by: Arc<str>) -> Result<(), Rejection> {
    draft.push(Fact::ExecutionQueued { by });
    Ok(())
}

pub(super) fn grant_slot(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    let timeout = draft.head().plan.definition().timeout;
    let deadline = timeout.map(|timeout| later(draft.now(), timeout));
    draft.push(Fact::ExecutionStarted { deadline });
    Ok(())
}

pub(super) fn pause(
    draft: &mut Draft<'_>,
    by: Arc<str>,
    comment: Arc<str>,
) -> Result<(), Rejection> {
    draft.push(Fact::ExecutionPaused {
        cause: PauseCause::ByHand { by, comment },
    });
    Ok(())
}

pub(super) fn resume(draft: &mut Draft<'_>, by: Arc<str>) -> Result<(), Rejection> {
    draft.push(Fact::ExecutionResumed { by });
    Ok(())
}

pub(super) fn cancel(
    draft: &mut Draft<'_>,
    mode: CancelMode,
    by: Arc<str>,
    comment: Arc<str>,
) -> Result<(), Rejection> {
    let begun = !matches!(
        draft.head().state,
        ExecutionState::Created | ExecutionState::Queued
    );
    let fact = match mode {
        CancelMode::Compensate if begun => Fact::CompensationStarted {
            cause: TurnCause::Cancelled { by, comment },
        },
        CancelMode::Stop | CancelMode::Compensate => Fact::ExecutionCancelled {
            by,
            reason: Reason::Cancelled,
            comment,
        },
        CancelMode::Kill => Fact::ExecutionCancelled {
            by,
            reason: Reason::Killed,
            comment,
        },
    };
    draft.push(fact);
    Ok(())
}

/// Open attempts belong to the new branch from here on, so their tasks get new keys.
pub(super) fn open_branch(
    draft: &mut Draft<'_>,
    branch: u32,
    cutoff: u64,
    by: Arc<str>,
    redo: Option<Box<Redo>>,
) -> Result<(), Rejection> {
    let present = draft.head().branch;
    if branch <= present {
        return Err(Rejection::StaleBranch { branch, present });
    }
    if let Some(redo) = &redo {
        super::find(draft, &redo.step)?;
    }
    draft.push(Fact::BranchOpened {
        branch,
        parent: present,
        cutoff,
        by,
        redo,
    });
    Ok(())
}
