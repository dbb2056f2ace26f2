//! Whose turn it is: how many executions run at once, of each definition and in all, fairly
//! between tenants.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use stateway_machine::Verb;

use super::Keeper;
use super::fair::Fair;
use super::survey::ago;
use crate::request::QueueLine;

/// Who waits for a slot, and how many have one.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    waiting: Fair<Queued>,
    members: HashSet<i64>,
    /// Executions of each definition that have begun and not ended.
    begun: HashMap<Arc<str>, usize>,
}

/// An execution that waits for a slot.
#[derive(Debug, Clone)]
struct Queued {
    number: i64,
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
            members: HashSet::new(),
            begun: HashMap::new(),
        }
    }

    /// Forgets everything but the limits.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.most);
    }

    pub(super) fn set_begun(&mut self, definition: Arc<str>, count: usize) {
        self.begun.insert(definition, count);
    }

    pub(super) fn begin(&mut self, definition: &Arc<str>) {
        *self.begun.entry(Arc::clone(definition)).or_default() += 1;
    }

    pub(super) fn end(&mut self, definition: &Arc<str>) {
        if let Some(count) = self.begun.get_mut(definition) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.begun.remove(definition);
            }
        }
    }

    fn push(&mut self, tenant: &str, queued: Queued) {
        if self.members.insert(queued.number) {
            self.waiting.push(tenant, queued);
        }
    }

    /// One that waits has ended.
    pub(super) fn leave(&mut self, number: i64) {
        self.members.remove(&number);
    }

    /// The next one that may begin.
    fn next(&mut self, active: usize) -> Option<i64> {
        if active >= self.most || self.waiting.is_empty() {
            return None;
        }
        let (members, begun) = (&self.members, &self.begun);
        let fits = |queued: &Queued| {
            let running = begun.get(&queued.definition).copied().unwrap_or(0);
            queued.limit.is_none_or(|limit| running < limit)
        };
        let gone = |queued: &Queued| !members.contains(&queued.number);
        let next = self.waiting.take(fits, gone)?;
        self.members.remove(&next.number);
        Some(next.number)
    }

    /// Who waits; some may be gone already.
    pub(super) fn lines(&self, now: Timestamp) -> Vec<QueueLine> {
        let line = |(tenant, waiting, first): (&str, usize, Option<&Queued>)| QueueLine {
            tenant: tenant.to_owned(),
            waiting,
            oldest: first.and_then(|first| ago(now, first.since)),
        };
        self.waiting.lengths().map(line).collect()
    }
}

impl Keeper {
    /// Puts an execution in memory into the queue.
    pub(super) fn queue(&mut self, number: i64) {
        let Some(live) = self.hot.get(&number) else {
            return;
        };
        let queued = Queued {
            number,
            definition: Arc::clone(&live.origin.definition),
            limit: limit_of(live.state.plan()),
            since: Instant::now(),
        };
        self.slots.push(live.origin.tenant(), queued);
    }

    /// Lets as many begin as may.
    pub(super) fn grant(&mut self) {
        let cause: Arc<str> = "slot".into();
        while let Some(number) = self.slots.next(self.active) {
            if let Err(error) = self.carry(number, &cause, Verb::GrantSlot) {
                tracing::error!(number, "a queued execution cannot begin: {error}");
            }
        }
    }

    /// Counts an execution in memory as having work under way, or no longer.
    pub(super) fn count(&mut self, number: i64, active: bool) {
        if let Some(live) = self.hot.get_mut(&number)
            && live.counted != active
        {
            live.counted = active;
            if active {
                self.active += 1;
            } else {
                self.active -= 1;
            }
        }
    }
}

fn limit_of(plan: &stateway_machine::Plan) -> Option<usize> {
    let limit = plan.definition().concurrency?;
    Some(usize::try_from(limit).unwrap_or(usize::MAX))
}
