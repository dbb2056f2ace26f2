//! Decisions about one approval or escalation.
//!
//! The engine decides first: it knows a repeated request by its id. Where the engine answers that the
//! request is not open any more, the log says how it ended, and the answer follows from that: the same
//! decision by the same person is accepted again, every other one is rejected with who decided.

use std::sync::Arc;

use stateway_engine::{Decide, Resolve};
use stateway_hosted::inbox::{
    CaseId, Kind, changed, decided_before, is_over, resolution, resolved_before,
};
use stateway_provider_api::{
    Approval, Call, CompensationChoice, DecideRequest, Escalation, ResolveRequest, Result, Verb,
};

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
