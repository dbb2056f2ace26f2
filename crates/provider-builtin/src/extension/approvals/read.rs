//! Reading the approvals and escalations of one execution from its log.

use std::sync::Arc;

use stateway_engine::{AttemptRecord, Engine, EventRecord};
use stateway_machine::{Task, task_input};
use stateway_model::Payload;
use stateway_provider_api::{
    Approval, Call, ErrorKind, Escalation, InboxId, Result, StepAttempt, Verb,
};

use crate::BuiltinProvider;
use crate::line::Line;
use crate::log::Log;
use stateway_hosted::inbox::{self, Case, CaseId, Docket, Kind, step_attempt};

const EVENTS_PER_READ: usize = 1_000;

/// Every case of an execution, in the order they were opened.
pub(super) async fn cases(
    provider: &BuiltinProvider,
    call: &Call,
    verb: Verb,
    id: &Arc<str>,
) -> Result<Vec<Case>> {
    cases_of((&provider.engine, &provider.line), call, verb, id).await
}

/// The same without the provider, for streams that continue after the call.
pub(super) async fn cases_of(
    (engine, line): (&Engine, &Line),
    call: &Call,
    verb: Verb,
    id: &Arc<str>,
) -> Result<Vec<Case>> {
    let mut docket = Docket::default();
    let asked = Asked {
        engine,
        line,
        call,
        verb,
        id,
    };
    match asked
        .every_branch(|record| docket.add(record.branch, &record.event))
        .await
    {
        // A branch that the execution has left is damaged; the present one may be whole.
        Err(error) if error.kind == ErrorKind::DataLoss => {
            docket = Docket::default();
            asked
                .present_branch(|record| docket.add(record.branch, &record.event))
                .await?;
        }
        read => read?,
    }
    Ok(docket.cases())
}

/// One approval with everything that is needed to decide.
pub(super) async fn approval(
    provider: &BuiltinProvider,
    call: &Call,
    verb: Verb,
    id: &InboxId,
) -> Result<Approval> {
    let case_id = CaseId::parse(Kind::Approval, verb, &id.id)?;
    let execution: Arc<str> = id.execution.as_str().into();
    let view = provider.engine.get(Arc::clone(&execution));
    let view = provider.line.carry(call, verb, view).await?;
    let cases = cases(provider, call, verb, &execution).await?;
    let place = find(&cases, Kind::Approval, &case_id);
    let place = place.ok_or_else(|| Kind::Approval.not_found(verb, &id.id))?;
    let case = &cases[place];
    let mut approval = inbox::approval(&id.execution, &view, case);
    approval.input = input(provider, call, verb, (id, case)).await?;
    Ok(approval)
}

/// One escalation with everything that is needed to decide.
pub(super) async fn escalation(
    provider: &BuiltinProvider,
    call: &Call,
    verb: Verb,
    id: &InboxId,
) -> Result<Escalation> {
    let case_id = CaseId::parse(Kind::Escalation, verb, &id.id)?;
    let execution: Arc<str> = id.execution.as_str().into();
    let view = provider.engine.get(Arc::clone(&execution));
    let view = provider.line.carry(call, verb, view).await?;
    let cases = cases(provider, call, verb, &execution).await?;
    let place = find(&cases, Kind::Escalation, &case_id);
    let place = place.ok_or_else(|| Kind::Escalation.not_found(verb, &id.id))?;
    let case = &cases[place];
    let roles = provider.engine.escalation_roles();
    let mut escalation = inbox::escalation(&id.execution, &view, case, roles);
    let history = history(provider, call, verb, (&execution, case)).await?;
    inbox::details(&mut escalation, case, history);
    Ok(escalation)
}

/// Every attempt to run the step until it was escalated. Nothing where a part of the log is damaged.
async fn history(
    provider: &BuiltinProvider,
    call: &Call,
    verb: Verb,
    (execution, case): (&Arc<str>, &Case),
) -> Result<Vec<StepAttempt>> {
    let step = provider
        .engine
        .step(Arc::clone(execution), Arc::clone(&case.step));
    let step = match provider.line.carry(call, verb, step).await {
        Err(error) if error.kind == ErrorKind::DataLoss => return Ok(Vec::new()),
        step => step?,
    };
    let until = |attempt: &AttemptRecord| {
        let begun = attempt.started.is_none_or(|at| at <= case.opened);
        !attempt.compensation && begun
    };
    let attempts = step.attempts.into_iter().filter(until);
    Ok(attempts.map(step_attempt).collect())
}

fn find(cases: &[Case], kind: Kind, id: &CaseId) -> Option<usize> {
    let named = (id.branch, id.attempt, id.ordinal);
    cases.iter().position(|case| {
        let place = (case.branch, case.attempt, case.ordinal);
        place == named && *case.step == *id.step && case.kind() == kind
    })
}

/// Whether a request is the last one about its attempt; the engine knows the last one only.
pub(super) async fn is_last(
    provider: &BuiltinProvider,
    call: &Call,
    verb: Verb,
    (id, case_id): (&InboxId, &CaseId),
) -> Result<bool> {
    let cases = cases(provider, call, verb, &id.execution.as_str().into()).await?;
    match find(&cases, Kind::Approval, case_id) {
        Some(place) => {
            let mut later = cases[place + 1..].iter();
            Ok(!later.any(|later| later.is_beside(&cases[place])))
        }
        None if case_id.ordinal > 1 => Err(Kind::Approval.not_found(verb, &id.id)),
        // The engine says what is wrong with a request that never was.
        None => Ok(true),
    }
}

/// The input of the step when the approval was asked for. Nothing where the log is too long to be
/// replayed for one answer.
async fn input(
    provider: &BuiltinProvider,
    call: &Call,
    verb: Verb,
    (id, case): (&InboxId, &Case),
) -> Result<Option<Payload>> {
    let log = Log::read(provider, call, verb, &id.execution, Some(case.branch));
    let mut log = match log.await {
        Err(error) if error.kind == ErrorKind::FailedPrecondition => return Ok(None),
        log => log?,
    };
    log.events.retain(|event| event.sequence <= case.sequence);
    let task = Task::of(Arc::clone(&case.step), case.attempt);
    let input = log.state().and_then(|state| task_input(&state, &task).ok());
    Ok(input.map(|input| Payload::json(input.to_string())))
}

/// An execution whose log is read.
#[derive(Clone, Copy)]
struct Asked<'p> {
    engine: &'p Engine,
    line: &'p Line,
    call: &'p Call,
    verb: Verb,
    id: &'p Arc<str>,
}

impl Asked<'_> {
    /// Reads everything that happened to an execution, branch after branch.
    async fn every_branch(self, mut each: impl FnMut(&EventRecord)) -> Result<()> {
        let mut after = (0, 0);
        loop {
            let page = self
                .engine
                .chronicle(Arc::clone(self.id), after, EVENTS_PER_READ);
            let page = self.line.carry(self.call, self.verb, page).await?;
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
    async fn present_branch(self, mut each: impl FnMut(&EventRecord)) -> Result<()> {
        let mut after = 0;
        loop {
            let page = self
                .engine
                .history(Arc::clone(self.id), after, EVENTS_PER_READ);
            let page = self.line.carry(self.call, self.verb, page).await?;
            page.iter().for_each(&mut each);
            match page.last() {
                Some(last) if page.len() == EVENTS_PER_READ => after = last.event.sequence,
                _ => return Ok(()),
            }
        }
    }
}
