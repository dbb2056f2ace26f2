//! The end of a turn: write it, then let it be seen.

use std::sync::Arc;
use std::time::Duration;

use stateway_machine::snapshot;
use tokio::sync::oneshot;

use super::commits::{UnderWay, write};
use super::outbox::{Changed, Outbox};
use super::{Broken, Effect, Keeper, Live, TRY_AGAIN};
use crate::bug::Bug;
use crate::error::Result;
use crate::news::Turned;
use crate::store::{Append, Created, Epoch, Forget, Snapshot, Status, StoreError, Turn};
use crate::view::EngineView as _;
use crate::worker::WorkerMessage;
use crate::{EngineError, View, summary};

/// An execution whose next timer is nearer than this stays in memory.
const SOON: Duration = Duration::from_secs(10);
/// How often old request ids are removed, and how many in one go.
const FORGET_EVERY: Duration = Duration::from_secs(1);
const FORGET_AT_ONCE: usize = 20_000;

impl Keeper {
    /// Ends the turn: it is written, beside the keeper or here. What may be seen then is shown or gathered. False
    /// when the turn, or the one before, could not be written.
    pub(super) fn finish(&mut self) -> bool {
        self.end_turn(true)
    }

    fn end_turn(&mut self, beside: bool) -> bool {
        if !self.settle_commit() {
            return false;
        }
        // The turn may have missed something: nothing of it is written.
        let failed = self.failed_reads.take();
        if let Some(error) = failed.filter(|_| !self.config.has(Bug::IgnoresFailedReads)) {
            self.break_off(&error);
            return false;
        }
        self.keep_touched();
        let was_full = self.is_memory_full();
        self.gather();
        let leaving = self.executions.take_leaving();
        self.answer();
        let followed = self.board.followed();
        let changed = self.outbox.take_changed();
        let mut effects = self.news(&changed);
        effects.extend(self.outbox.take_effects());
        // Those that a turn before has put on disk.
        self.unload();
        let (turn, requests) = self.outbox.take_turn();
        self.forget_deleted(&turn);
        let under_way = UnderWay {
            leaving,
            changed,
            followed,
            requests,
            was_full,
        };
        if !turn.is_empty() && beside && self.store.takes(&turn) {
            // In order: what this turn has put on disk before comes first.
            let shown = std::mem::take(&mut self.shown);
            self.store.begin(turn, (shown, effects));
            self.under_way = Some(under_way);
            return true;
        }
        if turn.is_empty() {
            // Nothing is written that would fail if another process owned the store meanwhile.
            if self.broken.is_none()
                && let Err(error) = self.store.check()
            {
                self.outbox.return_effects(effects);
                self.break_off(&error);
                return false;
            }
        } else {
            match write(&mut *self.store, &turn) {
                Ok(position) => self.shown.extend(position),
                Err(error) => {
                    self.outbox.return_effects(effects);
                    self.break_off(&error);
                    return false;
                }
            }
        }
        self.outbox.recycle(turn);
        self.shown.extend(effects);
        self.committed(under_way);
        self.unload();
        true
    }

    /// Gathers what the turn has done so far to the executions that it touched. The keeper does so while it waits for
    /// the turn before to be written, so that less is left to do between the two. An execution that the turn touches
    /// again is gathered again.
    pub(super) fn gather(&mut self) {
        for number in self.executions.take_touched() {
            let leaves = self.about(number, |keeper| keeper.close(number));
            self.executions.set_gathered(number, leaves);
        }
    }

    /// Writes what has happened to an execution in this turn, so that what follows reads it from the
    /// log. The execution is in memory afterwards.
    pub(super) fn write_first(&mut self, number: i64) -> Result<()> {
        if self.executions.get(number).is_some_and(Live::is_unwritten) {
            self.write_down()?;
        }
        self.load_number(number)
    }

    /// Writes the turn so far.
    ///
    /// # Errors
    /// The store cannot be written: nothing of the turn has happened, and nothing is in memory.
    pub(super) fn write_down(&mut self) -> Result<()> {
        if self.end_turn(false) {
            return Ok(());
        }
        Err(match &self.broken {
            Some(broken) => broken.error.clone(),
            None => EngineError::stopped(),
        })
    }

    /// Writes a turn of its own that changes no execution in memory, beside the present turn.
    ///
    /// # Errors
    /// The store cannot be written: nothing of the present turn has happened either, and nothing is in memory.
    pub(super) fn write_alone(&mut self, turn: &Turn) -> Result<()> {
        // Memory is ahead of the disk then, and the end of the turn drops it.
        if let Some(error) = self.store.failure() {
            return Err(error);
        }
        if let Err(error) = self.store.commit(turn).result() {
            self.break_off(&error);
            return Err(error.into());
        }
        Ok(())
    }

    /// What watchers are shown of changes, once the turn is on disk. Someone who watches one execution later
    /// asks the keeper for it, which has it until then. Someone who follows many executions later is seen to
    /// by [`committed`](Self::committed).
    fn news(&self, changed: &[Changed]) -> Vec<Effect> {
        let mut news = Vec::new();
        for Changed { number, inbox } in changed {
            let Some(live) = self.executions.get(*number) else {
                continue;
            };
            let turned = Turned {
                ended: live.state.state().is_terminal(),
                inbox: *inbox,
            };
            if self.board.wants(&live.origin.id, turned) {
                let view = self.view(live);
                news.push(Effect::Changed(Arc::new(view)));
            }
        }
        news
    }

    /// Answers with the executions of these ids that are in memory.
    pub(super) fn views(&mut self, ids: &[Arc<str>], answer: oneshot::Sender<Result<Vec<View>>>) {
        let numbers = ids.iter().filter_map(|id| self.executions.number_of(id));
        let live = numbers.filter_map(|number| self.executions.get(number));
        let views = live.map(|live| self.view(live)).collect();
        self.outbox.answer(answer, Ok(views));
    }

    /// An execution in memory as it is shown.
    fn view(&self, live: &Live) -> View {
        let mut view = View::with_coverage(&live.origin, &live.state, self.connected.coverage());
        view.queued = self.queue_cause(view.number);
        view
    }

    /// Gathers what a turn did to one execution; whether it may leave memory.
    fn close(&mut self, number: i64) -> bool {
        let Some(live) = self.executions.get(number) else {
            return false;
        };
        let under_way = live.under_way();
        let state = live.state.state();
        let alarm = self.alarm_of(live, &under_way);
        let unserved = self.connected.coverage();
        let unserved = unserved.unserved(&live.state, live.origin.tenant());
        let unserved: Vec<_> = unserved.into_iter().map(|task| task.step).collect();
        let mut status = Status::unserved(&live.state, &under_way, &unserved);
        if live.is_shifted() {
            status.wake_no_later_than(alarm);
        }
        let Some(live) = self.executions.get_mut(number) else {
            return false;
        };
        live.touched = false;
        let before = live.status.as_ref().map_or(0, |written| written.inbox);
        let inbox = before > 0 || status.inbox > 0;
        match &live.status {
            None => self.outbox.turn.created.push(Created {
                origin: Arc::clone(&live.origin),
                revision: live.state.plan().shared_revision(),
                at: live.state.times().created.unwrap_or(self.now.wall),
                status: status.clone(),
            }),
            Some(written) if *written != status => {
                self.outbox.turn.statuses.push((number, status.clone()));
                if live.lines.is_empty() {
                    self.outbox.changed(Changed { number, inbox });
                }
            }
            Some(_) if live.renew_row => {
                self.outbox.turn.statuses.push((number, status.clone()));
            }
            Some(_) => {}
        }
        live.renew_row = false;
        live.status = Some(status);
        if !live.lines.is_empty() {
            live.renew_summary = true;
            let lines = std::mem::take(&mut live.lines);
            live.hash = crate::store::link(&live.hash, &lines);
            self.outbox.turn.appends.push(Append {
                number,
                branch: live.branch,
                first: live.first,
                lines,
                hash: live.hash,
            });
            self.outbox.changed(Changed { number, inbox });
        }
        let long = live.since_snapshot >= self.config.snapshot_events;
        if live.renew_snapshot || long && !state.is_terminal() {
            live.since_snapshot = 0;
            live.renew_snapshot = false;
            let data = snapshot(&live.state);
            live.bytes = data.len();
            self.outbox.turn.snapshots.push(Snapshot {
                number,
                branch: live.branch,
                sequence: live.state.sequence(),
                revision: live.state.plan().shared_revision(),
                hash: live.hash,
                data,
            });
            self.executions.weigh(number);
        }
        self.executions.set_alarm(number, alarm);
        let far = alarm.is_none_or(|due| due.duration_since(self.now.wall) > soon());
        let leaves = state.is_terminal() || !under_way.tasks && far;
        if leaves {
            self.summarise(number);
        }
        leaves
    }

    /// Writes an execution that leaves memory to its row, as lists show it.
    fn summarise(&mut self, number: i64) {
        let Some(live) = self.executions.get_mut(number) else {
            return;
        };
        if !std::mem::take(&mut live.renew_summary) {
            return;
        }
        let summary = summary::write(&live.origin, &live.state, &live.hash);
        let row = summary.map(|summary| (number, summary));
        self.outbox.turn.summaries.extend(row);
    }

    /// Readies the answers of this turn.
    fn answer(&mut self) {
        for (number, answer) in self.outbox.take_replies() {
            let view = self.about(number, |keeper| match keeper.executions.get(number) {
                Some(live) => Ok(Box::new(keeper.view(live))),
                None => Err(EngineError::no_execution(&number.to_string())),
            });
            self.outbox.answer(answer, view);
        }
    }

    /// The store could not be read or written: nothing of the turn happened.
    pub(super) fn break_off(&mut self, error: &StoreError) {
        let standby = stand_by(error);
        if standby.is_some() {
            tracing::warn!("{error}; this process takes over when the lease of the owner ends");
        } else {
            tracing::error!("the store does not work: {error}; nothing that was answered is lost");
            metrics::counter!("stateway_engine_write_failures_total").increment(1);
        }
        let error = EngineError::from_store(error);
        if let Some(active) = standby {
            self.stand_by(&error, active);
        }
        self.drop_turn(&error);
        self.broken = Some(Broken {
            error,
            tried: self.now.steady,
        });
    }

    /// Another process owns the store: this process does not read it, and webhooks continue from what that process stores.
    fn stand_by(&mut self, error: &EngineError, active: Option<&str>) {
        self.standing.lost(error.clone(), active);
        self.board.read_again();
    }

    /// This process has become the owner of the store.
    pub(super) fn begin_epoch(&mut self, epoch: Epoch) -> Result<()> {
        self.executions.begin_after(self.store.last_number()?);
        self.standing.owned(epoch);
        self.read_sinks()?;
        self.rest_sweeps();
        let position = self.store.last_position();
        self.shown.push(Effect::Committed(position));
        Ok(())
    }

    /// Breaks off if the process may have lost the store since the last turn.
    pub(super) fn check_store(&mut self) {
        // The store is with its writer while a turn is being written, which will tell.
        if self.broken.is_some() || self.store.is_away() {
            return;
        }
        if let Err(error) = self.store.check() {
            self.break_off(&error);
        }
    }

    /// Drops everything that the turn did. Memory may be ahead of the disk, so all of it is forgotten;
    /// [`load_again`](Self::load_again) loads everything again.
    pub(super) fn drop_turn(&mut self, error: &EngineError) {
        self.drop_commit();
        let mut effects = self.outbox.fail(error);
        if self.config.has(Bug::ForgetsToCloseSessions) {
            effects.retain(|effect| !matches!(effect, Effect::Tell(..)));
        }
        self.shown.extend(effects);
        self.forget();
        for (ix, tell) in self.connected() {
            // Workers reconnect and send again what was not acknowledged.
            let reason = error.reason;
            self.shown
                .push(Effect::Tell(tell, WorkerMessage::Closed { reason }));
            self.dispatch.dismiss(ix);
        }
    }

    fn connected(
        &self,
    ) -> Vec<(
        super::dispatch::WorkerIx,
        tokio::sync::mpsc::UnboundedSender<WorkerMessage>,
    )> {
        let connected = self.dispatch.workers().filter_map(|(ix, worker)| {
            let (_, tell) = worker.session.as_ref()?;
            Some((ix, tell.clone()))
        });
        connected.collect()
    }

    /// Forgets everything that is in memory.
    fn forget(&mut self) {
        self.executions.clear();
        self.board.release_all();
        self.definitions.current.clear();
        self.slots.clear();
        self.dispatch.forget_tasks();
        self.work.clear();
        self.slots_due = false;
        self.pace.clear();
        self.outbox = Outbox::default();
        self.failed_reads.take();
    }

    /// What is done now and then: a broken store is tried again, old request ids are forgotten, old
    /// executions are removed.
    pub(super) fn housekeep(&mut self) {
        if let Some(broken) = &mut self.broken {
            if self.now.steady.saturating_duration_since(broken.tried) < TRY_AGAIN {
                return;
            }
            broken.tried = self.now.steady;
            self.load_again();
            return;
        }
        let forgotten = self.upkeep.requests_forgotten;
        if self.now.steady.saturating_duration_since(forgotten) >= FORGET_EVERY {
            self.upkeep.requests_forgotten = self.now.steady;
            self.forget_requests();
        }
        self.remove_unretained();
    }

    /// Loads everything again after a turn was abandoned, if the store can be written.
    pub(super) fn load_again(&mut self) {
        let epoch = match self.store.own() {
            Ok(epoch) => epoch,
            Err(error) => {
                self.still_broken(&error);
                return;
            }
        };
        match self.begin_epoch(epoch).and_then(|()| self.take_up_all()) {
            Ok(()) => {
                self.broken = None;
                // A turn that was reported as failed may be stored: watchers did not learn of it.
                self.board.read_again();
                tracing::info!(
                    epoch,
                    "the store can be written again; every execution is loaded"
                );
            }
            Err(error) => {
                tracing::debug!("the store still cannot be written: {error}");
                self.forget();
            }
        }
    }

    /// The store could not be taken again. Callers get the newest reason.
    fn still_broken(&mut self, error: &StoreError) {
        tracing::debug!("the store still cannot be written: {error}");
        let standby = stand_by(error);
        let error = EngineError::from_store(error);
        if let Some(active) = standby {
            self.stand_by(&error, active);
        }
        if let Some(broken) = &mut self.broken {
            broken.error = error;
        }
        self.forget();
    }

    fn forget_requests(&mut self) {
        let memory = jiff::SignedDuration::try_from(self.config.request_id_retention);
        // A clock that was moved forward may be wrong.
        let memory = memory.map(|memory| memory.saturating_add(self.upkeep.moved_forward));
        let before = memory
            .ok()
            .and_then(|memory| self.now.wall.checked_sub(memory).ok());
        let Some(before) = before else { return };
        // A read that fails is noted, and the next turn is not written.
        if !matches!(self.store.has_requests_before(before), Ok(true)) {
            return;
        }
        let forgotten = Some(Forget {
            before,
            limit: FORGET_AT_ONCE,
        });
        let written = self.write_alone(&Turn {
            forgotten,
            ..Turn::default()
        });
        if let Err(error) = written {
            tracing::warn!("old request ids cannot be removed: {error}");
        }
    }
}

/// The address of the owner, if it is known, of a store that another process owns.
fn stand_by(error: &StoreError) -> Option<Option<&str>> {
    match error {
        StoreError::Standby { address, .. } => Some(address.as_deref()),
        _ => None,
    }
}

fn soon() -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(SOON).unwrap_or(jiff::SignedDuration::ZERO)
}
