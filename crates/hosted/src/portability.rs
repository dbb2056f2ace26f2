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
                StepKind::Task { .. }
                | StepKind::Sleep { .. }
                | StepKind::Signal { .. }
                | StepKind::Approval(_)
                | StepKind::Workflow { .. } => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(steps: &str) -> (PortabilityVerdict, Vec<String>) {
        let source = format!("name: test\n{steps}");
        let parsed = stateway_definition::parse(&source, "test.yaml").unwrap();
        let found = report(&parsed.definition);
        (found.verdict, found.reasons)
    }

    #[test]
    fn every_sentence_of_the_report_follows_from_the_definition() {
        use PortabilityVerdict::{Emulated, Exact, Impossible};
        for (steps, verdict, reason) in [
            ("steps: [{name: a, agent: x, timeout: 1m}]", Exact, ""),
            ("steps: [{name: a, sleep: 5s}]", Exact, ""),
            ("steps: [{name: a, signal: go, timeout: 1m}]", Exact, ""),
            (
                "steps: [{name: a, workflow: other, timeout: 1m}]",
                Exact,
                "",
            ),
            (
                "steps: [{name: a, approval: {role: boss, expiresAfter: 1h}}]",
                Exact,
                "",
            ),
            (
                "steps: [{name: a, agent: x, timeout: 1m, onFailure: escalate}]",
                Exact,
                "",
            ),
            (
                "steps: [{name: a, http: {method: GET, url: 'https://example.com'}, timeout: 1m}]",
                Impossible,
                "step `a` is of kind `http`: a host does not call URLs yet",
            ),
            (
                "concurrency: 2\nsteps: [{name: a, sleep: 5s}]",
                Impossible,
                "`concurrency` is set: a host has no limit of concurrent executions yet",
            ),
            (
                "trigger: {event: order.placed}\nsteps: [{name: a, sleep: 5s}]",
                Emulated,
                "`trigger` starts no executions here: a host has no schedules and events yet",
            ),
        ] {
            let (found, reasons) = reported(steps);
            assert_eq!(found, verdict, "{steps}");
            let wanted: &[&str] = if reason.is_empty() { &[] } else { &[reason] };
            assert_eq!(reasons, wanted, "{steps}");
        }
    }
}
