//! The end of a turn: write it, then let it be seen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_machine::snapshot;

use super::{Broken, Effect, Keeper, Work};
use crate::store::{Append, Created, Snapshot, Status, StoreError, Turn};
use crate::worker::WorkerMessage;
use crate::{EngineError, View};

/// An execution whose next timer is nearer than this stays in memory.
const SOON: Duration = Duration::from_secs(10);
/// How often a store that could not be written is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// How often old request ids are forgotten, and how many at once.
const FORGET_EVERY: Duration = Duration::from_secs(1);
const FORGET_AT_ONCE: usize = 20_000;

impl Keeper {
    /// Writes the turn and lets it be seen; false when it could not be written.
    pub(super) fn finish(&mut self) -> bool {
        let touched = std::mem::take(&mut self.touched);
        let mut leaving = Vec::new();
        for number in &touched {
            if self.close(*number) {
                leaving.push(*number);
            }
        }
        self.answer();
        let turn = std::mem::take(&mut self.turn);
        self.asked.clear();
        if !turn.is_empty() {
            let began = Instant::now();
            if let Err(error) = self.store.commit(&turn) {
                self.break_off(error);
                return false;
            }
            account(&turn, began.elapsed());
            self.forget_deleted(&turn);
            if !turn.appends.is_empty() {
                self.committed.send_replace(self.store.last_position());
            }
        }
        self.spread_news();
        if !leaving.is_empty() {
            leaving.into_iter().for_each(|number| self.let_go(number));
            // Whoever left may have left room; the next turn sees to it.
            self.work.push_back(Work::Grant);
        }
        self.effects.drain(..).for_each(Effect::show);
        self.turn = recycled(turn);
        true
    }

    /// Tells watchers what changed. Who watches is asked only now that the turn is on disk: whoever
    /// comes later reads it there.
    fn spread_news(&mut self) {
        for number in self.changed.drain(..) {
            if let Some(live) = self.hot.get(&number)
                && self
                    .board
                    .wants(&live.origin.id, live.state.state().is_terminal())
            {
                self.board.tell(Arc::new(View::of(
                    &live.origin,
                    &live.state,
                    &self.coverage,
                )));
            }
        }
    }

    /// Gathers what a turn did to one execution; whether it may leave memory.
    fn close(&mut self, number: i64) -> bool {
        let Some(live) = self.hot.get_mut(&number) else {
            return false;
        };
        live.touched = false;
        let under_way = live.under_way();
        let (state, due) = (live.state.state(), under_way.due);
        let unserved = self.coverage.unserved(&live.state, live.origin.tenant());
        let unserved: Vec<_> = unserved.into_iter().map(|task| task.step).collect();
        let status = Status::unserved(&live.state, &under_way, &unserved);
        match &live.status {
            None => self.turn.created.push(Created {
                origin: Arc::clone(&live.origin),
                revision: live.state.plan().shared_revision(),
                at: live.state.times().created.unwrap_or(self.now),
                status: status.clone(),
            }),
            Some(written) if *written != status => {
                self.turn.statuses.push((number, status.clone()));
                if live.lines.is_empty() {
                    self.changed.push(number);
                }
            }
            Some(_) => {}
        }
        live.status = Some(status);
        if !live.lines.is_empty() {
            let lines = std::mem::take(&mut live.lines);
            live.hash = crate::store::link(&live.hash, &lines);
            self.turn.appends.push(Append {
                number,
                branch: live.branch,
                first: live.first,
                lines,
                hash: live.hash,
            });
            self.changed.push(number);
        }
        let long = live.since_snapshot >= self.config.snapshot_events;
        if live.renew_snapshot || long && !state.is_terminal() {
            live.since_snapshot = 0;
            live.renew_snapshot = false;
            self.turn.snapshots.push(Snapshot {
                number,
                branch: live.branch,
                sequence: live.state.sequence(),
                revision: live.state.plan().shared_revision(),
                hash: live.hash,
                data: snapshot(&live.state),
            });
        }
        self.set_alarm(number, due.filter(|_| !state.is_terminal()));
        let far = due.is_none_or(|due| due.duration_since(self.now) > soon());
        let leaves = state.is_terminal() || !under_way.tasks && far;
        if leaves
            && !state.is_terminal()
            && let Some(due) = due
        {
            self.next_wake = Some(self.next_wake.map_or(due, |wake| wake.min(due)));
        }
        leaves
    }

    fn set_alarm(&mut self, number: i64, due: Option<Timestamp>) {
        let Some(live) = self.hot.get_mut(&number) else {
            return;
        };
        if live.alarm == due {
            return;
        }
        if let Some(before) = live.alarm {
            self.alarms.remove(&(before, number));
        }
        live.alarm = due;
        if let Some(due) = due {
            self.alarms.insert((due, number));
        }
    }

    /// Readies the answers of this turn.
    fn answer(&mut self) {
        for (number, answer) in std::mem::take(&mut self.replies) {
            let view = match self.hot.get(&number) {
                Some(live) => {
                    let view = View::of(&live.origin, &live.state, &self.coverage);
                    Ok(Box::new(view))
                }
                None => Err(EngineError::no_execution(&number.to_string())),
            };
            self.effects.push(Effect::Answer(answer, view));
        }
    }

    /// The store could not be written: nothing of the turn happened. Memory is ahead of the disk
    /// now, so all of it is forgotten and taken up anew once the store can be written.
    fn break_off(&mut self, error: StoreError) {
        tracing::error!("the store cannot be written: {error}; nothing that was answered is lost");
        metrics::counter!("stateway_engine_write_failures_total").increment(1);
        for effect in std::mem::take(&mut self.effects) {
            effect.fail(&error);
        }
        self.forget();
        for (ix, tell) in self.connected() {
            // They come back and say again what was not acknowledged.
            let reason = error.reason();
            let _ = tell.send(WorkerMessage::Closed { reason });
            self.dispatch.dismiss(ix);
        }
        self.broken = Some(Broken {
            error,
            tried: Instant::now(),
        });
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
        self.hot.clear();
        self.numbers.clear();
        self.current.clear();
        self.alarms.clear();
        self.slots.clear();
        self.dispatch.forget_tasks();
        self.active = 0;
        self.healed.clear();
        self.next_wake = None;
        self.work.clear();
        self.touched.clear();
        self.changed.clear();
        self.replies.clear();
        self.turn = Turn::default();
    }

    /// What is done now and then: a broken store is tried again, old request ids are forgotten.
    pub(super) fn housekeep(&mut self) {
        if let Some(broken) = &mut self.broken {
            if broken.tried.elapsed() < TRY_AGAIN {
                return;
            }
            broken.tried = Instant::now();
            let mended = self.store.probe().map_err(EngineError::from);
            match mended.and_then(|()| self.wake_up()) {
                Ok(()) => {
                    self.broken = None;
                    tracing::info!("the store can be written again; everything is taken up");
                }
                Err(error) => {
                    tracing::debug!("the store still cannot be written: {error}");
                    self.forget();
                }
            }
            return;
        }
        if self.requests_forgotten.elapsed() >= FORGET_EVERY {
            self.requests_forgotten = Instant::now();
            self.forget_requests();
        }
    }

    fn forget_requests(&mut self) {
        let memory = jiff::SignedDuration::try_from(self.config.request_memory);
        let before = memory
            .ok()
            .and_then(|memory| self.now.checked_sub(memory).ok());
        let Some(before) = before else { return };
        if let Err(error) = self.store.forget_requests(before, FORGET_AT_ONCE) {
            tracing::warn!("old request ids cannot be forgotten: {error}");
        }
    }
}

fn soon() -> jiff::SignedDuration {
    jiff::SignedDuration::try_from(SOON).unwrap_or(jiff::SignedDuration::ZERO)
}

/// The same lists again, emptied, so that the next turn need not make them.
fn recycled(mut turn: Turn) -> Turn {
    turn.created.clear();
    turn.appends.clear();
    turn.statuses.clear();
    turn.revisions.clear();
    turn.snapshots.clear();
    turn.branches.clear();
    turn.requests.clear();
    turn.definitions.clear();
    turn.schedules.clear();
    turn.sinks.clear();
    turn
}

fn account(turn: &Turn, took: Duration) {
    metrics::histogram!("stateway_engine_commit_seconds").record(took);
    metrics::counter!("stateway_engine_commits_total").increment(1);
    metrics::counter!("stateway_engine_appends_total").increment(turn.appends.len() as u64);
}

impl Effect {
    /// Lets it be seen. Whoever has gone away need not see it.
    fn show(self) {
        match self {
            Self::Answer(answer, view) => {
                let _ = answer.send(view);
            }
            Self::Tell(tell, message) => {
                let _ = tell.send(message);
            }
            Self::Published(answer, published) => {
                let _ = answer.send(Ok(published));
            }
            Self::Definition(answer) => answer.show(),
            Self::Mended(answer, mended) => {
                let _ = answer.send(Ok(*mended));
            }
            Self::SinkOpened(answer, position) => {
                let _ = answer.send(Ok(position));
            }
        }
    }

    /// It did not happen.
    fn fail(self, error: &StoreError) {
        match self {
            Self::Answer(answer, view) => {
                let _ = answer.send(view.and_then(|_| Err(EngineError::from_store(error))));
            }
            Self::Published(answer, _) => {
                let _ = answer.send(Err(EngineError::from_store(error)));
            }
            Self::Definition(answer) => answer.fail(EngineError::from_store(error)),
            Self::Mended(answer, _) => {
                let _ = answer.send(Err(EngineError::from_store(error)));
            }
            Self::SinkOpened(answer, _) => {
                let _ = answer.send(Err(EngineError::from_store(error)));
            }
            // Workers learn what is so when they come back.
            Self::Tell(..) => {}
        }
    }
}
