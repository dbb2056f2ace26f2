//! Signals and sleeps.

use serde_json::json;
use stateway_machine::ExecutionState::{
    AwaitingApproval, AwaitingSignal, Completed, Failed, Running,
};
use stateway_machine::{Rejection, StepState, StepTimer, Verb, WaitFor, obligations, sub_state};
use stateway_model::SubState;

use crate::kit::Run;

const SIGNALS: &str = "steps: [{name: a}, {name: s, dependsOn: [a], signal: paid}, {name: t, \
                       dependsOn: [s], signal: paid}]";

#[test]
fn an_execution_whose_steps_all_wait_is_awaiting() {
    let mut run = Run::started(SIGNALS);
    run.done("a");
    assert_eq!(
        (run.at(), sub_state(&run.state).0),
        (AwaitingSignal, SubState::Waiting)
    );
    let gate = "steps: [{name: g, approval: {role: boss}}]";
    assert_eq!(Run::started(gate).at(), AwaitingApproval);
}

#[test]
fn signals_that_come_early_are_kept_and_given_in_order() {
    let mut run = Run::started(SIGNALS);
    assert_eq!(run.signal("paid", "m1"), Ok(vec!["SignalReceived"]));
    assert_eq!(run.signal("paid", "m2"), Ok(vec!["SignalReceived"]));
    run.done("a");
    assert_eq!(run.at(), Completed);
    assert_eq!(**run.state.output().unwrap(), json!({"t": {"from": "m2"}}));
}

#[test]
fn a_signal_is_taken_once() {
    let mut run = Run::started(SIGNALS);
    run.done("a");
    run.signal("paid", "m1").unwrap();
    assert_eq!(
        (run.step("s"), run.step("t")),
        (StepState::Completed, StepState::Waiting)
    );
    assert_eq!(run.signal("paid", "m1"), Ok(vec![]));
    assert_eq!(run.step("t"), StepState::Waiting);
}

#[test]
fn stale_and_unknown_signals_are_refused() {
    let mut run = Run::started(SIGNALS);
    assert_eq!(
        run.signal("payed", "m"),
        Err(Rejection::UnknownSignal {
            name: "payed".into()
        })
    );
    run.signal("paid", "m1").unwrap();
    run.signal("paid", "m2").unwrap();
    assert_eq!(
        run.signal("paid", "m3"),
        Err(Rejection::StaleSignal {
            name: "paid".into()
        })
    );
    run.done("a");
    assert_eq!(
        run.signal("paid", "m4"),
        Err(Rejection::AlreadyFinished { state: Completed })
    );
}

#[test]
fn a_signal_that_does_not_come_fails_the_step() {
    let mut run = Run::started("steps: [{name: s, signal: go, timeout: 5m}]");
    assert_eq!(
        run.fire("s", StepTimer::Timeout),
        ["AttemptFailed", "ExecutionFailed"]
    );
    assert_eq!(run.at(), Failed);
}

/// Nobody answers for a signal, so nobody can correct it.
#[test]
fn a_payload_is_not_validated_and_no_worker_is_asked_to_correct_it() {
    let yaml = "steps: [{name: s, signal: go, outputSchema: {type: string}, \
                maxCorrectionAttempts: 2}, {name: g, approval: {role: boss}, outputSchema: {type: \
                string}, maxCorrectionAttempts: 2}]";
    let mut run = Run::started(yaml);
    run.signal("go", "m").unwrap();
    run.vote("g", 1, true, "bob").unwrap();
    assert_eq!(run.tasks(), []);
    assert_eq!(run.at(), Completed);
}

#[test]
fn a_sleep_ends_by_itself() {
    let mut run = Run::started("steps: [{name: z, sleep: 10m}]");
    assert_eq!(
        (run.at(), sub_state(&run.state).0),
        (Running, SubState::Waiting)
    );
    assert_eq!(
        run.fire("z", StepTimer::Sleep),
        ["StepCompleted", "ExecutionCompleted"]
    );
}

#[test]
fn an_execution_goes_from_trigger_to_queue_to_slot() {
    let mut run = Run::created("steps: [{name: w, signal: go}]");
    run.refused(Verb::GrantSlot);
    assert_eq!(
        run.ok(Verb::Trigger { by: "ada".into() }),
        ["ExecutionQueued"]
    );
    assert_eq!(
        obligations(&run.state),
        [stateway_machine::Obligation::Slot]
    );
    assert_eq!(run.ok(Verb::GrantSlot), ["ExecutionStarted", "StepWaiting"]);
    assert!(matches!(
        run.fact("StepWaiting"),
        stateway_machine::Fact::StepWaiting { wait: WaitFor::Signal(name), .. } if &**name == "go"
    ));
}
