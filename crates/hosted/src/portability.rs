//! What of a definition a host cannot do, computed from the definition.

use stateway_definition::{Definition, StepKind};
use stateway_provider_api::{Portability, PortabilityVerdict};

/// Why a host cannot run a definition at all; empty when it can.
#[must_use]
pub fn impossible(definition: &Definition) -> Vec<String> {
    let concurrency = definition.concurrency.map(|_| {
        "`concurrency` is set: a host has no limit of concurrent executions yet".to_owned()
    });
    concurrency.into_iter().collect()
}

/// Why a gateway that makes no HTTP calls cannot run a definition; empty when it can.
#[must_use]
pub fn without_http(definition: &Definition) -> Vec<String> {
    let steps = definition.steps.iter();
    let http = steps.filter(|step| matches!(step.kind, StepKind::Http { .. }));
    let http = http.map(|step| {
        format!(
            "step `{}` is of kind `http`: the provider may call no address (`http.allow` is empty)",
            step.name
        )
    });
    http.collect()
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

/// The report about a definition, for a gateway that makes HTTP calls or does not.
#[must_use]
pub fn report(definition: &Definition, calls_http: bool) -> Portability {
    let (mut impossible, differences) = (impossible(definition), differences(definition));
    if !calls_http {
        impossible.extend(without_http(definition));
    }
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

    fn reported(steps: &str, calls_http: bool) -> (PortabilityVerdict, Vec<String>) {
        let source = format!("name: test\n{steps}");
        let parsed = stateway_definition::parse(&source, "test.yaml").unwrap();
        let found = report(&parsed.definition, calls_http);
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
                "step `a` is of kind `http`: the provider may call no address (`http.allow` is empty)",
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
            let (found, reasons) = reported(steps, false);
            assert_eq!(found, verdict, "{steps}");
            let wanted: &[&str] = if reason.is_empty() { &[] } else { &[reason] };
            assert_eq!(reasons, wanted, "{steps}");
        }
        let http =
            "steps: [{name: a, http: {method: GET, url: 'https://example.com'}, timeout: 1m}]";
        assert_eq!(reported(http, true), (Exact, Vec::new()));
    }
}
