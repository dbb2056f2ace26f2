//! People resolve escalations and end back-offs early.

use std::sync::Arc;

use stateway_model::Reason;

use super::{cancel, compensation, duty, find, start};
use crate::event::{Fact, Resolution};
use crate::ledger::{Draft, Ledger};
use crate::plan::StepIx;
use crate::state::StepRun;
use crate::{Rejection, State, StepState};

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
    let resolver = Resolver {
        by: &resolve.by,
        roles: &resolve.roles,
        operators: &resolve.operators,
    };
    check_resolver(draft, ix, &resolver)?;
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

/// A person who wants to resolve escalations.
#[derive(Debug, Clone, Copy)]
pub struct Resolver<'r> {
    /// Their name.
    pub by: &'r Arc<str>,
    /// The roles they have.
    pub roles: &'r [Arc<str>],
    /// The roles that may decide where the definition names none.
    pub operators: &'r [Arc<str>],
}

/// Whether a person may resolve every unresolved escalation of an execution, including those that were
/// open when the execution ended. Running a part of the execution again replaces these decisions, so it
/// needs the same right.
///
/// # Errors
/// The first reason why the person may not.
pub fn check_resolves_all(state: &State, resolver: &Resolver<'_>) -> Result<(), Rejection> {
    let mut steps = state.plan().steps().map(|(ix, _)| ix);
    steps.try_for_each(|ix| {
        if state.run(ix).unresolved {
            check_resolver(state, ix, resolver)
        } else {
            Ok(())
        }
    })
}

fn check_resolver(
    ledger: &impl Ledger,
    ix: StepIx,
    resolver: &Resolver<'_>,
) -> Result<(), Rejection> {
    duty::check(ledger, ix, resolver.by)?;
    check_role(ledger, ix, resolver)
}

/// The role that the definition names, or one that the configuration names.
fn check_role(ledger: &impl Ledger, ix: StepIx, resolver: &Resolver<'_>) -> Result<(), Rejection> {
    let named = ledger.run(ix).escalation_role.as_ref();
    let fits = |role: &Arc<str>| match named {
        Some(named) => role == named,
        None => resolver.operators.contains(role),
    };
    if resolver.roles.iter().any(fits) {
        return Ok(());
    }
    let role = named.map_or_else(|| resolver.operators.join("` or `").into(), Arc::clone);
    Err(Rejection::RoleRequired {
        step: ledger.head().plan.name(ix),
        role,
    })
}

/// The next attempt, of the step or of its compensation, starts without waiting any longer.
pub(super) fn retry_now(draft: &mut Draft<'_>, step: &Arc<str>) -> Result<(), Rejection> {
    let ix = find(draft, step)?;
    if !is_backing_off(draft.run(ix)) {
        let step = Arc::clone(step);
        return Err(Rejection::NotBackingOff { step });
    }
    begin_again(draft, ix);
    Ok(())
}

/// The same for every step and compensation that is backing off.
pub(super) fn retry_all(draft: &mut Draft<'_>) -> Result<(), Rejection> {
    let open = draft.head().open.clone().into_iter();
    let resting: Vec<StepIx> = open.filter(|ix| is_backing_off(draft.run(*ix))).collect();
    if resting.is_empty() {
        return Err(Rejection::NothingBacksOff);
    }
    resting.into_iter().for_each(|ix| begin_again(draft, ix));
    Ok(())
}

const fn is_backing_off(run: &StepRun) -> bool {
    match run.state {
        StepState::BackingOff => true,
        StepState::Compensating => run.resume_at.is_some(),
        _ => false,
    }
}

fn begin_again(draft: &mut Draft<'_>, ix: StepIx) {
    if draft.run(ix).state == StepState::Compensating {
        compensation::begin(draft, ix);
    } else {
        start::open(draft, ix);
    }
}
