//! An execution and what it is made of.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use stateway_client::{v1, word_of};

use super::{duration, payload, timestamp};

/// An execution, whichever engine runs it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Execution, explained there"
)]
pub struct Execution {
    pub name: String,
    pub definition: String,
    pub revision: String,
    pub sub_state: &'static str,
    pub native_state: String,
    pub reason: Option<String>,
    pub mapping_basis: &'static str,
    pub retry: Retry,
    pub waits: Vec<Wait>,
    pub steps: Vec<Step>,
    pub current_steps: Vec<String>,
    pub last_error: Option<ExecutionError>,
    pub create_time: Option<Timestamp>,
    pub start_time: Option<Timestamp>,
    pub update_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    pub input: Option<Value>,
    pub output: Option<Value>,
    pub labels: BTreeMap<String, String>,
    pub etag: String,
}

/// How something is being retried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Retry, explained there"
)]
pub struct Retry {
    pub attempt: u32,
    pub max_attempts: Option<u32>,
    pub retry_count: u32,
    pub next_attempt_time: Option<Timestamp>,
    pub delay: Option<String>,
    pub jitter: Option<String>,
    pub last_error: Option<ExecutionError>,
    pub basis: &'static str,
}

/// Something that is being waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Wait, explained there"
)]
pub struct Wait {
    pub kind: String,
    pub name: String,
    pub since: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Step, explained there"
)]
pub struct Step {
    pub name: String,
    pub sub_state: &'static str,
    pub native_state: String,
    pub reason: Option<String>,
    pub mapping_basis: &'static str,
    pub retry: Retry,
    pub waits: Vec<Wait>,
    pub last_error: Option<ExecutionError>,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.ExecutionError"
)]
pub struct ExecutionError {
    pub step: String,
    pub message: String,
    pub category: Option<String>,
    pub attempt: u32,
    pub time: Option<Timestamp>,
    pub native_code: Option<String>,
}

impl From<&v1::Execution> for Execution {
    fn from(wire: &v1::Execution) -> Self {
        Self {
            name: wire.name.clone(),
            definition: wire.definition.clone(),
            revision: wire.revision.clone(),
            sub_state: word_of(wire.sub_state),
            native_state: wire.native_state.clone(),
            reason: said(&wire.reason),
            mapping_basis: mapping_basis(wire.mapping_basis()),
            retry: wire.retry.as_ref().map(Retry::from).unwrap_or_default(),
            waits: wire.waits.iter().map(Wait::from).collect(),
            steps: wire.steps.iter().map(Step::from).collect(),
            current_steps: wire.current_steps.clone(),
            last_error: wire.last_error.as_ref().map(ExecutionError::from),
            create_time: timestamp(wire.create_time.as_ref()),
            start_time: timestamp(wire.start_time.as_ref()),
            update_time: timestamp(wire.update_time.as_ref()),
            end_time: timestamp(wire.end_time.as_ref()),
            input: payload(wire.input.as_ref()),
            output: payload(wire.output.as_ref()),
            labels: wire.labels.clone().into_iter().collect(),
            etag: wire.etag.clone(),
        }
    }
}

impl From<&v1::Retry> for Retry {
    fn from(wire: &v1::Retry) -> Self {
        Self {
            attempt: wire.attempt,
            max_attempts: wire.max_attempts,
            retry_count: wire.retry_count,
            next_attempt_time: timestamp(wire.next_attempt_time.as_ref()),
            delay: duration(wire.delay.as_ref()),
            jitter: duration(wire.jitter.as_ref()),
            last_error: wire.last_error.as_ref().map(ExecutionError::from),
            basis: match wire.basis() {
                v1::RetryBasis::Reported => "REPORTED",
                v1::RetryBasis::Inferred => "INFERRED",
                v1::RetryBasis::None | v1::RetryBasis::Unspecified => "NONE",
            },
        }
    }
}

impl From<&v1::Wait> for Wait {
    fn from(wire: &v1::Wait) -> Self {
        Self {
            kind: wire.kind.clone(),
            name: wire.name.clone(),
            since: timestamp(wire.since.as_ref()),
            deadline: timestamp(wire.deadline.as_ref()),
        }
    }
}

impl From<&v1::Step> for Step {
    fn from(wire: &v1::Step) -> Self {
        Self {
            name: wire.name.clone(),
            sub_state: word_of(wire.sub_state),
            native_state: wire.native_state.clone(),
            reason: said(&wire.reason),
            mapping_basis: mapping_basis(wire.mapping_basis()),
            retry: wire.retry.as_ref().map(Retry::from).unwrap_or_default(),
            waits: wire.waits.iter().map(Wait::from).collect(),
            last_error: wire.last_error.as_ref().map(ExecutionError::from),
            start_time: timestamp(wire.start_time.as_ref()),
            end_time: timestamp(wire.end_time.as_ref()),
        }
    }
}

impl From<&v1::ExecutionError> for ExecutionError {
    fn from(wire: &v1::ExecutionError) -> Self {
        Self {
            step: wire.step.clone(),
            message: wire.message.clone(),
            category: said(&wire.category),
            attempt: wire.attempt,
            time: timestamp(wire.time.as_ref()),
            native_code: said(&wire.native_code),
        }
    }
}

pub(super) fn mapping_basis(wire: v1::MappingBasis) -> &'static str {
    match wire {
        v1::MappingBasis::Unspecified => "UNSPECIFIED",
        v1::MappingBasis::Native => "NATIVE",
        v1::MappingBasis::Derived => "DERIVED",
        v1::MappingBasis::Defaulted => "DEFAULTED",
    }
}

pub(super) fn said(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
