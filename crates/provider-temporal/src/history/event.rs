//! One event for people who read histories. Pure.

use stateway_model::{AttemptPhase, Event, EventDetail};
use stateway_provider_api::View;

use crate::api::common::v1::Payloads;
use crate::api::enums::v1::EventType;
use crate::api::failure::v1::Failure;
use crate::api::history::v1::HistoryEvent;
use crate::api::history::v1::history_event::Attributes;
use crate::facts::Facts;
use crate::steps::{WORKFLOW_TASK, activity_name};
use crate::time::timestamp;
use crate::{failure, payload};

/// The run that the oldest shown run continues.
pub(super) struct Before {
    pub(super) name: String,
    pub(super) is_gone: bool,
}

/// What is shown of an event of a run that begins after this many others.
pub(super) fn shown(
    event: &HistoryEvent,
    offset: i64,
    view: View,
    run: &Facts,
    before: Option<&Before>,
) -> Event {
    let mut facts = facts(event.attributes.as_ref());
    if let Some(before) = before.filter(|_| event.event_id == 1) {
        let name = &before.name;
        facts.summary += &if before.is_gone {
            format!("; continues {name}, which the server has deleted with the runs before it")
        } else {
            format!("; continues {name}, which the server does not list")
        };
    }
    // The events of an activity name only the event that scheduled it.
    if let (Some(activity), true) = (run.activities.get(&facts.cause), facts.step.is_empty()) {
        facts.step = activity_name(&activity.id, &activity.kind);
        if facts.phase.is_some() {
            facts.attempt = i32::try_from(activity.attempt).unwrap_or_default();
        }
    }
    let number = u64::try_from(event.event_id + offset).unwrap_or_default();
    let caused_by = match facts.cause {
        0 => 0,
        cause => u64::try_from(cause + offset).unwrap_or_default(),
    };
    let detail = (view == View::Full).then(|| {
        Box::new(EventDetail {
            payload: facts
                .payload
                .and_then(|payloads| payload::shown(Some(payloads))),
            payload_truncated: false,
            correlation_id: String::new(),
            request_id: facts.request_id.to_owned(),
            cause_sequence: caused_by,
            actor: facts.actor.to_owned(),
        })
    });
    Event {
        sequence: number,
        time: timestamp(event.event_time.as_ref()),
        native_type: word(event.event_type),
        step: facts.step,
        attempt: u32::try_from(facts.attempt).unwrap_or_default(),
        summary: facts.summary,
        phase: facts.phase,
        detail,
    }
}

/// The engine's word: the name of the type, or its number if this adapter does not know it.
fn word(kind: i32) -> String {
    match EventType::try_from(kind) {
        Ok(kind) => kind
            .as_str_name()
            .trim_start_matches("EVENT_TYPE_")
            .to_owned(),
        Err(_) => kind.to_string(),
    }
}

#[derive(Default)]
struct EventFacts<'e> {
    step: String,
    attempt: i32,
    summary: String,
    phase: Option<AttemptPhase>,
    payload: Option<&'e Payloads>,
    request_id: &'e str,
    actor: &'e str,
    cause: i64,
}

fn facts(attributes: Option<&Attributes>) -> EventFacts<'_> {
    let Some(attributes) = attributes else {
        return EventFacts::default();
    };
    match attributes {
        Attributes::WorkflowExecutionStartedEventAttributes(it) => EventFacts {
            summary: it.workflow_type.clone().unwrap_or_default().name,
            attempt: it.attempt,
            payload: it.input.as_ref(),
            actor: &it.identity,
            ..Default::default()
        },
        Attributes::WorkflowExecutionCompletedEventAttributes(it) => EventFacts {
            payload: it.result.as_ref(),
            cause: it.workflow_task_completed_event_id,
            ..Default::default()
        },
        Attributes::WorkflowExecutionFailedEventAttributes(it) => EventFacts {
            summary: message(it.failure.as_ref()),
            cause: it.workflow_task_completed_event_id,
            ..Default::default()
        },
        Attributes::WorkflowExecutionTerminatedEventAttributes(it) => EventFacts {
            summary: it.reason.clone(),
            actor: &it.identity,
            ..Default::default()
        },
        Attributes::WorkflowExecutionCancelRequestedEventAttributes(it) => EventFacts {
            summary: it.cause.clone(),
            actor: &it.identity,
            ..Default::default()
        },
        Attributes::WorkflowExecutionSignaledEventAttributes(it) => EventFacts {
            summary: it.signal_name.clone(),
            payload: it.input.as_ref(),
            request_id: &it.request_id,
            actor: &it.identity,
            ..Default::default()
        },
        Attributes::WorkflowExecutionPausedEventAttributes(it) => EventFacts {
            summary: it.reason.clone(),
            request_id: &it.request_id,
            actor: &it.identity,
            ..Default::default()
        },
        Attributes::WorkflowExecutionUnpausedEventAttributes(it) => EventFacts {
            summary: it.reason.clone(),
            request_id: &it.request_id,
            actor: &it.identity,
            ..Default::default()
        },
        Attributes::WorkflowTaskStartedEventAttributes(it) => EventFacts {
            step: WORKFLOW_TASK.to_owned(),
            actor: &it.identity,
            cause: it.scheduled_event_id,
            ..Default::default()
        },
        Attributes::WorkflowTaskFailedEventAttributes(it) => EventFacts {
            step: WORKFLOW_TASK.to_owned(),
            summary: message(it.failure.as_ref()),
            actor: &it.identity,
            cause: it.scheduled_event_id,
            ..Default::default()
        },
        Attributes::WorkflowTaskTimedOutEventAttributes(it) => EventFacts {
            step: WORKFLOW_TASK.to_owned(),
            summary: failure::timeout_word(it.timeout_type),
            cause: it.scheduled_event_id,
            ..Default::default()
        },
        other => of_steps(other),
    }
}

fn of_steps(attributes: &Attributes) -> EventFacts<'_> {
    match attributes {
        Attributes::ActivityTaskScheduledEventAttributes(it) => EventFacts {
            step: activity_name(
                &it.activity_id,
                it.activity_type.as_ref().map_or("", |kind| &kind.name),
            ),
            summary: it.activity_type.clone().unwrap_or_default().name,
            payload: it.input.as_ref(),
            cause: it.workflow_task_completed_event_id,
            ..Default::default()
        },
        Attributes::ActivityTaskStartedEventAttributes(it) => EventFacts {
            attempt: it.attempt,
            summary: message(it.last_failure.as_ref()),
            actor: &it.identity,
            cause: it.scheduled_event_id,
            phase: Some(AttemptPhase::Started),
            ..Default::default()
        },
        Attributes::ActivityTaskCompletedEventAttributes(it) => EventFacts {
            payload: it.result.as_ref(),
            actor: &it.identity,
            cause: it.scheduled_event_id,
            phase: Some(AttemptPhase::Succeeded),
            ..Default::default()
        },
        Attributes::ActivityTaskFailedEventAttributes(it) => EventFacts {
            summary: message(it.failure.as_ref()),
            actor: &it.identity,
            cause: it.scheduled_event_id,
            phase: Some(AttemptPhase::Failed),
            ..Default::default()
        },
        Attributes::ActivityTaskTimedOutEventAttributes(it) => EventFacts {
            summary: message(it.failure.as_ref()),
            cause: it.scheduled_event_id,
            phase: Some(AttemptPhase::Failed),
            ..Default::default()
        },
        Attributes::ActivityTaskCanceledEventAttributes(it) => EventFacts {
            actor: &it.identity,
            cause: it.scheduled_event_id,
            ..Default::default()
        },
        Attributes::TimerStartedEventAttributes(it) => EventFacts {
            step: format!("timer:{}", it.timer_id),
            cause: it.workflow_task_completed_event_id,
            ..Default::default()
        },
        Attributes::TimerFiredEventAttributes(it) => EventFacts {
            step: format!("timer:{}", it.timer_id),
            cause: it.started_event_id,
            ..Default::default()
        },
        Attributes::TimerCanceledEventAttributes(it) => EventFacts {
            step: format!("timer:{}", it.timer_id),
            cause: it.started_event_id,
            ..Default::default()
        },
        Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(it) => EventFacts {
            step: format!("child:{}", it.workflow_id),
            summary: it.workflow_type.clone().unwrap_or_default().name,
            payload: it.input.as_ref(),
            cause: it.workflow_task_completed_event_id,
            ..Default::default()
        },
        Attributes::ChildWorkflowExecutionCompletedEventAttributes(it) => EventFacts {
            step: child(it.workflow_execution.as_ref()),
            payload: it.result.as_ref(),
            cause: it.initiated_event_id,
            ..Default::default()
        },
        Attributes::ChildWorkflowExecutionFailedEventAttributes(it) => EventFacts {
            step: child(it.workflow_execution.as_ref()),
            summary: message(it.failure.as_ref()),
            cause: it.initiated_event_id,
            ..Default::default()
        },
        Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(it) => EventFacts {
            request_id: &it.protocol_instance_id,
            ..update(it.accepted_request.as_ref())
        },
        Attributes::WorkflowExecutionUpdateAdmittedEventAttributes(it) => {
            update(it.request.as_ref())
        }
        Attributes::WorkflowExecutionUpdateCompletedEventAttributes(it) => EventFacts {
            request_id: it.meta.as_ref().map_or("", |meta| &meta.update_id),
            cause: it.accepted_event_id,
            payload: answer(it.outcome.as_ref()),
            ..Default::default()
        },
        Attributes::MarkerRecordedEventAttributes(it) => EventFacts {
            summary: match it.failure.as_ref() {
                Some(failed) => format!("{}: {}", it.marker_name, message(Some(failed))),
                None => it.marker_name.clone(),
            },
            cause: it.workflow_task_completed_event_id,
            ..Default::default()
        },
        _ => EventFacts::default(),
    }
}

fn update(request: Option<&crate::api::update::v1::Request>) -> EventFacts<'_> {
    let meta = request.and_then(|request| request.meta.as_ref());
    let input = request.and_then(|request| request.input.as_ref());
    EventFacts {
        summary: input.map(|input| input.name.clone()).unwrap_or_default(),
        payload: input.and_then(|input| input.args.as_ref()),
        request_id: meta.map_or("", |meta| &meta.update_id),
        ..Default::default()
    }
}

fn answer(outcome: Option<&crate::api::update::v1::Outcome>) -> Option<&Payloads> {
    match outcome?.value.as_ref()? {
        crate::api::update::v1::outcome::Value::Success(payloads) => Some(payloads),
        crate::api::update::v1::outcome::Value::Failure(_) => None,
    }
}

fn child(execution: Option<&crate::api::common::v1::WorkflowExecution>) -> String {
    execution.map_or_else(String::new, |it| format!("child:{}", it.workflow_id))
}

fn message(failure: Option<&Failure>) -> String {
    failure
        .map(|failure| failure::error(failure).message)
        .unwrap_or_default()
}
