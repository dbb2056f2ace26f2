//! What the policy rules decided about an attempt that is to be handed out. The rules themselves
//! live in the host's configuration; the decision comes inside the command and is replayed as
//! recorded.

use std::sync::Arc;

use stateway_model::ErrorCategory;

use super::task::open_task;
use crate::backoff::later;
use crate::event::{Fact, PolicyDecision, Task};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::{Failure, FailureCause, Rejection};

/// Asks again for an approval that expired, before the attempt that just started is handed out.
pub(super) fn ask_again(draft: &mut Draft<'_>, ix: StepIx) {
    let run = draft.run(ix);
    let Some(request) = run.ask_again.clone() else {
        return;
    };
    let task = Task::of(draft.head().plan.name(ix), run.attempt);
    let due = request.lasts.map(|lasts| later(draft.now(), lasts));
    draft.push(Fact::PolicyDecided {
        task,
        rule: request.rule,
        decision: PolicyDecision::RequireApproval {
            role: request.role,
            due,
        },
    });
}

/// A rule that a person approved for this step before allows every further attempt.
pub(super) fn decide(
    draft: &mut Draft<'_>,
    task: Task,
    rule: Arc<str>,
    decision: PolicyDecision,
) -> Result<(), Rejection> {
    let ix = open_task(draft, &task)?;
    let run = draft.run(ix);
    if let Some(worker) = &run.worker {
        return Err(Rejection::AlreadyAssigned {
            step: task.step,
            attempt: task.attempt,
            worker: Arc::clone(worker),
        });
    }
    let approved = run.approved_rules.contains(&rule);
    if task.undo || approved && matches!(decision, PolicyDecision::RequireApproval { .. }) {
        return Ok(());
    }
    let denied = match &decision {
        PolicyDecision::Deny { message } if message.is_empty() => {
            Some(format!("denied by the policy rule `{rule}`"))
        }
        PolicyDecision::Deny { message } => {
            Some(format!("denied by the policy rule `{rule}`: {message}"))
        }
        PolicyDecision::Allow | PolicyDecision::RequireApproval { .. } => None,
    };
    let (step, attempt) = (Arc::clone(&task.step), task.attempt);
    draft.push(Fact::PolicyDecided {
        task,
        rule,
        decision,
    });
    if let Some(message) = denied {
        let category = ErrorCategory::Governance;
        let failure = Failure::of(FailureCause::PolicyDenied, category, message);
        draft.push(Fact::AttemptFailed {
            step,
            attempt,
            failure,
        });
    }
    Ok(())
}
