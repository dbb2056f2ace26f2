//! Children: executions that do a step of another.

use std::sync::Arc;

use stateway_machine::{ChildOrder, Data, ExecutionState, Failure, Task, Verb, task_input};
use stateway_model::ErrorCategory;

use super::ask::Birth;
use super::{Keeper, Work};
use crate::Parent;
use crate::error::Result;

/// The most executions one may be a child of; more is a definition that starts itself.
const DEEPEST: u32 = 32;

impl Keeper {
    pub(super) fn start_child(&mut self, parent: i64, order: &ChildOrder) {
        let task = &order.key.task;
        let from = Parent {
            number: parent,
            step: Arc::clone(&task.step),
            attempt: task.attempt,
        };
        if let Err(failure) = self.child_of(&from, order) {
            let outcome = Err(failure);
            self.work.push_back(Work::FinishChild {
                parent: from,
                outcome,
            });
        }
    }

    /// Starts a child, unless it was started before.
    fn child_of(&mut self, from: &Parent, order: &ChildOrder) -> Result<(), Failure> {
        let cannot = |why: String| Failure::reported(ErrorCategory::External, why);
        let id = child_id(order);
        let taken = self.is_taken(&id);
        if taken.map_err(|error| cannot(error.message))? {
            return self
                .child_again(&id, from)
                .map_err(|error| cannot(error.message));
        }
        let plan = self
            .current_plan(&order.definition)
            .map_err(|error| cannot(error.message))?;
        let Some(live) = self.hot.get(&from.number) else {
            return Ok(());
        };
        let depth = live.origin.depth + 1;
        if depth > DEEPEST {
            return Err(cannot(format!(
                "children may be nested {DEEPEST} deep, and this one would be deeper"
            )));
        }
        let task = Task::of(Arc::clone(&from.step), from.attempt);
        let birth = Birth {
            id,
            definition: Arc::clone(&order.definition),
            correlation: Arc::clone(live.state.correlation()),
            initiator: Arc::clone(live.state.initiator()),
            input: task_input(&live.state, &task).unwrap_or_default(),
            labels: Arc::clone(&live.origin.labels),
            parent: Some(from.clone()),
            depth,
            not_before: None,
        };
        let cause = Arc::clone(&live.origin.id);
        self.create(plan, birth, &cause)
            .map_err(|error| cannot(error.message))?;
        Ok(())
    }

    /// A child that is there already: if it has ended, its parent is told again.
    fn child_again(&mut self, id: &str, from: &Parent) -> Result<()> {
        let number = self.number_of(id)?;
        self.bring(number)?;
        let Some(live) = self.hot.get(&number) else {
            return Ok(());
        };
        if live.state.state().is_terminal() {
            let outcome = match live.state.state() {
                ExecutionState::Completed => Ok(live.state.output().cloned().unwrap_or_default()),
                state => Err(Failure::reported(
                    ErrorCategory::External,
                    format!("the child execution `{id}` ended as {state}"),
                )),
            };
            let parent = from.clone();
            self.work.push_back(Work::FinishChild { parent, outcome });
        }
        Ok(())
    }

    pub(super) fn finish_child(&mut self, parent: Parent, outcome: Result<Data, Failure>) {
        let cause: Arc<str> = "child".into();
        let verb = Verb::FinishChild {
            step: parent.step,
            attempt: parent.attempt,
            outcome,
        };
        // A parent that has ended or gone another way does not wait any more.
        if let Err(error) = self.carry(parent.number, &cause, verb) {
            tracing::debug!(number = parent.number, "nobody waits for a child: {error}");
        }
    }

    /// Ends the open children of an execution that has ended.
    pub(super) fn end_children(&mut self, parent: i64, kill: bool) {
        let stored = self.store.open_children(parent).unwrap_or_else(|error| {
            tracing::error!(number = parent, "children cannot be read: {error}");
            Vec::new()
        });
        let in_memory = self.hot.values().filter(|live| {
            live.origin
                .parent
                .as_ref()
                .is_some_and(|of| of.number == parent)
        });
        let mut numbers: Vec<i64> = in_memory.map(|live| live.origin.number).collect();
        numbers.extend(stored);
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            self.work.push_back(Work::EndChild { number, kill });
        }
    }

    pub(super) fn end_child(&mut self, number: i64, kill: bool) {
        let cause: Arc<str> = "parent".into();
        let verb = Verb::Cancel {
            mode: Self::graceful(kill),
            by: "parent".into(),
            comment: "its parent has ended".into(),
        };
        // One that has ended by itself needs no ending.
        if let Err(error) = self.carry(number, &cause, verb) {
            tracing::debug!(number, "a child needs no ending: {error}");
        }
    }
}

/// A child's id follows from what it does, so that it is started once.
fn child_id(order: &ChildOrder) -> Arc<str> {
    let key = &order.key;
    let branch = match key.branch {
        0 => String::new(),
        branch => format!("~b{branch}"),
    };
    format!(
        "{}~{}~{}{branch}",
        key.execution, key.task.step, key.task.attempt
    )
    .into()
}
