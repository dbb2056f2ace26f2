//! Rolling back: compensates completed steps, the last completed first, one at a time, after all tasks
//! that workers have are finished.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use stateway_definition::RetryPolicy;
use stateway_model::{ErrorCategory, Reason};

use super::start::after;
use super::{cancel, settle, task};
use crate::backoff::{later, pause, seed};
use crate::event::Fact;
use crate::ledger::{Draft, Ledger as _};
use crate::plan::{Plan, StepIx};
use crate::state::{Ending, StepRun};
use crate::{ExecutionState, Failure, StepState};

/// Starts the next compensation, or ends the rollback when there is none. False: nothing follows.
pub(super) fn next(draft: &mut Draft<'_>) -> bool {
    if let Some(ix) = unrecorded(draft) {
        task::lose(draft, ix);
        return true;
    }
    if !draft.head().open.is_empty() {
        return false;
    }
    match candidate(draft) {
        Some(ix) => begin(draft, ix),
        None => finish(draft),
    }
    false
}

/// A step that is over and may have taken effect, which the log does not say yet.
fn unrecorded(draft: &Draft<'_>) -> Option<StepIx> {
    let plan = &draft.head().plan;
    let mut steps = plan.steps().map(|(ix, _)| ix);
    steps.find(|ix| {
        let run = draft.run(*ix);
        let over = matches!(
            run.state,
            StepState::Failed | StepState::Skipped | StepState::Cancelled | StepState::Pending
        );
        run.effects_unknown && over && has_effects(plan, *ix)
    })
}

/// The last completed step that has a compensation. A step whose worker was lost counts as completed
/// where its compensation says so.
fn candidate(draft: &Draft<'_>) -> Option<StepIx> {
    let mut next = draft.head().undo_next;
    // A broken log can make a ring of it; a whole one never has more links than steps.
    for _ in 0..draft.head().plan.len() {
        let ix = next?;
        let run = draft.run(ix);
        let compensable = draft.head().plan.compensation(ix).is_some();
        if compensable && (run.state == StepState::Completed || is_unknown(run)) {
            return Some(ix);
        }
        next = run.completed_before;
    }
    None
}

/// Whether it is unknown if the step completed, and its compensation has not begun.
const fn is_unknown(run: &StepRun) -> bool {
    run.unknown && !run.undoing
}

/// Opens the next attempt to compensate a step.
pub(super) fn begin(draft: &mut Draft<'_>, ix: StepIx) {
    let queue_due = queue_due(draft, ix);
    let (step, attempt) = (draft.head().plan.name(ix), draft.run(ix).undo_attempt + 1);
    draft.push(Fact::StepCompensationStarted {
        step,
        attempt,
        queue_due,
        due: None,
    });
}

/// When an attempt to compensate fails that waits for a worker from now on: by its `queueTimeout`, by
/// the workflow's, or else when the workflow's timeout ends. A rollback that begins after that time, as
/// one that the timeout itself causes, has the length of the timeout again.
pub(super) fn queue_due(draft: &Draft<'_>, ix: StepIx) -> Option<Timestamp> {
    let head = draft.head();
    let allowed = || {
        let left = head.deadline.filter(|deadline| *deadline > draft.now());
        left.or_else(|| after(draft, head.plan.definition().timeout))
    };
    after(draft, queue_timeout(&head.plan, ix)).or_else(allowed)
}

/// How long an attempt to compensate may wait for a worker, where the definition says.
pub(super) fn queue_timeout(plan: &Plan, ix: StepIx) -> Option<Duration> {
    let own = plan.compensation(ix)?.queue_timeout;
    own.or(plan.definition().queue_timeout)
}

/// When an attempt to compensate times out that a worker takes now.
pub(super) fn limit(draft: &Draft<'_>, ix: StepIx) -> Option<Timestamp> {
    let compensation = draft.head().plan.compensation(ix);
    after(
        draft,
        compensation.and_then(|compensation| compensation.timeout),
    )
}

pub(super) fn done(draft: &mut Draft<'_>, ix: StepIx) {
    let (step, attempt) = (draft.head().plan.name(ix), draft.run(ix).undo_attempt);
    draft.push(Fact::StepCompensated { step, attempt });
}

/// A failed compensation is retried by its policy, or by the default one. When no retry is left the
/// execution ends partially rolled back, and names the steps that were not rolled back.
pub(super) fn failed(draft: &mut Draft<'_>, ix: StepIx, failure: Failure) {
    let failure = failure.cut();
    let plan = Arc::clone(&draft.head().plan);
    let (step, attempt) = (plan.name(ix), draft.run(ix).undo_attempt);
    let failures = draft.run(ix).undo_failures + 1;
    let policy = policy(&plan, ix);
    let retries = is_retried(&policy, &failure) && failures <= policy.max_retries;
    let retry_at = retries.then(|| {
        let seed = seed(&draft.head().id, &step, attempt);
        let asked = failure.retry_after.unwrap_or_default();
        let delay = pause(&policy, failures, seed).max(asked.min(settle::LONGEST_ASKED));
        later(draft.now(), delay)
    });
    let step_failed = Arc::clone(&step);
    draft.push(Fact::StepCompensationFailed {
        step,
        attempt,
        failure,
        retry_at,
    });
    if retry_at.is_none() {
        let left = left_behind(draft);
        draft.push(Fact::ExecutionFailed {
            step: Some(step_failed),
            reason: Reason::PartiallyRolledBack,
            message: "".into(),
            left,
        });
    }
}

/// How the compensation of a step is retried.
pub(crate) fn policy(plan: &Plan, ix: StepIx) -> RetryPolicy {
    let own = plan
        .compensation(ix)
        .and_then(|compensation| compensation.retry_policy.clone());
    own.unwrap_or_else(default_policy)
}

/// The default for compensations: retry what may succeed next time, with back-off.
fn default_policy() -> RetryPolicy {
    RetryPolicy {
        retry_on: Some(vec![
            ErrorCategory::Transient,
            ErrorCategory::Timeout,
            ErrorCategory::External,
        ]),
        ..RetryPolicy::default()
    }
}

/// Whether a policy retries such a failure of a compensation at all.
pub(crate) fn is_retried(policy: &RetryPolicy, failure: &Failure) -> bool {
    let listed = policy.retry_on.as_ref();
    let wanted = listed.map_or(failure.category != ErrorCategory::Governance, |listed| {
        listed.contains(&failure.category)
    });
    wanted && !failure.no_retry
}

/// The steps with effects that completed, or may have, and were not rolled back; nothing unless the
/// execution rolls back, or was rolled back before a person was asked.
pub(super) fn left_behind(draft: &Draft<'_>) -> Vec<Arc<str>> {
    let head = draft.head();
    if head.state != ExecutionState::Compensating && !head.rolled_back {
        return Vec::new();
    }
    not_compensated(draft)
}

/// The steps with effects that completed, or may have, and were not compensated.
pub(super) fn not_compensated(draft: &Draft<'_>) -> Vec<Arc<str>> {
    let head = draft.head();
    let mut left = Vec::new();
    let mut next = head.last_completed;
    for _ in 0..head.plan.len() {
        let Some(ix) = next else { break };
        if !draft.run(ix).compensated && has_effects(&head.plan, ix) {
            left.push(head.plan.name(ix));
        }
        next = draft.run(ix).completed_before;
    }
    for (ix, step) in head.plan.steps() {
        let run = draft.run(ix);
        let open = run.effects_unknown || run.is_in_hands();
        let unknown = (is_unknown(run) || open) && has_effects(&head.plan, ix);
        if unknown && !left.contains(&step.name) {
            left.push(Arc::clone(&step.name));
        }
    }
    left
}

/// Whether the step has effects that a rollback has to compensate.
pub(crate) fn has_effects(plan: &Plan, ix: StepIx) -> bool {
    let define = plan.define(ix);
    define.kind.answers() && !define.read_only || plan.compensation(ix).is_some()
}

fn finish(draft: &mut Draft<'_>) {
    match draft.head().ending.clone() {
        Some(Ending::Cancelled { .. }) => {
            cancel::finish(draft);
        }
        Some(Ending::Escalated(ix)) => settle::escalate(draft, ix, Reason::RolledBack),
        Some(Ending::RolledBack) | None => {
            let left = left_behind(draft);
            draft.push(Fact::ExecutionRolledBack {
                reason: Reason::RolledBack,
                left,
            });
        }
    }
}
