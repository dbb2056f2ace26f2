//! What follows by itself, until something outside has to happen.

use serde_json::{Map, Value};

use super::{cancel, settle, start, undo};
use crate::ExecutionState;
use crate::event::{Data, Fact};
use crate::ledger::{Draft, Ledger as _};
use crate::plan::StepIx;
use crate::scope::resolve;

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
            ExecutionState::Compensating => undo::next(draft),
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
    let output = output(draft);
    draft.push(Fact::ExecutionCompleted { output });
    false
}

/// The definition's `output`, or the outputs of the steps that no step depends on. A reference to
/// the output of a skipped step is `null`: the execution has ended and needs an output.
fn output(draft: &Draft<'_>) -> Data {
    let plan = &draft.head().plan;
    if let Some(template) = &plan.definition().output {
        let rendered =
            template.render(&|reference| Some(resolve(draft, reference).unwrap_or(Value::Null)));
        return Data::new(rendered.unwrap_or(Value::Null));
    }
    let leaves = plan.steps().filter(|(_, step)| step.dependants.is_empty());
    let outputs: Map<String, Value> = leaves
        .filter_map(|(ix, step)| {
            let output = draft.run(ix).output.as_deref()?;
            Some((step.name.to_string(), output.clone()))
        })
        .collect();
    Data::new(Value::Object(outputs))
}
