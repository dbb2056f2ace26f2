//! Whose turn it is: how many executions run at once, of each definition and in all, fairly
//! between tenants.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use stateway_machine::Verb;

use super::Keeper;
use super::fair::Fair;
use super::survey::ago;
use crate::clock::Moment;
use crate::request::QueueLine;

/// Who waits for a slot, and how many have one.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    waiting: Fair<Queued>,
    /// Those whose definition runs as often as it may, by definition: they wait for an end of one,
    /// and nobody waits behind them.
    held: HashMap<Arc<str>, Fair<Queued>>,
    members: HashSet<i64>,
    /// How many that left may still stand in a line.
    left: usize,
    /// The executions of each definition that have begun and not ended.
    begun: HashMap<Arc<str>, HashSet<i64>>,
}

/// An execution that waits for a slot.
#[derive(Debug, Clone)]
struct Queued {
    number: i64,
    tenant: Arc<str>,
    definition: Arc<str>,
    /// How many of its definition may run at once.
    limit: Option<usize>,
    since: Instant,
}

impl Slots {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            waiting: Fair::default(),
            held: HashMap::new(),
            members: HashSet::new(),
            left: 0,
            begun: HashMap::new(),
        }
    }

    /// Forgets everything but the limits.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.most);
    }

    /// An execution has begun, if that was not known.
    pub(super) fn begin(&mut self, definition: &Arc<str>, number: i64) {
        let begun = self.begun.entry(Arc::clone(definition)).or_default();
        begun.insert(number);
    }

    /// One that had begun has ended.
    pub(super) fn end(&mut self, definition: &Arc<str>, number: i64) {
        let Some(begun) = self.begun.get_mut(definition) else {
            return;
        };
        if !begun.remove(&number) {
            return;
        }
        if begun.is_empty() {
            self.begun.remove(definition);
        }
        let Some(line) = self.held.get_mut(definition) else {
            return;
        };
        let members = &self.members;
        if let Some(next) = line.take(|queued| !members.contains(&queued.number)) {
            let tenant = Arc::clone(&next.tenant);
            self.waiting.push(&tenant, next);
        }
        if line.is_empty() {
            self.held.remove(definition);
        }
    }

    fn push(&mut self, queued: Queued) {
        if self.members.insert(queued.number) {
            let tenant = Arc::clone(&queued.tenant);
            self.waiting.push(&tenant, queued);
        }
    }

    /// One that waits has ended.
    pub(super) fn leave(&mut self, number: i64) {
        if !self.members.remove(&number) {
            return;
        }
        self.left += 1;
        if self.left > MOST_LEFT && self.left > self.members.len() {
            self.left = 0;
            let members = &self.members;
            self.waiting
                .retain(|queued| members.contains(&queued.number));
            self.held.retain(|_, line| {
                line.retain(|queued| members.contains(&queued.number));
                !line.is_empty()
            });
        }
    }

    /// Whether anyone waits for a slot.
    pub(super) fn are_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next one that may begin.
    fn next(&mut self, active: usize) -> Option<i64> {
        while active < self.most {
            let members = &self.members;
            let next = self
                .waiting
                .take(|queued| !members.contains(&queued.number))?;
            let running = self.begun.get(&next.definition).map_or(0, HashSet::len);
            if next.limit.is_none_or(|limit| running < limit) {
                self.members.remove(&next.number);
                return Some(next.number);
            }
            let line = self.held.entry(Arc::clone(&next.definition)).or_default();
            let tenant = Arc::clone(&next.tenant);
            line.push(&tenant, next);
        }
        None
    }

    /// Who waits.
    pub(super) fn lines(&self, now: Moment) -> Vec<QueueLine> {
        let held = self.held.values().flat_map(Fair::iter);
        let mut lines: BTreeMap<&str, (usize, Instant)> = BTreeMap::new();
        for (tenant, queued) in self.waiting.iter().chain(held) {
            if self.members.contains(&queued.number) {
                let (count, oldest) = lines.entry(tenant).or_insert((0, queued.since));
                *count += 1;
                *oldest = queued.since.min(*oldest);
            }
        }
        let line = |(tenant, (waiting, oldest)): (&str, (usize, Instant))| QueueLine {
            tenant: tenant.to_owned(),
            waiting,
            oldest: ago(now, oldest),
        };
        lines.into_iter().map(line).collect()
    }
}

/// From this many on, those that left are looked for.
const MOST_LEFT: usize = 1_024;

impl Keeper {
    /// Puts an execution in memory into the queue.
    pub(super) fn queue(&mut self, number: i64) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let queued = Queued {
            number,
            tenant: live.origin.tenant().into(),
            definition: Arc::clone(&live.origin.definition),
            limit: limit_of(live.state.plan()),
            since: self.now.steady,
        };
        self.slots.push(queued);
    }

    /// Lets as many begin as may.
    pub(super) fn grant(&mut self) {
        let cause: Arc<str> = "slot".into();
        while let Some(number) = self.slots.next(self.executions.active()) {
            if let Err(error) = self.carry(number, &cause, Verb::GrantSlot) {
                tracing::error!(number, "a queued execution cannot begin: {error}");
            }
        }
    }
}

fn limit_of(plan: &stateway_machine::Plan) -> Option<usize> {
    let limit = plan.definition().concurrency?;
    Some(usize::try_from(limit).unwrap_or(usize::MAX))
}
