//! Which queued execution begins next: limited in all and for each definition, fairly between tenants.
//!
//! A book only: it reads no store and sends nothing; `queue` acts by it. An execution whose definition has
//! reached its limit waits in the line of its definition, and nobody waits behind it. For each
//! definition with such a line, the executions that have begun and those in the general line are at
//! least as many as the limit: whenever one of them ends or leaves, the next one moves up.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::fair::Fair;
use super::survey::ago;
use crate::clock::Moment;
use crate::request::QueueLine;
use crate::view::QueueCause;

/// From this many on, stale entries are removed from the lines.
const MOST_STALE: usize = 1_024;

/// An execution that waits for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) number: i64,
    pub(super) tenant: Arc<str>,
    pub(super) definition: Arc<str>,
    /// How many executions of its definition may run at a time.
    pub(super) limit: Option<usize>,
    pub(super) since: Instant,
}

/// The executions that wait for a slot, and those that have one.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    /// The general line.
    waiting: Fair<Entry>,
    /// The line of each definition that has reached its limit.
    limited: HashMap<Arc<str>, Fair<Entry>>,
    /// Executions that could not begin, with the time to try again.
    postponed: BTreeSet<(Instant, i64)>,
    members: HashMap<i64, Member>,
    /// How many members of each definition are in the general line.
    in_line: HashMap<Arc<str>, usize>,
    /// The executions of each definition that have begun and not ended.
    begun: HashMap<Arc<str>, HashSet<i64>>,
    /// Upper bound of the entries in the lines that are stale.
    stale: usize,
    last_ticket: u64,
}

/// A place in a line. Stale once the execution has another ticket or none.
#[derive(Debug, Clone, Copy)]
struct Entry {
    number: i64,
    ticket: u64,
}

#[derive(Debug)]
struct Member {
    queued: Queued,
    line: Line,
    ticket: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    General,
    Definition,
    Postponed(Instant),
}

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            waiting: Fair::default(),
            limited: HashMap::new(),
            postponed: BTreeSet::new(),
            members: HashMap::new(),
            in_line: HashMap::new(),
            begun: HashMap::new(),
            stale: 0,
            last_ticket: 0,
        }
    }

    /// Forgets everything but the limit.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.most);
    }

    /// An execution has begun.
    pub(super) fn begin(&mut self, definition: &Arc<str>, number: i64) {
        let begun = self.begun.entry(Arc::clone(definition)).or_default();
        begun.insert(number);
    }

    /// An execution that had begun has ended.
    pub(super) fn end(&mut self, definition: &Arc<str>, number: i64) {
        let Some(begun) = self.begun.get_mut(definition) else {
            return;
        };
        if begun.remove(&number) {
            if begun.is_empty() {
                self.begun.remove(definition);
            }
            self.move_up(definition);
        }
    }

    /// An execution waits for a slot.
    pub(super) fn push(&mut self, queued: Queued) {
        if !self.members.contains_key(&queued.number) {
            self.enter(queued);
        }
    }

    /// An execution that waited has ended.
    pub(super) fn leave(&mut self, number: i64) {
        let Some(member) = self.members.remove(&number) else {
            return;
        };
        match member.line {
            Line::General => {
                self.leave_line(&member.queued.definition);
                self.stale += 1;
                self.move_up(&member.queued.definition);
            }
            Line::Definition => self.stale += 1,
            Line::Postponed(until) => {
                self.postponed.remove(&(until, number));
            }
        }
        self.sweep();
    }

    /// An execution that was given a slot could not begin: it waits again from this time on.
    pub(super) fn postpone(&mut self, queued: Queued, until: Instant) {
        let (number, definition) = (queued.number, Arc::clone(&queued.definition));
        self.postponed.insert((until, number));
        self.insert(queued, Line::Postponed(until));
        self.move_up(&definition);
    }

    /// An execution that was given a slot does not begin: the next one of its definition moves up.
    pub(super) fn give_up(&mut self, definition: &Arc<str>) {
        self.move_up(definition);
    }

    /// Whether an execution waits for a slot that may be free.
    pub(super) fn are_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// When the first postponed execution is tried again.
    pub(super) fn next_postponed(&self) -> Option<Instant> {
        self.postponed.first().map(|(until, _)| *until)
    }

    /// The next execution that may begin. It does not wait any more.
    pub(super) fn next(&mut self, active: usize, now: Instant) -> Option<Queued> {
        self.resume_postponed(now);
        while active < self.most {
            let members = &self.members;
            let Entry { number, .. } = self.waiting.take(|entry| is_stale(members, entry))?;
            let member = self.members.remove(&number)?;
            self.leave_line(&member.queued.definition);
            if self.has_room(&member.queued) {
                return Some(member.queued);
            }
            // An execution of the definition began without waiting, such as one that is run again.
            let (definition, tenant) = (
                Arc::clone(&member.queued.definition),
                Arc::clone(&member.queued.tenant),
            );
            let entry = self.insert(member.queued, Line::Definition);
            let line = self.limited.entry(definition).or_default();
            line.push_front(&tenant, entry);
        }
        None
    }

    /// Why an execution that waits has not begun.
    pub(super) fn cause(&self, number: i64, active: usize) -> Option<QueueCause> {
        let member = self.members.get(&number)?;
        Some(match (member.line, member.queued.limit) {
            (Line::Definition, Some(limit)) => QueueCause::Concurrency {
                running: self.running(&member.queued.definition),
                limit,
            },
            (Line::Postponed(_), _) => QueueCause::TriedAgain,
            _ if active >= self.most => QueueCause::MaxActive {
                active,
                limit: self.most,
            },
            _ => QueueCause::Next,
        })
    }

    /// The executions that wait, by tenant.
    pub(super) fn lines(&self, now: Moment) -> Vec<QueueLine> {
        let mut lines: BTreeMap<&str, (usize, Instant)> = BTreeMap::new();
        for Member { queued, .. } in self.members.values() {
            let (count, oldest) = lines.entry(&queued.tenant).or_insert((0, queued.since));
            *count += 1;
            *oldest = queued.since.min(*oldest);
        }
        let line = |(tenant, (waiting, oldest)): (&str, (usize, Instant))| QueueLine {
            tenant: tenant.to_owned(),
            waiting,
            oldest: ago(now, oldest),
        };
        lines.into_iter().map(line).collect()
    }

    fn enter(&mut self, queued: Queued) {
        let tenant = Arc::clone(&queued.tenant);
        let definition = Arc::clone(&queued.definition);
        if self.has_room(&queued) {
            let entry = self.insert(queued, Line::General);
            *self.in_line.entry(definition).or_default() += 1;
            self.waiting.push(&tenant, entry);
        } else {
            let entry = self.insert(queued, Line::Definition);
            let line = self.limited.entry(definition).or_default();
            line.push(&tenant, entry);
        }
    }

    fn insert(&mut self, queued: Queued, line: Line) -> Entry {
        self.last_ticket += 1;
        let (number, ticket) = (queued.number, self.last_ticket);
        let member = Member {
            queued,
            line,
            ticket,
        };
        self.members.insert(number, member);
        Entry { number, ticket }
    }

    /// Moves executions from the line of a definition to the general line while the limit allows.
    fn move_up(&mut self, definition: &Arc<str>) {
        while let Some(line) = self.limited.get_mut(definition) {
            let members = &self.members;
            let next = line.take(|entry| is_stale(members, entry));
            if line.is_empty() {
                self.limited.remove(definition);
            }
            let Some(entry) = next else { return };
            let Some(member) = self.members.get(&entry.number) else {
                return;
            };
            let tenant = Arc::clone(&member.queued.tenant);
            if !self.has_room(&member.queued) {
                let line = self.limited.entry(Arc::clone(definition)).or_default();
                line.push_front(&tenant, entry);
                return;
            }
            if let Some(member) = self.members.get_mut(&entry.number) {
                member.line = Line::General;
            }
            *self.in_line.entry(Arc::clone(definition)).or_default() += 1;
            self.waiting.push(&tenant, entry);
        }
    }

    fn resume_postponed(&mut self, now: Instant) {
        while let Some((until, number)) = self.postponed.first().copied() {
            if until > now {
                return;
            }
            self.postponed.remove(&(until, number));
            if let Some(member) = self.members.remove(&number) {
                self.enter(member.queued);
            }
        }
    }

    /// Whether the definition of an execution has room for one more.
    fn has_room(&self, queued: &Queued) -> bool {
        let in_line = self.in_line.get(&queued.definition).copied().unwrap_or(0);
        let taken = self.running(&queued.definition) + in_line;
        queued.limit.is_none_or(|limit| taken < limit)
    }

    fn running(&self, definition: &Arc<str>) -> usize {
        self.begun.get(definition).map_or(0, HashSet::len)
    }

    fn leave_line(&mut self, definition: &Arc<str>) {
        if let Some(count) = self.in_line.get_mut(definition) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.in_line.remove(definition);
            }
        }
    }

    /// Removes stale entries once there are many.
    fn sweep(&mut self) {
        if self.stale <= MOST_STALE || self.stale <= self.members.len() {
            return;
        }
        self.stale = 0;
        let members = &self.members;
        self.waiting.retain(|entry| !is_stale(members, entry));
        self.limited.retain(|_, line| {
            line.retain(|entry| !is_stale(members, entry));
            !line.is_empty()
        });
    }
}

fn is_stale(members: &HashMap<i64, Member>, entry: &Entry) -> bool {
    members
        .get(&entry.number)
        .is_none_or(|member| member.ticket != entry.ticket)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Slots with the executions that have begun, driven like the keeper does.
    struct Run {
        slots: Slots,
        active: Vec<(i64, Arc<str>)>,
        now: Instant,
    }

    impl Run {
        fn new(most: usize) -> Self {
            Self {
                slots: Slots::new(most),
                active: Vec::new(),
                now: Instant::now(),
            }
        }

        fn queued(&self, number: i64, definition: &str, limit: Option<usize>) -> Queued {
            Queued {
                number,
                tenant: "".into(),
                definition: definition.into(),
                limit,
                since: self.now,
            }
        }

        fn queue(&mut self, number: i64, definition: &str, limit: Option<usize>) -> Vec<i64> {
            let queued = self.queued(number, definition, limit);
            self.slots.push(queued);
            self.grant()
        }

        /// The executions that begin now.
        fn grant(&mut self) -> Vec<i64> {
            let mut begun = Vec::new();
            while let Some(next) = self.slots.next(self.active.len(), self.now) {
                self.slots.begin(&next.definition, next.number);
                self.active
                    .push((next.number, Arc::clone(&next.definition)));
                begun.push(next.number);
            }
            begun
        }

        fn end(&mut self, number: i64) -> Vec<i64> {
            let at = self.active.iter().position(|(active, _)| *active == number);
            let (_, definition) = self.active.remove(at.expect("it is active"));
            self.slots.end(&definition, number);
            self.grant()
        }

        fn cancel(&mut self, number: i64) -> Vec<i64> {
            self.slots.leave(number);
            self.grant()
        }

        fn cause(&self, number: i64) -> Option<QueueCause> {
            self.slots.cause(number, self.active.len())
        }
    }

    fn concurrency(running: usize, limit: usize) -> QueueCause {
        QueueCause::Concurrency { running, limit }
    }

    #[test]
    fn the_next_one_moves_up_when_an_execution_that_got_a_slot_does_not_begin() {
        let mut run = Run::new(2);
        run.slots.push(run.queued(1, "one", Some(1)));
        run.slots.push(run.queued(2, "one", Some(1)));
        let ended = run.slots.next(0, run.now).map(|queued| queued.definition);
        let ended = ended.expect("the first execution gets the slot");
        assert!(run.slots.next(0, run.now).is_none());
        run.slots.give_up(&ended);
        let next = run.slots.next(0, run.now).map(|queued| queued.number);
        assert_eq!(next, Some(2));
    }

    #[test]
    fn no_more_begin_than_the_limit_in_all() {
        let mut run = Run::new(2);
        assert_eq!(run.queue(1, "d", None), [1]);
        assert_eq!(run.queue(2, "d", None), [2]);
        assert_eq!(run.queue(3, "d", None), [] as [i64; 0]);
        let (active, limit) = (2, 2);
        assert_eq!(run.cause(3), Some(QueueCause::MaxActive { active, limit }));
        assert_eq!(run.end(1), [3]);
    }

    #[test]
    fn a_definition_at_its_limit_keeps_nobody_else_waiting() {
        let mut run = Run::new(10);
        assert_eq!(run.queue(1, "one", Some(1)), [1]);
        assert_eq!(run.queue(2, "one", Some(1)), [] as [i64; 0]);
        assert_eq!(run.queue(3, "other", None), [3]);
        assert_eq!(run.cause(2), Some(concurrency(1, 1)));
        assert_eq!(run.end(1), [2]);
        assert_eq!(run.cause(2), None);
    }

    #[test]
    fn the_next_one_moves_up_when_the_one_that_moved_up_is_cancelled() {
        let mut run = Run::new(2);
        assert_eq!(run.queue(1, "one", Some(1)), [1]);
        assert_eq!(run.queue(2, "one", Some(1)), [] as [i64; 0]);
        assert_eq!(run.queue(3, "one", Some(1)), [] as [i64; 0]);
        assert_eq!(run.queue(4, "other", None), [4]);
        assert_eq!(run.queue(5, "other", None), [] as [i64; 0]);
        // 5 begins in the place of 1, and 2 moves up behind it.
        assert_eq!(run.end(1), [5]);
        assert_eq!(run.cancel(2), [] as [i64; 0]);
        assert_eq!(run.end(4), [3]);
    }

    #[test]
    fn an_execution_that_could_not_begin_is_tried_again() {
        let mut run = Run::new(2);
        let queued = run.queued(1, "one", Some(1));
        run.slots.push(queued);
        let next = run.slots.next(0, run.now).expect("one may begin");
        run.slots.postpone(next, run.now + Duration::from_secs(1));
        assert_eq!(run.queue(2, "one", Some(1)), [2], "nobody waits behind it");
        run.now += Duration::from_secs(1);
        assert_eq!(run.grant(), [] as [i64; 0]);
        assert_eq!(run.end(2), [1]);
    }

    #[test]
    fn a_postponed_execution_that_was_cancelled_does_not_begin() {
        let mut run = Run::new(2);
        let queued = run.queued(1, "one", None);
        let until = run.now + Duration::from_secs(1);
        run.slots.postpone(queued, until);
        assert_eq!(run.slots.next_postponed(), Some(until));
        run.slots.leave(1);
        run.now = until;
        assert_eq!(run.grant(), [] as [i64; 0]);
        assert_eq!(run.slots.next_postponed(), None);
    }

    #[test]
    fn an_execution_that_begins_without_waiting_counts_and_keeps_the_order() {
        let mut run = Run::new(2);
        run.queue(1, "other", None);
        run.queue(2, "other", None);
        assert_eq!(run.queue(3, "one", Some(1)), [] as [i64; 0]);
        assert_eq!(run.queue(4, "one", Some(1)), [] as [i64; 0]);
        // One that had ended runs again.
        run.slots.begin(&"one".into(), 9);
        run.active.push((9, "one".into()));
        run.end(1);
        assert_eq!(run.end(2), [] as [i64; 0]);
        assert_eq!(run.cause(3), Some(concurrency(1, 1)));
        assert_eq!(run.end(9), [3]);
        assert_eq!(run.end(3), [4]);
    }

    #[test]
    fn an_execution_waits_once_and_may_wait_again() {
        let mut run = Run::new(1);
        run.queue(1, "d", None);
        run.queue(2, "d", None);
        run.queue(2, "d", None);
        assert_eq!(run.cancel(2), [] as [i64; 0]);
        run.queue(2, "d", None);
        assert_eq!(run.end(1), [2]);
        assert_eq!(run.end(2), [] as [i64; 0]);
    }

    /// Every queued execution begins in the end, whatever begins, ends and leaves in between.
    #[test]
    fn nobody_is_forgotten_under_random_ends_and_cancellations() {
        for seed in 0..2_000_u64 {
            let mut chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut random = move |below: u64| {
                chance ^= chance << 13;
                chance ^= chance >> 7;
                chance ^= chance << 17;
                chance % below
            };
            let mut run = Run::new(2);
            let mut waiting = BTreeSet::new();
            let mut last = 0;
            for _ in 0..60 {
                let begun = match random(4) {
                    0 | 1 => {
                        last += 1;
                        waiting.insert(last);
                        let (name, limit) =
                            [("a", Some(1)), ("b", Some(2)), ("c", None)][random(3) as usize];
                        run.queue(last, name, limit)
                    }
                    2 if !run.active.is_empty() => {
                        let at = random(run.active.len() as u64) as usize;
                        run.end(run.active[at].0)
                    }
                    _ => {
                        let all: Vec<i64> = waiting.iter().copied().collect();
                        if all.is_empty() {
                            continue;
                        }
                        let gone = all[random(all.len() as u64) as usize];
                        waiting.remove(&gone);
                        run.cancel(gone)
                    }
                };
                for number in begun {
                    assert!(waiting.remove(&number), "seed {seed}: {number} began twice");
                }
                for (definition, limit) in [("a", 1), ("b", 2)] {
                    let running = run.active.iter().filter(|(_, of)| **of == *definition);
                    assert!(running.count() <= limit, "seed {seed}");
                }
            }
            while let Some((number, _)) = run.active.first().cloned() {
                for begun in run.end(number) {
                    waiting.remove(&begun);
                }
            }
            assert_eq!(waiting, BTreeSet::new(), "seed {seed}: these never begin");
        }
    }
}
