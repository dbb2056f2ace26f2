//! Decisions about one approval or escalation.
//!
//! The object decides: it knows a repeated request by its id. Where the object answers that the request is
//! not open any more, the log says how it ended, and the answer follows from that.

use std::sync::Arc;

use stateway_machine::Verb as Command;
use stateway_model::ExecutionId;
use stateway_provider_api::{
    Approval, Call, CompensationChoice, DecideRequest, Escalation, ResolveRequest, Result, Verb,
};

use super::super::request::Body;
use super::super::{HostPort, HostedProvider};
use crate::inbox::{CaseId, Kind, changed, decided_before, is_over, resolution, resolved_before};
use crate::message::{ObjectRequest, VERSION, Work};

impl<P: HostPort> HostedProvider<P> {
    pub(super) async fn decide_approval(
        &self,
        call: &Call,
        request: DecideRequest,
    ) -> Result<Approval> {
        let verb = Verb::DecideApproval;
        let case_id = CaseId::parse(Kind::Approval, verb, &request.id.id)?;
        let current = || self.approval(call, verb, &request.id);
        if case_id.ordinal > 1 {
            // Several requests about one attempt are those of policy rules, which a host does not have.
            return Err(Kind::Approval.not_found(verb, &request.id.id));
        }
        if !request.etag.is_empty() {
            let current = current().await?;
            if current.etag() != request.etag {
                return decided_before(call, request.grant, current, changed(verb, "approval"));
            }
        }
        let word = if request.grant { "grant" } else { "reject" };
        let body = Body::of(call, verb, &request.request_id)
            .text(request.id.execution.as_str())
            .text(&request.id.id)
            .text(word)
            .text(&request.comment)
            .finish();
        let decide = Command::DecideApproval {
            step: case_id.step.as_str().into(),
            attempt: case_id.attempt,
            grant: request.grant,
            by: Arc::clone(&call.actor),
            roles: call.roles.to_vec(),
            comment: request.comment.as_str().into(),
        };
        let execution = &request.id.execution;
        match self
            .send_decision(call, verb, execution, (body, case_id.branch, decide))
            .await
        {
            Ok(()) => current().await,
            Err(error) if is_over(&error) => match current().await {
                Ok(current) => decided_before(call, request.grant, current, error),
                // There never was such a request.
                Err(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    pub(super) async fn resolve_escalation(
        &self,
        call: &Call,
        request: ResolveRequest,
    ) -> Result<Escalation> {
        let verb = Verb::ResolveEscalation;
        let case_id = CaseId::parse(Kind::Escalation, verb, &request.id.id)?;
        let current = || self.escalation(call, verb, &request.id);
        if !request.etag.is_empty() {
            let current = current().await?;
            if current.etag() != request.etag {
                return resolved_before(call, &request, current, changed(verb, "escalation"));
            }
        }
        let (action, resolution) = resolution(&request.action);
        let compensate = match request.compensation {
            CompensationChoice::AsDefined => None,
            CompensationChoice::Compensate => Some(true),
            CompensationChoice::Skip => Some(false),
        };
        let body = Body::of(call, verb, &request.request_id)
            .text(request.id.execution.as_str())
            .text(&request.id.id)
            .text(&action)
            .text(&format!("{compensate:?}"))
            .text(&request.comment)
            .finish();
        let resolve = Command::ResolveEscalation {
            step: case_id.step.as_str().into(),
            attempt: case_id.attempt,
            resolution,
            by: Arc::clone(&call.actor),
            roles: call.roles.to_vec(),
            operators: self.escalation_roles.clone(),
            comment: request.comment.as_str().into(),
            compensate,
        };
        let execution = &request.id.execution;
        match self
            .send_decision(call, verb, execution, (body, case_id.branch, resolve))
            .await
        {
            Ok(()) => current().await,
            Err(error) if is_over(&error) => {
                resolved_before(call, &request, current().await?, error)
            }
            Err(error) => Err(error),
        }
    }

    async fn send_decision(
        &self,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
        (body, branch, command): (Body, u32, Command),
    ) -> Result<()> {
        let decide = ObjectRequest {
            v: VERSION,
            id: body.id,
            at: self.now(),
            body: Some(body.digest),
            work: Work::Decide {
                branch,
                verb: Box::new(command),
            },
            claim: None,
        };
        self.send(call, verb, id, &decide).await.map(drop)
    }
}
