//! Running a part again: from which step, where the log is left, and how the execution continues.

use serde_json::json;
use stateway_machine::{
    CancelMode, CutOff, Data, ExecutionState, Redo, RedoRequest, Rejection, Resolver, State, Verb,
    fork, forked_events, is_forked, open_branch,
};
use stateway_model::ErrorCategory::AgentError;

use crate::kit::Run;

const CHAIN: &str = "steps: [{name: a}, {name: b, dependsOn: [a]}, {name: c, dependsOn: [b]}]";

fn from(step: &str) -> RedoRequest {
    RedoRequest {
        step: step.into(),
        ..RedoRequest::default()
    }
}

/// Where the log is left, and what runs again.
fn redo(run: &Run, request: &RedoRequest) -> Result<(Run, Redo), Rejection> {
    let roles = ["operator".into()];
    let resolver = Resolver {
        by: &"eve".into(),
        roles: &roles,
        operators: &roles,
    };
    let mut cut = CutOff::of(&run.state, request, &resolver)?;
    run.events.iter().for_each(|event| cut.note(event));
    let kept = run.events.iter().take_while(|event| cut.keeps(event));
    let before = run.rewound(kept.count());
    let redo = cut.redo(&before.state, request)?;
    Ok((before, redo))
}

/// The steps that have begun where the log is left, and the step that runs again.
fn left_at(run: &Run, request: &RedoRequest) -> (Vec<String>, String) {
    let (before, redo) = redo(run, request).unwrap();
    let begun = before.events.iter().filter_map(|event| event.fact.begins());
    (
        begun.map(ToString::to_string).collect(),
        redo.step.to_string(),
    )
}

fn failed_at_c() -> Run {
    let mut run = Run::started(CHAIN);
    run.done("a");
    run.done("b");
    run.fail("c", AgentError);
    run
}

#[test]
fn the_log_is_left_before_the_step_that_is_named() {
    let run = failed_at_c();
    assert_eq!(left_at(&run, &from("b")), (vec!["a".into()], "b".into()));
}

#[test]
fn without_a_name_the_step_that_failed_runs_again() {
    let run = failed_at_c();
    let begun = vec!["a".into(), "b".into()];
    assert_eq!(left_at(&run, &from("")), (begun, "c".into()));
}

#[test]
fn without_a_name_the_first_step_that_a_cancellation_interrupted_runs_again() {
    let mut run = Run::started(CHAIN);
    run.done("a");
    run.assign("b", "w1");
    run.cancel(CancelMode::Kill);
    assert_eq!(left_at(&run, &from("")), (vec!["a".into()], "b".into()));
}

#[test]
fn without_a_name_the_step_that_the_timeout_of_the_execution_interrupted_runs_again() {
    let mut run = Run::started(&format!("timeout: 1h\n{CHAIN}"));
    run.done("a");
    run.expire();
    assert_eq!(run.at(), ExecutionState::Failed);
    assert_eq!(left_at(&run, &from("")), (vec!["a".into()], "b".into()));
}

#[test]
fn from_the_start_every_step_runs_again_and_nothing_else_is_given() {
    let run = failed_at_c();
    let start = RedoRequest {
        from_start: true,
        ..RedoRequest::default()
    };
    assert_eq!(left_at(&run, &start), (vec![], "a".into()));
    let named = RedoRequest {
        step: "b".into(),
        ..start
    };
    assert_eq!(redo(&run, &named).err(), Some(Rejection::StepAndStart));
}

#[test]
fn a_step_that_was_compensated_runs_again_too() {
    let mut run = Run::started(&format!(
        "failurePolicy: compensate\n{CHAIN}\ncompensation: [{{step: a}}]"
    ));
    run.done("a");
    run.done("b");
    run.fail("c", AgentError);
    run.done("a");
    assert_eq!(run.at(), ExecutionState::RolledBack);
    assert_eq!(left_at(&run, &from("c")), (vec![], "c".into()));
}

#[test]
fn a_step_that_does_not_exist_or_has_not_begun_cannot_run_again() {
    let mut run = Run::started(CHAIN);
    let unknown = Rejection::UnknownStep { step: "x".into() };
    assert_eq!(redo(&run, &from("x")).err(), Some(unknown));
    let step = Some("c".into());
    assert_eq!(
        redo(&run, &from("c")).err(),
        Some(Rejection::NotBegun { step })
    );
    run.done("a");
    assert_eq!(redo(&run, &from("")).err(), Some(Rejection::NothingFailed));
}

#[test]
fn only_a_step_with_a_worker_takes_feedback_and_only_a_step_that_runs_takes_input() {
    let mut run = Run::started("steps: [{name: s, signal: go}]");
    run.cancel(CancelMode::Kill);
    let input = RedoRequest {
        input: Some(Data::new(json!(1))),
        ..from("s")
    };
    let step = || "s".into();
    let refused = Rejection::TakesNoInput { step: step() };
    assert_eq!(redo(&run, &input).err(), Some(refused));
    let feedback = RedoRequest {
        feedback: "shorter".into(),
        ..from("s")
    };
    let refused = Rejection::TakesNoFeedback { step: step() };
    assert_eq!(redo(&run, &feedback).err(), Some(refused));
}

#[test]
fn nothing_runs_again_while_a_worker_compensates() {
    let mut run = Run::started(&format!(
        "failurePolicy: compensate\n{CHAIN}\ncompensation: [{{step: a}}]"
    ));
    run.done("a");
    run.fail("b", AgentError);
    run.assign("a", "w1");
    let refused = Rejection::CompensationInProgress {
        step: "a".into(),
        worker: "w1".into(),
    };
    assert_eq!(redo(&run, &from("b")).err(), Some(refused));
}

#[test]
fn who_may_not_resolve_an_escalation_may_not_replace_it() {
    let mut run =
        Run::started("escalation: {role: judge}\nsteps: [{name: a, onFailure: escalate}]");
    run.fail("a", AgentError);
    let refused = redo(&run, &from("a")).err().unwrap();
    let role = Rejection::RoleRequired {
        step: "a".into(),
        role: "judge".into(),
    };
    assert_eq!(refused, Rejection::EscalationUnresolved(Box::new(role)));
}

#[test]
fn who_had_a_step_run_again_may_not_approve_it() {
    let mut run =
        Run::started("steps: [{name: a}, {name: g, dependsOn: [a], approval: {role: boss}}]");
    run.done("a");
    run.cancel(CancelMode::Stop);
    let (mut again, redo) = redo(&run, &from("g")).unwrap();
    again.ok(open_branch(&run.state, &again.state, 1, "eve".into(), redo));
    let refused = again.vote("g", 1, true, "Eve ").err();
    let by = "Eve ".into();
    assert_eq!(refused, Some(Rejection::RedoneBySelf { by }));
    assert!(again.vote("g", 1, true, "bob").is_ok());
}

#[test]
fn an_ended_execution_is_reopened_and_an_open_one_is_not() {
    let reopened = |run: &Run| {
        let (before, redo) = redo(run, &from("a")).unwrap();
        match open_branch(&run.state, &before.state, 1, "eve".into(), redo) {
            Verb::OpenBranch {
                reopened, cutoff, ..
            } => (reopened, cutoff),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reopened(&failed_at_c()), (Some(ExecutionState::Failed), 3));
    assert_eq!(reopened(&Run::started(CHAIN)), (None, 3));
}

#[test]
fn a_success_is_forked_under_another_id() {
    let mut run = Run::started("steps: [{name: a}, {name: b, dependsOn: [a]}]");
    run.done("a");
    run.done("b");
    assert!(is_forked(&run.state));
    let (before, redo) = redo(&run, &from("b")).unwrap();
    let events = forked_events(before.events.clone(), &"e2".into(), &"request-9".into());
    assert_eq!(&*events[0].causation, "request-9");
    let mut copy = before.rewound(0);
    for event in &events {
        copy.state.apply(event);
    }
    assert_eq!(&**copy.state.execution(), "e2");
    copy.ok(fork("e1".into(), &before.state, "eve".into(), redo));
    let from = |state: &State| state.forked_from().cloned();
    assert_eq!(from(&copy.state), Some("e1".into()));
    assert_eq!(copy.at(), ExecutionState::Running);
}
