//! Going back in a log: an execution runs again from a step on, as a new branch. The old branch stays
//! as it is. A success is forked instead, see `fork`.

use std::sync::Arc;

use stateway_driver::resume;
use stateway_machine::{
    CutOff, Event, Redo, RedoRequest, Resolver, State, Verb, Withdrawal, is_forked, open_branch,
    replay,
};

use super::{Keeper, Live};
use crate::error::{EngineError, ErrorKind, Result};
use crate::request::RetryFrom;
use crate::store::{Branch, plan};

impl Keeper {
    /// Runs an execution again from a step on; the number of the execution that continues. A success
    /// is final: it is forked, and stays as it is.
    pub(super) fn retry_from(
        &mut self,
        number: i64,
        from: &RetryFrom,
        actor: &Arc<str>,
        cause: &Arc<str>,
    ) -> Result<i64> {
        self.write_first(number)?;
        let Some(live) = self.executions.get(number) else {
            return Err(EngineError::no_execution(&number.to_string()));
        };
        let resolver = Resolver {
            by: actor,
            roles: &from.roles,
            operators: &self.config.escalation_roles,
        };
        let request = RedoRequest {
            step: Arc::clone(&from.step),
            from_start: from.from_start,
            input: from.input.clone(),
            feedback: Arc::clone(&from.feedback),
        };
        let cut = CutOff::of(&live.state, &request, &resolver)?;
        let (present, forks) = (live.state.branch(), is_forked(&live.state));
        let (before, redo) = self.leave_log(number, present, cut, &request)?;
        if forks {
            return self.fork(number, before, redo, (from.fork_id.as_ref(), actor, cause));
        }
        if from.fork_id.is_some() {
            return Err(EngineError::new(
                ErrorKind::FailedPrecondition,
                "NOT_FORKED",
                "only a succeeded execution is forked; this execution is reopened under its own name",
            )
            .hint("Leave the id of the new execution out."));
        }
        self.reopen(number, before, redo, (actor, cause))?;
        Ok(number)
    }

    /// Continues on a new branch from an earlier point of the log.
    fn reopen(
        &mut self,
        number: i64,
        before: Before,
        redo: Redo,
        (actor, cause): (&Arc<str>, &Arc<str>),
    ) -> Result<()> {
        let Some(live) = self.executions.get(number) else {
            return Err(EngineError::no_execution(&number.to_string()));
        };
        let (status, origin) = (live.status.clone(), Arc::clone(&live.origin));
        let ended = Some(live.state.state()).filter(|state| state.is_terminal());
        let branches = self.store.branches(number)?;
        let branch = branches.iter().map(|known| known.branch).max().unwrap_or(0) + 1;
        let verb = open_branch(&live.state, &before.state, branch, Arc::clone(actor), redo);
        for (step, _, _) in self.dispatch.tasks_of(number) {
            self.withdraw(number, &step, Withdrawal::NotNeeded);
        }
        self.executions.forget(number);
        let (cutoff, parent) = (before.state.sequence(), before.state.branch());
        let mut live = Live::new(Arc::clone(&origin), before.state, before.hash);
        live.status = status;
        live.notice_time(self.now.wall);
        self.executions.keep(live);
        self.executions.touch(number);
        // It counts as begun before the branch is opened, which may end it immediately.
        if ended.is_some() {
            self.slots.begin(&origin.definition, number);
        }
        self.executions.count(number, true);
        self.command(number, cause, verb)?;
        self.outbox.turn.branches.push(Branch {
            number,
            branch,
            parent,
            cutoff,
        });
        self.take_back(number, cause);
        Ok(())
    }

    /// Queues the attempts again on this branch that workers had on the old branch.
    pub(super) fn take_back(&mut self, number: i64, cause: &Arc<str>) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let open = resume(&live.state).start.into_iter();
        let held = open.filter(|order| order.worker.is_some());
        for task in held.map(|order| order.key.task) {
            self.dispatch.remove(number, &task.step);
            if let Err(error) = self.command(number, cause, Verb::ReleaseTask { task, lost: false })
            {
                tracing::warn!(number, "an attempt cannot be queued again: {error}");
            }
        }
    }

    /// Reads the log up to the point of the retry. Returns that part, and the steps that run again.
    fn leave_log(
        &self,
        number: i64,
        branch: u32,
        mut cut: CutOff,
        request: &RedoRequest,
    ) -> Result<(Before, Redo)> {
        let store = &self.store;
        let kept = store.kept(number)?;
        let kept = kept.ok_or_else(|| EngineError::no_execution(&number.to_string()))?;
        store.walk(number, branch, 0, &mut |row| {
            row.events(number)?.iter().for_each(|event| cut.note(event));
            Ok(true)
        })?;
        let mut events: Vec<Event> = Vec::new();
        let mut hash = [0; 16];
        store.walk(number, branch, 0, &mut |row| {
            let shared = row.events(number)?.into_iter();
            events.extend(shared.take_while(|event| cut.keeps(event)));
            // The row is hashed as a whole, whichever part of it counts.
            hash = row.hash();
            Ok(!cut.is_found())
        })?;
        let plan = plan(&**store, &kept.revision, &self.definitions.catalogue)?;
        let state = replay(plan, &events).map_err(EngineError::corrupt)?;
        let redo = cut.redo(&state, request)?;
        let before = Before {
            state,
            events,
            hash,
        };
        Ok((before, redo))
    }
}

/// A log up to where it is left.
pub(super) struct Before {
    pub(super) state: State,
    pub(super) events: Vec<Event>,
    hash: crate::store::Hash,
}
