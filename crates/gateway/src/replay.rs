//! Replaying a recording, as clients see it. Pure: the service does it with what an engine gives,
//! and the command line with what a file holds.

use std::sync::Arc;

use stateway_engine::View;
use stateway_engine::recording::{Recording, RecordingError};
use stateway_machine::{Plan, State};
use stateway_model::ExecutionName;
use stateway_proto::v1;
use stateway_replay::Shadow;

use crate::convert;

/// What is to be replayed.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Along this branch; the current one when there is none.
    pub branch: Option<u32>,
    /// Up to this event; to the last when 0.
    pub at: u64,
    /// Under this plan, into a shadow; without one the recorded events are applied as they are.
    pub plan: Option<Arc<Plan>>,
}

/// Replays a recording. The hash of the source is filled in for both sides; who has a store to read
/// again puts what it reads then in the place of the second.
///
/// # Errors
/// There is no such branch or event, or the log is not what was written.
pub fn replay(
    recording: &Recording,
    name: &ExecutionName,
    ask: &Ask,
) -> Result<v1::ReplayExecutionResponse, RecordingError> {
    let hash = recording.fingerprint();
    let mut answer = match &ask.plan {
        None => {
            let state = recording.state_at(ask.branch, ask.at)?;
            v1::ReplayExecutionResponse {
                event_count: state.sequence(),
                execution: Some(shown(recording, name, &state)),
                ..v1::ReplayExecutionResponse::default()
            }
        }
        Some(plan) => {
            let events = recording.log(ask.branch)?.len();
            let shadow = recording.rederive(ask.branch, plan)?;
            let mut answer = derived(&shadow);
            answer.event_count = events as u64;
            answer.revision = plan.revision().to_owned();
            answer.execution = Some(shown(recording, name, &shadow.state));
            answer
        }
    };
    answer.branch = ask.branch.unwrap_or(recording.branch).to_string();
    answer.head_hash = recording.head()?;
    answer.source_hash_before.clone_from(&hash);
    answer.source_hash_after = hash;
    Ok(answer)
}

/// Every event along a branch with the execution as it was after it.
///
/// # Errors
/// There is no such branch, or the log is not what was written.
pub fn steps(
    recording: &Recording,
    name: &ExecutionName,
    branch: Option<u32>,
) -> Result<Vec<(v1::Event, v1::Execution)>, RecordingError> {
    let events = recording.log(branch)?;
    let mut state = State::new(recording.plan(&events)?);
    let told = events.iter().map(|event| {
        state.apply(event);
        let mut told = convert::event(stateway_engine::summary(event.sequence, event));
        told.branch = state.branch().to_string();
        (told, shown(recording, name, &state))
    });
    Ok(told.collect())
}

fn shown(recording: &Recording, name: &ExecutionName, state: &State) -> v1::Execution {
    let mut view = View::of_state(state);
    view.definition = Arc::clone(&recording.definition);
    view.labels = Arc::new(recording.labels.clone());
    convert::execution(view.execution(name.clone()))
}

fn derived(shadow: &Shadow) -> v1::ReplayExecutionResponse {
    let divergences = shadow.divergences.iter().map(|found| v1::Divergence {
        sequence: found.sequence,
        kind: found.kind.to_string(),
        step: found.step.to_string(),
        recorded: found.recorded.clone(),
        derived: found.derived.clone(),
        words: found.to_string(),
    });
    let unrecorded = shadow.unrecorded.iter().map(|open| v1::UnrecordedStep {
        step: open.step.to_string(),
        attempt: open.attempt,
        undo: open.undo,
        why: open.why.clone(),
    });
    let steps = shadow.steps.iter().map(|row| v1::ReplayedStep {
        step: row.step.to_string(),
        recorded: row.recorded.clone(),
        derived: row.derived.clone(),
    });
    v1::ReplayExecutionResponse {
        divergences: divergences.collect(),
        unrecorded_steps: unrecorded.collect(),
        steps: steps.collect(),
        recorded_outcome: shadow.recorded_outcome.clone(),
        derived_outcome: shadow.derived_outcome.clone(),
        notes: shadow.notes.clone(),
        derived_event_count: shadow.events.len() as u64,
        ..v1::ReplayExecutionResponse::default()
    }
}
