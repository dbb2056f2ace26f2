//! Which script, and what is then asked of it, shows which scene. Rows of the table are reached
//! by real scripts; only words that the provider does not have are posed.

use std::time::Duration;

use stateway_contract_kit::{Scene, Skip};
use stateway_model::SubState;
use stateway_provider_api::table::Scope;
use stateway_provider_api::{CancelMode, NativeState};

/// How a scene is reached.
pub(super) struct Plan {
    pub(super) script: String,
    pub(super) delay: Option<Duration>,
    pub(super) then: Then,
    /// How many rests of an hour to let pass.
    pub(super) rests: u32,
}

/// What is asked once it has started.
pub(super) enum Then {
    Nothing,
    Pause,
    Cancel(CancelMode),
}

const WORKS: &str = r#"{"name":"work","takes":"1h"}"#;
const RESTS: &str =
    r#"{"name":"rest","fails":9,"retry":{"max_attempts":9,"delay":"1h","factor":1.0}}"#;
const LISTENS: &str = r#"{"name":"listen","waits_for":{"signal":"kit-go"}}"#;
const SLEEPS: &str = r#"{"name":"sleep","waits_for":{"timer":"1h"}}"#;
const QUEUES: &str = r#"{"name":"queue","waits_for":{"capacity":"1h"}}"#;
const STICKS: &str = r#"{"name":"stick","takes":"0s","fails":1,"retry":{"max_attempts":1},
                         "when_exhausted":"stick"}"#;
const SUCCEEDS: &str = r#"{"name":"first"}"#;
const EXHAUSTS: &str = r#"{"name":"second","fails":1,"retry":{"max_attempts":1}}"#;
const REFUSES: &str = r#"{"name":"second","fails":1,
                          "error":{"message":"no","fails_for_good":true}}"#;
const EXPIRES: &str = r#"{"name":"second",
                          "waits_for":{"signal":"kit-go","expires_after":"0s"}}"#;
const COMPENSATED_AT_ONCE: &str = r#"{"name":"first","compensation":"0s"}"#;
const COMPENSATED_SLOWLY: &str = r#"{"name":"first","compensation":"1h"}"#;

pub(super) fn plan(scene: &Scene) -> Result<Plan, Skip> {
    Ok(match scene {
        Scene::Native { scope, native } => match scope {
            Scope::Execution => execution(native),
            Scope::Step => step(native),
        },
        Scene::Steps(open) => steps(open)?,
        Scene::NoMetadata => pose("ACTIVE", None),
        Scene::BackingOff { attempt } => backing_off(*attempt),
        Scene::AwaitingSignal { signal } => in_order(&[
            &format!(r#"{{"name":"one","waits_for":{{"signal":"{signal}"}}}}"#),
            &format!(r#"{{"name":"two","waits_for":{{"signal":"{signal}"}}}}"#),
            WORKS,
        ]),
        Scene::AwaitingApproval => {
            return Err(Skip::because("scripts ask nobody for approvals"));
        }
        Scene::Stuck => in_order(&[STICKS, WORKS]),
        Scene::CleansUp => in_order(&[COMPENSATED_SLOWLY, WORKS]),
        Scene::Succeeded => in_order(&[SUCCEEDS]),
        Scene::Failed => in_order(&[SUCCEEDS, EXHAUSTS, WORKS]),
    })
}

fn execution(native: &NativeState) -> Plan {
    let compensated = native.qualifiers.contains_key("compensated");
    let first = if compensated {
        COMPENSATED_AT_ONCE
    } else {
        SUCCEEDS
    };
    match (native.state.as_str(), cause(native)) {
        ("SCHEDULED", _) => Plan {
            delay: Some(Duration::from_secs(3_600)),
            ..in_order(&[WORKS])
        },
        ("ACTIVE", _) => in_order(&[WORKS]),
        ("HELD", _) => in_order(&[WORKS]).then(Then::Pause),
        ("STUCK", _) => in_order(&[STICKS]),
        ("COMPENSATING", _) => {
            in_order(&[COMPENSATED_SLOWLY, WORKS]).then(Then::Cancel(CancelMode::Graceful))
        }
        ("DONE", _) => in_order(&[SUCCEEDS]),
        ("BROKEN", Some(breaks)) => in_order(&[first, breaks]),
        ("STOPPED", _) => in_order(&[WORKS]).then(Then::Cancel(CancelMode::Graceful)),
        ("KILLED", _) => in_order(&[WORKS]).then(Then::Cancel(CancelMode::Kill)),
        (other, _) => pose(other, None),
    }
}

fn step(native: &NativeState) -> Plan {
    match (native.state.as_str(), cause(native)) {
        ("QUEUED", _) => in_order(&[QUEUES]),
        ("WORKING", _) => in_order(&[WORKS]),
        ("RESTING", _) => in_order(&[RESTS]),
        ("LISTENING", _) => in_order(&[LISTENS]),
        ("SLEEPING", _) => in_order(&[SLEEPS]),
        ("STUCK", _) => in_order(&[STICKS]),
        ("DONE", _) => in_order(&[SUCCEEDS, WORKS]),
        ("BROKEN", Some(breaks)) => in_order(&[breaks]),
        ("COMPENSATING", _) => {
            in_order(&[COMPENSATED_SLOWLY, WORKS]).then(Then::Cancel(CancelMode::Graceful))
        }
        ("COMPENSATED", _) => in_order(&[COMPENSATED_AT_ONCE, EXHAUSTS]),
        ("DROPPED", _) => in_order(&[WORKS]).then(Then::Cancel(CancelMode::Kill)),
        (other, _) => pose("ACTIVE", Some(other)),
    }
}

fn cause(native: &NativeState) -> Option<&'static str> {
    match native.qualifiers.get("cause")?.as_str() {
        "exhausted" => Some(EXHAUSTS),
        "refused" => Some(REFUSES),
        "expired" => Some(EXPIRES),
        _ => None,
    }
}

fn steps(open: &[SubState]) -> Result<Plan, Skip> {
    let mut steps = Vec::new();
    for (number, state) in open.iter().enumerate() {
        let step = match state {
            SubState::Running => WORKS,
            SubState::BackingOff => RESTS,
            SubState::Error => STICKS,
            SubState::Waiting => LISTENS,
            SubState::Succeeded | SubState::Failed => {
                return Err(Skip::because("only open steps can be staged side by side"));
            }
        };
        let (name, numbered) = (r#""name":""#, format!(r#""name":"{number}-"#));
        steps.push(step.replacen(name, &numbered, 1));
    }
    let parallel = format!(r#"{{"parallel":[{}]}}"#, steps.join(","));
    Ok(in_order(&[&parallel]))
}

/// Earlier attempts are reached by letting their rests pass.
fn backing_off(attempt: u32) -> Plan {
    Plan {
        rests: attempt - 1,
        ..in_order(&[RESTS])
    }
}

fn in_order(steps: &[&str]) -> Plan {
    Plan {
        script: format!(r#"{{"steps":[{}]}}"#, steps.join(",")),
        delay: None,
        then: Then::Nothing,
        rests: 0,
    }
}

fn pose(state: &str, step: Option<&str>) -> Plan {
    let step = step.map(|state| format!(r#"{{"name":"posed","state":"{state}"}}"#));
    Plan {
        script: format!(
            r#"{{"pose":{{"state":"{state}","steps":[{}]}}}}"#,
            step.unwrap_or_default()
        ),
        delay: None,
        then: Then::Nothing,
        rests: 0,
    }
}

impl Plan {
    fn then(self, then: Then) -> Self {
        Self { then, ..self }
    }
}
