//! Taking up what was left: after a start, and after the store could not be written.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_machine::{ExecutionState, obligations};

use super::{Keeper, Work};
use crate::error::{EngineError, ErrorKind, Result};
use crate::request::Damaged;
use crate::store::Kept;

/// How many executions are read at a time.
const PAGE: usize = 1_000;

impl Keeper {
    /// Takes up every execution that has work under way, is queued, or has something due.
    pub(super) fn wake_up(&mut self) -> Result<()> {
        for (definition, number) in self.store.begun()? {
            self.slots.begin(&definition, number);
        }
        self.read_triggers()?;
        self.check_recent()?;
        self.write_down()?;
        let mut after: (Option<Timestamp>, i64) = (None, 0);
        let mut count = 0_usize;
        loop {
            let page = self.store.due(self.now.wall, after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = (last.status.wake_at, last.origin.number);
            count += page.len();
            for kept in page {
                self.take_up(kept);
            }
            self.write_down()?;
            tracing::info!(executions = count, "taking up what was left");
        }
        self.executions.next_wake = self.store.next_wake(self.now.wall)?;
        self.work.push_back(Work::Grant);
        self.work_off();
        self.write_down()
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

    fn write_down(&mut self) -> Result<()> {
        if self.finish() {
            return Ok(());
        }
        Err(match &self.broken {
            Some(broken) => EngineError::from_store(&broken.error),
            None => EngineError::stopped(),
        })
    }

    fn take_up(&mut self, kept: Kept) {
        let (number, id) = (kept.origin.number, Arc::clone(&kept.origin.id));
        // It may be there already: another one had to do with it.
        if !self.executions.contains(number)
            && let Err(error) = self.bring_kept(kept)
        {
            self.set_aside(number, &id, &error);
            return;
        }
        let Some(live) = self.executions.get(number) else {
            return;
        };
        // By the log and not by the row: another execution may have ended this one meanwhile.
        if live.state.state() == ExecutionState::Queued {
            self.queue(number);
            return;
        }
        for owed in obligations(&live.state) {
            self.owe(number, owed);
        }
        self.fire(number);
        self.work_off();
    }
}
