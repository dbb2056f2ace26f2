//! Parallel steps, joins, and what a skipped or failed step does to its dependants.

use crate::kit::Run;
use serde_json::json;
use stateway_machine::ExecutionState::{Completed, Failed};
use stateway_machine::{StepState, task_input};
use stateway_model::ErrorCategory::{AgentError, External};

const DIAMOND: &str = "steps: [{name: a}, {name: b, dependsOn: [a]}, {name: c, dependsOn: [a]}, \
                       {name: d, dependsOn: [b, c]}]";

fn open(run: &Run) -> Vec<String> {
    run.tasks()
        .into_iter()
        .map(|task| task.step.to_string())
        .collect()
}

#[test]
fn a_join_waits_for_both_branches() {
    let mut run = Run::started(DIAMOND);
    assert_eq!(open(&run), ["a"]);
    assert_eq!(
        run.done("a"),
        ["StepCompleted", "StepStarted", "StepStarted"]
    );
    assert_eq!(open(&run), ["b", "c"]);
    assert_eq!(run.done("c"), ["StepCompleted"]);
    assert_eq!(run.done("b"), ["StepCompleted", "StepStarted"]);
    assert_eq!(run.done("d"), ["StepCompleted", "ExecutionCompleted"]);
    assert_eq!(run.at(), Completed);
}

#[test]
fn the_answer_is_the_output_of_the_leaves() {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}, {name: c}]");
    run.complete("a", json!(1));
    run.complete("b", json!(2));
    run.complete("c", json!(3));
    assert_eq!(**run.state.output().unwrap(), json!({"b": 2, "c": 3}));
}

#[test]
fn the_answer_is_what_output_says() {
    let yaml = "steps: [{name: a}]\noutput: {got: \"${steps.a.output.x}\", of: \"${input.total}\"}";
    let mut run = Run::started(yaml);
    run.complete("a", json!({"x": 9}));
    assert_eq!(**run.state.output().unwrap(), json!({"got": 9, "of": 50}));
}

#[test]
fn data_flows_from_step_to_step() {
    let yaml = "steps: [{name: a}, {name: b, dependsOn: [a], input: {n: \"${steps.a.output.n}\", \
                all: \"${input}\"}}]";
    let mut run = Run::started(yaml);
    run.complete("a", json!({"n": [1, 2]}));
    let input = task_input(&run.state, &run.task("b")).unwrap();
    assert_eq!(*input, json!({"n": [1, 2], "all": {"total": 50}}));
}

#[test]
fn continue_on_a_leaf_does_not_hang() {
    let mut run = Run::started("steps: [{name: a, on_failure: continue}]");
    assert_eq!(
        run.fail("a", AgentError),
        ["AttemptFailed", "StepSkipped", "ExecutionCompleted"]
    );
    assert_eq!((run.at(), run.step("a")), (Completed, StepState::Skipped));
}

#[test]
fn dependants_of_a_skipped_step_run() {
    let mut run = Run::started("steps: [{name: a, onFailure: skip}, {name: b, dependsOn: [a]}]");
    run.fail("a", AgentError);
    assert_eq!(open(&run), ["b"]);
}

#[test]
fn a_step_that_needs_a_skipped_output_is_skipped_too() {
    let yaml = "steps: [{name: a, onFailure: skip}, {name: b, dependsOn: [a], input: \
                \"${steps.a.output}\"}, {name: c, dependsOn: [b]}]";
    let mut run = Run::started(yaml);
    run.fail("a", AgentError);
    assert_eq!(run.step("b"), StepState::Skipped);
    assert_eq!(open(&run), ["c"]);
}

#[test]
fn a_failed_step_leaves_its_dependants_pending_and_gives_up_its_siblings() {
    let mut run = Run::started("steps: [{name: a}, {name: b}, {name: c, dependsOn: [a]}]");
    assert_eq!(
        run.fail("a", External),
        ["AttemptFailed", "ExecutionFailed"]
    );
    assert_eq!((run.at(), run.reason().as_str()), (Failed, "NOT_RETRYABLE"));
    let steps = (run.step("a"), run.step("b"), run.step("c"));
    assert_eq!(
        steps,
        (StepState::Failed, StepState::Cancelled, StepState::Pending)
    );
    assert!(run.tasks().is_empty());
}

#[test]
fn when_decides_whether_a_step_runs() {
    let yaml = "steps: [{name: a, when: \"${input.total} > 100\"}, {name: b, when: \
                \"${input.total} > 10\"}]";
    let run = Run::started(yaml);
    assert_eq!(
        (run.step("a"), run.step("b")),
        (StepState::Skipped, StepState::Running)
    );
}

#[test]
fn when_can_ask_about_a_skipped_step() {
    let yaml = "steps: [{name: a, onFailure: skip}, {name: b, dependsOn: [a], when: \
                \"${steps.a.state} == 'skipped'\"}]";
    let mut run = Run::started(yaml);
    run.fail("a", AgentError);
    assert_eq!(run.step("b"), StepState::Running);
}

#[test]
fn a_condition_that_cannot_be_judged_fails_the_step() {
    let mut run = Run::queued("steps: [{name: a, when: \"${input.total} > 'x'\"}]");
    let events = run.ok(stateway_machine::Verb::GrantSlot);
    assert_eq!(
        events,
        [
            "ExecutionStarted",
            "StepStarted",
            "AttemptFailed",
            "ExecutionFailed"
        ]
    );
}

#[test]
fn a_reference_without_a_value_fails_the_step() {
    let yaml = "steps: [{name: a}, {name: b, dependsOn: [a], input: \"${steps.a.output.nope}\", \
                onFailure: skip}]";
    let mut run = Run::started(yaml);
    run.done("a");
    assert_eq!((run.at(), run.step("b")), (Completed, StepState::Skipped));
}
