//! Which definition, and what is then done, shows which scene. Every state is reached by a real
//! execution; what the engine cannot show is said, with the reason.

use std::time::Duration;

use serde_json::{Value, json};
use stateway_contract_kit::{Scene, Skip};
use stateway_engine::Steer;
use stateway_machine::CancelMode;
use stateway_model::{ErrorCategory, SubState};
use stateway_provider_api::table::Scope;
use stateway_provider_api::{NativeState, Observation};

use super::hand::{BUSY_ROLE, ROLE};

/// The name of every staged definition; a newer one replaces it.
pub(super) const NAME: &str = "kit-scene";

const HOUR: Duration = Duration::from_secs(3_600);

/// How a scene is reached.
pub(super) struct Plan {
    pub(super) definition: String,
    pub(super) script: Vec<Do>,
}

type Wanted = Box<dyn Fn(&Observation) -> bool + Send + Sync>;

/// One thing to do.
pub(super) enum Do {
    Start,
    StartLater,
    Until(Wanted),
    Advance(Duration),
    Steer(Steer),
    Reject(&'static str),
    /// Fails the task that the worker holds.
    Answer(ErrorCategory),
}

pub(super) fn plan(scene: Scene) -> Result<Plan, Skip> {
    let mut plan = match &scene {
        Scene::Native {
            scope: Scope::Execution,
            native,
        } => execution(native)?,
        Scene::Native {
            scope: Scope::Step,
            native,
        } => step(native)?,
        Scene::Steps(open) => steps(open)?,
        Scene::NoMetadata => Plan::new(json!({"steps": [work("nobody")]}), vec![Do::StartLater]),
        Scene::BackingOff { attempt } => backing_off(*attempt),
        Scene::AwaitingSignal { signal } => chain(&[
            json!({"name": "one", "signal": signal}),
            json!({"name": "two", "signal": signal}),
            work("nobody"),
        ]),
        Scene::AwaitingApproval => chain(&[approval(json!({}))]),
        Scene::Stuck => chain(&[task("fail-once", json!({"onFailure": "pause"}))]),
        Scene::CleansUp => undone_by("nobody", &work("nobody")).until(step_is("work", "running")),
        Scene::Succeeded => chain(&[named("first", "complete")]),
        Scene::Failed => chain(&[named("first", "complete"), named("second", "fail-once")]),
    };
    plan.script.push(Do::Until(shows(scene)));
    Ok(plan)
}

/// When a scene is reached.
fn shows(scene: Scene) -> Wanted {
    match scene {
        Scene::Native {
            scope: Scope::Execution,
            native,
        } => Box::new(move |seen| holds(&native, &seen.native)),
        Scene::Native {
            scope: Scope::Step,
            native,
        } => Box::new(move |seen| seen.steps.iter().any(|step| holds(&native, &step.native))),
        Scene::Steps(open) => Box::new(move |seen| seen.steps.len() == open.len() && settled(seen)),
        Scene::NoMetadata => is("created"),
        Scene::BackingOff { attempt } => resting(attempt),
        Scene::AwaitingSignal { .. } => is("awaiting_signal"),
        Scene::AwaitingApproval => is("awaiting_approval"),
        Scene::Stuck => is("paused"),
        Scene::CleansUp => step_is("work", "running"),
        Scene::Succeeded => is("completed"),
        Scene::Failed => is("failed"),
    }
}

fn holds(wanted: &NativeState, shown: &NativeState) -> bool {
    let has = |(name, value): (&String, &String)| shown.qualifiers.get(name) == Some(value);
    wanted.state == shown.state && wanted.qualifiers.iter().all(has)
}

/// No step is with the worker that will answer it in a moment.
fn settled(seen: &Observation) -> bool {
    seen.steps.iter().all(|step| {
        let name = step.name.as_str();
        match step.native.state.as_str() {
            "running" => name.starts_with("work"),
            _ => true,
        }
    })
}

fn is(state: &'static str) -> Wanted {
    Box::new(move |seen| seen.native.state == state)
}

fn step_is(name: &'static str, state: &'static str) -> Wanted {
    Box::new(move |seen| {
        seen.steps
            .iter()
            .any(|step| step.name == name && step.native.state == state)
    })
}

/// Between this attempt and the next.
fn resting(attempt: u32) -> Wanted {
    Box::new(move |seen| {
        seen.steps.iter().any(|step| {
            let at = step.retry.as_ref().map(|retry| retry.attempt);
            step.native.state == "backing_off" && at == Some(attempt)
        })
    })
}

fn execution(native: &NativeState) -> Result<Plan, Skip> {
    let cancel = |mode| {
        let cause = "kit".into();
        Do::Steer(Steer::Cancel { mode, cause })
    };
    let open = || chain(&[work("nobody")]).until(step_is("work", "running"));
    Ok(match (native.state.as_str(), qualifier(native)) {
        ("created", _) => Plan::new(json!({"steps": [work("nobody")]}), vec![Do::StartLater]),
        ("queued", _) => Plan::new(
            json!({"steps": [work("nobody")]}),
            (0..=super::MAX_ACTIVE).map(|_| Do::Start).collect(),
        ),
        ("running", _) => open(),
        ("awaiting_signal", _) => chain(&[json!({"name": "wait", "signal": "kit-go"})]),
        ("awaiting_approval", _) => chain(&[approval(json!({}))]),
        ("paused", Some("hand")) => open().then(Do::Steer(super::pause())),
        ("paused", Some("failure")) => chain(&[task("agent_error", json!({"onFailure": "pause"}))]),
        ("paused", Some(_)) => return Err(Skip::because("an execution keeps its revision")),
        ("paused", None) => {
            return Err(Skip::because("an execution is never held without a cause"));
        }
        ("escalated", _) => chain(&[task("governance", json!({}))]),
        ("compensating", Some("later")) => undone_by("transient", &task("agent_error", json!({}))),
        ("compensating", Some(_)) => undone_by("nobody", &task("agent_error", json!({}))),
        ("compensating", None) => undone_by("hold", &task("agent_error", json!({}))),
        ("cancelling", _) => chain(&[work("hold")])
            .until(step_with_worker("work"))
            .then(cancel(CancelMode::Stop)),
        ("completed", _) => chain(&[named("first", "complete")]),
        ("rolled_back", _) => undone_by("complete", &task("agent_error", json!({}))),
        ("failed", Some("compensation")) => {
            undone_by("agent_error", &task("agent_error", json!({})))
        }
        ("failed", Some("governance")) => {
            return Err(Skip::because(
                "what a policy forbids is escalated, not failed",
            ));
        }
        ("failed", Some(cause)) => failing(cause, json!({})),
        ("failed", None) => return Err(Skip::because("an execution never fails without a cause")),
        ("cancelled", Some("killed")) => open().then(cancel(CancelMode::Kill)),
        ("cancelled", Some("timeout")) => {
            let expires = json!({"expiresAfter": "1h", "onExpiry": "cancel"});
            chain(&[approval(expires)])
                .until(is("awaiting_approval"))
                .then(Do::Advance(HOUR * 2))
        }
        ("cancelled", Some(_)) => chain(&[approval(json!({"onReject": "cancel"}))])
            .until(is("awaiting_approval"))
            .then(Do::Reject("ask")),
        ("cancelled", None) => open().then(cancel(CancelMode::Compensate)),
        _ => return Err(Skip::because("the engine's states are a closed list")),
    })
}

fn step(native: &NativeState) -> Result<Plan, Skip> {
    let parked = native.qualifiers.contains_key("parked");
    let on_failure = if parked {
        json!({"onFailure": "pause"})
    } else {
        json!({})
    };
    let kill = Do::Steer(Steer::Cancel {
        mode: CancelMode::Kill,
        cause: "kit".into(),
    });
    let held_failure = |category| {
        chain(&[work("hold")])
            .until(step_with_worker("work"))
            .then(Do::Steer(super::pause()))
            .then(Do::Answer(category))
    };
    Ok(match (native.state.as_str(), qualifier(native)) {
        ("pending", _) => chain(&[work("nobody"), named("second", "complete")]),
        ("running", Some("no")) => Plan::new(
            json!({"steps": [
                {"name": "one", "agent": BUSY_ROLE},
                {"name": "work", "agent": BUSY_ROLE},
            ]}),
            vec![Do::Start],
        ),
        ("running", Some(_)) => chain(&[work("nobody")]),
        ("running", _) => chain(&[work("hold")]).until(step_with_worker("work")),
        ("backing_off", _) => backing_off(1),
        ("correcting", None) => {
            return Err(Skip::because(
                "a correction is handed out immediately where a worker has room",
            ));
        }
        ("correcting", Some(_)) => chain(&[task(
            "invalid",
            json!({"outputSchema": {"type": "object"}, "maxCorrectionAttempts": 1}),
        )]),
        ("waiting", Some("yes")) => chain(&[task("governance", json!({}))]),
        ("waiting", _) => chain(&[json!({"name": "wait", "signal": "kit-go"})]),
        ("completed", _) => chain(&[named("first", "complete"), work("nobody")]),
        ("failed", Some("pending")) => held_failure(ErrorCategory::AgentError),
        ("failed", Some("governance")) => held_failure(ErrorCategory::Governance)
            .until(step_is("work", "failed"))
            .then(kill),
        ("failed", Some(cause)) => failing(cause, on_failure),
        ("failed", None) => return Err(Skip::because("a step never fails without a cause")),
        ("skipped", _) => chain(&[
            task("agent_error", json!({"onFailure": "skip"})),
            work("nobody"),
        ]),
        ("cancelled", _) => chain(&[work("nobody")])
            .until(step_is("work", "running"))
            .then(kill),
        ("compensating", Some("later")) => undone_by("transient", &task("agent_error", json!({}))),
        ("compensating", Some(_)) => undone_by("nobody", &task("agent_error", json!({}))),
        ("compensating", None) => undone_by("hold", &task("agent_error", json!({}))),
        ("compensated", _) => undone_by("complete", &task("agent_error", json!({}))),
        _ => return Err(Skip::because("the engine's states are a closed list")),
    })
}

/// The one qualifier that tells rows of a state apart.
fn qualifier(native: &NativeState) -> Option<&str> {
    ["cause", "pause_cause", "escalated", "assigned"]
        .iter()
        .find_map(|name| native.qualifiers.get(*name))
        .map(String::as_str)
}

fn step_with_worker(name: &'static str) -> Wanted {
    Box::new(move |seen| {
        seen.steps.iter().any(|step| {
            step.name == name && step.native.state == "running" && step.waits.is_empty()
        })
    })
}

/// One step that fails for this cause.
fn failing(cause: &str, more: Value) -> Plan {
    match cause {
        "timeout" => chain(&[task("timeout", more)]),
        "not_retryable" => chain(&[task("agent_error", more)]),
        "rejected" => {
            let mut step = approval(json!({"onReject": "fail"}));
            merge(&mut step, more);
            chain(&[step])
                .until(is("awaiting_approval"))
                .then(Do::Reject("ask"))
        }
        _ => {
            let mut step = task("transient", more);
            let policy = json!({"retryPolicy": {"maxRetries": 1, "initialDelay": "1m"}});
            merge(&mut step, policy);
            chain(&[step]).until(resting(1)).then(Do::Advance(HOUR))
        }
    }
}

fn backing_off(attempt: u32) -> Plan {
    let mut plan = chain(&[resting_step("rest")]);
    for earlier in 1..attempt {
        plan = plan.until(resting(earlier)).then(Do::Advance(HOUR));
    }
    plan
}

fn resting_step(name: &str) -> Value {
    let policy = json!({
        "maxRetries": 9, "backoff": "constant", "initialDelay": "1h", "maxDelay": "1h",
    });
    json!({"name": name, "agent": ROLE, "action": "transient", "retryPolicy": policy})
}

fn steps(open: &[SubState]) -> Result<Plan, Skip> {
    let error = open.contains(&SubState::Error);
    if error
        && open
            .iter()
            .any(|state| !matches!(state, SubState::Error | SubState::Waiting))
    {
        return Err(Skip::because("a step in error holds the whole execution"));
    }
    let mut steps = Vec::new();
    for (number, state) in open.iter().enumerate() {
        steps.push(match state {
            SubState::Running => named(&format!("work-{number}"), "hold"),
            SubState::BackingOff => resting_step(&format!("rest-{number}")),
            SubState::Error => {
                json!({"name": format!("ask-{number}"), "agent": ROLE, "action": "governance"})
            }
            SubState::Waiting => json!({"name": format!("wait-{number}"), "signal": "kit-go"}),
            SubState::Succeeded | SubState::Failed => {
                return Err(Skip::because("only open steps can be staged side by side"));
            }
        });
    }
    Ok(Plan::new(json!({"steps": steps}), vec![Do::Start]))
}

/// A step with compensation, undone by this action, or waiting for it; then another step.
fn undone_by(undo: &str, then: &Value) -> Plan {
    let (agent, action) = match undo {
        "nobody" => ("nobody", "complete"),
        action => (ROLE, action),
    };
    let mut second = then.clone();
    merge(&mut second, json!({"dependsOn": ["first"]}));
    let definition = json!({
        "failurePolicy": "compensate",
        "steps": [named("first", "complete"), second],
        "compensation": [{"step": "first", "agent": agent, "action": action}],
    });
    Plan::new(definition, vec![Do::Start])
}

fn named(name: &str, action: &str) -> Value {
    json!({"name": name, "agent": ROLE, "action": action})
}

fn task(action: &str, more: Value) -> Value {
    let mut step = named("task", action);
    merge(&mut step, more);
    step
}

/// A step that stays open: nobody takes it, or the worker holds it.
fn work(by: &str) -> Value {
    match by {
        "nobody" => json!({"name": "work", "agent": "nobody"}),
        action => named("work", action),
    }
}

fn approval(more: Value) -> Value {
    let mut approval = json!({"role": "boss"});
    merge(&mut approval, more);
    json!({"name": "ask", "approval": approval})
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// Steps one after the other.
fn chain(steps: &[Value]) -> Plan {
    let mut steps = steps.to_vec();
    for at in 1..steps.len() {
        let before = steps[at - 1]["name"].clone();
        merge(&mut steps[at], json!({"dependsOn": [before]}));
    }
    Plan::new(json!({"steps": steps}), vec![Do::Start])
}

impl Plan {
    fn new(mut definition: Value, script: Vec<Do>) -> Self {
        merge(&mut definition, json!({"name": NAME}));
        Self {
            definition: definition.to_string(),
            script,
        }
    }

    fn until(self, wanted: Wanted) -> Self {
        self.then(Do::Until(wanted))
    }

    fn then(mut self, next: Do) -> Self {
        self.script.push(next);
        self
    }
}
