//! Rollback and cancellation in a shadow, with work in flight.

use std::time::Duration;

use stateway_machine::{CancelMode, ExecutionState, Resolution, StepTimer, Verb};
use stateway_model::ErrorCategory::{AgentError, Transient};

use super::{differences, open, shadow};
use crate::kit::Run;

const IN_FLIGHT: &str = "
name: trip
failurePolicy: compensate
steps:
  - {name: hotel, timeout: 10m}
  - {name: car, timeout: 10m}
  - {name: flight, retryPolicy: {maxRetries: 0}}
compensation: [{step: hotel}, {step: car, compensateUnknown: false}]
";

/// The flight fails while workers are busy with the hotel and the car.
fn in_flight() -> Run {
    let mut run = Run::started(IN_FLIGHT);
    for step in ["hotel", "car", "flight"] {
        run.assign(step, "w1");
    }
    run.fail("flight", AgentError);
    assert_eq!(run.at(), ExecutionState::Compensating);
    run
}

#[test]
fn work_in_flight_is_awaited_as_it_was() {
    let mut run = in_flight();
    run.wait(Duration::from_secs(60));
    run.done("hotel");
    run.lose("car");
    run.assign("hotel", "w1");
    run.done("hotel");
    assert_eq!(run.at(), ExecutionState::RolledBack);
    let same = shadow(&run, IN_FLIGHT);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(same.derived_outcome, "rolled_back, not rolled back: car");
    // Where a car of unknown outcome is compensated, no answer to that compensation is recorded.
    let found = shadow(&run, &IN_FLIGHT.replace(", compensateUnknown: false", ""));
    assert_eq!(
        differences(&found)[0],
        "path @15 hotel: compensation, attempt 1, compensated | nothing more"
    );
    assert_eq!(
        open(&found),
        ["`car`, compensation, attempt 1: no answer is recorded"]
    );
}

#[test]
fn work_that_takes_too_long_to_stop_has_no_known_outcome_in_both() {
    let mut run = in_flight();
    run.done("car");
    run.fire("hotel", StepTimer::Timeout);
    let same = shadow(&run, IN_FLIGHT);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(
        same.steps[0].derived,
        "attempt 1, outcome unknown, compensation, attempt 1"
    );
}

#[test]
fn a_cancellation_that_waits_for_work_comes_out_as_recorded() {
    let source = IN_FLIGHT.replace("failurePolicy: compensate\n", "");
    for lost in [false, true] {
        let mut run = Run::started(&source);
        run.assign("hotel", "w1");
        run.cancel(CancelMode::Stop);
        run.cancel(CancelMode::Stop);
        assert_eq!(run.at(), ExecutionState::Cancelling);
        run.wait(Duration::from_secs(60));
        if lost {
            run.lose("hotel");
        } else {
            run.done("hotel");
        }
        assert_eq!(run.at(), ExecutionState::Cancelled);
        assert_eq!(differences(&shadow(&run, &source)), [""; 0]);
    }
}

#[test]
fn a_rejection_that_cancels_is_a_consequence_and_not_a_command() {
    let source = "name: gate\nfailurePolicy: compensate\nsteps: [{name: a}, \
                  {name: ok, dependsOn: [a], approval: {role: boss}}]\ncompensation: [{step: a}]";
    let mut run = Run::started(source);
    run.done("a");
    run.vote("ok", 1, false, "eve").unwrap();
    run.done("a");
    assert_eq!(run.at(), ExecutionState::Cancelled);
    assert_eq!(differences(&shadow(&run, source)), [""; 0]);
    // Where a rejection only fails the step, nobody cancels the shadow.
    let skips = source.replace(
        "{role: boss}}",
        "{role: boss, onReject: fail}, onFailure: skip}",
    );
    let found = shadow(&run, &skips);
    assert_eq!(found.derived_outcome, "completed with {}");
}

#[test]
fn a_person_resumes_after_a_rollback_as_they_did() {
    let source = "name: retry\nfailurePolicy: compensate\nsteps: [{name: a}, \
                  {name: b, dependsOn: [a], retryPolicy: {maxRetries: 0}, then: escalate}]\n\
                  compensation: [{step: a}]";
    let mut run = Run::started(source);
    run.done("a");
    run.fail("b", AgentError);
    run.done("a");
    run.wait(Duration::from_secs(60));
    run.resolve("b", Resolution::Resume);
    run.done("a");
    run.done("b");
    assert_eq!(run.at(), ExecutionState::Completed);
    let same = shadow(&run, source);
    assert_eq!(differences(&same), [""; 0]);
    assert_eq!(
        same.steps[0].derived,
        "attempt 1, completed, compensation, attempt 1, compensated, attempt 2, completed"
    );
}

#[test]
fn a_choice_about_compensation_is_made_in_the_shadow_too() {
    for (policy, choice) in [("abort", true), ("compensate", false)] {
        let yaml = format!(
            "name: trip\nfailurePolicy: {policy}\nsteps: [{{name: hotel}}, {{name: car, dependsOn: \
             [hotel], onFailure: escalate}}]\ncompensation: [{{step: hotel}}]\n"
        );
        let mut run = Run::started(&yaml);
        run.done("hotel");
        run.fail("car", AgentError);
        let mut verb = run.resolution("car", Resolution::Cancel, "bob", &["operator"]);
        if let Verb::ResolveEscalation { compensate, .. } = &mut verb {
            *compensate = Some(choice);
        }
        run.ok(verb);
        if choice {
            run.done("hotel");
        }
        assert_eq!(run.at(), ExecutionState::Cancelled);
        assert_eq!(differences(&shadow(&run, &yaml)), [""; 0], "{policy}");
    }
}

#[test]
fn a_compensation_that_a_person_retries_early_is_retried_early_in_the_shadow() {
    let mut run = Run::started(
        "steps: [{name: a, retryPolicy: {maxRetries: 1, initialDelay: 1h}}, {name: b, dependsOn: [a], \
         onFailure: compensate}]\ncompensation: [{step: a}]",
    );
    run.done("a");
    run.fail("b", AgentError);
    run.fail("a", Transient);
    run.wait(Duration::from_secs(5));
    run.ok(Verb::RetryAll { by: "bob".into() });
    run.done("a");
    let same = stateway_replay::rederive(&run.plan, &run.events, &run.plan).unwrap();
    assert_eq!(same.divergences, []);
    assert_eq!(same.state.state(), run.at());
}
