//! Which of many executions to read now, where each read costs a call of a quota.
//!
//! A list or a watch shows more executions than the quota can read. Each one that was read is
//! remembered and is due again soon if it moved, later and later if it did not. Of those that are due,
//! the most urgent are read; the others are shown as they were last read. Everything here can be lost
//! at any time; then it is read again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lock;

/// How often executions are read, and how many are remembered.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// An execution that moved is due again after this.
    pub fastest: Duration,
    /// An execution that has not moved for long is due again after this.
    pub slowest: Duration,
    /// An execution whose pace is not slower than this counts as one that moves.
    pub moving: Duration,
    /// For how long after a request an execution competes for reads with the others.
    pub wanted: Duration,
    /// The most executions remembered.
    pub max_executions: usize,
    /// The most weight remembered, over all executions.
    pub most_weight: usize,
}

impl Pace {
    /// Reads after one second to one minute; 10,000 executions and a weight of 1,000,000.
    pub const DEFAULT: Self = Self {
        fastest: Duration::from_secs(1),
        slowest: Duration::from_secs(60),
        moving: Duration::from_secs(10),
        wanted: Duration::from_secs(120),
        max_executions: 10_000,
        most_weight: 1_000_000,
    };
}

/// Weight of overdue time for executions that moved lately: neither kind can keep the other from being
/// read.
const MOVES_COUNT: u32 = 4;
/// By how much the pace slows down when an execution did not move.
const SLOWER: f64 = 1.5;

/// What is known of one execution. The value is shared, never copied.
#[derive(Debug)]
pub struct Scheduled<T> {
    /// What the adapter remembers.
    pub value: Arc<T>,
    /// How far it was when it was read last; `None` before the first read.
    progress: Option<u64>,
    due: Instant,
    pace: Duration,
    moves: bool,
    read: Instant,
    wanted: Instant,
    used: u64,
    weight: usize,
}

impl<T> Clone for Scheduled<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
            ..*self
        }
    }
}

impl<T> Scheduled<T> {
    /// Whether it was read before.
    #[must_use]
    pub const fn was_read(&self) -> bool {
        self.progress.is_some()
    }

    /// Whether it is time to read it again.
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        !self.was_read() || self.due <= now
    }

    /// How long it has been due, weighted. What was never read comes first.
    fn urgency(&self, now: Instant) -> Duration {
        let overdue = now.saturating_duration_since(self.due);
        if !self.was_read() {
            Duration::MAX
        } else if self.moves {
            overdue.saturating_mul(MOVES_COUNT)
        } else {
            overdue
        }
    }
}

/// One execution as it was read.
#[derive(Debug)]
pub struct Reading<T> {
    /// What to remember.
    pub value: T,
    /// A number that grows when the execution moves, for example of its last event.
    pub progress: u64,
    /// How much the value counts towards [`Pace::most_weight`].
    pub weight: usize,
    /// In how long the next change is expected, where that is known.
    pub next_change: Option<Duration>,
}

/// Decides which executions of one request are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    now: Instant,
    /// The urgency that a read takes; `None`: nothing can be read.
    bar: Option<Duration>,
}

impl Round {
    /// Whether the execution is among the most urgent.
    #[must_use]
    pub fn admits<T>(&self, known: &Scheduled<T>) -> bool {
        let is_urgent = |bar| known.urgency(self.now) >= bar;
        known.is_due(self.now) && self.bar.is_some_and(is_urgent)
    }
}

/// What is remembered of many executions, by id.
#[derive(Debug)]
pub struct ReadSchedule<T> {
    pace: Pace,
    entries: Mutex<Entries<T>>,
}

#[derive(Debug)]
struct Entries<T> {
    by_id: HashMap<String, Scheduled<T>>,
    uses: u64,
    weight: usize,
}

impl<T> ReadSchedule<T> {
    /// An empty schedule.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            entries: Mutex::new(Entries {
                by_id: HashMap::new(),
                uses: 0,
                weight: 0,
            }),
        }
    }

    /// What is known of an execution.
    pub fn get(&self, id: &str) -> Option<Scheduled<T>> {
        let mut entries = lock(&self.entries);
        entries.uses += 1;
        let uses = entries.uses;
        let known = entries.by_id.get_mut(id)?;
        known.used = uses;
        Some(known.clone())
    }

    /// The round of a request for these executions, if so many can be read now. They compete with all
    /// that were requested lately.
    pub fn round<'a>(
        &self,
        requested: impl Iterator<Item = &'a str>,
        reads: usize,
        now: Instant,
    ) -> Round {
        let mut entries = lock(&self.entries);
        for id in requested {
            if let Some(known) = entries.by_id.get_mut(id) {
                known.wanted = now;
            }
        }
        let competes = |known: &&Scheduled<T>| {
            known.is_due(now) && now.saturating_duration_since(known.wanted) < self.pace.wanted
        };
        let due = entries.by_id.values().filter(competes);
        let mut urgencies: Vec<Duration> = due.map(|known| known.urgency(now)).collect();
        let bar = match urgencies.len().checked_sub(reads) {
            None | Some(0) => Some(Duration::ZERO),
            Some(at) if at == urgencies.len() => None,
            Some(at) => Some(*urgencies.select_nth_unstable(at).1),
        };
        Round { now, bar }
    }

    /// Replaces what is remembered of an execution without reading it. An unknown execution is due
    /// immediately. `change` gets what is known.
    pub fn note(&self, id: &str, now: Instant, change: impl FnOnce(Option<&T>) -> T) {
        let mut entries = lock(&self.entries);
        if let Some(known) = entries.by_id.get_mut(id) {
            known.value = Arc::new(change(Some(&known.value)));
            return;
        }
        let value = Arc::new(change(None));
        entries.insert(id, Scheduled::unread(value, now, self.pace.fastest));
        entries.make_room(&self.pace);
    }

    /// Remembers an execution that was read.
    pub fn keep(&self, id: &str, reading: Reading<T>, now: Instant) {
        let mut entries = lock(&self.entries);
        let known = entries.by_id.get(id);
        let (pace, moves) = match known {
            Some(known) if known.progress == Some(reading.progress) => {
                // A read that had to wait for its turn shows as much as a slower pace.
                let passed = now.saturating_duration_since(known.read);
                let pace = known.pace.max(passed).mul_f64(SLOWER);
                let pace = pace.min(self.pace.slowest);
                (pace, known.moves && pace <= self.pace.moving)
            }
            known => {
                let was_read = known.is_some_and(Scheduled::was_read);
                (self.pace.fastest, was_read)
            }
        };
        let wait = reading
            .next_change
            .map_or(pace, |next| next.max(self.pace.fastest).min(pace));
        let wanted = known.map_or(now, |known| known.wanted);
        let scheduled = Scheduled {
            value: Arc::new(reading.value),
            progress: Some(reading.progress),
            due: now + wait,
            pace,
            moves,
            read: now,
            wanted,
            used: 0,
            weight: reading.weight,
        };
        entries.insert(id, scheduled);
        entries.make_room(&self.pace);
    }

    /// Forgets an execution: it ended, or something was requested of it.
    pub fn forget(&self, id: &str) {
        lock(&self.entries).remove(id);
    }

    /// How many executions are remembered.
    pub fn len(&self) -> usize {
        lock(&self.entries).by_id.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Scheduled<T> {
    const fn unread(value: Arc<T>, now: Instant, pace: Duration) -> Self {
        Self {
            value,
            progress: None,
            due: now,
            pace,
            moves: false,
            read: now,
            wanted: now,
            used: 0,
            weight: 0,
        }
    }
}

impl<T> Entries<T> {
    fn insert(&mut self, id: &str, mut scheduled: Scheduled<T>) {
        self.remove(id);
        self.uses += 1;
        scheduled.used = self.uses;
        self.weight += scheduled.weight;
        self.by_id.insert(id.to_owned(), scheduled);
    }

    fn remove(&mut self, id: &str) {
        if let Some(known) = self.by_id.remove(id) {
            self.weight -= known.weight;
        }
    }

    /// Forgets the half that was not used for the longest time.
    fn make_room(&mut self, pace: &Pace) {
        if self.by_id.len() <= pace.max_executions && self.weight <= pace.most_weight {
            return;
        }
        let mut uses: Vec<u64> = self.by_id.values().map(|known| known.used).collect();
        uses.sort_unstable();
        let middle = uses[uses.len() / 2];
        let old = self.by_id.iter().filter(|(_, known)| known.used < middle);
        let old: Vec<String> = old.map(|(id, _)| id.clone()).collect();
        old.iter().for_each(|id| self.remove(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(progress: u64, next_change: Option<Duration>) -> Reading<u32> {
        Reading {
            value: 7,
            progress,
            weight: 1,
            next_change,
        }
    }

    fn wait(schedule: &ReadSchedule<u32>, id: &str, now: Instant) -> Duration {
        schedule.get(id).unwrap().due - now
    }

    const PACE: Pace = Pace::DEFAULT;

    #[test]
    fn what_does_not_move_is_read_less_often() {
        let (schedule, now) = (ReadSchedule::new(PACE), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..20 {
            schedule.keep("a", reading(1, None), now);
            waits.push(wait(&schedule, "a", now));
        }
        assert_eq!((waits[0], waits[19]), (PACE.fastest, PACE.slowest));
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]));
        schedule.keep("a", reading(1, Some(Duration::from_secs(5))), now);
        assert_eq!(wait(&schedule, "a", now), Duration::from_secs(5));
        schedule.keep("a", reading(2, None), now);
        assert_eq!(wait(&schedule, "a", now), PACE.fastest);
        schedule.forget("a");
        assert!(schedule.get("a").is_none() && schedule.is_empty());
    }

    #[test]
    fn the_most_urgent_are_read_whichever_is_requested_first() {
        let (schedule, now) = (ReadSchedule::new(PACE), Instant::now());
        let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        for (number, name) in (0..).zip(&names) {
            schedule.keep(name, reading(1, None), now + Duration::from_secs(number));
        }
        let requested = || names.iter().map(String::as_str);
        let later = now + Duration::from_secs(60);
        let chosen = |reads: usize| {
            let round = schedule.round(requested(), reads, later);
            let admitted = |name: &&String| round.admits(&schedule.get(name).unwrap());
            names.iter().filter(admitted).cloned().collect::<Vec<_>>()
        };
        assert_eq!(
            chosen(3),
            ["0", "1", "2"],
            "those that are due for the longest time"
        );
        assert_eq!(chosen(0), Vec::<String>::new());
        assert_eq!(chosen(50).len(), 10);
    }

    #[test]
    fn what_nobody_requests_any_more_takes_no_read_from_others() {
        let (schedule, now) = (ReadSchedule::new(PACE), Instant::now());
        for name in ["old", "new"] {
            schedule.keep(name, reading(1, None), now);
        }
        let much_later = now + PACE.wanted * 2;
        let round = schedule.round(["new"].into_iter(), 1, much_later);
        assert!(round.admits(&schedule.get("new").unwrap()));
    }

    #[test]
    fn what_was_never_read_comes_first_and_what_moves_comes_before_what_does_not() {
        let (schedule, now) = (ReadSchedule::new(PACE), Instant::now());
        schedule.note("unread", now, |_| 1);
        for progress in [1, 2] {
            schedule.keep("moves", reading(progress, None), now);
        }
        schedule.keep("rests", reading(1, None), now);
        let later = now + Duration::from_secs(10);
        let names = ["unread", "moves", "rests"];
        let first = |reads| {
            let round = schedule.round(names.into_iter(), reads, later);
            let admitted = |name: &&str| round.admits(&schedule.get(name).unwrap());
            names.into_iter().filter(admitted).collect::<Vec<_>>()
        };
        assert_eq!(first(0), [""; 0]);
        assert_eq!(first(1), ["unread"]);
        assert_eq!(first(2), ["unread", "moves"]);
    }

    #[test]
    fn a_note_changes_the_value_and_not_the_time() {
        let (schedule, now) = (ReadSchedule::new(PACE), Instant::now());
        schedule.note("a", now, |known| known.copied().unwrap_or(1));
        assert!(!schedule.get("a").unwrap().was_read());
        schedule.keep("a", reading(1, None), now);
        schedule.note("a", now, |known| known.copied().unwrap_or(1) + 1);
        let known = schedule.get("a").unwrap();
        assert_eq!((*known.value, known.was_read()), (8, true));
        assert_eq!(wait(&schedule, "a", now), PACE.fastest);
    }

    #[test]
    fn memory_is_bounded_by_count_and_by_weight() {
        let pace = Pace {
            max_executions: 100,
            most_weight: 1_000,
            ..PACE
        };
        let (many, now) = (ReadSchedule::new(pace), Instant::now());
        for number in 0..=100 {
            many.keep(&number.to_string(), reading(1, None), now);
        }
        assert!((34..=100).contains(&many.len()), "{}", many.len());
        let heavy = ReadSchedule::new(pace);
        for number in 0..20 {
            let heavy_one = Reading {
                weight: 100,
                ..reading(1, None)
            };
            heavy.keep(&number.to_string(), heavy_one, now);
        }
        assert!(heavy.len() <= 10, "{}", heavy.len());
    }
}
