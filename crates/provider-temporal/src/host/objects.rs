//! The names by which gateway and host find the same things.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use stateway_hosted::definition_object::CURRENT;
use stateway_hosted::message::{DEFINITION_OBJECT, EXECUTION_OBJECT, StoredView};
use stateway_hosted::object::{INPUT, OUTPUT, VIEW};
use stateway_hosted::provider::ObjectKind;
use stateway_machine::Awaited;

use crate::api::common::v1::{Payload, Payloads};

/// The update that carries a request.
pub const UPDATE: &str = "command";
/// The signal that carries a message of another object.
pub const SIGNAL: &str = "deliver";
/// The activity that delivers a message to another object.
pub const ACTIVITY: &str = "deliver";
/// The marker that holds values of the object.
pub const VALUES: &str = "stateway.values";
/// The marker after which the run before is not needed any more.
pub const COPIED: &str = "stateway.copied";
/// The marker that names the first input that a task did not handle.
pub const LEFT: &str = "stateway.left";
/// The marker that removes every value.
pub const CLEARED: &str = "stateway.cleared";
/// The search attribute that holds the tags: a list of keywords that every namespace has and that
/// workflows may write. So nothing has to be registered.
pub const TAGS: &str = "TemporalChangeVersion";
/// How long a host may take for one workflow task. After that the server gives the task to another host.
pub const TASK_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest value of an object. Temporal refuses payloads of 2 MiB.
pub const MAX_VALUE_BYTES: usize = 2 * 1024 * 1024 - 64 * 1024;
/// The most bytes that the requests of one workflow task change. Temporal refuses messages of 4 MiB.
pub const MAX_STORED_BYTES: usize = 3 * 1024 * 1024;

/// The most bytes of all values of an object. One run holds them beside everything that it writes: Temporal terminates
/// a workflow whose history has more than 50 MiB.
pub const MAX_OBJECT_BYTES: usize = 16 * 1024 * 1024;
/// How much an object may have beyond that when it is ended, so that a full execution can be cancelled.
pub const ENDING_BYTES: usize = 2 * 1024 * 1024;

/// The tag of the first run of a workflow, and of those that continue it.
pub(super) const FIRST_RUN: &str = "run:first";
pub(super) const LATER_RUN: &str = "run:later";
/// The tag of executions with open tasks.
pub(super) const OPEN: &str = "tasks:open";
/// The tag of executions in which a person has to decide.
pub(super) const PERSON: &str = "awaits:person";

/// The tag of a sub-state.
pub(super) fn state_tag(word: &str) -> String {
    format!("state:{word}")
}

/// The tag of the executions of a definition.
pub(super) fn definition_tag(name: &str) -> String {
    format!("definition:{name}")
}

/// The tag of the forks of an execution.
pub(super) fn fork_tag(source: &str) -> String {
    format!("fork:{source}")
}

/// The workflow type of a kind of object.
#[must_use]
pub const fn workflow_type(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Execution => EXECUTION_OBJECT,
        ObjectKind::Definition => DEFINITION_OBJECT,
    }
}

/// The workflow of an object.
#[must_use]
pub fn workflow_id(kind: ObjectKind, key: &str) -> String {
    format!("{}/{key}", workflow_type(kind))
}

/// The object of a workflow; none for a workflow of something else.
#[must_use]
pub fn object_of<'w>(workflow_type: &str, workflow_id: &'w str) -> Option<(ObjectKind, &'w str)> {
    let kinds = [ObjectKind::Execution, ObjectKind::Definition];
    let kind = kinds
        .into_iter()
        .find(|kind| self::workflow_type(*kind) == workflow_type)?;
    let key = workflow_id.strip_prefix(workflow_type)?.strip_prefix('/')?;
    Some((kind, key))
}

/// Whether a value is stored as a field of the memo, where lists and descriptions show it.
#[must_use]
pub fn in_memo(key: &str) -> bool {
    [VIEW, CURRENT].contains(&key)
}

/// A value as a payload.
#[must_use]
pub fn payload(key: &str, value: impl Into<Bytes>) -> Payload {
    let encoding = if in_memo(key) || [INPUT, OUTPUT, UPDATE].contains(&key) {
        "json/plain"
    } else {
        "binary/plain"
    };
    Payload {
        metadata: HashMap::from([(
            "encoding".to_owned(),
            Bytes::from_static(encoding.as_bytes()),
        )]),
        data: value.into(),
    }
}

/// A request or a message as the only argument.
#[must_use]
pub fn payloads(value: impl Into<Bytes>) -> Payloads {
    Payloads {
        payloads: vec![payload(UPDATE, value)],
    }
}

/// By what lists find an execution.
#[must_use]
pub fn tags(seen: &StoredView, is_first_run: bool) -> Vec<String> {
    let view = &seen.view;
    let mut tags = vec![
        if is_first_run { FIRST_RUN } else { LATER_RUN }.to_owned(),
        state_tag(view.sub_state.as_str()),
        definition_tag(&view.definition),
    ];
    if seen.o > 0 {
        tags.push(OPEN.to_owned());
    }
    let asks = |it: &Awaited| matches!(it, Awaited::Approval { .. } | Awaited::Person { .. });
    if view.awaited.iter().any(asks) {
        tags.push(PERSON.to_owned());
    }
    if let Some(source) = &view.forked_from {
        tags.push(fork_tag(source));
    }
    tags
}

/// Tags as the value of the search attribute.
#[must_use]
pub fn tags_payload(tags: &[String]) -> Payload {
    let data = serde_json::to_vec(tags).unwrap_or_default();
    Payload {
        metadata: HashMap::from([
            ("encoding".to_owned(), Bytes::from_static(b"json/plain")),
            ("type".to_owned(), Bytes::from_static(b"KeywordList")),
        ]),
        data: data.into(),
    }
}
