//! `event:N` of a retry-from: the workflow task that belongs to an event of a history, as the point of a reset. The
//! numbers are those that histories show, so they ascend over all runs of an execution.

use stateway_provider_api::{Error, ErrorKind, Result, Verb};

use crate::api::enums::v1::EventType;
use crate::api::history::v1::HistoryEvent;
use crate::client::Ask;
use crate::id::WorkflowRef;
use crate::reader::Reader;

/// The most events of a run that are searched from its end on.
const MOST_EVENTS: usize = 2_048;

/// What begins a step that names an event.
const PREFIX: &str = "event:";

/// The run and the event that the server resets to.
#[derive(Debug)]
pub(crate) struct ResetPoint {
    pub(crate) run: WorkflowRef,
    pub(crate) event: i64,
}

/// The number in `event:N`; none if the step does not name an event.
pub(crate) fn event_number(step: &str) -> Option<Result<i64>> {
    let number = step.strip_prefix(PREFIX)?;
    let parsed = number.parse().ok().filter(|number| *number > 0);
    Some(parsed.ok_or_else(|| {
        let message = format!("`{number}` is not the number of an event");
        Error::invalid(Verb::RetryFrom, message).with_hint(NUMBERS)
    }))
}

const NUMBERS: &str = "`event:N` takes a number of the history, for example `event:7`.";

impl Reader {
    /// The workflow task of an event of the history.
    pub(crate) async fn point_of_event(
        &self,
        ask: Ask<'_>,
        of: &WorkflowRef,
        number: i64,
    ) -> Result<ResetPoint> {
        let runs = self.chain(ask, of).await?.runs;
        let last = runs.last().map_or(0, |run| run.offset + run.length);
        let found = runs.iter().rfind(|run| run.offset < number);
        let Some(found) = found.filter(|_| number <= last) else {
            let message = format!("no event {number}: the history has the events 1 to {last}");
            let error = Error::new(ErrorKind::NotFound, ask.verb, message);
            return Err(error.with_reason("STEP_NOT_FOUND").with_hint(NUMBERS));
        };
        let run = of.run(&found.id);
        let chosen = number - found.offset;
        let events = self.newest_events(ask, &run, chosen, found.length).await?;
        if let Some(event) = task_of(&events, chosen) {
            return Ok(ResetPoint { run, event });
        }
        let has_task = |event: &&HistoryEvent| task_of(&events, event.event_id).is_some();
        let latest = events.iter().rfind(has_task);
        let message = match events.first() {
            Some(first) if first.event_id > chosen => format!(
                "event {number} is too old: of each run the newest {MOST_EVENTS} events are read"
            ),
            _ => format!("no workflow task follows event {number}"),
        };
        let hint = match latest.map(|event| event.event_id + found.offset) {
            Some(latest) if latest < number => format!("The latest event to choose is {latest}."),
            _ => "Name a step, or retry from the start.".to_owned(),
        };
        Err(Error::precondition(ask.verb, message).with_hint(hint))
    }

    /// The newest events of a run, ascending: at least from the workflow task before an event on, if that is among
    /// the events that are searched.
    async fn newest_events(
        &self,
        ask: Ask<'_>,
        run: &WorkflowRef,
        chosen: i64,
        last: i64,
    ) -> Result<Vec<HistoryEvent>> {
        let (mut events, mut token) = (Vec::new(), Vec::new());
        while events.len() < MOST_EVENTS {
            let page;
            (page, token) = self.newest_first(ask, run, token).await?;
            events.extend(page);
            let is_before = |event: &HistoryEvent| {
                event.event_id < chosen && event.event_type() == EventType::WorkflowTaskCompleted
            };
            if token.is_empty() || events.iter().any(is_before) {
                break;
            }
        }
        // The server may take back events that its description does not count yet.
        events.retain(|event| event.event_id <= last);
        events.reverse();
        Ok(events)
    }
}

/// The point of a reset to the workflow task of an event: the event that ended the task, or the one after its start.
/// It is the task that recorded the event, or the first one that could react to it.
fn task_of(events: &[HistoryEvent], chosen: i64) -> Option<i64> {
    let event = events.iter().find(|event| event.event_id == chosen)?;
    let kind = event.event_type();
    if is_end_of_task(kind) {
        return Some(chosen);
    }
    if is_decision(kind) {
        let task = events.iter().rfind(|event| {
            event.event_id < chosen && event.event_type() == EventType::WorkflowTaskCompleted
        });
        return task.map(|task| task.event_id);
    }
    let started = events.iter().find(|event| {
        event.event_id >= chosen && event.event_type() == EventType::WorkflowTaskStarted
    });
    started.map(|started| started.event_id + 1)
}

fn is_end_of_task(kind: EventType) -> bool {
    use EventType::{WorkflowTaskCompleted, WorkflowTaskFailed, WorkflowTaskTimedOut};
    matches!(
        kind,
        WorkflowTaskCompleted | WorkflowTaskFailed | WorkflowTaskTimedOut
    )
}

/// Whether a workflow task records events of this type when it completes. Others come from outside of the workflow.
fn is_decision(kind: EventType) -> bool {
    matches!(
        kind,
        EventType::ActivityTaskScheduled
            | EventType::ActivityTaskCancelRequested
            | EventType::TimerStarted
            | EventType::TimerCanceled
            | EventType::MarkerRecorded
            | EventType::StartChildWorkflowExecutionInitiated
            | EventType::RequestCancelExternalWorkflowExecutionInitiated
            | EventType::SignalExternalWorkflowExecutionInitiated
            | EventType::UpsertWorkflowSearchAttributes
            | EventType::WorkflowPropertiesModified
            | EventType::WorkflowExecutionUpdateAccepted
            | EventType::WorkflowExecutionUpdateRejected
            | EventType::WorkflowExecutionUpdateCompleted
            | EventType::NexusOperationScheduled
            | EventType::NexusOperationCancelRequested
            | EventType::WorkflowExecutionCompleted
            | EventType::WorkflowExecutionFailed
            | EventType::WorkflowExecutionCanceled
            | EventType::WorkflowExecutionContinuedAsNew
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(kinds: &[EventType]) -> Vec<HistoryEvent> {
        let events = (1..).zip(kinds).map(|(event_id, kind)| HistoryEvent {
            event_id,
            event_type: (*kind).into(),
            ..HistoryEvent::default()
        });
        events.collect()
    }

    #[test]
    fn an_event_belongs_to_the_task_that_recorded_it_or_to_the_next_one() {
        use EventType as E;
        let events = history(&[
            E::WorkflowExecutionStarted,
            E::WorkflowTaskScheduled,
            E::WorkflowTaskStarted,
            E::WorkflowTaskCompleted,
            E::ActivityTaskScheduled,
            E::TimerStarted,
            E::WorkflowExecutionSignaled,
            E::WorkflowTaskScheduled,
            E::WorkflowTaskStarted,
            E::WorkflowTaskFailed,
            E::WorkflowExecutionSignaled,
        ]);
        let points = (1..=11).map(|event| task_of(&events, event));
        let points: Vec<_> = points.map(Option::unwrap_or_default).collect();
        assert_eq!(points, [4, 4, 4, 4, 4, 4, 10, 10, 10, 10, 0]);
        assert_eq!(task_of(&events, 12), None);
        // The task that recorded the event was not read.
        assert_eq!(task_of(&events[4..], 5), None);
    }

    #[test]
    fn an_event_is_named_by_its_number() {
        assert_eq!(event_number("event:7").map(Result::ok), Some(Some(7)));
        assert!(event_number("charge").is_none());
        for wrong in ["event:", "event:0", "event:-1", "event:x"] {
            assert!(event_number(wrong).is_some_and(|it| it.is_err()), "{wrong}");
        }
    }
}
