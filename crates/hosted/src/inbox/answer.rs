//! The answer to a decision: the same decision by the same person is accepted again, every other one about
//! a request that has ended is rejected with who decided.

use stateway_machine as machine;
use stateway_provider_api::{
    Approval, ApprovalState, Call, Error, ErrorKind, Escalation, EscalationState, ResolutionAction,
    ResolveRequest, Result, Verb,
};

/// What a person wants to happen with an escalated step: in a word for digests, and for the core.
#[must_use]
pub fn resolution(action: &ResolutionAction) -> (String, machine::Resolution) {
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

/// Whether the core rejected a decision because its request is not the open one.
#[must_use]
pub fn is_over(error: &Error) -> bool {
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
///
/// # Errors
/// The approval ended in another way, or `otherwise`.
pub fn decided_before(
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
///
/// # Errors
/// The escalation ended in another way, or `otherwise`.
pub fn resolved_before(
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

/// Compares names without regard to case, as the core does.
fn same_person(left: &str, right: &str) -> bool {
    left.trim().to_lowercase() == right.trim().to_lowercase()
}

fn over(verb: Verb, reason: &'static str, message: String, hint: &str) -> Error {
    Error::new(ErrorKind::FailedPrecondition, verb, message)
        .with_reason(reason)
        .with_hint(hint)
}

/// The error of a decision whose etag is not current.
#[must_use]
pub fn changed(verb: Verb, what: &str) -> Error {
    let message = format!("the {what} has changed since its etag was read");
    Error::new(ErrorKind::Conflict, verb, message)
        .with_reason("ETAG_MISMATCH")
        .with_hint("Read it again, then decide.")
}
