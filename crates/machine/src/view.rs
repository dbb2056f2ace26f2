//! An execution as every client sees it: sub-states, reasons, retries, waits.

use std::sync::Arc;

use stateway_definition::{RetryPolicy, StepKind};
use stateway_model::{
    Blocker, ErrorCategory, ExecutionError, MappingBasis, Reason, Retry, RetryBasis, Step,
    SubState, Usage, Wait, WaitKind,
};

use crate::decide::{has_effects, is_undo_retried, undo_policy};
use crate::event::{Data, PauseCause, Task, WaitFor};
use crate::failure::{allowed_retries, is_retried};
use crate::plan::StepIx;
use crate::scope::input_of;
use crate::state::StepRun;
use crate::{ExecutionState, Failure, FailureCause, State, StepState, TaskKey};

/// An attempt that is ready for a worker and that none has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeking {
    /// The step.
    pub step: Arc<str>,
    /// The role a worker must have; empty: any worker.
    pub role: Arc<str>,
    /// The skill a worker must have; empty: none.
    pub skill: Arc<str>,
    /// Whether the engine's own HTTP client takes it, and no worker.
    pub http: bool,
}

/// The attempts that are ready for a worker, unless the execution is paused or escalated: then none
/// is handed out.
#[must_use]
pub fn seeking(state: &State) -> Vec<Seeking> {
    if state.state().is_held() {
        return Vec::new();
    }
    let open = state.head.open.iter();
    let ready = open.filter(|ix| {
        let run = state.run(**ix);
        run.has_open_attempt() && run.worker.is_none()
    });
    ready.map(|ix| seeks(state, *ix)).collect()
}

fn seeks(state: &State, ix: StepIx) -> Seeking {
    let (run, plan) = (state.run(ix), state.plan());
    let undo = run.state == StepState::Compensating;
    let (role, skill, http) = match &plan.define(ix).kind {
        _ if undo => {
            let compensation = plan.compensation(ix);
            let agent = compensation.map_or("", |compensation| compensation.agent.as_str());
            (agent, "", false)
        }
        StepKind::Task { agent, skill, .. } => {
            let role = run.role.as_deref().unwrap_or(agent);
            (role, skill.as_str(), false)
        }
        StepKind::Http { .. } => ("", "", true),
        _ => ("", "", false),
    };
    Seeking {
        step: plan.name(ix),
        role: role.into(),
        skill: skill.into(),
        http,
    }
}

/// The execution's sub-state, and why.
#[must_use]
pub fn sub_state(state: &State) -> (SubState, Option<Reason>) {
    sub_state_where(state, &[])
}

/// The same where no connected worker can take the tasks of some steps: such a step is waiting.
#[must_use]
pub fn sub_state_where(state: &State, unserved: &[Arc<str>]) -> (SubState, Option<Reason>) {
    let head = &state.head;
    match head.state {
        ExecutionState::Created => (SubState::Waiting, Some(Reason::Scheduled)),
        ExecutionState::Queued => (SubState::Waiting, head.reason),
        ExecutionState::Running
        | ExecutionState::AwaitingSignal
        | ExecutionState::AwaitingApproval => of_steps(state, unserved),
        ExecutionState::Paused => match &head.pause_cause {
            Some(PauseCause::StepFailed { .. } | PauseCause::RevisionMismatch { .. }) => {
                (SubState::Error, head.reason)
            }
            Some(PauseCause::ByHand { .. }) | None => (SubState::Waiting, head.reason),
        },
        ExecutionState::Escalated => (SubState::Error, head.reason),
        ExecutionState::Compensating if is_unserved(state, unserved) => {
            (SubState::Waiting, Some(Reason::NoWorker))
        }
        ExecutionState::Compensating if is_backing_off(state) => {
            (SubState::BackingOff, head.reason)
        }
        ExecutionState::Cancelling | ExecutionState::Compensating => {
            (SubState::Running, head.reason)
        }
        ExecutionState::Completed => (SubState::Succeeded, None),
        ExecutionState::RolledBack | ExecutionState::Failed | ExecutionState::Cancelled => {
            (SubState::Failed, head.reason)
        }
    }
}

/// Whether the compensation that is next waits for its retry.
fn is_backing_off(state: &State) -> bool {
    let mut open = state.head.open.iter();
    open.any(|ix| state.run(*ix).undo_retry_at().is_some())
}

/// Whether the compensation that is next has no worker that could take it.
fn is_unserved(state: &State, unserved: &[Arc<str>]) -> bool {
    let mut open = state.head.open.iter();
    open.any(|ix| unserved.contains(&state.plan().step(*ix).name))
}

/// The open step that decides lends its reason too.
fn of_steps(state: &State, unserved: &[Arc<str>]) -> (SubState, Option<Reason>) {
    let open = || {
        let steps = state.head.open.iter();
        steps.filter_map(|ix| {
            if unserved.contains(&state.plan().step(*ix).name) {
                return Some((SubState::Waiting, Some(Reason::NoWorker)));
            }
            step_sub_state(state, *ix)
        })
    };
    let shown = SubState::of_open_steps(open().map(|(sub_state, _)| sub_state));
    let shown = shown.unwrap_or(SubState::Running);
    let reasons = open().filter(|(sub_state, _)| *sub_state == shown);
    // Of several waits, a task that no worker can take is the most important reason.
    let mut reasons: Vec<_> = reasons.filter_map(|(_, reason)| reason).collect();
    reasons.sort_by_key(|reason| *reason != Reason::NoWorker);
    (shown, reasons.first().copied())
}

/// A step's sub-state, and why; nothing before it starts.
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
        StepState::Compensating if run.undo_retry_at().is_some() => {
            (SubState::BackingOff, Some(Reason::Compensating))
        }
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

/// Every step as clients see it, in the order of the definition. A step that has not started is
/// waiting; once its execution has ended, it never will.
#[must_use]
pub fn step_views(state: &State) -> Vec<Step> {
    state
        .plan()
        .steps()
        .map(|(ix, _)| step_view(state, ix))
        .collect()
}

fn step_view(state: &State, ix: StepIx) -> Step {
    let (sub_state, reason) = step_sub_state(state, ix).unwrap_or_else(|| {
        let ended = state.state().is_terminal();
        let sub_state = if ended {
            SubState::Failed
        } else {
            SubState::Waiting
        };
        (sub_state, Some(Reason::NotStarted))
    });
    let run = state.run(ix);
    let name = state.plan().step(ix).name.to_string();
    Step {
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
        usage: Some(run.usage).filter(|usage| !usage.is_zero()),
        child: None,
        blocked_by: blocked_by(state, ix),
        name,
    }
}

/// The steps that must settle before a step starts, while it has not started and still may.
fn blocked_by(state: &State, ix: StepIx) -> Vec<String> {
    let ended = state.state().is_terminal();
    if ended || state.run(ix).state != StepState::Pending {
        return Vec::new();
    }
    let unsettled = |name: &&String| {
        let found = state.plan().find(name);
        found.is_some_and(|ix| {
            let needed = state.run(ix).state;
            !matches!(needed, StepState::Completed | StepState::Skipped)
        })
    };
    let needed = state.plan().define(ix).depends_on.iter();
    needed.filter(unsettled).cloned().collect()
}

/// How a step is being retried. The jitter is already in the time: it replays the same. The highest
/// number of attempts depends on the kind of failure; before the first failure of a step without a
/// retry policy it is not known.
fn retry(state: &State, ix: StepIx) -> Retry {
    let run = state.run(ix);
    if run.is_undo_under_way_or_failed() {
        return undo_retry(state, ix);
    }
    let define = state.plan().define(ix);
    let policy = define.retry_policy.as_ref();
    let next = run.resume_at.filter(|_| run.state == StepState::BackingOff);
    let delay = next
        .zip(run.since)
        .and_then(|(next, since)| std::time::Duration::try_from(next.duration_since(since)).ok());
    let corrections = run.corrections;
    let most = allowed_retries(policy)
        .saturating_add(1)
        .saturating_add(corrections);
    let max_attempts = match run.failure.as_deref() {
        Some(failure) if is_retried(failure, policy) => Some(most),
        Some(_) => Some(run.attempt),
        None => policy.map(|_| most),
    };
    let begun = run.attempt > 0;
    Retry {
        attempt: run.attempt,
        max_attempts: max_attempts.filter(|_| begun),
        retry_count: run.attempt.saturating_sub(1),
        next_attempt_time: next,
        delay,
        jitter: None,
        last_error: error(&define.name, run),
        basis: if begun {
            RetryBasis::Reported
        } else {
            RetryBasis::None
        },
    }
}

/// How the compensation of a step is being retried.
fn undo_retry(state: &State, ix: StepIx) -> Retry {
    let run = state.run(ix);
    let next = run.undo_retry_at();
    let delay = next
        .zip(run.failed_at)
        .and_then(|(next, failed)| std::time::Duration::try_from(next.duration_since(failed)).ok());
    let policy = undo_policy(state.plan(), ix);
    let open = u32::from(run.has_open_attempt());
    let earlier = run.undo_attempt.saturating_sub(run.undo_failures + open);
    let most = earlier.saturating_add(policy.max_retries).saturating_add(1);
    Retry {
        attempt: run.undo_attempt,
        max_attempts: Some(if run.state == StepState::Failed {
            run.undo_attempt
        } else {
            most
        }),
        retry_count: run.undo_attempt.saturating_sub(1),
        next_attempt_time: next,
        delay,
        jitter: None,
        last_error: error(&state.plan().define(ix).name, run),
        basis: RetryBasis::Reported,
    }
}

/// Why no retry follows the last failure of a step, in one sentence; nothing while one does.
#[must_use]
pub fn not_retried(state: &State, step: &str) -> Option<String> {
    let ix = state.plan().find(step)?;
    let run = state.run(ix);
    let failure = run.failure.as_deref()?;
    let policy = state.plan().define(ix).retry_policy.as_ref();
    let retried = matches!(
        run.state,
        StepState::BackingOff | StepState::Correcting | StepState::Compensating
    );
    if retried {
        return None;
    }
    if run.is_undo_under_way_or_failed() {
        return Some(undo_not_retried(failure, &undo_policy(state.plan(), ix)));
    }
    let category = failure.category;
    let why = if failure.no_retry {
        "the worker reported that no retry can succeed".to_owned()
    } else if failure.cause == FailureCause::BadInput {
        "a retry cannot supply the missing value".to_owned()
    } else if failure.cause == FailureCause::Rejected {
        "a person rejected it".to_owned()
    } else if category == ErrorCategory::Governance {
        "governance failures are never retried; a person decides".to_owned()
    } else if is_retried(failure, policy) {
        match allowed_retries(policy) {
            0 => "`maxRetries` is 0".to_owned(),
            1 => "the only retry is used up".to_owned(),
            retries => format!("all {retries} retries are used up"),
        }
    } else if policy.is_some_and(|policy| policy.retry_on.is_some()) {
        format!("`{category}` is not in the step's `retryOn`")
    } else if matches!(
        category,
        ErrorCategory::AgentError | ErrorCategory::External
    ) {
        format!("`{category}` failures need a `retryPolicy`")
    } else {
        format!("`{category}` failures are not retried unless `retryOn` lists them")
    };
    Some(format!("not retried: {why}"))
}

fn undo_not_retried(failure: &Failure, policy: &RetryPolicy) -> String {
    let category = failure.category;
    let why = if failure.no_retry && failure.cause == FailureCause::QueueTimedOut {
        "the workflow's timeout allows no other attempt".to_owned()
    } else if failure.no_retry {
        "the worker reported that no retry can succeed".to_owned()
    } else if is_undo_retried(policy, failure) {
        match policy.max_retries {
            0 => "`maxRetries` is 0".to_owned(),
            1 => "the only retry is used up".to_owned(),
            retries => format!("all {retries} retries are used up"),
        }
    } else {
        format!("`{category}` failures of the compensation are not retried")
    };
    format!("compensation not retried: {why}")
}

fn error(step: &str, run: &StepRun) -> Option<ExecutionError> {
    let failure = run.failure.as_deref()?;
    Some(ExecutionError {
        step: step.to_owned(),
        message: failure.message.to_string(),
        native_code: native_code(failure),
        category: Some(failure.category),
        attempt: run.failed_attempt,
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
        found.push(Wait::capacity(Blocker::Slot, ""));
    }
    found
}

fn wait(state: &State, ix: StepIx) -> Option<Wait> {
    let run = state.run(ix);
    let define = state.plan().define(ix);
    // Timeouts stand still while the execution is paused or escalated: no moment is their end.
    let runs = !state.state().is_held();
    let (due, queue_due) = (run.due.filter(|_| runs), run.queue_due.filter(|_| runs));
    let (kind, name, deadline) = match (&run.wait, run.state) {
        (Some(WaitFor::Timer), _) => (WaitKind::Timer, define.name.as_str(), run.resume_at),
        (Some(WaitFor::Signal(name)), _) => (WaitKind::Signal, &**name, due),
        (Some(WaitFor::Approval(role)), _) => (WaitKind::Approval, &**role, due),
        (Some(WaitFor::Child(child)), _) => (WaitKind::Child, &**child, due),
        (Some(WaitFor::Person), _) => {
            let role = run.escalation_role.as_deref().unwrap_or_default();
            (WaitKind::Escalation, role, None)
        }
        (None, StepState::Running | StepState::Correcting) if run.worker.is_none() => {
            let role = match (&run.role, &define.kind) {
                (Some(role), _) => &**role,
                (None, StepKind::Task { agent, .. }) => agent.as_str(),
                _ => "",
            };
            (WaitKind::Capacity, role, queue_due)
        }
        (None, StepState::Compensating) if run.worker.is_none() && run.resume_at.is_none() => {
            let compensation = state.plan().compensation(ix);
            let role = compensation.map_or("", |compensation| compensation.agent.as_str());
            (WaitKind::Capacity, role, queue_due)
        }
        (None, _) => return None,
    };
    Some(Wait {
        kind,
        name: name.to_owned(),
        since: run.since,
        deadline,
        detail: String::new(),
        blocker: (kind == WaitKind::Capacity).then_some(Blocker::Worker),
    })
}

/// Whether steps of an execution took effect, or may have, and were not compensated.
#[must_use]
pub fn leaves_effects(state: &State) -> bool {
    let plan = state.plan();
    plan.steps().any(|(ix, _)| {
        let run = state.run(ix);
        let took = run.state == StepState::Completed || run.unknown || run.effects_unknown;
        took && !run.compensated && has_effects(plan, ix)
    })
}

/// What all attempts cost so far: compensations, children and abandoned branches included.
#[must_use]
pub fn usage(state: &State) -> Usage {
    state.head.usage + state.head.spent
}

/// The part of [`usage`] that branches cost which the execution has left.
#[must_use]
pub const fn abandoned_usage(state: &State) -> Usage {
    state.head.spent
}

/// What the attempts of one step cost on this branch.
#[must_use]
pub fn step_usage(state: &State, step: &str) -> Usage {
    let ix = state.plan().find(step);
    ix.map_or_else(Usage::default, |ix| state.run(ix).usage)
}

/// What a step answered on this branch; nothing before it completed.
#[must_use]
pub fn step_output(state: &State, step: &str) -> Option<Data> {
    let ix = state.plan().find(step)?;
    state.run(ix).output.clone()
}

/// What a step was given on this branch; nothing before it started, and for a step that only waits
/// for a time or a signal.
#[must_use]
pub fn step_input(state: &State, step: &str) -> Option<Data> {
    let ix = state.plan().find(step)?;
    let waits = matches!(
        state.plan().define(ix).kind,
        StepKind::Sleep { .. } | StepKind::Signal { .. }
    );
    if waits || state.run(ix).attempt == 0 {
        return None;
    }
    input_of(state, ix).ok()
}

/// The key of the execution that does a step, for a step that runs another definition.
#[must_use]
pub fn child_key(state: &State, step: &str) -> Option<TaskKey> {
    let ix = state.plan().find(step)?;
    let run = state.run(ix);
    let workflow = matches!(state.plan().define(ix).kind, StepKind::Workflow { .. });
    (workflow && run.attempt > 0).then(|| TaskKey {
        execution: Arc::clone(state.execution()),
        branch: run.branch,
        task: Task::of(state.plan().name(ix), run.attempt),
    })
}

/// What went wrong last: with the execution as a whole, or with a step.
#[must_use]
pub fn last_error(state: &State) -> Option<ExecutionError> {
    if let Some(fault) = &state.head.fault {
        return Some(ExecutionError {
            step: String::new(),
            message: fault.message.to_string(),
            native_code: fault.cause.as_str().to_owned(),
            category: Some(match fault.cause {
                FailureCause::TimedOut => ErrorCategory::Timeout,
                _ => ErrorCategory::Validation,
            }),
            attempt: 0,
            at: Some(fault.at),
        });
    }
    let ix = state.head.last_failed?;
    error(&state.plan().step(ix).name, state.run(ix))
}
