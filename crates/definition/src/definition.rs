//! The definition itself: what is left when a source was read and found valid.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use stateway_model::{ErrorCategory, words};

use crate::{Condition, Template, Trigger, duration};

/// A workflow: steps, what follows a failure, and how to undo what was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Definition {
    /// Its name, when the file gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// One line for a person.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What starts it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Trigger>,
    /// How long a whole execution may take, waiting included.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// How long a task may wait for a worker, for steps and compensations that do not say;
    /// without it, a task waits as long as the execution does.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub queue_timeout: Option<Duration>,
    /// The most executions of it that run at once; without it, there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// What follows a failure when the step itself does not say.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failure_policy: FailurePolicy,
    /// Who decides about escalated steps that do not say; without it, the engine's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// What one execution may cost before its next task is refused, its children included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// The steps, in the order of the file.
    pub steps: Vec<Step>,
    /// How completed steps are undone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compensation: Vec<Compensation>,
    /// What an execution answers; without it, the outputs of its leaf steps by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
}

impl Definition {
    /// The step of this name.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// How the step of this name is undone.
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
    /// The steps that have to be settled first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// It runs only if this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Condition>,
    /// What it is given; without it, the input of the execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    /// How long one attempt may take in a worker's hands.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// How long an attempt may wait for a worker; without it, the definition's.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub queue_timeout: Option<Duration>,
    /// How many workers in a row may be lost before the attempt fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hand_outs: Option<u32>,
    /// How long a worker may be silent before its task goes to another.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub heartbeat_timeout: Option<Duration>,
    /// How failed attempts are repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
    /// What follows its failure; without it, the definition's failure policy decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// What follows once `onFailure: compensate` has rolled everything back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Then>,
    /// Who decides when it is escalated; without it, the definition's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// What all its attempts may cost before the next one is refused.
    #[serde(default, skip_serializing_if = "is_default")]
    pub budget: Budget,
    /// What follows a timeout of an attempt that is not repeated.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_timeout: OnTimeout,
    /// What its output must look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// How often a worker may correct an output that does not fit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_correction_attempts: u32,
    /// It changes nothing, so there is nothing to undo.
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
    /// A worker does it.
    Task {
        /// The role a worker must have; empty: any worker.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        agent: String,
        /// What to do, in the worker's words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        action: String,
        /// The skill a worker must have.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        skill: String,
        /// The policy by which a worker picks its model.
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
    /// Time passes.
    Sleep {
        /// How much.
        #[serde(with = "duration::text")]
        lasts: Duration,
    },
    /// A named message has to arrive; its payload is the output.
    Signal {
        /// The message's name.
        name: String,
    },
    /// A person has to decide.
    Approval(Approval),
    /// Another execution has to finish; its output is the output.
    Workflow {
        /// The definition to start.
        definition: String,
    },
}

impl StepKind {
    /// The word of the format for it.
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

    /// True when someone answers for it, so that an answer can be wrong and be corrected.
    #[must_use]
    pub const fn answers(&self) -> bool {
        matches!(
            self,
            Self::Task { .. } | Self::Http { .. } | Self::Workflow { .. }
        )
    }
}

/// Who has to decide, and what follows if nobody does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Approval {
    /// The role that may decide.
    pub role: String,
    /// How long the request stands.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub expires_after: Option<Duration>,
    /// What follows when it expires. Never an approval.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_expiry: OnExpiry,
    /// What follows a rejection.
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

/// A limit on what work may cost. It is checked before a task is handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Budget {
    /// The highest cost, in millionths of the currency unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_micros: Option<u64>,
    /// The most tokens, read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
}

/// How many workers in a row may be lost before an attempt fails, unless the step says.
pub const DEFAULT_MAX_HAND_OUTS: u32 = 3;

/// How failed attempts are repeated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryPolicy {
    /// How many attempts may follow the first.
    pub max_retries: u32,
    /// How the pause grows.
    pub backoff: Backoff,
    /// The pause before the first retry.
    #[serde(with = "duration::text")]
    pub initial_delay: Duration,
    /// The longest pause.
    #[serde(with = "duration::text")]
    pub max_delay: Duration,
    /// The part of a pause, from 0 to 1, by which it may be shortened so that retries spread.
    #[serde(default, skip_serializing_if = "is_default")]
    pub jitter: f64,
    /// The failures that are repeated; without it, the defaults of each category.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_on: Option<Vec<ErrorCategory>>,
}

impl Default for RetryPolicy {
    /// Seed 000's example: three retries, from one second, doubled, at most a minute.
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

/// How one completed step is undone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compensation {
    /// The step.
    pub step: String,
    /// What to do, in the worker's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub action: String,
    /// The role a worker must have; empty: any worker.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub agent: String,
    /// How long one attempt may take.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
    /// How long an attempt may wait for a worker; without it, the definition's.
    #[serde(
        default,
        with = "duration::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub queue_timeout: Option<Duration>,
    /// Whether it also runs when nobody knows if the step completed: its worker was lost while the
    /// execution turned back.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub compensate_unknown: bool,
    /// How failed attempts are repeated; without it, transient, external and timeout failures are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicy>,
}

words! {
    /// How the pause between attempts grows.
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
    /// What follows the failure of a step.
    pub enum OnFailure as "failure action" {
        /// The execution fails.
        Abort = "abort",
        /// The step is left out and the rest goes on.
        Skip = "skip",
        /// What was completed is undone.
        Compensate = "compensate",
        /// The execution is held until someone resumes it, which tries the step again.
        Pause = "pause",
        /// A person has to resume, reassign or cancel.
        Escalate = "escalate",
    }
}

words! {
    /// What follows a rollback.
    pub enum Then as "rollback action" {
        /// A person has to resume, reassign or cancel.
        Escalate = "escalate",
    }
}

words! {
    /// What follows a failure when the step itself does not say.
    pub enum FailurePolicy as "failure policy" {
        /// The execution fails.
        Abort = "abort",
        /// What was completed is undone.
        Compensate = "compensate",
    }
}

words! {
    /// What follows an approval that expired.
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
    /// What follows a rejection.
    pub enum OnReject as "rejection action" {
        /// The execution is cancelled.
        Cancel = "cancel",
        /// The step fails.
        Fail = "fail",
    }
}

words! {
    /// What follows a timeout that is not retried.
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
