//! Decisions about one approval or escalation.
//!
//! The engine decides first: it knows a repeated request by its id. Where the engine answers that the
//! request is not open any more, the log says how it ended, and the answer follows from that: the same
//! decision by the same person is accepted again, every other one is rejected with who decided.

use std::sync::Arc;

use stateway_engine::{Decide, Resolve};
use stateway_machine::Resolution;
use stateway_proto::v1;
use stateway_proto::v1::approval::State as ApprovalState;
use stateway_proto::v1::cancel_execution_request::Compensation;
use stateway_proto::v1::escalation::State as EscalationState;
use stateway_proto::v1::resolution::Action;
use stateway_provider_api::Call;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::name::{InboxName, Kind};
use super::{Approvals, read};
use crate::engines::{Chosen, request_key};
use crate::service::validate;
use crate::status::Refusal;

impl Approvals {
    pub(super) async fn get(
        &self,
        call: Call,
        request: v1::GetApprovalRequest,
    ) -> Result<v1::Approval, Status> {
        let name = InboxName::parse(Kind::Approval, &request.name)?;
        let chosen = self.engine_of(&name)?;
        read::approval(&call, chosen, &name).await
    }

    pub(super) async fn get_escalated(
        &self,
        call: Call,
        request: v1::GetEscalationRequest,
    ) -> Result<v1::Escalation, Status> {
        let name = InboxName::parse(Kind::Escalation, &request.name)?;
        let chosen = self.engine_of(&name)?;
        read::escalation(&call, chosen, &name).await
    }

    pub(super) async fn decide(
        &self,
        call: Call,
        mut request: v1::DecideApprovalRequest,
    ) -> Result<v1::Approval, Status> {
        let name = InboxName::parse(Kind::Approval, &request.name)?;
        let chosen = self.engine_of(&name)?;
        let id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let comment = validate::text("comment", request.comment.clone())?;
        let etag = std::mem::take(&mut request.etag);
        let key = request_key(&id, "DecideApproval", &call, &request);
        // A repeated request gets the answer of the first one, whatever has changed since.
        let asked = chosen.answer(&call, chosen.engine.was_asked(&key)).await?;
        if !etag.is_empty() && !asked {
            let current = read::approval(&call, chosen, &name).await?;
            if current.etag != etag {
                let changed = changed(chosen, "approval");
                return decided_before(chosen, &call, request.grant, current, changed);
            }
        }
        if !asked && !read::is_last(&call, chosen, &name).await? {
            let current = read::approval(&call, chosen, &name).await?;
            let changed = changed(chosen, "approval");
            return decided_before(chosen, &call, request.grant, current, changed);
        }
        let decide = Decide {
            step: name.step.as_str().into(),
            attempt: name.attempt,
            branch: Some(name.branch),
            grant: request.grant,
            roles: call.roles.to_vec(),
            comment: comment.into(),
        };
        let execution: Arc<str> = name.execution.id.as_str().into();
        let decided = chosen
            .engine
            .decide(execution, decide, call.actor.clone(), key);
        match chosen.answer(&call, decided).await {
            Ok(_) => read::approval(&call, chosen, &name).await,
            Err(status) if is_over(&status) => match read::approval(&call, chosen, &name).await {
                Ok(current) => decided_before(chosen, &call, request.grant, current, status),
                // There never was such a request.
                Err(_) => Err(status),
            },
            Err(status) => Err(status),
        }
    }

    pub(super) async fn resolve(
        &self,
        call: Call,
        mut request: v1::ResolveEscalationRequest,
    ) -> Result<v1::Escalation, Status> {
        let name = InboxName::parse(Kind::Escalation, &request.name)?;
        let chosen = self.engine_of(&name)?;
        let id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let comment = validate::text("comment", request.comment.clone())?;
        let resolution = resolution(request.action(), &request.role)?;
        let compensate = compensate(&request)?;
        let etag = std::mem::take(&mut request.etag);
        let key = request_key(&id, "ResolveEscalation", &call, &request);
        let asked = chosen.answer(&call, chosen.engine.was_asked(&key)).await?;
        if !etag.is_empty() && !asked {
            let current = read::escalation(&call, chosen, &name).await?;
            if current.etag != etag {
                let changed = changed(chosen, "escalation");
                return resolved_before(chosen, &call, &request, current, changed);
            }
        }
        let resolve = Resolve {
            step: name.step.as_str().into(),
            attempt: name.attempt,
            branch: Some(name.branch),
            roles: call.roles.to_vec(),
            resolution,
            comment: comment.into(),
            compensate,
        };
        let execution: Arc<str> = name.execution.id.as_str().into();
        let resolved = chosen
            .engine
            .resolve(execution, resolve, call.actor.clone(), key);
        match chosen.answer(&call, resolved).await {
            Ok(_) => read::escalation(&call, chosen, &name).await,
            Err(status) if is_over(&status) => {
                let current = read::escalation(&call, chosen, &name).await?;
                resolved_before(chosen, &call, &request, current, status)
            }
            Err(status) => Err(status),
        }
    }

    fn engine_of(&self, name: &InboxName) -> Result<Chosen<'_>, Status> {
        self.directory
            .of(&name.execution.provider, name.kind.collection())
    }
}

/// Whether the engine rejects a decision because its request is not the open one.
fn is_over(status: &Status) -> bool {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    matches!(
        reason,
        Some(
            "ALREADY_FINISHED"
                | "WRONG_STATE"
                | "STALE_APPROVAL"
                | "NO_APPROVAL"
                | "ALREADY_DECIDED"
                | "APPROVAL_EXPIRED"
                | "STALE_ESCALATION"
                | "NOT_ESCALATED"
        )
    )
}

/// The answer to a decision about an approval that may have ended; `otherwise` where it is pending.
fn decided_before(
    chosen: Chosen<'_>,
    call: &Call,
    grant: bool,
    current: v1::Approval,
    otherwise: Status,
) -> Result<v1::Approval, Status> {
    let by = current.decision.as_ref().map(|made| &*made.decided_by);
    let by = by.unwrap_or_default();
    let (reason, message) = match current.state() {
        ApprovalState::Granted if grant && same_person(by, &call.actor) => return Ok(current),
        ApprovalState::Rejected if !grant && same_person(by, &call.actor) => return Ok(current),
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
        ApprovalState::Pending | ApprovalState::Unspecified => return Err(otherwise),
    };
    let hint = "GetApproval shows how the approval ended; ListApprovals shows what is pending.";
    Err(over(chosen, reason, message, hint))
}

/// The answer to a decision about an escalation that may have ended; `otherwise` where it is pending.
fn resolved_before(
    chosen: Chosen<'_>,
    call: &Call,
    request: &v1::ResolveEscalationRequest,
    current: v1::Escalation,
    otherwise: Status,
) -> Result<v1::Escalation, Status> {
    let message = match (current.state(), &current.resolution) {
        (EscalationState::Resolved, Some(made)) => {
            let by = made.decision.as_ref().map(|made| &*made.decided_by);
            let by = by.unwrap_or_default();
            let same = made.action == request.action && made.role == request.role;
            if same && same_person(by, &call.actor) {
                return Ok(current);
            }
            let action = made.action().as_str_name().to_ascii_lowercase();
            format!("`{by}` has resolved the escalation: {action}")
        }
        (EscalationState::Resolved | EscalationState::Withdrawn, _) => {
            "the escalation was withdrawn before anyone decided".to_owned()
        }
        (EscalationState::Pending | EscalationState::Unspecified, _) => return Err(otherwise),
    };
    let hint =
        "GetEscalation shows how the escalation ended; ListEscalations shows what is pending.";
    Err(over(chosen, "STALE_ESCALATION", message, hint))
}

/// Compares names without regard to case, as the engine does.
fn same_person(left: &str, right: &str) -> bool {
    left.trim().to_lowercase() == right.trim().to_lowercase()
}

fn over(chosen: Chosen<'_>, reason: &'static str, message: String, hint: &str) -> Status {
    Refusal::new(Code::FailedPrecondition, reason, message)
        .with("provider", chosen.id.to_string())
        .hint(hint)
        .into()
}

fn resolution(action: Action, role: &str) -> Result<Resolution, Status> {
    let reassigns = action == Action::Reassign;
    if reassigns && role.is_empty() {
        return Err(Refusal::invalid("role", "REASSIGN needs a `role` to reassign to").into());
    }
    if !reassigns && !role.is_empty() {
        return Err(Refusal::invalid("role", "`role` goes with REASSIGN only").into());
    }
    match action {
        Action::Unspecified => {
            let message = "`action` must be RESUME, REASSIGN or CANCEL";
            Err(Refusal::invalid("action", message).into())
        }
        Action::Resume => Ok(Resolution::Resume),
        Action::Reassign => Ok(Resolution::Reassign {
            role: validate::text("role", role.to_owned())?.into(),
        }),
        Action::Cancel => Ok(Resolution::Cancel),
    }
}

/// The choice about compensation; none: as the definition's failure policy says.
fn compensate(request: &v1::ResolveEscalationRequest) -> Result<Option<bool>, Status> {
    let choice = match request.compensation() {
        Compensation::Unspecified => return Ok(None),
        Compensation::Compensate => true,
        Compensation::NoCompensation => false,
    };
    if request.action() != Action::Cancel {
        let message = "`compensation` goes with CANCEL only";
        return Err(Refusal::invalid("compensation", message).into());
    }
    Ok(Some(choice))
}

fn changed(chosen: Chosen<'_>, what: &str) -> Status {
    let message = format!("the {what} has another etag by now");
    Refusal::new(Code::Aborted, "ETAG_MISMATCH", message)
        .with("provider", chosen.id.to_string())
        .hint("Read it again, then decide.")
        .into()
}
