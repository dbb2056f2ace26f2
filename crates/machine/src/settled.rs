//! Whether the result of a hand-out is in the log.

use crate::{FailureCause, State, StepState, Task};

/// Whether the last hand-out of a step was this one of this worker, and the log has its result. A worker
/// whose acceptance was lost sends its result again; the result must not count twice, and the worker
/// must learn that it counted.
#[must_use]
pub fn is_settled(
    state: &State,
    task: &Task,
    (branch, hand_out): (u32, u32),
    worker: &str,
) -> bool {
    let Some(ix) = state.plan().find(&task.step) else {
        return false;
    };
    let run = state.run(ix);
    let last = run.branch == branch && run.hand_outs.max(1) == hand_out.max(1);
    if !last || !run.worked_on_by.iter().any(|known| **known == *worker) {
        return false;
    }
    let reported = run.failure.as_ref().is_some_and(|failure| {
        let by_worker = matches!(
            failure.cause,
            FailureCause::Reported | FailureCause::InvalidOutput
        );
        by_worker && run.failed_attempt == task.attempt
    });
    if task.undo {
        let undone = run.compensated || run.state == StepState::Compensated;
        return run.undo_attempt == task.attempt && (undone || reported && !run.has_open_attempt());
    }
    let completed = run.state == StepState::Completed && run.attempt == task.attempt;
    let open = run.attempt == task.attempt && run.has_open_attempt();
    completed || reported && !open
}
