//! What a description or a row of a list shows of an execution. Pure.

use stateway_model::ExecutionId;
use stateway_provider_api::{NativeState, Observation, ObservedDefinition, Result, Verb, Version};

use crate::api::enums::v1::WorkflowExecutionStatus;
use crate::api::workflow::v1::WorkflowExecutionInfo;
use crate::api::workflowservice::v1::DescribeWorkflowExecutionResponse;
use crate::error::malformed;
use crate::id::WorkflowRef;
use crate::qualifier::PENDING;
use crate::steps;
use crate::time::timestamp;

/// The word for an open execution.
pub(crate) const RUNNING: &str = "RUNNING";

/// The engine's word: the name of the status, or its number if this adapter does not know it.
pub(crate) fn status_word(status: i32) -> String {
    match WorkflowExecutionStatus::try_from(status) {
        Ok(status) => status
            .as_str_name()
            .trim_start_matches("WORKFLOW_EXECUTION_STATUS_")
            .to_owned(),
        Err(_) => status.to_string(),
    }
}

/// What a list shows of an execution.
pub(crate) fn basics(
    verb: Verb,
    info: &WorkflowExecutionInfo,
    id: &WorkflowRef,
) -> Result<Observation> {
    let name = ExecutionId::new(id.name()).map_err(|why| malformed(verb, why))?;
    let mut seen = Observation::new(name, NativeState::new(status_word(info.status)));
    seen.definition = info
        .r#type
        .as_ref()
        .map(|kind| ObservedDefinition::Native(kind.name.clone()));
    seen.create_time = timestamp(info.start_time.as_ref());
    seen.start_time = timestamp(info.execution_time.as_ref()).or(seen.create_time);
    seen.end_time = timestamp(info.close_time.as_ref());
    Ok(seen)
}

/// What a description shows of an execution.
pub(crate) fn observation(
    verb: Verb,
    id: &WorkflowRef,
    described: &DescribeWorkflowExecutionResponse,
) -> Result<Observation> {
    let info = described.workflow_execution_info.as_ref();
    let info = info.ok_or_else(|| malformed(verb, "a description without an execution"))?;
    let mut seen = basics(verb, info, id)?;
    seen.version = version(info);
    if seen.native.state == RUNNING {
        seen.steps = steps::pending(described);
        let nothing = described.pending_activities.is_empty()
            && described.pending_children.is_empty()
            && described.pending_workflow_task.is_none();
        if nothing {
            seen.native = seen.native.with(PENDING, "nothing");
        }
    }
    Ok(seen)
}

/// Runs of one execution are ordered by their start, changes of one run by the server's count.
fn version(info: &WorkflowExecutionInfo) -> Option<Version> {
    let start = timestamp(info.start_time.as_ref())?;
    let start = u64::try_from(start.as_microsecond()).ok()?;
    let transitions = u64::try_from(info.state_transition_count).ok()?;
    Some(Version::of_parts([start, transitions, 0]))
}
