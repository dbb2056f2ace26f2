//! Random worlds in a shadow: under its own definition a run ends as it was recorded, and under any
//! other definition a shadow ends, always the same, and invents nothing.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::collections::BTreeSet;

use stateway_machine::{Event, Fact, FailureCause, PauseCause};
use stateway_machine_check::world::{Story, run};
use stateway_replay::{Shadow, rederive};

const WORLDS: u64 = 3_000;

/// Whether a run was offered another definition, which no shadow follows.
fn was_offered(events: &[Event]) -> bool {
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

/// Whether the cost of a branch that was left kept a step from starting. A shadow counts that cost from
/// the command after the branch on, and the step may start with the command before it.
fn was_limited_by_left_cost(events: &[Event]) -> bool {
    let left = events.iter().skip_while(
        |event| !matches!(&event.fact, Fact::BranchOpened { spent, .. } if !spent.is_zero()),
    );
    left.into_iter().any(|event| {
        matches!(&event.fact, Fact::AttemptFailed { failure, .. } if failure.cause == FailureCause::BudgetExceeded)
    })
}

/// The shadow of a log under its own definition has no divergence.
fn comes_out_as_recorded(seed: u64, story: &Story, events: &[Event]) {
    let shadow = rederive(&story.plan, events, &story.plan).unwrap();
    let differences: Vec<_> = shadow.divergences.iter().map(ToString::to_string).collect();
    if differences.is_empty() {
        return;
    }
    let log = |events: &[Event]| -> String {
        let lines = events
            .iter()
            .map(|event| format!("{} {} {:?}\n", event.sequence, event.at, event.fact));
        lines.collect()
    };
    let Shadow {
        events: derived, ..
    } = &shadow;
    panic!(
        "seed {seed}: {differences:#?}\n{}\n{}",
        log(events),
        log(derived)
    );
}

#[test]
fn under_its_own_definition_every_run_comes_out_as_recorded() {
    let (mut compared, mut facts) = (0, BTreeSet::new());
    for seed in 0..WORLDS {
        let story = run(seed, 6).unwrap();
        if was_offered(&story.events) || was_limited_by_left_cost(&story.events) {
            continue;
        }
        compared += 1;
        facts.extend(story.events.iter().map(|event| event.fact.name()));
        comes_out_as_recorded(seed, &story, &story.events);
    }
    assert!(compared > 1_000, "only {compared} worlds were compared");
    for wanted in [
        "BranchOpened",
        "CancellationStarted",
        "ExecutionForked",
        "ExecutionReopened",
        "OutcomeUnknown",
        "PolicyDecided",
        "StepCompensationFailed",
        "TaskReleased",
    ] {
        assert!(facts.contains(wanted), "no world has {wanted}");
    }
}

/// Where one command ends and the next begins. A branch may leave a log in the middle of a command.
fn ends(events: &[Event]) -> impl Iterator<Item = usize> {
    let ends = |at: &usize| {
        let (before, next) = (&events[at - 1], &events[*at]);
        let branches = matches!(
            next.fact,
            Fact::BranchOpened { .. } | Fact::ExecutionForked { .. }
        );
        before.causation != next.causation && !branches
    };
    (1..events.len()).filter(ends)
}

#[test]
fn a_run_that_has_not_ended_comes_out_as_far_as_it_is_recorded() {
    for seed in 0..WORLDS / 10 {
        let story = run(seed, 4).unwrap();
        if was_offered(&story.events) || was_limited_by_left_cost(&story.events) {
            continue;
        }
        for end in ends(&story.events) {
            comes_out_as_recorded(seed, &story, &story.events[..end]);
        }
    }
}

#[test]
fn under_another_definition_a_shadow_ends_and_uses_only_what_is_recorded() {
    for seed in 0..WORLDS {
        let (story, other) = (run(seed, 6).unwrap(), run(seed + WORLDS, 6).unwrap());
        let shadow = rederive(&story.plan, &story.events, &other.plan).unwrap();
        let again = rederive(&story.plan, &story.events, &other.plan).unwrap();
        assert_eq!(shadow, again, "seed {seed}");
        let open = !shadow.state.state().is_terminal();
        let named = !shadow.unrecorded.is_empty();
        assert!(
            !open || named,
            "seed {seed}: the shadow is open and nothing says why"
        );
        let (recorded, derived) = (outputs(&story.events), outputs(&shadow.events));
        for output in derived.difference(&recorded) {
            // The output of a wait follows from the signal, the decision or the clock.
            let follows = recorded
                .iter()
                .any(|known| output.ends_with(known.as_str()))
                || output.ends_with("null")
                || output.contains("\"decision\"");
            assert!(follows, "seed {seed}: {output} was invented");
        }
    }
}

fn outputs(events: &[Event]) -> BTreeSet<String> {
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
}
