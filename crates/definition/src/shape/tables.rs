//! The tables themselves.

use stateway_model::ErrorCategory;

use super::{Field, Object, Shape};
use crate::limits::{MAX_CONCURRENCY, MAX_CORRECTIONS, MAX_RETRIES};
use crate::{Backoff, FailurePolicy, OnExpiry, OnFailure, OnReject, OnTimeout};

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
            "Where a wrapped definition has its name.",
        ),
        required("spec", Shape::Object(&WORKFLOW), "The workflow."),
    ],
};

pub(crate) static METADATA: Object = Object {
    what: "metadata",
    fields: &[
        field("name", Shape::Name, "The definition's name."),
        field("description", Shape::Text, "One line for a person."),
        field("labels", Shape::TextMap, "Accepted and ignored."),
        field("annotations", Shape::TextMap, "Accepted and ignored."),
    ],
};

pub(crate) static WORKFLOW: Object = Object {
    what: "a workflow",
    fields: &[
        field("name", Shape::Name, "The definition's name."),
        field("description", Shape::Text, "One line for a person."),
        field("domainsInvolved", Shape::Any, "Accepted and ignored."),
        field(
            "trigger",
            Shape::Object(&TRIGGER),
            "What starts it by itself.",
        ),
        field(
            "timeout",
            Shape::Duration,
            "How long a whole execution may take, waiting included.",
        ),
        field(
            "concurrency",
            Shape::Positive(MAX_CONCURRENCY),
            "The most executions of it that run at once; no limit unless given.",
        ),
        also(
            "failurePolicy",
            &["failure_policy"],
            Shape::Word(listed!(FailurePolicy), &[]),
            "What follows a failure when the step does not say.",
        ),
        required("steps", Shape::List(&Shape::Object(&STEP)), "The steps."),
        field(
            "compensation",
            Shape::List(&Shape::Object(&COMPENSATION)),
            "How completed steps are undone.",
        ),
        field(
            "output",
            Shape::Any,
            "What an execution answers; may hold references.",
        ),
    ],
};

pub(crate) static TRIGGER: Object = Object {
    what: "a trigger",
    fields: &[
        field("event", Shape::Text, "The event's name."),
        field(
            "condition",
            Shape::Text,
            "What has to hold of the event; `${event.x}` is from its payload.",
        ),
        field(
            "schedule",
            Shape::Text,
            "Five fields of crontab, or `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`.",
        ),
        field(
            "timezone",
            Shape::Text,
            "The schedule's IANA time zone; UTC unless given.",
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
            "What the step does; follows from its block where that is given.",
        ),
        field("agent", Shape::Text, "Task: the role a worker must have."),
        field("action", Shape::Text, "Task: what to do."),
        field("skill", Shape::Text, "Task: the skill a worker must have."),
        also(
            "modelPolicy",
            &["model_policy"],
            Shape::Text,
            "Task: how a worker picks its model.",
        ),
        field("http", Shape::Object(&HTTP), "The engine calls a URL."),
        field("sleep", Shape::Duration, "Time passes."),
        field(
            "signal",
            Shape::Name,
            "A message of this name has to arrive.",
        ),
        field(
            "approval",
            Shape::Object(&APPROVAL),
            "A person has to decide.",
        ),
        field(
            "workflow",
            Shape::Name,
            "An execution of this definition has to finish.",
        ),
        also(
            "dependsOn",
            &["depends_on"],
            Shape::List(&Shape::Name),
            "The steps that have to be settled first.",
        ),
        field("when", Shape::Text, "The step runs only if this holds."),
        field(
            "input",
            Shape::Any,
            "What the step is given; may hold references.",
        ),
        field("timeout", Shape::Duration, "How long one attempt may take."),
        also(
            "heartbeatTimeout",
            &["heartbeat_timeout"],
            Shape::Duration,
            "How long a worker may be silent.",
        ),
        also(
            "retryPolicy",
            &["retry_policy"],
            Shape::Object(&RETRY_POLICY),
            "How failed attempts are repeated.",
        ),
        also(
            "onFailure",
            &["on_failure"],
            Shape::Word(
                listed!(OnFailure),
                &["fail_workflow", "pause_workflow", "continue"],
            ),
            "What follows the step's failure.",
        ),
        also(
            "onTimeout",
            &["on_timeout"],
            Shape::Word(listed!(OnTimeout), &[]),
            "What follows a timeout that is not retried.",
        ),
        also(
            "outputSchema",
            &["output_schema"],
            Shape::Any,
            "A JSON Schema the output has to fit.",
        ),
        also(
            "maxCorrectionAttempts",
            &["max_correction_attempts"],
            Shape::Count(MAX_CORRECTIONS),
            "How often a worker may correct an output that does not fit.",
        ),
        also(
            "readOnly",
            &["read_only"],
            Shape::Flag,
            "It changes nothing, so nothing is undone.",
        ),
    ],
};

pub(crate) static HTTP: Object = Object {
    what: "an http block",
    fields: &[
        field("method", Shape::Text, "The method; `POST` unless given."),
        required("url", Shape::Text, "The address; may hold references."),
        field(
            "headers",
            Shape::TextMap,
            "The headers; their values may hold references.",
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
            "How long the request stands.",
        ),
        also(
            "onExpiry",
            &["on_expiry"],
            Shape::Word(listed!(OnExpiry), &[]),
            "What follows when it expires; never an approval.",
        ),
        also(
            "onReject",
            &["on_reject"],
            Shape::Word(listed!(OnReject), &[]),
            "What follows a rejection.",
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
            "How many attempts may follow the first; 3 unless given.",
        ),
        field(
            "backoff",
            Shape::Word(listed!(Backoff), &[]),
            "How the pause grows.",
        ),
        also(
            "initialDelay",
            &["initial_delay"],
            Shape::Duration,
            "The pause before the first retry; 1s unless given.",
        ),
        also(
            "maxDelay",
            &["max_delay"],
            Shape::Duration,
            "The longest pause; 60s unless given.",
        ),
        field(
            "jitter",
            Shape::Fraction,
            "By which part, at most, a pause is shortened.",
        ),
        also(
            "retryOn",
            &["retry_on"],
            Shape::List(&Shape::Word(listed!(ErrorCategory), &[])),
            "The failures that are repeated.",
        ),
    ],
};

pub(crate) static COMPENSATION: Object = Object {
    what: "a compensation",
    fields: &[
        required("step", Shape::Name, "The step that is undone."),
        field("action", Shape::Text, "What to do."),
        field("agent", Shape::Text, "The role a worker must have."),
        field("timeout", Shape::Duration, "How long one attempt may take."),
        also(
            "retryPolicy",
            &["retry_policy"],
            Shape::Object(&RETRY_POLICY),
            "How failed attempts are repeated; not at all unless given.",
        ),
    ],
};
