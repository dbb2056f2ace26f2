//! Resolves references such as `${steps.a.output}` in the present state.

use std::cell::RefCell;
use std::sync::Arc;

use serde_json::Value;
use stateway_definition::{Reference, Root, Template};

use crate::event::Data;
use crate::ledger::Ledger;
use crate::limits::{Excess, check_payload};
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

/// Why a template gives no payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RenderError {
    /// A reference has no value.
    Missing(Reference),
    /// The result exceeds a limit.
    Excess(Excess),
}

/// Renders a template to a payload of at most this many bytes. `missing` stands for references without a
/// value, where they may have none.
pub(crate) fn render(
    ledger: &impl Ledger,
    template: &Template,
    most: usize,
    missing: Option<&Value>,
) -> Result<Data, RenderError> {
    // A template may name a large value many times: values past the limit are not even copied.
    let budget = RefCell::new(Budget::of(most));
    let excess = RefCell::new(None);
    let resolved = |reference: &Reference| {
        let value = resolve(ledger, reference).or_else(|| missing.cloned())?;
        match budget.borrow_mut().take(&value) {
            Ok(()) => Some(value),
            Err(error) => {
                *excess.borrow_mut() = Some(error);
                Some(Value::Null)
            }
        }
    };
    let rendered = template.render(&resolved).map_err(RenderError::Missing)?;
    if let Some(excess) = excess.into_inner() {
        return Err(RenderError::Excess(excess));
    }
    check_payload(&rendered, most).map_err(RenderError::Excess)?;
    Ok(Data::new(rendered))
}

/// The bytes that values may still have together.
pub(crate) struct Budget {
    left: usize,
    most: usize,
}

impl Budget {
    pub(crate) const fn of(most: usize) -> Self {
        Self { left: most, most }
    }

    /// Takes the bytes of a value, as far as they are left.
    pub(crate) fn take(&mut self, value: &Value) -> Result<(), Excess> {
        let taken = check_payload(value, self.left);
        match taken {
            Ok(bytes) => {
                self.left -= bytes;
                Ok(())
            }
            Err(Excess::Bytes { found, .. }) => {
                let found = self.most - self.left + found;
                self.left = 0;
                let most = self.most;
                Err(Excess::Bytes { found, most })
            }
            Err(deep) => Err(deep),
        }
    }
}
