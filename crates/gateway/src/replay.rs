//! What a replay led to, as clients see it. The service converts what a provider answers, and the command
//! line what it replays from a file.

use stateway_model::{Event, Execution, ExecutionName};
use stateway_proto::v1;
use stateway_proto::v1::divergence::Kind;
use stateway_provider_api::{Observation, Replayed};

use crate::branch::branch_name;
use crate::convert;

/// The answer of ReplayExecution.
#[must_use]
pub fn response(
    name: &ExecutionName,
    show: impl Fn(Observation) -> Execution,
    from: Replayed,
) -> v1::ReplayExecutionResponse {
    let execution = from.execution.map(|seen| convert::execution(show(seen)));
    let divergences = from.divergences.into_iter().map(|found| v1::Divergence {
        sequence: convert::int64(found.sequence),
        kind: kind(&found.kind).into(),
        step: found.step,
        recorded: found.recorded,
        derived: found.derived,
        summary: found.summary,
    });
    let unrecorded = from.unrecorded_steps.into_iter();
    let unrecorded = unrecorded.map(|open| v1::UnrecordedStep {
        step: open.step,
        attempt: convert::int32(open.attempt),
        compensation: open.compensation,
        why: open.why,
    });
    let steps = from.steps.into_iter().map(|row| v1::ReplayedStep {
        step: row.step,
        recorded: row.recorded,
        derived: row.derived,
    });
    v1::ReplayExecutionResponse {
        execution,
        branch: branch_name(name, from.branch),
        event_count: convert::int64(from.event_count),
        revision: from.revision,
        divergences: divergences.collect(),
        unrecorded_steps: unrecorded.collect(),
        steps: steps.collect(),
        recorded_outcome: from.recorded_outcome,
        derived_outcome: from.derived_outcome,
        notes: from.notes,
        derived_event_count: convert::int64(from.derived_event_count),
        head_hash: from.head_hash,
        source_hash_before: from.source_hash_before,
        source_hash_after: from.source_hash_after,
    }
}

/// The kind behind the provider's word for it.
fn kind(word: &str) -> Kind {
    Kind::from_str_name(&word.to_ascii_uppercase()).unwrap_or(Kind::Unspecified)
}

/// An event of a branch, and the execution after it.
#[must_use]
pub fn step(
    name: &ExecutionName,
    show: impl Fn(Observation) -> Execution,
    (branch, event): (u32, Event),
    after: Observation,
) -> (v1::Event, v1::Execution) {
    let event = v1::Event {
        branch: branch_name(name, branch),
        ..convert::event(event)
    };
    (event, convert::execution(show(after)))
}
