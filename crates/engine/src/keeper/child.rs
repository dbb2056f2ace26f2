//! Children: executions that do a step of another.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_definition::StepKind;
use stateway_driver::open_keys;
use stateway_machine::{
    ChildOrder, Data, Failure, Verb, cancel_child, check_child_depth, child_id, child_outcome,
    create_child, usage,
};
use stateway_model::{ErrorCategory, Reason, Usage};

use super::requests::NewExecution;
use super::{Keeper, Live, Work};
use crate::Parent;
use crate::cause;
use crate::error::{EngineError, Result};
use crate::limits::MAX_CHILD_DEPTH;

impl Keeper {
    pub(super) fn start_child(&mut self, parent: i64, order: &ChildOrder) {
        let task = &order.key.task;
        let from = Parent {
            number: parent,
            step: Arc::clone(&task.step),
            attempt: task.attempt,
            branch: order.key.branch,
        };
        if let Err(failure) = self.child_of(&from, order) {
            let outcome = Err(failure);
            self.work.push_back(Work::FinishChild {
                parent: from,
                outcome,
                usage: Usage::default(),
            });
        }
    }

    /// Starts a child, unless it was started before.
    fn child_of(&mut self, from: &Parent, order: &ChildOrder) -> Result<(), Failure> {
        let cannot = |why: String| Failure::reported(ErrorCategory::External, why);
        let id = child_id(&order.key);
        let taken = self.is_taken(&id);
        if taken.map_err(|error| cannot(error.message))? {
            return self
                .child_again(&id, from)
                .map_err(|error| cannot(error.message));
        }
        let plan = self
            .current_plan(&order.definition)
            .map_err(|error| cannot(error.message))?;
        let Some(live) = self.executions.get(from.number) else {
            return Ok(());
        };
        let depth = live.origin.depth + 1;
        check_child_depth(depth)?;
        let root = self.room_in_tree(from.number)?;
        let Some(live) = self.executions.get(from.number) else {
            return Ok(());
        };
        let birth = NewExecution {
            id,
            definition: Arc::clone(&order.definition),
            create: create_child(&live.state, order),
            labels: Arc::clone(&live.origin.labels),
            parent: Some(from.clone()),
            depth,
            not_before: None,
        };
        let cause = Arc::clone(&live.origin.id);
        let number = self
            .create(plan, birth, &cause)
            .map_err(|error| cannot(error.message))?;
        if let Some(live) = self.executions.get_mut(number) {
            live.root = Some(root);
        }
        if let Some(executions) = self.executions.tree(root) {
            *executions += 1;
        }
        Ok(())
    }

    /// The execution at the top of the tree that a new child of this one belongs to, if the tree may have
    /// another execution.
    fn room_in_tree(&mut self, parent: i64) -> Result<i64, Failure> {
        let cannot = |error: EngineError| Failure::reported(ErrorCategory::External, error.message);
        let root = self.root_of(parent).map_err(cannot)?;
        let most = self.config.max_tree;
        let executions = match self.executions.tree(root) {
            Some(executions) => *executions,
            None => self.count_tree(root).map_err(cannot)?,
        };
        if executions < most {
            return Ok(root);
        }
        let id = self.store.id_of(root).ok().flatten().unwrap_or_default();
        let why = format!(
            "the tree of the execution `{id}` has {executions} executions, and `max_tree` allows {most}: \
             a definition may start itself"
        );
        Err(Failure {
            no_retry: true,
            ..Failure::reported(ErrorCategory::Validation, why)
        })
    }

    fn count_tree(&mut self, root: i64) -> Result<usize> {
        let written = |live: &Live| live.status.is_some();
        // An execution that is not on disk yet has no child there.
        let executions = if self.executions.get(root).is_none_or(written) {
            self.store.tree_size(root, self.config.max_tree)?
        } else {
            1
        };
        self.executions.set_tree(root, executions);
        Ok(executions)
    }

    /// The execution at the top of the tree of an execution.
    fn root_of(&mut self, number: i64) -> Result<i64> {
        let mut at = number;
        // No execution is deeper, whatever depth a row has.
        for _ in 0..=MAX_CHILD_DEPTH {
            let (root, parent) = match self.executions.get(at) {
                Some(live) => (live.root, live.origin.parent.clone()),
                None => (
                    None,
                    self.store
                        .kept(at)?
                        .and_then(|kept| kept.origin.parent.clone()),
                ),
            };
            match (root, parent) {
                (Some(root), _) => {
                    at = root;
                    break;
                }
                (None, Some(parent)) => at = parent.number,
                (None, None) => break,
            }
        }
        if let Some(live) = self.executions.get_mut(number) {
            live.root = Some(at);
        }
        Ok(at)
    }

    /// A child that exists already: if it has ended, its outcome is reported to its parent again.
    fn child_again(&mut self, id: &str, from: &Parent) -> Result<()> {
        let number = self.number_of(id)?;
        self.load_number(number)?;
        let Some(live) = self.executions.get(number) else {
            return Ok(());
        };
        if let Some(outcome) = child_outcome(&live.state) {
            let (parent, usage) = (from.clone(), usage(&live.state));
            self.work.push_back(Work::FinishChild {
                parent,
                outcome,
                usage,
            });
        }
        Ok(())
    }

    pub(super) fn finish_child(
        &mut self,
        parent: Parent,
        outcome: Result<Data, Failure>,
        usage: Usage,
    ) {
        let cause: Arc<str> = cause::CHILD.into();
        let verb = Verb::FinishChild {
            step: parent.step,
            attempt: parent.attempt,
            outcome,
            usage,
        };
        if self.is_over(parent.number) {
            return;
        }
        let done = self.load_number(parent.number).and_then(|()| {
            let branch = self
                .executions
                .get(parent.number)
                .map(|live| live.state.branch());
            // A parent whose work is done again waits for another child.
            if branch == Some(parent.branch) {
                self.command(parent.number, &cause, verb).map(drop)
            } else {
                Ok(())
            }
        });
        // A parent that has ended or gone another way does not wait any more.
        if let Err(error) = done {
            tracing::debug!(
                number = parent.number,
                "no parent waits for this child: {error}"
            );
        }
    }

    /// Whether an execution that is not in memory has ended.
    fn is_over(&self, number: i64) -> bool {
        let kept = || self.store.kept(number).ok().flatten();
        !self.executions.contains(number) && kept().is_some_and(|kept| kept.status.ended.is_some())
    }

    /// Ends the open children in the store that an execution does not wait for: those of the part of
    /// its log that was left.
    pub(super) fn end_strays(&mut self, parent: i64) {
        let Some(live) = self.executions.get(parent) else {
            return;
        };
        let steps = &live.state.plan().definition().steps;
        if !steps
            .iter()
            .any(|step| matches!(step.kind, StepKind::Workflow { .. }))
        {
            return;
        }
        let kill = live.state.reason() == Some(Reason::Killed);
        let open = open_keys(&live.state).into_iter();
        let owed: Vec<Parent> = open
            .map(|key| Parent {
                number: parent,
                step: key.task.step,
                attempt: key.task.attempt,
                branch: key.branch,
            })
            .collect();
        let stored = self.store.open_children(parent).unwrap_or_else(|error| {
            tracing::error!(number = parent, "children cannot be read: {error}");
            Vec::new()
        });
        let stored = stored.iter().map(|kept| &kept.origin);
        let here = self.executions.children_of(parent).map(|live| &live.origin);
        let strays: BTreeSet<i64> = stored
            .chain(here)
            .filter(|child| {
                child
                    .parent
                    .as_ref()
                    .is_some_and(|of| of.number == parent && !owed.contains(of))
            })
            .map(|child| child.number)
            .collect();
        for number in strays {
            self.work.push_back(Work::EndChild { number, kill });
        }
    }

    /// Cancels the child of a step whose execution ends; the parent waits for the child's end.
    pub(super) fn cancel_child(&mut self, parent: i64, order: &ChildOrder) {
        let id = child_id(&order.key);
        match self.number_of(&id) {
            Ok(number) => self.work.push_back(Work::EndChild {
                number,
                kill: false,
            }),
            // It was never started: the parent need not wait for it.
            Err(_) => {
                let task = &order.key.task;
                let from = Parent {
                    number: parent,
                    step: Arc::clone(&task.step),
                    attempt: task.attempt,
                    branch: order.key.branch,
                };
                let category = ErrorCategory::External;
                self.work.push_back(Work::FinishChild {
                    parent: from,
                    outcome: Err(Failure::reported(category, "the child was not started")),
                    usage: Usage::default(),
                });
            }
        }
    }

    /// Cancels a child by its own definition's failure policy, or kills it with its parent.
    pub(super) fn end_child(&mut self, number: i64, kill: bool) {
        let cause: Arc<str> = cause::PARENT.into();
        // One that has ended by itself needs no ending; its parent learns of it again.
        if let Err(error) = self.command(number, &cause, cancel_child(kill)) {
            tracing::debug!(number, "a child had already ended: {error}");
        }
    }
}
