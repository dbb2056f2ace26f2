//! What this provider remembers so that it asks less: how far each history was read, and which
//! definition which execution runs. All of it can be lost at any time; then it is asked again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::response::{Basics, ItemCounts, RunsDefinition};
use crate::{Definition, Fold};

/// The most executions remembered.
const MOST_EXECUTIONS: usize = 10_000;
/// The most events remembered, over all executions.
const MOST_EVENTS: usize = 1_000_000;
/// The most definitions remembered.
const MOST_DEFINITIONS: usize = 1_000;
/// An execution that just moved is looked at again after this.
const QUICKEST: Duration = Duration::from_secs(1);
/// Up to this pace an execution that moved counts as one that moves.
const LATELY: Duration = Duration::from_secs(10);
/// A second for which something that moves is put off counts like so many for something that does
/// not. So neither can keep the other from being looked at.
const MOVES_COUNT: u32 = 4;
/// For so long after it was asked for, an execution competes for looks with the others.
const WATCHED: Duration = Duration::from_secs(120);
/// One that has not moved for long, after this.
const SLOWEST: Duration = Duration::from_secs(60);
/// The longest input kept after a glimpse.
const LONGEST_INPUT: usize = 4_096;
/// Starts shortly after an update may still run the definition before it.
const UPDATE_LAG: Duration = Duration::from_secs(60);

/// An open execution as it was last seen.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) basics: Basics,
    /// None when its history was not read yet.
    pub(crate) read: Option<Read>,
    /// The newest page was read without the definition.
    pub(crate) glimpsed: Option<Glimpsed>,
    /// It moved between the last looks.
    moves: bool,
    /// When it was read last, or noted.
    looked: Instant,
    /// When it was last asked for among many.
    wanted: Instant,
    due: Instant,
    pace: Duration,
    used: u64,
}

/// What is kept of an execution of which only the newest page was read.
#[derive(Debug, Clone)]
pub(crate) struct Glimpsed {
    /// None when it is too large to be kept.
    pub(crate) input: Option<String>,
}

/// How far a history was read, and with which definition.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) fold: Fold,
    pub(crate) definition: Arc<Definition>,
    /// The items of distributed Maps, by the step's name.
    pub(crate) items: BTreeMap<String, ItemCounts>,
}

impl Seen {
    /// Whether it is time to look again.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.read.is_none() || self.due <= now
    }

    /// How long it has been due, what moves counting for more. What was never read comes first.
    pub(crate) fn urgency(&self, now: Instant) -> Duration {
        let overdue = now.saturating_duration_since(self.due);
        match (&self.read, self.moves) {
            (None, _) => Duration::MAX,
            (_, true) => overdue.saturating_mul(MOVES_COUNT),
            (_, false) => overdue,
        }
    }

    fn is_watched(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.wanted) < WATCHED
    }
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    executions: Mutex<Executions>,
    definitions: Mutex<Vec<Window>>,
}

#[derive(Debug, Default)]
struct Executions {
    seen: HashMap<String, Seen>,
    uses: u64,
    events: usize,
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

impl Book {
    pub(crate) fn get(&self, arn: &str) -> Option<Seen> {
        let mut book = self
            .executions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        book.uses += 1;
        let uses = book.uses;
        let seen = book.seen.get_mut(arn)?;
        seen.used = uses;
        Some(seen.clone())
    }

    /// How urgent an execution must be to be one of so many to look at now, of all that were asked
    /// for lately. These are asked for now.
    pub(crate) fn bar<'a>(
        &self,
        asked: impl Iterator<Item = &'a str>,
        (looks, now): (usize, Instant),
    ) -> Duration {
        let mut book = self
            .executions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for arn in asked {
            if let Some(seen) = book.seen.get_mut(arn) {
                seen.wanted = now;
            }
        }
        let due = book.seen.values();
        let due = due.filter(|seen| seen.is_due(now) && seen.is_watched(now));
        let mut urgencies: Vec<Duration> = due.map(|seen| seen.urgency(now)).collect();
        match urgencies.len().checked_sub(looks) {
            None | Some(0) => Duration::ZERO,
            Some(at) if at == urgencies.len() => Duration::MAX,
            Some(at) => *urgencies.select_nth_unstable(at).1,
        }
    }

    /// Remembers an open execution whose history is still to be read.
    pub(crate) fn note(&self, basics: Basics, now: Instant) {
        let mut book = self
            .executions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = book.seen.get_mut(&basics.arn) {
            known.basics = basics;
            return;
        }
        book.insert(basics, None, (now, QUICKEST));
        book.make_room();
    }

    /// Remembers an open execution whose newest page was read without the definition.
    pub(crate) fn glimpse(&self, basics: Basics, input: Option<&String>, now: Instant) {
        let mut book = self
            .executions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let arn = basics.arn.clone();
        book.insert(basics, None, (now, QUICKEST));
        let input = input.filter(|input| input.len() <= LONGEST_INPUT).cloned();
        if let Some(seen) = book.seen.get_mut(&arn) {
            seen.glimpsed = Some(Glimpsed { input });
        }
        book.make_room();
    }

    /// Remembers how far a history was read, and when to look again: soon if it moved, later and
    /// later if it did not, and in any case when its next attempt is due.
    pub(crate) fn keep(&self, basics: Basics, read: Read, next: Option<Duration>, now: Instant) {
        let mut book = self
            .executions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = book.seen.get(&basics.arn);
        let before = known.and_then(|seen| Some((seen.read.as_ref()?.fold.last_id(), seen)));
        let (pace, moves) = match before {
            Some((last, seen)) if last == read.fold.last_id() => {
                // A look that had to wait for its turn tells as much as one at a slower pace.
                let passed = now.saturating_duration_since(seen.looked);
                let pace = seen.pace.max(passed).mul_f64(1.5).min(SLOWEST);
                (pace, seen.moves && pace <= LATELY)
            }
            before => (QUICKEST, before.is_some()),
        };
        let wait = next.map_or(pace, |next| next.max(QUICKEST).min(pace));
        let arn = basics.arn.clone();
        book.insert(basics, Some(read), (now + wait, pace));
        if let Some(seen) = book.seen.get_mut(&arn) {
            seen.moves = moves;
            seen.looked = now;
        }
        book.make_room();
    }

    /// Forgets an execution: it ended, or something was asked of it.
    pub(crate) fn forget(&self, arn: &str) {
        let mut book = self
            .executions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        book.remove(arn);
    }

    /// The definition that an execution runs, where that follows from what is known.
    pub(crate) fn definition(&self, of: &Basics) -> Option<Arc<Definition>> {
        let windows = self
            .definitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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
        let mut windows = self
            .definitions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
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

impl Executions {
    fn insert(&mut self, basics: Basics, read: Option<Read>, (due, pace): (Instant, Duration)) {
        let wanted = self.seen.get(&basics.arn).map(|seen| seen.wanted);
        self.remove(&basics.arn);
        self.uses += 1;
        self.events += read.as_ref().map_or(0, |read| read.fold.weight());
        let arn = basics.arn.clone();
        let seen = Seen {
            basics,
            read,
            glimpsed: None,
            moves: false,
            wanted: wanted.unwrap_or(due),
            looked: due,
            due,
            pace,
            used: self.uses,
        };
        self.seen.insert(arn, seen);
    }

    fn remove(&mut self, arn: &str) {
        if let Some(seen) = self.seen.remove(arn) {
            self.events -= seen.read.map_or(0, |read| read.fold.weight());
        }
    }

    /// Forgets the half that was not used for the longest time.
    fn make_room(&mut self) {
        if self.seen.len() <= MOST_EXECUTIONS && self.events <= MOST_EVENTS {
            return;
        }
        let mut uses: Vec<u64> = self.seen.values().map(|seen| seen.used).collect();
        uses.sort_unstable();
        let middle = uses[uses.len() / 2];
        let old = self.seen.iter().filter(|(_, seen)| seen.used < middle);
        let old: Vec<String> = old.map(|(arn, _)| arn.clone()).collect();
        old.iter().for_each(|arn| self.remove(arn));
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
        let book = Book::default();
        let first = r#"{"States":{"A":{"Type":"Pass"}}}"#;
        assert!(book.definition(&basics("x", 1_000)).is_none());
        book.keep_definition(&basics("a", 1_000), definition(first, 100));
        book.keep_definition(&basics("b", 2_000), definition(first, 100));
        // Long after the update and before the last one seen.
        for inside in [160, 1_500, 2_000] {
            assert!(book.definition(&basics("x", inside)).is_some(), "{inside}");
        }
        // Close to the update, or later than anything seen: it may be another one.
        for outside in [120, 2_001] {
            assert!(
                book.definition(&basics("x", outside)).is_none(),
                "{outside}"
            );
        }
    }

    #[test]
    fn what_does_not_move_is_looked_at_less_often() {
        let book = Book::default();
        let now = Instant::now();
        let read = || Read {
            fold: Fold::default(),
            definition: Arc::default(),
            items: BTreeMap::new(),
        };
        let mut waits = Vec::new();
        for _ in 0..20 {
            book.keep(basics("a", 1), read(), None, now);
            waits.push(book.get("a").unwrap().due - now);
        }
        assert_eq!((waits[0], waits[19]), (QUICKEST, SLOWEST));
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
        book.keep(basics("a", 1), read(), Some(Duration::from_secs(5)), now);
        assert_eq!(book.get("a").unwrap().due - now, Duration::from_secs(5));
        book.forget("a");
        assert!(book.get("a").is_none());
    }

    #[test]
    fn the_most_urgent_are_looked_at_whoever_is_asked_for_first() {
        let book = Book::default();
        let now = Instant::now();
        let read = || Read {
            fold: Fold::default(),
            definition: Arc::default(),
            items: BTreeMap::new(),
        };
        let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        for (number, name) in (0..).zip(&names) {
            book.keep(
                basics(name, 1),
                read(),
                None,
                now + Duration::from_secs(number),
            );
        }
        let asked = || names.iter().map(String::as_str);
        let later = now + Duration::from_secs(60);
        let chosen = |looks: usize| {
            let bar = book.bar(asked(), (looks, later));
            let is_chosen = |name: &&String| book.get(name).unwrap().urgency(later) >= bar;
            names.iter().filter(is_chosen).cloned().collect::<Vec<_>>()
        };
        assert_eq!(
            chosen(3),
            ["0", "1", "2"],
            "those that wait for the longest time"
        );
        assert_eq!(chosen(0), Vec::<String>::new());
        assert_eq!(chosen(50).len(), 10);
        // What nobody asks for any more takes no looks from others.
        let much_later = later + WATCHED * 2;
        let last = ["9"].into_iter();
        assert_eq!(book.bar(last, (1, much_later)), Duration::ZERO);
    }

    #[test]
    fn memory_is_bounded() {
        let book = Book::default();
        let read = || Read {
            fold: Fold::default(),
            definition: Arc::default(),
            items: BTreeMap::new(),
        };
        for number in 0..=MOST_EXECUTIONS {
            book.keep(basics(&number.to_string(), 1), read(), None, Instant::now());
        }
        let kept = book.executions.lock().unwrap().seen.len();
        assert!(
            kept <= MOST_EXECUTIONS && kept > MOST_EXECUTIONS / 3,
            "{kept}"
        );
    }
}
