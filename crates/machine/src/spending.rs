//! What each step cost on the part of a log that a new branch abandons.

use std::collections::BTreeMap;
use std::sync::Arc;

use stateway_model::Usage;

use crate::State;

/// What each step cost beyond the state that a new branch shares; steps without cost are left out.
#[must_use]
pub fn spent_by_step(present: &State, shared: &State) -> BTreeMap<Arc<str>, Usage> {
    let steps = present
        .plan()
        .steps()
        .map(|(ix, _)| present.plan().name(ix));
    steps
        .map(|step| {
            let spent = whole(present, &step).beyond(whole(shared, &step));
            (step, spent)
        })
        .filter(|(_, spent)| !spent.is_zero())
        .collect()
}

/// What a step cost on every branch so far.
fn whole(state: &State, step: &str) -> Usage {
    let ix = state.plan().find(step);
    ix.map_or_else(Usage::default, |ix| {
        let run = state.run(ix);
        run.usage + run.spent
    })
}
