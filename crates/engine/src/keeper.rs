//! The one thread that owns every execution with something under way.
//!
//! It works in turns. A turn takes what has come in, lets the core decide, writes all of it in one
//! transaction, and only then lets anything be seen. While a turn is being written, the next one
//! gathers: that is the group commit. Nothing here is async and nothing is locked.
//!
//! The parts: `ask` answers requests, `carry` takes one command through the core, `hand_out` gives
//! tasks to workers by `dispatch`'s book, `slots` says whose turn it is, `alarm` fires timers,
//! `child` starts and ends children, `definitions` applies and deletes definitions and switches
//! their triggers, `branch` goes back in a log, `recover` puts right what contradicts one, `recall`
//! compares memory with it, `wake` takes up what was left, `finish` writes the turn and lets it be
//! seen.

mod alarm;
mod ask;
mod branch;
mod carry;
mod child;
mod cover;
mod definitions;
mod dispatch;
mod fair;
mod finish;
mod fork;
mod hand_out;
mod inbox;
mod judge;
mod live;
mod recall;
mod recover;
mod sink;
mod slots;
mod survey;
mod trigger;
mod wake;
mod withdrawal;

pub(crate) use ask::bounded;
pub(crate) use child::child_id;
pub(crate) use definitions::DefinitionAsk;
pub use inbox::SinkStart;
pub(crate) use inbox::{Ask, Inbox, Message};
pub(crate) use recover::Mended;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};

use crate::catalogue::Catalogue;
use crate::coverage::{Coverage, Covered};
use crate::error::Result;
use crate::news::Board;
use crate::store::{Store, StoreError, Turn};
use crate::worker::{Answer, WorkerMessage};
use crate::{Config, EngineError};
use dispatch::Dispatch;
use live::Live;
use slots::Slots;

/// The most messages a turn takes.
const MOST_PER_TURN: usize = 1_024;
/// How long the keeper sleeps at most.
const NAP: Duration = Duration::from_secs(1);
/// How long it sleeps when its clock is moved by hand.
const SHORT_NAP: Duration = Duration::from_millis(2);

/// The keeper's state. Only its own thread touches it.
struct Keeper {
    config: Config,
    store: Box<dyn Store>,
    catalogue: Arc<Catalogue>,
    board: Arc<Board>,
    /// Where readers find which workers are connected.
    covered: Arc<Covered>,
    coverage: Arc<Coverage>,
    /// Executions whose tasks may have found or lost the workers that could take them.
    stale: VecDeque<i64>,
    inbox: Inbox,
    messages: Receiver<Message>,
    now: Timestamp,
    /// Executions in memory, by number.
    hot: HashMap<i64, Live>,
    /// Their numbers by id.
    numbers: HashMap<Arc<str>, i64>,
    /// The plans of current definitions, by name; none for one that was deleted.
    current: HashMap<Arc<str>, Option<Arc<stateway_machine::Plan>>>,
    last_number: i64,
    dispatch: Dispatch,
    slots: Slots,
    /// How many of those in memory have work under way.
    active: usize,
    /// The next timer of each execution in memory.
    alarms: BTreeSet<(Timestamp, i64)>,
    /// When the first execution that is not in memory has to be looked at.
    next_wake: Option<Timestamp>,
    /// What is still to be done in this turn.
    work: VecDeque<Work>,
    touched: Vec<i64>,
    /// Those of them that have new events.
    changed: Vec<i64>,
    turn: Turn,
    effects: Vec<Effect>,
    replies: Vec<(i64, oneshot::Sender<Answer>)>,
    /// Request ids of this turn.
    asked: HashMap<Arc<str>, ([u8; 16], i64)>,
    triggers: trigger::Triggers,
    /// How far the receivers of events have got that are connected.
    sinks: HashMap<Arc<str>, i64>,
    /// Executions that could not be taken up.
    damaged: BTreeMap<i64, crate::request::Damaged>,
    /// How often executions were put right without being asked.
    healed: HashMap<i64, u8>,
    /// The place of the last event on disk.
    committed: watch::Sender<i64>,
    /// Why the store could not be written last time, until it can be again.
    broken: Option<Broken>,
    leases_checked: Instant,
    requests_forgotten: Instant,
    clock_watch: alarm::ClockWatch,
}

/// The store could not be written.
struct Broken {
    error: StoreError,
    tried: Instant,
}

/// Something a turn still has to do.
enum Work {
    /// See whether a queued execution can begin.
    Grant,
    /// Hand a task to a worker that has room for it.
    Assign {
        number: i64,
        task: stateway_machine::Task,
        worker: dispatch::WorkerIx,
    },
    /// Hand a worker the next tasks it can do.
    Feed(dispatch::WorkerIx),
    /// Start a child.
    StartChild {
        parent: i64,
        order: stateway_machine::ChildOrder,
    },
    /// A child has ended, and what it cost.
    FinishChild {
        parent: crate::Parent,
        outcome: Result<stateway_machine::Data, stateway_machine::Failure>,
        usage: stateway_model::Usage,
    },
    /// A parent has ended before its child.
    EndChild { number: i64, kill: bool },
}

/// Something that may be seen once the turn is on disk.
enum Effect {
    Answer(oneshot::Sender<Answer>, Answer),
    Tell(mpsc::UnboundedSender<WorkerMessage>, WorkerMessage),
    Published(oneshot::Sender<Result<crate::Published>>, crate::Published),
    SinkOpened(oneshot::Sender<Result<i64>>, i64),
    Definition(definitions::DefinitionAnswer),
    Mended(oneshot::Sender<Result<Mended>>, Box<Mended>),
}

/// Starts the keeper's thread, once everything that was left is taken up.
pub(crate) fn spawn(
    config: &Config,
    store: Box<dyn Store>,
    (catalogue, board, covered): (&Arc<Catalogue>, &Arc<Board>, &Arc<Covered>),
) -> Result<(watch::Receiver<i64>, JoinHandle<()>, Inbox)> {
    let (inbox, messages) = Inbox::new(config.max_backlog);
    let now = config.clock.now();
    let last_number = store.last_number()?;
    let committed = watch::Sender::new(store.last_position());
    let followed = committed.subscribe();
    let mut keeper = Keeper {
        slots: Slots::new(config.max_active),
        dispatch: Dispatch::default(),
        config: config.clone(),
        store,
        catalogue: Arc::clone(catalogue),
        board: Arc::clone(board),
        covered: Arc::clone(covered),
        coverage: Arc::default(),
        stale: VecDeque::new(),
        inbox: inbox.clone(),
        messages,
        now,
        hot: HashMap::new(),
        numbers: HashMap::new(),
        current: HashMap::new(),
        last_number,
        active: 0,
        alarms: BTreeSet::new(),
        next_wake: None,
        work: VecDeque::new(),
        touched: Vec::new(),
        changed: Vec::new(),
        turn: Turn::default(),
        effects: Vec::new(),
        replies: Vec::new(),
        asked: HashMap::new(),
        triggers: trigger::Triggers::default(),
        sinks: HashMap::new(),
        damaged: BTreeMap::new(),
        healed: HashMap::new(),
        committed,
        broken: None,
        leases_checked: Instant::now(),
        requests_forgotten: Instant::now(),
        clock_watch: alarm::ClockWatch::new(now),
    };
    keeper.wake_up()?;
    let thread = std::thread::Builder::new().name("stateway-keeper".to_owned());
    let thread = thread
        .spawn(move || keeper.run())
        .map_err(|error| StoreError::Failed(format!("no thread for the engine: {error}")))?;
    Ok((followed, thread, inbox))
}

impl Keeper {
    fn run(mut self) {
        loop {
            let first = match self.messages.recv_timeout(self.nap()) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if !self.turn(first) {
                return;
            }
        }
    }

    /// One turn; false when it was the last.
    fn turn(&mut self, first: Option<Message>) -> bool {
        self.tell_time();
        let mut last = false;
        let mut next = first;
        let mut taken = 0;
        while let Some(message) = next {
            self.inbox.taken();
            last |= matches!(message, Message::Stop);
            self.take(message);
            self.work_off();
            taken += 1;
            next = if taken < MOST_PER_TURN {
                self.messages.try_recv().ok()
            } else {
                None
            };
        }
        if self.broken.is_none() {
            self.work_off();
            self.ring();
            self.start_scheduled();
            self.check_leases();
            self.refresh_coverage();
        }
        self.finish();
        self.housekeep();
        !last
    }

    fn take(&mut self, message: Message) {
        if let Some(broken) = &self.broken {
            let error = EngineError::from_store(&broken.error);
            message.refuse(error);
            return;
        }
        match message {
            Message::Ask(ask) => self.ask(*ask),
            Message::Connect {
                session,
                offer,
                tell,
                http,
            } => self.connect((session, tell), offer, http),
            Message::Offer { session, offer } => self.offer(session, offer),
            Message::Settle {
                session,
                token,
                outcome,
                usage,
            } => self.settle(session, &token, (outcome, usage)),
            Message::Heartbeat {
                session,
                token,
                progress,
            } => self.heartbeat(session, token.as_ref(), progress),
            Message::Gone { session } => self.gone(session),
            Message::Definition(ask) => self.definition_ask(*ask),
            Message::Purge {
                ended_before,
                limit,
                answer,
            } => {
                // Nobody waiting for the answer is no failure.
                let _ = answer.send(self.purge(ended_before, limit));
            }
            Message::Remove { id, answer } => {
                let _ = answer.send(self.remove(&id));
            }
            Message::Look { id, answer } => {
                // Dropping the answer says: not in memory.
                if let Some(number) = self.numbers.get(&id) {
                    self.replies.push((*number, answer));
                }
            }
            Message::Recover {
                id,
                ask,
                actor,
                request,
                answer,
            } => self.asked_to_recover(&id, &ask, (&actor, &request), answer),
            Message::Recall { numbers, answer } => {
                let found = numbers.into_iter().map(|(number, row_is_right)| {
                    let findings = self.memory_findings(number, row_is_right);
                    (number, findings)
                });
                let _ = answer.send(Ok(found.filter(|(_, found)| !found.is_empty()).collect()));
            }
            Message::Recheck { numbers } => self.recheck(numbers),
            Message::Drifted { number } => self.healing(number),
            Message::Publish { event, answer } => self.publish(&event, answer),
            Message::Survey { answer } => {
                let _ = answer.send(Ok(self.survey()));
            }
            Message::OpenSink { name, from, answer } => {
                self.open_sink(name, from, answer);
            }
            Message::SinkAt {
                name,
                position,
                keep,
            } => self.sink_at(name, position, keep),
            Message::CloseSink { name } => {
                self.sinks.remove(&name);
            }
            Message::Stop => {}
        }
    }

    /// Does what the last message led to.
    fn work_off(&mut self) {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Grant => self.grant(),
                Work::Assign {
                    number,
                    task,
                    worker,
                } => self.assign(number, task, worker),
                Work::Feed(worker) => self.feed(worker),
                Work::StartChild { parent, order } => self.start_child(parent, &order),
                Work::FinishChild {
                    parent,
                    outcome,
                    usage,
                } => self.finish_child(parent, outcome, usage),
                Work::EndChild { number, kill } => self.end_child(number, kill),
            }
        }
    }

    /// How long there is nothing to do.
    fn nap(&self) -> Duration {
        if self.slots.are_wanted() && !self.work.is_empty() || !self.stale.is_empty() {
            return Duration::ZERO;
        }
        if self.config.clock.is_manual() {
            return SHORT_NAP;
        }
        let alarm = self.alarms.first().map(|(due, _)| *due);
        let due = [alarm, self.next_wake, self.triggers.next()]
            .into_iter()
            .flatten()
            .min();
        let Some(due) = due else { return NAP };
        let left = due.duration_since(self.config.clock.now());
        Duration::try_from(left).unwrap_or(Duration::ZERO).min(NAP)
    }
}
