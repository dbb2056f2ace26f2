//! The attempts of a step as the gateway sees them.

use stateway_machine::PolicyDecision;
use stateway_provider_api::{StepAttempt, StepAttemptOutcome};
use stateway_replay::{AttemptOutcome, AttemptRecord};

use crate::id_of;

/// One attempt of a step.
#[must_use]
pub fn step_attempt(from: AttemptRecord) -> StepAttempt {
    let (policy_rule, policy_decision) = match &from.policy {
        Some((rule, decision)) => (rule.to_string(), word(decision).to_owned()),
        None => (String::new(), String::new()),
    };
    StepAttempt {
        branch: from.branch,
        attempt: from.attempt,
        compensation: from.compensation,
        worker: from.worker.to_string(),
        hand_outs: from.hand_outs,
        start_time: from.started,
        assign_time: from.assigned,
        end_time: from.ended,
        outcome: outcome(from.outcome),
        error: from.error,
        usage: from.usage,
        child: from.child.as_deref().and_then(id_of),
        policy_decision,
        policy_rule,
    }
}

const fn word(decision: &PolicyDecision) -> &'static str {
    match decision {
        PolicyDecision::Allow => "allow",
        PolicyDecision::Deny { .. } => "deny",
        PolicyDecision::RequireApproval { .. } => "require_approval",
    }
}

const fn outcome(from: AttemptOutcome) -> StepAttemptOutcome {
    match from {
        AttemptOutcome::Open => StepAttemptOutcome::Open,
        AttemptOutcome::Succeeded => StepAttemptOutcome::Succeeded,
        AttemptOutcome::Failed => StepAttemptOutcome::Failed,
        AttemptOutcome::Cancelled => StepAttemptOutcome::Cancelled,
        AttemptOutcome::Unknown => StepAttemptOutcome::Unknown,
        AttemptOutcome::Abandoned => StepAttemptOutcome::Abandoned,
    }
}
