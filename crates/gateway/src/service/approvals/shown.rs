//! Approvals and escalations as clients see them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use stateway_engine::View;
use stateway_machine::{FailureCause, Resolution};
use stateway_model::{DefinitionName, ExecutionName, headline};
use stateway_proto::v1;
use stateway_proto::v1::approval::State as ApprovalState;
use stateway_proto::v1::escalation::State as EscalationState;
use stateway_proto::v1::resolution::Action;

use super::case::{About, Case, Decision, Outcome, Stage, deadline};
use super::name::InboxName;
use crate::convert;

/// The name of a case.
pub(super) fn name(execution: &ExecutionName, case: &Case) -> InboxName {
    InboxName {
        kind: case.kind(),
        execution: execution.clone(),
        step: case.step.to_string(),
        attempt: case.attempt,
        branch: case.branch,
    }
}

/// An approval, without what only `GetApproval` answers.
pub(super) fn approval(execution: &ExecutionName, view: &View, case: &Case) -> v1::Approval {
    let (role, rule, expires) = match &case.about {
        About::Approval {
            role,
            rule,
            expires,
        } => (&**role, rule.as_deref(), *expires),
        About::Escalation { .. } => ("", None, None),
    };
    // Pauses and branches put the end of a pending request off; the log has its first end.
    let expires = match case.outcome {
        Outcome::Pending => deadline(view, &case.step),
        _ => expires,
    };
    let (name, state) = (name(execution, case).to_string(), approval_state(case));
    let definition = definition_name(view);
    v1::Approval {
        etag: etag(&[&name, state.as_str_name(), role]),
        name,
        state: state.into(),
        step: case.step.to_string(),
        role: role.to_owned(),
        summary: summary(case, &definition, role, rule),
        create_time: Some(convert::timestamp(case.opened)),
        expire_time: expires.map(convert::timestamp),
        decision: made(case).map(decision),
        execution: execution.to_string(),
        definition,
        revision: view.revision.to_string(),
        input: None,
        attempt: case.attempt,
        initiator: view.initiator.to_string(),
        labels: labels(view),
        past: Vec::new(),
        policy_rule: rule.unwrap_or_default().to_owned(),
        branch: case.branch,
    }
}

fn summary(case: &Case, definition: &str, role: &str, rule: Option<&str>) -> String {
    let step = &case.step;
    match rule {
        Some(rule) => format!(
            "the policy rule `{rule}` requires an approval by {role} before step `{step}` of \
             {definition} runs"
        ),
        None => format!("step `{step}` of {definition} asks for an approval by {role}"),
    }
}

pub(super) fn past(execution: &ExecutionName, case: &Case) -> v1::PastApproval {
    let rule = match &case.about {
        About::Approval { rule, .. } => rule.as_deref(),
        About::Escalation { .. } => None,
    };
    v1::PastApproval {
        attempt: case.attempt,
        state: approval_state(case).into(),
        decision: made(case).map(decision),
        name: name(execution, case).to_string(),
        policy_rule: rule.unwrap_or_default().to_owned(),
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

/// An escalation, without what only `GetEscalation` answers. `configured` are the roles that decide
/// where the definition names none.
pub(super) fn escalation(
    execution: &ExecutionName,
    view: &View,
    case: &Case,
    configured: &[Arc<str>],
) -> v1::Escalation {
    let error = match &case.about {
        About::Escalation { error, .. } => error.clone(),
        About::Approval { .. } => None,
    };
    let cause = match &error {
        Some(error) => headline(&error.message).to_owned(),
        None => "a person has to decide".to_owned(),
    };
    let (name, state) = (name(execution, case).to_string(), escalation_state(case));
    v1::Escalation {
        etag: etag(&[&name, state.as_str_name()]),
        name,
        step: case.step.to_string(),
        cause,
        create_time: Some(convert::timestamp(case.opened)),
        resolution: resolution(&case.outcome),
        execution: execution.to_string(),
        definition: definition_name(view),
        last_error: error.map(convert::error),
        attempts: case.attempt,
        initiator: view.initiator.to_string(),
        labels: labels(view),
        state: state.into(),
        roles: roles(case, configured),
        branch: case.branch,
        reason: String::new(),
        history: Vec::new(),
        policy_rule: String::new(),
    }
}

/// Adds what a person needs to decide about an escalation.
pub(super) fn details(escalation: &mut v1::Escalation, case: &Case, history: Vec<v1::StepAttempt>) {
    if let About::Escalation { reason, .. } = &case.about {
        escalation.reason = reason.map_or_else(String::new, |reason| reason.to_string());
    }
    let last = history
        .iter()
        .rfind(|attempt| attempt.attempt == case.attempt && !attempt.policy_rule.is_empty());
    if let Some(last) = last.filter(|_| stopped_by_rule(escalation)) {
        escalation.policy_rule.clone_from(&last.policy_rule);
    }
    escalation.history = history;
}

/// Whether the attempt failed because a rule denied it, or because nobody approved it as a rule asked.
fn stopped_by_rule(escalation: &v1::Escalation) -> bool {
    let code = escalation.last_error.as_ref();
    let code = code.map_or("", |error| error.native_code.as_str());
    [
        FailureCause::PolicyDenied,
        FailureCause::Expired,
        FailureCause::Rejected,
    ]
    .iter()
    .any(|cause| cause.as_str() == code)
}

/// The roles that may decide about an escalation.
pub(super) fn roles(case: &Case, configured: &[Arc<str>]) -> Vec<String> {
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

const fn escalation_state(case: &Case) -> EscalationState {
    match case.stage() {
        Stage::Pending => EscalationState::Pending,
        Stage::Resolved => EscalationState::Resolved,
        Stage::Granted | Stage::Rejected | Stage::Expired | Stage::Withdrawn => {
            EscalationState::Withdrawn
        }
    }
}

fn resolution(outcome: &Outcome) -> Option<v1::Resolution> {
    let Outcome::Resolved {
        resolution,
        decision: made,
    } = outcome
    else {
        return None;
    };
    let (action, role) = match resolution {
        Resolution::Resume => (Action::Resume, ""),
        Resolution::Reassign { role } => (Action::Reassign, &**role),
        Resolution::Cancel => (Action::Cancel, ""),
    };
    Some(v1::Resolution {
        action: action.into(),
        role: role.to_owned(),
        decision: Some(decision(made)),
    })
}

const fn made(case: &Case) -> Option<&Decision> {
    match &case.outcome {
        Outcome::Decided { decision, .. } | Outcome::Resolved { decision, .. } => Some(decision),
        Outcome::Pending | Outcome::Expired | Outcome::Withdrawn => None,
    }
}

fn decision(made: &Decision) -> v1::Decision {
    v1::Decision {
        decided_by: made.by.to_string(),
        decide_time: Some(convert::timestamp(made.at)),
        comment: made.comment.to_string(),
    }
}

fn definition_name(view: &View) -> String {
    DefinitionName {
        provider: None,
        id: view.definition.clone(),
    }
    .to_string()
}

fn labels(view: &View) -> std::collections::HashMap<String, String> {
    let labels = view.labels.iter();
    labels
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Changes with what is hashed; says nothing else.
fn etag(parts: &[&str]) -> String {
    // The hasher without keys gives the same on every replica.
    let mut hasher = std::hash::DefaultHasher::new();
    parts.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
