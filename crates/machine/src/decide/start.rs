//! A step whose dependencies are settled: skipped, started, or failed before it starts.
//!
//! What a skipped dependency does: a step that needs the output of a skipped step is skipped too;
//! every other dependant runs. `when` may ask about a skipped step.

use std::sync::Arc;

use jiff::Timestamp;
use stateway_definition::StepKind;
use stateway_model::ErrorCategory;

use super::{budget, policy, signal};
use crate::backoff::later;
use crate::event::{Fact, SkipCause, WaitFor};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::{Plan, StepIx};
use crate::scope::{RenderError, render, resolve};
use crate::{Failure, FailureCause, StepState, request};

pub(super) fn start(draft: &mut Draft<'_>, ix: StepIx) {
    let plan = Arc::clone(&draft.head().plan);
    let step = plan.name(ix);
    let skipped = |needed: &&StepIx| draft.run(**needed).state == StepState::Skipped;
    if let Some(needed) = plan.step(ix).needs.iter().find(skipped) {
        let cause = SkipCause::Upstream(plan.name(*needed));
        return draft.push(Fact::StepSkipped { step, cause });
    }
    match condition(draft, &plan, ix) {
        Ok(true) => open(draft, ix),
        Ok(false) => draft.push(Fact::StepSkipped {
            step,
            cause: SkipCause::Condition,
        }),
        Err(reason) => fail_to_start(draft, ix, format!("`when`: {reason}")),
    }
}

fn condition(draft: &Draft<'_>, plan: &Plan, ix: StepIx) -> Result<bool, String> {
    let holds = |condition: &stateway_definition::Condition| {
        condition.holds(&|reference| resolve(draft, reference))
    };
    plan.define(ix).when.as_ref().map_or(Ok(true), holds)
}

/// Opens the next attempt of a step.
pub(super) fn open(draft: &mut Draft<'_>, ix: StepIx) {
    if let Err(reason) = check_data(draft, ix) {
        return fail_to_start(draft, ix, reason);
    }
    let plan = Arc::clone(&draft.head().plan);
    let define = plan.define(ix);
    let due = after(draft, define.timeout);
    let wait = match &define.kind {
        StepKind::Task { .. } | StepKind::Http { .. } => return start_task(draft, ix),
        StepKind::Sleep { lasts } => (WaitFor::Timer, after(draft, Some(*lasts))),
        StepKind::Signal { name } => (WaitFor::Signal(name.as_str().into()), due),
        StepKind::Approval(approval) => {
            let given = draft.run(ix).role.clone();
            let role = given.unwrap_or_else(|| approval.role.as_str().into());
            (
                WaitFor::Approval(role),
                after(draft, approval.expires_after.or(define.timeout)),
            )
        }
        StepKind::Workflow { definition } => {
            if let Some(failure) = budget::exceeded(draft, ix, draft.run(ix).attempt + 1) {
                return fail(draft, ix, failure);
            }
            (WaitFor::Child(definition.as_str().into()), due)
        }
    };
    start_wait(draft, ix, wait);
    if let StepKind::Signal { name } = &define.kind {
        signal::deliver(draft, name);
    }
}

fn start_task(draft: &mut Draft<'_>, ix: StepIx) {
    let queue_due = queue_due(draft, ix);
    let (step, attempt) = (draft.head().plan.name(ix), draft.run(ix).attempt + 1);
    draft.push(Fact::StepStarted {
        step,
        attempt,
        queue_due,
        due: None,
        heartbeat_due: None,
    });
    policy::ask_again(draft, ix);
}

fn start_wait(draft: &mut Draft<'_>, ix: StepIx, (wait, due): (WaitFor, Option<Timestamp>)) {
    let (step, attempt) = (draft.head().plan.name(ix), draft.run(ix).attempt + 1);
    draft.push(Fact::StepWaiting {
        step,
        attempt,
        wait,
        due,
    });
}

/// When an attempt that a worker takes now times out, and when its worker has to send a heartbeat.
pub(super) fn limits(draft: &Draft<'_>, ix: StepIx) -> (Option<Timestamp>, Option<Timestamp>) {
    let define = draft.head().plan.define(ix);
    (
        after(draft, define.timeout),
        after(draft, define.heartbeat_timeout),
    )
}

/// When an attempt that waits for a worker from now on fails.
pub(super) fn queue_due(draft: &Draft<'_>, ix: StepIx) -> Option<Timestamp> {
    let plan = &draft.head().plan;
    let limit = plan.define(ix).queue_timeout;
    after(draft, limit.or(plan.definition().queue_timeout))
}

pub(super) fn after(draft: &Draft<'_>, by: Option<std::time::Duration>) -> Option<Timestamp> {
    by.map(|by| later(draft.now(), by))
}

/// Whether every reference of the attempt has a value, and its input keeps the limits.
fn check_data(draft: &Draft<'_>, ix: StepIx) -> Result<(), String> {
    let plan = &draft.head().plan;
    let define = plan.define(ix);
    // What a person gave for the step was checked when it came.
    if let (Some(template), None) = (&define.input, &draft.run(ix).given) {
        let most = match define.kind {
            StepKind::Workflow { .. } => plan.limits().payload_bytes,
            _ => plan.limits().task_bytes,
        };
        render(draft, template, most, None).map_err(|error| match error {
            RenderError::Missing(missing) => format!("`${{{missing}}}` has no value"),
            RenderError::Excess(excess) => {
                format!("the input of the step has {excess}: reference less data in `input`")
            }
        })?;
    }
    let request = request::of(draft, ix).map_err(|error| error.to_string());
    request.map(|_| ())
}

fn fail_to_start(draft: &mut Draft<'_>, ix: StepIx, message: String) {
    let failure = Failure::of(FailureCause::BadInput, ErrorCategory::Validation, message);
    fail(draft, ix, failure);
}

/// The attempt is opened and fails immediately, so that the log shows an attempt like any other.
fn fail(draft: &mut Draft<'_>, ix: StepIx, failure: Failure) {
    let (step, attempt) = (draft.head().plan.name(ix), draft.run(ix).attempt + 1);
    draft.push(Fact::StepStarted {
        step: Arc::clone(&step),
        attempt,
        queue_due: None,
        due: None,
        heartbeat_due: None,
    });
    draft.push(Fact::AttemptFailed {
        step,
        attempt,
        failure,
    });
}
