//! Replays and projections of recordings, as the provider contract has them. Pure: providers do it with their
//! logs, and the command line with a file.

use std::sync::Arc;

use stateway_driver::{View as Seen, summary};
use stateway_machine::{Event as LogEvent, Plan, State};
use stateway_model::{Event, Reason};
use stateway_provider_api::{
    Divergence, Error, ErrorKind, Observation, ProjectedMove, ProjectedMoveKind, ProjectedStep,
    Projection, Replayed, ReplayedStep, Result, UnrecordedStep, Verb, View,
};
use stateway_replay::recording::{Recording, RecordingError};
use stateway_replay::{
    Machine, Move, MoveKind, Shadow, Vocabulary, VocabularyError, project, vocabulary,
};

use crate::observation;

/// What is to be replayed.
#[derive(Debug, Clone, Default)]
pub struct ReplayAsk {
    /// Along this branch; the current one when there is none.
    pub branch: Option<u32>,
    /// Up to this event; to the last when 0.
    pub until: u64,
    /// Under this plan, into a shadow; without one the recorded events are applied as they are.
    pub plan: Option<Arc<Plan>>,
}

/// An event, its branch, and the execution after it.
#[derive(Debug, Clone)]
pub struct ReplayStep {
    /// The branch the event was written on.
    pub branch: u32,
    /// The event.
    pub event: Event,
    /// The execution after the event.
    pub execution: Observation,
}

/// Replays a recording. Both hashes of the source are that of the recording.
///
/// # Errors
/// The branch or event does not exist, or the log contradicts itself.
pub fn replay_recording(
    recording: &Recording,
    ask: &ReplayAsk,
) -> std::result::Result<Replayed, RecordingError> {
    let hash = recording.fingerprint();
    let mut answer = match &ask.plan {
        None => {
            let state = recording.state_at(ask.branch, ask.until)?;
            Replayed {
                event_count: state.sequence(),
                execution: Some(shown(recording, &state)),
                ..Replayed::default()
            }
        }
        Some(plan) => {
            let events = recording.log(ask.branch)?.len();
            let shadow = recording.rederive(ask.branch, plan)?;
            Replayed {
                event_count: events as u64,
                revision: plan.revision().to_owned(),
                execution: Some(shown(recording, &shadow.state)),
                ..derived(&shadow)
            }
        }
    };
    answer.branch = ask.branch.unwrap_or(recording.branch);
    answer.head_hash = recording.head()?;
    answer.source_hash_before.clone_from(&hash);
    answer.source_hash_after = hash;
    Ok(answer)
}

/// Every event along a branch with the execution as it was after it.
///
/// # Errors
/// The branch does not exist, or the log contradicts itself.
pub fn replay_steps(
    recording: &Recording,
    branch: Option<u32>,
) -> std::result::Result<Vec<ReplayStep>, RecordingError> {
    let events = recording.log(branch)?;
    let mut state = State::new(recording.plan(&events)?);
    let steps = events.iter().map(|event| {
        state.apply(event);
        ReplayStep {
            branch: state.branch(),
            event: summary(event.sequence, event),
            execution: shown(recording, &state),
        }
    });
    Ok(steps.collect())
}

fn shown(recording: &Recording, state: &State) -> Observation {
    let mut view = Seen::of_state(state);
    view.id = Arc::clone(&recording.execution);
    view.definition = Arc::clone(&recording.definition);
    view.labels = Arc::new(recording.labels.clone());
    observation(&view, View::Full)
}

fn derived(shadow: &Shadow) -> Replayed {
    let divergences = shadow.divergences.iter().map(|found| Divergence {
        sequence: found.sequence,
        kind: found.kind.to_string(),
        step: found.step.to_string(),
        recorded: found.recorded.clone(),
        derived: found.derived.clone(),
        summary: found.to_string(),
    });
    let unrecorded = shadow.unrecorded.iter().map(|open| UnrecordedStep {
        step: open.step.to_string(),
        attempt: open.attempt,
        compensation: open.undo,
        why: open.why.clone(),
    });
    let steps = shadow.steps.iter().map(|row| ReplayedStep {
        step: row.step.to_string(),
        recorded: row.recorded.clone(),
        derived: row.derived.clone(),
    });
    Replayed {
        divergences: divergences.collect(),
        unrecorded_steps: unrecorded.collect(),
        steps: steps.collect(),
        recorded_outcome: shadow.recorded_outcome.clone(),
        derived_outcome: shadow.derived_outcome.clone(),
        notes: shadow.notes.clone(),
        derived_event_count: shadow.events.len() as u64,
        ..Replayed::default()
    }
}

/// The vocabulary of a projection, to be found before the log is read.
///
/// # Errors
/// The vocabulary is unknown.
pub fn words_of(wanted: &str) -> Result<Vocabulary> {
    vocabulary(wanted).map_err(|error| unknown(&error))
}

/// A log in the terms of another system's state machine. The execution is the one that the log leads to.
#[must_use]
pub fn projection(
    shown: &Observation,
    plan: Arc<Plan>,
    events: &[LogEvent],
    words: Vocabulary,
) -> Projection {
    let projection = project(&words, plan, events);
    let status = last(&projection.execution);
    let steps = projection
        .steps
        .into_iter()
        .map(|(step, moves)| ProjectedStep {
            status: last(&moves),
            step,
            moves: moves.into_iter().map(of_move).collect(),
        });
    let open = shown.steps.iter().filter(|step| {
        let reported = step.reported;
        reported.is_some_and(|(sub_state, reason)| {
            !sub_state.is_terminal() && reason != Some(Reason::NotStarted)
        })
    });
    Projection {
        terminal: is_terminal(&words.execution, &status),
        status,
        current_steps: open.map(|step| step.name.clone()).collect(),
        last_error: shown.last_error.clone(),
        moves: projection.execution.into_iter().map(of_move).collect(),
        steps: steps.collect(),
        events: projection.events,
        vocabulary: words.name,
        system: words.system,
    }
}

fn last(moves: &[Move]) -> String {
    moves.last().map(|last| last.to.clone()).unwrap_or_default()
}

fn is_terminal<S>(machine: &Machine<S>, status: &str) -> bool {
    machine
        .state
        .iter()
        .any(|row| row.name == status && row.terminal)
}

fn of_move(from: Move) -> ProjectedMove {
    // The soak checks that no move is illegal.
    let kind = match from.kind {
        MoveKind::Begin => ProjectedMoveKind::Begin,
        MoveKind::Legal => ProjectedMoveKind::Legal,
        MoveKind::Bridged => ProjectedMoveKind::Bridged,
        MoveKind::Outside | MoveKind::Illegal => ProjectedMoveKind::Outside,
    };
    ProjectedMove {
        from: from.from,
        to: from.to,
        kind,
    }
}

fn unknown(error: &VocabularyError) -> Error {
    Error::new(ErrorKind::InvalidArgument, Verb::Project, error.to_string())
        .with_reason("UNKNOWN_VOCABULARY")
        .with_hint("The vocabularies are ioa, buquet, connectsoft, workflowmanager and landlord.")
}
