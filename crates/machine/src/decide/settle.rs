//! The consequence of a failed attempt: a retry, a correction, a person, or the step's `onFailure`.

use std::sync::Arc;

use stateway_definition::{
    FailurePolicy, OnExpiry, OnFailure, OnReject, OnTimeout, RetryPolicy, Step, StepKind,
};
use stateway_model::{ErrorCategory, Reason};

use super::cancel;
use super::start::queue_due;
use crate::backoff::{later, pause, seed};
use crate::event::{Fact, PauseCause, SkipCause, TurnCause};
use crate::failure::{Class, classify};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::{Failure, FailureCause};

pub(super) fn settle(draft: &mut Draft<'_>, ix: StepIx) {
    let plan = Arc::clone(&draft.head().plan);
    let define = plan.define(ix);
    let run = draft.run(ix);
    let failure = run
        .failure
        .clone()
        .unwrap_or_else(|| Arc::new(Failure::reported(ErrorCategory::AgentError, "unknown")));
    match failure.cause {
        FailureCause::Rejected => return rejected(draft, ix, define),
        FailureCause::Expired => return expired(draft, ix, define),
        FailureCause::Reported
        | FailureCause::TimedOut
        | FailureCause::WentSilent
        | FailureCause::QueueTimedOut
        | FailureCause::WorkerLost
        | FailureCause::PolicyDenied
        | FailureCause::BudgetExceeded
        | FailureCause::InvalidOutput
        | FailureCause::BadInput => {}
    }
    let policy = define.retry_policy.as_ref();
    let class = classify(
        &failure,
        policy,
        run.failures - run.corrections.min(run.failures),
        run.corrections,
        corrections(define),
    );
    match class {
        Class::Retry => schedule(draft, ix, policy),
        Class::Correct => correct(draft, ix, &failure),
        Class::Escalate => escalate(draft, ix, Reason::Governance),
        Class::Terminal => terminal(draft, ix, define, &failure),
    }
}

/// Only a worker takes feedback; a child starts over and cannot.
const fn corrections(define: &Step) -> u32 {
    match define.kind {
        StepKind::Task { .. } | StepKind::Http { .. } => define.max_correction_attempts,
        StepKind::Sleep { .. }
        | StepKind::Signal { .. }
        | StepKind::Approval(_)
        | StepKind::Workflow { .. } => 0,
    }
}

fn rejected(draft: &mut Draft<'_>, ix: StepIx, define: &Step) {
    match &define.kind {
        StepKind::Approval(approval) if approval.on_reject == OnReject::Cancel => {
            let decision = draft.run(ix).decision.clone();
            let by = decision.map_or_else(|| Arc::from(""), |decision| decision.by);
            let comment = format!("the approval `{}` was rejected", define.name);
            let compensate = cancel::compensates(draft);
            cancel::turn(draft, by, Reason::Rejected, comment.into(), compensate);
        }
        _ => on_failure(draft, ix, define, Reason::Rejected),
    }
}

fn expired(draft: &mut Draft<'_>, ix: StepIx, define: &Step) {
    let StepKind::Approval(approval) = &define.kind else {
        // A policy rule asked for this approval. The definition does not say how the step reacts, so it escalates.
        return escalate(draft, ix, Reason::TimedOut);
    };
    match approval.on_expiry {
        OnExpiry::Escalate => escalate(draft, ix, Reason::TimedOut),
        OnExpiry::Fail => on_failure(draft, ix, define, Reason::TimedOut),
        OnExpiry::Cancel => {
            let comment = format!("the approval `{}` expired", define.name);
            let compensate = cancel::compensates(draft);
            cancel::turn(
                draft,
                "".into(),
                Reason::TimedOut,
                comment.into(),
                compensate,
            );
        }
    }
}

/// The longest delay a worker may ask for.
pub(super) const LONGEST_ASKED: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

fn schedule(draft: &mut Draft<'_>, ix: StepIx, policy: Option<&RetryPolicy>) {
    let default = RetryPolicy::default();
    let (head, run) = (draft.head(), draft.run(ix));
    let step = head.plan.name(ix);
    let seed = seed(&head.id, &step, run.attempt);
    let failures = run.failures - run.corrections.min(run.failures);
    let pause = pause(policy.unwrap_or(&default), failures, seed);
    let asked = run.failure.as_ref().and_then(|failure| failure.retry_after);
    // A worker's `retry_after` overrides a shorter back-off.
    let pause = pause.max(asked.unwrap_or_default().min(LONGEST_ASKED));
    let (attempt, at) = (run.attempt + 1, later(draft.now(), pause));
    draft.push(Fact::RetryScheduled { step, attempt, at });
}

fn correct(draft: &mut Draft<'_>, ix: StepIx, failure: &Failure) {
    let queue_due = queue_due(draft, ix);
    let (step, attempt) = (draft.head().plan.name(ix), draft.run(ix).attempt + 1);
    let feedback = Arc::clone(&failure.message);
    draft.push(Fact::CorrectionRequested {
        step,
        attempt,
        feedback,
        queue_due,
        due: None,
        heartbeat_due: None,
    });
}

fn terminal(draft: &mut Draft<'_>, ix: StepIx, define: &Step, failure: &Failure) {
    let late = failure.category == ErrorCategory::Timeout;
    if late && define.on_timeout == OnTimeout::Escalate {
        return escalate(draft, ix, Reason::TimedOut);
    }
    let reason = failure.reason(draft.run(ix).failures > 1);
    on_failure(draft, ix, define, reason);
}

/// Asks a person to decide: of the role that the step names, or the definition; without either, the
/// host's configuration says who may.
pub(super) fn escalate(draft: &mut Draft<'_>, ix: StepIx, reason: Reason) {
    let plan = Arc::clone(&draft.head().plan);
    let named = plan.define(ix).escalation.as_ref();
    let named = named.or(plan.definition().escalation.as_ref());
    let role = named.map_or("", |escalation| escalation.role.as_str());
    draft.push(Fact::ExecutionEscalated {
        step: plan.name(ix),
        reason,
        attempt: draft.run(ix).attempt,
        role: role.into(),
    });
}

/// The step's own setting counts; without one, the definition's failure policy.
fn on_failure(draft: &mut Draft<'_>, ix: StepIx, define: &Step, reason: Reason) {
    let plan = Arc::clone(&draft.head().plan);
    let step = plan.name(ix);
    let action = define
        .on_failure
        .unwrap_or(match plan.definition().failure_policy {
            FailurePolicy::Abort => OnFailure::Abort,
            FailurePolicy::Compensate => OnFailure::Compensate,
        });
    let fact = match action {
        OnFailure::Abort => Fact::ExecutionFailed {
            step: Some(step),
            reason,
            message: "".into(),
            left: Vec::new(),
        },
        OnFailure::Skip => Fact::StepSkipped {
            step,
            cause: SkipCause::Failure,
        },
        OnFailure::Compensate => Fact::CompensationStarted {
            cause: TurnCause::StepFailed { step, reason },
            message: "".into(),
            awaited: cancel::in_hands(draft),
        },
        OnFailure::Pause => Fact::ExecutionPaused {
            cause: PauseCause::StepFailed { step },
        },
        OnFailure::Escalate => return escalate(draft, ix, reason),
    };
    draft.push(fact);
}
