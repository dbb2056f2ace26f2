//! A timer fires.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use stateway_definition::{StepKind, format_duration};
use stateway_model::{ErrorCategory, Reason};

use super::{cancel, compensation, start, task};
use crate::event::{Data, Fact, Task, TurnCause, WaitFor};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::timer::{StepTimer, Timer};
use crate::{Failure, FailureCause, Rejection, StepState};

pub(super) fn fire(draft: &mut Draft<'_>, timer: &Timer, note: &str) -> Result<(), Rejection> {
    match timer {
        Timer::Execution => {
            check(draft, deadline(draft))?;
            expire(draft, note);
            Ok(())
        }
        Timer::Step {
            step,
            attempt,
            kind,
        } => {
            let ix = super::find(draft, step)?;
            fire_step(draft, ix, (*attempt, *kind), note)
        }
    }
}

/// When the workflow's own timeout ends it; a cancellation or a rollback is not cut short.
fn deadline(draft: &Draft<'_>) -> Option<Timestamp> {
    let ending = draft.head().state.is_ending();
    draft.head().deadline.filter(|_| !ending)
}

fn check(draft: &Draft<'_>, due: Option<Timestamp>) -> Result<(), Rejection> {
    match due {
        None => Err(Rejection::StaleTimer),
        Some(due) if due > draft.now() => Err(Rejection::TimerNotDue),
        Some(_) => Ok(()),
    }
}

/// The workflow's timeout goes before every step's, and the failure policy follows.
fn expire(draft: &mut Draft<'_>, note: &str) {
    let message = with_note(overdue(draft), note).into();
    let fact = if cancel::compensates(draft) {
        Fact::CompensationStarted {
            cause: TurnCause::TimedOut,
            message,
            awaited: cancel::in_hands(draft),
        }
    } else {
        Fact::ExecutionFailed {
            step: None,
            reason: Reason::TimedOut,
            message,
            left: compensation::left_behind(draft),
        }
    };
    draft.push(fact);
}

/// A message with what the host adds to it.
fn with_note(message: String, note: &str) -> String {
    if note.is_empty() {
        return message;
    }
    format!("{message}: {note}")
}

/// The most steps that the message of a workflow's timeout names.
const MOST_NAMED: usize = 3;

/// That the workflow's timeout passed, and what the execution was waiting for.
fn overdue(draft: &Draft<'_>) -> String {
    let head = draft.head();
    let timeout = head.plan.definition().timeout;
    let limit = timeout.map_or_else(String::new, |limit| {
        format!(" of {}", format_duration(limit))
    });
    let open: Vec<String> = head
        .open
        .iter()
        .take(MOST_NAMED)
        .map(|ix| doing(draft, *ix))
        .collect();
    let more = head.open.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    if open.is_empty() {
        return format!("the execution took longer than its timeout{limit}");
    }
    let open = open.join(", ");
    format!("the execution took longer than its timeout{limit}: {open}{more}")
}

/// What a step was doing, in a few words.
fn doing(draft: &Draft<'_>, ix: StepIx) -> String {
    let run = draft.run(ix);
    let plan = &draft.head().plan;
    let (step, kind) = (&plan.step(ix).name, &plan.define(ix).kind);
    match (&run.wait, run.state) {
        (Some(WaitFor::Signal(name)), _) => format!("step `{step}` waited for signal `{name}`"),
        (Some(WaitFor::Approval(role)), _) => {
            format!("step `{step}` waited for an approval by `{role}`")
        }
        (Some(WaitFor::Child(child)), _) => format!("step `{step}` waited for child `{child}`"),
        (Some(WaitFor::Timer), _) => format!("step `{step}` was sleeping"),
        (Some(WaitFor::Person), _) => format!("step `{step}` was escalated"),
        (None, StepState::BackingOff) => format!("step `{step}` was backing off"),
        (None, _) if run.worker.is_none() => match kind {
            StepKind::Task { agent, .. } if !agent.is_empty() => {
                format!("step `{step}` waited for a worker of role `{agent}`")
            }
            _ => format!("step `{step}` waited for a worker"),
        },
        (None, _) => format!("step `{step}` was running"),
    }
}

fn fire_step(
    draft: &mut Draft<'_>,
    ix: StepIx,
    (attempt, kind): (u32, StepTimer),
    note: &str,
) -> Result<(), Rejection> {
    check(draft, set_for(draft, ix, attempt, kind))?;
    // Both may be due at the same time, in whatever order they are fired: the workflow's goes first.
    if check(draft, deadline(draft)).is_ok() {
        expire(draft, note);
        return Ok(());
    }
    match kind {
        // Nobody knows what became of work that was to be cancelled and took too long.
        StepTimer::Timeout if draft.run(ix).cancelling => task::lose(draft, ix),
        StepTimer::Timeout => {
            let message = too_long(draft.head().plan.define(ix).timeout);
            let failure = Failure {
                effects_unknown: draft.run(ix).is_in_hands(),
                ..timed_out(FailureCause::TimedOut, message)
            };
            task::reject(draft, ix, failure);
        }
        StepTimer::Queue => {
            let failure = queue_timed_out(draft, ix, note);
            task::reject(draft, ix, failure);
        }
        StepTimer::Heartbeat => {
            let step = draft.head().plan.name(ix);
            return task::release(draft, Task::of(step, attempt), true);
        }
        StepTimer::Expiry => {
            let step = draft.head().plan.name(ix);
            draft.push(Fact::ApprovalExpired { step, attempt });
        }
        StepTimer::Retry => start::open(draft, ix),
        StepTimer::Sleep => task::accept(draft, ix, Data::new(Value::Null)),
        StepTimer::UndoTimeout => {
            let timeout = draft.head().plan.compensation(ix);
            let message = too_long(timeout.and_then(|compensation| compensation.timeout));
            compensation::failed(draft, ix, timed_out(FailureCause::TimedOut, message));
        }
        StepTimer::UndoQueue => {
            let failure = undo_queue_timed_out(draft, ix, note);
            compensation::failed(draft, ix, failure);
        }
        StepTimer::UndoRetry => compensation::begin(draft, ix),
    }
    Ok(())
}

fn timed_out(cause: FailureCause, message: String) -> Failure {
    Failure::of(cause, ErrorCategory::Timeout, message)
}

fn too_long(limit: Option<Duration>) -> String {
    limit.map_or_else(
        || "the attempt took too long".to_owned(),
        |limit| format!("the attempt took longer than {}", format_duration(limit)),
    )
}

/// The code of an attempt that no worker took in time.
const QUEUE_TIMEOUT: &str = "QUEUE_TIMEOUT";

fn queue_timed_out(draft: &Draft<'_>, ix: StepIx, note: &str) -> Failure {
    let plan = &draft.head().plan;
    let define = plan.define(ix);
    let role = match (&draft.run(ix).role, &define.kind) {
        (Some(role), _) => role,
        (None, StepKind::Task { agent, .. }) => agent.as_str(),
        _ => "",
    };
    let limit = define.queue_timeout.or(plan.definition().queue_timeout);
    no_worker(role, &limit.map_or_else(String::new, within), note)
}

/// A compensation without a limit of its own has waited as long as the workflow allows: no retry.
fn undo_queue_timed_out(draft: &Draft<'_>, ix: StepIx, note: &str) -> Failure {
    let plan = &draft.head().plan;
    let role = plan.compensation(ix).map_or("", |undo| undo.agent.as_str());
    let own = compensation::queue_timeout(plan, ix);
    let limit = match (own, plan.definition().timeout) {
        (Some(own), _) => within(own),
        (None, Some(all)) => format!(" within the workflow's timeout of {}", format_duration(all)),
        (None, None) => String::new(),
    };
    Failure {
        no_retry: own.is_none(),
        ..no_worker(role, &limit, note)
    }
}

fn within(limit: Duration) -> String {
    format!(" within {}", format_duration(limit))
}

fn no_worker(role: &str, limit: &str, note: &str) -> Failure {
    let of_role = if role.is_empty() {
        String::new()
    } else {
        format!(" of role `{role}`")
    };
    let message = with_note(format!("no worker{of_role} took the task{limit}"), note);
    let mut failure = timed_out(FailureCause::QueueTimedOut, message);
    failure.code = QUEUE_TIMEOUT.into();
    failure
}

/// When this timer is due; nothing when it is not set, or not set any more.
fn set_for(draft: &Draft<'_>, ix: StepIx, attempt: u32, kind: StepTimer) -> Option<Timestamp> {
    let run = draft.run(ix);
    if run.timed_attempt() != attempt {
        return None;
    }
    let mut set = run.set_timers(draft.head().state);
    set.find(|(set, _)| *set == kind).map(|(_, due)| due)
}
