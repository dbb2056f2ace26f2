//! Approvals and escalations as clients see them.

use std::hash::{Hash, Hasher};

use stateway_engine::View;
use stateway_model::{DefinitionName, ExecutionName, Reason, Step, headline};
use stateway_proto::v1;

use super::name::{ApprovalName, EscalationName};
use super::requests::{Outcome, Request};
use crate::convert;

/// One request, without what only its own page has.
pub(super) fn approval(name: &ExecutionName, view: &View, request: &Request) -> v1::Approval {
    let state = request.state(&view.steps);
    let definition = definition_name(view);
    let mut shown = v1::Approval {
        name: ApprovalName::of(name, &request.step, request.attempt),
        state: state.into(),
        step: request.step.to_string(),
        role: request.role.to_string(),
        summary: format!(
            "step `{}` of {definition} asks for a decision by {}",
            request.step, request.role
        ),
        create_time: Some(convert::timestamp(request.asked)),
        expire_time: request.expires.map(convert::timestamp),
        decision: decision(&request.outcome),
        etag: String::new(),
        execution: name.to_string(),
        definition,
        revision: view.revision.to_string(),
        input: None,
        attempt: request.attempt,
        initiator: view.initiator.to_string(),
        labels: labels(view),
        past: Vec::new(),
    };
    shown.etag = etag(&[
        &shown.name,
        &shown.state.to_string(),
        &shown.role,
        &view.branch.to_string(),
    ]);
    shown
}

pub(super) fn past(view: &View, request: &Request) -> v1::PastApproval {
    v1::PastApproval {
        attempt: request.attempt,
        state: request.state(&view.steps).into(),
        decision: decision(&request.outcome),
    }
}

fn decision(outcome: &Outcome) -> Option<v1::Decision> {
    match outcome {
        Outcome::Decided {
            by, comment, at, ..
        } => Some(v1::Decision {
            decided_by: by.to_string(),
            decide_time: Some(convert::timestamp(*at)),
            comment: comment.to_string(),
        }),
        Outcome::Undecided | Outcome::Expired => None,
    }
}

/// Whether a person has to decide about a step.
pub(super) fn is_escalated(step: &Step) -> bool {
    step.reason == Some(Reason::Escalated)
}

pub(super) fn escalation(name: &ExecutionName, view: &View, step: &Step) -> v1::Escalation {
    let since = step.waits.first().and_then(|wait| wait.since);
    let cause = match &step.last_error {
        Some(error) => headline(&error.message).to_owned(),
        None => "a person has to decide".to_owned(),
    };
    let shown = EscalationName::of(name, &step.name);
    let attempt = step.retry.attempt.to_string();
    v1::Escalation {
        etag: etag(&[&shown, &attempt, &view.branch.to_string()]),
        name: shown,
        step: step.name.clone(),
        cause,
        create_time: since.map(convert::timestamp),
        resolution: None,
        execution: name.to_string(),
        definition: definition_name(view),
        last_error: step.last_error.clone().map(convert::error),
        attempts: step.retry.attempt,
        initiator: view.initiator.to_string(),
        labels: labels(view),
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
