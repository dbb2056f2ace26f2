//! Branches and forks in a shadow.

use std::time::Duration;

use serde_json::json;
use stateway_machine::{Data, ExecutionState, Fact, Redo, Verb, usage};
use stateway_model::Usage;

use super::{BUDGET, costs, differences, shadow};
use crate::kit::Run;

#[test]
fn a_branch_counts_from_its_place_and_its_input_from_the_beginning() {
    let source = "name: one\nmaxCost: 5\nsteps: [{name: ok, approval: {role: boss}}, \
                  {name: a, dependsOn: [ok]}, {name: b, dependsOn: [a]}]";
    let mut first = Run::started(source);
    // Eve decides, and later has a step run again.
    first.vote("ok", 1, true, "eve").unwrap();
    first.assign("a", "w1");
    costs(&mut first, "a", 3);
    first.assign("b", "w1");
    costs(&mut first, "b", 4);
    let began = first
        .events
        .iter()
        .position(|event| matches!(&event.fact, Fact::StepStarted { step, .. } if **step == *"b"));
    first.wait(Duration::from_secs(3_600));
    let mut run = first.rewound(began.unwrap());
    let spent = Usage {
        cost_micros: 4_000_000,
        ..Usage::default()
    };
    run.ok(Verb::OpenBranch {
        branch: 1,
        cutoff: began.unwrap() as u64,
        by: "eve".into(),
        redo: Some(Box::new(Redo {
            input: Some(Data::new(json!({"again": true}))),
            ..Redo::from("b")
        })),
        reopened: Some(ExecutionState::Failed),
        spent,
        spent_by_step: std::collections::BTreeMap::new(),
    });
    // The branch that was left has used up the budget.
    run.assign("b", "w1");
    assert_eq!(run.at(), ExecutionState::Escalated);
    let same = shadow(&run, source);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(usage(&same.state), usage(&run.state));
    assert_eq!(
        same.state.reopened().map(|it| it.from),
        Some(ExecutionState::Failed)
    );
    // A shadow that runs the step earlier has the new input as well.
    let other = "name: one\nsteps: [{name: ok, approval: {role: boss}}, {name: a}, {name: b}]";
    let found = shadow(&run, other);
    assert!(
        !differences(&found)
            .iter()
            .any(|line| line.starts_with("input")),
        "{:#?}",
        differences(&found)
    );
}

#[test]
fn a_fork_costs_nothing_of_what_it_copies() {
    let mut first = Run::started(BUDGET);
    first.assign("a", "w1");
    costs(&mut first, "a", 5);
    let mut run = first.rewound(first.events.len() - 1);
    run.ok(Verb::Fork {
        from: "e0".into(),
        branch: 0,
        cutoff: run.state.sequence(),
        by: "eve".into(),
        redo: Box::new(Redo::from("b")),
    });
    run.assign("b", "w1");
    costs(&mut run, "b", 1);
    assert_eq!(run.at(), ExecutionState::Completed);
    let same = shadow(&run, BUDGET);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(usage(&same.state), usage(&run.state));
}
