//! Replaying a recording. Pure: the provider does it with the engine's log, and the command line with a
//! file.

use std::sync::Arc;

use stateway_engine::recording::{Recording, RecordingError, plan_of};
use stateway_engine::{View as Seen, summary};
use stateway_machine::{Plan, State};
use stateway_model::Event;
use stateway_provider_api::{
    Call, Divergence, Error, ErrorKind, Observation, ReplayUnder, Replayed, ReplayedStep, Result,
    UnrecordedStep, Verb, View,
};
use stateway_replay::Shadow;

use crate::BuiltinProvider;
use crate::log::unreadable;
use stateway_hosted::observation;

/// The fewest digits that may name a revision.
const SHORTEST_REVISION: usize = 6;

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

impl BuiltinProvider {
    /// The last event of a replay and the plan of its shadow.
    pub(super) async fn replay_plan(
        &self,
        call: &Call,
        under: &ReplayUnder,
        recording: &Recording,
    ) -> Result<(u64, Option<Arc<Plan>>)> {
        let name = &recording.definition;
        let source = match under {
            ReplayUnder::Recorded { until } => return Ok((*until, None)),
            ReplayUnder::Source(source) => {
                let plan = plan_of(source, "source").map_err(|error| wrong(error.to_string()))?;
                return Ok((0, Some(plan)));
            }
            ReplayUnder::Latest => {
                let found = self.engine.definition(Arc::clone(name), None);
                self.line.carry(call, Verb::Replay, found).await?.source
            }
            ReplayUnder::Revision(digits) => self.revision_source(call, name, digits).await?,
        };
        let plan = plan_of(&source, name);
        let plan = plan.map_err(|error| unreadable(Verb::Replay, &error.to_string()))?;
        Ok((0, Some(plan)))
    }

    /// The source of a revision, which may be named by its first digits.
    async fn revision_source(&self, call: &Call, name: &Arc<str>, digits: &str) -> Result<String> {
        let known = self.engine.revisions(Arc::clone(name));
        let known = self.line.carry(call, Verb::Replay, known).await?;
        let mut fitting = known.iter().filter(|known| {
            *known.revision == *digits
                || digits.len() >= SHORTEST_REVISION && known.revision.starts_with(digits)
        });
        match (fitting.next(), fitting.next()) {
            (Some(found), None) => Ok(found.source.clone()),
            (Some(_), Some(_)) => Err(wrong(format!(
                "more than one revision begins with `{digits}`"
            ))),
            (None, _) => {
                let message = format!("definition `{name}` has no revision `{digits}`");
                let short = |text: &str| text.get(..12).unwrap_or(text).to_owned();
                let newest = known.iter().take(5).map(|known| short(&known.revision));
                let newest: Vec<_> = newest.collect();
                Err(Error::new(ErrorKind::NotFound, Verb::Replay, message)
                    .with_reason("REVISION_NOT_FOUND")
                    .with_hint(format!("The newest are {}.", newest.join(", "))))
            }
        }
    }
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, Verb::Replay, message)
}
