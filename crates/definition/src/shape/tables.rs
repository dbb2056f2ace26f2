//! The tables themselves.

use stateway_model::ErrorCategory;

use super::{Field, Object, Shape};
use crate::limits::{
    MAX_CONCURRENCY, MAX_CORRECTIONS, MAX_COST, MAX_HAND_OUTS, MAX_RETRIES, MAX_TOKENS,
};
use crate::{Backoff, FailurePolicy, OnExpiry, OnFailure, OnReject, OnTimeout, Then};

const fn field(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field {
        name,
        aliases: &[],
        shape,
        required: false,
        doc,
    }
}

const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field {
        name,
        aliases: &[],
        shape,
        required: true,
        doc,
    }
}

const fn also(
    name: &'static str,
    aliases: &'static [&'static str],
    shape: Shape,
    doc: &'static str,
) -> Field {
    Field {
        name,
        aliases,
        shape,
        required: false,
        doc,
    }
}

macro_rules! listed {
    ($list:ty) => {
        || <$list>::ALL.iter().map(|word| word.as_str()).collect()
    };
}

/// A whole file: either the workflow itself or one wrapped in `spec`.
pub(crate) static FILE: Object = Object {
    what: "a definition file",
    fields: &[
        field("apiVersion", Shape::Text, "Accepted and ignored."),
        field(
            "kind",
            Shape::Text,
            "Accepted and ignored; `Workflow` where given.",
        ),
        field(
            "metadata",
            Shape::Object(&METADATA),
            "The name and description of a wrapped definition.",
        ),
        required("spec", Shape::Object(&WORKFLOW), "The workflow."),
    ],
};

pub(crate) static METADATA: Object = Object {
    what: "metadata",
    fields: &[
        field("name", Shape::Name, "The definition's name."),
        field(
            "description",
            Shape::Text,
            "One line that describes the workflow.",
        ),
        field("labels", Shape::TextMap, "Accepted and ignored."),
        field("annotations", Shape::TextMap, "Accepted and ignored."),
    ],
};

pub(crate) static WORKFLOW: Object = Object {
    what: "a workflow",
    fields: &[
        field("name", Shape::Name, "The definition's name."),
        field(
            "description",
            Shape::Text,
            "One line that describes the workflow.",
        ),
        field("domainsInvolved", Shape::Any, "Accepted and ignored."),
        field(
            "trigger",
            Shape::Object(&TRIGGER),
            "The event or schedule that starts executions.",
        ),
        field(
            "timeout",
            Shape::Duration,
            "How long a whole execution may take, waiting and pauses included.",
        ),
        also(
            "queueTimeout",
            &["queue_timeout"],
            Shape::Duration,
            "The default of `queueTimeout` for steps and compensations: how long a task may wait for a worker (default: no limit).",
        ),
        field(
            "concurrency",
            Shape::Positive(MAX_CONCURRENCY as u64),
            "The maximum number of executions of this definition that run at the same time (default: no limit).",
        ),
        also(
            "failurePolicy",
            &["failure_policy"],
            Shape::Word(listed!(FailurePolicy), &[]),
            "The reaction to the failure of a step without `onFailure` (default: `abort`).",
        ),
        field(
            "escalation",
            Shape::Object(&ESCALATION),
            "The role that decides about escalated steps without their own `escalation` (default: the roles in the engine's configuration).",
        ),
        also(
            "maxCost",
            &["max_cost"],
            Shape::Amount(MAX_COST),
            "The maximum cost of one execution, including its children, in currency units.",
        ),
        also(
            "maxTokens",
            &["max_tokens"],
            Shape::Positive(MAX_TOKENS),
            "The maximum number of tokens of one execution, including its children.",
        ),
        required("steps", Shape::List(&Shape::Object(&STEP)), "The steps."),
        field(
            "compensation",
            Shape::List(&Shape::Object(&COMPENSATION)),
            "How completed steps are compensated.",
        ),
        field(
            "output",
            Shape::Any,
            "The output of an execution; may contain references (default: the outputs of the steps without dependants, by name).",
        ),
    ],
};

pub(crate) static TRIGGER: Object = Object {
    what: "a trigger",
    fields: &[
        field("event", Shape::Text, "The name of the event."),
        field(
            "condition",
            Shape::Text,
            "A condition on the event; `${event.x}` is a field of its payload.",
        ),
        field(
            "schedule",
            Shape::Text,
            "Five crontab fields, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.",
        ),
        field(
            "timezone",
            Shape::Text,
            "The IANA time zone of the schedule (default: UTC).",
        ),
    ],
};

pub(crate) static STEP: Object = Object {
    what: "a step",
    fields: &[
        required("name", Shape::Name, "Unique within the definition."),
        field(
            "kind",
            Shape::Word(
                || vec!["task", "http", "sleep", "signal", "approval", "workflow"],
                &[],
            ),
            "The kind of the step (default: the kind of its block, or `task`).",
        ),
        field("agent", Shape::Text, "Task: the role a worker must have."),
        field(
            "action",
            Shape::Text,
            "Task: the instruction for the worker.",
        ),
        field("skill", Shape::Text, "Task: the skill a worker must have."),
        also(
            "modelPolicy",
            &["model_policy"],
            Shape::Text,
            "Task: the policy by which the worker picks a model.",
        ),
        field("http", Shape::Object(&HTTP), "The engine calls a URL."),
        field("sleep", Shape::Duration, "The step waits for this long."),
        field(
            "signal",
            Shape::Name,
            "The step waits for a signal of this name.",
        ),
        field(
            "approval",
            Shape::Object(&APPROVAL),
            "The step waits for a person's decision.",
        ),
        field(
            "workflow",
            Shape::Name,
            "The step starts an execution of this definition and waits for its end.",
        ),
        also(
            "dependsOn",
            &["depends_on"],
            Shape::List(&Shape::Name),
            "The steps that must be completed or skipped first.",
        ),
        field(
            "when",
            Shape::Text,
            "The step runs only if this condition is true.",
        ),
        field(
            "input",
            Shape::Any,
            "The input of the step; may contain references (default: the input of the execution).",
        ),
        field(
            "timeout",
            Shape::Duration,
            "How long one attempt may take once a worker has the task, or how long the HTTP call may take.",
        ),
        also(
            "queueTimeout",
            &["queue_timeout"],
            Shape::Duration,
            "Task and http: how long an attempt may wait for a worker (default: the workflow's `queueTimeout`).",
        ),
        also(
            "heartbeatTimeout",
            &["heartbeat_timeout"],
            Shape::Duration,
            "Task: how long a worker may be silent before another worker gets the task.",
        ),
        also(
            "maxHandOuts",
            &["max_hand_outs"],
            Shape::Positive(MAX_HAND_OUTS as u64),
            "Task: how often in a row the attempt may lose its worker before it fails (default: 3).",
        ),
        also(
            "retryPolicy",
            &["retry_policy"],
            Shape::Object(&RETRY_POLICY),
            "How failed attempts are retried.",
        ),
        also(
            "onFailure",
            &["on_failure"],
            Shape::Word(
                listed!(OnFailure),
                &["fail_workflow", "pause_workflow", "continue"],
            ),
            "The reaction to the failure of the step (default: the workflow's `failurePolicy`).",
        ),
        field(
            "then",
            Shape::Word(listed!(Then), &[]),
            "The reaction after the rollback; only with `compensate`.",
        ),
        field(
            "escalation",
            Shape::Object(&ESCALATION),
            "The role that decides when the step is escalated (default: the workflow's `escalation`).",
        ),
        also(
            "maxCost",
            &["max_cost"],
            Shape::Amount(MAX_COST),
            "Task: the highest cost of all attempts, those on abandoned branches included, in currency units.",
        ),
        also(
            "maxTokens",
            &["max_tokens"],
            Shape::Positive(MAX_TOKENS),
            "Task: the most tokens of all attempts, those on abandoned branches included.",
        ),
        also(
            "onTimeout",
            &["on_timeout"],
            Shape::Word(listed!(OnTimeout), &[]),
            "The reaction to a timeout that is not retried (default: `fail`).",
        ),
        also(
            "outputSchema",
            &["output_schema"],
            Shape::Any,
            "A JSON Schema for the output.",
        ),
        also(
            "maxCorrectionAttempts",
            &["max_correction_attempts"],
            Shape::Count(MAX_CORRECTIONS),
            "How often a worker may correct an output that does not match `outputSchema` (default: 0).",
        ),
        also(
            "readOnly",
            &["read_only"],
            Shape::Flag,
            "The step changes nothing, so it is never compensated.",
        ),
    ],
};

pub(crate) static HTTP: Object = Object {
    what: "an http block",
    fields: &[
        field("method", Shape::Text, "The HTTP method (default: `POST`)."),
        required("url", Shape::Text, "The URL; may contain references."),
        field(
            "headers",
            Shape::TextMap,
            "The headers; their values may contain references.",
        ),
    ],
};

pub(crate) static APPROVAL: Object = Object {
    what: "an approval block",
    fields: &[
        required("role", Shape::Name, "The role that may decide."),
        also(
            "expiresAfter",
            &["expires_after"],
            Shape::Duration,
            "How long the request stays open (default: no limit).",
        ),
        also(
            "onExpiry",
            &["on_expiry"],
            Shape::Word(listed!(OnExpiry), &[]),
            "The reaction if nobody decides in time; never an approval (default: `escalate`).",
        ),
        also(
            "onReject",
            &["on_reject"],
            Shape::Word(listed!(OnReject), &[]),
            "The reaction to a rejection (default: `cancel`).",
        ),
    ],
};

pub(crate) static RETRY_POLICY: Object = Object {
    what: "a retry policy",
    fields: &[
        also(
            "maxRetries",
            &["max_retries"],
            Shape::Count(MAX_RETRIES),
            "How many attempts may follow the first (default: 3).",
        ),
        field(
            "backoff",
            Shape::Word(listed!(Backoff), &[]),
            "How the delay between attempts grows (default: `exponential`).",
        ),
        also(
            "initialDelay",
            &["initial_delay"],
            Shape::Duration,
            "The delay before the first retry (default: 1s).",
        ),
        also(
            "maxDelay",
            &["max_delay"],
            Shape::Duration,
            "The longest delay (default: 60s).",
        ),
        field(
            "jitter",
            Shape::Fraction,
            "The maximum fraction by which a delay is shortened at random (default: 0).",
        ),
        also(
            "retryOn",
            &["retry_on"],
            Shape::List(&Shape::Word(listed!(ErrorCategory), &[])),
            "The failure categories that are retried.",
        ),
    ],
};

pub(crate) static COMPENSATION: Object = Object {
    what: "a compensation",
    fields: &[
        required("step", Shape::Name, "The step that is compensated."),
        field("action", Shape::Text, "The instruction for the worker."),
        field("agent", Shape::Text, "The role a worker must have."),
        field(
            "timeout",
            Shape::Duration,
            "How long one attempt may take once a worker has the task.",
        ),
        also(
            "queueTimeout",
            &["queue_timeout"],
            Shape::Duration,
            "How long an attempt may wait for a worker (default: the workflow's `queueTimeout`, or else its `timeout`).",
        ),
        also(
            "compensateUnknown",
            &["compensate_unknown"],
            Shape::Flag,
            "Whether the compensation also runs if it is unknown whether the step completed, because its worker was lost (default: true).",
        ),
        also(
            "retryPolicy",
            &["retry_policy"],
            Shape::Object(&RETRY_POLICY),
            "How failed attempts are retried (default: transient, external and timeout failures, 3 retries).",
        ),
    ],
};

pub(crate) static ESCALATION: Object = Object {
    what: "an escalation block",
    fields: &[required("role", Shape::Name, "The role that may decide.")],
};
