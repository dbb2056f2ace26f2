//! Steps: what is pending in a description. Pure.

use stateway_model::RetryBasis;
use stateway_provider_api::{NativeState, RetryEvidence, RetryPhase, StepObservation};

use crate::api::enums::v1::PendingActivityState;
use crate::api::workflow::v1::PendingActivityInfo;
use crate::api::workflowservice::v1::DescribeWorkflowExecutionResponse;
use crate::qualifier::{KIND, NEXT_ATTEMPT};
use crate::time::timestamp;

/// The pending steps of an open execution.
pub(crate) fn pending(described: &DescribeWorkflowExecutionResponse) -> Vec<StepObservation> {
    described.pending_activities.iter().map(activity).collect()
}

fn activity(pending: &PendingActivityInfo) -> StepObservation {
    let word = match PendingActivityState::try_from(pending.state) {
        Ok(state) => state
            .as_str_name()
            .trim_start_matches("PENDING_ACTIVITY_STATE_")
            .to_owned(),
        Err(_) => pending.state.to_string(),
    };
    let mut native = NativeState::new(word).with(KIND, "activity");
    let next = timestamp(pending.next_attempt_schedule_time.as_ref());
    if next.is_some() {
        native = native.with(NEXT_ATTEMPT, "set");
    }
    let attempt = u32::try_from(pending.attempt).unwrap_or_default();
    let mut step = StepObservation::new(pending.activity_id.clone(), native);
    step.retry = Some(RetryEvidence {
        attempt: if next.is_some() {
            attempt.saturating_sub(1)
        } else {
            attempt
        },
        max_attempts: u32::try_from(pending.maximum_attempts).ok(),
        phase: if next.is_some() {
            RetryPhase::BetweenAttempts
        } else {
            RetryPhase::UnderWay
        },
        next_attempt_time: next,
        delay: None,
        jitter: None,
        last_error: None,
        basis: RetryBasis::Reported,
    });
    step
}
