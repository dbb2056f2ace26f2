//! The object of a workflow, from the events of its history. No IO, no clock.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_hosted::object::{DEFINITION, ENDED_EARLY, STATE};

use super::objects::{CLEARED, COPIED, LEFT, SIGNAL, TAGS, VALUES, in_memo};
use crate::api::common::v1::{Memo, Payloads, SearchAttributes};
use crate::api::history::v1::history_event::Attributes;
use crate::api::history::v1::{HistoryEvent, WorkflowExecutionStartedEventAttributes};
use crate::time::timestamp;

/// Which values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// All.
    #[default]
    All,
    /// Those that an object reads.
    Read,
}

/// The updates of one run. A server allows 2,000.
pub(super) const MOST_UPDATES: u32 = 1_500;

/// How a run continues the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continued {
    /// The run whose values are to be copied.
    pub from: String,
    /// The milliseconds for which the alarm is armed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<i64>,
}

/// What a task did not handle of what had come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The event with which the task started.
    pub task: i64,
    /// The first event that was not handled.
    pub from: i64,
}

/// What has come in and is to be handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// The request that started the workflow.
    Start(Bytes),
    /// A message of another object, and when it arrived.
    Message(Bytes, Timestamp),
    /// The alarm for this time, and when it fired.
    Alarm(Timestamp, Timestamp),
    /// Somebody asked Temporal to cancel the workflow: why, who and when.
    Cancel(String, String, Timestamp),
}

/// What the history of one run says about its object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    keep: Keep,
    /// The values that were written in this run.
    pub values: BTreeMap<String, Bytes>,
    /// The run that has the values which are not written here; none when there are none.
    pub earlier: Option<String>,
    /// The sizes of the values that were written in this run, also of those that are not kept.
    sizes: BTreeMap<String, usize>,
    /// Their sum.
    pub bytes: usize,
    /// Whether this run continues another one.
    pub is_continued: bool,
    /// The number of the last event.
    pub last_event: i64,
    /// When the run started.
    pub started: Option<Timestamp>,
    /// The milliseconds for which the alarm is armed.
    pub alarm: Option<i64>,
    /// The milliseconds for which a timer runs, which is also its id.
    pub timer: Option<i64>,
    /// Messages that are under way.
    pub deliveries: BTreeSet<i64>,
    /// What has come in, by event. What was handled is removed by [`Record::inputs`].
    waiting: Vec<(i64, Input)>,
    /// What the newest task that left something has left.
    left: Option<Left>,
    /// The tags.
    pub tags: Vec<String>,
    /// How many updates were accepted.
    pub updates: u32,
    /// The time of the newest workflow task.
    pub task_time: Option<Timestamp>,
    /// The size of the history in bytes at the newest workflow task, and whether the server suggests to continue
    /// in another run.
    pub size: i64,
    /// The server suggests to continue in another run.
    pub is_long: bool,
    /// Number of events and size when all values of the earlier run were there.
    base: (i64, Option<i64>),
}

impl Record {
    /// A record of no events, which keeps these values.
    #[must_use]
    pub fn keeping(keep: Keep) -> Self {
        Self {
            keep,
            base: (0, Some(0)),
            ..Self::default()
        }
    }

    /// Takes the next event.
    pub fn apply(&mut self, event: &HistoryEvent) {
        let input = self.input_of(event);
        if self.keep == Keep::Read {
            let input = input.map(|input| (event.event_id, input));
            self.waiting.extend(input);
        }
    }

    /// What is to be handled, by event, when the last task that was completed started with this event.
    pub fn inputs(&mut self, completed: i64) -> &[(i64, Input)] {
        let left = self.left.filter(|left| left.task == completed);
        let from = left.map_or(completed + 1, |left| left.from);
        self.waiting.retain(|(event, _)| *event >= from);
        &self.waiting
    }

    fn input_of(&mut self, event: &HistoryEvent) -> Option<Input> {
        self.last_event = event.event_id;
        let at = timestamp(event.event_time.as_ref()).unwrap_or_default();
        match event.attributes.as_ref()? {
            Attributes::WorkflowExecutionStartedEventAttributes(started) => {
                self.started = Some(at);
                return self.start(started);
            }
            Attributes::MarkerRecordedEventAttributes(marker) => {
                match marker.marker_name.as_str() {
                    VALUES => {
                        for (key, value) in &marker.details {
                            if let Some(value) = only(Some(value)) {
                                self.set(key, &value);
                            }
                        }
                    }
                    CLEARED => {
                        self.values.clear();
                        self.sizes.clear();
                        self.bytes = 0;
                        self.earlier = None;
                    }
                    COPIED => {
                        self.earlier = None;
                        self.base = (event.event_id, None);
                    }
                    LEFT => {
                        let left = only(marker.details.get(LEFT));
                        self.left = left.and_then(|left| serde_json::from_slice(&left).ok());
                    }
                    _ => {}
                }
            }
            Attributes::WorkflowPropertiesModifiedEventAttributes(it) => {
                self.remember(it.upserted_memo.as_ref());
            }
            Attributes::UpsertWorkflowSearchAttributesEventAttributes(it) => {
                self.tag(it.search_attributes.as_ref());
            }
            Attributes::WorkflowTaskStartedEventAttributes(it) => {
                self.task_time = Some(at);
                self.is_long = it.suggest_continue_as_new;
                self.size = it.history_size_bytes;
                self.base.1.get_or_insert(it.history_size_bytes);
            }
            Attributes::WorkflowExecutionUpdateAcceptedEventAttributes(_) => self.updates += 1,
            Attributes::ActivityTaskScheduledEventAttributes(_) => {
                self.deliveries.insert(event.event_id);
            }
            Attributes::ActivityTaskCompletedEventAttributes(it) => {
                self.deliveries.remove(&it.scheduled_event_id);
            }
            Attributes::ActivityTaskFailedEventAttributes(it) => {
                self.deliveries.remove(&it.scheduled_event_id);
            }
            Attributes::ActivityTaskTimedOutEventAttributes(it) => {
                self.deliveries.remove(&it.scheduled_event_id);
            }
            Attributes::ActivityTaskCanceledEventAttributes(it) => {
                self.deliveries.remove(&it.scheduled_event_id);
            }
            Attributes::TimerStartedEventAttributes(it) => {
                self.timer = it.timer_id.parse().ok();
                self.alarm = self.timer;
            }
            Attributes::TimerCanceledEventAttributes(it) => {
                self.timer = self.timer.filter(|due| due.to_string() != it.timer_id);
            }
            Attributes::TimerFiredEventAttributes(it) => {
                self.timer = self.timer.filter(|due| due.to_string() != it.timer_id);
                self.alarm = self.timer;
                let due = it.timer_id.parse().ok();
                let due = due.and_then(|due| Timestamp::from_millisecond(due).ok())?;
                return Some(Input::Alarm(due, due.max(at)));
            }
            Attributes::WorkflowExecutionSignaledEventAttributes(it)
                if it.signal_name == SIGNAL =>
            {
                return Some(Input::Message(only(it.input.as_ref())?, at));
            }
            Attributes::WorkflowExecutionCancelRequestedEventAttributes(it) => {
                return Some(Input::Cancel(it.cause.clone(), it.identity.clone(), at));
            }
            _ => {}
        }
        None
    }

    fn start(&mut self, started: &WorkflowExecutionStartedEventAttributes) -> Option<Input> {
        self.remember(started.memo.as_ref());
        self.tag(started.search_attributes.as_ref());
        let input = only(started.input.as_ref());
        if started.continued_execution_run_id.is_empty() {
            return Some(Input::Start(input?));
        }
        self.is_continued = true;
        let continued: Continued = serde_json::from_slice(&input?).ok()?;
        self.earlier = Some(continued.from);
        self.alarm = continued.alarm;
        None
    }

    fn set(&mut self, key: &str, value: &Bytes) {
        let before = self.sizes.insert(key.to_owned(), value.len());
        self.bytes = self.bytes + value.len() - before.unwrap_or_default();
        // A run that continues another one begins with the fields of its memo.
        let is_read = [STATE, DEFINITION, ENDED_EARLY].contains(&key) || in_memo(key);
        if self.keep == Keep::All || is_read {
            // A copy: the payload is a part of the message with which it came, and would keep all of that.
            let value = Bytes::copy_from_slice(value);
            self.values.insert(key.to_owned(), value);
        }
    }

    fn remember(&mut self, memo: Option<&Memo>) {
        for (key, value) in memo.into_iter().flat_map(|memo| &memo.fields) {
            if in_memo(key) {
                self.set(key, &value.data);
            }
        }
    }

    fn tag(&mut self, attributes: Option<&SearchAttributes>) {
        let tags = attributes.and_then(|it| it.indexed_fields.get(TAGS));
        let tags = tags.and_then(|tags| serde_json::from_slice(&tags.data).ok());
        if let Some(tags) = tags {
            self.tags = tags;
        }
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn memory(&self) -> usize {
        /// What a key or an event takes beside its own bytes.
        const EACH: usize = 128;
        let values = self.values.values().map(Bytes::len);
        let keys = self.sizes.keys().map(|key| key.len() + EACH);
        let waiting = self.waiting.iter().map(|(_, input)| match input {
            Input::Start(request) | Input::Message(request, _) => request.len() + EACH,
            Input::Alarm(..) | Input::Cancel(..) => EACH,
        });
        EACH + values.chain(keys).chain(waiting).sum::<usize>()
    }

    /// The size of a value that was written in this run.
    #[must_use]
    pub fn size_of(&self, key: &str) -> Option<usize> {
        self.sizes.get(key).copied()
    }

    /// Whether the history is long enough to continue in another run. As a rule it has grown as much again since all
    /// values were there, so copying them costs less than what was written. A history that comes near the limit of
    /// the server continues in any case, unless it has just begun.
    #[must_use]
    pub fn is_full(&self) -> bool {
        /// The fewest and the most events of a run that is continued. A server allows 51,200.
        const EVENTS: (i64, i64) = (500, 10_000);
        /// The fewest bytes that are written in a run that is continued because of its size.
        const FEWEST_BYTES: i64 = 4 * 1024 * 1024;
        /// A history of this size continues. A server allows 50 MiB.
        const LARGE: i64 = 30 * 1024 * 1024;
        let base = self.base.1.unwrap_or_default();
        let (events, bytes) = (self.last_event - self.base.0, self.size - base);
        let is_long = self.is_long && events >= EVENTS.0 && bytes >= base;
        let is_large = bytes >= FEWEST_BYTES && (bytes >= base || self.size >= LARGE);
        self.updates >= MOST_UPDATES || is_long || is_large || events >= EVENTS.1
    }

    /// Whether the history must not grow before it continues in another run, except by what cannot wait.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        const CROWDED: i64 = 36 * 1024 * 1024;
        self.size >= CROWDED
    }
}

/// The data of the only payload.
fn only(payloads: Option<&Payloads>) -> Option<Bytes> {
    let payload = payloads?.payloads.first()?;
    Some(payload.data.clone())
}
