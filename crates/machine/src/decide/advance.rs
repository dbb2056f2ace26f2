//! Starts steps and ends the execution, until an external event is needed.

use serde_json::{Map, Value};
use stateway_model::Reason;

use super::{cancel, compensation, settle, start};
use crate::ExecutionState;
use crate::event::{Data, Fact, TurnCause};
use crate::ledger::{Draft, Ledger as _};
use crate::limits::{Excess, check_payload};
use crate::plan::StepIx;
use crate::scope::{Budget, RenderError, render};

/// Advances as far as possible. Ends because each round settles, starts or compensates one step.
pub(super) fn advance(draft: &mut Draft<'_>) {
    loop {
        let head = draft.head();
        let moved = match head.state {
            state if state.is_active() => {
                if let Some(ix) = head.unsettled.first().copied() {
                    draft.caused_by(draft.run(ix).last_event);
                    settle::settle(draft, ix);
                    true
                } else if let Some(ix) = head.ready.first().copied() {
                    draft.caused_by(readied_by(draft, ix));
                    start::start(draft, ix);
                    true
                } else {
                    complete(draft)
                }
            }
            ExecutionState::Compensating => compensation::next(draft),
            ExecutionState::Cancelling => cancel::finish(draft),
            _ => false,
        };
        if !moved {
            return;
        }
    }
}

/// The event that made a step ready: its last dependency to settle, or the first event of this
/// command where that is newer, as when an execution is started or resumed.
fn readied_by(draft: &Draft<'_>, ix: StepIx) -> u64 {
    let plan = &draft.head().plan;
    let dependencies = plan.define(ix).depends_on.iter();
    let settled = dependencies
        .filter_map(|name| plan.find(name))
        .map(|dependency| draft.run(dependency).last_event);
    settled.chain(draft.first()).max().unwrap_or(0)
}

fn complete(draft: &mut Draft<'_>) -> bool {
    let head = draft.head();
    if head.left > 0 || !head.open.is_empty() {
        return false;
    }
    match output(draft) {
        Ok(output) => {
            draft.push(Fact::ExecutionCompleted { output });
            false
        }
        Err(excess) => refuse(draft, &excess),
    }
}

/// An output that no event may hold fails the execution, and the failure policy follows. Whether
/// something follows by itself.
fn refuse(draft: &mut Draft<'_>, excess: &Excess) -> bool {
    let remedy = "reference less data in `output`, or have the steps return references";
    let message = format!("the output of the execution has {excess}: {remedy}").into();
    if cancel::compensates(draft) {
        draft.push(Fact::CompensationStarted {
            cause: TurnCause::OutputTooLarge,
            message,
            awaited: Vec::new(),
        });
        return true;
    }
    let left = compensation::left_behind(draft);
    draft.push(Fact::ExecutionFailed {
        step: None,
        reason: Reason::NotRetryable,
        message,
        left,
    });
    false
}

/// The definition's `output`, or the outputs of the steps that no step depends on. A reference to
/// the output of a skipped step is `null`: the execution has ended and needs an output.
fn output(draft: &Draft<'_>) -> Result<Data, Excess> {
    let plan = &draft.head().plan;
    let most = plan.limits().payload_bytes;
    if let Some(template) = &plan.definition().output {
        return match render(draft, template, most, Some(&Value::Null)) {
            Ok(rendered) => Ok(rendered),
            Err(RenderError::Missing(_)) => Ok(Data::default()),
            Err(RenderError::Excess(excess)) => Err(excess),
        };
    }
    let leaves = plan.steps().filter(|(_, step)| step.dependants.is_empty());
    let outputs = leaves.filter_map(|(ix, step)| Some((step, draft.run(ix).output.as_deref()?)));
    let mut budget = Budget::of(most);
    let mut collected = Map::new();
    for (step, output) in outputs {
        budget.take(output)?;
        collected.insert(step.name.to_string(), output.clone());
    }
    let output = Value::Object(collected);
    check_payload(&output, most)?;
    Ok(Data::new(output))
}
