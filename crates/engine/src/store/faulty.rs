//! A store whose calls fail as a simulation decides.
//!
//! The layer keeps the contract of a store: a failed turn is in the store as a whole or not at all. The one
//! exception is a torn turn: a disk that loses power in a write may have a part of it. A process can also die
//! in a call. From then on, every call of that process fails.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use stateway_model::SubState;

use super::layer::layered_reading;
use super::{
    Answered, Backend, Branch, Commit, DefinitionReading, EachRow, Epoch, ExecutionRow, FileStore,
    Hash, LogReading, Reading, RequestReading, Result, RowReading, Snapshot, Store, StoreError,
    Turn,
};
use crate::bug::Bug;
use crate::request::{DefinitionRecord, DisabledTrigger, EventRecord, ListQuery};

/// A call of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreCall {
    /// A process opens the store.
    Open,
    /// Any read.
    Read,
    /// A turn is written.
    Commit,
    /// A process becomes the owner of the store, or makes sure that it is.
    Own,
}

/// The result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreFate {
    /// The call succeeds.
    Works,
    /// The call fails and has no effect.
    Fails,
    /// The call has its effect, but reports a failure.
    FailsAfterwards,
    /// The process dies, and the call has no effect.
    DiesBefore,
    /// The call has its effect, and then the process dies.
    DiesAfter,
    /// The process dies in the middle of a commit: this many writes of the turn are in the store, and the
    /// others are not. Any other call has no effect.
    Tears(usize),
}

type Judge = Box<dyn FnMut(StoreCall) -> StoreFate + Send>;

/// Decides about each call of one process.
#[derive(Clone)]
pub(crate) struct StoreFaults {
    shared: Arc<Mutex<Process>>,
}

struct Process {
    judge: Judge,
    dead: bool,
}

impl std::fmt::Debug for StoreFaults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreFaults")
            .field("dead", &self.has_died())
            .finish()
    }
}

impl StoreFaults {
    pub(crate) fn by(judge: impl FnMut(StoreCall) -> StoreFate + Send + 'static) -> Self {
        let process = Process {
            judge: Box::new(judge),
            dead: false,
        };
        Self {
            shared: Arc::new(Mutex::new(process)),
        }
    }

    /// Whether the process died in a call.
    pub(crate) fn has_died(&self) -> bool {
        self.lock().dead
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Process> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(&self, call: StoreCall, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let fate = self.fate(call)?;
        match fate {
            StoreFate::Works => work(),
            StoreFate::Fails | StoreFate::DiesBefore | StoreFate::Tears(_) => Err(simulated()),
            StoreFate::FailsAfterwards | StoreFate::DiesAfter => {
                work()?;
                Err(simulated())
            }
        }
    }

    /// Decides about a call.
    fn fate(&self, call: StoreCall) -> Result<StoreFate> {
        let mut process = self.lock();
        if process.dead {
            return Err(StoreError::Failed("the process has died".to_owned()));
        }
        let fate = (process.judge)(call);
        process.dead = matches!(
            fate,
            StoreFate::DiesBefore | StoreFate::DiesAfter | StoreFate::Tears(_)
        );
        Ok(fate)
    }
}

/// What a store with this defect writes.
fn damaged(mut turn: Turn, bug: Bug) -> Turn {
    match bug {
        Bug::ForgetsRequests => turn.requests.clear(),
        Bug::ForgetsBranches => turn.branches.clear(),
        Bug::ForgetsTimers => {
            let created = turn.created.iter_mut().map(|created| &mut created.status);
            let changed = turn.statuses.iter_mut().map(|(_, status)| status);
            for status in created.chain(changed) {
                let timer = |due: &Timestamp| *due > Timestamp::UNIX_EPOCH;
                status.wake_at = status.wake_at.filter(|due| !timer(due));
            }
        }
        Bug::BreaksTheChain => {
            for append in &mut turn.appends {
                append.hash = super::link(&super::BEGINNING, &append.lines);
            }
        }
        Bug::SnapshotsTooMuch => {
            for snapshot in &mut turn.snapshots {
                snapshot.sequence += 1;
            }
        }
        _ => {}
    }
    turn
}

fn simulated() -> StoreError {
    StoreError::Failed("a simulated failure".to_owned())
}

/// A backend with faults.
#[derive(Debug, Clone)]
pub(crate) struct FaultyBackend<B> {
    pub(crate) inner: B,
    pub(crate) faults: StoreFaults,
    /// A defect of the store.
    pub(crate) bug: Option<Bug>,
}

/// An open store with faults.
#[derive(Debug)]
struct Faulty<P> {
    faults: StoreFaults,
    bug: Option<Bug>,
    inner: P,
}

impl<P> Faulty<P> {
    fn over<Q>(&self, inner: Q) -> Faulty<Q> {
        Faulty {
            faults: self.faults.clone(),
            bug: self.bug,
            inner,
        }
    }

    fn read<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.faults.call(StoreCall::Read, work)
    }
}

layered_reading!(Faulty);

impl<B: Backend> Backend for FaultyBackend<B> {
    fn open(&self) -> Result<Box<dyn Store>> {
        let inner = self.faults.call(StoreCall::Open, || self.inner.open())?;
        Ok(Box::new(Faulty {
            faults: self.faults.clone(),
            bug: self.bug,
            inner,
        }))
    }

    fn reader(&self) -> Result<Box<dyn Reading + Send>> {
        Ok(Box::new(Faulty {
            faults: self.faults.clone(),
            bug: self.bug,
            inner: self.inner.reader()?,
        }))
    }

    fn file(&self) -> Option<&dyn FileStore> {
        self.inner.file()
    }
}

impl Faulty<Box<dyn Store>> {
    fn write(&mut self, turn: &Turn) -> Commit {
        let fate = match self.faults.fate(StoreCall::Commit) {
            Ok(fate) => fate,
            Err(error) => return Commit::Failed(error),
        };
        let done = match fate {
            StoreFate::Works => return self.inner.commit(turn),
            StoreFate::Fails | StoreFate::DiesBefore => Commit::Committed,
            StoreFate::FailsAfterwards | StoreFate::DiesAfter => self.inner.commit(turn),
            StoreFate::Tears(writes) => self.inner.commit(&turn.first(writes)),
        };
        match done {
            Commit::Committed => Commit::Failed(simulated()),
            refused => refused,
        }
    }
}

impl Store for Faulty<Box<dyn Store>> {
    fn own(&mut self) -> Result<Epoch> {
        self.faults.call(StoreCall::Own, || self.inner.own())
    }

    fn check(&self) -> Result<()> {
        self.inner.check()
    }

    fn commit(&mut self, turn: &Turn) -> Commit {
        let Some(bug) = self.bug else {
            return self.write(turn);
        };
        let done = self.write(&damaged(turn.clone(), bug));
        if bug == Bug::AnswersWithoutCommit && !self.faults.has_died() {
            return Commit::Committed;
        }
        done
    }

    fn last_position(&self) -> i64 {
        self.inner.last_position()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryDisk;

    fn turn(position: i64) -> Turn {
        Turn {
            sinks: vec![("s".into(), position)],
            ..Turn::default()
        }
    }

    /// What a commit with this fate leaves in the store, and whether the process lives on.
    fn after(fate: StoreFate) -> (bool, Option<i64>, bool) {
        let disk = MemoryDisk::default();
        let faults = StoreFaults::by(move |call| match call {
            StoreCall::Commit => fate,
            _ => StoreFate::Works,
        });
        let backend = FaultyBackend {
            inner: disk.clone(),
            faults: faults.clone(),
            bug: None,
        };
        let mut store = backend.open().unwrap();
        let worked = store.commit(&turn(1)).result().is_ok();
        let alive = store.own().is_ok();
        assert_eq!(alive, !faults.has_died());
        let stored = disk.reader().unwrap().sink_position("s").unwrap();
        (worked, stored, alive)
    }

    #[test]
    fn a_fate_decides_about_effect_answer_and_process() {
        assert_eq!(after(StoreFate::Works), (true, Some(1), true));
        assert_eq!(after(StoreFate::Fails), (false, None, true));
        assert_eq!(after(StoreFate::FailsAfterwards), (false, Some(1), true));
        assert_eq!(after(StoreFate::DiesBefore), (false, None, false));
        assert_eq!(after(StoreFate::DiesAfter), (false, Some(1), false));
        assert_eq!(after(StoreFate::Tears(0)), (false, None, false));
        assert_eq!(after(StoreFate::Tears(1)), (false, Some(1), false));
    }
}
