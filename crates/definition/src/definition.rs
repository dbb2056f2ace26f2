//! The definition: the result of reading a valid source.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stateway_model::{ErrorCategory, words};

use crate::{Condition, Template, Trigger, duration};

/// A workflow: steps, what follows a failure, and how completed steps are compensated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Definition {
    /// The name, if the file has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// One line that describes the workflow.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The event or schedule that starts executions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// How long a whole execution may take, waiting and pauses included.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// How long a task may wait for a worker, for steps and compensations without their own
    /// `queueTimeout`. Without it, a task waits until the execution ends.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub queue_timeout: Option<Duration>,
    /// The maximum number of executions of this definition that run at the same time; `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The reaction to the failure of a step without `onFailure`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_policy: FailurePolicy,
    /// The role that decides about escalated steps without their own `escalation`; `None`: the roles
    /// in the engine's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// The budget of one execution and its children. At the limit, the next task is refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// The steps, in the order of the file.
    pub steps: Vec<Step>,
    /// How completed steps are compensated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compensation: Vec<Compensation>,
    /// The output of an execution; without it, the outputs of its leaf steps by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
}

impl Definition {
    /// Finds a step by its name.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Finds the compensation of a step.
    #[must_use]
    pub fn compensation_of(&self, name: &str) -> Option<&Compensation> {
        self.compensation
            .iter()
            .find(|compensation| compensation.step == name)
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// Unique within the definition.
    pub name: String,
    /// What it does.
    #[serde(rename = "does")]
    pub kind: StepKind,
    /// The steps that must be completed or skipped first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// The step runs only if this condition is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// The input of the step; without it, the input of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// How long one attempt may take once a worker has the task, or how long the HTTP call may
    /// take.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// How long an attempt may wait for a worker; without it, the definition's `queueTimeout`.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub queue_timeout: Option<Duration>,
    /// How many workers in a row may be lost before the attempt fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hand_outs: Option<u32>,
    /// How long a worker may be silent before another worker gets the task.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub heartbeat_timeout: Option<Duration>,
    /// How failed attempts are retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// The reaction to the failure of the step (default: the definition's failure policy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// The reaction to the end of the rollback after a failure of this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// The role that decides when the step is escalated (default: the definition's `escalation`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// The budget of all attempts together. At the limit, the next attempt is refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// The reaction to a timeout that is not retried.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_timeout: OnTimeout,
    /// A JSON Schema for the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// How often a worker may correct an output that does not match the schema.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_correction_attempts: u32,
    /// The step changes nothing, so it is never compensated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum StepKind {
    /// A worker performs the step.
    Task {
        /// The role a worker must have; empty: any worker.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        agent: String,
        /// The instruction for the worker.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        action: String,
        /// The skill a worker must have.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        skill: String,
        /// The policy by which the worker picks a model.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        model_policy: String,
    },
    /// The engine calls a URL; the step's input is the body.
    Http {
        /// The method.
        method: String,
        /// The address; may hold references.
        url: Template,
        /// The headers by name; each is text and may hold references.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, Template>,
    },
    /// The step waits for a fixed time.
    Sleep {
        /// How long.
        #[serde(with = "duration::text")]
        lasts: Duration,
    },
    /// The step waits for a signal; its payload is the output.
    Signal {
        /// The name of the signal.
        name: String,
    },
    /// The step waits for a person's decision.
    Approval(Approval),
    /// The step starts another execution; its output is the output of the step.
    Workflow {
        /// The definition to start.
        definition: String,
    },
}

impl StepKind {
    /// The name of the kind in the format.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Task { .. } => "task",
            Self::Http { .. } => "http",
            Self::Sleep { .. } => "sleep",
            Self::Signal { .. } => "signal",
            Self::Approval(_) => "approval",
            Self::Workflow { .. } => "workflow",
        }
    }

    /// True when a worker, a server or a child execution gives an output that can be checked.
    #[must_use]
    pub const fn answers(&self) -> bool {
        matches!(
            self,
            Self::Task { .. } | Self::Http { .. } | Self::Workflow { .. }
        )
    }
}

/// The role that decides, and what follows without a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Approval {
    /// The role that may decide.
    pub role: String,
    /// How long the request stays open.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub expires_after: Option<Duration>,
    /// What follows when nobody decides in time. Never an approval.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_expiry: OnExpiry,
    /// The reaction to a rejection.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_reject: OnReject,
}

/// Who decides about an escalated step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Escalation {
    /// The role that may decide.
    pub role: String,
}

/// Limits on cost and tokens, checked before a task is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// The highest cost, in millionths of the currency unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_micros: Option<u64>,
    /// The maximum number of input and output tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// How many workers in a row may be lost before an attempt fails, unless the step has its own
/// `maxHandOuts`.
pub const DEFAULT_MAX_HAND_OUTS: u32 = 3;

/// How failed attempts are retried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryPolicy {
    /// How many attempts may follow the first.
    pub max_retries: u32,
    /// How the delay between attempts grows.
    pub backoff: Backoff,
    /// The delay before the first retry.
    #[serde(with = "duration::text")]
    pub initial_delay: Duration,
    /// The longest delay.
    #[serde(with = "duration::text")]
    pub max_delay: Duration,
    /// The largest part of a delay, from 0 to 1, by which it may be shortened.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jitter: f64,
    /// The failure categories that are retried; without it, the defaults of each category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<ErrorCategory>>,
}

impl Default for RetryPolicy {
    /// Three retries, the first after one second, then doubled, at most a minute.
    fn default() -> Self {
        Self {
            max_retries: 3,
            backoff: Backoff::Exponential,
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(60),
            jitter: 0.0,
            retry_on: None,
        }
    }
}

/// How one completed step is compensated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compensation {
    /// The step.
    pub step: String,
    /// The instruction for the worker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// The role a worker must have; empty: any worker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// How long one attempt may take once a worker has the task.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// How long an attempt may wait for a worker; without it, the definition's `queueTimeout`.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub queue_timeout: Option<Duration>,
    /// Whether the compensation also runs when it is unknown if the step completed, because its
    /// worker was lost during a rollback.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub compensate_unknown: bool,
    /// How failed attempts are retried; without it, transient, external and timeout failures are
    /// retried by the default policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
}

words! {
    /// How the delay between attempts grows.
    pub enum Backoff as "back-off" {
        /// 5s, 5s, 5s.
        Constant = "constant",
        /// 5s, 10s, 15s.
        Linear = "linear",
        /// 1s, 2s, 4s, 8s.
        Exponential = "exponential",
    }
}

words! {
    /// The reaction to the failure of a step.
    pub enum OnFailure as "failure action" {
        /// The execution fails.
        Abort = "abort",
        /// The step is skipped and the rest continues.
        Skip = "skip",
        /// Completed steps are compensated.
        Compensate = "compensate",
        /// The execution is paused until someone resumes it, which retries the step.
        Pause = "pause",
        /// A person has to resume, reassign or cancel.
        Escalate = "escalate",
    }
}

words! {
    /// The reaction to the end of a rollback.
    pub enum Then as "rollback action" {
        /// A person has to resume, reassign or cancel.
        Escalate = "escalate",
    }
}

words! {
    /// The reaction to the failure of a step without `onFailure`.
    pub enum FailurePolicy as "failure policy" {
        /// The execution fails.
        Abort = "abort",
        /// Completed steps are compensated.
        Compensate = "compensate",
    }
}

words! {
    /// The reaction to an approval that expired.
    pub enum OnExpiry as "expiry action" {
        /// A person has to resume, reassign or cancel.
        Escalate = "escalate",
        /// The step fails.
        Fail = "fail",
        /// The execution is cancelled.
        Cancel = "cancel",
    }
}

words! {
    /// The reaction to a rejection.
    pub enum OnReject as "rejection action" {
        /// The execution is cancelled.
        Cancel = "cancel",
        /// The step fails.
        Fail = "fail",
    }
}

words! {
    /// The reaction to a timeout that is not retried.
    pub enum OnTimeout as "timeout action" {
        /// The step fails.
        Fail = "fail",
        /// A person has to resume, reassign or cancel.
        Escalate = "escalate",
    }
}

macro_rules! first_is_default {
    ($($list:ty = $first:ident),+) => { $(
        impl Default for $list {
            fn default() -> Self {
                Self::$first
            }
        }
    )+ };
}
first_is_default!(
    FailurePolicy = Abort,
    OnExpiry = Escalate,
    OnReject = Cancel,
    OnTimeout = Fail
);

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

const fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The form that serde asks for.
const fn is_yes(flag: &bool) -> bool {
    *flag
}
