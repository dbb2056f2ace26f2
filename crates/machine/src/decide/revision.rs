//! Another revision is offered: adopted if the steps that have begun are unchanged, otherwise the
//! execution pauses.

use std::sync::Arc;

use stateway_definition::{Definition, Revision, conflicts};

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
    let conflicts = conflicts(plan.definition(), definition, &begun);
    if conflicts.is_empty() {
        adopt(draft, revision, definition, by);
        return Ok(());
    }
    if draft.head().state.is_held() {
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
    let mismatched = matches!(draft.head().hold, Some(PauseCause::RevisionMismatch { .. }));
    draft.push(Fact::RevisionAdopted {
        revision,
        definition: Box::new(definition.clone()),
    });
    if mismatched {
        draft.push(Fact::ExecutionResumed { by });
    }
}
