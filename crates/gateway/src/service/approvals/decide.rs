//! Reading one approval or escalation, and deciding about it.

use stateway_proto::v1;
use stateway_proto::v1::Compensation;
use stateway_proto::v1::decide_approval_request::Choice;
use stateway_proto::v1::resolution::Action;
use stateway_provider_api::{
    Call, CompensationChoice, DecideRequest, ResolutionAction, ResolveRequest, Verb,
};
use tonic::Status;

use super::name::{InboxName, Kind};
use super::{Approvals, shown};
use crate::service::validate;
use crate::status::Refusal;
use crate::upstream::{Topic, Upstream};

impl Approvals {
    pub(super) async fn get(
        &self,
        call: Call,
        request: v1::GetApprovalRequest,
    ) -> Result<v1::Approval, Status> {
        let name = InboxName::parse(Kind::Approval, &request.name)?;
        let upstream = self.offering(&name)?;
        let guarded = upstream.within(&call);
        let found = guarded.approvals(Verb::GetApproval, |approvals, call| {
            approvals.get_approval(call, &name.id)
        });
        Ok(shown::approval(&upstream.id, found.await?))
    }

    pub(super) async fn get_escalated(
        &self,
        call: Call,
        request: v1::GetEscalationRequest,
    ) -> Result<v1::Escalation, Status> {
        let name = InboxName::parse(Kind::Escalation, &request.name)?;
        let upstream = self.offering(&name)?;
        let guarded = upstream.within(&call);
        let found = guarded.approvals(Verb::GetEscalation, |approvals, call| {
            approvals.get_escalation(call, &name.id)
        });
        Ok(shown::escalation(&upstream.id, found.await?))
    }

    pub(super) async fn decide(
        &self,
        call: Call,
        request: v1::DecideApprovalRequest,
    ) -> Result<v1::Approval, Status> {
        let name = InboxName::parse(Kind::Approval, &request.name)?;
        let upstream = self.offering(&name)?;
        let decide = DecideRequest {
            id: name.id,
            grant: grants(request.decision())?,
            comment: validate::text("comment", request.comment)?,
            etag: request.etag,
            request_id: validate::request_id(&request.request_id)?,
        };
        let guarded = upstream.within(&call);
        let decided = guarded.approvals(Verb::DecideApproval, |approvals, call| {
            approvals.decide(call, decide)
        });
        let decided = decided.await?;
        self.hub.hurry(&upstream.id);
        Ok(shown::approval(&upstream.id, decided))
    }

    pub(super) async fn resolve(
        &self,
        call: Call,
        request: v1::ResolveEscalationRequest,
    ) -> Result<v1::Escalation, Status> {
        let name = InboxName::parse(Kind::Escalation, &request.name)?;
        let upstream = self.offering(&name)?;
        let resolve = ResolveRequest {
            id: name.id,
            action: action(request.action(), &request.role)?,
            compensation: compensation(&request)?,
            comment: validate::text("comment", request.comment)?,
            etag: request.etag,
            request_id: validate::request_id(&request.request_id)?,
        };
        let guarded = upstream.within(&call);
        let resolved = guarded.approvals(Verb::ResolveEscalation, |approvals, call| {
            approvals.resolve(call, resolve)
        });
        Ok(shown::escalation(&upstream.id, resolved.await?))
    }

    fn offering(&self, name: &InboxName) -> Result<&Upstream, Status> {
        Ok(self.directory.of(&name.provider, Topic::APPROVALS)?)
    }
}

/// Whether a decision grants. A request without a decision must not reject by accident.
fn grants(decision: Choice) -> Result<bool, Status> {
    match decision {
        Choice::Grant => Ok(true),
        Choice::Reject => Ok(false),
        Choice::Unspecified => {
            Err(Refusal::invalid("decision", "`decision` must be GRANT or REJECT").into())
        }
    }
}

fn action(action: Action, role: &str) -> Result<ResolutionAction, Status> {
    let reassigns = action == Action::Reassign;
    if reassigns && role.is_empty() {
        return Err(Refusal::invalid("role", "REASSIGN needs a `role` to reassign to").into());
    }
    if !reassigns && !role.is_empty() {
        return Err(Refusal::invalid("role", "`role` is only allowed with REASSIGN").into());
    }
    match action {
        Action::Unspecified => {
            let message = "`action` must be RESUME, REASSIGN or CANCEL";
            Err(Refusal::invalid("action", message).into())
        }
        Action::Resume => Ok(ResolutionAction::Resume),
        Action::Reassign => Ok(ResolutionAction::Reassign {
            role: validate::text("role", role.to_owned())?,
        }),
        Action::Cancel => Ok(ResolutionAction::Cancel),
    }
}

/// The choice about compensation goes with a cancellation.
fn compensation(request: &v1::ResolveEscalationRequest) -> Result<CompensationChoice, Status> {
    let choice = match request.compensation() {
        Compensation::Unspecified => return Ok(CompensationChoice::AsDefined),
        Compensation::Compensate => CompensationChoice::Compensate,
        Compensation::Skip => CompensationChoice::Skip,
    };
    if request.action() != Action::Cancel {
        let message = "`compensation` is only allowed with CANCEL";
        return Err(Refusal::invalid("compensation", message).into());
    }
    Ok(choice)
}
