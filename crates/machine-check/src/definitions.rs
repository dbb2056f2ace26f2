//! Random definitions: every step kind, every policy, any graph.

use std::time::Duration;

use serde_json::{Value, json};
use stateway_definition::{
    Approval, Backoff, Budget, Compensation, Condition, Definition, Escalation, FailurePolicy,
    OnExpiry, OnFailure, OnReject, OnTimeout, RetryPolicy, Step, StepKind, Template, Then,
};
use stateway_model::ErrorCategory;

use stateway_chance::Chance;

/// The most steps of a random definition.
pub const MOST_STEPS: usize = 8;

/// A random definition of up to `most` steps.
pub fn definition(chance: &mut Chance, most: usize) -> Definition {
    let count = 1 + chance.below(most);
    let mut steps: Vec<Step> = Vec::with_capacity(count);
    for at in 0..count {
        let next = step(chance, at, &steps);
        steps.push(next);
    }
    let compensation = steps
        .iter()
        .filter(|_| chance.percent(60))
        .map(|step| step.name.clone())
        .collect::<Vec<_>>()
        .into_iter()
        .map(|step| compensation(chance, step))
        .collect();
    Definition {
        name: None,
        description: String::new(),
        trigger: None,
        timeout: chance.percent(40).then(|| seconds(chance, 60, 3_600)),
        queue_timeout: chance.percent(20).then(|| seconds(chance, 20, 100)),
        concurrency: None,
        escalation: chance.percent(30).then(|| escalation("chief")),
        budget: budget(chance, 15, 60),
        failure_policy: one(chance, FailurePolicy::ALL),
        steps,
        compensation,
        output: None,
    }
}

fn seconds(chance: &mut Chance, least: u64, more: u64) -> Duration {
    Duration::from_secs(least + chance.next() % more)
}

fn escalation(role: &str) -> Escalation {
    Escalation {
        role: role.to_owned(),
    }
}

fn budget(chance: &mut Chance, percent: usize, most: u64) -> Budget {
    Budget {
        max_cost_micros: chance.percent(percent).then(|| 1 + chance.next() % most),
        max_tokens: chance
            .percent(percent)
            .then(|| 1 + chance.next() % (8 * most)),
    }
}

fn one<T: Copy>(chance: &mut Chance, all: &[T]) -> T {
    all[chance.below(all.len())]
}

fn step(chance: &mut Chance, at: usize, before: &[Step]) -> Step {
    let depends_on: Vec<String> = before
        .iter()
        .filter(|_| chance.percent(35))
        .map(|step| step.name.clone())
        .collect();
    let kind = kind(chance);
    let takes_worker = matches!(kind, StepKind::Task { .. } | StepKind::Http { .. });
    Step {
        name: format!("s{at}"),
        when: chance.percent(15).then(|| condition(chance, &depends_on)),
        input: chance.percent(30).then(|| input(chance, &depends_on)),
        depends_on,
        timeout: chance.percent(60).then(|| seconds(chance, 5, 300)),
        queue_timeout: (takes_worker && chance.percent(25)).then(|| seconds(chance, 5, 60)),
        max_hand_outs: (takes_worker && chance.percent(50))
            .then(|| u32::try_from(1 + chance.below(3)).unwrap_or(1)),
        then: chance.percent(25).then_some(Then::Escalate),
        escalation: chance.percent(20).then(|| escalation("lead")),
        budget: budget(chance, 8, 10),
        heartbeat_timeout: (takes_worker && chance.percent(30)).then(|| Duration::from_secs(20)),
        retry_policy: chance.percent(50).then(|| retry(chance)),
        on_failure: chance.percent(80).then(|| one(chance, OnFailure::ALL)),
        on_timeout: if chance.percent(20) {
            OnTimeout::Escalate
        } else {
            OnTimeout::Fail
        },
        output_schema: chance
            .percent(30)
            .then(|| json!({"type": "object", "required": ["ok"]})),
        max_correction_attempts: u32::from(chance.percent(60)) * 2,
        read_only: chance.percent(20),
        kind,
    }
}

fn kind(chance: &mut Chance) -> StepKind {
    match chance.below(12) {
        0 => StepKind::Sleep {
            lasts: Duration::from_secs(1 + chance.next() % 100),
        },
        1 | 2 => StepKind::Signal {
            name: format!("go{}", chance.below(2)),
        },
        3 | 4 => StepKind::Approval(Approval {
            role: "boss".to_owned(),
            expires_after: chance.percent(60).then(|| Duration::from_secs(50)),
            on_expiry: one(chance, OnExpiry::ALL),
            on_reject: one(chance, OnReject::ALL),
        }),
        5 => StepKind::Workflow {
            definition: "child".to_owned(),
        },
        6 => StepKind::Http {
            method: "POST".to_owned(),
            url: template(json!("https://example.com/${execution.id}")),
            headers: [("x-id".to_owned(), template(json!("${execution.id}")))].into(),
        },
        _ => StepKind::Task {
            agent: "worker".to_owned(),
            action: String::new(),
            skill: String::new(),
            model_policy: String::new(),
        },
    }
}

fn template(value: Value) -> Template {
    Template::parse(value).expect("the templates of this file parse")
}

/// Some references have no value: `maybe` is in one output of two.
fn input(chance: &mut Chance, depends_on: &[String]) -> Template {
    let upstream = chance
        .pick(depends_on)
        .filter(|_| depends_on.len() < 99)
        .cloned();
    match upstream {
        Some(step) if chance.percent(30) => {
            template(json!({"needs": format!("${{steps.{step}.output.maybe}}")}))
        }
        Some(step) => template(json!({"all": format!("${{steps.{step}.output}}")})),
        None => template(json!({"flag": "${input.flag}", "id": "${execution.id}"})),
    }
}

fn condition(chance: &mut Chance, depends_on: &[String]) -> Condition {
    let source = match chance.pick(depends_on) {
        Some(step) if chance.percent(50) => format!("${{steps.{step}.state}} == \"completed\""),
        Some(step) => format!("${{steps.{step}.output.maybe}} != null"),
        None if chance.percent(90) => "${input.flag} == true".to_owned(),
        None => "${input.flag} > 3".to_owned(),
    };
    Condition::parse(&source).expect("the conditions of this file parse")
}

fn retry(chance: &mut Chance) -> RetryPolicy {
    RetryPolicy {
        max_retries: u32::try_from(chance.below(4)).unwrap_or(0),
        backoff: one(chance, Backoff::ALL),
        initial_delay: Duration::from_secs(1 + chance.next() % 5),
        max_delay: Duration::from_secs(20),
        jitter: if chance.percent(50) { 0.5 } else { 0.0 },
        retry_on: chance.percent(30).then(|| {
            let categories = ErrorCategory::ALL.iter().copied();
            categories
                .filter(|c| *c != ErrorCategory::Governance && chance.percent(50))
                .collect()
        }),
    }
}

fn compensation(chance: &mut Chance, step: String) -> Compensation {
    Compensation {
        step,
        action: String::new(),
        agent: "compensator".to_owned(),
        timeout: chance.percent(40).then(|| Duration::from_secs(30)),
        queue_timeout: chance.percent(25).then(|| seconds(chance, 5, 60)),
        compensate_unknown: chance.percent(60),
        retry_policy: chance.percent(40).then(|| retry(chance)),
    }
}
