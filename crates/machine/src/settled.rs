//! Whether the result of a hand-out is in the log.

use crate::limits::cut_message;
use crate::state::StepRun;
use crate::{FailureCause, State, StepState, Task, Verb};

/// Whether the last hand-out of a step was this one of this worker, and the log has this very result.
/// A worker whose acceptance was lost sends its result again; the result must not count twice, and the
/// worker must learn that it counted. Another result of the same hand-out is not in the log.
#[must_use]
pub fn is_settled(
    state: &State,
    result: &Verb,
    (branch, hand_out): (u32, u32),
    worker: &str,
) -> bool {
    let (Verb::CompleteTask { task, .. } | Verb::FailTask { task, .. }) = result else {
        return false;
    };
    let Some(ix) = state.plan().find(&task.step) else {
        return false;
    };
    let run = state.run(ix);
    let last = run.branch == branch && run.hand_outs.max(1) == hand_out.max(1);
    let handed = run.handed_to.as_deref() == Some(worker);
    last && handed && !is_open(run, task) && has(run, result, task)
}

fn is_open(run: &StepRun, task: &Task) -> bool {
    let attempt = if task.undo {
        run.undo_attempt
    } else {
        run.attempt
    };
    attempt == task.attempt && run.has_open_attempt()
}

fn has(run: &StepRun, result: &Verb, task: &Task) -> bool {
    let failure = run
        .failure
        .as_ref()
        .filter(|_| run.failed_attempt == task.attempt);
    let failed_by = |cause| failure.is_some_and(|failure| failure.cause == cause);
    match result {
        Verb::FailTask { failure: said, .. } => failure.is_some_and(|failure| {
            failure.cause == FailureCause::Reported && failure.message == cut_message(&said.message)
        }),
        Verb::CompleteTask { .. } if task.undo => {
            let undone = run.compensated || run.state == StepState::Compensated;
            run.undo_attempt == task.attempt && undone
        }
        Verb::CompleteTask { output, .. } => {
            let completed = run.state == StepState::Completed && run.attempt == task.attempt;
            completed && run.output.as_ref() == Some(output)
                || failed_by(FailureCause::InvalidOutput)
        }
        _ => false,
    }
}
