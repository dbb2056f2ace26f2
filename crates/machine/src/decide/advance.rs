//! What follows by itself, until something outside has to happen.

use serde_json::{Map, Value};

use super::{settle, start, undo};
use crate::ExecutionState;
use crate::event::{Data, Fact};
use crate::ledger::{Draft, Ledger as _};
use crate::scope::resolve;

/// Goes on as far as possible. Ends because each round settles, starts or undoes one step.
pub(super) fn advance(draft: &mut Draft<'_>) {
    loop {
        let head = draft.head();
        let moved = match head.state {
            state if state.is_active() => {
                if let Some(ix) = head.unsettled.first().copied() {
                    settle::settle(draft, ix);
                    true
                } else if let Some(ix) = head.ready.first().copied() {
                    start::start(draft, ix);
                    true
                } else {
                    complete(draft)
                }
            }
            ExecutionState::Compensating => undo::next(draft),
            _ => false,
        };
        if !moved {
            return;
        }
    }
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

/// The definition's `output`, or the outputs of the steps nobody depends on. A reference to the
/// output of a skipped step is `null`: the execution is over and has to answer something.
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
