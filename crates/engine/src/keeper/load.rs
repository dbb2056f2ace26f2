//! Loading executions from the store.

use std::sync::Arc;

use super::{Keeper, Live};
use crate::EngineError;
use crate::error::Result;
use crate::store::{ExecutionRow, OpenWork, Status, load};

impl Keeper {
    /// The number of an execution, in memory or not.
    pub(super) fn number_of(&self, id: &str) -> Result<i64> {
        if let Some(number) = self.executions.number_of(id) {
            return Ok(number);
        }
        let found = self.store.number_of(id)?;
        found.ok_or_else(|| EngineError::no_execution(id))
    }

    /// Brings an execution into memory.
    pub(super) fn load_number(&mut self, number: i64) -> Result<()> {
        if self.executions.contains(number) {
            return Ok(());
        }
        let kept = self.store.kept(number)?;
        let kept = kept.ok_or_else(|| EngineError::no_execution(&number.to_string()))?;
        self.load_row(kept)?;
        // Its tasks are known to no worker yet: their heartbeats count from now.
        if self.pace.is_waking() {
            self.begin_open_work(number);
        }
        Ok(())
    }

    /// Brings an execution into memory whose row was read.
    pub(super) fn load_row(&mut self, kept: ExecutionRow) -> Result<()> {
        self.pace.spend();
        let number = kept.origin.number;
        self.refuse_set_aside(number)?;
        self.about(number, |keeper| keeper.load(kept))
    }

    fn load(&mut self, kept: ExecutionRow) -> Result<()> {
        self.config.faults.panic_for(&kept.origin.id);
        let loaded = load(&*self.store, kept, &self.definitions.catalogue)?;
        let origin = Arc::clone(&loaded.kept.origin);
        let under_way = OpenWork::of(&loaded.state, origin.not_before);
        let row_agrees = loaded.kept.older
            || Status::agrees(&loaded.state, &under_way, &loaded.kept.status)
                && self.store.head(origin.number)?
                    == Some((loaded.kept.status.branch, loaded.hash));
        if !row_agrees {
            self.repair(origin.number)?;
            if self.executions.contains(origin.number) {
                return Ok(());
            }
        }
        let mut live = Live::new(Arc::clone(&origin), loaded.state, loaded.hash);
        live.take_shift(loaded.kept.status.wake_at, under_way.due);
        live.status = Some(loaded.kept.status);
        live.since_snapshot = loaded.since_snapshot;
        live.bytes = loaded.bytes;
        live.renew_snapshot = loaded.renew_snapshot;
        live.renew_row = loaded.kept.older;
        live.renew_summary = loaded.kept.older;
        live.branch = live.state.branch();
        live.notice_time(self.now.wall);
        let times = live.state.times();
        let under_way = times.started.is_some() && times.ended.is_none();
        self.executions.keep(live);
        self.executions.count(origin.number, under_way);
        // Its timers and parking are settled at the end of the turn.
        self.executions.touch(origin.number);
        Ok(())
    }
}
