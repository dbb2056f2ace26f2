//! Create, start, pause, resume, branch and fork.

use std::collections::BTreeMap;
use std::sync::Arc;

use stateway_model::Usage;

use crate::backoff::later;
use crate::event::{Data, Fact, PauseCause, Redo};
use crate::ledger::{Draft, Ledger as _};
use crate::{ExecutionState, Rejection};

/// People who may not decide about an execution from its beginning.
pub(super) struct People {
    pub(super) initiator: Arc<str>,
    pub(super) redone_by: Vec<Arc<str>>,
}

pub(super) fn create(
    draft: &mut Draft<'_>,
    execution: Arc<str>,
    correlation: Arc<str>,
    people: People,
    input: Data,
) {
    draft.correlate(correlation);
    let revision = draft.head().plan.shared_revision();
    draft.push(Fact::ExecutionCreated {
        execution,
        branch: 0,
        revision,
        initiator: people.initiator,
        input,
        redone_by: people.redone_by,
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
    if draft.head().state == ExecutionState::Paused {
        return Ok(());
    }
    draft.push(Fact::ExecutionPaused {
        cause: PauseCause::ByHand { by, comment },
    });
    Ok(())
}

pub(super) fn resume(draft: &mut Draft<'_>, by: Arc<str>) -> Result<(), Rejection> {
    draft.push(Fact::ExecutionResumed { by });
    Ok(())
}

/// How another branch of the log begins.
pub(super) struct Opening {
    pub(super) branch: u32,
    pub(super) cutoff: u64,
    pub(super) by: Arc<str>,
    pub(super) redo: Option<Box<Redo>>,
    pub(super) reopened: Option<ExecutionState>,
    pub(super) spent: Usage,
    pub(super) spent_by_step: BTreeMap<Arc<str>, Usage>,
}

/// Open attempts belong to the new branch from here on, so their tasks get new keys.
pub(super) fn open_branch(draft: &mut Draft<'_>, opening: Opening) -> Result<(), Rejection> {
    let Opening {
        branch,
        cutoff,
        by,
        redo,
        reopened,
        spent,
        spent_by_step,
    } = opening;
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
        by: Arc::clone(&by),
        redo,
        spent,
        spent_by_step,
    });
    if let Some(from) = reopened {
        draft.push(Fact::ExecutionReopened { by, from });
    }
    Ok(())
}

/// From here on the copied log is an execution of its own.
pub(super) fn fork(
    draft: &mut Draft<'_>,
    from: Arc<str>,
    (branch, cutoff): (u32, u64),
    by: Arc<str>,
    redo: Box<Redo>,
) -> Result<(), Rejection> {
    super::find(draft, &redo.step)?;
    draft.push(Fact::ExecutionForked {
        from,
        branch,
        cutoff,
        by,
        redo: Some(redo),
        own_times: true,
    });
    Ok(())
}
