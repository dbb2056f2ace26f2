//! A person decides about an approval: with the role, in time, about the open request, and not about
//! their own work.

use std::sync::Arc;

use serde_json::json;
use stateway_definition::StepKind;

use super::{duty, find, start, task};
use crate::Rejection;
use crate::event::{Data, Fact, WaitFor};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;

/// One person's decision.
pub(super) struct Vote {
    pub(super) step: Arc<str>,
    pub(super) attempt: u32,
    pub(super) grant: bool,
    pub(super) by: Arc<str>,
    pub(super) roles: Vec<Arc<str>>,
    pub(super) comment: Arc<str>,
}

pub(super) fn decide(draft: &mut Draft<'_>, vote: Vote) -> Result<(), Rejection> {
    let ix = find(draft, &vote.step)?;
    let Some(role) = open_request(draft, ix, vote.attempt) else {
        return repeated(draft, ix, vote);
    };
    // The timer may be late; the request is not open for longer because of it. While the execution is
    // paused or escalated, the time to decide stands still.
    let clock = draft.head().paused_since.unwrap_or_else(|| draft.now());
    if draft.run(ix).due.is_some_and(|due| due <= clock) {
        return Err(Rejection::ApprovalExpired { step: vote.step });
    }
    duty::check_request(draft, ix, &vote.by)?;
    if !vote.roles.contains(&role) {
        return Err(Rejection::RoleRequired {
            step: vote.step,
            role,
        });
    }
    write(draft, ix, vote);
    Ok(())
}

fn open_request(draft: &Draft<'_>, ix: StepIx, attempt: u32) -> Option<Arc<str>> {
    let run = draft.run(ix);
    match &run.wait {
        Some(WaitFor::Approval(role)) if run.attempt == attempt => Some(Arc::clone(role)),
        _ => None,
    }
}

/// The same decision by the same person is accepted again; any other comes too late.
fn repeated(draft: &Draft<'_>, ix: StepIx, vote: Vote) -> Result<(), Rejection> {
    let decision = draft.run(ix).decision.as_ref();
    let kind = &draft.head().plan.define(ix).kind;
    if decision.is_none() && !matches!(kind, StepKind::Approval { .. }) {
        return Err(Rejection::NoApproval { step: vote.step });
    }
    let Some(decision) = decision.filter(|decision| decision.attempt == vote.attempt) else {
        return Err(Rejection::StaleApproval {
            step: vote.step,
            attempt: vote.attempt,
        });
    };
    if decision.grant == vote.grant && decision.by == vote.by {
        return Ok(());
    }
    Err(Rejection::AlreadyDecided {
        step: vote.step,
        by: Arc::clone(&decision.by),
    })
}

fn write(draft: &mut Draft<'_>, ix: StepIx, vote: Vote) {
    let Vote {
        step,
        attempt,
        grant,
        by,
        roles: _,
        comment,
    } = vote;
    if !grant {
        return draft.push(Fact::ApprovalRejected {
            step,
            attempt,
            by,
            comment,
        });
    }
    if draft.run(ix).policy.is_some() {
        let queue_due = start::queue_due(draft, ix);
        return draft.push(Fact::ApprovalGranted {
            step,
            attempt,
            by,
            comment,
            queue_due,
        });
    }
    let output = json!({"decision": "granted", "by": &*by, "comment": &*comment});
    draft.push(Fact::ApprovalGranted {
        step,
        attempt,
        by,
        comment,
        queue_due: None,
    });
    task::accept(draft, ix, Data::new(output));
}
