//! Approvals and escalations as clients see them.

use stateway_model::{ExecutionName, ProviderId, headline};
use stateway_proto::v1;
use stateway_proto::v1::approval::State as ShownApprovalState;
use stateway_proto::v1::escalation::State as ShownEscalationState;
use stateway_proto::v1::resolution::Action;
use stateway_provider_api::{
    Approval, ApprovalState, Escalation, EscalationState, InboxId, PersonDecision, Resolution,
    ResolutionAction,
};

use super::name::{InboxName, Kind};
use crate::access::Access;
use crate::branch::branch_name;
use crate::convert;
use crate::service::executions::attempt;
use crate::service::triggers::definition_name;

pub(super) fn approval(access: &Access, provider: &ProviderId, from: Approval) -> v1::Approval {
    let is_redacted = from.input.is_some() && !access.approval(provider, &from).1;
    let definition = definition_name(&from.definition);
    let execution = execution_name(provider, &from.id);
    v1::Approval {
        etag: from.etag(),
        summary: summary(&from, &definition),
        name: name(Kind::Approval, provider, &from.id),
        state: approval_state(from.state).into(),
        step: from.step,
        role: from.role,
        create_time: Some(convert::timestamp(from.create_time)),
        expire_time: from.expire_time.map(convert::timestamp),
        decision: from.decision.map(decision),
        branch: branch_name(&execution, from.branch),
        execution: execution.to_string(),
        definition,
        revision: from.revision,
        input: from
            .input
            .filter(|_| !is_redacted)
            .map(convert::payload_into),
        payloads_redacted: is_redacted,
        attempt: convert::int32(from.attempt),
        initiator: from.initiator,
        labels: from.labels.into_iter().collect(),
        policy_rule: from.policy_rule,
    }
}

/// The answer to a decision. A caller that may decide and not read gets the name and the state.
pub(super) fn decided(access: &Access, provider: &ProviderId, from: Approval) -> v1::Approval {
    let reads = access.approval(provider, &from).0;
    let whole = approval(access, provider, from);
    if reads {
        return whole;
    }
    v1::Approval {
        name: whole.name,
        state: whole.state,
        payloads_redacted: true,
        ..v1::Approval::default()
    }
}

/// The answer to a resolution. A caller that may decide and not read gets the name.
pub(super) fn resolved(access: &Access, provider: &ProviderId, from: Escalation) -> v1::Escalation {
    let reads = access.escalation(provider, &from);
    let whole = escalation(provider, from);
    if reads {
        return whole;
    }
    v1::Escalation {
        name: whole.name,
        ..v1::Escalation::default()
    }
}

fn summary(from: &Approval, definition: &str) -> String {
    let (step, role) = (&from.step, &from.role);
    match from.policy_rule.as_str() {
        "" => format!("step `{step}` of {definition} asks for an approval by {role}"),
        rule => format!(
            "the policy rule `{rule}` requires an approval by {role} before step `{step}` of \
             {definition} runs"
        ),
    }
}

pub(super) fn escalation(provider: &ProviderId, from: Escalation) -> v1::Escalation {
    let execution = execution_name(provider, &from.id);
    let cause = match &from.error {
        Some(error) => headline(&error.message).to_owned(),
        None => "a person has to decide".to_owned(),
    };
    v1::Escalation {
        etag: from.etag(),
        name: name(Kind::Escalation, provider, &from.id),
        step: from.step,
        cause,
        create_time: Some(convert::timestamp(from.create_time)),
        resolution: from.resolution.map(resolution),
        definition: definition_name(&from.definition),
        last_error: from.error.map(convert::error),
        attempt: convert::int32(from.attempt),
        initiator: from.initiator,
        labels: from.labels.into_iter().collect(),
        state: escalation_state(from.state).into(),
        roles: from.roles,
        branch: branch_name(&execution, from.branch),
        reason: convert::reason(from.reason).into(),
        attempts: from
            .history
            .into_iter()
            .map(|one| attempt(&execution, one))
            .collect(),
        policy_rule: from.policy_rule,
        execution: execution.to_string(),
    }
}

fn name(kind: Kind, provider: &ProviderId, id: &InboxId) -> String {
    let name = InboxName {
        kind,
        provider: provider.clone(),
        id: id.clone(),
    };
    name.to_string()
}

fn execution_name(provider: &ProviderId, id: &InboxId) -> ExecutionName {
    ExecutionName::new(provider.clone(), id.execution.clone())
}

const fn approval_state(state: ApprovalState) -> ShownApprovalState {
    match state {
        ApprovalState::Pending => ShownApprovalState::Pending,
        ApprovalState::Granted => ShownApprovalState::Granted,
        ApprovalState::Rejected => ShownApprovalState::Rejected,
        ApprovalState::Expired => ShownApprovalState::Expired,
        ApprovalState::Withdrawn => ShownApprovalState::Withdrawn,
    }
}

const fn escalation_state(state: EscalationState) -> ShownEscalationState {
    match state {
        EscalationState::Pending => ShownEscalationState::Pending,
        EscalationState::Resolved => ShownEscalationState::Resolved,
        EscalationState::Withdrawn => ShownEscalationState::Withdrawn,
    }
}

fn resolution(from: Resolution) -> v1::Resolution {
    let (action, role) = match from.action {
        ResolutionAction::Resume => (Action::Resume, String::new()),
        ResolutionAction::Reassign { role } => (Action::Reassign, role),
        ResolutionAction::Cancel => (Action::Cancel, String::new()),
    };
    v1::Resolution {
        action: action.into(),
        role,
        decision: Some(decision(from.decision)),
    }
}

fn decision(from: PersonDecision) -> v1::Decision {
    v1::Decision {
        decided_by: from.by,
        decide_time: Some(convert::timestamp(from.time)),
        comment: from.comment,
    }
}
