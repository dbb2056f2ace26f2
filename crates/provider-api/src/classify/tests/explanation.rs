//! The exact text of explanations.

use stateway_model::{ExecutionError, Wait, WaitKind};

use super::{NOW, between_attempts, later, seen, table, with_steps};
use crate::table::Qualifier;
use crate::{Explanation, NativeState, Observation, RetryEvidence, RetryPhase, classify};

fn explained(observation: &Observation) -> Explanation {
    let table = table();
    classify(&table, observation, NOW).explain(observation, NOW)
}

#[test]
fn a_row_that_decides_alone_is_named_with_its_qualifiers() {
    let mut observation = seen("OVER");
    observation.native = NativeState::new("OVER").with(Qualifier::new("result"), "no");
    let explanation = explained(&observation);
    assert_eq!(
        explanation.summary,
        "failed: the state table maps native state `OVER (result = no)` to failed."
    );
    assert_eq!(
        explanation.evidence,
        [
            "native state `OVER`",
            "qualifier result = `no`",
            "no retry metadata"
        ]
    );
}

#[test]
fn an_ended_execution_shows_the_attempts_of_the_step_that_failed() {
    let mut observation = with_steps("OVER", &["PARKED", "RETRYING"]);
    for (step, attempt) in observation.steps.iter_mut().zip([1, 2]) {
        step.retry = Some(RetryEvidence {
            attempt,
            max_attempts: Some(2),
            phase: RetryPhase::Exhausted,
            ..between_attempts(later(30))
        });
    }
    let name = observation.steps[1].name.clone();
    let evidence = explained(&observation).evidence;
    let line = format!("step `{name}`: attempt 2 of 2 failed, no retry follows");
    assert!(
        evidence.iter().any(|seen| seen.starts_with(&line)),
        "{evidence:?}"
    );
    assert!(!evidence.contains(&"no retry metadata".to_owned()));
}

#[test]
fn an_attempt_that_no_worker_has_waits_for_a_worker() {
    let mut observation = with_steps("OPEN", &["PARKED"]);
    observation.steps[0].retry = Some(RetryEvidence {
        phase: RetryPhase::UnderWay,
        ..between_attempts(later(30))
    });
    observation.steps[0].waits = vec![Wait::new(WaitKind::Capacity, "clerk")];
    let explanation = explained(&observation);
    let line = &explanation.steps[0].evidence[1];
    assert!(line.contains("waits for a worker"), "{line}");
}

#[test]
fn a_deciding_step_is_named_with_the_rule() {
    let mut observation = with_steps("OPEN", &["PARKED", "RETRYING"]);
    observation.steps[1].retry = Some(RetryEvidence {
        last_error: Some(ExecutionError::message("card gateway timed out")),
        ..between_attempts(later(30))
    });
    observation.steps[0].waits = vec![Wait {
        since: Some(later(-5)),
        ..Wait::new(WaitKind::Signal, "approve")
    }];
    let explanation = explained(&observation);
    assert_eq!(
        explanation.summary,
        "backing-off: step `s1` is backing-off, and no other open step is running. The engine \
         reports `OPEN`."
    );
    assert_eq!(
        explanation.steps[1].evidence,
        [
            "native state `RETRYING`",
            "attempt 2 of 5 failed, a retry is scheduled; next attempt at \
             2027-01-15T08:00:30Z, in 30 s; last error: card gateway timed out (INFERRED)"
        ]
    );
    assert_eq!(
        explanation.steps[0].evidence[2],
        "waits for signal `approve` since 2027-01-15T07:59:55Z"
    );
}

#[test]
fn an_overdue_attempt_is_called_overdue() {
    let mut observation = seen("OPEN");
    observation.retry = Some(between_attempts(later(-90)));
    let explanation = explained(&observation);
    assert_eq!(
        explanation.summary,
        "backing-off: this follows from the attempts. The engine reports `OPEN`. The next attempt \
         is overdue."
    );
    assert_eq!(
        explanation.evidence[1],
        "attempt 2 of 5 failed, a retry is scheduled; next attempt was due at \
         2027-01-15T07:58:30Z, 90 s ago (INFERRED)"
    );
}

#[test]
fn an_assumption_is_called_an_assumption() {
    assert_eq!(
        explained(&seen("ODD")).summary,
        "running: native state `ODD` is in no table, so `running` is assumed and may be wrong."
    );
}

#[test]
fn a_step_that_its_execution_outlived_is_called_over() {
    let explanation = explained(&with_steps("BAD", &["OPEN"]));
    assert_eq!(
        explanation.steps[0].summary,
        "failed: the execution has finished, so the step is over, whatever the engine reports \
         about it."
    );
}
