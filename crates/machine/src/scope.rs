//! What references mean at this point of an execution.

use std::sync::Arc;

use serde_json::Value;
use stateway_definition::{Reference, Root};

use crate::event::Data;
use crate::ledger::Ledger;
use crate::plan::StepIx;

/// The value of a reference; nothing when there is none.
pub(crate) fn resolve(ledger: &impl Ledger, reference: &Reference) -> Option<Value> {
    let head = ledger.head();
    match &reference.root {
        Root::Input => reference.follow(&head.input).cloned(),
        Root::Output(step) => {
            let output = ledger.run(head.plan.find(step)?).output.as_deref()?;
            reference.follow(output).cloned()
        }
        Root::State(step) => {
            let state = ledger.run(head.plan.find(step)?).state;
            Some(Value::from(state.as_str()))
        }
        Root::ExecutionId => Some(Value::from(&*head.id)),
        // The event came before the execution; a definition that asks for it does not parse.
        Root::Event => None,
    }
}

/// What a step is given: what a person gave it, its own input, or the execution's.
pub(crate) fn input_of(ledger: &impl Ledger, ix: StepIx) -> Result<Data, Reference> {
    let head = ledger.head();
    if let Some(given) = &ledger.run(ix).given {
        return Ok(Arc::clone(given));
    }
    match &head.plan.define(ix).input {
        Some(template) => template
            .render(&|reference| resolve(ledger, reference))
            .map(Data::new),
        None => Ok(Arc::clone(&head.input)),
    }
}
