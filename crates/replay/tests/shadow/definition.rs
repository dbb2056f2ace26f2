//! A recorded run under its own definition, and under others.

use std::time::Duration;

use serde_json::json;
use stateway_machine::{CancelMode, Event, Fact, Verb};
use stateway_model::ErrorCategory::{Transient, Validation};

use super::{ORDER, differences, open, shadow, shipped};
use crate::kit::Run;

#[test]
fn the_same_definition_gives_the_same_run() {
    let run = shipped();
    let same = shadow(&run, ORDER);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(open(&same), [""; 0]);
    assert_eq!(same.recorded_outcome, same.derived_outcome);
    assert_eq!(same.state.output(), run.state.output());
}

#[test]
fn fewer_retries_roll_it_back_and_no_answer_to_the_compensation_is_recorded() {
    let found = shadow(&shipped(), &ORDER.replace("maxRetries: 2", "maxRetries: 0"));
    assert_eq!(
        differences(&found),
        [
            "retries @8 charge: again after 30s, attempt 2, completed | nothing more",
            "path @8 reserve: nothing more | compensation, attempt 1",
            "path @11 ship: attempt 1, completed | never starts",
            "outcome @13 : completed with {\"ship\":{\"sent\":true}} | open, compensating: \
             `reserve` has no recorded result",
        ]
    );
    assert_eq!(
        open(&found),
        ["`reserve`, compensation, attempt 1: no answer is recorded"]
    );
}

#[test]
fn another_back_off_is_a_difference_and_changes_nothing_else() {
    let found = shadow(&shipped(), &ORDER.replace("30s", "5m"));
    assert_eq!(
        differences(&found),
        ["back_off @8 charge: again after 30s | again after 5m"]
    );
    assert_eq!(found.derived_outcome, found.recorded_outcome);
}

#[test]
fn the_inputs_of_steps_are_compared() {
    let source = ORDER.replace("{n: '${steps.reserve.output.n}'}", "{m: '${input.total}'}");
    let found = shadow(&shipped(), &source);
    let lines = differences(&found);
    assert_eq!(
        lines,
        ["input @6 charge: input of attempt 1: {\"n\":1} | input: {\"m\":50}"]
    );
}

#[test]
fn steps_added_and_removed_are_named_and_nothing_is_invented() {
    let source = "
name: order
failurePolicy: compensate
steps:
  - {name: reserve}
  - {name: pack, dependsOn: [reserve]}
  - {name: charge, dependsOn: [reserve], input: {n: '${steps.reserve.output.n}'},
     retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 30s}}
";
    let found = shadow(&shipped(), source);
    assert_eq!(
        differences(&found),
        [
            "step_added @8 pack: was not in the definition | attempt 1",
            "step_removed @11 ship: attempt 1, completed | is not in the definition",
            "outcome @13 : completed with {\"ship\":{\"sent\":true}} | open, running: `pack` has \
             no recorded result",
        ]
    );
    assert_eq!(open(&found), ["`pack`, attempt 1: no answer is recorded"]);
}

#[test]
fn another_order_is_a_difference() {
    let source = "
name: order
steps:
  - {name: ship}
  - {name: reserve, dependsOn: [ship]}
  - {name: charge, dependsOn: [reserve], input: {n: '${steps.reserve.output.n}'},
     retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 30s}}
";
    let found = shadow(&shipped(), source);
    let lines = differences(&found);
    assert!(
        lines.contains(
            &"order @4 reserve: reserve, charge, ship | ship, reserve, charge".to_owned()
        ),
        "{lines:#?}"
    );
    assert_eq!(open(&found), [""; 0]);
}

#[test]
fn an_output_that_a_schema_refused_was_not_stored_and_is_not_invented() {
    let source = "
name: draft
steps:
  - name: write
    outputSchema: {type: object, required: [title]}
    maxCorrectionAttempts: 2
";
    let mut run = Run::started(source);
    run.complete("write", json!({"text": "no title"}));
    run.complete("write", json!({"title": "better"}));
    assert_eq!(differences(&shadow(&run, source)), [""; 0]);
    let looser = source.replace("[title]", "[]");
    let found = shadow(&run, &looser);
    assert_eq!(
        open(&found),
        ["`write`, attempt 1: its output was refused by the old schema and not stored"]
    );
}

#[test]
fn a_decision_of_another_role_is_no_decision() {
    let source =
        "name: gate\nsteps: [{name: ok, approval: {role: boss}}, {name: go, dependsOn: [ok]}]";
    let mut run = Run::started(source);
    run.vote("ok", 1, true, "eve").unwrap();
    run.done("go");
    assert_eq!(differences(&shadow(&run, source)), [""; 0]);
    let found = shadow(&run, &source.replace("boss", "legal"));
    assert_eq!(
        open(&found),
        ["`ok`, attempt 1: no decision by the role `legal` is recorded"]
    );
}

#[test]
fn a_command_to_a_run_that_has_ended_is_rejected_and_named() {
    let mut run = Run::started("name: two\nsteps: [{name: a}, {name: b, dependsOn: [a]}]");
    run.done("a");
    run.wait(Duration::from_secs(60));
    run.cancel(CancelMode::Kill);
    let found = shadow(&run, "name: two\nsteps: [{name: a}]");
    let lines = differences(&found);
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("refused @7 : kill was accepted | is rejected")),
        "{lines:#?}"
    );
    assert_eq!(found.derived_outcome, "completed with {\"a\":{}}");
}

#[test]
fn a_failed_validation_ends_both_alike() {
    let mut run = Run::started(ORDER);
    run.fail("reserve", Validation);
    let same = shadow(&run, ORDER);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(same.derived_outcome, "rolled_back");
}

#[test]
fn who_hurried_a_retry_is_recorded() {
    let mut run = Run::started(ORDER);
    run.complete("reserve", json!({"n": 1}));
    run.fail("charge", Transient);
    run.ok(Verb::RetryNow {
        step: "charge".into(),
        by: "eve".into(),
    });
    run.complete("charge", json!({}));
    let same = shadow(&run, ORDER);
    assert_eq!(differences(&same), [""; 0]);
    let again = |event: &&Event| matches!(&event.fact, Fact::StepStarted { attempt: 2, .. });
    let by = same.events.iter().find(again).map(|event| &*event.actor);
    assert_eq!(by, Some("eve"));
}

#[test]
fn a_run_that_has_not_ended_comes_out_as_far_as_it_is_recorded() {
    let mut run = Run::started(ORDER);
    run.complete("reserve", json!({"n": 1}));
    run.fail("charge", Transient);
    let same = shadow(&run, ORDER);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(
        open(&same),
        ["`charge`, attempt 1: the recording ends before its time"]
    );
    assert_eq!(same.events.len(), run.events.len());
}
