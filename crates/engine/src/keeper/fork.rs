//! Forking: a succeeded execution runs again from a step, as a new execution with a copy of the log up
//! to that step. The old execution does not change.

use std::sync::Arc;

use stateway_machine::{Redo, State, fork, forked_events};

use super::branch::Before;
use super::{Keeper, Live};
use crate::error::{EngineError, Result};
use crate::store::plan;
use crate::view::Origin;

impl Keeper {
    /// Forks an execution; the number of the new one.
    pub(super) fn fork(
        &mut self,
        source: i64,
        before: Before,
        redo: Redo,
        (id, actor, cause): (Option<&Arc<str>>, &Arc<str>, &Arc<str>),
    ) -> Result<i64> {
        let kept = self.store.kept(source)?;
        let kept = kept.ok_or_else(|| EngineError::no_execution(&source.to_string()))?;
        let id = match id {
            Some(id) => {
                self.check_free(id)?;
                Arc::clone(id)
            }
            None => self.config.ids.next(self.now.wall),
        };
        let plan = plan(&*self.store, &kept.revision, &self.definitions.catalogue)?;
        let number = self.executions.next_number();
        let origin = Arc::new(Origin {
            number,
            id: Arc::clone(&id),
            definition: Arc::clone(&kept.origin.definition),
            labels: Arc::clone(&kept.origin.labels),
            parent: None,
            depth: 0,
            not_before: None,
            forked_from: Some(Arc::clone(&kept.origin.id)),
        });
        let mut live = Live::new(Arc::clone(&origin), State::new(plan), [0; 16]);
        live.apply(forked_events(before.events, &id, cause))?;
        self.executions.keep(live);
        self.executions.touch(number);
        self.slots.begin(&origin.definition, number);
        self.executions.count(number, true);
        let source = Arc::clone(&kept.origin.id);
        let verb = fork(source, &before.state, Arc::clone(actor), redo);
        if let Err(error) = self.command(number, cause, verb) {
            self.slots.end(&origin.definition, number);
            self.executions.forget(number);
            return Err(error);
        }
        self.take_back(number, cause);
        Ok(number)
    }
}
