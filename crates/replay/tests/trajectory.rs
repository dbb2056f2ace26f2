//! The canonical sequence, kept as a golden file: every engine has to produce it.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use crate::kit;

use std::sync::Arc;

use kit::Run;
use serde_json::json;
use stateway_machine::StepTimer;
use stateway_model::ErrorCategory::{AgentError, Transient};
use stateway_replay::Trajectory;

const SAGA: &str = "steps:\n  - {name: reserve, agent: w}\n  - {name: charge, agent: w, dependsOn: \
                    [reserve], retryPolicy: {maxRetries: 1}}\n  - {name: settled, dependsOn: [charge], \
                    signal: paid}\n  - {name: ship, agent: w, dependsOn: [settled], onFailure: \
                    compensate}\ncompensation: [{step: reserve}, {step: charge}]";

fn of(run: &Run) -> Trajectory {
    Trajectory::of(Arc::clone(&run.plan), &run.events)
}

fn rolled_back() -> Run {
    let mut run = Run::started(SAGA);
    run.done("reserve");
    run.fail("charge", Transient);
    run.fire("charge", StepTimer::Retry);
    run.done("charge");
    run.signal("paid", "m").unwrap();
    run.fail("ship", AgentError);
    run.done("charge");
    run.done("reserve");
    run
}

#[test]
fn a_saga_that_rolls_back_has_this_trajectory() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/trajectory-saga.txt"
    );
    let text = of(&rolled_back()).to_string();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

#[test]
fn a_trajectory_survives_json() {
    let trajectory = of(&rolled_back());
    let text = serde_json::to_string(&trajectory).unwrap();
    assert_eq!(
        serde_json::from_str::<Trajectory>(&text).unwrap(),
        trajectory
    );
}

#[test]
fn interleavings_of_parallel_steps_agree_step_by_step() {
    let two = "steps: [{name: a}, {name: b}]";
    let mut left = Run::started(two);
    left.complete("a", json!(1));
    left.complete("b", json!(2));
    let mut right = Run::started(two);
    right.complete("b", json!(2));
    right.complete("a", json!(1));
    assert_ne!(of(&left), of(&right));
    assert_eq!(of(&left).by_step(), of(&right).by_step());
}

#[test]
fn times_and_ids_have_no_part_in_it() {
    let mut slow = Run::started(SAGA);
    slow.wait(std::time::Duration::from_secs(77));
    slow.done("reserve");
    let mut quick = Run::started(SAGA);
    quick.done("reserve");
    assert_eq!(of(&slow), of(&quick));
}
