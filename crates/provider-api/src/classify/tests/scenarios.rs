//! Whole scenarios, each a test of its name, on the tables that come with the build.
//!
//! Where the engines differ from the seed, the test says both: what the seed asks for, and what
//! the truth adds to it.

use super::{NOW, between_attempts, later, seen};
use crate::table::{Qualifier, compiled_in};
use crate::{Mapper, NativeState, Observation, RetryEvidence, StepObservation, Verdict, classify};
use stateway_model::{MappingBasis, RetryBasis, SubState};

fn verdict(kind: &str, observation: &Observation) -> Verdict<'static> {
    let table = Box::leak(Box::new(compiled_in(kind).unwrap()));
    classify(table, observation, NOW).execution
}

fn shown(kind: &str, state: &str) -> SubState {
    verdict(kind, &seen(state)).sub_state
}

fn completed(result: &str) -> Observation {
    let mut observation = seen("completed");
    observation.native =
        NativeState::new("completed").with(Qualifier::new("completion_result"), result);
    observation
}

fn execution(kind: &str, observation: Observation) -> stateway_model::Execution {
    let table = compiled_in(kind).unwrap();
    Mapper::new("p".parse().unwrap()).execution(&table, observation, NOW)
}

#[test]
fn running_state_represents_active_execution() {
    assert_eq!(shown("step-functions", "RUNNING"), SubState::Running);
    assert_eq!(shown("restate", "running"), SubState::Running);
    assert_eq!(shown("restate", "active"), SubState::Running);
}

#[test]
fn waiting_state_represents_suspended_execution() {
    assert_eq!(shown("restate", "suspended"), SubState::Waiting);
}

#[test]
fn backing_off_state_represents_retry_delay() {
    assert_eq!(shown("restate", "backing-off"), SubState::BackingOff);
    let mut inferred = seen("RUNNING");
    inferred.retry = Some(between_attempts(later(30)));
    assert_eq!(
        verdict("step-functions", &inferred).sub_state,
        SubState::BackingOff
    );
}

#[test]
fn error_state_represents_transient_failure() {
    let mut failed = seen("RUNNING");
    failed.steps = vec![StepObservation::new("s", NativeState::new("TaskFailed"))];
    let verdict = verdict("step-functions", &failed);
    assert_eq!(verdict.sub_state, SubState::Error);
    assert!(!verdict.sub_state.is_terminal());
}

#[test]
fn succeeded_state_represents_successful_completion() {
    assert_eq!(shown("step-functions", "SUCCEEDED"), SubState::Succeeded);
    let success = verdict("restate", &completed("success"));
    assert_eq!(success.sub_state, SubState::Succeeded);
}

#[test]
fn failed_state_represents_terminal_failure() {
    for state in ["FAILED", "TIMED_OUT", "ABORTED"] {
        assert_eq!(shown("step-functions", state), SubState::Failed);
    }
    assert_eq!(shown("restate", "failed"), SubState::Failed);
    let failure = verdict("restate", &completed("failure"));
    assert_eq!(failure.sub_state, SubState::Failed);
}

#[test]
fn step_functions_state_mapping() {
    for (state, sub_state) in [
        ("RUNNING", SubState::Running),
        ("SUCCEEDED", SubState::Succeeded),
        ("FAILED", SubState::Failed),
        ("TIMED_OUT", SubState::Failed),
        ("ABORTED", SubState::Failed),
    ] {
        assert_eq!(shown("step-functions", state), sub_state, "{state}");
    }
}

/// The seed maps `completed` to succeeded. Restate says it of failures too, so it needs its
/// result, and without one it is not guessed.
#[test]
fn restate_state_mapping() {
    for (state, sub_state) in [
        ("running", SubState::Running),
        ("active", SubState::Running),
        ("suspended", SubState::Waiting),
        ("succeeded", SubState::Succeeded),
        ("failed", SubState::Failed),
        ("error", SubState::Failed),
    ] {
        assert_eq!(shown("restate", state), sub_state, "{state}");
    }
    assert_eq!(
        verdict("restate", &completed("success")).sub_state,
        SubState::Succeeded
    );
    assert_eq!(
        verdict("restate", &seen("completed")).basis,
        MappingBasis::Defaulted
    );
}

#[test]
fn unknown_provider_state_defaults_to_running() {
    for kind in ["step-functions", "restate", "temporal", "builtin", "memory"] {
        let verdict = verdict(kind, &seen("NO_SUCH_STATE"));
        assert_eq!(verdict.sub_state, SubState::Running, "{kind}");
        assert_eq!(verdict.basis, MappingBasis::Defaulted, "{kind}");
    }
}

/// There is no retry event in a Step Functions history: the adapter infers the attempts, and the
/// answer says so.
#[test]
fn step_functions_retry_detection() {
    let mut observation = seen("RUNNING");
    let native = NativeState::new("ActivityFailed").with(Qualifier::new("follow_up"), "retry");
    let mut step = StepObservation::new("charge", native);
    step.retry = Some(RetryEvidence {
        attempt: 3,
        ..between_attempts(later(30))
    });
    observation.steps = vec![step];
    let execution = execution("step-functions", observation);
    assert_eq!(execution.sub_state, SubState::BackingOff);
    assert_eq!(execution.retry.retry_count, 2);
    assert_eq!(execution.retry.basis, RetryBasis::Inferred);
    assert_eq!(execution.retry.next_attempt_time, Some(later(30)));
}

#[test]
fn restate_retry_detection() {
    let mut observation = seen("backing-off");
    observation.retry = Some(RetryEvidence {
        attempt: 4,
        basis: RetryBasis::Reported,
        ..between_attempts(later(30))
    });
    let execution = execution("restate", observation);
    assert_eq!(execution.sub_state, SubState::BackingOff);
    assert_eq!(execution.retry.retry_count, 3);
    assert_eq!(execution.retry.basis, RetryBasis::Reported);
}

#[test]
fn no_retry_metadata_available() {
    let execution = execution("step-functions", seen("RUNNING"));
    assert_eq!(execution.sub_state, SubState::Running);
    assert_eq!(execution.retry.retry_count, 0);
    assert_eq!(execution.retry.basis, RetryBasis::None);
}

#[test]
fn provider_interface_includes_state_mapping_table() {
    for (kind, _) in crate::table::COMPILED_IN {
        let table = compiled_in(kind).unwrap();
        let page = crate::table::markdown(&table);
        for row in table.rows() {
            assert!(page.contains(&format!("| `{}` |", row.native)), "{kind}");
        }
    }
}
