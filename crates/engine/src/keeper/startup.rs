//! Loads the executions with open work: after a start, and after the store could not be written.

use std::sync::Arc;

use stateway_driver::resume;
use stateway_machine::{ExecutionState, Task, TaskOrder};

use super::{Keeper, Work};
use crate::error::{EngineError, ErrorKind, Result};
use crate::request::Damaged;
use crate::store::{ExecutionRow, StoreError};

/// How many executions are read at a time.
const PAGE: usize = 1_000;
/// How many rows of an older form a turn writes again.
const RENEWED: usize = 200;

impl Keeper {
    /// Takes up every execution that has work under way, is queued, or has something due.
    pub(super) fn take_up_all(&mut self) -> Result<()> {
        for (definition, number) in self.store.begun()? {
            // A torn write may leave a row without events: nothing of it has begun. A log that cannot be
            // read is another matter: its execution has a slot until it is recovered or purged.
            if !matches!(self.store.head(number), Ok(None)) {
                self.slots.begin(&definition, number);
            }
        }
        self.read_triggers()?;
        self.pace.begin();
        // No queued execution begins before it is known how many are active.
        self.pace.set_waking(Some((None, 0)));
        self.pace.set_renewing(Some(0));
        self.check_recent()?;
        self.write_down()?;
        self.end_orphans()?;
        self.resume_parents()?;
        self.take_up_more()?;
        self.write_down()
    }

    /// Takes up the next page of executions after a start. The first page is taken up before the first
    /// message, the others a page a turn.
    pub(super) fn take_up_more(&mut self) -> Result<(), StoreError> {
        let Some(after) = self.pace.waking() else {
            return Ok(());
        };
        let page = self.store.due(self.now.wall, after, PAGE)?;
        let last = page.last().filter(|_| page.len() == PAGE);
        let next = last.map(|last| (last.status.wake_at, last.origin.number));
        for kept in page {
            self.take_up(kept);
        }
        self.pace.set_waking(next);
        if next.is_some() {
            tracing::info!("continuing open executions");
            return Ok(());
        }
        self.executions.next_wake = self.store.next_wake(self.now.wall)?;
        if self.is_log_ahead() {
            self.check_sleeping();
        }
        self.slots_due = true;
        self.do_work();
        Ok(())
    }

    /// Loads the next executions whose rows were written in an older form, once all executions are taken
    /// up. The end of the turn writes the rows again: they are caches, and out of date is no damage.
    pub(super) fn renew_more(&mut self) -> Result<(), StoreError> {
        let Some(after) = self.pace.renewing().filter(|_| !self.pace.is_waking()) else {
            return Ok(());
        };
        let page = self.store.outdated(after, RENEWED)?;
        let last = page.last().copied();
        self.pace
            .set_renewing(last.filter(|_| page.len() == RENEWED));
        for number in page {
            if let Err(error) = self.load_number(number) {
                self.set_aside_by_number(number, &error);
            }
        }
        Ok(())
    }

    /// Takes up an execution that a worker reports about, if it is still to be taken up.
    pub(super) fn take_up_early(&mut self, number: i64) {
        if !self.pace.is_waking() || self.executions.contains(number) {
            return;
        }
        self.take_up_number(number);
    }

    /// Ends the children of executions that have ended: ending them may have been put off to a turn that
    /// never came.
    fn end_orphans(&mut self) -> Result<()> {
        let mut after = 0;
        loop {
            let page = self.store.orphans(after, PAGE)?;
            let Some((last, _)) = page.last() else {
                return Ok(());
            };
            after = *last;
            for (number, kill) in page {
                self.pace.put_off(Work::EndChild { number, kill });
            }
        }
    }

    /// Resumes executions that wait for a child that has ended: the parent may have been set aside when
    /// the child ended.
    fn resume_parents(&mut self) -> Result<()> {
        let mut after = 0;
        loop {
            let page = self.store.parents_of_ended(after, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = *last;
            for number in page {
                self.pace.put_off(Work::TakeUp { number });
            }
        }
    }

    /// Takes up one execution.
    pub(super) fn take_up_number(&mut self, number: i64) {
        match self.store.kept(number) {
            Ok(Some(kept)) => self.take_up(kept),
            Ok(None) => {}
            Err(error) => tracing::error!(number, "an execution cannot be read: {error}"),
        }
    }

    /// Lists an execution that cannot be read as damaged, until it can be read. One damaged log must
    /// not keep the other executions from continuing.
    pub(super) fn set_aside(&mut self, number: i64, id: &Arc<str>, error: &EngineError) {
        // A store that fails is no damage: the turn is dropped, and the execution loaded again.
        if error.kind == ErrorKind::Unavailable || self.executions.damaged(number).is_some() {
            return;
        }
        let found = self.inspect(number).ok();
        let damaged = Damaged {
            id: Arc::clone(id),
            why: error.message.clone(),
            code: found.and_then(|found| Some(found.verdict.findings.first()?.code)),
        };
        if self.executions.set_damaged(number, damaged) {
            tracing::error!(execution = %id, "an execution cannot be loaded: {error}");
            metrics::counter!("stateway_engine_damaged_executions_total").increment(1);
        }
    }

    /// Whether the newest event is later than now: the wall clock was moved back. An event that cannot
    /// be read says nothing; its execution is found damaged when it is loaded.
    fn is_log_ahead(&self) -> bool {
        let before_last = self.store.last_position() - 1;
        let newest = self.store.log(before_last, 1).unwrap_or_default();
        newest
            .last()
            .is_some_and(|record| record.event.at > self.now.wall)
    }

    fn take_up(&mut self, kept: ExecutionRow) {
        let (number, id) = (kept.origin.number, Arc::clone(&kept.origin.id));
        let here = self.executions.contains(number);
        let queued = kept.status.state == ExecutionState::Queued;
        // Whether its row is right is checked when it begins.
        if queued && !here && !kept.older && self.queue_kept(&kept).is_ok() {
            return;
        }
        if !here && let Err(error) = self.load_row(kept) {
            self.set_aside(number, &id, &error);
            return;
        }
        self.begin_open_work(number);
        self.about(number, |keeper| keeper.fire(number));
        self.do_work();
    }
}

impl Keeper {
    /// Begins all open work of an execution that was loaded, unless it is under way.
    pub(super) fn begin_open_work(&mut self, number: i64) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let open = resume(&live.state);
        let handed_out: Vec<Task> = open.start.iter().filter_map(handed_out).collect();
        self.begin_work(number, open);
        for task in handed_out {
            self.send_again(number, task);
        }
    }
}

/// The task of an obligation that a worker has by the log.
fn handed_out(order: &TaskOrder) -> Option<Task> {
    order.worker.as_ref().map(|_| order.key.task.clone())
}
