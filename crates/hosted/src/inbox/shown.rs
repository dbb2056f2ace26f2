//! Approvals and escalations as the gateway sees them.

use std::sync::Arc;

use stateway_driver::View;
use stateway_machine::{self as machine, FailureCause};
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Approval, ApprovalState, Escalation, EscalationState, InboxId, PersonDecision, Resolution,
    ResolutionAction, StepAttempt,
};

use super::case::{About, Case, Decision, Outcome, Stage, deadline};

fn id(execution: &ExecutionId, case: &Case) -> InboxId {
    InboxId {
        execution: execution.clone(),
        id: case.id().to_string(),
    }
}

/// An approval, without what only a get answers.
#[must_use]
pub fn approval(execution: &ExecutionId, view: &View, case: &Case) -> Approval {
    let (role, rule, expires) = match &case.about {
        About::Approval {
            role,
            rule,
            expires,
        } => (&**role, rule.as_deref(), *expires),
        About::Escalation { .. } => ("", None, None),
    };
    Approval {
        id: id(execution, case),
        state: approval_state(case),
        step: case.step.to_string(),
        attempt: case.attempt,
        branch: case.branch,
        role: role.to_owned(),
        policy_rule: rule.unwrap_or_default().to_owned(),
        create_time: case.opened,
        // Pauses and branches put the end of a pending request off; the log has its first end.
        expire_time: match case.outcome {
            Outcome::Pending => deadline(view, &case.step),
            _ => expires,
        },
        decision: made(case).map(decision),
        definition: view.definition.to_string(),
        revision: view.revision.to_string(),
        initiator: view.initiator.to_string(),
        labels: (*view.labels).clone(),
        input: None,
    }
}

const fn approval_state(case: &Case) -> ApprovalState {
    match case.stage() {
        Stage::Pending => ApprovalState::Pending,
        Stage::Granted => ApprovalState::Granted,
        Stage::Rejected => ApprovalState::Rejected,
        Stage::Expired => ApprovalState::Expired,
        Stage::Withdrawn | Stage::Resolved => ApprovalState::Withdrawn,
    }
}

/// An escalation, without what only a get answers. `configured` are the roles that decide where the
/// definition names none.
#[must_use]
pub fn escalation(
    execution: &ExecutionId,
    view: &View,
    case: &Case,
    configured: &[Arc<str>],
) -> Escalation {
    let error = match &case.about {
        About::Escalation { error, .. } => error.clone(),
        About::Approval { .. } => None,
    };
    Escalation {
        id: id(execution, case),
        state: escalation_state(case),
        step: case.step.to_string(),
        attempt: case.attempt,
        branch: case.branch,
        roles: roles(case, configured),
        reason: None,
        error,
        policy_rule: String::new(),
        create_time: case.opened,
        resolution: resolution(&case.outcome),
        definition: view.definition.to_string(),
        initiator: view.initiator.to_string(),
        labels: (*view.labels).clone(),
        history: Vec::new(),
    }
}

/// Adds what a person needs to decide about an escalation.
pub fn details(escalation: &mut Escalation, case: &Case, history: Vec<StepAttempt>) {
    if let About::Escalation { reason, .. } = &case.about {
        escalation.reason = *reason;
    }
    let last = history
        .iter()
        .rfind(|attempt| attempt.attempt == case.attempt && !attempt.policy_rule.is_empty());
    if let Some(last) = last.filter(|_| stopped_by_rule(escalation)) {
        escalation.policy_rule.clone_from(&last.policy_rule);
    }
    escalation.history = history;
}

/// Whether the attempt failed because a rule denied it, or because an approval that a rule requires was not given.
fn stopped_by_rule(escalation: &Escalation) -> bool {
    let code = escalation.error.as_ref();
    let code = code.map_or("", |error| error.native_code.as_str());
    [
        FailureCause::PolicyDenied,
        FailureCause::Expired,
        FailureCause::Rejected,
    ]
    .iter()
    .any(|cause| cause.as_str() == code)
}

const fn escalation_state(case: &Case) -> EscalationState {
    match case.stage() {
        Stage::Pending => EscalationState::Pending,
        Stage::Resolved => EscalationState::Resolved,
        Stage::Granted | Stage::Rejected | Stage::Expired | Stage::Withdrawn => {
            EscalationState::Withdrawn
        }
    }
}

fn resolution(outcome: &Outcome) -> Option<Resolution> {
    let Outcome::Resolved {
        resolution,
        decision: made,
    } = outcome
    else {
        return None;
    };
    let action = match resolution {
        machine::Resolution::Resume => ResolutionAction::Resume,
        machine::Resolution::Reassign { role } => ResolutionAction::Reassign {
            role: role.to_string(),
        },
        machine::Resolution::Cancel => ResolutionAction::Cancel,
    };
    Some(Resolution {
        action,
        decision: decision(made),
    })
}

const fn made(case: &Case) -> Option<&Decision> {
    match &case.outcome {
        Outcome::Decided { decision, .. } | Outcome::Resolved { decision, .. } => Some(decision),
        Outcome::Pending | Outcome::Expired | Outcome::Withdrawn => None,
    }
}

fn decision(made: &Decision) -> PersonDecision {
    PersonDecision {
        by: made.by.to_string(),
        time: made.at,
        comment: made.comment.to_string(),
    }
}

/// The roles that may decide about a case. `configured` are those of an escalation for which the
/// definition names none.
#[must_use]
pub fn roles(case: &Case, configured: &[Arc<str>]) -> Vec<String> {
    match &case.about {
        About::Approval { role, .. }
        | About::Escalation {
            role: Some(role), ..
        } => vec![role.to_string()],
        About::Escalation { role: None, .. } => {
            configured.iter().map(ToString::to_string).collect()
        }
    }
}
