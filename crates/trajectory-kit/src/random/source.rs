//! A random definition as a file, with times that a real engine can keep in a test.

use std::time::Duration;

use serde_json::{Map, Value, json};
use stateway_chance::Chance;
use stateway_definition::{
    Backoff, Budget, Definition, OnTimeout, RetryPolicy, Step, StepKind, parse,
};
use stateway_machine_check::definitions::{MOST_STEPS, definition};

use super::name_of;

/// The number of invalid definitions in a row after which the generator fails.
const MOST_TRIES: usize = 1_000;

/// The definition of a seed, and that of its children.
pub(super) fn of(seed: u64) -> [String; 2] {
    let name = name_of(seed);
    let child = json!({
        "name": format!("{name}-child"),
        "failurePolicy": "compensate",
        "steps": [
            {"name": "first", "agent": name, "retryPolicy": policy(1)},
            {"name": "second", "agent": name, "dependsOn": ["first"], "retryPolicy": policy(0)},
        ],
        "compensation": [{"step": "first", "agent": name, "retryPolicy": policy(1)}],
    });
    [valid(seed, &name), child.to_string()]
}

/// The generator makes definitions for the machine, which accepts more than the reader of files: the first one
/// that is a valid file counts.
fn valid(seed: u64, name: &str) -> String {
    let mut chance = Chance::new(seed);
    let made = (0..MOST_TRIES).map(|_| {
        let mut made = definition(&mut chance, MOST_STEPS);
        tame(&mut made, name);
        made.name = Some(name.to_owned());
        file(&made).to_string()
    });
    let mut made = made.filter(|source| parse(source, name).is_ok());
    made.next().expect("one of many definitions is valid")
}

fn policy(retries: u32) -> Value {
    let delay = "30ms";
    json!({"maxRetries": retries, "backoff": "constant", "initialDelay": delay, "maxDelay": delay})
}

/// Only a sleep and back-offs take time, and one of them at a time: two timers that run at the same time
/// may end in any order.
fn tame(made: &mut Definition, name: &str) {
    (made.timeout, made.queue_timeout, made.budget) = (None, None, Budget::default());
    let mut sleeps = 0;
    for step in &mut made.steps {
        (step.timeout, step.queue_timeout) = (None, None);
        (step.heartbeat_timeout, step.budget) = (None, Budget::default());
        match &mut step.kind {
            StepKind::Sleep { lasts } if sleeps == 0 => {
                *lasts = Duration::from_millis(60);
                sleeps += 1;
            }
            // The gateway of this test calls no address.
            StepKind::Sleep { .. } | StepKind::Http { .. } => step.kind = task(name),
            StepKind::Task { .. } => step.kind = task(name),
            StepKind::Approval(approval) => approval.expires_after = None,
            StepKind::Workflow { definition } => *definition = format!("{name}-child"),
            StepKind::Signal { .. } => {}
        }
        if step.kind.answers() {
            quicken(&mut step.retry_policy);
        } else {
            (step.retry_policy, step.output_schema) = (None, None);
            (step.max_correction_attempts, step.read_only) = (0, false);
            step.on_timeout = OnTimeout::Fail;
        }
        if !matches!(step.kind, StepKind::Task { .. }) {
            step.max_hand_outs = None;
        }
        if step.output_schema.is_none() {
            step.max_correction_attempts = 0;
        }
    }
    for compensation in &mut made.compensation {
        name.clone_into(&mut compensation.agent);
        (compensation.timeout, compensation.queue_timeout) = (None, None);
        quicken(&mut compensation.retry_policy);
    }
}

fn task(name: &str) -> StepKind {
    StepKind::Task {
        agent: name.to_owned(),
        action: String::new(),
        skill: String::new(),
        model_policy: String::new(),
    }
}

/// The default waits for seconds.
fn quicken(policy: &mut Option<RetryPolicy>) {
    let before = policy.take();
    *policy = Some(RetryPolicy {
        max_retries: before.as_ref().map_or(1, |it| it.max_retries),
        backoff: Backoff::Constant,
        initial_delay: Duration::from_millis(30),
        max_delay: Duration::from_millis(30),
        jitter: 0.0,
        retry_on: before.and_then(|it| it.retry_on),
    });
}

/// The definition as the reader of files expects it: a step has the keys of its kind.
fn file(made: &Definition) -> Value {
    let mut file = serde_json::to_value(made).expect("a definition is plain data");
    let steps = made.steps.iter().map(step_in_file).collect();
    if let Some(object) = file.as_object_mut() {
        object.insert("steps".to_owned(), Value::Array(steps));
    }
    file
}

fn step_in_file(step: &Step) -> Value {
    let mut file = serde_json::to_value(step).expect("a step is plain data");
    let Some(object) = file.as_object_mut() else {
        return file;
    };
    let does = object.remove("does").unwrap_or_default();
    let of_kind = match &step.kind {
        StepKind::Task { agent, .. } => json!({"agent": agent}),
        StepKind::Sleep { lasts } => json!({"sleep": format!("{}ms", lasts.as_millis())}),
        StepKind::Signal { name } => json!({"signal": name}),
        StepKind::Workflow { definition } => json!({"workflow": definition}),
        StepKind::Approval(_) => json!({"approval": does["approval"]}),
        StepKind::Http { .. } => json!({"http": does["http"]}),
    };
    let of_kind: Map<String, Value> = of_kind.as_object().cloned().unwrap_or_default();
    object.extend(of_kind);
    file
}
