//! What starts executions by itself: events by their name, schedules by the clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use stateway_definition::{Schedule, Trigger};
use stateway_machine::{Data, Plan, Verb, later};
use tokio::sync::oneshot;

use super::Keeper;
use super::requests::NewExecution;
use crate::cause;
use crate::error::{EngineError, ErrorKind, Result};
use crate::request::{DisabledTrigger, Publish, Published, RequestDigest, Scheduled, Start};
use crate::store::plan;

/// How many definitions are read at a time.
const PAGE: usize = 500;
/// The most occurrences of one schedule that are skipped in one go to find the newest.
const MOST_MISSED: usize = 100_000;

/// How long a scheduled start that failed waits before it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The definitions that each event starts.
#[derive(Debug, Default)]
pub(super) struct Triggers {
    /// Definitions by the event that starts them.
    events: HashMap<String, BTreeSet<Arc<str>>>,
    schedules: BTreeMap<Arc<str>, Planned>,
    /// The same by time.
    due: BTreeSet<(Timestamp, Arc<str>)>,
    /// Triggers that someone has disabled. Neither events nor schedules know them.
    disabled: BTreeMap<Arc<str>, Disabled>,
    /// Definitions whose scheduled start panicked: none is made until the process restarts.
    stopped: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct Disabled {
    mark: DisabledTrigger,
    /// The event of the trigger; empty without one.
    event: String,
    /// Whether the trigger has a schedule.
    scheduled: bool,
}

#[derive(Debug)]
struct Planned {
    schedule: Schedule,
    /// The time of the schedule that is due next.
    occurrence: Timestamp,
    /// When the start is made: at that time, or later if it failed.
    next: Timestamp,
}

impl Triggers {
    fn clear(&mut self, name: &Arc<str>) {
        self.events.retain(|_, names| {
            names.remove(name);
            !names.is_empty()
        });
        if let Some(planned) = self.schedules.remove(name) {
            self.due.remove(&(planned.next, Arc::clone(name)));
        }
    }

    fn set(&mut self, name: &Arc<str>, trigger: &Trigger, after: Timestamp) {
        if !trigger.event.is_empty() {
            let names = self.events.entry(trigger.event.clone()).or_default();
            names.insert(Arc::clone(name));
        }
        if let Some(schedule) = &trigger.schedule {
            self.plan(name, schedule.clone(), after);
        }
    }

    /// Plans the start of a schedule that could not be made for a later time.
    fn retry(&mut self, name: &Arc<str>, planned: Planned, at: Timestamp) {
        self.due.insert((at, Arc::clone(name)));
        let planned = Planned {
            next: at,
            ..planned
        };
        self.schedules.insert(Arc::clone(name), planned);
    }

    /// Makes no scheduled start of a definition any more.
    pub(super) fn stop(&mut self, name: Arc<str>) {
        tracing::error!(definition = %name, "scheduled starts have stopped until the process restarts");
        self.clear(&name);
        self.stopped.insert(name);
    }

    fn plan(&mut self, name: &Arc<str>, schedule: Schedule, after: Timestamp) {
        if self.stopped.contains(name) {
            return;
        }
        if let Some(next) = schedule.next_after(after) {
            self.due.insert((next, Arc::clone(name)));
            let planned = Planned {
                schedule,
                occurrence: next,
                next,
            };
            self.schedules.insert(Arc::clone(name), planned);
        }
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(next, _)| *next)
    }

    pub(super) fn scheduled(&self) -> Vec<Scheduled> {
        let enabled = self.due.iter().map(|(next, name)| Scheduled {
            definition: Arc::clone(name),
            next: Some(*next),
            disabled: None,
        });
        let disabled = self.disabled.iter().filter(|(_, known)| known.scheduled);
        let disabled = disabled.map(|(name, known)| Scheduled {
            definition: Arc::clone(name),
            next: None,
            disabled: Some(known.mark.clone()),
        });
        enabled.chain(disabled).collect()
    }

    /// The definitions that an event starts, those with a disabled trigger included.
    fn of_event(&self, event: &str) -> BTreeSet<Arc<str>> {
        let enabled = self.events.get(event).into_iter().flatten();
        let disabled = self
            .disabled
            .iter()
            .filter(|(_, known)| known.event == event);
        enabled
            .chain(disabled.map(|(name, _)| name))
            .cloned()
            .collect()
    }

    /// Who disabled the trigger of a definition, and when.
    pub(super) fn disabled(&self, name: &str) -> Option<&DisabledTrigger> {
        self.disabled.get(name).map(|known| &known.mark)
    }

    pub(super) fn disable(&mut self, name: &Arc<str>, mark: DisabledTrigger) {
        let disabled = Disabled {
            mark,
            event: String::new(),
            scheduled: false,
        };
        self.disabled.insert(Arc::clone(name), disabled);
    }

    pub(super) fn enable(&mut self, name: &str) {
        self.disabled.remove(name);
    }
}

impl Keeper {
    /// Reads every definition's trigger.
    pub(super) fn read_triggers(&mut self) -> Result<()> {
        self.triggers = Triggers {
            stopped: std::mem::take(&mut self.triggers.stopped),
            ..Triggers::default()
        };
        for (name, mark) in self.store.disabled_triggers()? {
            self.triggers.disable(&name, mark);
        }
        let mut after = String::new();
        loop {
            let page = self.store.definitions(&after, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.name.to_string();
            for record in page {
                let plan = match plan(&*self.store, &record.revision, &self.definitions.catalogue) {
                    Ok(plan) => plan,
                    // One that cannot be read must not keep the others from starting.
                    Err(error) => {
                        tracing::error!(definition = %record.name, "no trigger: {error}");
                        continue;
                    }
                };
                // A start that was made while the clock was fast is not later than now.
                let since = self.store.last_scheduled(&record.name)?;
                let since = since.map(|since| since.min(self.now.wall));
                self.set_trigger(&record.name, &plan, since.unwrap_or(record.created));
            }
        }
    }

    /// Takes over the trigger of a definition, for times after this one. A disabled trigger starts
    /// nothing.
    pub(super) fn set_trigger(&mut self, name: &Arc<str>, plan: &Plan, after: Timestamp) {
        self.triggers.clear(name);
        let trigger = plan.definition().trigger.as_ref();
        if let Some(disabled) = self.triggers.disabled.get_mut(name) {
            disabled.scheduled = trigger.is_some_and(|trigger| trigger.schedule.is_some());
            disabled.event = trigger.map_or_else(String::new, |trigger| trigger.event.clone());
        } else if let Some(trigger) = trigger {
            self.triggers.set(name, trigger, after);
        }
    }

    /// A definition was deleted: nothing starts it any more.
    pub(super) fn clear_trigger(&mut self, name: &Arc<str>) {
        self.triggers.clear(name);
        self.triggers.enable(name);
    }

    /// Starts the executions whose scheduled time has come. If several times of a schedule were missed, one
    /// execution is started, for the newest of them.
    pub(super) fn start_scheduled(&mut self) {
        while let Some((due, name)) = self.triggers.due.first().cloned() {
            if due > self.now.wall || self.pace.is_full() {
                return;
            }
            self.triggers.due.remove(&(due, Arc::clone(&name)));
            let Some(planned) = self.triggers.schedules.remove(&name) else {
                continue;
            };
            let newest = newest(&planned.schedule, planned.occurrence, self.now.wall);
            self.scheduling = Some(Arc::clone(&name));
            let started = self.start_by_schedule(&name, newest);
            self.scheduling = None;
            match started {
                Ok(()) => {}
                Err(error) if is_temporary(&error) => {
                    tracing::warn!(definition = %name, "a scheduled start is tried again: {error}");
                    self.triggers
                        .retry(&name, planned, later(self.now.wall, TRY_AGAIN));
                    continue;
                }
                Err(error) => {
                    tracing::error!(definition = %name, "a scheduled start failed: {error}");
                    metrics::counter!("stateway_engine_scheduled_starts_failed_total").increment(1);
                }
            }
            self.outbox.turn.schedules.push((Arc::clone(&name), newest));
            self.triggers.plan(&name, planned.schedule, newest);
            self.do_work();
        }
    }

    fn start_by_schedule(&mut self, name: &Arc<str>, at: Timestamp) -> Result<()> {
        let id: Arc<str> = format!("{name}~{}", at.strftime("%Y%m%dT%H%M%SZ")).into();
        if self.is_taken(&id)? {
            return Ok(());
        }
        let plan = self.current_plan(name)?;
        let cause: Arc<str> = cause::SCHEDULE.into();
        let birth = NewExecution {
            create: Verb::Create {
                execution: Arc::clone(&id),
                correlation: Arc::clone(&id),
                initiator: Arc::clone(&cause),
                input: Data::new(serde_json::json!({ "scheduledTime": at.to_string() })),
                redone_by: Vec::new(),
            },
            id,
            definition: Arc::clone(name),
            labels: Arc::default(),
            parent: None,
            depth: 0,
            not_before: None,
        };
        self.create(plan, birth, &cause).map(drop)
    }

    pub(super) fn publish(&mut self, event: &Publish, answer: oneshot::Sender<Result<Published>>) {
        let published = self.published(event);
        self.outbox.answer(answer, published);
    }

    /// Starts every definition that the event triggers, each once.
    fn published(&mut self, event: &Publish) -> Result<Published> {
        let mut published = Published::default();
        let digest = digest(event);
        for name in self.triggers.of_event(&event.name) {
            let plan = self.current_plan(&name)?;
            let Some(trigger) = &plan.definition().trigger else {
                continue;
            };
            let request = digest.clone().key(format!("{}/{name}", event.id));
            if self.triggers.disabled(&name).is_some() && self.seen(&request)?.is_none() {
                let why = "the trigger is disabled".to_owned();
                published.refused.push((name, why));
                continue;
            }
            match trigger.admits(&event.payload) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => {
                    published.refused.push((name, why));
                    continue;
                }
            }
            let start = Start {
                definition: Arc::clone(&name),
                id: None,
                input: Arc::clone(&event.payload),
                labels: event.labels.clone(),
                not_before: None,
                actor: Arc::clone(&event.actor),
                request,
            };
            let number = self.start(start)?;
            self.do_work();
            if let Some(live) = self.executions.get(number) {
                published.started.push(Arc::clone(&live.origin.id));
            }
        }
        Ok(published)
    }
}

/// Whether trying again may help.
const fn is_temporary(error: &EngineError) -> bool {
    matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Throttled)
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

fn digest(event: &Publish) -> RequestDigest {
    RequestDigest::new("PublishEvent", &event.actor)
        .text(&event.name)
        .json(&event.payload)
        .labels(&event.labels)
}

#[cfg(test)]
mod tests;
