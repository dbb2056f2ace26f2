//! What of a definition a host cannot do, computed from the definition.

use stateway_definition::{Definition, StepKind};
use stateway_provider_api::{Portability, PortabilityVerdict};

/// Why a host cannot run a definition at all; empty when it can.
#[must_use]
pub fn impossible(definition: &Definition) -> Vec<String> {
    let steps = definition.steps.iter();
    let mut reasons: Vec<String> = steps
        .filter_map(|step| {
            let name = &step.name;
            match &step.kind {
                StepKind::Http { .. } => Some(format!(
                    "step `{name}` is of kind `http`: a host does not call URLs yet"
                )),
                StepKind::Workflow { .. } => Some(format!(
                    "step `{name}` is of kind `workflow`: a host does not start children yet"
                )),
                StepKind::Approval(_) => Some(format!(
                    "step `{name}` is of kind `approval`: a host has no inbox of approvals yet"
                )),
                StepKind::Task { .. } | StepKind::Sleep { .. } | StepKind::Signal { .. } => None,
            }
        })
        .collect();
    if definition.concurrency.is_some() {
        reasons
            .push("`concurrency` is set: a host has no limit of concurrent executions yet".into());
    }
    reasons
}

/// What a host does differently from what is written; empty when nothing.
#[must_use]
pub fn differences(definition: &Definition) -> Vec<String> {
    let trigger = definition.trigger.as_ref();
    let trigger = trigger.map(|_| {
        "`trigger` starts no executions here: a host has no schedules and events yet".to_owned()
    });
    trigger.into_iter().collect()
}

/// The report about a definition.
#[must_use]
pub fn report(definition: &Definition) -> Portability {
    let (impossible, differences) = (impossible(definition), differences(definition));
    let verdict = if !impossible.is_empty() {
        PortabilityVerdict::Impossible
    } else if differences.is_empty() {
        PortabilityVerdict::Exact
    } else {
        PortabilityVerdict::Emulated
    };
    Portability {
        verdict,
        reasons: impossible.into_iter().chain(differences).collect(),
    }
}
