//! Reading one approval or escalation, and deciding about it.

use stateway_access::Permission;
use stateway_proto::v1;
use stateway_proto::v1::Compensation;
use stateway_proto::v1::decide_approval_request::Choice;
use stateway_proto::v1::resolution::Action;
use stateway_provider_api::{
    Approval, CompensationChoice, DecideRequest, Error, ErrorKind, Escalation, ResolutionAction,
    ResolveRequest, Verb, View,
};
use tonic::Status;

use super::name::{InboxName, Kind};
use super::{Approvals, shown};
use crate::access::ApiCall;
use crate::service::validate;
use crate::status::{self, Refusal};
use crate::upstream::{CallError, Topic, Upstream};

impl Approvals {
    pub(super) async fn get(
        &self,
        call: ApiCall,
        request: v1::GetApprovalRequest,
    ) -> Result<v1::Approval, Status> {
        let name = InboxName::parse(Kind::Approval, &request.name)?;
        let upstream = self.offering(&call, &name)?;
        self.authorize(&call, upstream, &name, Permission::Read)
            .await?;
        let found = self.approval(&call, upstream, &name).await?;
        if !call.access.approval(&upstream.id, &found).0 {
            return Err(absent(&name));
        }
        Ok(shown::approval(&call.access, &upstream.id, found))
    }

    pub(super) async fn get_escalated(
        &self,
        call: ApiCall,
        request: v1::GetEscalationRequest,
    ) -> Result<v1::Escalation, Status> {
        let name = InboxName::parse(Kind::Escalation, &request.name)?;
        let upstream = self.offering(&call, &name)?;
        self.authorize(&call, upstream, &name, Permission::Read)
            .await?;
        let found = self.escalation(&call, upstream, &name).await?;
        if !call.access.escalation(&upstream.id, &found) {
            return Err(absent(&name));
        }
        Ok(shown::escalation(&upstream.id, found))
    }

    pub(super) async fn decide(
        &self,
        call: ApiCall,
        request: v1::DecideApprovalRequest,
    ) -> Result<v1::Approval, Status> {
        let name = InboxName::parse(Kind::Approval, &request.name)?;
        let upstream = self.offering(&call, &name)?;
        if !call.has_all(Permission::Approve, &upstream.id) {
            self.authorize(&call, upstream, &name, Permission::Approve)
                .await?;
            let found = self.approval(&call, upstream, &name).await?;
            let reads = call.access.approval(&upstream.id, &found).0;
            let of = (&*found.definition, &found.labels);
            let seen = (reads, &*request.name);
            call.require_inbox(&upstream.id, of, seen, || absent(&name))?;
        }
        let decide = DecideRequest {
            id: name.id.clone(),
            grant: grants(request.decision())?,
            comment: validate::text("comment", request.comment)?,
            etag: request.etag,
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        let guarded = upstream.within(&call);
        let decided = guarded.approvals(Verb::DecideApproval, |approvals, call| {
            approvals.decide(call, decide)
        });
        let decided = decided.await;
        let decided = decided.map_err(|failed| without_headers(&call, failed))?;
        self.hub.hurry(&upstream.id);
        Ok(shown::decided(&call.access, &upstream.id, decided))
    }

    pub(super) async fn resolve(
        &self,
        call: ApiCall,
        request: v1::ResolveEscalationRequest,
    ) -> Result<v1::Escalation, Status> {
        let name = InboxName::parse(Kind::Escalation, &request.name)?;
        let upstream = self.offering(&call, &name)?;
        if !call.has_all(Permission::Approve, &upstream.id) {
            self.authorize(&call, upstream, &name, Permission::Approve)
                .await?;
            let found = self.escalation(&call, upstream, &name).await?;
            let reads = call.access.escalation(&upstream.id, &found);
            let of = (&*found.definition, &found.labels);
            let seen = (reads, &*request.name);
            call.require_inbox(&upstream.id, of, seen, || absent(&name))?;
        }
        let resolve = ResolveRequest {
            id: name.id.clone(),
            action: action(request.action(), &request.role)?,
            compensation: compensation(&request)?,
            comment: validate::text("comment", request.comment)?,
            etag: request.etag,
            request_id: validate::request_id(&call, &request.request_id)?,
        };
        let guarded = upstream.within(&call);
        let resolved = guarded.approvals(Verb::ResolveEscalation, |approvals, call| {
            approvals.resolve(call, resolve)
        });
        let resolved = resolved.await;
        let resolved = resolved.map_err(|failed| without_headers(&call, failed))?;
        Ok(shown::resolved(&call.access, &upstream.id, resolved))
    }

    fn offering(&self, call: &ApiCall, name: &InboxName) -> Result<&Upstream, Status> {
        let offering = self
            .directory
            .of(&call.access, &name.provider, Topic::APPROVALS);
        Ok(offering?)
    }

    /// Refuses a caller that may neither read the execution of a request nor has this permission for it. The same
    /// is read for an execution that does not exist and for a hidden one, so that the time of the answer does not
    /// tell them apart.
    async fn authorize(
        &self,
        call: &ApiCall,
        upstream: &Upstream,
        name: &InboxName,
        permission: Permission,
    ) -> Result<(), Status> {
        if call.access.reads_all(&name.provider) {
            return Ok(());
        }
        let guarded = upstream.within(call);
        let observed = guarded.call_boxed(Verb::Get, |provider, call| {
            provider.get(call, &name.id.execution, View::Basic)
        });
        let observed = observed.await;
        let observed = observed.map_err(|failed| missing(call, name, failed))?;
        let execution = upstream.execution(*observed);
        if call.access.reads(&execution) || call.access.has(permission, &execution) {
            return Ok(());
        }
        Err(absent(name))
    }

    async fn approval(
        &self,
        call: &ApiCall,
        upstream: &Upstream,
        name: &InboxName,
    ) -> Result<Approval, Status> {
        let guarded = upstream.within(call);
        let found = guarded.approvals(Verb::GetApproval, |approvals, call| {
            approvals.get_approval(call, &name.id)
        });
        found.await.map_err(|failed| missing(call, name, failed))
    }

    async fn escalation(
        &self,
        call: &ApiCall,
        upstream: &Upstream,
        name: &InboxName,
    ) -> Result<Escalation, Status> {
        let guarded = upstream.within(call);
        let found = guarded.approvals(Verb::GetEscalation, |approvals, call| {
            approvals.get_escalation(call, &name.id)
        });
        found.await.map_err(|failed| missing(call, name, failed))
    }
}

/// The failure of a read. What does not exist looks like what the caller may not know of.
fn missing(call: &ApiCall, name: &InboxName, failed: CallError) -> Status {
    let is_hidden = failed.error.kind == ErrorKind::NotFound;
    if is_hidden && !call.access.reads_all(&name.provider) {
        absent(name)
    } else {
        failed.into()
    }
}

/// The answer for a request that does not exist, and for one that the caller may not know of.
fn absent(name: &InboxName) -> Status {
    let (verb, reason) = match name.kind {
        Kind::Approval => (Verb::GetApproval, "APPROVAL_NOT_FOUND"),
        Kind::Escalation => (Verb::GetEscalation, "ESCALATION_NOT_FOUND"),
    };
    let message = format!("`{name}` does not exist");
    let error = Error::new(ErrorKind::NotFound, verb, message).with_reason(reason);
    status::of_provider(&name.provider, &error)
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

/// With authentication a caller cannot name its roles.
fn without_headers(call: &ApiCall, mut failed: CallError) -> CallError {
    if !call.access.is_open() && failed.error.reason() == "ROLE_REQUIRED" {
        failed.error.hint =
            "Ask a person who has the role. Roles come from the key, token or certificate.".into();
    }
    failed
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
