//! What waits for a person.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use stateway_client::v1;

use super::{ExecutionError, Text, payload, timestamp};

/// One request for a decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Approval {
    /// The full name.
    pub name: Text,
    /// `pending`, `granted`, `rejected`, `expired` or `withdrawn`.
    pub state: String,
    /// The execution that waits.
    pub execution: Text,
    /// Its definition.
    pub definition: Text,
    /// Its revision.
    pub revision: Text,
    /// The step that waits.
    pub step: Text,
    /// Which request of the step, from 1.
    pub attempt: u32,
    /// Who may decide.
    pub role: Text,
    /// Who started the execution, and so may not.
    pub initiator: Text,
    /// One line for a person.
    pub summary: Text,
    /// Since when.
    pub create_time: Option<Timestamp>,
    /// Until when.
    pub expire_time: Option<Timestamp>,
    /// What the step is given; none in lists.
    pub input: Option<Value>,
    /// The execution's labels.
    pub labels: BTreeMap<Text, Text>,
    /// How it was decided; none while it is not.
    pub decision: Option<Decision>,
    /// The earlier requests of the step; empty in lists.
    pub past: Vec<Past>,
    /// Changes with the state.
    pub etag: Text,
}

/// Who decided what, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Who.
    pub decided_by: Text,
    /// When.
    pub decide_time: Option<Timestamp>,
    /// Why.
    pub comment: Text,
}

/// An earlier request of the same step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Past {
    /// Which one.
    pub attempt: u32,
    /// What became of it.
    pub state: String,
    /// How it was decided; none when it was not.
    pub decision: Option<Decision>,
}

/// A step that a person has to decide about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Escalation {
    /// The full name.
    pub name: Text,
    /// The execution that is stuck.
    pub execution: Text,
    /// Its definition.
    pub definition: Text,
    /// The step.
    pub step: Text,
    /// Why it came to this.
    pub cause: Text,
    /// Since when.
    pub create_time: Option<Timestamp>,
    /// The attempts so far.
    pub attempts: u32,
    /// The last thing that went wrong.
    pub last_error: Option<ExecutionError>,
    /// Who started the execution.
    pub initiator: Text,
    /// After a decision: what was decided.
    pub resolution: Option<String>,
    /// After a decision: who, when and why.
    pub decision: Option<Decision>,
    /// Changes with the state.
    pub etag: Text,
}

impl From<&v1::Approval> for Approval {
    fn from(wire: &v1::Approval) -> Self {
        let labels = wire.labels.iter();
        Self {
            name: (&wire.name).into(),
            state: word(wire.state()),
            execution: (&wire.execution).into(),
            definition: (&wire.definition).into(),
            revision: (&wire.revision).into(),
            step: (&wire.step).into(),
            attempt: wire.attempt,
            role: (&wire.role).into(),
            initiator: (&wire.initiator).into(),
            summary: (&wire.summary).into(),
            create_time: timestamp(wire.create_time.as_ref()),
            expire_time: timestamp(wire.expire_time.as_ref()),
            input: payload(wire.input.as_ref()),
            labels: labels
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            decision: wire.decision.as_ref().map(Decision::from),
            past: wire.past.iter().map(Past::from).collect(),
            etag: (&wire.etag).into(),
        }
    }
}

impl From<&v1::PastApproval> for Past {
    fn from(wire: &v1::PastApproval) -> Self {
        Self {
            attempt: wire.attempt,
            state: word(wire.state()),
            decision: wire.decision.as_ref().map(Decision::from),
        }
    }
}

impl From<&v1::Decision> for Decision {
    fn from(wire: &v1::Decision) -> Self {
        Self {
            decided_by: (&wire.decided_by).into(),
            decide_time: timestamp(wire.decide_time.as_ref()),
            comment: (&wire.comment).into(),
        }
    }
}

impl From<&v1::Escalation> for Escalation {
    fn from(wire: &v1::Escalation) -> Self {
        let resolution = wire.resolution.as_ref();
        let decision = resolution.and_then(|resolution| resolution.decision.as_ref());
        Self {
            name: (&wire.name).into(),
            execution: (&wire.execution).into(),
            definition: (&wire.definition).into(),
            step: (&wire.step).into(),
            cause: (&wire.cause).into(),
            create_time: timestamp(wire.create_time.as_ref()),
            attempts: wire.attempts,
            last_error: wire.last_error.as_ref().map(ExecutionError::from),
            initiator: (&wire.initiator).into(),
            resolution: resolution
                .map(|resolution| resolution.action().as_str_name().to_ascii_lowercase()),
            decision: decision.map(Decision::from),
            etag: (&wire.etag).into(),
        }
    }
}

fn word(state: v1::approval::State) -> String {
    state.as_str_name().to_ascii_lowercase()
}
