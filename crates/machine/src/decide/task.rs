//! What workers and children say about their attempts.

use std::sync::Arc;

use serde_json::Value;
use stateway_model::{ErrorCategory, Progress, Usage};

use super::{find, undo};
use crate::event::{Data, Fact, Task, WaitFor};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::{Failure, FailureCause, Rejection, StepState};

/// The step of a task, if that very attempt is open.
fn open_task(draft: &Draft<'_>, task: &Task) -> Result<StepIx, Rejection> {
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

pub(super) fn assign(draft: &mut Draft<'_>, task: Task, worker: Arc<str>) -> Result<(), Rejection> {
    let ix = open_task(draft, &task)?;
    match &draft.run(ix).worker {
        Some(present) if *present == worker => Ok(()),
        Some(present) => Err(Rejection::AlreadyAssigned {
            step: Arc::clone(&task.step),
            attempt: task.attempt,
            worker: Arc::clone(present),
        }),
        None => {
            draft.push(Fact::TaskAssigned { task, worker });
            Ok(())
        }
    }
}

pub(super) fn release(draft: &mut Draft<'_>, task: Task) -> Result<(), Rejection> {
    let ix = open_task(draft, &task)?;
    if draft.run(ix).worker.is_some() {
        draft.push(Fact::TaskReleased { task });
    }
    Ok(())
}

pub(super) fn heartbeat(
    draft: &mut Draft<'_>,
    step: Arc<str>,
    attempt: u32,
    progress: Option<Progress>,
) -> Result<(), Rejection> {
    let ix = open_task(draft, &Task::of(Arc::clone(&step), attempt))?;
    let (_, heartbeat_due) = super::start::limits(draft, ix);
    if heartbeat_due.is_some() && heartbeat_due != draft.run(ix).heartbeat_due {
        draft.push(Fact::HeartbeatRecorded {
            step: Arc::clone(&step),
            attempt,
            heartbeat_due,
        });
    }
    // Whoever made it by hand may not have cut the detail.
    let progress = progress.and_then(|told| Progress::new(told.fraction.get(), &told.detail));
    match progress {
        Some(told) if draft.run(ix).progress.as_deref() != Some(&told) => {
            draft.push(Fact::ProgressReported {
                step,
                attempt,
                progress: told.fraction,
                detail: told.detail.into(),
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
        undo::done(draft, ix);
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
        undo::failed(draft, ix, failure);
    } else {
        reject(draft, ix, failure);
    }
    Ok(())
}

/// What an attempt cost is written down before how it ended.
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
    match outcome {
        Ok(output) => accept(draft, ix, output),
        Err(failure) => reject(draft, ix, failure),
    }
    Ok(())
}

/// An output that fits completes the step; one that does not is a failed attempt.
pub(super) fn accept(draft: &mut Draft<'_>, ix: StepIx, output: Data) {
    let plan = Arc::clone(&draft.head().plan);
    let (step, attempt) = (plan.name(ix), draft.run(ix).attempt);
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
    let (step, attempt) = (draft.head().plan.name(ix), draft.run(ix).attempt);
    draft.push(Fact::AttemptFailed {
        step,
        attempt,
        failure,
    });
}
