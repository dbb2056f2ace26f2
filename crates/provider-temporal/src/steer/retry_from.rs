//! `retry_from`: a reset to the workflow task that led to a step, or to the one of an event.

use stateway_provider_api::{Error, ErrorKind, Observation, Result, RetryFromRequest, Verb};

use crate::TemporalProvider;
use crate::api::workflowservice::v1::ResetWorkflowExecutionRequest;
use crate::client::{Ask, Client};
use crate::facts::Facts;
use crate::history::{ResetPoint, event_number};
use crate::id::WorkflowRef;
use crate::reader::{MOST_RUNS, Reader, info, not_found};
use crate::response::run_id;
use crate::steps::{activity_name, child_name};

/// Runs an execution again from a step on, as a new run of the same workflow.
pub(crate) async fn retry_from(
    provider: &TemporalProvider,
    ask: Ask<'_>,
    of: &WorkflowRef,
    request: &RetryFromRequest,
) -> Result<Observation> {
    let plain = RetryFromRequest {
        from_start: false,
        ..request.clone()
    };
    plain.ensure_plain()?;
    let reader = &provider.reader;
    let described = reader.describe(ask, of).await?;
    let current = info(ask.verb, &described)?;
    let facts = reader.facts(ask, of, current).await?;
    let whole = WorkflowRef {
        run_id: None,
        ..of.clone()
    };
    // The server compares request ids only after it has checked the event, which is one of the run before.
    let reason = reason(request);
    if reader.was_reset(ask, &whole, &reason).await? {
        return reader.get_after_write(ask, &whole).await;
    }
    let run = of.run(run_id(current));
    let event = if request.from_start {
        reader.first_task(ask, &run).await?
    } else {
        reset_point(&facts, &request.step)
    };
    let point = match (event, event_number(&request.step)) {
        (Some(event), _) => ResetPoint { run, event },
        (None, Some(number)) => reader.point_of_event(ask, of, number?).await?,
        (None, None) => {
            let seen = reader.observed(ask, of, &described).await?;
            return Err(no_point(request, &seen));
        }
    };
    let message = ResetWorkflowExecutionRequest {
        namespace: reader.client.namespace(),
        workflow_execution: Client::execution(&point.run),
        reason,
        workflow_task_finish_event_id: point.event,
        request_id: request.request_id.as_str().to_owned(),
        identity: reader.client.identity(ask.call),
    };
    let sent = reader.client.reset_workflow_execution(ask, message).await;
    sent.map_err(|error| not_found(error, ask.verb, of))?;
    provider.nudge(&whole);
    reader.get_after_write(ask, &whole).await
}

impl Reader {
    /// Whether a reset for this reason made the current run or one of those before it.
    async fn was_reset(&self, ask: Ask<'_>, of: &WorkflowRef, reason: &str) -> Result<bool> {
        let described = self.describe(ask, of).await?;
        let mut facts = self.facts(ask, of, info(ask.verb, &described)?).await?;
        for _ in 0..=MOST_RUNS {
            let reset = facts.reset.as_ref();
            if reset.is_some_and(|reset| reset.why == reason) {
                return Ok(true);
            }
            let begin = facts.begin.as_ref();
            let previous = begin.and_then(|begin| begin.previous_run.clone());
            let before = reset.map(|reset| reset.base_run.clone()).or(previous);
            let Some(before) = before else {
                return Ok(false);
            };
            facts = match self.facts_of_ended(ask, &of.run(&before)).await {
                Ok(facts) => facts,
                // The server has forgotten the run, and those before it.
                Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            };
        }
        Ok(false)
    }
}

/// Why there is no point to reset to.
fn no_point(request: &RetryFromRequest, seen: &Observation) -> Error {
    let step = request.step.as_str();
    if request.from_start || step.is_empty() {
        let message = "the workflow has not begun to run";
        return Error::precondition(Verb::RetryFrom, message).with_reason("NOT_BEGUN");
    }
    if seen.steps.iter().any(|it| it.name == step) {
        let message = format!("step `{step}` is neither an activity nor a child");
        let hint = "Name an activity, a child or an event (`event:N`), or retry from the start.";
        return Error::precondition(Verb::RetryFrom, message).with_hint(hint);
    }
    Error::no_step(Verb::RetryFrom, step)
}

/// The reason that the new run records. It names the request, so that a repeated one is recognised.
fn reason(request: &RetryFromRequest) -> String {
    let id = request.request_id.as_str();
    match request.step.as_str() {
        _ if request.from_start => format!("retry from the start (request {id})"),
        "" => format!("retry from the failure (request {id})"),
        step => format!("retry from step {step} (request {id})"),
    }
}

/// The workflow task to reset to: the one that scheduled the step, or the step that the workflow failed by, or
/// the newest workflow task.
fn reset_point(facts: &Facts, step: &str) -> Option<i64> {
    if step.is_empty() {
        return failed_step(facts).or(facts.last_task);
    }
    // Of several steps of one name all but the newest are shown with a number.
    let (name, use_of_name) = match step.rsplit_once('~') {
        Some((name, number)) => (name, number.parse().unwrap_or(0)),
        None => (step, 0),
    };
    let task = |name: &str, skipped: usize| tasks(facts, name).into_iter().nth(skipped);
    let numbered = usize::checked_sub(use_of_name, 1).and_then(|skipped| task(name, skipped));
    task(step, 0).or(numbered)
}

/// The workflow tasks that scheduled activities and children of this name, the newest first.
fn tasks(facts: &Facts, name: &str) -> Vec<i64> {
    let activities = facts.activities.iter();
    let activities = activities
        .filter(|(_, it)| it.id == name || activity_name(&it.id, &it.kind) == name)
        .map(|(event, it)| (*event, it.task));
    let children = facts.children.iter();
    let children = children
        .filter(|(_, it)| child_name(&it.workflow_id) == name)
        .map(|(event, it)| (*event, it.task));
    let mut found: Vec<_> = activities.chain(children).collect();
    found.sort_unstable();
    found.into_iter().rev().map(|(_, task)| task).collect()
}

/// The workflow task that scheduled the step whose failure ended the workflow. A reset to the task after that
/// failure would only fail again. A failure that the workflow has handled did not end it.
fn failed_step(facts: &Facts) -> Option<i64> {
    let error = facts.end.as_ref()?.error.as_ref()?;
    if error.step.is_empty() {
        return None;
    }
    tasks(facts, &error.step).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Activity, End, Ended};
    use stateway_model::ExecutionError;

    fn activity(id: &str, task: i64, failed: bool) -> Activity {
        Activity {
            id: id.to_owned(),
            kind: "pay".to_owned(),
            task,
            started: None,
            attempt: 1,
            ended: Some(Ended {
                word: if failed { "FAILED" } else { "COMPLETED" },
                at: None,
                retry_state: None,
                error: failed.then(|| ExecutionError::message("no")),
            }),
        }
    }

    fn facts(is_failed: bool) -> Facts {
        Facts {
            activities: [
                (5, activity("first", 4, false)),
                (11, activity("second", 10, true)),
            ]
            .into(),
            last_task: Some(16),
            end: Some(End {
                error: is_failed.then(|| ExecutionError {
                    step: "second".to_owned(),
                    ..ExecutionError::message("no")
                }),
                ..End::default()
            }),
            ..Facts::default()
        }
    }

    #[test]
    fn a_failed_workflow_is_reset_to_the_task_that_scheduled_what_failed() {
        assert_eq!(reset_point(&facts(true), ""), Some(10));
        assert_eq!(reset_point(&facts(false), ""), Some(16));
        assert_eq!(reset_point(&facts(true), "first"), Some(4));
        assert_eq!(reset_point(&facts(true), "third"), None);
    }

    #[test]
    fn a_failure_that_the_workflow_handled_is_not_the_point_of_a_reset() {
        let mut facts = facts(true);
        let end = facts.end.as_mut().and_then(|end| end.error.as_mut());
        end.unwrap().step = String::new();
        assert_eq!(reset_point(&facts, ""), Some(16));
    }

    #[test]
    fn an_older_step_of_the_same_name_is_found_by_its_number() {
        let mut facts = facts(false);
        facts.activities.insert(17, activity("first", 16, false));
        assert_eq!(reset_point(&facts, "first"), Some(16));
        assert_eq!(reset_point(&facts, "first~2"), Some(4));
        assert_eq!(reset_point(&facts, "first~3"), None);
    }
}
