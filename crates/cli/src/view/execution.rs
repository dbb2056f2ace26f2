//! An execution and what it is made of.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use stateway_client::{v1, word_of};

use super::{Cancellation, Pause, Reopen, Text, duration, payload, timestamp};
use crate::paging::Listed;

/// An execution, whichever engine runs it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Execution, explained there"
)]
pub struct Execution {
    pub name: Text,
    pub definition: Text,
    pub revision: Text,
    pub sub_state: &'static str,
    pub native_state: Text,
    pub reason: Option<&'static str>,
    pub mapping_basis: &'static str,
    pub retry: Retry,
    pub waits: Vec<Wait>,
    pub steps: Vec<Step>,
    pub current_steps: Vec<Text>,
    pub last_error: Option<ExecutionError>,
    pub create_time: Option<Timestamp>,
    pub start_time: Option<Timestamp>,
    pub update_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    pub input: Option<Value>,
    pub output: Option<Value>,
    pub labels: BTreeMap<Text, Text>,
    pub etag: Text,
    pub usage: Option<Usage>,
    pub abandoned_usage: Option<Usage>,
    pub cancellation: Option<Cancellation>,
    pub pause: Option<Pause>,
    pub reopen: Option<Reopen>,
    pub forked_from: Option<Text>,
    pub forks: Vec<Text>,
    pub not_rolled_back: Vec<Text>,
    pub payloads_redacted: bool,
}

/// How something is being retried.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Retry, explained there"
)]
pub struct Retry {
    pub attempt: i32,
    pub max_attempt_count: Option<i32>,
    pub retry_count: i32,
    pub next_attempt_time: Option<Timestamp>,
    pub delay: Option<String>,
    pub jitter_duration: Option<String>,
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
    pub kind: &'static str,
    pub name: Text,
    pub start_time: Option<Timestamp>,
    pub expire_time: Option<Timestamp>,
    pub detail: Option<Text>,
    pub blocker: Option<&'static str>,
}

/// The total usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Usage, explained there"
)]
pub struct Usage {
    pub input_token_count: i64,
    pub output_token_count: i64,
    pub cost_micros: i64,
}

/// How far an attempt is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Progress, explained there"
)]
pub struct Progress {
    pub fraction: f64,
    pub detail: Option<Text>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.Step, explained there"
)]
pub struct Step {
    pub name: Text,
    pub sub_state: &'static str,
    pub native_state: Text,
    pub reason: Option<&'static str>,
    pub mapping_basis: &'static str,
    pub retry: Retry,
    pub waits: Vec<Wait>,
    pub last_error: Option<ExecutionError>,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    pub progress: Option<Progress>,
    pub usage: Option<Usage>,
    pub child: Option<Text>,
    pub blocked_by: Vec<Text>,
}

impl Step {
    /// Whether it has started. A step that never starts is `failed` once its execution has ended.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.reason != Some("NOT_STARTED")
    }
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[allow(
    missing_docs,
    reason = "the fields are those of stateway.v1.ExecutionError"
)]
pub struct ExecutionError {
    pub step: Text,
    pub message: Text,
    pub category: Option<&'static str>,
    pub attempt: i32,
    pub occur_time: Option<Timestamp>,
    pub native_code: Option<Text>,
    /// The whole text, if it has several lines.
    pub detail: Option<Text>,
}

impl Listed for Execution {
    const PLURAL: &'static str = "executions";
}

impl From<&v1::Execution> for Execution {
    fn from(wire: &v1::Execution) -> Self {
        Self {
            name: (&wire.name).into(),
            definition: (&wire.definition).into(),
            revision: (&wire.revision).into(),
            sub_state: word_of(wire.sub_state),
            native_state: (&wire.native_state).into(),
            reason: label(wire.reason().label()),
            mapping_basis: mapping_basis(wire.mapping_basis()),
            retry: wire.retry.as_deref().map(Retry::from).unwrap_or_default(),
            waits: wire.waits.iter().map(Wait::from).collect(),
            steps: wire.steps.iter().map(Step::from).collect(),
            current_steps: wire.current_steps.iter().map(Text::from).collect(),
            last_error: wire.last_error.as_deref().map(ExecutionError::from),
            create_time: timestamp(wire.create_time.as_ref()),
            start_time: timestamp(wire.start_time.as_ref()),
            update_time: timestamp(wire.update_time.as_ref()),
            end_time: timestamp(wire.end_time.as_ref()),
            input: payload(wire.input.as_ref()),
            output: payload(wire.output.as_ref()),
            labels: texts(&wire.labels),
            etag: (&wire.etag).into(),
            usage: wire.usage.as_ref().map(Usage::from),
            abandoned_usage: wire.abandoned_usage.as_deref().map(Usage::from),
            cancellation: wire.cancellation.as_deref().map(Cancellation::from),
            pause: wire.pause.as_deref().map(Pause::from),
            reopen: wire.reopen.as_deref().map(Reopen::from),
            payloads_redacted: wire.payloads_redacted,
            forked_from: optional(&wire.forked_from),
            forks: wire.forks.iter().map(Text::from).collect(),
            not_rolled_back: wire.not_rolled_back.iter().map(Text::from).collect(),
        }
    }
}

impl From<&v1::Retry> for Retry {
    fn from(wire: &v1::Retry) -> Self {
        Self {
            attempt: wire.attempt,
            max_attempt_count: wire.max_attempt_count,
            retry_count: wire.retry_count,
            next_attempt_time: timestamp(wire.next_attempt_time.as_ref()),
            delay: duration(wire.delay.as_ref()),
            jitter_duration: duration(wire.jitter_duration.as_ref()),
            last_error: wire.last_error.as_deref().map(ExecutionError::from),
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
            kind: wire.kind().label(),
            name: (&wire.name).into(),
            start_time: timestamp(wire.start_time.as_ref()),
            expire_time: timestamp(wire.expire_time.as_ref()),
            detail: optional(&wire.detail),
            blocker: label(wire.blocker().label()),
        }
    }
}

impl From<&v1::Step> for Step {
    fn from(wire: &v1::Step) -> Self {
        Self {
            name: (&wire.name).into(),
            sub_state: word_of(wire.sub_state),
            native_state: (&wire.native_state).into(),
            reason: label(wire.reason().label()),
            mapping_basis: mapping_basis(wire.mapping_basis()),
            retry: wire.retry.as_deref().map(Retry::from).unwrap_or_default(),
            waits: wire.waits.iter().map(Wait::from).collect(),
            last_error: wire.last_error.as_deref().map(ExecutionError::from),
            start_time: timestamp(wire.start_time.as_ref()),
            end_time: timestamp(wire.end_time.as_ref()),
            progress: wire.progress.as_ref().map(Progress::from),
            usage: wire.usage.as_ref().map(Usage::from),
            child: optional(&wire.child),
            blocked_by: wire.blocked_by.iter().map(Text::from).collect(),
        }
    }
}

impl From<&v1::Usage> for Usage {
    fn from(wire: &v1::Usage) -> Self {
        Self {
            input_token_count: wire.input_token_count,
            output_token_count: wire.output_token_count,
            cost_micros: wire.cost_micros,
        }
    }
}

impl From<&v1::Progress> for Progress {
    fn from(wire: &v1::Progress) -> Self {
        Self {
            fraction: wire.fraction,
            detail: optional(&wire.detail),
        }
    }
}

impl From<&v1::ExecutionError> for ExecutionError {
    fn from(wire: &v1::ExecutionError) -> Self {
        Self {
            step: (&wire.step).into(),
            message: (&wire.message).into(),
            category: label(wire.category().label()),
            attempt: wire.attempt,
            occur_time: timestamp(wire.occur_time.as_ref()),
            native_code: optional(&wire.native_code),
            detail: optional(&wire.detail),
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

/// The label of an enum value; none where the value is not specified.
pub(super) fn label(text: &'static str) -> Option<&'static str> {
    Some(text).filter(|text| !text.is_empty())
}

pub(super) fn optional(text: &str) -> Option<Text> {
    (!text.is_empty()).then(|| text.into())
}

pub(super) fn texts(wire: &HashMap<String, String>) -> BTreeMap<Text, Text> {
    wire.iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}
