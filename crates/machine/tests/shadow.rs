//! What another definition would have made of a recorded run.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

mod kit;

use std::time::Duration;

use kit::{Run, plan};
use serde_json::json;
use stateway_machine::{CancelMode, Shadow, StepTimer, rederive};
use stateway_model::ErrorCategory::{Transient, Validation};

const ORDER: &str = "
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
fn shipped() -> Run {
    let mut run = Run::started(ORDER);
    run.complete("reserve", json!({"n": 1}));
    run.fail("charge", Transient);
    run.fire("charge", StepTimer::Retry);
    run.complete("charge", json!({"paid": true}));
    run.complete("ship", json!({"sent": true}));
    run
}

fn shadow(run: &Run, source: &str) -> Shadow {
    rederive(&run.plan, &run.events, &plan(source)).unwrap()
}

/// Kind, event, step, recorded and derived of every difference.
fn told(shadow: &Shadow) -> Vec<String> {
    let told = shadow.divergences.iter().map(|found| {
        format!(
            "{} @{} {}: {} | {}",
            found.kind, found.sequence, found.step, found.recorded, found.derived
        )
    });
    told.collect()
}

fn open(shadow: &Shadow) -> Vec<String> {
    shadow.unrecorded.iter().map(ToString::to_string).collect()
}

#[test]
fn the_same_definition_gives_the_same_run() {
    let run = shipped();
    let same = shadow(&run, ORDER);
    assert_eq!(told(&same), [""; 0]);
    assert_eq!(open(&same), [""; 0]);
    assert_eq!(same.recorded_outcome, same.derived_outcome);
    assert_eq!(same.state.output(), run.state.output());
}

#[test]
fn fewer_retries_turn_it_back_where_no_answer_to_the_undo_is_recorded() {
    let found = shadow(&shipped(), &ORDER.replace("maxRetries: 2", "maxRetries: 0"));
    assert_eq!(
        told(&found),
        [
            "retries @8 charge: again after 30s, attempt 2, completed | nothing more",
            "path @8 reserve: nothing more | undo, attempt 1",
            "path @11 ship: attempt 1, completed | never begins",
            "outcome @13 : completed with {\"ship\":{\"sent\":true}} | open, compensating: \
             `reserve` has no recorded way on",
        ]
    );
    assert_eq!(
        open(&found),
        ["`reserve`, undo, attempt 1: no answer is recorded"]
    );
}

#[test]
fn another_back_off_is_told_and_changes_nothing_else() {
    let found = shadow(&shipped(), &ORDER.replace("30s", "5m"));
    assert_eq!(
        told(&found),
        ["back_off @8 charge: again after 30s | again after 5m"]
    );
    assert_eq!(found.derived_outcome, found.recorded_outcome);
}

#[test]
fn what_a_step_is_given_is_compared() {
    let source = ORDER.replace("{n: '${steps.reserve.output.n}'}", "{m: '${input.total}'}");
    let found = shadow(&shipped(), &source);
    let told = told(&found);
    assert_eq!(
        told,
        ["input @6 charge: attempt 1 was given {\"n\":1} | is given {\"m\":50}"]
    );
}

#[test]
fn steps_added_and_removed_are_named_and_nothing_is_made_up() {
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
        told(&found),
        [
            "step_added @8 pack: was not in the definition | attempt 1",
            "step_removed @11 ship: attempt 1, completed | is not in the definition",
            "outcome @13 : completed with {\"ship\":{\"sent\":true}} | open, running: `pack` has \
             no recorded way on",
        ]
    );
    assert_eq!(open(&found), ["`pack`, attempt 1: no answer is recorded"]);
}

#[test]
fn another_order_is_told() {
    let source = "
name: order
steps:
  - {name: ship}
  - {name: reserve, dependsOn: [ship]}
  - {name: charge, dependsOn: [reserve], input: {n: '${steps.reserve.output.n}'},
     retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 30s}}
";
    let found = shadow(&shipped(), source);
    let told = told(&found);
    assert!(
        told.contains(
            &"order @4 reserve: reserve, charge, ship | ship, reserve, charge".to_owned()
        ),
        "{told:#?}"
    );
    assert_eq!(open(&found), [""; 0]);
}

#[test]
fn an_output_that_a_schema_refused_was_not_kept_and_is_not_made_up() {
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
    assert_eq!(told(&shadow(&run, source)), [""; 0]);
    let looser = source.replace("[title]", "[]");
    let found = shadow(&run, &looser);
    assert_eq!(
        open(&found),
        ["`write`, attempt 1: its output was refused by the schema of then and not kept"]
    );
}

#[test]
fn a_shorter_timeout_than_an_answer_took_is_a_timeout() {
    let source = "name: one\nsteps: [{name: a, timeout: 10m, onFailure: skip}]";
    let mut run = Run::started(source);
    run.wait(Duration::from_secs(120));
    run.done("a");
    let found = shadow(&run, &source.replace("10m", "1m"));
    assert_eq!(
        told(&found)[0],
        "path @5 a: completed | timed out, left out (failure)"
    );
    // And a longer one than it was waited for leaves open what would have come.
    let mut run = Run::started(source);
    run.fire("a", StepTimer::Timeout);
    let found = shadow(&run, &source.replace("10m", "20m"));
    assert_eq!(open(&found), ["`a`, attempt 1: no answer is recorded"]);
}

#[test]
fn a_decision_of_another_role_is_no_decision() {
    let source =
        "name: gate\nsteps: [{name: ok, approval: {role: boss}}, {name: go, dependsOn: [ok]}]";
    let mut run = Run::started(source);
    run.vote("ok", 1, true, "eve").unwrap();
    run.done("go");
    assert_eq!(told(&shadow(&run, source)), [""; 0]);
    let found = shadow(&run, &source.replace("boss", "legal"));
    assert_eq!(
        open(&found),
        ["`ok`, attempt 1: no decision of a legal is recorded"]
    );
}

#[test]
fn what_came_to_a_run_that_has_ended_is_refused_and_told() {
    let mut run = Run::started("name: two\nsteps: [{name: a}, {name: b, dependsOn: [a]}]");
    run.done("a");
    run.wait(Duration::from_secs(60));
    run.cancel(CancelMode::Kill);
    let found = shadow(&run, "name: two\nsteps: [{name: a}]");
    let told = told(&found);
    assert!(
        told.iter()
            .any(|line| line.starts_with("refused @7 : kill was taken | is refused")),
        "{told:#?}"
    );
    assert_eq!(found.derived_outcome, "completed with {\"a\":{}}");
}

#[test]
fn a_failed_validation_ends_both_alike() {
    let mut run = Run::started(ORDER);
    run.fail("reserve", Validation);
    let same = shadow(&run, ORDER);
    assert_eq!(told(&same), [""; 0]);
    assert_eq!(same.derived_outcome, "rolled_back");
}
