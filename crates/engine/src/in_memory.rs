//! Where an execution is found fastest: with the keeper, among those that ended last, or on disk.
//!
//! Readers ask here before they disturb the keeper. A client that waits for the end of an execution
//! reads it just after it has left the keeper's memory; it stays here for a while, so that its log is
//! not replayed for that.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stateway_machine::State;

use crate::View;
use crate::coverage::Coverage;
use crate::view::{EngineView as _, Origin};

/// The most executions that are kept after their end.
const MOST_ENDED: usize = 1_024;
/// The most bytes that the logs of these executions have together.
const MOST_ENDED_BYTES: usize = 4 * 1024 * 1024;

/// Which executions are in memory, shared by the keeper and the readers.
#[derive(Debug, Default)]
pub(crate) struct InMemory(Mutex<Index>);

/// Where to find an execution.
#[derive(Debug)]
pub(crate) enum Place {
    /// The keeper has the execution in memory, or had it a moment ago.
    Keeper,
    /// It has ended, and is on disk as it is here.
    Ended(Arc<Ended>),
    /// The execution is only on disk, if it exists.
    Disk,
}

/// An execution that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) origin: Arc<Origin>,
    pub(crate) state: State,
    /// The bytes of its log.
    pub(crate) bytes: usize,
}

impl Ended {
    pub(crate) fn view(&self, coverage: &Coverage) -> View {
        View::with_coverage(&self.origin, &self.state, coverage)
    }
}

#[derive(Debug, Default)]
struct Index {
    with_keeper: HashSet<Arc<str>>,
    ended: HashMap<Arc<str>, Arc<Ended>>,
    /// Those that ended, oldest first. Some of them may have left `ended` already.
    order: VecDeque<(Arc<str>, i64)>,
    bytes: usize,
}

impl InMemory {
    pub(crate) fn find(&self, id: &str) -> Place {
        let index = self.index();
        if index.with_keeper.contains(id) {
            return Place::Keeper;
        }
        let ended = index.ended.get(id);
        ended.map_or(Place::Disk, |ended| Place::Ended(Arc::clone(ended)))
    }

    /// The keeper has taken an execution up.
    pub(crate) fn taken_up(&self, id: &Arc<str>) {
        let mut index = self.index();
        index.with_keeper.insert(Arc::clone(id));
        index.forget(id);
    }

    /// The keeper has dropped an execution that is on disk.
    pub(crate) fn dropped(&self, id: &str) {
        self.index().with_keeper.remove(id);
    }

    /// The keeper has dropped an execution that has ended and is on disk.
    pub(crate) fn ended(&self, ended: Ended) {
        let mut index = self.index();
        let id = Arc::clone(&ended.origin.id);
        index.with_keeper.remove(&id);
        if ended.bytes > MOST_ENDED_BYTES {
            return;
        }
        index.forget(&id);
        index.bytes += ended.bytes;
        index
            .order
            .push_back((Arc::clone(&id), ended.origin.number));
        index.ended.insert(id, Arc::new(ended));
        while index.order.len() > MOST_ENDED || index.bytes > MOST_ENDED_BYTES {
            let Some((oldest, number)) = index.order.pop_front() else {
                break;
            };
            // The id may have been used again since.
            let same = |ended: &Arc<Ended>| ended.origin.number == number;
            if index.ended.get(&oldest).is_some_and(same) {
                index.forget(&oldest);
            }
        }
    }

    /// The store has removed an execution.
    pub(crate) fn removed(&self, id: &str) {
        self.index().forget(id);
    }

    /// The keeper has dropped everything.
    pub(crate) fn clear(&self) {
        *self.index() = Index::default();
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    fn forget(&mut self, id: &str) {
        if let Some(ended) = self.ended.remove(id) {
            self.bytes -= ended.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(number: i64, bytes: usize) -> Ended {
        let source = "name: one\nsteps:\n  - name: a\n    agent: worker\n";
        let usable = crate::catalogue::Catalogue::default().usable(source, "one.yaml");
        let state = State::new(usable.expect("a definition").plan);
        let origin = Origin {
            number,
            id: format!("e{number}").into(),
            definition: "d".into(),
            labels: Arc::default(),
            parent: None,
            depth: 0,
            not_before: None,
            forked_from: None,
        };
        Ended {
            origin: Arc::new(origin),
            state,
            bytes,
        }
    }

    fn place(memory: &InMemory, id: &str) -> &'static str {
        match memory.find(id) {
            Place::Keeper => "keeper",
            Place::Ended(_) => "ended",
            Place::Disk => "disk",
        }
    }

    #[test]
    fn an_execution_is_with_the_keeper_then_among_the_ended_then_on_disk() {
        let memory = InMemory::default();
        let id: Arc<str> = "e1".into();
        assert_eq!(place(&memory, "e1"), "disk");
        memory.taken_up(&id);
        assert_eq!(place(&memory, "e1"), "keeper");
        memory.ended(ended(1, 10));
        assert_eq!(place(&memory, "e1"), "ended");
        // It is opened again.
        memory.taken_up(&id);
        assert_eq!(place(&memory, "e1"), "keeper");
        memory.dropped("e1");
        assert_eq!(place(&memory, "e1"), "disk");
        memory.ended(ended(1, 10));
        memory.removed("e1");
        assert_eq!(place(&memory, "e1"), "disk");
    }

    #[test]
    fn the_ended_are_bounded_by_number_and_by_bytes() {
        let memory = InMemory::default();
        for number in 0..=1_024 {
            memory.ended(ended(number, 1));
        }
        assert_eq!(place(&memory, "e0"), "disk");
        assert_eq!(place(&memory, "e1"), "ended");
        memory.ended(ended(2_000, MOST_ENDED_BYTES - 1));
        assert_eq!(place(&memory, "e1023"), "disk");
        assert_eq!(place(&memory, "e1024"), "ended");
        assert_eq!(place(&memory, "e2000"), "ended");
        memory.ended(ended(2_001, MOST_ENDED_BYTES + 1));
        assert_eq!(place(&memory, "e2001"), "disk");
        assert_eq!(place(&memory, "e2000"), "ended");
    }
}
