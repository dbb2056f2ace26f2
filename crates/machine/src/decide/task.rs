//! What workers and children report about their attempts.

use std::sync::Arc;

use serde_json::Value;
use stateway_definition::DEFAULT_MAX_HAND_OUTS;
use stateway_model::{ErrorCategory, Progress, Usage};

use super::{budget, compensation, find, start};
use crate::event::{Data, Fact, Task, WaitFor};
use crate::ledger::{Draft, Ledger as _};
use crate::limits::check_payload;
use crate::plan::StepIx;
use crate::{ExecutionState, Failure, FailureCause, Rejection, StepState};

/// The step of a task, if that very attempt is open.
pub(super) fn open_task(draft: &Draft<'_>, task: &Task) -> Result<StepIx, Rejection> {
    let ix = find(draft, &task.step)?;
    let run = draft.run(ix);
    let undoing = run.state == StepState::Compensating;
    let current = if task.undo {
        run.undo_attempt
    } else {
        run.attempt
    };
    if run.has_open_attempt() && undoing == task.undo && current == task.attempt {
        return Ok(ix);
    }
    Err(Rejection::StaleAttempt {
        step: Arc::clone(&task.step),
        attempt: task.attempt,
        state: run.state,
    })
}

/// A worker takes an attempt, unless the budget is used up: then the attempt fails.
pub(super) fn assign(
    draft: &mut Draft<'_>,
    task: Task,
    worker: Arc<str>,
    identity: Arc<str>,
) -> Result<(), Rejection> {
    let ix = open_task(draft, &task)?;
    let run = draft.run(ix);
    match &run.worker {
        Some(present) if *present == worker => return Ok(()),
        Some(present) => {
            return Err(Rejection::AlreadyAssigned {
                step: Arc::clone(&task.step),
                attempt: task.attempt,
                worker: Arc::clone(present),
            });
        }
        None => {}
    }
    if !task.undo
        && let Some(failure) = budget::exceeded(draft, ix, task.attempt)
    {
        reject(draft, ix, failure);
        return Ok(());
    }
    let (due, heartbeat_due) = if task.undo {
        (compensation::limit(draft, ix), None)
    } else {
        start::limits(draft, ix)
    };
    draft.push(Fact::TaskAssigned {
        task,
        worker,
        identity,
        due,
        heartbeat_due,
    });
    Ok(())
}

/// The attempt goes to another worker. One whose worker was lost too often in a row fails; one that
/// was to be cancelled is over, and its outcome unknown where the worker was lost.
pub(super) fn release(draft: &mut Draft<'_>, task: Task, lost: bool) -> Result<(), Rejection> {
    let ix = open_task(draft, &task)?;
    if draft.run(ix).worker.is_none() {
        return Ok(());
    }
    let cancelling = draft.run(ix).cancelling;
    let queue_due = match (cancelling, task.undo) {
        (true, _) => None,
        (false, true) => compensation::queue_due(draft, ix),
        (false, false) => start::queue_due(draft, ix),
    };
    let undoes = task.undo;
    draft.push(Fact::TaskReleased {
        task,
        lost,
        queue_due,
    });
    if !lost {
        return Ok(());
    }
    if cancelling {
        lose(draft, ix);
    } else if draft.run(ix).lost >= most_lost(draft, ix) {
        fail_lost(draft, ix, undoes);
    }
    Ok(())
}

fn most_lost(draft: &Draft<'_>, ix: StepIx) -> u32 {
    let define = draft.head().plan.define(ix);
    define.max_hand_outs.unwrap_or(DEFAULT_MAX_HAND_OUTS)
}

fn fail_lost(draft: &mut Draft<'_>, ix: StepIx, undoes: bool) {
    let lost = draft.run(ix).lost;
    // The same worker may have been lost several times.
    let times = if lost == 1 {
        String::new()
    } else {
        format!(" {lost} times in a row")
    };
    let message = format!("the worker was lost{times}: it disconnected or stopped responding");
    let category = ErrorCategory::Transient;
    let failure = Failure::of(FailureCause::WorkerLost, category, message);
    if undoes {
        compensation::failed(draft, ix, failure);
    } else {
        reject(draft, ix, failure);
    }
}

/// It is unknown how a cancelled attempt ended.
pub(super) fn lose(draft: &mut Draft<'_>, ix: StepIx) {
    let plan = Arc::clone(&draft.head().plan);
    let compensation = plan.compensation(ix);
    draft.push(Fact::OutcomeUnknown {
        step: plan.name(ix),
        attempt: draft.run(ix).attempt,
        compensate: draft.head().state == ExecutionState::Compensating
            && compensation.is_some_and(|compensation| compensation.compensate_unknown),
    });
}

/// A heartbeat of a worker. A worker that no longer has the task gets a rejection.
pub(super) fn heartbeat(
    draft: &mut Draft<'_>,
    step: Arc<str>,
    attempt: u32,
    progress: Option<Progress>,
) -> Result<(), Rejection> {
    let ix = open_task(draft, &Task::of(Arc::clone(&step), attempt))?;
    let run = draft.run(ix);
    if run.worker.is_none() {
        let state = run.state;
        return Err(Rejection::StaleAttempt {
            step,
            attempt,
            state,
        });
    }
    let (_, heartbeat_due) = start::limits(draft, ix);
    if heartbeat_due.is_some() && heartbeat_due != draft.run(ix).heartbeat_due {
        draft.push(Fact::HeartbeatRecorded {
            step: Arc::clone(&step),
            attempt,
            heartbeat_due,
        });
    }
    // The sender may not have cut the detail.
    let progress = progress.and_then(|given| Progress::new(given.fraction.get(), &given.detail));
    match progress {
        Some(given) if draft.run(ix).progress.as_deref() != Some(&given) => {
            draft.push(Fact::ProgressReported {
                step,
                attempt,
                progress: given.fraction,
                detail: given.detail.into(),
            });
        }
        _ => {}
    }
    Ok(())
}

pub(super) fn complete(
    draft: &mut Draft<'_>,
    task: Task,
    output: Data,
    usage: Option<Usage>,
) -> Result<(), Rejection> {
    let ix = open_task(draft, &task)?;
    let undoes = task.undo;
    report(draft, task, usage);
    if undoes {
        compensation::done(draft, ix);
    } else {
        accept(draft, ix, output);
    }
    Ok(())
}

pub(super) fn fail(
    draft: &mut Draft<'_>,
    task: Task,
    failure: Failure,
    usage: Option<Usage>,
) -> Result<(), Rejection> {
    let ix = open_task(draft, &task)?;
    let undoes = task.undo;
    report(draft, task, usage);
    if undoes {
        compensation::failed(draft, ix, failure);
    } else {
        reject(draft, ix, failure);
    }
    Ok(())
}

/// What an attempt cost is recorded before how it ended.
fn report(draft: &mut Draft<'_>, task: Task, usage: Option<Usage>) {
    if let Some(usage) = usage.filter(|usage| !usage.is_zero()) {
        draft.push(Fact::UsageReported { task, usage });
    }
}

pub(super) fn finish_child(
    draft: &mut Draft<'_>,
    step: Arc<str>,
    attempt: u32,
    outcome: Result<Data, Failure>,
    usage: Usage,
) -> Result<(), Rejection> {
    let ix = find(draft, &step)?;
    let run = draft.run(ix);
    let waits = matches!(run.wait, Some(WaitFor::Child(_))) && run.attempt == attempt;
    if !waits {
        return Err(Rejection::StaleAttempt {
            step,
            attempt,
            state: run.state,
        });
    }
    report(draft, Task::of(step, attempt), Some(usage));
    match outcome {
        Ok(output) => accept(draft, ix, output),
        Err(failure) => reject(draft, ix, failure),
    }
    Ok(())
}

/// An output that keeps the limits and fits its schema completes the step; another one is a failed
/// attempt.
pub(super) fn accept(draft: &mut Draft<'_>, ix: StepIx, output: Data) {
    let plan = Arc::clone(&draft.head().plan);
    let (step, attempt) = (plan.name(ix), draft.run(ix).attempt);
    if let Err(excess) = check_payload(&output, plan.limits().payload_bytes) {
        let message =
            format!("the output of the step has {excess}: return a reference to large data");
        return reject(
            draft,
            ix,
            Failure::reported(ErrorCategory::AgentError, message),
        );
    }
    let check = |output: &Value| {
        plan.step(ix)
            .schema
            .as_ref()
            .map_or_else(Vec::new, |schema| schema.violations(output))
    };
    let violations = check(&output);
    if violations.is_empty() {
        return draft.push(Fact::StepCompleted {
            step,
            attempt,
            output,
        });
    }
    let category = ErrorCategory::Validation;
    let failure = Failure::of(FailureCause::InvalidOutput, category, violations.join("; "));
    draft.push(Fact::AttemptFailed {
        step,
        attempt,
        failure,
    });
}

pub(super) fn reject(draft: &mut Draft<'_>, ix: StepIx, failure: Failure) {
    let failure = failure.cut();
    let (step, attempt) = (draft.head().plan.name(ix), draft.run(ix).attempt);
    draft.push(Fact::AttemptFailed {
        step,
        attempt,
        failure,
    });
}
