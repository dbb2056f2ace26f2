//! What a replay led to, as clients see it. The service converts what a provider answers, and the command
//! line what it replays from a file.

use stateway_model::{Event, Execution};
use stateway_proto::v1;
use stateway_provider_api::{Observation, Replayed};

use crate::convert;

/// The answer of ReplayExecution.
#[must_use]
pub fn response(
    show: impl Fn(Observation) -> Execution,
    from: Replayed,
) -> v1::ReplayExecutionResponse {
    let execution = from.execution.map(|seen| convert::execution(show(seen)));
    let divergences = from.divergences.into_iter().map(|found| v1::Divergence {
        sequence: found.sequence,
        kind: found.kind,
        step: found.step,
        recorded: found.recorded,
        derived: found.derived,
        words: found.summary,
    });
    let unrecorded = from.unrecorded_steps.into_iter();
    let unrecorded = unrecorded.map(|open| v1::UnrecordedStep {
        step: open.step,
        attempt: open.attempt,
        undo: open.compensation,
        why: open.why,
    });
    let steps = from.steps.into_iter().map(|row| v1::ReplayedStep {
        step: row.step,
        recorded: row.recorded,
        derived: row.derived,
    });
    v1::ReplayExecutionResponse {
        execution,
        branch: from.branch.to_string(),
        event_count: from.event_count,
        revision: from.revision,
        divergences: divergences.collect(),
        unrecorded_steps: unrecorded.collect(),
        steps: steps.collect(),
        recorded_outcome: from.recorded_outcome,
        derived_outcome: from.derived_outcome,
        notes: from.notes,
        derived_event_count: from.derived_event_count,
        head_hash: from.head_hash,
        source_hash_before: from.source_hash_before,
        source_hash_after: from.source_hash_after,
    }
}

/// An event of a branch, and the execution after it.
#[must_use]
pub fn step(
    show: impl Fn(Observation) -> Execution,
    (branch, event): (u32, Event),
    after: Observation,
) -> (v1::Event, v1::Execution) {
    let event = v1::Event {
        branch: branch.to_string(),
        ..convert::event(event)
    };
    (event, convert::execution(show(after)))
}
