//! One approval or escalation: read it, decide about it.

use std::sync::Arc;

use stateway_engine::{Decide, Resolve};
use stateway_machine::{Resolution, Task, task_input};
use stateway_proto::v1;
use stateway_proto::v1::approval::State;
use stateway_proto::v1::resolution::Action;
use stateway_provider_api::Call;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::name::{ApprovalName, EscalationName};
use super::{APPROVALS, Approvals, ESCALATIONS, requests, shown};
use crate::convert;
use crate::engines::{Chosen, request_key};
use crate::service::log::Log;
use crate::service::validate;
use crate::service::workers::json;
use crate::status::Refusal;

impl Approvals {
    pub(super) async fn get(
        &self,
        call: Call,
        request: v1::GetApprovalRequest,
    ) -> Result<v1::Approval, Status> {
        let name = ApprovalName::parse(&request.name)?;
        let chosen = self.directory.of(&name.execution.provider, APPROVALS)?;
        read(&call, chosen, &name).await
    }

    pub(super) async fn decide(
        &self,
        call: Call,
        mut request: v1::DecideApprovalRequest,
    ) -> Result<v1::Approval, Status> {
        let name = ApprovalName::parse(&request.name)?;
        let chosen = self.directory.of(&name.execution.provider, APPROVALS)?;
        let id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let comment = validate::text("comment", request.comment.clone())?;
        let etag = std::mem::take(&mut request.etag);
        if !etag.is_empty() {
            let current = read(&call, chosen, &name).await?;
            same_etag(chosen, &etag, &current.etag)?;
        }
        let decide = Decide {
            step: name.step.as_str().into(),
            attempt: name.attempt,
            branch: Some(0),
            grant: request.grant,
            roles: call.roles.to_vec(),
            comment: comment.into(),
        };
        let key = request_key(&id, "DecideApproval", &call, &request);
        let execution: Arc<str> = name.execution.id.as_str().into();
        let decided = chosen
            .engine
            .decide(execution, decide, call.actor.clone(), key);
        match chosen.answer(&call, decided).await {
            Ok(_) => read(&call, chosen, &name).await,
            Err(status) if is_over(&status) => {
                let current = read(&call, chosen, &name).await?;
                after_the_end(chosen, &call, request.grant, current)
            }
            Err(status) => Err(status),
        }
    }

    pub(super) async fn resolve(
        &self,
        call: Call,
        mut request: v1::ResolveEscalationRequest,
    ) -> Result<v1::Escalation, Status> {
        let name = EscalationName::parse(&request.name)?;
        let chosen = self.directory.of(&name.execution.provider, ESCALATIONS)?;
        let id = validate::request_id(&std::mem::take(&mut request.request_id))?;
        let comment = validate::text("comment", request.comment.clone())?;
        let resolution = resolution(request.action(), &request.role)?;
        let etag = std::mem::take(&mut request.etag);
        let execution: Arc<str> = name.execution.id.as_str().into();
        let before = chosen.engine.get(execution.clone());
        let before = chosen.answer(&call, before).await?;
        let step = before.steps.iter().find(|step| step.name == name.step);
        // A repetition finds the step resolved already; only the engine knows that it is one.
        let mut answer = match step {
            Some(step) => shown::escalation(&name.execution, &before, step),
            None => return Err(no_escalation(chosen, &request.name)),
        };
        if !etag.is_empty() {
            same_etag(chosen, &etag, &answer.etag)?;
        }
        let resolve = Resolve {
            step: name.step.as_str().into(),
            attempt: step.map_or(0, |step| step.retry.attempt),
            branch: Some(before.branch),
            roles: call.roles.to_vec(),
            resolution,
            comment: comment.clone().into(),
        };
        let key = request_key(&id, "ResolveEscalation", &call, &request);
        let resolved = chosen
            .engine
            .resolve(execution, resolve, call.actor.clone(), key);
        let after = chosen.answer(&call, resolved).await?;
        answer.resolution = Some(v1::Resolution {
            action: request.action,
            role: request.role,
            decision: Some(v1::Decision {
                decided_by: call.actor.to_string(),
                decide_time: after.times.updated.map(convert::timestamp),
                comment,
            }),
        });
        Ok(answer)
    }
}

/// One approval with everything that is needed to decide.
async fn read(
    call: &Call,
    chosen: Chosen<'_>,
    name: &ApprovalName,
) -> Result<v1::Approval, Status> {
    let log = Log::read(call, chosen, &name.execution.id.as_str().into()).await?;
    let of_step: Vec<_> = requests::of_log(&log.events)
        .into_iter()
        .filter(|request| *request.step == *name.step)
        .collect();
    let place = of_step
        .iter()
        .rposition(|request| request.attempt == name.attempt);
    let Some(place) = place else {
        let message = format!(
            "step `{}` of `{}` never asked for decision {}",
            name.step, name.execution.id, name.attempt
        );
        return Err(Refusal::new(Code::NotFound, "APPROVAL_NOT_FOUND", message)
            .with("provider", chosen.id.to_string())
            .hint("ListApprovals names those there are.")
            .into());
    };
    let mut approval = shown::approval(&name.execution, &log.view, &of_step[place]);
    let earlier = &of_step[..place];
    approval.past = earlier
        .iter()
        .map(|request| shown::past(&log.view, request))
        .collect();
    let state = log.state(chosen)?;
    let task = Task::of(name.step.as_str(), name.attempt);
    approval.input = task_input(&state, &task).ok().map(|input| json(&input));
    Ok(approval)
}

/// The execution has ended, or is being undone: nothing in it waits for a decision.
fn is_over(status: &Status) -> bool {
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.as_str());
    matches!(reason, Some("ALREADY_FINISHED" | "WRONG_STATE"))
}

/// The same decision by the same person is no news; any other comes too late.
fn after_the_end(
    chosen: Chosen<'_>,
    call: &Call,
    grant: bool,
    current: v1::Approval,
) -> Result<v1::Approval, Status> {
    let decided_by = current.decision.as_ref().map(|made| &*made.decided_by);
    let granted = current.state() == State::Granted;
    let (reason, message) = match decided_by {
        Some(by) if *by == *call.actor && granted == grant => return Ok(current),
        Some(by) => ("ALREADY_DECIDED", format!("{by} has decided already")),
        None => ("STALE_APPROVAL", "the request is not open any more".into()),
    };
    Err(Refusal::new(Code::FailedPrecondition, reason, message)
        .with("provider", chosen.id.to_string())
        .hint("GetApproval shows what became of it.")
        .into())
}

fn resolution(action: Action, role: &str) -> Result<Resolution, Status> {
    let role_wanted = action == Action::Reassign;
    if role_wanted == role.is_empty() {
        let message = match role_wanted {
            true => "REASSIGN needs a role to reassign to",
            false => "a role goes with REASSIGN only",
        };
        return Err(Refusal::invalid("role", message).into());
    }
    match action {
        Action::Unspecified => {
            Err(Refusal::invalid("action", "say RESUME, REASSIGN or CANCEL").into())
        }
        Action::Resume => Ok(Resolution::Resume),
        Action::Reassign => Ok(Resolution::Reassign {
            role: validate::text("role", role.to_owned())?.into(),
        }),
        Action::Cancel => Ok(Resolution::Cancel),
    }
}

fn same_etag(chosen: Chosen<'_>, sent: &str, current: &str) -> Result<(), Status> {
    if sent == current {
        return Ok(());
    }
    Err(
        Refusal::new(Code::Aborted, "ETAG_MISMATCH", "it has changed meanwhile")
            .with("provider", chosen.id.to_string())
            .hint("Read it again, then decide.")
            .into(),
    )
}

fn no_escalation(chosen: Chosen<'_>, name: &str) -> Status {
    let message = format!("there is no escalation `{name}`");
    Refusal::new(Code::NotFound, "ESCALATION_NOT_FOUND", message)
        .with("provider", chosen.id.to_string())
        .hint("ListEscalations names those there are.")
        .into()
}
