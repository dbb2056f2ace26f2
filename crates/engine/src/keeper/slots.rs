//! Which queued execution begins next: limited in all and for each definition, fairly between tenants.
//!
//! Keeps counts only: it reads no store and sends nothing; `queue` acts on the result. An execution whose
//! definition has reached its limit waits in the line of its definition, and delays no other definition. For each
//! definition with such a line, the executions that have begun and those in the general line are at
//! least as many as the limit: whenever one of them ends or leaves, the next one moves up.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use super::fair_queue::FairQueue;
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
    waiting: FairQueue<Entry>,
    /// The line of each definition that has reached its limit.
    limited: HashMap<Arc<str>, FairQueue<Entry>>,
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
            waiting: FairQueue::default(),
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
mod tests;
