//! Another revision is offered to an execution that runs.

use std::sync::Arc;

use stateway_machine::ExecutionState::{Completed, Paused, Queued};
use stateway_machine::{PauseCause, Rejection, StepState, Verb, sub_state};
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

const GUARDED: &str = "\
maxCost: 10
escalation: {role: lead}
steps:
  - {name: a}
  - {name: g, dependsOn: [a], approval: {role: boss}}
  - {name: pay, dependsOn: [g], maxTokens: 100, escalation: {role: owner}}
";

/// The conflict for which an execution of [`GUARDED`] pauses when this is written differently.
#[track_caller]
fn conflict(from: &str, to: &str) -> String {
    let mut run = Run::started(GUARDED);
    let offered = GUARDED.replace(from, to);
    assert_ne!(offered, GUARDED);
    assert_eq!(offer(&mut run, &offered), Ok(vec!["ExecutionPaused"]));
    let Some(PauseCause::RevisionMismatch { conflicts, .. }) = run.state.pause_cause() else {
        panic!("{:?}", run.state.pause_cause());
    };
    conflicts.join("; ")
}

#[test]
fn a_revision_that_removes_or_changes_an_approval_pauses() {
    let gate = "  - {name: g, dependsOn: [a], approval: {role: boss}}\n";
    let without = GUARDED.replace(gate, "").replace("[g]", "[a]");
    let mut run = Run::started(GUARDED);
    assert_eq!(offer(&mut run, &without), Ok(vec!["ExecutionPaused"]));
    assert_eq!(
        conflict("role: boss", "role: intern"),
        "the approval `g` is different in the new revision: `approval.role` was boss and is now \
         intern"
    );
    assert_eq!(
        conflict("dependsOn: [g]", "dependsOn: [a]"),
        "step `pay` does not depend on the approval `g` in the new revision"
    );
}

#[test]
fn a_revision_that_changes_an_escalation_role_or_a_budget_pauses() {
    for (from, to, fields) in [
        (
            "role: lead",
            "role: me",
            "`escalation.role` was lead and is now me",
        ),
        ("maxCost: 10\n", "", "`maxCost` was 10 and is now not set"),
        (
            "maxCost: 10",
            "maxCost: 99",
            "`maxCost` was 10 and is now 99",
        ),
    ] {
        let expected = format!("the definition is different in the new revision: {fields}");
        assert_eq!(conflict(from, to), expected);
    }
    for (from, to, fields) in [
        (
            ", escalation: {role: owner}",
            "",
            "`escalation.role` was owner and is now not set",
        ),
        (
            "maxTokens: 100",
            "maxTokens: 200",
            "`maxTokens` was 100 and is now 200",
        ),
    ] {
        let expected = format!("step `pay` is different in the new revision: {fields}");
        assert_eq!(conflict(from, to), expected);
    }
}

/// A pause would take the execution out of the queue.
#[test]
fn an_execution_that_has_not_started_rejects_a_conflict_and_keeps_its_place() {
    let mut run = Run::queued(GUARDED);
    let rejection = offer(&mut run, &GUARDED.replace("role: boss", "role: intern"));
    let rejection = rejection.unwrap_err();
    assert!(matches!(rejection, Rejection::Incompatible { .. }));
    assert_eq!(run.at(), Queued);
}

#[test]
fn a_revision_may_add_guards_and_drop_the_dependency_on_a_granted_approval() {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    let stricter = "maxCost: 5\nsteps: [{name: a}, {name: g, dependsOn: [a], approval: {role: \
                    boss}}, {name: b, dependsOn: [g], maxTokens: 9}]";
    assert_eq!(offer(&mut run, stricter), Ok(vec!["RevisionAdopted"]));

    let yaml =
        "steps: [{name: g, approval: {role: boss}}, {name: a}, {name: b, dependsOn: [a, g]}]";
    let mut run = Run::started(yaml);
    run.vote("g", 1, true, "eve").unwrap();
    let free = yaml.replace("[a, g]", "[a]");
    assert_eq!(offer(&mut run, &free), Ok(vec!["RevisionAdopted"]));
}

#[test]
fn whoever_had_a_revision_adopted_does_not_decide() {
    let yaml = "steps: [{name: g, approval: {role: boss}}, {name: b, dependsOn: [g]}]";
    let mut run = Run::started(yaml);
    let longer = yaml.replace("[g]}]", "[g], timeout: 9m}]");
    offer(&mut run, &longer).unwrap();
    let own = Rejection::RedoneBySelf { by: "Bob".into() };
    assert_eq!(run.vote("g", 1, true, "Bob"), Err(own));
    assert!(run.vote("g", 1, true, "eve").is_ok());
}

#[test]
fn offering_the_present_revision_changes_nothing() {
    let mut run = Run::started("steps: [{name: a}]");
    assert_eq!(
        offer(&mut run, "steps:\n  - name: a # the same\n"),
        Ok(vec![])
    );
}
