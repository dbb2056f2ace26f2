//! People step in: an escalated step is decided about, a back-off is cut short.

use std::sync::Arc;

use stateway_model::Reason;

use super::{cancel, duty, find, start};
use crate::event::{Fact, Resolution};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::{Rejection, StepState};

/// One person's decision about an escalated step.
pub(super) struct Resolve {
    pub(super) step: Arc<str>,
    pub(super) attempt: u32,
    pub(super) resolution: Resolution,
    pub(super) by: Arc<str>,
    pub(super) roles: Vec<Arc<str>>,
    pub(super) operators: Vec<Arc<str>>,
    pub(super) comment: Arc<str>,
    pub(super) compensate: Option<bool>,
}

/// Cancelling follows the definition's failure policy unless the person chooses, as every other
/// cancellation does.
pub(super) fn resolve(draft: &mut Draft<'_>, resolve: Resolve) -> Result<(), Rejection> {
    let ix = find(draft, &resolve.step)?;
    if draft.head().escalated.binary_search(&ix).is_err() {
        return Err(Rejection::NotEscalated { step: resolve.step });
    }
    if draft.run(ix).attempt != resolve.attempt {
        return Err(Rejection::StaleEscalation {
            step: resolve.step,
            attempt: resolve.attempt,
        });
    }
    duty::check(draft, ix, &resolve.by)?;
    check_role(draft, ix, &resolve)?;
    let cancels = resolve.resolution == Resolution::Cancel;
    let compensate = resolve.compensate;
    let (by, comment) = (Arc::clone(&resolve.by), Arc::clone(&resolve.comment));
    draft.push(Fact::EscalationResolved {
        step: resolve.step,
        attempt: resolve.attempt,
        resolution: resolve.resolution,
        by: resolve.by,
        comment: resolve.comment,
    });
    if cancels {
        let compensate = compensate.unwrap_or_else(|| cancel::compensates(draft));
        cancel::turn(draft, by, Reason::Cancelled, comment, compensate);
    }
    Ok(())
}

/// The role that the definition names, or one that the configuration names.
fn check_role(draft: &Draft<'_>, ix: StepIx, resolve: &Resolve) -> Result<(), Rejection> {
    let named = draft.run(ix).escalation_role.as_ref();
    let fits = |role: &Arc<str>| match named {
        Some(named) => role == named,
        None => resolve.operators.contains(role),
    };
    if resolve.roles.iter().any(fits) {
        return Ok(());
    }
    let role = named.map_or_else(|| resolve.operators.join("` or `").into(), Arc::clone);
    Err(Rejection::RoleRequired {
        step: Arc::clone(&resolve.step),
        role,
    })
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
