//! What a history shows beside a description: timers, finished steps, why workflow tasks fail, how the
//! run began and ended. A pure fold over events in their order; payloads are not kept.
//!
//! Only the newest [`WINDOW`] events of a run count, so that every process computes the same from a
//! history, however much of it the process has read before. The first event counts always.

mod feed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use stateway_model::{CancelInfo, ExecutionError};

/// How many events of a run are read at most, beside its first one.
pub(crate) const WINDOW: i64 = 1_024;

/// What the events of a run show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The number of the newest event.
    pub(crate) last: i64,
    pub(crate) begin: Option<Begin>,
    /// By the number of the event that scheduled them.
    pub(crate) activities: BTreeMap<i64, Activity>,
    /// By the number of the event that started them.
    pub(crate) timers: BTreeMap<i64, Timer>,
    /// By the number of the event that initiated them.
    pub(crate) children: BTreeMap<i64, Child>,
    /// Updates that were accepted and have not answered, by the number of the event.
    pub(crate) updates: BTreeMap<i64, Update>,
    /// Signals and updates, by their request ids.
    pub(crate) requests: BTreeMap<String, Delivered>,
    /// Updates that a reset applied again, by their request ids. The events that accept them have no request.
    pub(crate) admitted: BTreeMap<String, Admitted>,
    /// The newest event that only a workflow whose first workflow task was scheduled can have. Signals and
    /// other requests of clients can come before that task.
    pub(crate) begun: Option<i64>,
    /// The newest event that completed a workflow task.
    pub(crate) last_task: Option<i64>,
    /// Why the newest workflow task failed or timed out, with the event; none after one that completed.
    pub(crate) task_failed: Option<(i64, ExecutionError)>,
    pub(crate) task_timed_out: Option<(i64, ExecutionError)>,
    /// The newest workflow task that failed because something arrived while the worker had it, or because its worker
    /// left; none after one that completed.
    pub(crate) interrupted: Option<i64>,
    /// The completed workflow task that the newest one follows directly. That one only asked for more
    /// time: a local activity runs in it.
    pub(crate) heartbeat: Option<i64>,
    /// The newest request to cancel or terminate, with its event.
    pub(crate) cancel: Option<(i64, CancelInfo)>,
    pub(crate) reset: Option<Reset>,
    pub(crate) end: Option<End>,
    /// The failed local activity of the newest marker, with the workflow task that recorded it.
    pub(crate) marker: Option<(i64, LocalActivity)>,
    /// The newest event completed a workflow task.
    pub(crate) after_task: bool,
}

/// A signal or an update that the history shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub(crate) event: i64,
    /// The hash of its name and its arguments; none if another event has them.
    pub(crate) body: Option<u64>,
}

/// An update that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    pub(crate) request_id: String,
    /// None if the event that admitted the update has the name.
    pub(crate) name: Option<String>,
}

/// An update that the server has delivered to no worker yet when it recorded the update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) event: i64,
    pub(crate) name: String,
    pub(crate) body: u64,
}

/// How a run began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Begin {
    pub(crate) initiator: Initiator,
    /// The attempt of the workflow, from 1.
    pub(crate) attempt: u32,
    /// How many attempts of the workflow there may be, 0 for any number; none without a retry policy.
    pub(crate) max_attempts: Option<u32>,
    pub(crate) backoff: Option<Duration>,
    /// Why the run before this one failed.
    pub(crate) error: Option<ExecutionError>,
    pub(crate) previous_run: Option<String>,
    pub(crate) by: String,
}

/// Why a run began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Initiator {
    /// A start, or the workflow itself.
    #[default]
    Workflow,
    Retry,
    Cron,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Activity {
    pub(crate) id: String,
    pub(crate) kind: String,
    /// The event that completed the workflow task which scheduled it.
    pub(crate) task: i64,
    pub(crate) started: Option<Timestamp>,
    pub(crate) attempt: u32,
    pub(crate) ended: Option<Ended>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) id: String,
    pub(crate) summary: Option<String>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) fires: Option<Timestamp>,
    /// The timer is the pause before the next attempt of a local activity.
    pub(crate) retries: Option<LocalActivity>,
    pub(crate) ended: Option<Ended>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalActivity {
    /// The number of its marker.
    pub(crate) event: i64,
    pub(crate) name: String,
    pub(crate) attempt: u32,
    pub(crate) error: ExecutionError,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) workflow_id: String,
    pub(crate) kind: String,
    pub(crate) task: i64,
    pub(crate) since: Option<Timestamp>,
    pub(crate) ended: Option<Ended>,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The engine's word.
    pub(crate) word: &'static str,
    pub(crate) at: Option<Timestamp>,
    pub(crate) retry_state: Option<String>,
    pub(crate) error: Option<ExecutionError>,
}

/// The reset that made this run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reset {
    pub(crate) base_run: String,
    pub(crate) at: Option<Timestamp>,
    pub(crate) why: String,
    /// The event that records it; the events before it are copies.
    pub(crate) event: i64,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) error: Option<ExecutionError>,
    /// The run that continues, and whether that is a retry.
    pub(crate) next_run: Option<String>,
    pub(crate) is_retried: bool,
}

impl Facts {
    /// Forgets what the events before the window showed. Whatever an event sets has the number of that
    /// event, because a process that did not read the event cannot know it.
    pub(crate) fn close_window(&mut self) {
        let first = self.last - WINDOW;
        self.activities.retain(|event, _| *event > first);
        self.timers.retain(|event, _| *event > first);
        self.children.retain(|event, _| *event > first);
        self.updates.retain(|event, _| *event > first);
        self.requests.retain(|_, delivered| delivered.event > first);
        self.admitted.retain(|_, admitted| admitted.event > first);
        for timer in self.timers.values_mut() {
            timer.retries.take_if(|retried| retried.event <= first);
        }
        self.marker.take_if(|(_, marker)| marker.event <= first);
        self.begun.take_if(|event| *event <= first);
        self.last_task.take_if(|event| *event <= first);
        self.heartbeat.take_if(|event| *event <= first);
        self.task_failed.take_if(|(event, _)| *event <= first);
        self.task_timed_out.take_if(|(event, _)| *event <= first);
        self.interrupted.take_if(|event| *event <= first);
        self.cancel.take_if(|(event, _)| *event <= first);
        self.reset.take_if(|reset| reset.event <= first);
    }

    /// Why the newest workflow task failed; none after one that completed.
    pub(crate) fn task_error(&self) -> Option<&ExecutionError> {
        let error = self.task_failed.as_ref().or(self.task_timed_out.as_ref());
        error.map(|(_, error)| error)
    }

    /// How much memory this takes, roughly, in entries.
    pub(crate) fn weight(&self) -> usize {
        let steps = self.activities.len() + self.timers.len() + self.children.len();
        1 + steps + self.requests.len() + self.admitted.len()
    }

    /// The hash of the name and the arguments of a request, as far as the newest events show it.
    pub(crate) fn body_of(&self, request_id: &str, delivered: &Delivered) -> Option<u64> {
        let admitted = || self.admitted.get(request_id).map(|it| it.body);
        delivered.body.or_else(admitted)
    }

    /// The names of the updates that were accepted and have not answered, as far as the newest events show them.
    pub(crate) fn open_updates(&self) -> impl Iterator<Item = Option<&str>> {
        self.updates.values().map(|update| {
            let admitted = self.admitted.get(&update.request_id);
            let name = update.name.as_ref().or(admitted.map(|it| &it.name));
            name.map(String::as_str)
        })
    }

    /// The event number of the open activity with this id.
    pub(crate) fn open_activity(&self, id: &str) -> Option<i64> {
        let open =
            |(_, activity): &(&i64, &Activity)| activity.id == id && activity.ended.is_none();
        let found = self.activities.iter().rfind(open);
        found.map(|(event, _)| *event)
    }
}
