//! Queue timeouts, lost workers, budgets, escalation roles: how they are read, and that definitions
//! without them keep their revision.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::time::Duration;

use stateway_definition::{Budget, Definition, Escalation, Revision, Then, conflicts, parse};

const COMPENSATION: &str = include_str!("examples/compensation.yaml");
const EVERY_KIND: &str = include_str!("examples/every-kind.yaml");
const LIMITS: &str = include_str!("examples/limits.yaml");
const ORDER_SAGA: &str = include_str!("../../../examples/order-saga/order-saga.yaml");

fn read(text: &str) -> Definition {
    parse(text, "limits.yaml")
        .unwrap_or_else(|invalid| panic!("{invalid}"))
        .definition
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn every_limit_is_read() {
    let definition = read(LIMITS);
    let role = |role: &str| {
        Some(Escalation {
            role: role.to_owned(),
        })
    };
    assert_eq!(definition.queue_timeout, Some(15 * MINUTE));
    assert_eq!(definition.escalation, role("operations"));
    assert_eq!(
        definition.budget,
        Budget {
            max_cost_micros: Some(12_500_000),
            max_tokens: Some(200_000),
        }
    );
    let step = definition.step("draft").unwrap();
    assert_eq!(step.queue_timeout, Some(5 * MINUTE));
    assert_eq!(step.max_hand_outs, Some(5));
    assert_eq!(step.then, Some(Then::Escalate));
    assert_eq!(step.escalation, role("editors"));
    assert_eq!(
        step.budget,
        Budget {
            max_cost_micros: Some(1),
            max_tokens: Some(50_000),
        }
    );
    let call = definition.step("publish").unwrap();
    assert_eq!(call.queue_timeout, Some(MINUTE));
    let compensation = definition.compensation_of("draft").unwrap();
    assert_eq!(compensation.queue_timeout, Some(60 * MINUTE));
    assert!(!compensation.compensate_unknown);
}

#[test]
fn snake_case_means_the_same() {
    let mut snake = LIMITS.to_owned();
    for (camel, other) in [
        ("queueTimeout", "queue_timeout"),
        ("maxHandOuts", "max_hand_outs"),
        ("maxCost", "max_cost"),
        ("maxTokens", "max_tokens"),
        ("compensateUnknown", "compensate_unknown"),
    ] {
        assert!(snake.contains(camel), "{camel}");
        snake = snake.replace(camel, other);
    }
    assert_eq!(read(&snake), read(LIMITS));
}

#[test]
fn a_definition_with_limits_survives_its_own_serialisation() {
    let definition = read(LIMITS);
    let text = serde_json::to_string(&definition).unwrap();
    let back: Definition = serde_json::from_str(&text).unwrap();
    assert_eq!(back, definition);
    assert_eq!(Revision::of(&back), Revision::of(&definition));
}

#[test]
fn the_revision_of_a_definition_without_limits_is_unchanged() {
    for (source, revision) in [
        (COMPENSATION, "0140047a632f"),
        (EVERY_KIND, "db4d6776d79c"),
        (ORDER_SAGA, "ec7adba9f50f"),
    ] {
        assert_eq!(Revision::of(&read(source)).short(), revision);
    }
}

#[test]
fn a_default_that_is_written_out_has_no_part_in_the_revision() {
    let silent = read("steps: [{name: a}]\ncompensation: [{step: a}]");
    let spoken = read("steps: [{name: a}]\ncompensation: [{step: a, compensateUnknown: true}]");
    assert_eq!(Revision::of(&silent), Revision::of(&spoken));
}

#[test]
fn each_limit_is_part_of_the_revision() {
    let plain = Revision::of(&read("steps: [{name: a, onFailure: compensate}]"));
    for fields in [
        "queueTimeout: 1m",
        "maxHandOuts: 2",
        "then: escalate",
        "escalation: {role: ops}",
        "maxCost: 0.5",
        "maxTokens: 5",
    ] {
        let source = format!("steps: [{{name: a, onFailure: compensate, {fields}}}]");
        assert_ne!(Revision::of(&read(&source)), plain, "{fields}");
    }
}

#[test]
fn then_follows_the_workflow_policy_where_the_step_has_none() {
    let definition = read("failurePolicy: compensate\nsteps: [{name: a, then: escalate}]");
    assert_eq!(definition.steps[0].then, Some(Then::Escalate));
}

#[test]
fn a_changed_limit_of_a_step_that_has_begun_is_a_conflict() {
    let begun = |_: &str| true;
    let old = read("steps: [{name: a, agent: w, timeout: 1m}]\ncompensation: [{step: a}]");
    for (fields, difference) in [
        (
            "queueTimeout: 5m",
            "`queueTimeout` was not set and is now 5m",
        ),
        ("maxHandOuts: 5", "`maxHandOuts` was not set and is now 5"),
        (
            "escalation: {role: ops}",
            "`escalation` was not set and is now {\"role\":\"ops\"}",
        ),
        ("maxCost: 0.25", "`maxCost` was not set and is now 0.25"),
        ("maxTokens: 9", "`maxTokens` was not set and is now 9"),
    ] {
        let new = read(&format!(
            "steps: [{{name: a, agent: w, timeout: 1m, {fields}}}]\ncompensation: [{{step: a}}]"
        ));
        let expected =
            format!("step `a` has begun and is different in the new revision: {difference}");
        assert_eq!(conflicts(&old, &new, &begun), [expected]);
    }
}

#[test]
fn a_changed_compensation_of_a_step_that_has_begun_is_a_conflict() {
    let begun = |_: &str| true;
    let with = |compensation: &str| read(&format!("steps: [{{name: a}}]\n{compensation}"));
    let plain = with("compensation: [{step: a, agent: w}]");
    let none = with("");
    let cautious = with("compensation: [{step: a, agent: x, compensateUnknown: false}]");
    assert_eq!(
        conflicts(&plain, &cautious, &begun),
        [
            "the compensation of step `a` is different in the new revision: `agent` was w and is now \
             x; `compensateUnknown` was not set and is now false"
        ]
    );
    assert_eq!(
        conflicts(&plain, &none, &begun),
        ["the compensation of step `a` is not in the new revision"]
    );
    assert_eq!(
        conflicts(&none, &plain, &begun),
        ["step `a` has begun and has a compensation only in the new revision"]
    );
}

#[test]
fn a_changed_kind_is_reported_by_its_fields() {
    let begun = |_: &str| true;
    let one = |step: &str| read(&format!("steps: [{{name: a, {step}}}]"));
    for (old, new, differences) in [
        ("sleep: 1m", "sleep: 2m", "`sleep` was 1m and is now 2m"),
        (
            "approval: {role: a}",
            "approval: {role: b}",
            "`approval.role` was a and is now b",
        ),
        (
            "agent: w, action: x",
            "signal: go",
            "`action` was x and is now not set; `agent` was w and is now not set; `kind` was task and \
             is now signal; `signal` was not set and is now go",
        ),
    ] {
        assert_eq!(
            conflicts(&one(old), &one(new), &begun),
            [format!(
                "step `a` has begun and is different in the new revision: {differences}"
            )]
        );
    }
}

#[test]
fn many_conflicts_are_counted_and_long_values_are_cut() {
    let begun = |_: &str| true;
    let steps = |value: &str| {
        let steps: String = (0..30)
            .map(|n| format!("  - {{name: s{n}, agent: w, action: \"{value}\"}}\n"))
            .collect();
        read(&format!("steps:\n{steps}"))
    };
    let found = conflicts(&steps(&"a".repeat(500)), &steps("b"), &begun);
    assert_eq!(found.len(), 21);
    assert!(found[0].len() < 200, "{}", found[0]);
    assert_eq!(found[20], "10 more steps that have begun are different");
}

#[test]
fn the_example_of_the_documentation_is_valid() {
    let page = include_str!("../../../docs/definition.md");
    let example = page.split("```").nth(1).unwrap();
    let definition = read(example.trim_start_matches("yaml"));
    assert_eq!(definition.step("reserve").unwrap().max_hand_outs, Some(5));
}
