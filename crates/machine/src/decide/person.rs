//! People step in: an escalated step is decided about, a pause is cut short.

use std::sync::Arc;

use stateway_model::Reason;

use super::{find, start};
use crate::event::{Fact, Resolution};
use crate::ledger::{Draft, Ledger as _};
use crate::{Rejection, StepState};

pub(super) fn resolve(
    draft: &mut Draft<'_>,
    step: Arc<str>,
    resolution: Resolution,
    by: Arc<str>,
    comment: Arc<str>,
) -> Result<(), Rejection> {
    let ix = find(draft, &step)?;
    if draft.head().escalated.binary_search(&ix).is_err() {
        return Err(Rejection::NotEscalated { step });
    }
    let cancels = resolution == Resolution::Cancel;
    draft.push(Fact::EscalationResolved {
        step,
        resolution,
        by: Arc::clone(&by),
        comment: Arc::clone(&comment),
    });
    if cancels {
        draft.push(Fact::ExecutionCancelled {
            by,
            reason: Reason::Cancelled,
            comment,
        });
    }
    Ok(())
}

pub(super) fn retry_now(draft: &mut Draft<'_>, step: &Arc<str>) -> Result<(), Rejection> {
    let ix = find(draft, step)?;
    if draft.run(ix).state != StepState::BackingOff {
        return Err(Rejection::NotBackingOff {
            step: Arc::clone(step),
        });
    }
    start::open(draft, ix);
    Ok(())
}
