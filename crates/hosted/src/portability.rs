//! What of a definition a host cannot do, computed from the definition.

use stateway_definition::{Definition, StepKind};
use stateway_machine::Data;
use stateway_model::Labels;
use stateway_provider_api::{Portability, PortabilityVerdict};

use crate::Plans;
use crate::message::{ObjectRequest, StartWork, VERSION, Work};
use crate::object::{Write, handle};

/// The limits of one engine that a definition alone can exceed. The default is an engine without them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineLimits {
    /// The engine, for people.
    pub engine: &'static str,
    /// The most bytes of a definition's source.
    pub source_bytes: Option<usize>,
    /// The most bytes that one request may store of an execution: the state, the view, the new events and, with
    /// the first request, the source.
    pub stored_bytes: Option<usize>,
}

impl EngineLimits {
    /// Why the engine cannot store a definition or its executions; empty when it can.
    #[must_use]
    pub fn exceeded(&self, source: &str) -> Vec<String> {
        let engine = self.engine;
        let (bytes, mut found) = (source.len(), Vec::new());
        if let Some(most) = self.source_bytes.filter(|most| bytes > *most) {
            found.push(format!(
                "the definition has {bytes} bytes: {engine} stores at most {most} bytes of it"
            ));
        }
        if let Some(most) = self.stored_bytes
            && let Some(bytes) = first_bytes(source)
            && bytes > most
        {
            found.push(format!(
                "an execution stores {bytes} bytes when it starts, without its input: {engine} stores at most {most}"
            ));
        }
        found
    }
}

/// The bytes that an execution stores when it starts with the input `null`; none for a source that is wrong.
fn first_bytes(source: &str) -> Option<usize> {
    let start = StartWork {
        definition: "".into(),
        source: source.into(),
        labels: Labels::new(),
        not_before: None,
        input: Data::default(),
        by: "".into(),
        child: None,
    };
    let request = ObjectRequest {
        v: VERSION,
        id: "report".into(),
        at: jiff::Timestamp::UNIX_EPOCH,
        body: None,
        work: Work::Start(Box::new(start)),
        claim: None,
    };
    let request = serde_json::to_vec(&request).ok()?;
    let turn = handle("report", &request, &mut |_| Ok(None), &Plans::default()).ok()?;
    let sizes = turn.writes.iter().map(|write| match write {
        Write::Set { key, value } => key.len() + value.len(),
        Write::ClearAll => 0,
    });
    Some(sizes.sum::<usize>()).filter(|bytes| *bytes > 0)
}

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
pub fn differences(definition: &Definition, can: HostAbilities) -> Vec<String> {
    let trigger = definition.trigger.as_ref();
    let schedule = trigger.and_then(|trigger| trigger.schedule.as_ref());
    let schedule = schedule.filter(|_| !can.schedules).map(|_| {
        "`trigger.schedule` starts no executions here: this engine has no schedules".to_owned()
    });
    schedule.into_iter().collect()
}

/// What depends on the engine and on the settings of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostAbilities {
    /// Whether the gateway makes HTTP calls.
    pub http: bool,
    /// Whether schedules start executions.
    pub schedules: bool,
}

/// The report about a definition, on an engine with these abilities and limits.
#[must_use]
pub fn report(
    (definition, source): (&Definition, &str),
    can: HostAbilities,
    limits: &EngineLimits,
) -> Portability {
    let (mut impossible, differences) = (impossible(definition), differences(definition, can));
    impossible.extend(limits.exceeded(source));
    if !can.http {
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

    const NOTHING: HostAbilities = HostAbilities {
        http: false,
        schedules: false,
    };
    const ALL: HostAbilities = HostAbilities {
        http: true,
        schedules: true,
    };

    fn reported(steps: &str, can: HostAbilities) -> (PortabilityVerdict, Vec<String>) {
        let source = format!("name: test\n{steps}");
        let parsed = stateway_definition::parse(&source, "test.yaml").unwrap();
        let limits = EngineLimits::default();
        let found = report((&parsed.definition, &source), can, &limits);
        (found.verdict, found.reasons)
    }

    const SCHEDULED: &str = "trigger: {schedule: '@daily'}\nsteps: [{name: a, sleep: 5s}]";

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
                Exact,
                "",
            ),
            (
                SCHEDULED,
                Emulated,
                "`trigger.schedule` starts no executions here: this engine has no schedules",
            ),
        ] {
            let (found, reasons) = reported(steps, NOTHING);
            assert_eq!(found, verdict, "{steps}");
            let wanted: &[&str] = if reason.is_empty() { &[] } else { &[reason] };
            assert_eq!(reasons, wanted, "{steps}");
        }
        let http =
            "steps: [{name: a, http: {method: GET, url: 'https://example.com'}, timeout: 1m}]";
        for steps in [http, SCHEDULED] {
            assert_eq!(reported(steps, ALL), (Exact, Vec::new()));
        }
    }

    #[test]
    fn limits_of_an_engine_are_compared_with_the_definition() {
        let source = "name: test\nsteps: [{name: a, sleep: 5s}]";
        let parsed = stateway_definition::parse(source, "test.yaml").unwrap();
        let definition = (&parsed.definition, source);
        let bytes = first_bytes(source).unwrap();
        let roomy = EngineLimits {
            engine: "Step Functions",
            source_bytes: Some(source.len()),
            stored_bytes: Some(bytes),
        };
        let found = report(definition, NOTHING, &roomy);
        assert_eq!(found.verdict, PortabilityVerdict::Exact);
        let tight = EngineLimits {
            source_bytes: Some(10),
            stored_bytes: Some(bytes - 1),
            ..roomy
        };
        let found = report(definition, NOTHING, &tight);
        assert_eq!(found.verdict, PortabilityVerdict::Impossible);
        assert_eq!(
            found.reasons,
            [
                format!(
                    "the definition has {} bytes: Step Functions stores at most 10 bytes of it",
                    source.len()
                ),
                format!(
                    "an execution stores {bytes} bytes when it starts, without its input: Step Functions stores at most {}",
                    bytes - 1
                ),
            ]
        );
    }
}
