//! What a row of a list, or a description with its history, shows of an execution. Pure.

use jiff::Timestamp;
use stateway_model::{CancelInfo, ExecutionId, Labels, PauseInfo, RetryBasis, Wait, WaitKind};
use stateway_provider_api::{
    NativeState, Observation, ObservedDefinition, Result, RetryEvidence, RetryPhase,
    StepObservation, Verb, Version,
};

use crate::api::enums::v1::WorkflowExecutionStatus;
use crate::api::workflow::v1::pending_activity_info::pause_info::PausedBy;
use crate::api::workflow::v1::{WorkflowExecutionExtendedInfo, WorkflowExecutionInfo};
use crate::api::workflowservice::v1::DescribeWorkflowExecutionResponse;
use crate::error::malformed;
use crate::facts::{Begin, Facts, Initiator};
use crate::id::{WorkflowRef, run_name};
use crate::payload;
use crate::qualifier::{ATTEMPT, CANCEL, FIRST_TASK, NEXT_RUN, PAUSE_CAUSE, PENDING};
use crate::steps;
use crate::task_queue::Queues;
use crate::time::timestamp;

/// The word for an open run that is not paused.
pub(crate) const RUNNING: &str = "RUNNING";

/// The engine's word: the name of the status, or its number if this adapter does not know it.
fn status_word(status: i32) -> String {
    match WorkflowExecutionStatus::try_from(status) {
        Ok(status) => status
            .as_str_name()
            .trim_start_matches("WORKFLOW_EXECUTION_STATUS_")
            .to_owned(),
        Err(_) => status.to_string(),
    }
}

/// Whether a run has ended. A paused one is open; so is one in a status that this adapter does not
/// know.
pub(crate) fn is_closed(info: &WorkflowExecutionInfo) -> bool {
    use WorkflowExecutionStatus::{Paused, Running, Unspecified};
    let status = WorkflowExecutionStatus::try_from(info.status);
    !matches!(status, Ok(Running | Paused | Unspecified) | Err(_))
}

/// The id of a run.
pub(crate) fn run_id(info: &WorkflowExecutionInfo) -> &str {
    info.execution.as_ref().map_or("", |it| &it.run_id)
}

/// The workflow id of a run.
pub(crate) fn workflow_id(info: &WorkflowExecutionInfo) -> &str {
    info.execution.as_ref().map_or("", |it| &it.workflow_id)
}

/// What a list shows of an execution. An open one is shown as unread: what is pending in it is only in
/// its description. How a closed one ended is in its history, so this is a part of what is known.
pub(crate) fn row(verb: Verb, info: &WorkflowExecutionInfo) -> Result<Observation> {
    let of = WorkflowRef {
        workflow_id: workflow_id(info).to_owned(),
        run_id: None,
    };
    let mut seen = basics(verb, info, &of)?;
    seen.is_partial = true;
    if is_closed(info) {
        seen.version = version(info);
    } else if seen.native.state == RUNNING {
        seen.native = seen.native.with(PENDING, "unread");
    }
    Ok(seen)
}

/// What is shown of an execution of which only the status is known.
pub(crate) fn of_status(status: i32) -> Option<Observation> {
    let name = ExecutionId::new("any").ok()?;
    let native = NativeState::new(status_word(status));
    let native = if native.state == RUNNING {
        native.with(PENDING, "unread")
    } else {
        native
    };
    Some(Observation::new(name, native))
}

fn basics(verb: Verb, info: &WorkflowExecutionInfo, of: &WorkflowRef) -> Result<Observation> {
    let name = ExecutionId::new(of.name()).map_err(|why| malformed(verb, why))?;
    let mut seen = Observation::new(name, NativeState::new(status_word(info.status)));
    let kind = info.r#type.as_ref();
    seen.definition = kind.map(|kind| ObservedDefinition::Native(kind.name.clone()));
    seen.create_time = timestamp(info.start_time.as_ref());
    seen.start_time = timestamp(info.execution_time.as_ref()).or(seen.create_time);
    seen.end_time = timestamp(info.close_time.as_ref());
    seen.labels = labels(info);
    Ok(seen)
}

/// Runs of one execution are ordered by their start, changes of one run by the server's count.
fn version(info: &WorkflowExecutionInfo) -> Option<Version> {
    let start = timestamp(info.start_time.as_ref())?;
    let start = u64::try_from(start.as_microsecond()).ok()?;
    let transitions = u64::try_from(info.state_transition_count).ok()?;
    Some(Version::of_parts([start, transitions, 0]))
}

/// The memo and the search attributes that are not the server's own.
fn labels(info: &WorkflowExecutionInfo) -> Labels {
    let attributes = info
        .search_attributes
        .iter()
        .flat_map(|it| &it.indexed_fields);
    let own = attributes.filter(|(name, _)| !name.starts_with("Temporal") && *name != "BuildIds");
    let memo = info.memo.iter().flat_map(|memo| &memo.fields);
    own.chain(memo)
        .map(|(name, value)| (name.clone(), payload::text(value)))
        .collect()
}

/// What a description and the history of the same run show.
pub(crate) fn observation(
    verb: Verb,
    of: &WorkflowRef,
    described: &DescribeWorkflowExecutionResponse,
    facts: &Facts,
    queues: &Queues,
) -> Result<Observation> {
    let info = described.workflow_execution_info.as_ref();
    let info = info.ok_or_else(|| malformed(verb, "a description without an execution"))?;
    let extended = described.workflow_extended_info.clone().unwrap_or_default();
    let mut seen = basics(verb, info, of)?;
    seen.version = version(info);
    seen.create_time = timestamp(extended.original_start_time.as_ref()).or(seen.create_time);
    let cancel = facts.cancel.as_ref().map(|(_, cancel)| cancel.clone());
    // The description still knows a request whose event is before the window.
    let requested = || extended.cancel_requested.then(CancelInfo::default);
    seen.cancellation = cancel.or_else(requested);
    seen.notes = notes(info, facts);
    if is_closed(info) {
        closed(&mut seen, &extended, facts);
    } else {
        open(&mut seen, described, &extended, facts, queues);
    }
    if let Some(begin) = &facts.begin {
        seen.retry = seen.retry.take().or_else(|| attempts(begin));
    }
    Ok(seen)
}

fn closed(seen: &mut Observation, extended: &WorkflowExecutionExtendedInfo, facts: &Facts) {
    // A closed run keeps stale pending entries in its description; only the history counts.
    seen.steps = steps::closed_run(facts);
    if let Some(end) = &facts.end {
        seen.last_error.clone_from(&end.error);
        if end.next_run.is_some() {
            let why = if end.is_retried { "retry" } else { "cron" };
            let native = std::mem::take(&mut seen.native);
            seen.native = native.with(NEXT_RUN, why);
        }
    }
    if !extended.reset_run_id.is_empty() {
        let native = std::mem::take(&mut seen.native);
        seen.native = native.with(NEXT_RUN, "reset");
        seen.notes
            .push(format!("reset; run {} continues", extended.reset_run_id));
    }
}

fn open(
    seen: &mut Observation,
    described: &DescribeWorkflowExecutionResponse,
    extended: &WorkflowExecutionExtendedInfo,
    facts: &Facts,
    queues: &Queues,
) {
    seen.steps = steps::open_run(described, facts, queues);
    seen.pause = pause(described, extended);
    seen.last_error = last_error(&seen.steps);
    for name in facts.open_updates() {
        let update = name.map_or_else(|| "an update".to_owned(), |name| format!("update `{name}`"));
        let note = format!("{update} was accepted and has not answered");
        seen.notes.push(note);
    }
    if seen.native.state != RUNNING {
        return;
    }
    let mut native = std::mem::take(&mut seen.native);
    if extended.cancel_requested {
        native = native.with(CANCEL, "requested");
    }
    let is_idle = described.pending_activities.is_empty()
        && described.pending_children.is_empty()
        && described.pending_workflow_task.is_none();
    if is_idle {
        native = native.with(PENDING, "nothing");
        let later = first_task(described, facts);
        native = native.with(FIRST_TASK, later.map_or("begun", |(why, _)| why));
        if let Some((why, until)) = later {
            seen.start_time = None;
            if why == "retry" {
                seen.retry = facts.begin.as_ref().map(|begin| between_runs(begin, until));
                seen.last_error = seen
                    .retry
                    .as_ref()
                    .and_then(|retry| retry.last_error.clone());
            } else {
                seen.waits = vec![Wait {
                    since: seen.create_time,
                    deadline: Some(until),
                    ..Wait::new(WaitKind::Timer, why)
                }];
            }
        }
    } else {
        native = native.with(PENDING, "some");
    }
    seen.native = native;
}

/// Why the first workflow task is not scheduled yet, and when it will be. The history decides: signals and other
/// requests of clients can come before that task.
pub(crate) fn first_task(
    described: &DescribeWorkflowExecutionResponse,
    facts: &Facts,
) -> Option<(&'static str, Timestamp)> {
    let info = described.workflow_execution_info.as_ref()?;
    let until = timestamp(info.execution_time.as_ref())?;
    let begins_later = Some(until) > timestamp(info.start_time.as_ref());
    if facts.begun.is_some() || !begins_later {
        return None;
    }
    let why = match facts.begin.as_ref().map(|begin| begin.initiator) {
        Some(Initiator::Retry) => "retry",
        Some(Initiator::Cron) => "cron",
        Some(Initiator::Workflow) | None => "delay",
    };
    Some((why, until))
}

/// The workflow's own attempts, where it has a retry policy.
fn attempts(begin: &Begin) -> Option<RetryEvidence> {
    let max_attempts = begin.max_attempts?;
    Some(RetryEvidence {
        max_attempts: Some(max_attempts),
        last_error: begin.error.clone(),
        ..RetryEvidence::reported(begin.attempt)
    })
}

/// The run before this one failed, and this one begins later.
fn between_runs(begin: &Begin, until: Timestamp) -> RetryEvidence {
    let failed = begin.attempt.saturating_sub(1).max(1);
    let last_error = begin
        .error
        .clone()
        .map(|error| stateway_model::ExecutionError {
            attempt: failed,
            ..error
        });
    RetryEvidence {
        attempt: failed,
        max_attempts: begin.max_attempts,
        phase: RetryPhase::BetweenAttempts,
        next_attempt_time: Some(until),
        delay: begin.backoff,
        jitter: None,
        last_error,
        basis: RetryBasis::Reported,
    }
}

/// The failure to act on: of the step in the worst trouble, of several the newest. A step that runs again still
/// has the failure of its attempt before.
fn last_error(steps: &[StepObservation]) -> Option<stateway_model::ExecutionError> {
    let open = steps.iter().filter(|step| step.end_time.is_none());
    let failing = open.filter(|step| step.last_error.is_some());
    failing.max_by_key(|step| trouble(step))?.last_error.clone()
}

/// How badly a step with an error is off: stuck, between two attempts, or under way again.
fn trouble(step: &StepObservation) -> u8 {
    let qualifiers = &step.native.qualifiers;
    let is = |name: &str, value: &str| qualifiers.get(name).is_some_and(|it| it == value);
    let phase = step.retry.as_ref().map(|retry| retry.phase);
    if is(ATTEMPT.as_str(), "repeated") || is(PAUSE_CAUSE.as_str(), "failures") {
        2
    } else if phase == Some(RetryPhase::BetweenAttempts) {
        1
    } else {
        0
    }
}

fn pause(
    described: &DescribeWorkflowExecutionResponse,
    extended: &WorkflowExecutionExtendedInfo,
) -> Option<PauseInfo> {
    if let Some(pause) = &extended.pause_info {
        return Some(PauseInfo {
            by: pause.identity.clone(),
            comment: pause.reason.clone(),
            ..PauseInfo::default()
        });
    }
    described.pending_activities.iter().find_map(|pending| {
        let (by, comment) = match pending.pause_info.as_ref()?.paused_by.as_ref()? {
            PausedBy::Manual(by) => (&by.identity, &by.reason),
            PausedBy::Rule(rule) => (&rule.identity, &rule.reason),
        };
        let kind = pending.activity_type.as_ref().map_or("", |kind| &kind.name);
        Some(PauseInfo {
            by: by.clone(),
            comment: comment.clone(),
            step: steps::activity_name(&pending.activity_id, kind),
            ..PauseInfo::default()
        })
    })
}

/// Where the run belongs, and how to read the runs before it.
fn notes(info: &WorkflowExecutionInfo, facts: &Facts) -> Vec<String> {
    let workflow = workflow_id(info);
    let mut notes = vec![format!("run {}", run_id(info))];
    if !info.task_queue.is_empty() {
        notes.push(format!("task queue {}", info.task_queue));
    }
    let begin = facts.begin.as_ref();
    if let Some(previous) = begin.and_then(|begin| begin.previous_run.as_ref()) {
        notes.push(format!("continues run {}", run_name(workflow, previous)));
    }
    if let Some(reset) = &facts.reset {
        let base = run_name(workflow, &reset.base_run);
        notes.push(format!("reset from run {base}: {}", reset.why));
    }
    if let Some(parent) = &info.parent_execution {
        notes.push(format!("child of {}", parent.workflow_id));
    }
    notes
}
