//! Another revision is offered to an execution that runs.

use std::sync::Arc;

use stateway_machine::ExecutionState::{Completed, Paused};
use stateway_machine::{Rejection, StepState, Verb, sub_state};
use stateway_model::SubState;

use crate::kit::{Run, plan};

fn offer(run: &mut Run, yaml: &str) -> Result<Vec<&'static str>, Rejection> {
    let definition = Arc::new(plan(yaml).definition().clone());
    run.send(Verb::OfferDefinition {
        definition,
        by: "bob".into(),
    })
}

#[test]
fn a_compatible_revision_is_adopted() {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    let longer =
        "steps: [{name: z, dependsOn: [b]}, {name: a}, {name: b, dependsOn: [a], timeout: 9m}]";
    assert_eq!(offer(&mut run, longer), Ok(vec!["RevisionAdopted"]));
    run.done("a");
    run.done("b");
    assert_eq!(run.step("z"), StepState::Running);
    run.done("z");
    assert_eq!(run.at(), Completed);
}

#[test]
fn a_revision_that_changes_a_step_that_has_begun_pauses() {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    assert_eq!(
        offer(&mut run, "steps: [{name: b}]"),
        Ok(vec!["ExecutionPaused"])
    );
    assert_eq!(
        (run.at(), sub_state(&run.state).0),
        (Paused, SubState::Error)
    );
    let rejection = offer(&mut run, "steps: [{name: c}]").unwrap_err();
    assert!(matches!(rejection, Rejection::Incompatible { .. }));
    run.resume();
    run.done("a");
    assert_eq!(
        run.step("b"),
        StepState::Running,
        "it continues with its own revision"
    );
}

#[test]
fn a_compatible_revision_ends_the_pause_of_a_mismatch() {
    let mut run = Run::started("steps: [{name: a}]");
    offer(&mut run, "steps: [{name: b}]").unwrap();
    let fitting = "steps: [{name: a}, {name: b, dependsOn: [a]}]";
    assert_eq!(
        offer(&mut run, fitting),
        Ok(vec!["RevisionAdopted", "ExecutionResumed"])
    );
}

#[test]
fn offering_the_present_revision_changes_nothing() {
    let mut run = Run::started("steps: [{name: a}]");
    assert_eq!(
        offer(&mut run, "steps:\n  - name: a # the same\n"),
        Ok(vec![])
    );
}
