//! Every sentence of the report, with a definition that causes it.

use std::collections::BTreeSet;
use std::time::Duration;

use stateway_machine::Data;

use super::*;

const ALL: HostAbilities = HostAbilities {
    http: true,
    schedules: true,
    limits: EngineLimits {
        engine: "",
        source_bytes: None,
        stored_bytes: None,
        stores_messages: false,
        state_bytes: None,
        log_bytes: None,
        runs: None,
    },
    pace: Pace {
        lease: Duration::from_secs(30),
        renew: Duration::from_secs(10),
    },
};

/// An engine whose numbers are easy to exceed.
fn small() -> HostAbilities {
    HostAbilities {
        limits: EngineLimits {
            engine: "Step Functions",
            source_bytes: Some(3_000),
            stored_bytes: Some(7_000),
            stores_messages: true,
            state_bytes: Some(1_000),
            log_bytes: Some(1_000_000),
            runs: Some(RunLimits {
                run: "execution",
                requests: 3_000,
                events: 25_000,
                days: Some((300, 365)),
            }),
        },
        pace: Pace {
            lease: Duration::from_mins(10),
            renew: Duration::from_mins(4),
        },
        ..ALL
    }
}

fn found(source: &str, can: &HostAbilities) -> (Portability, BTreeSet<&'static str>) {
    let parsed = stateway_definition::parse(source, "test.yaml").unwrap();
    let names = sentences((&parsed.definition, source), can);
    let names = names.iter().map(Sentence::name).collect();
    (report((&parsed.definition, source), can), names)
}

fn named(rest: &str) -> String {
    format!("name: test\n{rest}")
}

/// A definition, what the engine can, and the only sentence about it.
struct Case {
    source: String,
    can: HostAbilities,
    verdict: PortabilityVerdict,
    sentence: String,
}

fn case(rest: &str, can: HostAbilities, verdict: PortabilityVerdict, sentence: &str) -> Case {
    Case {
        source: named(rest),
        can,
        verdict,
        sentence: sentence.to_owned(),
    }
}

/// A comment that makes a source longer.
fn padded(steps: &str, bytes: usize) -> String {
    format!("{steps}\n# {}", "x".repeat(bytes))
}

fn cases() -> Vec<Case> {
    use PortabilityVerdict::{Emulated, Exact, Impossible};
    let sleep = "steps: [{name: a, sleep: 5s}]";
    let long = named(&padded(sleep, 3_000));
    let mut wide = small();
    (wide.limits.source_bytes, wide.limits.stored_bytes) = (None, Some(2_000));
    let at_start = wide.limits.first_bytes(&named(sleep), Data::default());
    let at_start = at_start.unwrap();
    wide.limits.stored_bytes = Some(at_start - 1);
    let child = format!(
        "steps: [{{name: sub, workflow: other, timeout: 10s, input: {{text: {}}}}}]",
        "x".repeat(2_500)
    );
    let literal = serde_json::json!({ "text": "x".repeat(2_500) });
    let smallest = "name: a\nsteps: [{name: a, sleep: 1s}]";
    let mut narrow = small();
    let at_child = narrow.limits.first_bytes(smallest, Data::new(literal));
    let at_child = at_child.unwrap();
    narrow.limits.stored_bytes = Some(at_child - 1);
    let schema = |bounds: &str| {
        format!(
            "outputSchema: {{type: object, required: [text], properties: {{text: {{type: string, {bounds}}}}}}}"
        )
    };
    let writes = |name: &str, bounds: &str, more: &str| {
        let schema = schema(bounds);
        format!("{{name: {name}, agent: x, timeout: 10s{more}, {schema}}}")
    };
    vec![
        case(
            "concurrency: 2\nsteps: [{name: a, sleep: 5s}]",
            ALL,
            Impossible,
            "`concurrency` is set: a host has no limit of concurrent executions yet",
        ),
        case(
            "steps: [{name: a, http: {method: GET, url: 'https://example.com'}, timeout: 10s}]",
            HostAbilities { http: false, ..ALL },
            Impossible,
            "step `a` is of kind `http`: the provider may call no address (`http.allow` is empty)",
        ),
        case(
            &padded(sleep, 3_000),
            small(),
            Impossible,
            &format!(
                "the definition has {} bytes: Step Functions stores at most 3000 bytes of it",
                long.len()
            ),
        ),
        case(
            sleep,
            wide,
            Impossible,
            &format!(
                "an execution stores {at_start} bytes when it starts, without its input: Step Functions stores at most {}",
                at_start - 1
            ),
        ),
        case(
            &child,
            narrow,
            Impossible,
            &format!(
                "step `sub`: its child stores {at_child} bytes when it starts with the literal `input`: Step Functions stores at most {}",
                at_child - 1
            ),
        ),
        case(
            &format!(
                "steps: [{}, {}]",
                writes("a", "minLength: 600", ""),
                writes("b", "minLength: 700", ", dependsOn: [a]")
            ),
            small(),
            Impossible,
            "steps `b`, `a`: `outputSchema` requires outputs of 1300 bytes or more: Step Functions stores at most 1000 bytes of an execution",
        ),
        case(
            &format!("steps: [{}]", writes("a", "maxLength: 5000", "")),
            small(),
            Emulated,
            "step `a`: `outputSchema` allows outputs of 5000 bytes: Step Functions stores at most 1000 bytes of an execution and refuses a larger result (`EXECUTION_TOO_LARGE`)",
        ),
        case(
            "steps: [{name: a, workflow: other, timeout: 10s, retryPolicy: {maxRetries: 2999, backoff: constant, initialDelay: 1s}}]",
            HostAbilities {
                limits: EngineLimits {
                    runs: None,
                    ..small().limits
                },
                ..small()
            },
            Emulated,
            "step `a`: the retries allow 3000 attempts, whose events can have 1200000 bytes: Step Functions stores at most 1000000 bytes of the events of an execution",
        ),
        case(
            "trigger: {schedule: '@daily'}\nsteps: [{name: a, sleep: 5s}]",
            HostAbilities {
                schedules: false,
                ..ALL
            },
            Emulated,
            "`trigger.schedule` starts no executions here: this engine has no schedules",
        ),
        case(
            "steps: [{name: a, sleep: 5s}, {name: b, agent: x, timeout: 10s, retryPolicy: {maxRetries: 1000, backoff: constant, initialDelay: 1s}}]",
            small(),
            Exact,
            "steps `b`, `a`: an execution can need 3004 requests; after 3000 it continues in another execution, so that the limit of 25000 events of Step Functions does not end it",
        ),
        case(
            "steps: [{name: a, sleep: 9600h}]",
            small(),
            Exact,
            "step `a` can take 400 days: after 300 days the execution continues in another execution, so that the limit of 365 days of Step Functions does not end it",
        ),
        case(
            "steps: [{name: a, agent: x, timeout: 1m}, {name: b, agent: x, timeout: 1m, heartbeatTimeout: 30s}, {name: c, agent: x, timeout: 20s}]",
            small(),
            Exact,
            "step `a`: if a worker and its gateway end at the same time, another worker gets the task after 600 s, or the `timeout` of the step ends the attempt before; a `heartbeatTimeout` shortens this time",
        ),
    ]
}

#[test]
fn every_sentence_of_the_report_follows_from_a_definition() {
    let mut printed = BTreeSet::new();
    for case in cases() {
        let (report, names) = found(&case.source, &case.can);
        assert_eq!(report.reasons, [case.sentence], "{}", case.source);
        assert_eq!(report.verdict, case.verdict, "{}", case.source);
        printed.extend(names);
    }
    // A sentence that is new here needs a case above.
    let all: BTreeSet<_> = Sentence::NAMES.iter().copied().collect();
    assert_eq!(printed, all);
}

#[test]
fn a_start_is_refused_by_what_the_report_calls_impossible() {
    for case in cases() {
        let parsed = stateway_definition::parse(&case.source, "test.yaml").unwrap();
        let refused = obstacles((&parsed.definition, &case.source), &case.can);
        let is_impossible = case.verdict == PortabilityVerdict::Impossible;
        assert_eq!(!refused.is_empty(), is_impossible, "{}", case.source);
        if is_impossible {
            assert_eq!(refused, [case.sentence]);
        }
    }
}

#[test]
fn a_definition_without_such_a_property_is_exact_without_a_sentence() {
    for rest in [
        "steps: [{name: a, agent: x, timeout: 10s}]",
        "steps: [{name: a, sleep: 5s}]",
        "steps: [{name: a, signal: go, timeout: 1m}]",
        "steps: [{name: a, workflow: other, timeout: 1m, input: {n: '${input.n}'}}]",
        "steps: [{name: a, approval: {role: boss, expiresAfter: 1h}}]",
        "steps: [{name: a, agent: x, timeout: 10s, onFailure: escalate}]",
        "trigger: {event: order.placed}\nsteps: [{name: a, sleep: 5s}]",
        "trigger: {schedule: '@daily'}\nsteps: [{name: a, sleep: 5s}]",
        "steps: [{name: a, http: {method: GET, url: 'https://example.com'}, timeout: 1m}]",
        "steps: [{name: a, agent: x, timeout: 10s, outputSchema: {type: string, maxLength: 500}}]",
        "steps: [{name: a, agent: x, timeout: 10s, outputSchema: {type: object}}]",
    ] {
        let (report, names) = found(&named(rest), &small());
        assert_eq!(
            (report.verdict, report.reasons),
            (PortabilityVerdict::Exact, Vec::new()),
            "{rest}"
        );
        assert!(names.is_empty());
    }
}

#[test]
fn an_output_that_may_be_missing_does_not_make_a_definition_impossible() {
    let schema = "outputSchema: {type: string, minLength: 2000}";
    for more in ["when: '${input.n} > 1'", "onFailure: skip"] {
        let step = format!("{{name: a, agent: x, timeout: 10s, {more}, {schema}}}");
        let after = format!("{{name: b, agent: x, timeout: 10s, dependsOn: [a], {schema}}}");
        let (report, names) = found(&named(&format!("steps: [{step}, {after}]")), &small());
        assert_ne!(report.verdict, PortabilityVerdict::Impossible, "{more}");
        assert!(!names.contains("LeastOutput"), "{more}");
    }
}

/// Started children are a part of the first request on an engine that stores messages in it.
#[test]
fn the_starts_of_children_count_where_they_are_stored() {
    let source = named("steps: [{name: a, workflow: other, timeout: 1m, input: {n: 1}}]");
    let bytes = |can: &HostAbilities| can.limits.first_bytes(&source, Data::default()).unwrap();
    assert!(bytes(&small()) > bytes(&ALL) + 100);
}
