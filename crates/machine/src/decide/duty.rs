//! Separation of duties: a person cannot decide about what they started, had run again, or worked on, nor
//! about a request for an approval that they gave to another role.
//!
//! Names of people are compared without regard to case and surrounding spaces, so that a second
//! spelling of a name is not a second person.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::Rejection;
use crate::ledger::Ledger;
use crate::plan::StepIx;

/// Whether this person may decide about a step at all, whatever their roles.
pub(super) fn check(ledger: &impl Ledger, ix: StepIx, by: &Arc<str>) -> Result<(), Rejection> {
    let head = ledger.head();
    if same(by, &head.initiator) {
        return Err(Rejection::SelfApproval { by: Arc::clone(by) });
    }
    if head.redone_by.iter().any(|other| same(by, other)) {
        return Err(Rejection::RedoneBySelf { by: Arc::clone(by) });
    }
    if let Some(step) = worked_on(ledger, ix, by) {
        return Err(Rejection::OwnWork {
            by: Arc::clone(by),
            step,
        });
    }
    Ok(())
}

/// Whether this person may decide about a request for an approval, whatever their roles.
pub(super) fn check_request(
    ledger: &impl Ledger,
    ix: StepIx,
    by: &Arc<str>,
) -> Result<(), Rejection> {
    check(ledger, ix, by)?;
    let reassigned_by = &ledger.run(ix).reassigned_by;
    if reassigned_by.iter().any(|other| same(by, other)) {
        return Err(Rejection::ReassignedBySelf {
            by: Arc::clone(by),
            step: ledger.head().plan.name(ix),
        });
    }
    Ok(())
}

/// The step whose result is judged and that this person worked on: the step itself, or one that it
/// depends on, directly or through other steps. Every attempt counts, not only the last one.
fn worked_on(ledger: &impl Ledger, ix: StepIx, by: &str) -> Option<Arc<str>> {
    let plan = &ledger.head().plan;
    let mut seen = BTreeSet::from([ix]);
    let mut open = vec![ix];
    while let Some(judged) = open.pop() {
        let worked_on_by = &ledger.run(judged).worked_on_by;
        if worked_on_by.iter().any(|other| same(by, other)) {
            return Some(plan.name(judged));
        }
        let dependencies = plan.define(judged).depends_on.iter();
        open.extend(
            dependencies
                .filter_map(|name| plan.find(name))
                .filter(|dependency| seen.insert(*dependency)),
        );
    }
    None
}

fn same(left: &str, right: &str) -> bool {
    let (left, right) = (left.trim(), right.trim());
    left.len() == right.len() && left == right || left.to_lowercase() == right.to_lowercase()
}
