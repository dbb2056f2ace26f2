//! An execution in the words of every client: sub-states, reasons, retries, waits.

use stateway_definition::{RetryPolicy, StepKind};
use stateway_model::{
    ExecutionError, MappingBasis, Reason, Retry, RetryBasis, Step, SubState, Usage, Wait, WaitKind,
};

use crate::event::{PauseCause, WaitFor};
use crate::plan::StepIx;
use crate::state::StepRun;
use crate::{ExecutionState, Failure, FailureCause, State, StepState};

/// Where the execution is in the six words, and why.
#[must_use]
pub fn sub_state(state: &State) -> (SubState, Option<Reason>) {
    let head = &state.head;
    match head.state {
        ExecutionState::Created => (SubState::Waiting, Some(Reason::Scheduled)),
        ExecutionState::Queued => (SubState::Waiting, head.reason),
        ExecutionState::Running
        | ExecutionState::AwaitingSignal
        | ExecutionState::AwaitingApproval => of_steps(state),
        ExecutionState::Paused => match &head.hold {
            Some(PauseCause::StepFailed { .. } | PauseCause::RevisionMismatch { .. }) => {
                (SubState::Error, head.reason)
            }
            Some(PauseCause::ByHand { .. }) | None => (SubState::Waiting, head.reason),
        },
        ExecutionState::Escalated => (SubState::Error, head.reason),
        ExecutionState::Compensating => (SubState::Running, head.reason),
        ExecutionState::Completed => (SubState::Succeeded, None),
        ExecutionState::RolledBack | ExecutionState::Failed | ExecutionState::Cancelled => {
            (SubState::Failed, head.reason)
        }
    }
}

/// The open step that decides lends its reason too.
fn of_steps(state: &State) -> (SubState, Option<Reason>) {
    let open = || {
        state
            .head
            .open
            .iter()
            .filter_map(|ix| step_sub_state(state, *ix))
    };
    let shown = SubState::of_open_steps(open().map(|(sub_state, _)| sub_state));
    let shown = shown.unwrap_or(SubState::Running);
    let reason = open()
        .find(|(sub_state, _)| *sub_state == shown)
        .and_then(|(_, reason)| reason);
    (shown, reason)
}

/// Where a step is in the six words; nothing before it begins.
pub(crate) fn step_sub_state(state: &State, ix: StepIx) -> Option<(SubState, Option<Reason>)> {
    let run = state.run(ix);
    Some(match run.state {
        StepState::Pending => return None,
        StepState::Running | StepState::Correcting => (SubState::Running, None),
        StepState::BackingOff => (SubState::BackingOff, None),
        StepState::Waiting => of_wait(run.wait.as_ref()),
        StepState::Completed => (SubState::Succeeded, None),
        StepState::Failed => of_failure(state, ix, run),
        StepState::Skipped => (SubState::Succeeded, Some(Reason::Skipped)),
        StepState::Cancelled => (SubState::Failed, Some(Reason::Cancelled)),
        StepState::Compensating => (SubState::Running, Some(Reason::Compensating)),
        StepState::Compensated => (SubState::Failed, Some(Reason::RolledBack)),
    })
}

const fn of_wait(wait: Option<&WaitFor>) -> (SubState, Option<Reason>) {
    match wait {
        Some(WaitFor::Timer) => (SubState::Waiting, Some(Reason::AwaitingTimer)),
        Some(WaitFor::Child(_)) => (SubState::Waiting, Some(Reason::AwaitingChild)),
        Some(WaitFor::Person) => (SubState::Error, Some(Reason::Escalated)),
        Some(WaitFor::Signal(_) | WaitFor::Approval(_)) | None => {
            (SubState::Waiting, Some(Reason::AwaitingInput))
        }
    }
}

fn of_failure(state: &State, ix: StepIx, run: &StepRun) -> (SubState, Option<Reason>) {
    if state.head.unsettled.binary_search(&ix).is_ok() {
        return (SubState::Error, Some(Reason::FailurePending));
    }
    let reason = run
        .failure
        .as_ref()
        .map(|failure| failure.reason(run.failures > 1));
    if state.head.parked.binary_search(&ix).is_ok() {
        return (SubState::Error, reason);
    }
    (SubState::Failed, reason)
}

/// The steps that have begun, as clients see them.
#[must_use]
pub fn step_views(state: &State) -> Vec<Step> {
    state
        .plan()
        .steps()
        .filter_map(|(ix, _)| step_view(state, ix))
        .collect()
}

fn step_view(state: &State, ix: StepIx) -> Option<Step> {
    let (sub_state, reason) = step_sub_state(state, ix)?;
    let run = state.run(ix);
    let name = state.plan().step(ix).name.to_string();
    Some(Step {
        sub_state,
        native_state: run.state.as_str().to_owned(),
        reason,
        mapping_basis: MappingBasis::Native,
        retry: retry(state, ix),
        waits: wait(state, ix).into_iter().collect(),
        last_error: error(&name, run),
        start_time: run.first_started,
        end_time: run.ended,
        progress: run.progress.as_deref().cloned(),
        name,
    })
}

/// How a step is being retried. The jitter is already in the time: it replays the same.
fn retry(state: &State, ix: StepIx) -> Retry {
    let run = state.run(ix);
    let define = state.plan().define(ix);
    let allowed = define.retry_policy.as_ref().map_or_else(
        || RetryPolicy::default().max_retries,
        |policy| policy.max_retries,
    );
    let next = run.resume_at.filter(|_| run.state == StepState::BackingOff);
    let delay = next
        .zip(run.since)
        .and_then(|(next, since)| std::time::Duration::try_from(next.duration_since(since)).ok());
    Retry {
        attempt: run.attempt,
        max_attempts: Some(allowed.saturating_add(1)),
        retry_count: run.attempt.saturating_sub(1),
        next_attempt_time: next,
        delay,
        jitter: None,
        last_error: error(&define.name, run),
        basis: RetryBasis::Reported,
    }
}

fn error(step: &str, run: &StepRun) -> Option<ExecutionError> {
    let failure = run.failure.as_deref()?;
    Some(ExecutionError {
        step: step.to_owned(),
        message: failure.message.to_string(),
        native_code: native_code(failure),
        category: Some(failure.category),
        attempt: run.attempt,
        at: run.failed_at,
    })
}

fn native_code(failure: &Failure) -> String {
    match (failure.code.is_empty(), failure.cause) {
        (false, _) => failure.code.to_string(),
        (true, FailureCause::Reported) => String::new(),
        (true, cause) => cause.as_str().to_owned(),
    }
}

/// What the execution waits for, its steps' waits included.
#[must_use]
pub fn waits(state: &State) -> Vec<Wait> {
    let mut found: Vec<Wait> = state
        .head
        .open
        .iter()
        .filter_map(|ix| wait(state, *ix))
        .collect();
    if state.state() == ExecutionState::Queued {
        found.push(Wait::new(WaitKind::Capacity, "slot"));
    }
    found
}

fn wait(state: &State, ix: StepIx) -> Option<Wait> {
    let run = state.run(ix);
    let define = state.plan().define(ix);
    let (kind, name, deadline) = match (&run.wait, run.state) {
        (Some(WaitFor::Timer), _) => (WaitKind::Timer, define.name.as_str(), run.resume_at),
        (Some(WaitFor::Signal(name)), _) => (WaitKind::Signal, &**name, run.due),
        (Some(WaitFor::Approval(role)), _) => (WaitKind::Approval, &**role, run.due),
        (Some(WaitFor::Child(child)), _) => (WaitKind::Child, &**child, run.due),
        (Some(WaitFor::Person), _) => (WaitKind::Approval, "escalation", None),
        (None, StepState::Running | StepState::Correcting) if run.worker.is_none() => {
            let role = match (&run.role, &define.kind) {
                (Some(role), _) => &**role,
                (None, StepKind::Task { agent, .. }) => agent.as_str(),
                _ => "",
            };
            (WaitKind::Capacity, role, run.due)
        }
        (None, _) => return None,
    };
    Some(Wait {
        kind,
        name: name.to_owned(),
        since: run.since,
        deadline,
    })
}

/// What all attempts cost so far, the undoing included.
#[must_use]
pub const fn usage(state: &State) -> Usage {
    state.head.usage
}

/// What went wrong last.
#[must_use]
pub fn last_error(state: &State) -> Option<ExecutionError> {
    let ix = state.head.last_failed?;
    error(&state.plan().step(ix).name, state.run(ix))
}
