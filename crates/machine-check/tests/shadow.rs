//! Random worlds in a shadow: under its own definition a run comes out as it was recorded, and
//! under any other definition a shadow ends, always the same, and makes nothing up.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::collections::BTreeSet;

use stateway_machine::{Fact, PauseCause, rederive};
use stateway_machine_check::world::run;

const WORLDS: u64 = 1_500;

/// Whether a run was offered another definition, which no shadow follows.
fn was_offered(events: &[stateway_machine::Event]) -> bool {
    events.iter().any(|event| {
        matches!(
            event.fact,
            Fact::RevisionAdopted { .. }
                | Fact::ExecutionPaused {
                    cause: PauseCause::RevisionMismatch { .. }
                }
        )
    })
}

#[test]
fn under_its_own_definition_every_run_comes_out_as_recorded() {
    let mut compared = 0;
    for seed in 0..WORLDS {
        let story = run(seed, 6).unwrap();
        if was_offered(&story.events) {
            continue;
        }
        compared += 1;
        let shadow = rederive(&story.plan, &story.events, &story.plan).unwrap();
        let told: Vec<_> = shadow.divergences.iter().map(ToString::to_string).collect();
        assert!(
            told.is_empty(),
            "seed {seed}: {told:#?}\n{:#?}",
            story.events
        );
    }
    assert!(compared > 500, "only {compared} worlds were compared");
}

#[test]
fn under_another_definition_a_shadow_ends_and_uses_only_what_is_recorded() {
    for seed in 0..WORLDS {
        let (story, other) = (run(seed, 6).unwrap(), run(seed + WORLDS, 6).unwrap());
        let shadow = rederive(&story.plan, &story.events, &other.plan).unwrap();
        let again = rederive(&story.plan, &story.events, &other.plan).unwrap();
        assert_eq!(shadow, again, "seed {seed}");
        let open = !shadow.state.state().is_terminal();
        let told = !shadow.unrecorded.is_empty();
        assert!(
            !open || told,
            "seed {seed}: it is open and nothing says why"
        );
        let outputs = |events: &[stateway_machine::Event]| -> BTreeSet<String> {
            let outputs = events.iter().filter_map(|event| match &event.fact {
                Fact::StepCompleted {
                    step,
                    attempt,
                    output,
                } => Some(format!("{step} {attempt} {output}")),
                Fact::SignalReceived { payload, .. } => Some(payload.to_string()),
                _ => None,
            });
            outputs.collect()
        };
        let (recorded, derived) = (outputs(&story.events), outputs(&shadow.events));
        for output in derived.difference(&recorded) {
            // What a wait answers follows from the signal, the vote or the clock.
            let follows = recorded
                .iter()
                .any(|known| output.ends_with(known.as_str()))
                || output.ends_with("null")
                || output.contains("\"decision\"");
            assert!(follows, "seed {seed}: {output} was made up");
        }
    }
}
