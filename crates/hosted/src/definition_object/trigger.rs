//! The schedule of a definition: which time is due, and the message that starts the execution of that time.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_definition::{Schedule, Trigger, digest, parse};
use stateway_model::{ErrorKind, Labels};

use super::StoredDefinition;
use crate::message::{ObjectRequest, Refusal, StartWork, VERSION, Work};
use crate::object::Message;

/// The most times of a schedule that are skipped to find the newest one.
const MOST_MISSED: usize = 100_000;
/// What starts an execution by its schedule, as the built-in engine names it.
pub(crate) const SCHEDULE: &str = "schedule";

/// What is stored of the trigger of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredTrigger {
    /// Who disabled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<DisabledMark>,
    /// Only times of the schedule after these milliseconds start executions.
    pub since: i64,
    /// When the armed alarm fires, in Unix milliseconds; `None` if no alarm is armed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub armed: Option<i64>,
    /// The schedule starts nothing, because the gateway cannot run the definition.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub never: bool,
}

/// Who disabled a trigger, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisabledMark {
    /// Who.
    pub by: Arc<str>,
    /// The milliseconds.
    pub at: i64,
    /// Why; may be empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub comment: Arc<str>,
}

impl StoredDefinition {
    /// The trigger of the current revision; none of a deleted definition.
    #[must_use]
    pub fn current_trigger(&self) -> Option<Trigger> {
        self.current.as_ref()?;
        parse(&self.source, "definition").ok()?.definition.trigger
    }

    /// Takes over the trigger of the current revision, for times after these milliseconds. A disabled trigger
    /// stays disabled.
    pub(super) fn set_trigger(&mut self, at: i64, never_scheduled: bool) {
        let before = self.trigger.take().unwrap_or_default();
        if self.current_trigger().is_none() {
            return;
        }
        self.trigger = Some(StoredTrigger {
            disabled: before.disabled,
            since: at,
            armed: before.armed,
            never: never_scheduled,
        });
    }

    /// Disables or enables the trigger; whether anything is different now.
    pub(super) fn switch(
        &mut self,
        name: &str,
        enabled: bool,
        (by, comment, at): (&Arc<str>, &Arc<str>, i64),
    ) -> Result<bool, Refusal> {
        let Some(trigger) = &mut self.trigger else {
            if enabled {
                return Ok(false);
            }
            let message = format!("the definition `{name}` has no trigger");
            return Err(
                Refusal::new(ErrorKind::FailedPrecondition, "NO_TRIGGER", message)
                    .hint("Add `trigger:` to the definition first."),
            );
        };
        match (enabled, &trigger.disabled) {
            (true, None) | (false, Some(_)) => Ok(false),
            (true, Some(_)) => {
                // Times that passed meanwhile are skipped.
                (trigger.disabled, trigger.since) = (None, at);
                Ok(true)
            }
            (false, None) => {
                trigger.disabled = Some(DisabledMark {
                    by: Arc::clone(by),
                    at,
                    comment: Arc::clone(comment),
                });
                Ok(true)
            }
        }
    }

    /// The schedule that starts executions; none while the trigger is disabled.
    fn schedule(&self) -> Option<Schedule> {
        let trigger = self.trigger.as_ref()?;
        if trigger.disabled.is_some() || trigger.never {
            return None;
        }
        self.current_trigger()?.schedule
    }

    /// Arms the alarm for the next time of the schedule, unless one is armed that fires earlier. The earlier
    /// one finds nothing due and arms the next.
    pub(super) fn arm(&mut self) -> Option<Timestamp> {
        let schedule = self.schedule()?;
        let trigger = self.trigger.as_mut()?;
        let since = Timestamp::from_millisecond(trigger.since).ok()?;
        let next = schedule.next_after(since)?;
        let millis = next.as_millisecond();
        if trigger.armed.is_some_and(|armed| armed <= millis) {
            return None;
        }
        trigger.armed = Some(millis);
        Some(next)
    }

    /// An alarm fires: the start of the newest time that has passed. Times that passed while no host ran
    /// start one execution.
    pub(super) fn fire(&mut self, name: &str, armed: Timestamp, now: Timestamp) -> Option<Message> {
        let schedule = self.schedule();
        let trigger = self.trigger.as_mut()?;
        if trigger.armed.is_some_and(|it| it <= armed.as_millisecond()) {
            trigger.armed = None;
        }
        let since = Timestamp::from_millisecond(trigger.since).ok()?;
        let schedule = schedule?;
        let first = schedule.next_after(since).filter(|next| *next <= now)?;
        let due = newest(&schedule, first, now);
        trigger.since = due.as_millisecond();
        Some(start(name, &self.source, due, now))
    }
}

/// The start of the execution of one time. Its id is that time, so it is started once.
fn start(name: &str, source: &Arc<str>, due: Timestamp, now: Timestamp) -> Message {
    let id: Arc<str> = format!("{name}~{}", due.strftime("%Y%m%dT%H%M%SZ")).into();
    let start = StartWork {
        definition: name.into(),
        source: Arc::clone(source),
        labels: Labels::default(),
        not_before: None,
        input: Arc::new(serde_json::json!({ "scheduledTime": due.to_string() })),
        by: SCHEDULE.into(),
        child: None,
    };
    let request = ObjectRequest {
        v: VERSION,
        id: SCHEDULE.into(),
        at: now,
        body: Some(digest(id.as_bytes())[..32].into()),
        work: Work::Start(Box::new(start)),
        claim: None,
    };
    Message::Execution(id, Box::new(request))
}

/// The newest time of a schedule that is not in the future.
fn newest(schedule: &Schedule, first: Timestamp, now: Timestamp) -> Timestamp {
    let mut newest = first;
    for _ in 0..MOST_MISSED {
        match schedule.next_after(newest) {
            Some(next) if next <= now => newest = next,
            _ => break,
        }
    }
    newest
}
