//! The short forms of soak, exhaustive check and fuzzing, in every test run.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use stateway_machine_check::exhaustive::visit;
use stateway_machine_check::fuzz::{
    commands, definitions, events, histories, hostile, schedules, snapshots,
};
use stateway_machine_check::soak::soak;

/// Enough worlds to reach every listed state and move of the machine and of every vocabulary.
const WORLDS: u64 = 12_000;

#[test]
fn random_worlds_keep_every_invariant_and_reach_everything_that_is_listed() {
    let soak = soak(1, WORLDS, &|_| {}).unwrap_or_else(|broken| panic!("{broken}"));
    let missing = soak.missing();
    assert!(missing.is_empty(), "never reached: {missing:#?}");
    println!(
        "{} worlds, {} commands, {} events",
        soak.cases, soak.commands, soak.events
    );
}

#[test]
fn no_reachable_state_of_the_small_definition_is_bad() {
    let visit = visit().unwrap();
    println!(
        "{} states, {} generated, depth {}",
        visit.unique, visit.generated, visit.depth
    );
    assert_eq!(visit.broken, Vec::<String>::new());
    assert!(
        visit.unique > 100_000,
        "the check has become too small: {}",
        visit.unique
    );
}

#[test]
fn broken_definitions_never_panic() {
    let tally = definitions(7, 4_000, Duration::from_secs(20));
    assert!(tally.inputs > 500 && tally.accepted > 0, "{tally:?}");
}

#[test]
fn broken_events_never_panic() {
    let tally = events(7, 20_000, Duration::from_secs(20));
    assert!(tally.inputs > 2_000 && tally.accepted > 0, "{tally:?}");
}

#[test]
fn broken_commands_never_panic() {
    let tally = commands(7, 20_000, Duration::from_secs(20));
    assert!(tally.inputs > 2_000 && tally.accepted > 0, "{tally:?}");
}

#[test]
fn schedules_never_panic_stop_or_go_back() {
    let tally = schedules(7, 20_000, Duration::from_secs(20));
    assert!(tally.inputs > 2_000 && tally.accepted > 100, "{tally:?}");
}

#[test]
fn broken_snapshots_never_panic() {
    let tally = snapshots(7, 20_000, Duration::from_secs(20));
    assert!(tally.inputs > 2_000 && tally.accepted > 0, "{tally:?}");
}

#[test]
fn broken_histories_never_panic() {
    let tally = histories(7, 3_000, Duration::from_secs(20));
    assert!(tally.inputs > 300 && tally.accepted > 0, "{tally:?}");
}

#[test]
fn hostile_definitions_are_answered_quickly() {
    for source in hostile() {
        // What this thread worked, however much else the machine has to do.
        let worked = || clock_gettime(ClockId::ThreadCPUTime);
        let began = worked();
        let _ = stateway_definition::parse(&source, "hostile.yaml");
        let took = Duration::try_from(worked() - began).unwrap();
        let shown: String = source.chars().take(40).collect();
        assert!(took < Duration::from_secs(10), "{took:?} for {shown}");
    }
}

#[test]
fn a_soak_is_the_same_on_every_machine() {
    let events = |seed| soak(seed, 50, &|_| {}).map(|soak| soak.events).unwrap();
    assert_eq!(events(3), events(3));
    assert_ne!(events(3), events(4_000));
}
