//! One approval or escalation, read from the log of its execution.

use std::sync::Arc;

use stateway_machine::{Event, Task, replay, task_input};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::{Approval, Call, Escalation, InboxId, Result, StepAttempt, Verb};
use stateway_replay::{AttemptRecord, Attempts, BranchStart};

use super::super::log::{StoredLog, damaged};
use super::super::{HostPort, HostedProvider};
use crate::inbox::{self, Case, CaseId, Docket, Kind, step_attempt};

/// The approvals and escalations of a log, in the order they were opened.
pub(super) fn cases(log: &StoredLog, verb: Verb) -> Result<Vec<Case>> {
    let mut docket = Docket::default();
    for (branch, event) in log.events(verb)? {
        docket.add(branch, &event);
    }
    Ok(docket.cases())
}

impl<P: HostPort> HostedProvider<P> {
    /// One approval with everything that is needed to decide.
    pub(super) async fn approval(&self, call: &Call, verb: Verb, id: &InboxId) -> Result<Approval> {
        let case_id = CaseId::parse(Kind::Approval, verb, &id.id)?;
        let log = self.log(call, verb, &id.execution).await?;
        let case = find(&log, verb, Kind::Approval, (&case_id, &id.id))?;
        let mut approval = inbox::approval(&id.execution, &log.seen.view, &case);
        approval.input = self.input(call, verb, &id.execution, &case).await?;
        Ok(approval)
    }

    /// One escalation with everything that is needed to decide.
    pub(super) async fn escalation(
        &self,
        call: &Call,
        verb: Verb,
        id: &InboxId,
    ) -> Result<Escalation> {
        let case_id = CaseId::parse(Kind::Escalation, verb, &id.id)?;
        let log = self.log(call, verb, &id.execution).await?;
        let case = find(&log, verb, Kind::Escalation, (&case_id, &id.id))?;
        let view = &log.seen.view;
        let mut escalation = inbox::escalation(&id.execution, view, &case, &self.escalation_roles);
        inbox::details(&mut escalation, &case, history(&log, verb, &case)?);
        Ok(escalation)
    }

    /// The input of the step when the approval was asked for.
    async fn input(
        &self,
        call: &Call,
        verb: Verb,
        id: &ExecutionId,
        case: &Case,
    ) -> Result<Option<Payload>> {
        let recording = self.recording(call, verb, id).await?;
        let unreadable = |error: &dyn std::fmt::Display| damaged(verb, &error.to_string());
        let mut events: Vec<Event> = recording
            .log(Some(case.branch))
            .map_err(|error| unreadable(&error))?;
        let plan = recording
            .plan(&events)
            .map_err(|error| unreadable(&error))?;
        events.retain(|event| event.sequence <= case.sequence);
        let state = replay(plan, &events).map_err(|error| unreadable(&error))?;
        let task = Task::of(Arc::clone(&case.step), case.attempt);
        let input = task_input(&state, &task).ok();
        Ok(input.map(|input| Payload::json(input.to_string())))
    }
}

fn find(log: &StoredLog, verb: Verb, kind: Kind, (id, text): (&CaseId, &str)) -> Result<Case> {
    let named = |case: &Case| case.id() == *id && case.kind() == kind;
    let found = cases(log, verb)?.into_iter().find(named);
    found.ok_or_else(|| kind.not_found(verb, text))
}

/// Every attempt to run the step until it was escalated.
fn history(log: &StoredLog, verb: Verb, case: &Case) -> Result<Vec<StepAttempt>> {
    let branches = log.branches().iter().map(|grown| BranchStart {
        branch: grown.branch,
        parent: grown.parent,
        cutoff: grown.cutoff,
    });
    let execution = Arc::clone(&log.seen.view.id);
    let mut attempts = Attempts::of(execution, Arc::clone(&case.step), branches.collect());
    for (branch, event) in log.events(verb)? {
        attempts.take(branch, &event);
    }
    let until = |attempt: &AttemptRecord| {
        let begun = attempt.started.is_none_or(|at| at <= case.opened);
        !attempt.compensation && begun
    };
    let (attempts, _) = attempts.into_records();
    let attempts = attempts.into_iter().filter(until);
    Ok(attempts.map(step_attempt).collect())
}
