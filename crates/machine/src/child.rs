//! Children: executions that do a step of another. Their ids, how they begin, and what their parents
//! learn of their end.

use std::sync::Arc;

use stateway_definition::digest;
use stateway_model::{ErrorCategory, Usage};

use crate::event::{Data, Task};
use crate::obligation::{ChildOrder, TaskKey, task_input};
use crate::view::{last_error, leaves_effects, usage};
use crate::{CancelMode, ExecutionState, Failure, State, Verb};

/// How deep children may be nested; a definition that is nested deeper starts itself.
pub const MAX_CHILD_DEPTH: u32 = 32;
/// The longest id that is derived as it is. A longer one is cut and made unique by a digest.
const LONGEST_ID: usize = 240;

/// The id of a child. It follows from the step and the attempt that the child does, so that a child
/// is started once.
#[must_use]
pub fn child_id(key: &TaskKey) -> Arc<str> {
    let branch = match key.branch {
        0 => String::new(),
        branch => format!("~b{branch}"),
    };
    let id = format!(
        "{}~{}~{}{branch}",
        key.execution, key.task.step, key.task.attempt
    );
    if id.len() <= LONGEST_ID {
        return id.into();
    }
    let digest = &digest(id.as_bytes())[..24];
    let cut = id.floor_char_boundary(LONGEST_ID - digest.len() - 1);
    format!("{}~{digest}", &id[..cut]).into()
}

/// Checks the depth of nesting of a child: 1 for the child of an execution without a parent.
///
/// # Errors
/// The failure of the step that would start the child.
pub fn check_child_depth(depth: u32) -> Result<(), Failure> {
    if depth <= MAX_CHILD_DEPTH {
        return Ok(());
    }
    let message =
        format!("children may be nested {MAX_CHILD_DEPTH} deep, and this one would be deeper");
    Err(Failure::reported(ErrorCategory::External, message))
}

/// The command that creates the child of an order. The people who may not decide about the parent may
/// not decide about the child.
#[must_use]
pub fn create_child(parent: &State, order: &ChildOrder) -> Verb {
    let Task { step, attempt, .. } = &order.key.task;
    let task = Task::of(Arc::clone(step), *attempt);
    Verb::Create {
        execution: child_id(&order.key),
        correlation: Arc::clone(parent.correlation()),
        initiator: Arc::clone(parent.initiator()),
        input: task_input(parent, &task).unwrap_or_default(),
        redone_by: parent.redone_by().to_vec(),
    }
}

/// The command that cancels a child whose parent ends or does not wait for the child any more. A kill
/// of the parent kills the child; otherwise the failure policy of the child's definition applies.
#[must_use]
pub fn cancel_child(kill: bool) -> Verb {
    Verb::Cancel {
        mode: if kill {
            CancelMode::Kill
        } else {
            CancelMode::Policy
        },
        by: "parent".into(),
        comment: "its parent ends".into(),
    }
}

/// The outcome of an execution for its parent; none while the execution is open.
#[must_use]
pub fn child_outcome(child: &State) -> Option<Result<Data, Failure>> {
    match child.state() {
        ExecutionState::Completed => Some(Ok(child.output().cloned().unwrap_or_default())),
        state if state.is_terminal() => Some(Err(failed(child, state))),
        _ => None,
    }
}

/// The command that reports the end of a child to its parent; none while the child is open.
#[must_use]
pub fn finish_child(key: &TaskKey, child: &State) -> Option<Verb> {
    let outcome = child_outcome(child)?;
    Some(report(key, outcome, usage(child)))
}

/// The command that reports to a parent that its child cannot be started.
#[must_use]
pub fn child_not_started(key: &TaskKey, why: Failure) -> Verb {
    report(key, Err(why), Usage::default())
}

fn report(key: &TaskKey, outcome: Result<Data, Failure>, usage: Usage) -> Verb {
    Verb::FinishChild {
        step: Arc::clone(&key.task.step),
        attempt: key.task.attempt,
        outcome,
        usage,
    }
}

fn failed(child: &State, state: ExecutionState) -> Failure {
    let why = last_error(child)
        .map(|error| format!(": {}", error.message))
        .unwrap_or_default();
    let id = child.execution();
    let message = format!("the child execution `{id}` ended as {state}{why}");
    Failure {
        effects_unknown: leaves_effects(child),
        ..Failure::reported(ErrorCategory::External, message)
    }
}
