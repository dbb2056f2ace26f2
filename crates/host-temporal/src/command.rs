//! The commands of an answer to a workflow task.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use stateway_provider_temporal::api::command::v1 as command;
use stateway_provider_temporal::api::command::v1::Command;
use stateway_provider_temporal::api::command::v1::command::Attributes;
use stateway_provider_temporal::api::common::v1::{
    ActivityType, Memo, Payloads, RetryPolicy, SearchAttributes, WorkflowType,
};
use stateway_provider_temporal::api::enums::v1::{CommandType, ContinueAsNewInitiator};
use stateway_provider_temporal::api::taskqueue::v1::TaskQueue;
use stateway_provider_temporal::host::{
    ACTIVITY, Continued, LEFT, Left, TAGS, TASK_TIMEOUT, VALUES, payload, payloads, tags_payload,
};

/// The most bytes of values in one marker. Temporal refuses 2 MiB.
const MARKER_BYTES: usize = 1024 * 1024;
/// How long one delivery may take, and how it is retried.
const DELIVERY: Duration = Duration::from_secs(30);
const DELIVERY_AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The values that changed, in as few markers as possible.
pub(crate) fn record(values: &BTreeMap<String, Bytes>) -> Vec<Command> {
    let (mut markers, mut details, mut bytes) = (Vec::new(), HashMap::new(), 0);
    for (key, value) in values {
        if bytes + value.len() > MARKER_BYTES && !details.is_empty() {
            markers.push(marker(VALUES, std::mem::take(&mut details)));
            bytes = 0;
        }
        bytes += value.len();
        let one = Payloads {
            payloads: vec![payload(key, value.clone())],
        };
        details.insert(key.clone(), one);
    }
    if !details.is_empty() {
        markers.push(marker(VALUES, details));
    }
    markers
}

/// A marker.
pub(crate) fn marker(name: &str, details: HashMap<String, Payloads>) -> Command {
    of(
        CommandType::RecordMarker,
        Attributes::RecordMarkerCommandAttributes(command::RecordMarkerCommandAttributes {
            marker_name: name.to_owned(),
            details,
        }),
    )
}

/// What a task leaves to another one.
pub(crate) fn left(left: Left) -> Command {
    let left = serde_json::to_vec(&left).unwrap_or_default();
    marker(LEFT, HashMap::from([(LEFT.to_owned(), payloads(left))]))
}

/// Fields of the memo.
pub(crate) fn remember(fields: &BTreeMap<String, Bytes>) -> Command {
    of(
        CommandType::ModifyWorkflowProperties,
        Attributes::ModifyWorkflowPropertiesCommandAttributes(
            command::ModifyWorkflowPropertiesCommandAttributes {
                upserted_memo: Some(memo(fields)),
            },
        ),
    )
}

/// The tags.
pub(crate) fn tag(tags: &[String]) -> Command {
    of(
        CommandType::UpsertWorkflowSearchAttributes,
        Attributes::UpsertWorkflowSearchAttributesCommandAttributes(
            command::UpsertWorkflowSearchAttributesCommandAttributes {
                search_attributes: Some(attributes(tags)),
            },
        ),
    )
}

/// A timer for these milliseconds, which fires after this time.
pub(crate) fn start_timer(due: i64, after: Duration) -> Command {
    of(
        CommandType::StartTimer,
        Attributes::StartTimerCommandAttributes(command::StartTimerCommandAttributes {
            timer_id: due.to_string(),
            start_to_fire_timeout: duration(after.max(Duration::from_millis(1))),
        }),
    )
}

/// The end of a timer.
pub(crate) fn cancel_timer(due: i64) -> Command {
    of(
        CommandType::CancelTimer,
        Attributes::CancelTimerCommandAttributes(command::CancelTimerCommandAttributes {
            timer_id: due.to_string(),
        }),
    )
}

/// The delivery of a message.
pub(crate) fn deliver(id: String, message: Vec<u8>, queue: &TaskQueue) -> Command {
    of(
        CommandType::ScheduleActivityTask,
        Attributes::ScheduleActivityTaskCommandAttributes(
            command::ScheduleActivityTaskCommandAttributes {
                activity_id: id,
                activity_type: Some(ActivityType {
                    name: ACTIVITY.to_owned(),
                }),
                task_queue: Some(queue.clone()),
                input: Some(payloads(message)),
                start_to_close_timeout: duration(DELIVERY),
                retry_policy: Some(RetryPolicy {
                    initial_interval: duration(DELIVERY_AGAIN.0),
                    backoff_coefficient: 2.0,
                    maximum_interval: duration(DELIVERY_AGAIN.1),
                    maximum_attempts: 0,
                    non_retryable_error_types: Vec::new(),
                }),
            },
        ),
    )
}

/// Puts a protocol message in its place among the commands.
pub(crate) fn protocol_message(id: &str) -> Command {
    of(
        CommandType::ProtocolMessage,
        Attributes::ProtocolMessageCommandAttributes(command::ProtocolMessageCommandAttributes {
            message_id: id.to_owned(),
        }),
    )
}

/// The end of the workflow: the object has no values.
pub(crate) fn complete() -> Command {
    of(
        CommandType::CompleteWorkflowExecution,
        Attributes::CompleteWorkflowExecutionCommandAttributes(
            command::CompleteWorkflowExecutionCommandAttributes { result: None },
        ),
    )
}

/// Continues in another run.
pub(crate) fn continue_as_new(
    workflow_type: &str,
    queue: &TaskQueue,
    continued: &Continued,
    (fields, tags): (&BTreeMap<String, Bytes>, &[String]),
) -> Command {
    let input = serde_json::to_vec(continued).unwrap_or_default();
    of(
        CommandType::ContinueAsNewWorkflowExecution,
        Attributes::ContinueAsNewWorkflowExecutionCommandAttributes(
            command::ContinueAsNewWorkflowExecutionCommandAttributes {
                workflow_type: Some(WorkflowType {
                    name: workflow_type.to_owned(),
                }),
                task_queue: Some(queue.clone()),
                input: Some(payloads(input)),
                workflow_task_timeout: duration(TASK_TIMEOUT),
                initiator: ContinueAsNewInitiator::Workflow as i32,
                memo: Some(memo(fields)),
                search_attributes: (!tags.is_empty()).then(|| attributes(tags)),
            },
        ),
    )
}

fn memo(fields: &BTreeMap<String, Bytes>) -> Memo {
    let fields = fields.iter();
    let fields = fields.map(|(key, value)| (key.clone(), payload(key, value.clone())));
    Memo {
        fields: fields.collect(),
    }
}

fn attributes(tags: &[String]) -> SearchAttributes {
    SearchAttributes {
        indexed_fields: HashMap::from([(TAGS.to_owned(), tags_payload(tags))]),
    }
}

fn of(kind: CommandType, attributes: Attributes) -> Command {
    Command {
        command_type: kind as i32,
        attributes: Some(attributes),
    }
}

/// Every duration here is far below the limit of the type.
fn duration(duration: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(duration).ok()
}
