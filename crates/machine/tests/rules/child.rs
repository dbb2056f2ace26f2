//! Children: their ids, how they begin, and what their parents learn of their end.

use serde_json::json;
use stateway_machine::{
    CancelMode, ChildOrder, Data, Failure, MAX_CHILD_DEPTH, Obligation, Task, TaskKey, Verb,
    cancel_child, check_child_depth, child_id, child_outcome, create_child, finish_child,
    obligations,
};
use stateway_model::ErrorCategory::{AgentError, External};
use stateway_model::Usage;

use crate::kit::Run;

fn key(execution: &str, branch: u32) -> TaskKey {
    TaskKey {
        execution: execution.into(),
        branch,
        task: Task::of("ship", 2),
    }
}

fn order(run: &Run) -> ChildOrder {
    let mut owed = obligations(&run.state).into_iter();
    owed.find_map(|owed| match owed {
        Obligation::Child(order) => Some(order),
        _ => None,
    })
    .unwrap()
}

#[test]
fn the_id_of_a_child_follows_from_its_step_attempt_and_branch() {
    assert_eq!(&*child_id(&key("e1", 0)), "e1~ship~2");
    assert_eq!(&*child_id(&key("e1", 3)), "e1~ship~2~b3");
}

#[test]
fn a_long_id_is_cut_and_stays_unique_and_the_same() {
    let long = "ä".repeat(150);
    let (first, second) = (child_id(&key(&long, 0)), child_id(&key(&long, 1)));
    assert!(first.len() <= 240 && second.len() <= 240);
    assert_ne!(first, second);
    let (_, digest) = first.rsplit_once('~').unwrap();
    assert!(digest.len() == 24 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(first, child_id(&key(&long, 0)));
}

#[test]
fn a_child_belongs_to_its_parent_and_gets_the_input_of_its_step() {
    let mut parent = Run::started(
        "steps: [{name: a}, {name: k, dependsOn: [a], workflow: child, input: {n: \
         '${steps.a.output.n}'}}]",
    );
    parent.complete("a", json!({"n": 7}));
    let expected = Verb::Create {
        execution: "e1~k~1".into(),
        correlation: "order-7".into(),
        initiator: "ada".into(),
        input: Data::new(json!({"n": 7})),
        redone_by: Vec::new(),
    };
    assert_eq!(create_child(&parent.state, &order(&parent)), expected);
}

#[test]
fn who_had_the_parent_run_again_may_not_decide_about_its_child() {
    let mut parent = Run::started("steps: [{name: k, workflow: child}]");
    parent.cancel(CancelMode::Kill);
    let again = parent.retried_from(3, "k", "eve");
    let Verb::Create { redone_by, .. } = create_child(&again.state, &order(&again)) else {
        panic!("not a creation");
    };
    assert_eq!(redone_by, ["eve".into()]);
}

#[test]
fn children_are_nested_no_deeper_than_the_limit() {
    assert_eq!(check_child_depth(MAX_CHILD_DEPTH), Ok(()));
    let message = "children may be nested 32 deep, and this one would be deeper";
    let failure = Failure::reported(External, message);
    assert_eq!(check_child_depth(MAX_CHILD_DEPTH + 1), Err(failure));
}

#[test]
fn a_parent_learns_the_output_and_the_usage_of_a_completed_child() {
    let mut child = Run::started("steps: [{name: a}]");
    assert_eq!(child_outcome(&child.state), None);
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 2,
        cost_micros: 3,
    };
    child.ok(Verb::CompleteTask {
        task: child.task("a"),
        output: Data::new(json!(1)),
        usage: Some(usage),
    });
    let expected = Verb::FinishChild {
        step: "ship".into(),
        attempt: 2,
        outcome: Ok(Data::new(json!({"a": 1}))),
        usage,
    };
    assert_eq!(finish_child(&key("p", 0), &child.state), Some(expected));
}

#[test]
fn a_parent_learns_why_a_child_failed_and_that_it_may_have_taken_effect() {
    let mut child = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    child.done("a");
    child.fail("b", AgentError);
    let message = "the child execution `e1` ended as failed: it broke";
    let failure = Failure {
        effects_unknown: true,
        ..Failure::reported(External, message)
    };
    assert_eq!(child_outcome(&child.state), Some(Err(failure)));
}

#[test]
fn a_killed_parent_kills_its_children_and_any_other_end_cancels_them() {
    let mode = |kill| match cancel_child(kill) {
        Verb::Cancel { mode, .. } => mode,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (mode(true), mode(false)),
        (CancelMode::Kill, CancelMode::Policy)
    );
}
