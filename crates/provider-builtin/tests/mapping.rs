//! Every sub-state that the core reports has a row in the table, which ExplainExecution shows, and the
//! core reaches every row.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps an error has failed"
)]

use std::collections::BTreeSet;

use jiff::Timestamp;
use stateway_engine::View as Seen;
use stateway_machine::State;
use stateway_machine_check::definitions::MOST_STEPS;
use stateway_machine_check::world;
use stateway_provider_api::table::{Row, compiled_in};
use stateway_provider_api::{Decision, View, classify};
use stateway_provider_builtin::observation;

/// Enough worlds to be everywhere an execution can be.
const WORLDS: u64 = 1_500;

/// Rows that no execution of this engine meets: what stands under the qualified rows in case a
/// newer engine has a cause that an older gateway does not know, and what depends on the connected
/// workers, which the log does not hold; the contract's cases stage that.
const NEVER_MET: &[&str] = &[
    "execution::compensating (assigned = nobody)",
    "execution::failed",
    "execution::failed (cause = governance)",
    "execution::paused",
    "step::compensating (assigned = nobody)",
    "step::correcting (assigned = nobody)",
    "step::failed",
    "step::running (assigned = nobody)",
];

/// A row that chance alone seldom meets; the contract's cases stage it.
const SELDOM_MET: &str = "step::failed (cause = exhausted, parked = yes)";

fn label(row: &Row) -> String {
    format!("{}::{}", row.scope.as_str(), row.label())
}

#[test]
fn every_reported_state_has_its_row_and_every_row_is_reached() {
    let table = compiled_in("builtin").unwrap();
    let mut met = BTreeSet::new();
    for seed in 0..WORLDS {
        let story = world::run(seed, MOST_STEPS).unwrap();
        let mut state = State::new(story.plan);
        for turn in story
            .events
            .chunk_by(|one, next| one.causation == next.causation)
        {
            // What one command leads to is seen as a whole or not at all.
            turn.iter().for_each(|event| state.apply(event));
            let seen = Seen::of_state(&state);
            let shown = observation(&seen, View::Full);
            let classified = classify(&table, &shown, Timestamp::MAX);
            let verdicts = std::iter::once(&classified.execution).chain(&classified.steps);
            for verdict in verdicts {
                let place = || format!("seed {seed}, event {}: {shown:#?}", state.sequence());
                assert_ne!(verdict.decision, Decision::Reported, "{}", place());
                met.extend(verdict.row.map(label));
            }
        }
    }
    let mut never: Vec<_> = table.rows().iter().map(label).collect();
    never.retain(|row| !met.contains(row) && row != SELDOM_MET);
    never.sort();
    assert_eq!(never, NEVER_MET);
}
