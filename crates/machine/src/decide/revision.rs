//! Another revision is offered: adopted if the steps that have begun and the guards (approvals,
//! escalation roles, budgets) are unchanged, otherwise the execution pauses.

use std::sync::Arc;

use stateway_definition::{Definition, Revision, Standing, conflicts, guard_conflicts};

use crate::event::{Fact, PauseCause};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::Plan;
use crate::{Rejection, StepState};

pub(super) fn offer(
    draft: &mut Draft<'_>,
    definition: &Definition,
    by: Arc<str>,
) -> Result<(), Rejection> {
    let revision = Revision::of(definition).shared();
    let plan = Arc::clone(&draft.head().plan);
    if *revision == *plan.revision() {
        return Ok(());
    }
    if let Err(error) = Plan::new(definition.clone()) {
        return Err(Rejection::UnusableDefinition {
            reason: error.to_string(),
        });
    }
    let begun = |name: &str| {
        plan.find(name).is_some_and(|ix| {
            let run = draft.run(ix);
            run.state != StepState::Pending || run.attempt > 0
        })
    };
    let completed = |name: &str| {
        let state = plan.find(name).map(|ix| draft.run(ix).state);
        state == Some(StepState::Completed)
    };
    let standing = Standing {
        begun: &begun,
        completed: &completed,
    };
    let mut conflicts = conflicts(plan.definition(), definition, &begun);
    conflicts.extend(guard_conflicts(plan.definition(), definition, &standing));
    if conflicts.is_empty() {
        adopt(draft, revision, definition, by);
        return Ok(());
    }
    // Only an execution that runs can pause.
    if !draft.head().state.is_active() {
        return Err(Rejection::Incompatible {
            offered: revision,
            conflicts,
        });
    }
    let cause = PauseCause::RevisionMismatch {
        offered: revision,
        conflicts,
    };
    draft.push(Fact::ExecutionPaused { cause });
    Ok(())
}

/// An execution that was paused for a mismatch continues with a revision that fits.
fn adopt(draft: &mut Draft<'_>, revision: Arc<str>, definition: &Definition, by: Arc<str>) {
    let mismatched = matches!(
        draft.head().pause_cause,
        Some(PauseCause::RevisionMismatch { .. })
    );
    draft.push(Fact::RevisionAdopted {
        revision,
        definition: Box::new(definition.clone()),
    });
    if mismatched {
        draft.push(Fact::ExecutionResumed { by });
    }
}
