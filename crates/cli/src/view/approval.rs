//! What waits for a person.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use stateway_client::v1;

use super::{ExecutionError, StepAttempt, Text, payload, timestamp};
use crate::paging::Listed;

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
    /// The attempt of the step, from 1.
    pub attempt: i32,
    /// The full name of the branch of the execution's log.
    pub branch: Text,
    /// The role of the people who may decide.
    pub role: Text,
    /// The policy rule that asks for the approval; empty for an approval step.
    pub policy_rule: Text,
    /// The person who started the execution, and so may not decide.
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

/// A step that a person has to decide about.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Escalation {
    /// The full name.
    pub name: Text,
    /// `pending`, `resolved` or `withdrawn`.
    pub state: String,
    /// The execution that is escalated.
    pub execution: Text,
    /// Its definition.
    pub definition: Text,
    /// The step.
    pub step: Text,
    /// The full name of the branch of the execution's log.
    pub branch: Text,
    /// A person with one of these roles may decide.
    pub roles: Vec<Text>,
    /// Why the step was escalated, in one line.
    pub cause: Text,
    /// The reason, as the API spells it; empty in lists.
    pub reason: &'static str,
    /// The policy rule that led to the escalation; empty where none did, and in lists.
    pub policy_rule: Text,
    /// Since when.
    pub create_time: Option<Timestamp>,
    /// The attempt that was escalated.
    pub attempt: i32,
    /// Every attempt of the step until then; empty in lists.
    pub attempts: Vec<StepAttempt>,
    /// The error of the attempt that was escalated.
    pub last_error: Option<ExecutionError>,
    /// The person who started the execution, and so may not decide.
    pub initiator: Text,
    /// After a decision: `resume`, `reassign` or `cancel`.
    pub resolution: Option<String>,
    /// After a reassignment: the role.
    pub reassigned_to: Option<Text>,
    /// After a decision: who, when and why.
    pub decision: Option<Decision>,
    /// Changes with the state.
    pub etag: Text,
}

impl Listed for Approval {
    const PLURAL: &'static str = "approvals";
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
            branch: (&wire.branch).into(),
            role: (&wire.role).into(),
            policy_rule: (&wire.policy_rule).into(),
            initiator: (&wire.initiator).into(),
            summary: (&wire.summary).into(),
            create_time: timestamp(wire.create_time.as_ref()),
            expire_time: timestamp(wire.expire_time.as_ref()),
            input: payload(wire.input.as_ref()),
            labels: labels
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            decision: wire.decision.as_ref().map(Decision::from),
            etag: (&wire.etag).into(),
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

impl Listed for Escalation {
    const PLURAL: &'static str = "escalations";
}

impl From<&v1::Escalation> for Escalation {
    fn from(wire: &v1::Escalation) -> Self {
        let resolution = wire.resolution.as_ref();
        let decision = resolution.and_then(|resolution| resolution.decision.as_ref());
        Self {
            name: (&wire.name).into(),
            state: wire.state().as_str_name().to_ascii_lowercase(),
            execution: (&wire.execution).into(),
            definition: (&wire.definition).into(),
            step: (&wire.step).into(),
            branch: (&wire.branch).into(),
            roles: wire.roles.iter().map(Text::from).collect(),
            cause: (&wire.cause).into(),
            reason: wire.reason().label(),
            policy_rule: (&wire.policy_rule).into(),
            create_time: timestamp(wire.create_time.as_ref()),
            attempt: wire.attempt,
            attempts: wire.attempts.iter().map(StepAttempt::from).collect(),
            last_error: wire.last_error.as_ref().map(ExecutionError::from),
            initiator: (&wire.initiator).into(),
            resolution: resolution
                .map(|resolution| resolution.action().as_str_name().to_ascii_lowercase()),
            reassigned_to: resolution
                .map(|resolution| Text::from(&resolution.role))
                .filter(|role| !role.raw().is_empty()),
            decision: decision.map(Decision::from),
            etag: (&wire.etag).into(),
        }
    }
}

fn word(state: v1::approval::State) -> String {
    state.as_str_name().to_ascii_lowercase()
}
