//! One step with everything that happened to it.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use stateway_client::v1;
use stateway_client::v1::step_attempt::Outcome;

use super::execution::{label, optional};
use super::{ExecutionError, Step, Text, Usage, payload, timestamp};

/// One step with its input, its output and every attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.StepDetail, explained there"
)]
pub struct StepDetail {
    pub name: Text,
    pub step: Option<Step>,
    pub input: Option<Value>,
    pub input_truncated: bool,
    pub output: Option<Value>,
    pub output_truncated: bool,
    pub attempts: Vec<StepAttempt>,
    pub attempts_truncated: bool,
    pub not_retried: Option<Text>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.StepAttempt, explained there"
)]
pub struct StepAttempt {
    pub attempt: i32,
    pub branch: Text,
    pub compensation: bool,
    pub worker: Option<Text>,
    pub hand_out_count: i32,
    pub start_time: Option<Timestamp>,
    pub assign_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    pub outcome: &'static str,
    pub error: Option<ExecutionError>,
    pub usage: Option<Usage>,
    pub child: Option<Text>,
    pub policy_rule: Option<Text>,
    pub policy_decision: Option<&'static str>,
}

impl From<&v1::StepDetail> for StepDetail {
    fn from(wire: &v1::StepDetail) -> Self {
        Self {
            name: (&wire.name).into(),
            step: wire.step.as_ref().map(Step::from),
            input: payload(wire.input.as_ref()),
            input_truncated: wire.input_truncated,
            output: payload(wire.output.as_ref()),
            output_truncated: wire.output_truncated,
            attempts: wire.attempts.iter().map(StepAttempt::from).collect(),
            attempts_truncated: wire.attempts_truncated,
            not_retried: optional(&wire.not_retried),
        }
    }
}

impl From<&v1::StepAttempt> for StepAttempt {
    fn from(wire: &v1::StepAttempt) -> Self {
        Self {
            attempt: wire.attempt,
            branch: (&wire.branch).into(),
            compensation: wire.compensation,
            worker: optional(&wire.worker),
            hand_out_count: wire.hand_out_count,
            start_time: timestamp(wire.start_time.as_ref()),
            assign_time: timestamp(wire.assign_time.as_ref()),
            end_time: timestamp(wire.end_time.as_ref()),
            outcome: match wire.outcome() {
                Outcome::Unspecified => "UNSPECIFIED",
                Outcome::Open => "OPEN",
                Outcome::Succeeded => "SUCCEEDED",
                Outcome::Failed => "FAILED",
                Outcome::Cancelled => "CANCELLED",
                Outcome::Unknown => "UNKNOWN",
                Outcome::Abandoned => "ABANDONED",
            },
            error: wire.error.as_ref().map(ExecutionError::from),
            usage: wire.usage.as_ref().map(Usage::from),
            child: optional(&wire.child),
            policy_rule: optional(&wire.policy_rule),
            policy_decision: label(wire.policy_decision().label()),
        }
    }
}
