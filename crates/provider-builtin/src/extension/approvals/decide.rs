//! Decisions about one approval or escalation.
//!
//! The engine decides first: it knows a repeated request by its id. Where the engine answers that the
//! request is not open any more, the log says how it ended, and the answer follows from that: the same
//! decision by the same person is accepted again, every other one is rejected with who decided.

use std::sync::Arc;

use stateway_engine::{Decide, Resolve};
use stateway_machine as machine;
use stateway_provider_api::{
    Approval, ApprovalState, Call, CompensationChoice, DecideRequest, Error, ErrorKind, Escalation,
    EscalationState, ResolutionAction, ResolveRequest, Result, Verb,
};

use super::id::{CaseId, Kind};
use super::read;
use crate::BuiltinProvider;
use crate::request::key;

pub(super) async fn decide(
    provider: &BuiltinProvider,
    call: &Call,
    request: DecideRequest,
) -> Result<Approval> {
    let verb = Verb::DecideApproval;
    let case_id = CaseId::parse(Kind::Approval, verb, &request.id.id)?;
    let execution = request.id.execution.as_str();
    let word = if request.grant { "grant" } else { "reject" };
    let texts = [execution, &request.id.id, word, &request.comment];
    let key = key(call, verb, &texts, None, &request.request_id);
    let current = || read::approval(provider, call, verb, &request.id);
    // A repeated request gets the answer of the first one, whatever has changed since.
    let asked = provider.engine.was_asked(&key);
    if !provider.line.carry(call, verb, asked).await? {
        let stale = if request.etag.is_empty() {
            false
        } else {
            current().await?.etag() != request.etag
        };
        if stale || !read::is_last(provider, call, verb, (&request.id, &case_id)).await? {
            let changed = changed(verb, "approval");
            return decided_before(call, request.grant, current().await?, changed);
        }
    }
    let decide = Decide {
        step: case_id.step.as_str().into(),
        attempt: case_id.attempt,
        branch: Some(case_id.branch),
        grant: request.grant,
        roles: call.roles.to_vec(),
        comment: request.comment.as_str().into(),
    };
    let actor = Arc::clone(&call.actor);
    let decided = provider.engine.decide(execution.into(), decide, actor, key);
    match provider.line.carry(call, verb, decided).await {
        Ok(_) => current().await,
        Err(error) if is_over(&error) => match current().await {
            Ok(current) => decided_before(call, request.grant, current, error),
            // There never was such a request.
            Err(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

pub(super) async fn resolve(
    provider: &BuiltinProvider,
    call: &Call,
    request: ResolveRequest,
) -> Result<Escalation> {
    let verb = Verb::ResolveEscalation;
    let case_id = CaseId::parse(Kind::Escalation, verb, &request.id.id)?;
    let execution = request.id.execution.as_str();
    let (action, resolution) = resolution(&request.action);
    let compensate = match request.compensation {
        CompensationChoice::AsDefined => None,
        CompensationChoice::Compensate => Some(true),
        CompensationChoice::Skip => Some(false),
    };
    let ending = format!("{compensate:?}");
    let texts = [
        execution,
        &request.id.id,
        &action,
        &ending,
        &request.comment,
    ];
    let key = key(call, verb, &texts, None, &request.request_id);
    let current = || read::escalation(provider, call, verb, &request.id);
    let asked = provider.engine.was_asked(&key);
    let asked = provider.line.carry(call, verb, asked).await?;
    if !asked && !request.etag.is_empty() {
        let current = current().await?;
        if current.etag() != request.etag {
            let changed = changed(verb, "escalation");
            return resolved_before(call, &request, current, changed);
        }
    }
    let resolve = Resolve {
        step: case_id.step.as_str().into(),
        attempt: case_id.attempt,
        branch: Some(case_id.branch),
        roles: call.roles.to_vec(),
        resolution,
        comment: request.comment.as_str().into(),
        compensate,
    };
    let actor = Arc::clone(&call.actor);
    let resolved = provider
        .engine
        .resolve(execution.into(), resolve, actor, key);
    match provider.line.carry(call, verb, resolved).await {
        Ok(_) => current().await,
        Err(error) if is_over(&error) => resolved_before(call, &request, current().await?, error),
        Err(error) => Err(error),
    }
}

fn resolution(action: &ResolutionAction) -> (String, machine::Resolution) {
    match action {
        ResolutionAction::Resume => ("resume".to_owned(), machine::Resolution::Resume),
        ResolutionAction::Cancel => ("cancel".to_owned(), machine::Resolution::Cancel),
        ResolutionAction::Reassign { role } => (
            format!("reassign {role}"),
            machine::Resolution::Reassign {
                role: role.as_str().into(),
            },
        ),
    }
}

/// Whether the engine rejects a decision because its request is not the open one.
fn is_over(error: &Error) -> bool {
    matches!(
        error.reason(),
        "ALREADY_FINISHED"
            | "WRONG_STATE"
            | "STALE_APPROVAL"
            | "NO_APPROVAL"
            | "ALREADY_DECIDED"
            | "APPROVAL_EXPIRED"
            | "STALE_ESCALATION"
            | "NOT_ESCALATED"
    )
}

/// The answer to a decision about an approval that may have ended; `otherwise` where it is pending.
fn decided_before(
    call: &Call,
    grant: bool,
    current: Approval,
    otherwise: Error,
) -> Result<Approval> {
    let by = current.decision.as_ref().map(|made| made.by.as_str());
    let by = by.unwrap_or_default();
    let same_person = same_person(by, &call.actor);
    let (reason, message) = match current.state {
        ApprovalState::Granted if grant && same_person => return Ok(current),
        ApprovalState::Rejected if !grant && same_person => return Ok(current),
        ApprovalState::Granted => (
            "ALREADY_DECIDED",
            format!("`{by}` has granted the approval"),
        ),
        ApprovalState::Rejected => (
            "ALREADY_DECIDED",
            format!("`{by}` has rejected the approval"),
        ),
        ApprovalState::Expired => ("APPROVAL_EXPIRED", "the approval has expired".to_owned()),
        ApprovalState::Withdrawn => (
            "STALE_APPROVAL",
            "the approval was withdrawn before anyone decided".to_owned(),
        ),
        ApprovalState::Pending => return Err(otherwise),
    };
    let hint = "{GetApproval} shows how the approval ended; {ListApprovals} shows what is pending.";
    Err(over(Verb::DecideApproval, reason, message, hint))
}

/// The answer to a decision about an escalation that may have ended; `otherwise` where it is pending.
fn resolved_before(
    call: &Call,
    request: &ResolveRequest,
    current: Escalation,
    otherwise: Error,
) -> Result<Escalation> {
    let message = match (current.state, &current.resolution) {
        (EscalationState::Resolved, Some(made)) => {
            let by = &made.decision.by;
            if made.action == request.action && same_person(by, &call.actor) {
                return Ok(current);
            }
            let action = match made.action {
                ResolutionAction::Resume => "resume",
                ResolutionAction::Reassign { .. } => "reassign",
                ResolutionAction::Cancel => "cancel",
            };
            format!("`{by}` has resolved the escalation: {action}")
        }
        (EscalationState::Resolved | EscalationState::Withdrawn, _) => {
            "the escalation was withdrawn before anyone decided".to_owned()
        }
        (EscalationState::Pending, _) => return Err(otherwise),
    };
    let hint =
        "{GetEscalation} shows how the escalation ended; {ListEscalations} shows what is pending.";
    Err(over(
        Verb::ResolveEscalation,
        "STALE_ESCALATION",
        message,
        hint,
    ))
}

/// Compares names without regard to case, as the engine does.
fn same_person(left: &str, right: &str) -> bool {
    left.trim().to_lowercase() == right.trim().to_lowercase()
}

fn over(verb: Verb, reason: &'static str, message: String, hint: &str) -> Error {
    Error::new(ErrorKind::FailedPrecondition, verb, message)
        .with_reason(reason)
        .with_hint(hint)
}

fn changed(verb: Verb, what: &str) -> Error {
    let message = format!("the {what} has changed since its etag was read");
    Error::new(ErrorKind::Conflict, verb, message)
        .with_reason("ETAG_MISMATCH")
        .with_hint("Read it again, then decide.")
}
