//! Going back in a log: the work from a step on is done again as a new branch. The old branch
//! stays as it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_definition::StepKind;
use stateway_machine::{Event, Fact, Obligation, Redo, State, Verb, obligations};

use super::{Keeper, Live};
use crate::error::{EngineError, ErrorKind, Result};
use crate::request::RetryFrom;
use crate::store::{Branch, plan};

impl Keeper {
    pub(super) fn retry_from(
        &mut self,
        number: i64,
        from: &RetryFrom,
        actor: &Arc<str>,
        cause: &Arc<str>,
    ) -> Result<()> {
        let Some(live) = self.hot.get(&number) else {
            return Err(EngineError::no_execution(&number.to_string()));
        };
        if !live.lines.is_empty() {
            // Its latest events are not on disk yet, and going back reads what is.
            return Err(EngineError::new(
                ErrorKind::Busy,
                "ENGINE_BUSY",
                "the execution is changing at this moment",
            )
            .hint("Try again in a moment."));
        }
        let (present, origin) = (live.state.branch(), Arc::clone(&live.origin));
        let step = self.step_to_redo(live, from)?;
        let before = self.state_before(number, present, step.as_deref())?;
        let Before {
            state,
            hash,
            cutoff,
            first,
        } = before;
        let redo = redo(&state, step.unwrap_or(first), from)?;
        let branches = self.store.branches(number)?;
        let branch = branches.iter().map(|known| known.branch).max().unwrap_or(0) + 1;

        let status = self.hot.get(&number).and_then(|live| live.status.clone());
        let was_over = self
            .hot
            .get(&number)
            .is_some_and(|live| live.state.state().is_terminal());
        for (step, _, _) in self.dispatch.tasks_of(number) {
            self.withdraw(number, &step);
        }
        self.let_go(number);
        let mut live = Live::new(Arc::clone(&origin), state, hash);
        live.status = status;
        self.keep(live);
        self.touch(number);
        let parent = self.hot.get(&number).map_or(0, |live| live.state.branch());
        let verb = Verb::OpenBranch {
            branch,
            cutoff,
            by: Arc::clone(actor),
            redo: Some(Box::new(redo)),
        };
        // It counts as begun before the branch is opened, which may end it at once.
        if was_over {
            self.slots.begin(&origin.definition, number);
        }
        self.count(number, true);
        self.carry(number, cause, verb)?;
        self.turn.branches.push(Branch {
            number,
            branch,
            parent,
            cutoff,
        });
        self.take_back(number, cause);
        Ok(())
    }

    /// Attempts that were with workers on the old branch are put up anew on this one.
    pub(super) fn take_back(&mut self, number: i64, cause: &Arc<str>) {
        let Some(live) = self.hot.get(&number) else {
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
            if let Err(error) = self.carry(number, cause, Verb::ReleaseTask { task }) {
                tracing::warn!(number, "an attempt cannot be put up anew: {error}");
            }
        }
    }

    /// The step to begin with: the one named, or the one that failed; none for the first of all.
    fn step_to_redo(&self, live: &Live, from: &RetryFrom) -> Result<Option<Arc<str>>> {
        if from.from_start {
            let alone = from.step.is_empty() && from.input.is_none() && from.feedback.is_empty();
            return alone.then_some(None).ok_or_else(|| {
                EngineError::new(
                    ErrorKind::Invalid,
                    "STEP_AND_START",
                    "everything is done again, so no step, input or feedback can be given",
                )
                .hint("Name a step to give it other input or feedback.")
            });
        }
        if from.step.is_empty() {
            let failed = stateway_machine::last_error(&live.state).map(|error| error.step);
            let failed = failed.ok_or_else(|| {
                EngineError::new(
                    ErrorKind::FailedPrecondition,
                    "NOTHING_FAILED",
                    "no step of the execution has failed",
                )
                .hint("Name the step to begin with.")
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

    /// The state just before a step was first begun, and how far the log goes until there; without
    /// a step, before any was. What has been undone meanwhile, or was being undone, has to be done
    /// again too, so the log is left before the first of that.
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
        let plan = plan(&**store, &kept.revision, &self.catalogue)?;
        let state = stateway_machine::replay(plan, &before).map_err(EngineError::corrupt)?;
        let cutoff = state.sequence();
        Ok(Before {
            state,
            hash,
            cutoff,
            first,
        })
    }
}

/// A log up to where it is left.
struct Before {
    state: State,
    hash: crate::store::Hash,
    cutoff: u64,
    /// The step that was begun next.
    first: Arc<str>,
}

/// What is done again, and with what.
fn redo(state: &State, step: Arc<str>, from: &RetryFrom) -> Result<Redo> {
    let refused = |reason, what| {
        let message = format!("the step `{step}` {what}");
        Err(EngineError::new(ErrorKind::Invalid, reason, message))
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
                "is not done by a worker, who could be told",
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
