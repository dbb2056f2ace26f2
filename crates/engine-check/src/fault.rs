//! Which calls of the store fail, and how.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stateway_engine::simulation::{StoreCall, StoreFate};

use crate::totals::Totals;
use stateway_chance::Chance;

/// A write in which the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashAt {
    /// The number of the write, from 0.
    pub write: u64,
    /// The fate of the write.
    pub fate: StoreFate,
}

/// The plan of one schedule. Clones share it, so that processes of the schedule follow one plan.
#[derive(Debug, Clone)]
pub(crate) struct Faults {
    shared: Arc<Mutex<Plan>>,
}

#[derive(Debug)]
struct Plan {
    chance: Chance,
    /// How many calls in a thousand do not work.
    writes: usize,
    reads: usize,
    slow: usize,
    healed: bool,
    /// The time that slow calls took.
    took: Duration,
    /// The only fault of the schedule.
    crash: Option<CrashAt>,
    /// The writes so far.
    written: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// A plan: no faults at all, few or many.
    pub(crate) fn new(mut chance: Chance, crash: Option<CrashAt>) -> Self {
        let (writes, reads) = match chance.below(10) {
            _ if crash.is_some() => (0, 0),
            0..=2 => (0, 0),
            3..=5 => (60, 0),
            6 | 7 => (150, 4),
            8 => (300, 10),
            _ => (20, 30),
        };
        let plan = Plan {
            slow: if chance.percent(30) { 100 } else { 0 },
            chance,
            writes,
            reads,
            healed: false,
            took: Duration::ZERO,
            crash,
            written: 0,
            counts: BTreeMap::new(),
        };
        Self {
            shared: Arc::new(Mutex::new(plan)),
        }
    }

    /// From now on every call works, or follows the plan again.
    pub(crate) fn heal(&self, healed: bool) {
        self.lock().healed = healed;
    }

    /// The time that slow calls took since this was last asked.
    pub(crate) fn take_time(&self) -> Duration {
        std::mem::take(&mut self.lock().took)
    }

    pub(crate) fn count_into(&self, totals: &mut Totals) {
        totals.add_to("store: writes", self.lock().written);
        for (name, count) in &self.lock().counts {
            totals.add_to(name, *count);
        }
    }

    pub(crate) fn judge(&self) -> impl FnMut(StoreCall) -> StoreFate + Send + 'static {
        let plan = self.clone();
        move |call| plan.lock().fate(call)
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan {
    fn fate(&mut self, call: StoreCall) -> StoreFate {
        if call == StoreCall::Commit {
            self.count("store: commits");
        }
        if self.healed {
            return StoreFate::Works;
        }
        if call == StoreCall::Read {
            return self.read();
        }
        let write = self.written;
        self.written += 1;
        if let Some(crash) = self.crash.filter(|crash| crash.write == write) {
            self.count("fault: crash in a chosen write");
            return crash.fate;
        }
        if self.chance.permille(self.slow) {
            self.count("fault: slow write");
            let milliseconds = self.chance.between(100, 20_000).unsigned_abs();
            self.took += Duration::from_millis(milliseconds);
        }
        if !self.chance.permille(self.writes) {
            return StoreFate::Works;
        }
        let (fate, name) = match self.chance.below(5) {
            0 => (StoreFate::Fails, "fault: write fails"),
            1 => (
                StoreFate::FailsAfterwards,
                "fault: write succeeds without an answer",
            ),
            2 => (StoreFate::DiesBefore, "fault: crash before a write"),
            3 => (StoreFate::DiesAfter, "fault: crash after a write"),
            _ => {
                let writes = self.chance.below(12);
                (StoreFate::Tears(writes), "fault: torn write, then a crash")
            }
        };
        self.count(name);
        fate
    }

    fn read(&mut self) -> StoreFate {
        if !self.chance.permille(self.reads) {
            return StoreFate::Works;
        }
        if self.chance.percent(20) {
            self.count("fault: crash in a read");
            return StoreFate::DiesBefore;
        }
        self.count("fault: read fails");
        StoreFate::Fails
    }

    fn count(&mut self, name: &'static str) {
        *self.counts.entry(name).or_default() += 1;
    }
}
