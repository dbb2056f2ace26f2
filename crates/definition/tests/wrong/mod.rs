//! The wrong definitions.

use stateway_definition::Rule;
use stateway_definition::limits::{MAX_FAN_OUT, MAX_STEPS};

const TWO: &str =
    "steps:\n  - {name: a, agent: w, timeout: 1m}\n  - {name: b, agent: w, timeout: 1m";

/// A rule and a source that breaks it.
pub(crate) fn cases() -> Vec<(Rule, String)> {
    let mut cases = Vec::new();
    let mut add = |rule: Rule, source: &str| cases.push((rule, source.to_owned()));
    let step = |fields: &str| {
        format!("steps:\n  - name: a\n    agent: w\n    timeout: 1m\n    {fields}\n")
    };
    add(Rule::Syntax, "steps: [{name: a");
    add(Rule::Syntax, "");
    add(Rule::Size, &format!("steps: {}", "[".repeat(200)));
    let references = "${input.x}".repeat(300);
    add(Rule::Size, &step(&format!("input: \"{references}\"")));
    add(Rule::YamlFeature, "steps: &all\n  - name: a\nother: *all\n");
    add(Rule::YamlFeature, "steps: !!set [{name: a}]\n");
    add(Rule::DuplicateKey, &step("timeout: 2m"));
    add(Rule::UnknownField, &step("dependOn: [b]"));
    add(Rule::MissingField, "spec:\n");
    add(
        Rule::MissingField,
        "steps:\n  - {name: , agent: w, timeout: 1m}\n",
    );
    add(
        Rule::MissingField,
        "steps:\n  - agent: w\n    timeout: 1m\n",
    );
    add(Rule::WrongType, "steps: 7\n");
    add(Rule::WrongType, "- name: a\n");
    add(Rule::UnknownWord, &step("onFailure: skipp"));
    add(Rule::OutOfRange, &step("retryPolicy: {maxRetries: -1}"));
    add(Rule::OutOfRange, &step("retryPolicy: {jitter: 2}"));
    add(
        Rule::BadDuration,
        "steps:\n  - {name: a, agent: w, timeout: 300}\n",
    );
    add(
        Rule::BadDuration,
        "steps:\n  - {name: a, agent: w, timeout: five minutes}\n",
    );
    add(
        Rule::BadName,
        "steps:\n  - {name: charge card!, agent: w, timeout: 1m}\n",
    );
    add(
        Rule::StepKind,
        "steps:\n  - name: a\n    sleep: 1m\n    signal: go\n",
    );
    add(
        Rule::StepKind,
        "steps:\n  - name: a\n    kind: approval\n    agent: w\n    timeout: 1m\n",
    );
    add(Rule::NoSteps, "steps: []\n");
    add(Rule::TooManySteps, &many(MAX_STEPS + 1, ""));
    add(Rule::FanOut, &many(MAX_FAN_OUT + 2, "dependsOn: [s0]"));
    add(
        Rule::DuplicateStep,
        &format!("{}}}\n  - {{name: a, agent: w, timeout: 1m}}\n", TWO),
    );
    add(
        Rule::UnknownDependency,
        &format!("{TWO}, dependsOn: [aa]}}\n"),
    );
    add(
        Rule::DuplicateDependency,
        &format!("{TWO}, dependsOn: [a, a]}}\n"),
    );
    add(Rule::Cycle, &cycle());
    add(Rule::NoRoot, &step("dependsOn: [a]"));
    add(Rule::Unreachable, &cycle());
    add(
        Rule::CompensationStep,
        &format!("{TWO}}}\ncompensation:\n  - {{step: charge}}\n"),
    );
    add(
        Rule::DuplicateCompensation,
        &format!("{TWO}}}\ncompensation:\n  - step: a\n  - step: a\n"),
    );
    add(
        Rule::UselessCompensation,
        &format!("{TWO}, readOnly: true}}\ncompensation:\n  - step: b\n"),
    );
    add(Rule::BadReference, &step("input: {id: \"${order.id}\"}"));
    add(
        Rule::UnknownReference,
        &step("input: \"${steps.z.output}\""),
    );
    add(
        Rule::NotUpstream,
        &format!("{TWO}, input: \"${{steps.a.output.id}}\"}}\n"),
    );
    let http = |fields: &str| {
        format!(
            "steps:\n  - name: a\n    timeout: 1m\n    http: {{url: \"https://x.example\", {fields}}}\n"
        )
    };
    add(Rule::BadHeader, &http("headers: {\"x api\": 1}"));
    add(Rule::BadHeader, &http("headers: {x-api: \"a\\r\\nb: c\"}"));
    add(Rule::BadName, &http("method: \"GE T\""));
    add(Rule::DuplicateKey, &http("headers: {x-api: 1, X-Api: 2}"));
    add(Rule::BadReference, &http("headers: {x-api: \"${order}\"}"));
    add(
        Rule::UnknownReference,
        &http("headers: {x-api: \"${steps.z.output}\"}"),
    );
    add(Rule::BadCondition, &step("when: total > 100"));
    let trigger = |fields: &str| format!("trigger: {{{fields}}}\n{TWO}}}\n");
    add(Rule::BadSchedule, &trigger("schedule: \"0 25 * * *\""));
    add(Rule::BadSchedule, &trigger("schedule: \"0 0 30 feb *\""));
    add(
        Rule::BadSchedule,
        &trigger("schedule: \"@daily\", timezone: Europe/Berlim"),
    );
    add(
        Rule::BadCondition,
        &trigger("event: e, condition: total is not zero"),
    );
    add(
        Rule::BadReference,
        &trigger("event: e, condition: \"${input.total} > 1\""),
    );
    add(Rule::BadReference, &step("input: \"${event.total}\""));
    add(Rule::Contradiction, &trigger("timezone: Europe/Berlin"));
    add(
        Rule::Contradiction,
        &trigger("schedule: \"@daily\", condition: \"${event.total} > 1\""),
    );
    add(Rule::OutOfRange, &format!("concurrency: 0\n{TWO}}}\n"));
    add(Rule::OutOfRange, &format!("concurrency: 100001\n{TWO}}}\n"));
    add(Rule::WrongType, &format!("concurrency: many\n{TWO}}}\n"));
    add(Rule::BadSchema, &step("outputSchema: {type: objekt}"));
    add(
        Rule::Contradiction,
        &step("retryPolicy: {initialDelay: 1m, maxDelay: 10s}"),
    );
    add(
        Rule::Contradiction,
        "steps:\n  - {name: a, sleep: 1m, heartbeatTimeout: 5s}\n",
    );
    add(
        Rule::Contradiction,
        "steps:\n  - name: a\n    sleep: 1m\n    timeout: 5s\n",
    );
    add(
        Rule::Contradiction,
        "steps:\n  - name: a\n    approval: {role: boss, expiresAfter: 1h}\n    timeout: 2h\n",
    );
    limits(&mut add, &step);
    add(
        Rule::RetryOfGovernance,
        &step("retryPolicy: {retryOn: [transient, governance]}"),
    );
    add(
        Rule::ApprovalByTimeout,
        "steps:\n  - name: a\n    approval: {role: boss, expiresAfter: 1h, onExpiry: approve}\n",
    );
    add(Rule::MissingTimeout, "steps:\n  - {name: a, agent: w}\n");
    add(Rule::MissingAgent, "steps:\n  - {name: a, timeout: 1m}\n");
    add(
        Rule::WaitsForItself,
        "name: order\nconcurrency: 2\nsteps:\n  - {name: again, workflow: order, timeout: 1h}\n",
    );
    add(Rule::ManySteps, &many(11, ""));
    cases
}

/// Queue timeouts, lost workers, budgets and escalations.
fn limits(add: &mut dyn FnMut(Rule, &str), step: &dyn Fn(&str) -> String) {
    let sleep = |field: &str| format!("steps:\n  - name: a\n    sleep: 1m\n    {field}\n");
    add(Rule::Contradiction, &sleep("queueTimeout: 1m"));
    add(Rule::StepKind, &sleep("maxHandOuts: 2"));
    add(Rule::StepKind, &sleep("maxCost: 2"));
    add(Rule::StepKind, &sleep("maxTokens: 2"));
    add(Rule::BadDuration, &step("queueTimeout: 60"));
    add(Rule::OutOfRange, &step("maxHandOuts: 0"));
    add(Rule::OutOfRange, &step("maxHandOuts: 101"));
    add(Rule::Contradiction, &step("then: escalate"));
    add(
        Rule::Contradiction,
        &format!(
            "failurePolicy: compensate\n{}",
            step("onFailure: skip\n    then: escalate")
        ),
    );
    add(
        Rule::UnknownWord,
        &step("onFailure: compensate\n    then: pause"),
    );
    add(Rule::MissingField, &step("escalation: {}"));
    add(
        Rule::UnknownField,
        &step("escalation: {role: ops, after: 1h}"),
    );
    for wrong in ["0", "-1", "0.0000001", "1000000000.5"] {
        add(Rule::OutOfRange, &step(&format!("maxCost: {wrong}")));
    }
    add(Rule::WrongType, &step("maxCost: 10 EUR"));
    add(Rule::OutOfRange, &step("maxTokens: 0"));
    add(Rule::OutOfRange, &step("maxTokens: 1.5"));
    add(
        Rule::Contradiction,
        "steps:\n  - {name: a, agent: w, heartbeatTimeout: 5s, onTimeout: escalate}\n",
    );
}

fn many(count: usize, more: &str) -> String {
    let comma = if more.is_empty() { "" } else { ", " };
    let mut text = "steps:\n  - {name: s0, agent: w, timeout: 1m}\n".to_owned();
    for n in 1..count {
        text.push_str(&format!(
            "  - {{name: s{n}, agent: w, timeout: 1m{comma}{more}}}\n"
        ));
    }
    text
}

fn cycle() -> String {
    [
        ("root", ""),
        ("a", "root, c"),
        ("b", "a"),
        ("c", "b"),
        ("after", "c"),
    ]
    .iter()
    .fold("steps:\n".to_owned(), |text, (name, on)| {
        format!("{text}  - {{name: {name}, agent: w, timeout: 1m, dependsOn: [{on}]}}\n")
    })
}
