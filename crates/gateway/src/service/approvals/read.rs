//! Reading the approvals and escalations of one execution from its log.

use std::sync::Arc;

use stateway_engine::{AttemptRecord, EventRecord};
use stateway_machine::{Task, task_input};
use stateway_proto::v1;
use stateway_provider_api::Call;
use tonic::{Code, Status};

use super::case::Case;
use super::docket::Docket;
use super::name::{InboxName, Kind};
use super::shown;
use crate::engines::Chosen;
use crate::service::executions::attempt;
use crate::service::log::Log;
use crate::service::workers::json;
use crate::status::Refusal;

const EVENTS_PER_READ: usize = 1_000;

/// Every case of an execution, in the order they were opened.
pub(super) async fn cases(
    call: &Call,
    chosen: Chosen<'_>,
    id: &Arc<str>,
) -> Result<Vec<Case>, Status> {
    let mut docket = Docket::default();
    match every_branch(call, chosen, id, |record| docket.add(record)).await {
        // A branch that the execution has left is damaged; the present one may be whole.
        Err(status) if status.code() == Code::DataLoss => {
            docket = Docket::default();
            present_branch(call, chosen, id, |record| docket.add(record)).await?;
        }
        read => read?,
    }
    Ok(docket.cases())
}

/// One approval with everything that is needed to decide.
pub(super) async fn approval(
    call: &Call,
    chosen: Chosen<'_>,
    name: &InboxName,
) -> Result<v1::Approval, Status> {
    let id: Arc<str> = name.execution.id.as_str().into();
    let view = chosen.answer(call, chosen.engine.get(id.clone())).await?;
    let cases = cases(call, chosen, &id).await?;
    let place = find(&cases, name).ok_or_else(|| not_found(chosen, name))?;
    let case = &cases[place];
    let mut approval = shown::approval(&name.execution, &view, case);
    approval.past = cases[..place]
        .iter()
        .filter(|earlier| earlier.kind() == name.kind && earlier.step == case.step)
        .map(|earlier| shown::past(&name.execution, earlier))
        .collect();
    approval.input = input(call, chosen, &id, case).await?;
    Ok(approval)
}

/// One escalation with everything that is needed to decide.
pub(super) async fn escalation(
    call: &Call,
    chosen: Chosen<'_>,
    name: &InboxName,
) -> Result<v1::Escalation, Status> {
    let id: Arc<str> = name.execution.id.as_str().into();
    let view = chosen.answer(call, chosen.engine.get(id.clone())).await?;
    let cases = cases(call, chosen, &id).await?;
    let place = find(&cases, name).ok_or_else(|| not_found(chosen, name))?;
    let case = &cases[place];
    let roles = chosen.engine.escalation_roles();
    let mut escalation = shown::escalation(&name.execution, &view, case, roles);
    let history = history(call, chosen, name, case).await?;
    shown::details(&mut escalation, case, history);
    Ok(escalation)
}

/// Every attempt to run the step until it was escalated. Nothing where a part of the log is damaged.
async fn history(
    call: &Call,
    chosen: Chosen<'_>,
    name: &InboxName,
    case: &Case,
) -> Result<Vec<v1::StepAttempt>, Status> {
    let id = name.execution.id.as_str().into();
    let step = chosen.engine.step(id, Arc::clone(&case.step));
    let step = match chosen.answer(call, step).await {
        Err(status) if status.code() == Code::DataLoss => return Ok(Vec::new()),
        step => step?,
    };
    let until = |attempt: &AttemptRecord| {
        let begun = attempt.started.is_none_or(|at| at <= case.opened);
        !attempt.compensation && begun
    };
    let attempts = step.attempts.into_iter().filter(until);
    Ok(attempts
        .map(|record| attempt(&name.execution, record))
        .collect())
}

fn find(cases: &[Case], name: &InboxName) -> Option<usize> {
    cases.iter().rposition(|case| {
        let place = (case.branch, case.attempt) == (name.branch, name.attempt);
        place && *case.step == *name.step && case.kind() == name.kind
    })
}

fn not_found(chosen: Chosen<'_>, name: &InboxName) -> Status {
    let (reason, hint) = match name.kind {
        Kind::Approval => ("APPROVAL_NOT_FOUND", "ListApprovals names the approvals."),
        Kind::Escalation => (
            "ESCALATION_NOT_FOUND",
            "ListEscalations names the escalations.",
        ),
    };
    let message = format!("there is no `{name}`");
    Refusal::new(Code::NotFound, reason, message)
        .with("provider", chosen.id.to_string())
        .hint(hint)
        .into()
}

/// The input of the step when the approval was asked for. Nothing where the log is too long to be
/// replayed for one answer.
async fn input(
    call: &Call,
    chosen: Chosen<'_>,
    id: &Arc<str>,
    case: &Case,
) -> Result<Option<v1::Payload>, Status> {
    let mut log = match Log::of_branch(call, chosen, id, Some(case.branch)).await {
        Err(status) if status.code() == Code::FailedPrecondition => return Ok(None),
        log => log?,
    };
    log.events.retain(|event| event.sequence <= case.sequence);
    let state = log.state(chosen).ok();
    let task = Task::of(Arc::clone(&case.step), case.attempt);
    let input = state.and_then(|state| task_input(&state, &task).ok());
    Ok(input.map(|input| json(&input)))
}

/// Reads everything that happened to an execution, branch after branch.
async fn every_branch(
    call: &Call,
    chosen: Chosen<'_>,
    id: &Arc<str>,
    mut each: impl FnMut(&EventRecord),
) -> Result<(), Status> {
    let mut after = (0, 0);
    loop {
        let page = chosen.engine.chronicle(id.clone(), after, EVENTS_PER_READ);
        let page = chosen.answer(call, page).await?;
        page.iter().for_each(&mut each);
        match page.last() {
            Some(last) if page.len() == EVENTS_PER_READ => {
                after = (last.branch, last.event.sequence);
            }
            _ => return Ok(()),
        }
    }
}

/// Reads the events that lead to where an execution is.
async fn present_branch(
    call: &Call,
    chosen: Chosen<'_>,
    id: &Arc<str>,
    mut each: impl FnMut(&EventRecord),
) -> Result<(), Status> {
    let mut after = 0;
    loop {
        let page = chosen.engine.history(id.clone(), after, EVENTS_PER_READ);
        let page = chosen.answer(call, page).await?;
        page.iter().for_each(&mut each);
        match page.last() {
            Some(last) if page.len() == EVENTS_PER_READ => after = last.event.sequence,
            _ => return Ok(()),
        }
    }
}
