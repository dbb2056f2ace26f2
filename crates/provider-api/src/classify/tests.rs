//! The rules of classification, one test each, and whole scenarios.

mod explanation;
mod scenarios;

use std::time::Duration;

use jiff::Timestamp;
use stateway_model::{ExecutionId, MappingBasis, Reason, RetryBasis, SubState, Wait, WaitKind};

use super::{Decision, classify};
use crate::table::Qualifier;
use crate::{NativeState, Observation, RetryEvidence, RetryPhase, StepObservation, Table};

const NOW: Timestamp = Timestamp::constant(1_800_000_000, 0);

/// A table with one word of each kind: `OPEN` is refined, the others decide alone.
fn table() -> Table {
    let row = |scope: &str, native: &str, sub_state: &str, more: &str| {
        let terminal = matches!(sub_state, "succeeded" | "failed");
        format!(
            "[[rows]]\nscope = \"{scope}\"\nnative = \"{native}\"\nsub_state = \"{sub_state}\"\n\
             terminal = {terminal}\nsource = \"made up\"\n{more}\n"
        )
    };
    let mut text = String::from(
        "version = 1\nkind = \"test\"\ntitle = \"Test\"\nsummary = \"s\"\n\
         [qualifiers]\nresult = \"r\"\n",
    );
    for scope in ["execution", "step"] {
        text += &row(scope, "OPEN", "running", "refine = true");
        text += &row(scope, "PARKED", "waiting", "reason = \"PAUSED\"");
        text += &row(scope, "RETRYING", "backing-off", "");
        text += &row(scope, "JAMMED", "error", "reason = \"STUCK\"");
        text += &row(scope, "GOOD", "succeeded", "");
        text += &row(scope, "BAD", "failed", "");
    }
    text += &row(
        "execution",
        "OVER",
        "succeeded",
        "when = { result = \"ok\" }",
    );
    text += &row("execution", "OVER", "failed", "when = { result = \"no\" }");
    Table::parse(&text).unwrap()
}

fn seen(state: &str) -> Observation {
    Observation::new(ExecutionId::new("a").unwrap(), NativeState::new(state))
}

fn with_steps(state: &str, steps: &[&str]) -> Observation {
    let mut observation = seen(state);
    observation.steps = steps
        .iter()
        .enumerate()
        .map(|(n, state)| StepObservation::new(format!("s{n}"), NativeState::new(*state)))
        .collect();
    observation
}

fn between_attempts(next: Timestamp) -> RetryEvidence {
    RetryEvidence {
        phase: RetryPhase::BetweenAttempts,
        max_attempts: Some(5),
        next_attempt_time: Some(next),
        delay: Some(Duration::from_secs(10)),
        basis: RetryBasis::Inferred,
        ..RetryEvidence::reported(2)
    }
}

fn later(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW.as_second() + seconds).unwrap()
}

#[test]
fn an_unknown_state_is_running_by_default_and_says_so() {
    let table = table();
    let verdict = classify(&table, &seen("NEVER_SEEN"), NOW).execution;
    assert_eq!(verdict.sub_state, SubState::Running);
    assert_eq!(verdict.basis, MappingBasis::Defaulted);
    assert_eq!((verdict.decision, verdict.row), (Decision::Default, None));
}

#[test]
fn a_known_word_without_the_qualifier_it_needs_is_unknown() {
    let table = table();
    let verdict = classify(&table, &seen("OVER"), NOW).execution;
    assert_eq!(verdict.basis, MappingBasis::Defaulted);
    let mut failed = seen("OVER");
    failed.native = NativeState::new("OVER").with(Qualifier::new("result"), "no");
    assert_eq!(
        classify(&table, &failed, NOW).execution.sub_state,
        SubState::Failed
    );
}

#[test]
fn open_steps_of_a_refined_state_show_running_before_backing_off_before_error_before_waiting() {
    let table = table();
    let shown = |steps: &[&str]| {
        let classified = classify(&table, &with_steps("OPEN", steps), NOW);
        (
            classified.execution.sub_state,
            classified.execution.decision,
        )
    };
    let by_step = |deciding| Decision::Steps { deciding };
    use SubState::{BackingOff, Error, Running, Waiting};
    assert_eq!(
        shown(&["PARKED", "JAMMED", "RETRYING", "OPEN"]),
        (Running, by_step(3))
    );
    assert_eq!(
        shown(&["PARKED", "JAMMED", "RETRYING"]),
        (BackingOff, by_step(2))
    );
    assert_eq!(shown(&["PARKED", "JAMMED"]), (Error, by_step(1)));
    assert_eq!(shown(&["GOOD", "PARKED", "BAD"]), (Waiting, by_step(1)));
    assert_eq!(shown(&["GOOD", "BAD"]), (Running, Decision::Row));
}

#[test]
fn the_reason_of_the_deciding_step_becomes_the_executions() {
    let table = table();
    let classified = classify(&table, &with_steps("OPEN", &["PARKED", "JAMMED"]), NOW);
    assert_eq!(classified.execution.reason, Some(Reason::Stuck));
    assert_eq!(classified.execution.basis, MappingBasis::Derived);
}

#[test]
fn a_clear_word_is_not_overruled_by_steps_attempts_or_waits() {
    let table = table();
    let mut held = with_steps("PARKED", &["OPEN", "RETRYING"]);
    held.retry = Some(between_attempts(later(30)));
    held.waits = vec![Wait::new(WaitKind::Timer, "")];
    let verdict = classify(&table, &held, NOW).execution;
    assert_eq!(
        (verdict.sub_state, verdict.reason, verdict.basis),
        (
            SubState::Waiting,
            Some(Reason::Paused),
            MappingBasis::Native
        )
    );
}

#[test]
fn steps_come_before_attempts_and_attempts_before_waits() {
    let table = table();
    let mut observation = with_steps("OPEN", &["JAMMED"]);
    observation.retry = Some(between_attempts(later(30)));
    observation.waits = vec![Wait::new(WaitKind::Signal, "go")];
    let decision = |seen: &Observation| classify(&table, seen, NOW).execution.decision;
    assert_eq!(decision(&observation), Decision::Steps { deciding: 0 });
    observation.steps.clear();
    assert_eq!(decision(&observation), Decision::Attempts);
    observation.retry = Some(RetryEvidence::reported(1));
    assert_eq!(decision(&observation), Decision::Waits);
    observation.waits.clear();
    assert_eq!(decision(&observation), Decision::Row);
}

#[test]
fn exhausted_attempts_are_an_error_until_the_engine_says_more() {
    let table = table();
    let mut observation = seen("OPEN");
    observation.retry = Some(RetryEvidence {
        phase: RetryPhase::Exhausted,
        ..RetryEvidence::reported(3)
    });
    let verdict = classify(&table, &observation, NOW).execution;
    assert_eq!(
        (verdict.sub_state, verdict.reason),
        (SubState::Error, Some(Reason::RetriesExhausted))
    );
}

#[test]
fn whatever_waits_for_capacity_is_running() {
    let table = table();
    let mut observation = seen("OPEN");
    observation.waits = vec![Wait::new(WaitKind::Capacity, "")];
    let verdict = classify(&table, &observation, NOW).execution;
    assert_eq!(verdict.sub_state, SubState::Running);
    observation.waits.push(Wait::new(WaitKind::Signal, "go"));
    let verdict = classify(&table, &observation, NOW).execution;
    assert_eq!(verdict.sub_state, SubState::Running);
}

#[test]
fn each_kind_of_wait_gives_its_reason() {
    let table = table();
    for (kind, reason) in [
        (WaitKind::Signal, Reason::AwaitingInput),
        (WaitKind::Approval, Reason::AwaitingInput),
        (WaitKind::Callback, Reason::AwaitingInput),
        (WaitKind::Timer, Reason::AwaitingTimer),
        (WaitKind::Child, Reason::AwaitingChild),
    ] {
        let mut observation = seen("OPEN");
        observation.waits = vec![Wait::new(kind, "")];
        let verdict = classify(&table, &observation, NOW).execution;
        assert_eq!(
            (verdict.sub_state, verdict.reason),
            (SubState::Waiting, Some(reason)),
            "{kind}"
        );
    }
}

#[test]
fn steps_of_a_finished_execution_are_closed() {
    let table = table();
    let classified = classify(
        &table,
        &with_steps("BAD", &["OPEN", "RETRYING", "GOOD", "BAD"]),
        NOW,
    );
    let steps: Vec<_> = classified
        .steps
        .iter()
        .map(|step| (step.sub_state, step.reason, step.decision))
        .collect();
    let closed = (
        SubState::Failed,
        Some(Reason::Cancelled),
        Decision::ExecutionFinished,
    );
    assert_eq!(
        steps,
        [
            closed,
            closed,
            (SubState::Succeeded, None, Decision::Row),
            (SubState::Failed, None, Decision::Row),
        ]
    );
}

#[test]
fn a_scheduled_attempt_is_overdue_only_after_its_jitter() {
    let table = table();
    let overdue = |jitter: u64, now: Timestamp| {
        let mut observation = seen("RETRYING");
        observation.retry = Some(RetryEvidence {
            jitter: Some(Duration::from_secs(jitter)),
            ..between_attempts(NOW)
        });
        classify(&table, &observation, now).execution.overdue
    };
    assert!(!overdue(0, NOW));
    assert!(overdue(0, later(1)));
    assert!(!overdue(5, later(5)));
    assert!(overdue(5, later(6)));
}

#[test]
fn an_overdue_step_makes_the_execution_it_decides_overdue() {
    let table = table();
    let mut observation = with_steps("OPEN", &["RETRYING"]);
    observation.steps[0].retry = Some(between_attempts(later(-60)));
    assert!(classify(&table, &observation, NOW).execution.overdue);
    observation.native = NativeState::new("PARKED");
    assert!(!classify(&table, &observation, NOW).execution.overdue);
}
