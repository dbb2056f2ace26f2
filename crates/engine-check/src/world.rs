//! The surroundings of the engine in one schedule, and how a schedule runs.

mod act;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use stateway_engine::simulation::{Bug, Disk, Ids, Process};
use stateway_engine::{ApplyDefinition, Config, Retention, WorkerMessage};

use crate::client::{Answer, Book, Pending, Reply, Wish};
use crate::clock::Clock;
use crate::definitions::{HOSTILE, KNOWN};
use crate::fault::{CrashAt, Faults};
use crate::totals::Totals;
use crate::trace::Trace;
use crate::worker::{SentAnswer, Worker};
use stateway_chance::Chance;

/// The limits of every schedule.
const PAYLOAD_BYTES: usize = 1024;
pub(crate) const MESSAGE_BYTES: usize = 4 * 1024;

/// How long the engine remembers requests: longer than any schedule.
pub(crate) const REQUEST_MEMORY: Duration = Duration::from_secs(20 * 365 * 24 * 3_600);

/// A configuration with low limits, so that data which exceeds them costs little.
fn limited() -> Config {
    let mut config = Config::new("memory");
    config.max_payload_bytes = PAYLOAD_BYTES;
    config.max_message_bytes = MESSAGE_BYTES;
    config
}

/// Which schedule to run, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Schedule {
    /// Decides everything.
    pub seed: u64,
    /// Whether to keep what happened, line by line.
    pub trace: bool,
    /// A defect that is planted in the engine.
    pub bug: Option<Bug>,
    /// The write of the schedule in which the process dies, instead of the faults that the seed decides.
    pub crash: Option<CrashAt>,
    /// Whether every turn is written by the keeper itself, and none beside the next one.
    pub one_by_one: bool,
}

/// A schedule that ran to its end without a contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// A digest of everything that happened, the log included.
    pub digest: u64,
    /// The figures.
    pub totals: Totals,
    /// What happened, if asked for.
    pub lines: Vec<String>,
}

/// A contradiction.
#[derive(Debug, Clone)]
pub struct Broken {
    /// The seed that leads to it.
    pub seed: u64,
    /// The contradiction.
    pub what: String,
    /// What happened, if asked for.
    pub lines: Vec<String>,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in &self.lines {
            writeln!(f, "  {line}")?;
        }
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

/// A disk with the definitions that every schedule has.
#[derive(Debug, Clone)]
pub struct Template(Disk);

impl Template {
    /// Makes the disk.
    ///
    /// # Errors
    /// A definition of the simulation is refused.
    pub fn new() -> Result<Self, String> {
        let clock = Clock::new();
        let config = limited();
        let disk = Disk::new(&config);
        let works = |_| stateway_engine::simulation::StoreFate::Works;
        let opened = Process::open(&disk, &config, works, clock.now());
        let mut process = opened.map_err(|error| error.to_string())?;
        for (name, source) in KNOWN.iter().chain(HOSTILE) {
            let engine = process.engine().clone();
            let apply = ApplyDefinition {
                source: (*source).to_owned(),
                source_name: format!("{name}.yaml"),
                request: None,
            };
            let mut applied = Box::pin(async move { engine.apply(apply).await });
            let mut poll = || {
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                applied.as_mut().poll(&mut context)
            };
            let _ = poll();
            process.turn(clock.now());
            match poll() {
                std::task::Poll::Ready(Ok(_)) => {}
                other => return Err(format!("the definition {name}: {other:?}")),
            }
        }
        drop(process);
        Ok(Self(disk))
    }
}

/// The surroundings.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) chance: Chance,
    /// Decides when turns are written; none if the keeper writes every turn itself.
    writing: Option<Chance>,
    pub(crate) disk: Disk,
    pub(crate) config: Config,
    pub(crate) faults: Faults,
    pub(crate) clock: Clock,
    /// The process that has the disk.
    pub(crate) owner: Option<Process>,
    /// A process that lost the disk and does not know it yet.
    pub(crate) deposed: Option<Process>,
    pub(crate) book: Book,
    pub(crate) pending: Vec<Pending>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) sent: Vec<SentAnswer>,
    pub(crate) trace: Trace,
    pub(crate) totals: Totals,
}

impl Schedule {
    /// Runs the schedule.
    ///
    /// # Errors
    /// What the engine did contradicts what it promises.
    pub fn run(self, template: &Template) -> Result<Story, Box<Broken>> {
        let mut world = World::new(self, template);
        let outcome = world.run();
        if outcome.is_err() {
            world.note_log();
        }
        world.faults.count_into(&mut world.totals);
        world.totals.count("schedules");
        let (digest, totals) = (world.trace.digest(), world.totals.clone());
        let lines = world.trace.into_lines();
        match outcome {
            Ok(()) => Ok(Story {
                digest,
                totals,
                lines,
            }),
            Err(what) => Err(Box::new(Broken {
                seed: self.seed,
                what,
                lines,
            })),
        }
    }
}

impl World {
    fn new(schedule: Schedule, template: &Template) -> Self {
        let mut chance = Chance::new(schedule.seed);
        let mut config = limited();
        config.max_tree = *chance.pick(&[10, 40]).unwrap_or(&10);
        config.max_active = 1 + chance.below(5);
        config.snapshot_events = u32::try_from(3 + chance.below(20)).unwrap_or(3);
        config.request_id_retention = REQUEST_MEMORY;
        config.ids = Ids::after(0);
        config.bug = schedule.bug;
        if schedule.seed % 8 == 3 {
            config.retention = Retention {
                succeeded: Some(Duration::from_secs(10 * 60)),
                failed: Some(Duration::from_secs(30 * 60)),
            };
        }
        let workers = 1 + chance.below(4);
        Self {
            // Of its own, so that the other decisions of a seed do not depend on it.
            writing: (!schedule.one_by_one).then(|| Chance::new(!schedule.seed)),
            disk: template.0.copy(),
            config,
            faults: Faults::new(chance.split(), schedule.crash),
            clock: Clock::new(),
            owner: None,
            deposed: None,
            book: Book::default(),
            pending: Vec::new(),
            workers: (0..workers)
                .map(|worker| Worker::new(format!("w{worker}").into()))
                .collect(),
            sent: Vec::new(),
            trace: Trace::new(schedule.trace),
            totals: Totals::default(),
            chance,
        }
    }

    fn run(&mut self) -> Result<(), String> {
        let turns = 10 + self.chance.below(40);
        for _ in 0..turns {
            if self.owner.is_none() && self.chance.percent(70) {
                self.open();
            }
            for _ in 0..=self.chance.below(4) {
                self.act()?;
            }
            self.turn()?;
            if self.chance.percent(15) {
                self.audit_memory()?;
            }
            self.time_passes()?;
        }
        self.settle()?;
        self.check()
    }

    /// A process opens the disk, if it can.
    pub(crate) fn open(&mut self) {
        let opened = Process::open(
            &self.disk,
            &self.config,
            self.faults.judge(),
            self.clock.now(),
        );
        self.totals.count("engine: openings");
        match opened {
            Ok(process) if process.has_died() => self.totals.count("engine: crashes in recovery"),
            Ok(process) => {
                self.trace.note(format_args!("the engine opens"));
                self.owner = Some(process);
            }
            Err(error) => {
                self.totals.count("engine: crashes in recovery");
                self.trace
                    .note(format_args!("the engine does not open: {}", error.reason));
            }
        }
    }

    /// The process that has the disk ends without a warning.
    pub(crate) fn crash(&mut self) {
        self.trace.note(format_args!("the engine crashes"));
        self.totals.count("engine: crashes");
        self.owner = None;
        for pending in self.pending.extract_if(.., |pending| !pending.deposed) {
            self.book.interrupt(&pending);
        }
        for worker in &mut self.workers {
            if worker.session.as_ref().is_some_and(|one| !one.deposed) {
                worker.session = None;
            }
        }
    }

    pub(crate) fn end_deposed(&mut self) {
        self.deposed = None;
        self.pending.retain(|pending| !pending.deposed);
        for worker in &mut self.workers {
            if worker.session.as_ref().is_some_and(|one| one.deposed) {
                worker.session = None;
            }
        }
    }

    /// Every process takes a turn, and clients and workers read what it sent.
    pub(crate) fn turn(&mut self) -> Result<(), String> {
        // Executions that ended before the turn may be removed in it.
        if self.config.retention != Retention::default() {
            self.note_removable(self.clock.wall())?;
        }
        let now = self.clock.now();
        if let Some(deposed) = &mut self.deposed {
            take_turn(deposed, self.writing.as_mut(), now);
            if deposed.has_died() {
                self.end_deposed();
            }
        }
        if let Some(owner) = &mut self.owner {
            self.totals.count("engine: turns");
            take_turn(owner, self.writing.as_mut(), now);
            if owner.is_writing() {
                self.totals
                    .count("engine: turns written beside the next one");
            }
            if owner.has_died() {
                self.crash();
            }
        }
        let slow = self.faults.take_time();
        self.clock.pass(slow);
        self.read_answers()?;
        self.read_messages()?;
        self.one_holder()
    }

    fn read_answers(&mut self) -> Result<(), String> {
        let mut still = Vec::new();
        for mut pending in std::mem::take(&mut self.pending) {
            match pending.poll() {
                Some(answer) => self.answered(&pending, answer)?,
                None => still.push(pending),
            }
        }
        self.pending = still;
        Ok(())
    }

    fn answered(&mut self, pending: &Pending, answer: Answer) -> Result<(), String> {
        let Some(request) = self.book.requests.get_mut(pending.request) else {
            return Ok(());
        };
        let id = &request.key.id;
        match &answer {
            Ok(reply) => self.trace.note(format_args!("{id} answered {reply:?}")),
            Err(error) => {
                self.totals.count(error.reason);
                self.trace
                    .note(format_args!("{id} refused {}", error.reason));
            }
        }
        let known = request.acknowledged.as_ref();
        let gone = match known {
            Some(Reply::Execution(execution)) => self.book.removable.contains(execution),
            Some(Reply::Published(started)) => {
                let mut started = started.iter();
                started.any(|execution| self.book.removable.contains(execution))
            }
            Some(Reply::Done) | None => false,
        };
        let repeatable = !matches!(
            request.wish,
            Wish::Purge { .. } | Wish::Remove { .. } | Wish::Publish { .. }
        );
        match (known, answer) {
            (Some(_), Ok(_)) if pending.altered && !request.interrupted => {
                Err(format!("{id} was accepted again with another body"))
            }
            (_, Ok(_)) if pending.altered => Ok(()),
            (None, Ok(reply)) => {
                self.totals.count(request.wish.figure());
                request.acknowledged = Some(reply);
                Ok(())
            }
            (Some(known), Ok(reply)) if !gone && repeatable && *known != reply => {
                Err(format!("{id} was answered {known:?}, and later {reply:?}"))
            }
            // A process that has lost the disk acknowledges nothing; what it refuses, it may refuse by a
            // state that is no longer current.
            (Some(known), Err(error))
                if !gone
                    && repeatable
                    && !pending.altered
                    && !pending.deposed
                    && !is_transient(error.reason) =>
            {
                Err(format!(
                    "request {id} got the answer {known:?}, and its repetition failed: {error}"
                ))
            }
            _ => Ok(()),
        }
    }

    fn read_messages(&mut self) -> Result<(), String> {
        let (trace, sent, totals) = (&mut self.trace, &mut self.sent, &mut self.totals);
        for worker in &mut self.workers {
            let note = |id: &str, message: &WorkerMessage| match message {
                WorkerMessage::Task(task) => trace.note(format_args!(
                    "{id} gets {} of {}",
                    task.token, task.execution
                )),
                WorkerMessage::Refused { token, reason, .. } => {
                    trace.note(format_args!("{id} refused {token} {reason}"));
                }
                other => trace.note(format_args!("{id} {other:?}")),
            };
            let accepted = |place: usize| {
                if let Some(sent) = sent.get_mut(place) {
                    sent.accepted = true;
                    totals.count("acknowledged: answers");
                }
            };
            worker.read(note, accepted)?;
        }
        Ok(())
    }

    /// No task is with two connected workers.
    fn one_holder(&self) -> Result<(), String> {
        let mut holders = BTreeMap::new();
        for worker in &self.workers {
            let Some(session) = worker.session.as_ref().filter(|session| !session.deposed) else {
                continue;
            };
            for given in session.held.values() {
                let task = &given.task;
                let key = (&given.execution, &task.step, task.attempt, task.undo);
                if let Some(other) = holders.insert(key, &worker.id) {
                    return Err(format!(
                        "two workers have {key:?}: {other} and {}",
                        worker.id
                    ));
                }
            }
        }
        Ok(())
    }

    /// The memory of the engine is what a replay of the logs gives.
    pub(crate) fn audit_memory(&self) -> Result<(), String> {
        // Memory is ahead of the log while a turn is being written.
        let Some(owner) = self.owner.as_ref().filter(|owner| !owner.is_writing()) else {
            return Ok(());
        };
        self.faults.heal(true);
        let found = owner.audit(&self.disk);
        self.faults.heal(false);
        let found = found.map_err(|error| format!("a log cannot be read: {error}"))?;
        match found.first() {
            Some(first) => Err(format!("memory differs from the log: {first}")),
            None => Ok(()),
        }
    }

    pub(crate) fn send(&mut self, request: usize, altered: bool) {
        let deposed = self.deposed.is_some() && self.chance.percent(40);
        let process = if deposed { &self.deposed } else { &self.owner };
        let Some(process) = process else { return };
        if let Some(mut pending) = self.book.send(request, process.engine(), altered) {
            pending.deposed = deposed;
            self.pending.push(pending);
        }
    }

    /// A new request, sent.
    pub(crate) fn ask(&mut self, wish: Wish) {
        let request = self.book.write(wish);
        let Some(written) = self.book.requests.get(request) else {
            return;
        };
        self.trace
            .note(format_args!("{} asks {:?}", written.key.id, written.wish));
        self.send(request, false);
    }

    /// The executions that have ended, as far as the disk says once every turn is written.
    pub(crate) fn ended(&self) -> Result<Vec<Arc<str>>, String> {
        for process in [&self.owner, &self.deposed].into_iter().flatten() {
            process.write();
        }
        let ended = self.disk.ended().map_err(|error| error.to_string())?;
        Ok(ended.into_iter().map(|(_, id)| id).collect())
    }

    pub(crate) fn numbers(&self) -> Result<Vec<i64>, String> {
        self.disk.numbers().map_err(|error| error.to_string())
    }

    pub(crate) fn view(&self, number: i64) -> Result<Option<stateway_engine::View>, String> {
        let view = self.disk.view(number);
        view.map_err(|error| format!("execution {number} cannot be read: {error}"))
    }
}

/// One turn, written by the keeper or beside it. A turn beside the keeper is on disk before the next turn begins, or
/// only after that, or never if the process ends before.
fn take_turn(
    process: &mut Process,
    writing: Option<&mut Chance>,
    now: (jiff::Timestamp, std::time::Instant),
) {
    let Some(chance) = writing else {
        process.turn(now);
        return;
    };
    process.write_beside(chance.percent(60));
    process.turn(now);
    if chance.percent(50) {
        process.write();
    }
}

/// Whether an error says that a retry may succeed.
fn is_transient(reason: &str) -> bool {
    reason.starts_with("STORE_") || reason.starts_with("ENGINE_")
}
