//! Shadows: recorded runs under their own definition and under others.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod branch;
mod definition;
mod hand_out;
mod rollback;
mod version_1;

use serde_json::json;
use stateway_machine::{Data, StepTimer, Verb};
use stateway_model::ErrorCategory::Transient;
use stateway_model::Usage;
use stateway_replay::{Shadow, rederive};

use crate::kit::{Run, plan};

pub(crate) const ORDER: &str = "
name: order
failurePolicy: compensate
steps:
  - {name: reserve}
  - {name: charge, dependsOn: [reserve], input: {n: '${steps.reserve.output.n}'},
     retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 30s}}
  - {name: ship, dependsOn: [charge]}
compensation: [{step: reserve}]
";

/// Charged at the second attempt, and shipped.
pub(crate) fn shipped() -> Run {
    let mut run = Run::started(ORDER);
    run.complete("reserve", json!({"n": 1}));
    run.fail("charge", Transient);
    run.fire("charge", StepTimer::Retry);
    run.complete("charge", json!({"paid": true}));
    run.complete("ship", json!({"sent": true}));
    run
}

pub(crate) fn shadow(run: &Run, source: &str) -> Shadow {
    rederive(&run.plan, &run.events, &plan(source)).unwrap()
}

/// Kind, event, step, recorded and derived of every difference.
pub(crate) fn differences(shadow: &Shadow) -> Vec<String> {
    let lines = shadow.divergences.iter().map(|found| {
        format!(
            "{} @{} {}: {} | {}",
            found.kind, found.sequence, found.step, found.recorded, found.derived
        )
    });
    lines.collect()
}

pub(crate) fn open(shadow: &Shadow) -> Vec<String> {
    shadow.unrecorded.iter().map(ToString::to_string).collect()
}

pub(crate) const BUDGET: &str =
    "name: one\nmaxCost: 5\nsteps: [{name: a}, {name: b, dependsOn: [a]}]";

pub(crate) fn costs(run: &mut Run, step: &str, units: u64) {
    let task = run.task(step);
    let usage = Usage {
        cost_micros: units * 1_000_000,
        ..Usage::default()
    };
    run.ok(Verb::CompleteTask {
        task,
        output: Data::new(json!({})),
        usage: Some(usage),
    });
}
