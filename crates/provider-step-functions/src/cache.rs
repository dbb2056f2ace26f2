//! What this provider remembers so that it reads less: how far each history was read, and which
//! definition which execution runs. A cache: all of it can be lost at any time and is read again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_provider_api::adapter::{Pace, ReadSchedule, Reading, Round, Scheduled, lock};

use crate::response::{Basics, ItemCounts, RunsDefinition};
use crate::{Definition, Fold};

/// The most definitions remembered.
const MOST_DEFINITIONS: usize = 1_000;
/// The longest input kept after a glimpse.
const LONGEST_INPUT: usize = 4_096;
/// Starts shortly after an update may still run the definition before it.
const UPDATE_LAG: Duration = Duration::from_secs(60);

/// An open execution as it was last seen.
#[derive(Debug, Clone)]
pub(crate) struct CachedExecution {
    pub(crate) basics: Basics,
    /// None when its history was not read yet. Shared: a fold may have thousands of events.
    pub(crate) read: Option<Arc<Read>>,
    /// The newest page was read without the definition.
    pub(crate) glimpsed: Option<NewestPage>,
}

/// What is kept of an execution of which only the newest page was read.
#[derive(Debug, Clone)]
pub(crate) struct NewestPage {
    /// None when it is too large to be kept.
    pub(crate) input: Option<String>,
}

/// How far a history was read, and with which definition.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) fold: Fold,
    pub(crate) definition: Arc<Definition>,
    /// The items of distributed Maps, by the step's name.
    pub(crate) items: BTreeMap<String, ItemCounts>,
}

#[derive(Debug)]
pub(crate) struct Cache {
    executions: ReadSchedule<CachedExecution>,
    definitions: Mutex<Vec<Window>>,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            executions: ReadSchedule::new(Pace::DEFAULT),
            definitions: Mutex::default(),
        }
    }
}

/// Executions of one machine that started within these bounds run this definition: definitions
/// only ever follow each other.
#[derive(Debug)]
struct Window {
    machine: String,
    version: Option<String>,
    updated: Option<Timestamp>,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    definition: Arc<Definition>,
}

impl Cache {
    pub(crate) fn get(&self, arn: &str) -> Option<Arc<CachedExecution>> {
        self.executions.get(arn).map(|known| known.value)
    }

    /// The same, with when it is to be read again.
    pub(crate) fn scheduled(&self, arn: &str) -> Option<Scheduled<CachedExecution>> {
        self.executions.get(arn)
    }

    /// How far the history was read.
    pub(crate) fn read(&self, arn: &str) -> Option<Arc<Read>> {
        self.get(arn).and_then(|seen| seen.read.clone())
    }

    /// Which of these executions are read now, as far as the quota allows.
    pub(crate) fn round<'a>(
        &self,
        requested: impl Iterator<Item = &'a str>,
        (reads, now): (usize, Instant),
    ) -> Round {
        self.executions.round(requested, reads, now)
    }

    /// Remembers an open execution whose history is still to be read.
    pub(crate) fn note(&self, basics: Basics, now: Instant) {
        let arn = basics.arn.clone();
        self.executions.note(&arn, now, |known| match known {
            Some(known) => CachedExecution {
                basics,
                ..known.clone()
            },
            None => CachedExecution {
                basics,
                read: None,
                glimpsed: None,
            },
        });
    }

    /// Remembers an open execution whose newest page was read without the definition.
    pub(crate) fn glimpse(&self, basics: Basics, input: Option<&String>, now: Instant) {
        let input = input.filter(|input| input.len() <= LONGEST_INPUT).cloned();
        let arn = basics.arn.clone();
        self.executions.forget(&arn);
        self.executions.note(&arn, now, |_| CachedExecution {
            basics,
            read: None,
            glimpsed: Some(NewestPage { input }),
        });
    }

    /// Remembers how far a history was read.
    pub(crate) fn keep(&self, basics: Basics, read: Read, next: Option<Duration>, now: Instant) {
        let arn = basics.arn.clone();
        let reading = Reading {
            progress: read.fold.last_id(),
            weight: read.fold.weight(),
            next_change: next,
            value: CachedExecution {
                basics,
                read: Some(Arc::new(read)),
                glimpsed: None,
            },
        };
        self.executions.keep(&arn, reading, now);
    }

    /// Forgets an execution: it ended, or a write was sent to it.
    pub(crate) fn forget(&self, arn: &str) {
        self.executions.forget(arn);
    }

    /// The definition that an execution runs, where that follows from what is known.
    pub(crate) fn definition(&self, of: &Basics) -> Option<Arc<Definition>> {
        let windows = lock(&self.definitions);
        let found = windows.iter().find(|window| {
            let inside = window.from <= of.started && of.started <= window.until;
            let same = match (&window.version, &of.version) {
                (Some(window), Some(version)) => window == version,
                (None, None) => inside && of.started.is_some(),
                _ => false,
            };
            window.machine == of.machine && same
        });
        found.map(|window| window.definition.clone())
    }

    /// Remembers the definition that an execution runs.
    pub(crate) fn keep_definition(&self, of: &Basics, told: RunsDefinition) -> Arc<Definition> {
        let mut windows = lock(&self.definitions);
        let settled = told.updated.and_then(|at| at.checked_add(UPDATE_LAG).ok());
        let from = match settled {
            Some(settled) => of.started.map(|started| started.min(settled)),
            None => of.started,
        };
        let known = windows.iter_mut().find(|window| {
            window.machine == of.machine
                && window.version == of.version
                && window.updated == told.updated
                && *window.definition == told.definition
        });
        if let Some(known) = known {
            known.from = known.from.min(from);
            known.until = known.until.max(of.started);
            return known.definition.clone();
        }
        if windows.len() >= MOST_DEFINITIONS {
            windows.remove(0);
        }
        let definition = Arc::new(told.definition);
        windows.push(Window {
            machine: of.machine.clone(),
            version: of.version.clone(),
            updated: told.updated,
            from,
            until: of.started,
            definition: definition.clone(),
        });
        definition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basics(name: &str, started: i64) -> Basics {
        Basics {
            arn: name.to_owned(),
            machine: "m".to_owned(),
            version: None,
            status: "RUNNING".to_owned(),
            started: Timestamp::from_second(started).ok(),
            stopped: None,
            redrive_status: None,
            redrives: 0,
            failure: None,
        }
    }

    fn definition(text: &str, updated: i64) -> RunsDefinition {
        RunsDefinition {
            definition: Definition::parse(text),
            updated: Timestamp::from_second(updated).ok(),
        }
    }

    #[test]
    fn executions_between_two_of_one_definition_run_that_definition() {
        let cache = Cache::default();
        let first = r#"{"States":{"A":{"Type":"Pass"}}}"#;
        assert!(cache.definition(&basics("x", 1_000)).is_none());
        cache.keep_definition(&basics("a", 1_000), definition(first, 100));
        cache.keep_definition(&basics("b", 2_000), definition(first, 100));
        // Started well after the update of the definition, and not after the newest known execution.
        for inside in [160, 1_500, 2_000] {
            assert!(cache.definition(&basics("x", inside)).is_some(), "{inside}");
        }
        // Started close to the update, or after the newest known execution: the definition may be another one.
        for outside in [120, 2_001] {
            assert!(
                cache.definition(&basics("x", outside)).is_none(),
                "{outside}"
            );
        }
    }

    #[test]
    fn what_is_remembered_of_a_history_is_shared_and_not_copied() {
        let (cache, now) = (Cache::default(), Instant::now());
        let read = Read {
            fold: Fold::default(),
            definition: Arc::default(),
            items: BTreeMap::new(),
        };
        cache.keep(basics("a", 1), read, None, now);
        let (one, other) = (cache.read("a").unwrap(), cache.read("a").unwrap());
        assert!(Arc::ptr_eq(&one, &other));
        let mut newer = basics("a", 1);
        newer.status = "PENDING_REDRIVE".to_owned();
        cache.note(newer, now);
        assert_eq!(cache.get("a").unwrap().basics.status, "PENDING_REDRIVE");
        assert!(Arc::ptr_eq(&one, &cache.read("a").unwrap()));
        cache.forget("a");
        assert!(cache.get("a").is_none());
    }
}
