//! What a log may hold is checked before it is written, and what older builds wrote is still read.

use std::sync::Arc;

use crate::kit::Run;
use serde_json::{Value, json};
use stateway_machine::{
    Event, ExecutionState, Fact, MAX_EVENT_BYTES, MAX_MESSAGE_BYTES, MAX_PAYLOAD_DEPTH, StepState,
    Task, Verb, decode, encode, last_error,
};
use stateway_model::{ErrorCategory, Reason};

const MIB: usize = 1024 * 1024;

/// JSON of so many bytes.
fn long(bytes: usize) -> Value {
    json!("x".repeat(bytes - 2))
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

fn every_event_is_read_again(run: &Run) {
    for event in &run.events {
        let written = encode(event);
        assert!(written.len() <= MAX_EVENT_BYTES, "{}", event.fact.name());
        assert_eq!(&decode(&written).unwrap(), event);
    }
}

#[test]
fn an_execution_whose_outputs_are_too_long_together_fails() {
    let mut run = Run::started("steps: [{name: a}, {name: b}]");
    run.complete("a", long(MIB));
    assert_eq!(
        run.complete("b", long(MIB)),
        ["StepCompleted", "ExecutionFailed"]
    );
    assert_eq!(run.state.reason(), Some(Reason::NotRetryable));
    let error = last_error(&run.state).unwrap();
    assert_eq!(error.category, Some(ErrorCategory::Validation));
    for part in ["2097152 bytes", "limit of 1048576", "reference"] {
        assert!(error.message.contains(part), "{part}: {}", error.message);
    }
    every_event_is_read_again(&run);
}

#[test]
fn an_output_template_that_repeats_a_long_value_fails_the_execution() {
    let mut run = Run::started(
        "steps: [{name: a}]\noutput: {a: '${steps.a.output}', b: '${steps.a.output}'}",
    );
    assert_eq!(
        run.complete("a", long(MIB)),
        ["StepCompleted", "ExecutionFailed"]
    );
    every_event_is_read_again(&run);
}

#[test]
fn a_failure_policy_compensates_after_an_output_that_is_too_long() {
    let mut run = Run::started(
        "failurePolicy: compensate\nsteps: [{name: a}, {name: b}]\ncompensation: [{step: a}]",
    );
    run.complete("a", long(MIB));
    let events = run.complete("b", long(MIB));
    assert_eq!(
        events,
        [
            "StepCompleted",
            "CompensationStarted",
            "StepCompensationStarted"
        ]
    );
    run.ok(Verb::complete(Task::undo("a", 1), Arc::default()));
    assert_eq!(run.at(), ExecutionState::RolledBack);
    assert!(last_error(&run.state).unwrap().message.contains("limit of"));
    every_event_is_read_again(&run);
}

#[test]
fn an_output_at_the_limit_completes_the_execution() {
    let mut run = Run::started("steps: [{name: a}]\noutput: '${steps.a.output}'");
    run.complete("a", long(MIB));
    assert_eq!(run.at(), ExecutionState::Completed);
    every_event_is_read_again(&run);
}

#[test]
fn a_step_whose_output_is_too_long_or_too_deep_fails() {
    for (output, why) in [
        (long(MIB + 1), "1048577 bytes"),
        (nested(MAX_PAYLOAD_DEPTH + 1), "more than 64 levels"),
    ] {
        let mut run = Run::started("steps: [{name: a}]");
        run.complete("a", output);
        assert_eq!(run.at(), ExecutionState::Failed);
        let error = last_error(&run.state).unwrap();
        assert!(error.message.contains(why), "{}", error.message);
        every_event_is_read_again(&run);
    }
}

#[test]
fn templates_do_not_nest_values_deeper_than_a_payload() {
    let source = "
steps:
  - {name: a}
  - {name: b, dependsOn: [a], input: {deeper: '${steps.a.output}'}}
output: {deeper: '${steps.a.output}'}
";
    let mut run = Run::started(source);
    run.complete("a", nested(MAX_PAYLOAD_DEPTH));
    assert_eq!(run.step("b"), StepState::Failed);
    let error = last_error(&run.state).unwrap();
    assert!(
        error.message.contains("more than 64 levels"),
        "{}",
        error.message
    );
    let mut run = Run::started("steps: [{name: a}]\noutput: ['${steps.a.output}']");
    run.complete("a", nested(MAX_PAYLOAD_DEPTH));
    assert_eq!(run.at(), ExecutionState::Failed);
    every_event_is_read_again(&run);
}

#[test]
fn a_task_input_is_bounded_by_the_message_and_a_childs_by_the_payload() {
    let source = |kind: &str| {
        format!(
            "
steps:
  - {{name: a}}
  - {{name: b, dependsOn: [a]{kind}, input: {{x: '${{steps.a.output}}', y: '${{steps.a.output}}'}}}}
"
        )
    };
    let mut task = Run::started(&source(""));
    task.complete("a", long(MIB));
    assert_eq!(task.step("b"), StepState::Running);
    let mut child = Run::started(&source(", workflow: other"));
    child.complete("a", long(MIB));
    assert_eq!(child.step("b"), StepState::Failed);
    let error = last_error(&child.state).unwrap();
    assert!(
        error.message.contains("limit of 1048576"),
        "{}",
        error.message
    );
}

#[test]
fn the_message_of_a_failure_is_cut() {
    let mut run = Run::started("steps: [{name: a}]");
    let task = run.task("a");
    let message = "x".repeat(10 * MAX_MESSAGE_BYTES);
    run.ok(Verb::FailTask {
        task,
        failure: stateway_machine::Failure::reported(ErrorCategory::AgentError, message),
        usage: None,
    });
    let error = last_error(&run.state).unwrap();
    assert_eq!(error.message.len(), MAX_MESSAGE_BYTES);
}

/// Builds without a limit accepted 127 levels, wrapped them in an event and could not read the event.
#[test]
fn an_event_of_an_older_build_with_a_deep_payload_is_read() {
    let run = Run::started("steps: [{name: a}]");
    let event = Event {
        fact: Fact::ExecutionCompleted {
            output: nested(127).into(),
        },
        ..run.events[0].clone()
    };
    assert_eq!(decode(&encode(&event)).unwrap(), event);
    let event = Event {
        fact: Fact::ExecutionCompleted {
            output: nested(300).into(),
        },
        ..event
    };
    let refused = decode(&encode(&event)).unwrap_err();
    assert!(refused.to_string().contains("levels"), "{refused}");
}

/// Builds without a limit wrote outputs of several payloads and could not read them.
#[test]
fn an_event_of_an_older_build_with_a_long_payload_is_read() {
    let run = Run::started("steps: [{name: a}]");
    let event = Event {
        fact: Fact::ExecutionCompleted {
            output: long(MAX_EVENT_BYTES + 1).into(),
        },
        ..run.events[0].clone()
    };
    assert_eq!(decode(&encode(&event)).unwrap(), event);
}
