//! The engine in a simulation: the real handle and the real keeper, on a store in memory, with every
//! clock and every failure in the hands of the caller.
//!
//! A [`Disk`] outlives the processes that open it. A [`Process`] is one engine: requests go through its
//! handle, and [`Process::turn`] is the only thing that processes them. Nothing here starts a thread,
//! reads a clock or uses randomness, so the same calls lead to the same log, byte for byte.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::catalogue::Catalogue;
use crate::clock::Moment;
use crate::coverage::Coverage;
use crate::error::Result;
use crate::handle::Engine;
use crate::keeper::{
    Done, Envelope, Inbox, Job, Keeper, Message, Shared, StoreAccess, Writer, show,
};
use crate::news::Board;
use crate::recovery::inspect::{InspectionContext, verify};
use crate::request::EventRecord;
use crate::store::{
    Backend, FaultyBackend, MemoryDisk, OpenWork, Reading, Status, StoreFaults, Turn, load,
};
use crate::view::EngineView as _;
use crate::{Config, View};

pub use crate::bug::Bug;
pub use crate::id::Ids;
pub use crate::store::{StoreCall, StoreFate};

/// The storage that processes open one after the other. Clones share it.
#[derive(Debug, Clone)]
pub struct Disk {
    disk: MemoryDisk,
    /// Plans are derived from definitions alone, so copies of a disk share them.
    catalogue: Arc<Catalogue>,
}

impl Disk {
    /// An empty disk for processes with the limits of this configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            disk: MemoryDisk::default(),
            catalogue: Arc::new(Catalogue::limited(config.limits())),
        }
    }

    /// A disk with the same content that is independent from now on.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self {
            disk: self.disk.copy(),
            catalogue: Arc::clone(&self.catalogue),
        }
    }

    /// Takes the disk away from the process that writes to it. Another process can open the disk.
    pub fn revoke(&self) {
        self.disk.revoke();
    }

    /// The numbers of the stored executions. A row without events is none: a torn write left it, nothing of it
    /// was acknowledged, and the next execution of the same id takes its place.
    ///
    /// # Errors
    /// Never for a disk in memory.
    pub fn numbers(&self) -> Result<Vec<i64>> {
        numbers(&*self.reader()?)
    }

    /// The numbers and ids of the executions that have ended, by their rows.
    ///
    /// # Errors
    /// Never for a disk in memory.
    pub fn ended(&self) -> Result<Vec<(i64, Arc<str>)>> {
        let reader = self.reader()?;
        let mut found = Vec::new();
        for number in numbers(&*reader)? {
            if let Some(kept) = reader.kept(number)?
                && kept.status.ended.is_some()
            {
                found.push((number, Arc::clone(&kept.origin.id)));
            }
        }
        Ok(found)
    }

    /// The position of the last event.
    ///
    /// # Errors
    /// Never for a disk in memory.
    pub fn last_position(&self) -> Result<i64> {
        Ok(self.disk.last_position())
    }

    /// An execution, replayed from its log.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn view(&self, number: i64) -> Result<Option<View>> {
        let reader = self.reader()?;
        let Some(kept) = reader.kept(number)? else {
            return Ok(None);
        };
        let loaded = load(&*reader, kept, &self.catalogue)?;
        let coverage = Coverage::default();
        Ok(Some(View::with_coverage(
            &loaded.kept.origin,
            &loaded.state,
            &coverage,
        )))
    }

    /// Every event, in the order of the store.
    ///
    /// # Errors
    /// An event cannot be read.
    pub fn events(&self) -> Result<Vec<EventRecord>> {
        let reader = self.reader()?;
        let mut found = Vec::new();
        let mut after = 0;
        loop {
            let page = reader.log(after, 1_000)?;
            let Some(last) = page.last() else {
                return Ok(found);
            };
            after = last.position;
            found.extend(page);
        }
    }

    /// What contradicts the logs: a broken chain of hashes, a row that differs from the replay of its
    /// log, a snapshot that differs, a lost request, a lost child.
    ///
    /// # Errors
    /// Never for a disk in memory.
    pub fn audit(&self, now: Timestamp, memory: Duration) -> Result<Vec<String>> {
        let reader = self.reader()?;
        let context = InspectionContext {
            catalogue: &self.catalogue,
            now,
            memory: jiff::SignedDuration::try_from(memory).unwrap_or(jiff::SignedDuration::MAX),
        };
        let mut found = Vec::new();
        for number in numbers(&*reader)? {
            found.extend(self.row_problems(&*reader, number)?);
            if let Some(inspection) = verify(&*reader, number, context)? {
                let findings = inspection.verdict.findings.iter();
                found.extend(findings.map(|finding| format!("execution {number}: {finding:?}")));
            }
        }
        Ok(found)
    }

    fn row_problems(&self, reader: &dyn Reading, number: i64) -> Result<Option<String>> {
        let Some(kept) = reader.kept(number)? else {
            return Ok(None);
        };
        let row = kept.status.clone();
        let loaded = match load(reader, kept, &self.catalogue) {
            Ok(loaded) => loaded,
            Err(error) => return Ok(Some(format!("execution {number}: {error}"))),
        };
        let under_way = OpenWork::of(&loaded.state, loaded.kept.origin.not_before);
        let expected = Status::of(&loaded.state, &under_way);
        if Status::agrees(&loaded.state, &under_way, &row) {
            return Ok(None);
        }
        Ok(Some(format!(
            "execution {number}: the row says {row:?}, the log says {expected:?}"
        )))
    }

    fn reader(&self) -> Result<Box<dyn Reading + Send>> {
        Ok(self.disk.reader()?)
    }
}

fn numbers(reader: &dyn Reading) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    for number in reader.numbers(0, usize::MAX)? {
        if reader.head(number)?.is_some() {
            found.push(number);
        }
    }
    Ok(found)
}

/// One process with an engine. Dropping it models its end, however it ends.
#[derive(Debug)]
pub struct Process {
    keeper: Keeper,
    engine: Engine,
    messages: Receiver<Envelope>,
    board: Arc<Board>,
    committed: watch::Sender<i64>,
    faults: StoreFaults,
    writing: Arc<Mutex<Writing>>,
}

/// The turn that is written beside the keeper.
#[derive(Debug, Default)]
struct Writing {
    beside: bool,
    job: Option<Job>,
    done: Option<Done>,
}

impl Writing {
    fn carry_out(&mut self, board: &Board, committed: &watch::Sender<i64>) {
        if let Some(job) = self.job.take() {
            self.done = Some(job.carry_out(board, committed));
        }
    }
}

fn lock(writing: &Mutex<Writing>) -> MutexGuard<'_, Writing> {
    writing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes turns when the simulation says so.
#[derive(Debug)]
struct SimulatedWriter {
    board: Arc<Board>,
    committed: watch::Sender<i64>,
    shared: Arc<Mutex<Writing>>,
}

impl Writer for SimulatedWriter {
    fn takes(&self, _: &Turn) -> bool {
        lock(&self.shared).beside
    }

    fn begin(&self, job: Job) {
        lock(&self.shared).job = Some(job);
    }

    fn end(&self) -> Done {
        let mut writing = lock(&self.shared);
        writing.carry_out(&self.board, &self.committed);
        writing.done.take().expect("a turn was begun")
    }
}

impl Process {
    /// Opens the store and takes up every execution that was under way. `judge` decides about every
    /// call of the store.
    ///
    /// # Errors
    /// The store cannot be opened, read or written.
    pub fn open(
        disk: &Disk,
        config: &Config,
        judge: impl FnMut(StoreCall) -> StoreFate + Send + 'static,
        (wall, steady): (Timestamp, Instant),
    ) -> Result<Self> {
        let faults = StoreFaults::by(judge);
        let backend = Arc::new(FaultyBackend {
            inner: disk.disk.clone(),
            faults: faults.clone(),
            bug: config.bug,
        });
        let store = backend.open()?;
        let shared = Shared {
            catalogue: Arc::clone(&disk.catalogue),
            ..Shared::default()
        };
        let board = Arc::clone(&shared.board);
        let committed = watch::Sender::new(store.last_position());
        let (inbox, messages) = Inbox::new(config.max_backlog);
        let moment = Moment { wall, steady };
        let writer = SimulatedWriter {
            board: Arc::clone(&board),
            committed: committed.clone(),
            shared: Arc::default(),
        };
        let writing = Arc::clone(&writer.shared);
        let access = StoreAccess {
            store,
            reader: backend.reader()?,
            writer: Box::new(writer),
        };
        let (keeper, effects) = Keeper::open(config, access, shared.clone(), moment)?;
        show(effects, &board, &committed);
        let engine =
            Engine::without_thread(config, (backend, inbox), shared, committed.subscribe())?;
        Ok(Self {
            keeper,
            engine,
            messages,
            board,
            committed,
            faults,
            writing,
        })
    }

    /// Whether the following turns are written beside the keeper. Such a turn is on disk when [`Process::write`] was
    /// called, or when the keeper could not wait any longer.
    pub fn write_beside(&self, beside: bool) {
        lock(&self.writing).beside = beside;
    }

    /// Writes the turn that is to be written beside the keeper, if there is one.
    pub fn write(&self) {
        lock(&self.writing).carry_out(&self.board, &self.committed);
    }

    /// Whether a turn is not on disk yet, or the keeper has not taken notice of that.
    #[must_use]
    pub const fn is_writing(&self) -> bool {
        self.keeper.is_writing()
    }

    /// The handle. Its futures complete in the turn that processes them; reads past the keeper need a
    /// runtime and are not used in simulations.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Processes every message that has arrived, and what is due.
    pub fn turn(&mut self, (wall, steady): (Timestamp, Instant)) {
        let messages = &self.messages;
        let is_writing = self.keeper.is_writing();
        let mut had_message = false;
        // While a turn is being written, no message waits after each one.
        let arrived = std::iter::from_fn(|| {
            if std::mem::take(&mut had_message) && is_writing {
                return Some(Message::Lull);
            }
            had_message = true;
            Some(messages.try_recv().ok()?.open())
        });
        let effects = self.keeper.turn(arrived, Moment { wall, steady });
        show(effects, &self.board, &self.committed);
    }

    /// Whether the process died in a call of the store. What it sent in that turn never left it.
    #[must_use]
    pub fn has_died(&self) -> bool {
        self.faults.has_died()
    }

    /// Whether the last write failed and the store was not written since.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        self.keeper.is_broken()
    }

    /// How long there is nothing to do unless a message arrives.
    #[must_use]
    pub fn idle(&self, (wall, steady): (Timestamp, Instant)) -> Duration {
        if self.is_writing() {
            return Duration::ZERO;
        }
        self.keeper.idle(Moment { wall, steady })
    }

    /// The differences between the memory of the process and the logs on the disk.
    ///
    /// # Errors
    /// Never for a disk in memory.
    pub fn audit(&self, disk: &Disk) -> Result<Vec<String>> {
        self.keeper.audit(&*disk.reader()?, &disk.catalogue)
    }
}
