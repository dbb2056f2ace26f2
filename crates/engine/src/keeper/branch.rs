//! Going back in a log: an execution runs again from a step on, as a new branch. The old branch stays
//! as it is. A success is forked instead, see `fork`.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_definition::StepKind;
use stateway_machine::{
    Event, ExecutionState, Fact, Obligation, Redo, Resolver, State, StepState, Verb,
    check_resolves_all, obligations, spent_by_step, step_views, usage,
};
use stateway_model::Step;

use super::withdrawal::Withdrawal;
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
        if let Some((step, worker)) = live.state.compensation_in_hands() {
            return Err(EngineError::new(
                ErrorKind::FailedPrecondition,
                "COMPENSATION_IN_PROGRESS",
                format_args!("worker `{worker}` is compensating step `{step}`"),
            )
            .hint("Wait until the compensation has ended."));
        }
        let resolver = Resolver {
            by: actor,
            roles: &from.roles,
            operators: &self.config.escalation_roles,
        };
        check_resolves_all(&live.state, &resolver).map_err(|rejection| {
            EngineError::from(rejection).hint(
                "An escalation of the execution is not resolved. Ask someone who may resolve the \
                 escalation.",
            )
        })?;
        let (present, ended) = (live.state.branch(), live.state.state());
        let step = self.step_to_redo(live, from)?;
        let before = self.state_before(number, present, step.as_deref())?;
        let redo = redo(
            &before.state,
            step.unwrap_or_else(|| Arc::clone(&before.first)),
            from,
        )?;
        if ended == ExecutionState::Completed {
            return self.fork(number, before, redo, (from.fork_id.as_ref(), actor, cause));
        }
        if from.fork_id.is_some() {
            return Err(EngineError::new(
                ErrorKind::FailedPrecondition,
                "NOT_FORKED",
                "only a succeeded execution is forked; this one keeps its name",
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
        let spent = usage(&live.state).beyond(usage(&before.state));
        let spent_by_step = spent_by_step(&live.state, &before.state);
        let branches = self.store.branches(number)?;
        let branch = branches.iter().map(|known| known.branch).max().unwrap_or(0) + 1;
        for (step, _, _) in self.dispatch.tasks_of(number) {
            self.withdraw(number, &step, Withdrawal::NotNeeded);
        }
        self.executions.forget(number);
        let (cutoff, parent) = (before.cutoff, before.state.branch());
        let mut live = Live::new(Arc::clone(&origin), before.state, before.hash);
        live.status = status;
        self.executions.keep(live);
        self.executions.touch(number);
        let verb = Verb::OpenBranch {
            branch,
            cutoff,
            by: Arc::clone(actor),
            redo: Some(Box::new(redo)),
            reopened: ended,
            spent,
            spent_by_step,
        };
        // It counts as begun before the branch is opened, which may end it immediately.
        if ended.is_some() {
            self.slots.begin(&origin.definition, number);
        }
        self.executions.count(number, true);
        self.carry(number, cause, verb)?;
        self.outbox.turn.branches.push(Branch {
            number,
            branch,
            parent,
            cutoff,
        });
        self.take_back(number, cause);
        Ok(())
    }

    /// Attempts that were with workers on the old branch are put up again on this one.
    pub(super) fn take_back(&mut self, number: i64, cause: &Arc<str>) {
        let Some(live) = self.executions.get(number) else {
            return;
        };
        let held: Vec<_> = obligations(&live.state)
            .into_iter()
            .filter_map(|obligation| match obligation {
                Obligation::Task(order) if order.worker.is_some() => Some(order.key.task),
                _ => None,
            })
            .collect();
        for task in held {
            self.dispatch.remove(number, &task.step);
            if let Err(error) = self.carry(number, cause, Verb::ReleaseTask { task, lost: false }) {
                tracing::warn!(number, "an attempt cannot be put up again: {error}");
            }
        }
    }

    /// The step to start with: the one named, the one that failed, or the first one that a cancellation
    /// interrupted; none for the first of all.
    fn step_to_redo(&self, live: &Live, from: &RetryFrom) -> Result<Option<Arc<str>>> {
        if from.from_start {
            let alone = from.step.is_empty() && from.input.is_none() && from.feedback.is_empty();
            return alone.then_some(None).ok_or_else(|| {
                EngineError::new(
                    ErrorKind::InvalidArgument,
                    "STEP_AND_START",
                    "every step runs again, so no step, input or feedback can be given",
                )
                .hint("Name a step to give it other input or feedback.")
            });
        }
        if from.step.is_empty() {
            let failed = stateway_machine::last_error(&live.state).map(|error| error.step);
            let failed = failed.or_else(|| interrupted(&live.state));
            let failed = failed.ok_or_else(|| {
                EngineError::new(
                    ErrorKind::FailedPrecondition,
                    "NOTHING_FAILED",
                    "no step of the execution has failed or was interrupted",
                )
                .hint("Name a step with `--step`, or run every step again with `--from-start`.")
            });
            return failed.map(|step| Some(step.into()));
        }
        match live.state.step_state(&from.step) {
            Some(_) => Ok(Some(Arc::clone(&from.step))),
            None => Err(EngineError::new(
                ErrorKind::NotFound,
                "STEP_NOT_FOUND",
                format_args!("there is no step `{}`", from.step),
            )),
        }
    }

    /// The state just before a step was first started, and how far the log goes until there; without
    /// a step, before any was. Steps that have been compensated meanwhile, or were about to be, have to
    /// run again too, so the log is left before the first of them.
    fn state_before(&self, number: i64, branch: u32, step: Option<&str>) -> Result<Before> {
        let store = &self.store;
        let kept = store.kept(number)?;
        let kept = kept.ok_or_else(|| EngineError::no_execution(&number.to_string()))?;
        let mut again: BTreeSet<Arc<str>> = step.into_iter().map(Arc::from).collect();
        store.walk(number, branch, 0, &mut |row| {
            for event in row.events(number)? {
                if let Fact::StepCompensationStarted { step, .. } = event.fact {
                    again.insert(step);
                }
            }
            Ok(true)
        })?;
        let mut before: Vec<Event> = Vec::new();
        let mut hash = [0; 16];
        let mut found = None;
        store.walk(number, branch, 0, &mut |row| {
            for event in row.events(number)? {
                if let Some(begun) = begins(&event.fact)
                    && (step.is_none() || again.contains(begun))
                {
                    found = Some(Arc::clone(begun));
                    break;
                }
                before.push(event);
            }
            // The row is hashed as a whole, whichever part of it counts.
            hash = row.hash();
            Ok(found.is_none())
        })?;
        let Some(first) = found else {
            let what = step.map_or_else(
                || "no step has begun".to_owned(),
                |step| format!("the step `{step}` has not begun"),
            );
            let refused = EngineError::new(ErrorKind::FailedPrecondition, "STEP_NOT_BEGUN", what);
            return Err(refused.hint("Name a step that has begun."));
        };
        let plan = plan(&**store, &kept.revision, &self.definitions.catalogue)?;
        let state = stateway_machine::replay(plan, &before).map_err(EngineError::corrupt)?;
        let cutoff = state.sequence();
        Ok(Before {
            state,
            events: before,
            hash,
            cutoff,
            first,
        })
    }
}

/// A log up to where it is left.
pub(super) struct Before {
    pub(super) state: State,
    pub(super) events: Vec<Event>,
    hash: crate::store::Hash,
    pub(super) cutoff: u64,
    /// The step that was started next.
    first: Arc<str>,
}

/// The step that runs again, and with what.
fn redo(state: &State, step: Arc<str>, from: &RetryFrom) -> Result<Redo> {
    let refused = |reason, what| {
        let message = format!("the step `{step}` {what}");
        Err(EngineError::new(
            ErrorKind::InvalidArgument,
            reason,
            message,
        ))
    };
    let definition = state.plan().definition();
    let kind = definition
        .steps
        .iter()
        .find(|known| known.name == *step)
        .map(|known| &known.kind);
    match kind {
        Some(StepKind::Sleep { .. } | StepKind::Signal { .. } | StepKind::Approval { .. })
            if from.input.is_some() =>
        {
            return refused("STEP_TAKES_NO_INPUT", "only waits and takes no input");
        }
        Some(StepKind::Task { .. }) => {}
        _ if !from.feedback.is_empty() => {
            return refused(
                "STEP_TAKES_NO_FEEDBACK",
                "is not run by a worker, which could take feedback",
            );
        }
        _ => {}
    }
    Ok(Redo {
        step,
        input: from.input.clone(),
        feedback: Arc::clone(&from.feedback),
    })
}

/// The step that a fact begins, or leaves out.
const fn begins(fact: &Fact) -> Option<&Arc<str>> {
    match fact {
        Fact::StepStarted { step, .. }
        | Fact::StepWaiting { step, .. }
        | Fact::StepSkipped { step, .. } => Some(step),
        _ => None,
    }
}

/// The step that started first among those that a cancellation interrupted.
fn interrupted(state: &State) -> Option<String> {
    let cancelled = |step: &Step| step.native_state == StepState::Cancelled.as_str();
    step_views(state)
        .into_iter()
        .filter(|step| cancelled(step) && step.start_time.is_some())
        .min_by_key(|step| step.start_time)
        .map(|step| step.name)
}
