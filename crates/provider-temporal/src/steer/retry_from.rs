//! `retry_from`: a reset to the workflow task that led to a step.

use stateway_provider_api::{Error, Observation, Result, RetryFromRequest, Verb, View};

use crate::TemporalProvider;
use crate::api::workflowservice::v1::ResetWorkflowExecutionRequest;
use crate::client::{Ask, Client};
use crate::facts::Facts;
use crate::id::WorkflowRef;
use crate::reader::{info, not_found};
use crate::response::run_id;
use crate::steps::activity_name;

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
    // The server compares request ids only after it has checked the event, which is one of the run before.
    let reason = reason(request);
    if facts
        .reset
        .as_ref()
        .is_some_and(|reset| reset.why == reason)
    {
        return reader.get(ask, of, View::Basic).await;
    }
    let point = if request.from_start {
        reader.first_task(ask, &of.run(run_id(current))).await?
    } else {
        reset_point(&facts, &request.step)
    };
    let point = point.ok_or_else(|| match request.step.as_str() {
        "" => Error::precondition(Verb::RetryFrom, "the workflow has not begun to run"),
        step => Error::no_step(Verb::RetryFrom, step),
    })?;
    let message = ResetWorkflowExecutionRequest {
        namespace: reader.client.namespace(),
        workflow_execution: Client::execution(&of.run(run_id(current))),
        reason,
        workflow_task_finish_event_id: point,
        request_id: request.request_id.as_str().to_owned(),
        identity: reader.client.identity(ask.call),
    };
    let sent = reader.client.reset_workflow_execution(ask, message).await;
    sent.map_err(|error| not_found(error, ask.verb, of))?;
    let whole = WorkflowRef {
        run_id: None,
        ..of.clone()
    };
    provider.nudge(&whole);
    reader.get(ask, &whole, View::Basic).await
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

/// The workflow task to reset to: the one that scheduled the step, or the newest step that failed, or the
/// newest workflow task.
fn reset_point(facts: &Facts, step: &str) -> Option<i64> {
    if step.is_empty() {
        return failed_step(facts).or(facts.last_task);
    }
    let activities = facts.activities.values().rev();
    let mut activities =
        activities.filter(|it| it.id == step || activity_name(&it.id, &it.kind) == step);
    let children = facts.children.values().rev();
    let mut children = children.filter(|it| format!("child:{}", it.workflow_id) == step);
    let activity = activities.next().map(|it| it.task);
    activity.or_else(|| children.next().map(|it| it.task))
}

/// The workflow task that scheduled the newest step that failed. A reset to the task after the failure
/// would only fail again.
fn failed_step(facts: &Facts) -> Option<i64> {
    let failed = facts.activities.iter().filter_map(|(event, it)| {
        let ended = it.ended.as_ref().filter(|ended| ended.error.is_some());
        ended.map(|_| (*event, it.task))
    });
    let children = facts.children.iter().filter_map(|(event, it)| {
        let ended = it.ended.as_ref();
        let ended = ended.filter(|ended| !matches!(ended.word, "COMPLETED" | "CANCELED"));
        ended.map(|_| (*event, it.task))
    });
    facts.end.as_ref()?.error.as_ref()?;
    failed.chain(children).max().map(|(_, task)| task)
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
                error: is_failed.then(|| ExecutionError::message("no")),
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
}
