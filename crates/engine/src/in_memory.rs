//! Where an execution is found fastest: with the keeper, among those that ended last, among those that were read
//! last, or on disk.
//!
//! Readers ask here before they disturb the keeper. A client that waits for the end of an execution
//! reads it just after it has left the keeper's memory; it stays here for a while, so that its log is
//! not replayed for that. A finished execution that was read from disk stays here too, until the keeper takes it up
//! or the store removes it: only the keeper writes, and it takes an execution up before it writes to it.

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
/// The most finished executions that are kept after they were read.
const MOST_READ: usize = 1_024;
/// The most bytes that the summaries of these executions have together.
const MOST_READ_BYTES: usize = 1024 * 1024;

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
    /// It has ended, and was read from disk.
    Read(Arc<View>),
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
    read: HashMap<Arc<str>, ReadEntry>,
    /// Those that were read, oldest first, with the number of the read. Some of them may have left `read` already.
    read_order: VecDeque<(Arc<str>, u64)>,
    read_bytes: usize,
    /// The reads of the store that are under way, by execution: the number of the last one.
    reading: HashMap<Arc<str>, u64>,
    reads: u64,
}

/// A finished execution that was read.
#[derive(Debug)]
struct ReadEntry {
    view: Arc<View>,
    bytes: usize,
    /// The number of the read.
    read: u64,
}

/// A read of the store that is under way.
#[derive(Debug)]
#[must_use]
pub(crate) struct ReadUnderWay(u64);

impl InMemory {
    pub(crate) fn find(&self, id: &str) -> Place {
        let index = self.index();
        if index.with_keeper.contains(id) {
            return Place::Keeper;
        }
        if let Some(ended) = index.ended.get(id) {
            return Place::Ended(Arc::clone(ended));
        }
        let read = index.read.get(id);
        read.map_or(Place::Disk, |read| Place::Read(Arc::clone(&read.view)))
    }

    /// A read of an execution from the store begins.
    pub(crate) fn begin_read(&self, id: &Arc<str>) -> ReadUnderWay {
        let mut index = self.index();
        index.reads += 1;
        let read = index.reads;
        index.reading.insert(Arc::clone(id), read);
        ReadUnderWay(read)
    }

    /// A read has ended. What it found is kept if it is a finished execution whose summary has so many bytes, unless
    /// the keeper has the execution, or had it meanwhile, or it was removed.
    pub(crate) fn end_read(
        &self,
        id: &Arc<str>,
        ReadUnderWay(read): ReadUnderWay,
        found: Option<(Arc<View>, usize)>,
    ) {
        let mut index = self.index();
        if index.reading.get(id) != Some(&read) {
            return;
        }
        index.reading.remove(id);
        if index.with_keeper.contains(id) {
            // The stored value may be out of date.
            return;
        }
        let Some((view, bytes)) = found.filter(|(_, bytes)| *bytes <= MOST_READ_BYTES) else {
            return;
        };
        index.forget_read(id);
        index.read_bytes += bytes;
        index.read_order.push_back((Arc::clone(id), read));
        let entry = ReadEntry { view, bytes, read };
        index.read.insert(Arc::clone(id), entry);
        while index.read_order.len() > MOST_READ || index.read_bytes > MOST_READ_BYTES {
            let Some((oldest, read)) = index.read_order.pop_front() else {
                break;
            };
            if index
                .read
                .get(&oldest)
                .is_some_and(|entry| entry.read == read)
            {
                index.forget_read(&oldest);
            }
        }
    }

    /// The keeper has taken an execution up.
    pub(crate) fn taken_up(&self, id: &Arc<str>) {
        let mut index = self.index();
        index.with_keeper.insert(Arc::clone(id));
        index.forget_all(id);
    }

    /// The keeper has dropped an execution that is on disk.
    pub(crate) fn dropped(&self, id: &str) {
        let mut index = self.index();
        index.with_keeper.remove(id);
        index.forget_all(id);
    }

    /// The keeper has dropped an execution that has ended and is on disk.
    pub(crate) fn ended(&self, ended: Ended) {
        let mut index = self.index();
        let id = Arc::clone(&ended.origin.id);
        index.with_keeper.remove(&id);
        index.forget_all(&id);
        if ended.bytes > MOST_ENDED_BYTES {
            return;
        }
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
        self.index().forget_all(id);
    }

    /// The keeper has dropped everything.
    pub(crate) fn clear(&self) {
        let mut index = self.index();
        // Numbers of reads are not used again.
        let reads = index.reads;
        *index = Index {
            reads,
            ..Index::default()
        };
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

    fn forget_read(&mut self, id: &str) {
        if let Some(read) = self.read.remove(id) {
            self.read_bytes -= read.bytes;
        }
    }

    /// Forgets an execution, and what is being read of it.
    fn forget_all(&mut self, id: &str) {
        self.forget(id);
        self.forget_read(id);
        self.reading.remove(id);
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
            Place::Read(_) => "read",
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

    fn read(memory: &InMemory, id: &Arc<str>, bytes: usize) {
        let under_way = memory.begin_read(id);
        memory.end_read(id, under_way, Some((view(), bytes)));
    }

    fn view() -> Arc<View> {
        Arc::new(ended(1, 1).view(&Coverage::default()))
    }

    #[test]
    fn an_execution_that_was_read_is_kept_until_it_is_taken_up_or_removed() {
        let memory = InMemory::default();
        let id: Arc<str> = "e1".into();
        read(&memory, &id, 1);
        assert_eq!(place(&memory, "e1"), "read");
        memory.taken_up(&id);
        memory.dropped("e1");
        assert_eq!(place(&memory, "e1"), "disk");
        read(&memory, &id, 1);
        memory.removed("e1");
        assert_eq!(place(&memory, "e1"), "disk");
        read(&memory, &id, 1);
        memory.clear();
        assert_eq!(place(&memory, "e1"), "disk");
    }

    #[test]
    fn what_is_read_while_the_keeper_has_the_execution_is_not_kept() {
        let (memory, id) = (InMemory::default(), Arc::<str>::from("e1"));
        memory.taken_up(&id);
        read(&memory, &id, 1);
        memory.dropped("e1");
        assert_eq!(place(&memory, "e1"), "disk");
        memory.taken_up(&id);
        let under_way = memory.begin_read(&id);
        memory.dropped("e1");
        memory.end_read(&id, under_way, Some((view(), 1)));
        assert_eq!(place(&memory, "e1"), "disk");
        memory.taken_up(&id);
        let under_way = memory.begin_read(&id);
        memory.ended(ended(1, MOST_ENDED_BYTES + 1));
        memory.end_read(&id, under_way, Some((view(), 1)));
        assert_eq!(place(&memory, "e1"), "disk");
    }

    #[test]
    fn a_read_that_a_change_overtook_is_not_kept() {
        let id: Arc<str> = "e1".into();
        let changes: [fn(&InMemory, &Arc<str>); 3] = [
            |memory, id| {
                memory.taken_up(id);
                memory.dropped(id);
            },
            |memory, id| memory.removed(id),
            |memory, _| memory.clear(),
        ];
        for change in changes {
            let memory = InMemory::default();
            let under_way = memory.begin_read(&id);
            change(&memory, &id);
            // Another read, which is not the first one, has begun.
            let second = memory.begin_read(&id);
            memory.end_read(&id, under_way, Some((view(), 1)));
            assert_eq!(place(&memory, "e1"), "disk");
            memory.end_read(&id, second, None);
            assert_eq!(place(&memory, "e1"), "disk");
        }
    }

    #[test]
    fn the_executions_that_were_read_are_bounded_by_number_and_by_bytes() {
        let memory = InMemory::default();
        let id = |number: usize| -> Arc<str> { format!("e{number}").into() };
        for number in 0..=MOST_READ {
            read(&memory, &id(number), 1);
        }
        assert_eq!(place(&memory, "e0"), "disk");
        assert_eq!(place(&memory, "e1"), "read");
        read(&memory, &id(2_000), MOST_READ_BYTES);
        assert_eq!(place(&memory, "e1"), "disk");
        assert_eq!(place(&memory, "e2000"), "read");
        read(&memory, &id(2_001), MOST_READ_BYTES + 1);
        assert_eq!(place(&memory, "e2001"), "disk");
    }
}
