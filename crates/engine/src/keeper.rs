//! The keeper owns every execution with open work.
//!
//! The keeper works in turns. [`Keeper::turn`] is a function of messages, time and store: it lets the
//! core decide about each message, writes all of that in one transaction, and returns the effects
//! that may be seen now. It reads no clock and starts no task; `thread` is the thread around it.
//! While a turn is being written, the keeper decides about the messages of the next one: that is the group
//! commit. `commits` handles a turn that cannot be written.
//!
//! Parts with state of their own: `executions` has the executions in memory, `dispatch` has tasks and
//! workers, `slots` decides which queued execution begins next, `trigger` decides what starts executions,
//! `outbox` has what the turn leads to, `commits` has the turn that is being written, `pace` has how much the turn has done and what continues in the
//! next one.
//!
//! What the keeper does with them: `requests` answers requests, `commands` takes one command through the
//! core, `queue` lets executions begin, `hand_out` gives tasks to
//! workers, `timers` fires timers, `child` starts and ends children,
//! `definitions` applies and deletes definitions, `branch` and `fork` run an execution again from a
//! step, `retention` removes what need not be retained, `recover` repairs what contradicts a log, `memory_check` compares memory with a log, `startup` takes
//! up what was left, `finish` writes the turn.

#[cfg(feature = "simulation")]
mod audit;
mod branch;
mod child;
mod commands;
mod commits;
mod coverage;
mod definitions;
mod dispatch;
mod executions;
mod fair_queue;
mod finish;
mod fork;
mod hand_out;
mod inbox;
mod live;
mod load;
mod memory_check;
mod message_size;
mod outbox;
mod pace;
mod panics;
mod policy;
mod queue;
mod recover;
mod requests;
mod retention;
mod sink;
mod slots;
mod startup;
mod survey;
#[cfg(test)]
mod tests;
mod thread;
mod timers;
mod trigger;
mod waiting_cycle;

#[cfg(test)]
pub(crate) use commits::NoWriter;
pub(crate) use commits::{Done, Job, StoreAccess, Writer};
pub(crate) use definitions::DefinitionAsk;
#[cfg(feature = "simulation")]
pub(crate) use inbox::Envelope;
pub use inbox::SinkStart;
pub(crate) use inbox::{Ask, Inbox, Message, Unread};
pub(crate) use outbox::Effect;
pub(crate) use recover::RecoveryResult;
pub(crate) use requests::bounded;
pub(crate) use thread::{show, spawn};

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use crate::catalogue::Catalogue;
use crate::clock::Moment;
use crate::coverage::SharedCoverage;
use crate::error::{Result, TRY_AGAIN};
use crate::in_memory::InMemory;
use crate::news::Board;
use crate::set_aside::SetAside;
use crate::standing::Standing;
use crate::store::{FailedReads, Reading, note_failed_reads};
use crate::{Config, EngineError};
use commits::{StoreSlot, UnderWay};
use coverage::Connected;
use definitions::Definitions;
use dispatch::Dispatch;
use executions::Executions;
use live::Live;
use outbox::Outbox;
use pace::Pace;
use slots::Slots;
use trigger::Triggers;

/// The most messages a turn takes.
const MOST_PER_TURN: usize = 1_024;

/// The state that the keeper shares with readers and watchers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shared {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) board: Arc<Board>,
    /// Where readers find which workers are connected.
    pub(crate) covered: Arc<SharedCoverage>,
    /// Executions that are not processed after a panic.
    pub(crate) aside: Arc<SetAside>,
    /// Where readers find which executions are in memory.
    pub(crate) in_memory: Arc<InMemory>,
    /// Where readers find whether this process owns the store.
    pub(crate) standing: Arc<Standing>,
}

impl Shared {
    /// With plans under these limits.
    pub(crate) fn limited(limits: stateway_machine::Limits) -> Self {
        Self {
            catalogue: Arc::new(Catalogue::limited(limits)),
            ..Self::default()
        }
    }
}

/// The keeper's state.
#[derive(Debug)]
pub(crate) struct Keeper {
    config: Config,
    store: StoreSlot,
    /// Reads what is on disk, also while a turn is being written.
    reader: Box<dyn Reading + Send>,
    /// The turn that is being written, if one is.
    under_way: Option<UnderWay>,
    /// The executions that leave memory at the end of the turn.
    leaving: Vec<i64>,
    /// Whether memory was full before executions left it.
    was_full: bool,
    /// Whether a read of the present turn failed.
    failed_reads: FailedReads,
    board: Arc<Board>,
    standing: Arc<Standing>,
    /// The time of the present turn.
    now: Moment,
    executions: Executions,
    definitions: Definitions,
    dispatch: Dispatch,
    connected: Connected,
    slots: Slots,
    triggers: Triggers,
    outbox: Outbox,
    pace: Pace,
    /// The effects of the present turn whose writes are on disk.
    shown: Vec<Effect>,
    /// The work that is left in this turn.
    work: VecDeque<Work>,
    /// Whether a queued execution may be able to begin.
    slots_due: bool,
    /// How far the connected receivers of events have got.
    sinks: HashMap<Arc<str>, i64>,
    /// The receivers of events that this process has, connected or not.
    expected_sinks: HashMap<Arc<str>, SinkStart>,
    /// How many executions this turn has loaded for results that are sent again.
    results_checked: usize,
    /// The executions that are being processed, the innermost last.
    processed: Vec<i64>,
    /// The definition whose scheduled start is being made.
    scheduling: Option<Arc<str>>,
    /// Executions that are not processed after a panic.
    aside: Arc<SetAside>,
    /// Why the last turn was abandoned, until everything is loaded again.
    broken: Option<Broken>,
    upkeep: Upkeep,
}

/// When the keeper last did what it does now and then.
#[derive(Debug)]
struct Upkeep {
    leases_checked: Instant,
    requests_forgotten: Instant,
    /// The removal of executions that need not be retained.
    sweeps: Vec<retention::Sweep>,
    /// By how much the wall clock was moved forward since the process began.
    moved_forward: SignedDuration,
    /// How far the executions that are due later are checked, while they are.
    sleeping: Option<(Option<Timestamp>, i64)>,
}

/// A turn was abandoned: the store could not be written, or the turn panicked.
#[derive(Debug)]
struct Broken {
    error: EngineError,
    tried: Instant,
}

/// Something a turn still has to do.
#[derive(Debug)]
enum Work {
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
    /// Take up an execution after a start.
    TakeUp { number: i64 },
    /// A parent has ended before its child.
    EndChild { number: i64, kill: bool },
}

impl Keeper {
    /// A keeper that has taken up every execution that was under way, and the effects of that. If the store
    /// belongs to another process or cannot be reached, the keeper refuses every request until that changes.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(crate) fn open(
        config: &Config,
        access: StoreAccess,
        shared: Shared,
        now: Moment,
    ) -> Result<(Self, Vec<Effect>)> {
        if let Some(lease) = access.store.lease() {
            shared.standing.end_with(lease);
        }
        let (store, failed_reads) = note_failed_reads(access.store);
        let reader = failed_reads.note_in(access.reader);
        let mut keeper = Self {
            executions: Executions::new(shared.in_memory),
            definitions: Definitions::new(shared.catalogue),
            dispatch: Dispatch::default(),
            connected: Connected::new(shared.covered),
            slots: Slots::new(config.max_active),
            triggers: Triggers::default(),
            outbox: Outbox::default(),
            pace: Pace::default(),
            shown: Vec::new(),
            work: VecDeque::new(),
            slots_due: false,
            sinks: HashMap::new(),
            expected_sinks: HashMap::new(),
            results_checked: 0,
            processed: Vec::new(),
            scheduling: None,
            aside: shared.aside,
            broken: None,
            upkeep: Upkeep {
                leases_checked: now.steady,
                requests_forgotten: now.steady,
                sweeps: retention::sweeps(config.retention, now.steady),
                moved_forward: SignedDuration::ZERO,
                sleeping: None,
            },
            config: config.clone(),
            store: StoreSlot::new(store, access.writer),
            reader,
            under_way: None,
            leaving: Vec::new(),
            was_full: false,
            failed_reads,
            board: shared.board,
            standing: shared.standing,
            now,
        };
        match keeper.store.own() {
            Ok(epoch) => {
                keeper.begin_epoch(epoch)?;
                keeper.load_all()?;
            }
            Err(error) if error.is_temporary() => keeper.break_off(&error),
            Err(error) => return Err(error.into()),
        }
        let effects = std::mem::take(&mut keeper.shown);
        Ok((keeper, effects))
    }

    /// Processes messages and what is due, writes the result, and returns what may be seen.
    pub(crate) fn turn(
        &mut self,
        messages: impl Iterator<Item = Message>,
        now: Moment,
    ) -> Vec<Effect> {
        self.set_time(now);
        if !self.survives(|keeper| keeper.process(messages)) {
            self.reload();
        }
        std::mem::take(&mut self.shown)
    }

    fn process(&mut self, messages: impl Iterator<Item = Message>) {
        self.results_checked = 0;
        self.pace.begin();
        self.check_store();
        self.resume();
        for message in messages.take(MOST_PER_TURN) {
            self.take(message);
            self.do_work();
            // The rest of the turn is for timers and schedules.
            if self.pace.is_nearly_full() {
                break;
            }
        }
        if self.broken.is_none() {
            self.do_work();
            self.ring();
            self.check_next_sleeping();
            self.try_postponed();
            self.start_scheduled();
            self.check_leases();
            self.record_reports();
            self.refresh_coverage();
        }
        self.finish();
        self.housekeep();
    }

    fn take(&mut self, message: Message) {
        self.note_sinks(&message);
        if let Some(broken) = &self.broken {
            message.refuse(broken.error.clone());
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
                // The caller may have stopped waiting, which is not an error.
                let _ = answer.send(self.purge(ended_before, limit));
            }
            Message::Remove { id, answer } => {
                let _ = answer.send(self.remove(&id));
            }
            Message::Get { id, answer } => {
                // A dropped answer means: not in memory.
                if let Some(number) = self.executions.number_of(&id) {
                    self.outbox.reply(number, answer);
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
            Message::Drifted { number } => self.repair_or_set_aside(number),
            Message::Publish { event, answer } => self.publish(&event, answer),
            Message::QueueCauses { numbers, answer } => {
                let _ = answer.send(Ok(self.queue_causes(&numbers)));
            }
            Message::Views { ids, answer } => self.views(&ids, answer),
            Message::Survey { answer } => {
                let _ = answer.send(Ok(self.survey()));
            }
            Message::ExpectSink { name, .. } => self.expect_sink(&name),
            Message::OpenSink { name, from, answer } => {
                self.open_sink(name, from, answer);
            }
            Message::SinkAt {
                name,
                position,
                keep,
            } => self.sink_at(name, position, keep),
            Message::Lull => self.gather(),
            Message::CloseSink { .. } | Message::Written | Message::Stop => {}
        }
    }

    /// Continues what the turn before put off.
    fn resume(&mut self) {
        if self.broken.is_some() {
            return;
        }
        if let Err(error) = self.take_up_more().and_then(|()| self.renew_more()) {
            self.break_off(&error);
            return;
        }
        while let Some(work) = self.pace.resume() {
            self.work.push_back(work);
            self.do_work();
        }
    }

    /// Does what the last message led to; then queued executions begin, which may lead to more.
    fn do_work(&mut self) {
        loop {
            while let Some(work) = self.work.pop_front() {
                self.do_one(work);
            }
            if !self.slots_due || self.pace.is_half_full() || self.pace.is_waking() {
                return;
            }
            self.slots_due = false;
            self.grant();
        }
    }

    fn do_one(&mut self, work: Work) {
        let may_wait = matches!(
            work,
            Work::EndChild { .. } | Work::TakeUp { .. } | Work::Feed(_)
        );
        if may_wait && self.pace.is_full() {
            self.pace.put_off(work);
            return;
        }
        match work {
            Work::Assign {
                number,
                task,
                worker,
            } => self.assign(number, task, worker),
            Work::Feed(worker) => self.feed(worker),
            Work::StartChild { parent, order } => {
                self.about(parent, |keeper| keeper.start_child(parent, &order));
            }
            Work::FinishChild {
                parent,
                outcome,
                usage,
            } => self.about(parent.number, |keeper| {
                keeper.finish_child(parent, outcome, usage);
            }),
            Work::TakeUp { number } => self.take_up_number(number),
            Work::EndChild { number, kill } => self.end_child(number, kill),
        }
    }

    /// How long the keeper can sleep unless a message arrives.
    pub(crate) fn idle(&self, now: Moment) -> Duration {
        if let Some(broken) = &self.broken {
            return TRY_AGAIN.saturating_sub(now.steady.saturating_duration_since(broken.tried));
        }
        let more = self.pace.has_more() || self.upkeep.sleeping.is_some();
        let more = more || self.outbox.has_changed();
        if self.slots_due || !self.work.is_empty() || more || self.connected.has_stale() {
            return Duration::ZERO;
        }
        let steady = [self.slots.next_postponed(), self.dispatch.next_report()];
        let steady = steady.into_iter().flatten().min();
        let steady = steady.map_or(Duration::MAX, |due| {
            due.saturating_duration_since(now.steady)
        });
        let alarm = self.executions.next_alarm();
        let due = [alarm, self.executions.next_wake, self.triggers.next()];
        let Some(due) = due.into_iter().flatten().min() else {
            return steady;
        };
        let wall = Duration::try_from(due.duration_since(now.wall)).unwrap_or(Duration::ZERO);
        wall.min(steady)
    }
}
