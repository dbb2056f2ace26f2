//! A panic costs one execution, not the engine.
//!
//! A turn that panics is abandoned like a turn that could not be written: callers get an error, memory
//! is forgotten and loaded from the store again. The execution that was being processed is set aside:
//! the engine does not load it again until the process restarts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Broken, Keeper};
use crate::error::{EngineError, Result};
use crate::request::Damaged;

/// The most executions that are set aside in a row before the engine waits and tries again.
const MOST_IN_A_ROW: usize = 100;

impl Keeper {
    /// Does something about one execution. A panic meanwhile is blamed on that execution.
    pub(super) fn about<T>(&mut self, number: i64, work: impl FnOnce(&mut Self) -> T) -> T {
        let depth = self.processed.len();
        self.processed.push(number);
        let done = work(self);
        // After a panic the executions stay noted.
        self.processed.truncate(depth);
        done
    }

    /// Refuses an execution that was set aside.
    pub(super) fn refuse_set_aside(&self, number: i64) -> Result<()> {
        match self.aside.get(number) {
            Some(why) => Err(EngineError::set_aside(&why)),
            None => Ok(()),
        }
    }

    /// Runs code that may panic. After a panic it abandons the turn and returns false.
    pub(super) fn survives(&mut self, work: impl FnOnce(&mut Self)) -> bool {
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        let Err(panic) = done else {
            return true;
        };
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        self.abandon(&text.unwrap_or_else(|| "a panic without a text".to_owned()));
        false
    }

    /// Drops everything that the turn did, and sets the execution aside that was being processed.
    fn abandon(&mut self, panic: &str) {
        metrics::counter!("stateway_engine_panics_total").increment(1);
        // An execution that is not on disk is gone with the turn; the one that led to it is not.
        let processed = std::mem::take(&mut self.processed).into_iter().rev();
        let on_disk = |number| Some((number, self.store.id_of(number).ok()??));
        let blamed = processed.filter_map(on_disk).next();
        let id = blamed.as_ref().map(|(_, id)| Arc::clone(id));
        tracing::error!(
            execution = id.as_deref().unwrap_or("unknown"),
            "a defect of the engine ended a turn: {panic}; nothing that was answered is lost"
        );
        let error = EngineError::turn_abandoned();
        self.drop_turn(&error);
        self.dispatch.reset();
        let scheduling = self.scheduling.take();
        if let Some(schedule) = scheduling.filter(|_| blamed.is_none()) {
            self.triggers.stop(schedule);
        }
        if let Some((number, id)) = blamed {
            let why = format!("a defect of the engine ended its processing: {panic}");
            self.aside.insert(number, why.as_str().into());
            let damaged = Damaged {
                id,
                why,
                code: None,
            };
            self.executions.set_damaged(number, damaged);
        }
        self.broken = Some(Broken {
            error,
            tried: self.now.steady,
        });
    }

    /// Loads every execution that was under way, at the start of the process.
    pub(super) fn load_all(&mut self) -> Result<()> {
        for _ in 0..MOST_IN_A_ROW {
            let mut loaded = Ok(());
            if self.survives(|keeper| loaded = keeper.take_up_all()) {
                self.broken = None;
                return loaded;
            }
        }
        Err(EngineError::turn_abandoned())
    }

    /// Loads everything again after a panic. Each further panic sets another execution aside.
    pub(super) fn reload(&mut self) {
        for _ in 0..MOST_IN_A_ROW {
            if self.survives(Self::load_again) {
                return;
            }
        }
    }
}
