//! An execution as its row carries it, so that lists and reads do not replay its log.
//!
//! A summary is a cache. It begins with the hash of the newest row of the log. A store returns it only while
//! the log ends with that row: a summary that was not written, or not in time, leads to a replay. Payloads are part of it while they are small.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_driver::{PauseKind, View};
use stateway_machine::{
    Awaited, Cancellation, Data, ExecutionState, PauseCause, Reopened, State, StepState, Times,
    seeking,
};
use stateway_model::{
    ExecutionError, MappingBasis, Progress, Reason, Retry, Step, SubState, Usage, Wait,
};

use crate::coverage::Coverage;
use crate::store::{ExecutionRow, Hash};
use crate::view::{EngineView as _, Origin};

/// Input and output up to this size are part of a summary.
const MOST_PAYLOAD_BYTES: usize = 512;
/// The largest summary of an open execution, which may leave memory often.
const MOST_OPEN_BYTES: usize = 64 * 1024;

/// The summary of an execution that leaves memory; none where its view depends on connected workers, or
/// is too large.
pub(crate) fn write(origin: &Origin, state: &State, hash: &Hash) -> Option<Arc<[u8]>> {
    let is_open = !state.state().is_terminal();
    if is_open && !seeking(state).is_empty() {
        return None;
    }
    let view = View::with_coverage(origin, state, &Coverage::default());
    let mut bytes = hash.to_vec();
    let payloads = Payloads::of(&view);
    serde_json::to_writer(&mut bytes, &Body::of(view, payloads)).ok()?;
    (!is_open || bytes.len() <= MOST_OPEN_BYTES).then(|| bytes.into())
}

/// What a row shows.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) view: View,
    /// The input and output are part of the view.
    pub(crate) has_payloads: bool,
}

/// The execution of a row; none if the row has no summary that this build can read.
pub(crate) fn read(row: &ExecutionRow) -> Option<Shown> {
    if row.older {
        return None;
    }
    let summary = row.summary.as_deref()?;
    let body: Body = serde_json::from_slice(summary.get(size_of::<Hash>()..)?).ok()?;
    (body.branch == row.status.branch).then(|| body.shown(row))
}

#[derive(Debug, Default)]
struct Payloads(Option<(Data, Option<Data>)>);

impl Payloads {
    fn of(view: &View) -> Self {
        let size = |data: &Data| serde_json::to_vec(&**data).map_or(usize::MAX, |json| json.len());
        let input = small(&view.input).then(|| size(&view.input));
        let output = view
            .output
            .as_ref()
            .map_or(Some(0), |output| small(output).then(|| size(output)));
        let total = input
            .unwrap_or(usize::MAX)
            .saturating_add(output.unwrap_or(usize::MAX));
        Self((total <= MOST_PAYLOAD_BYTES).then(|| (Arc::clone(&view.input), view.output.clone())))
    }
}

/// Whether a value may be small: large ones are not serialised to find out.
fn small(data: &Data) -> bool {
    fn count(value: &serde_json::Value, left: &mut usize) -> bool {
        let bytes = match value {
            serde_json::Value::String(text) => text.len() + 2,
            serde_json::Value::Array(items) => items.len() + 2,
            serde_json::Value::Object(fields) => {
                fields.keys().map(|key| key.len() + 4).sum::<usize>() + 2
            }
            _ => 1,
        };
        let Some(rest) = left.checked_sub(bytes) else {
            return false;
        };
        *left = rest;
        match value {
            serde_json::Value::Array(items) => items.iter().all(|item| count(item, left)),
            serde_json::Value::Object(fields) => fields.values().all(|item| count(item, left)),
            _ => true,
        }
    }
    count(data, &mut { MOST_PAYLOAD_BYTES })
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// What a summary has. Fields with their usual value are left out, and names are short: there is one of it
/// for every execution.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    // The columns of the row have these too. A row that missed a write must not show other words than the log.
    #[serde(rename = "st")]
    state: ExecutionState,
    #[serde(rename = "ss")]
    sub_state: SubState,
    #[serde(rename = "re", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    #[serde(rename = "n")]
    sequence: u64,
    #[serde(rename = "br", default, skip_serializing_if = "is_default")]
    branch: u32,
    #[serde(rename = "v")]
    revision: Arc<str>,
    #[serde(rename = "t", default, skip_serializing_if = "is_default")]
    times: Times,
    #[serde(rename = "b", default, skip_serializing_if = "is_default")]
    initiator: Arc<str>,
    #[serde(rename = "s", default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<StepBody>,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    cause: Option<Reason>,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pause: Option<PauseKind>,
    #[serde(rename = "pc", default, skip_serializing_if = "Option::is_none")]
    pause_cause: Option<PauseCause>,
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    cancellation: Option<Cancellation>,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    reopened: Option<Reopened>,
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    forked_from: Option<Arc<str>>,
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    not_rolled_back: Vec<Arc<str>>,
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    waits: Vec<Wait>,
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    awaited: Vec<Awaited>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    last_error: Option<ExecutionError>,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    not_before: Option<Timestamp>,
    #[serde(rename = "u", default, skip_serializing_if = "is_default")]
    usage: Usage,
    #[serde(rename = "ua", default, skip_serializing_if = "is_default")]
    abandoned_usage: Usage,
    /// Whether the summary has the payloads.
    #[serde(rename = "k", default, skip_serializing_if = "is_default")]
    has_payloads: bool,
    #[serde(rename = "i", default, skip_serializing_if = "is_null")]
    input: Data,
    #[serde(
        rename = "o",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "some"
    )]
    output: Option<Data>,
}

fn is_null(data: &Data) -> bool {
    data.is_null()
}

/// An output that is `null` is an output.
fn some<'d, D: serde::Deserializer<'d>>(from: D) -> Result<Option<Data>, D::Error> {
    Data::deserialize(from).map(Some)
}

/// One step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepBody {
    #[serde(rename = "n")]
    name: String,
    #[serde(rename = "t")]
    state: StepState,
    #[serde(rename = "s")]
    sub_state: SubState,
    /// Where it is not the word of the state.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    native_state: Option<String>,
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    /// Where it is not the usual one.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    mapping_basis: Option<MappingBasis>,
    #[serde(rename = "r", default, skip_serializing_if = "is_default")]
    retry: Retry,
    #[serde(rename = "wt", default, skip_serializing_if = "Vec::is_empty")]
    waits: Vec<Wait>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    last_error: Option<ExecutionError>,
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    start_time: Option<Timestamp>,
    #[serde(rename = "z", default, skip_serializing_if = "Option::is_none")]
    end_time: Option<Timestamp>,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(rename = "k", default, skip_serializing_if = "Vec::is_empty")]
    blocked_by: Vec<String>,
    #[serde(rename = "nr", default, skip_serializing_if = "Option::is_none")]
    not_retried: Option<String>,
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    child: Option<Arc<str>>,
}

impl StepBody {
    fn of(
        step: Step,
        state: StepState,
        not_retried: Option<String>,
        child: Option<Arc<str>>,
    ) -> Self {
        Self {
            native_state: (step.native_state != state.as_str()).then_some(step.native_state),
            mapping_basis: Some(step.mapping_basis).filter(|basis| *basis != MappingBasis::Native),
            name: step.name,
            state,
            sub_state: step.sub_state,
            reason: step.reason,
            retry: step.retry,
            waits: step.waits,
            last_error: step.last_error,
            start_time: step.start_time,
            end_time: step.end_time,
            progress: step.progress,
            usage: step.usage,
            blocked_by: step.blocked_by,
            not_retried,
            child,
        }
    }

    fn step(self) -> Step {
        Step {
            name: self.name,
            sub_state: self.sub_state,
            native_state: self
                .native_state
                .unwrap_or_else(|| self.state.as_str().to_owned()),
            reason: self.reason,
            mapping_basis: self.mapping_basis.unwrap_or(MappingBasis::Native),
            retry: self.retry,
            waits: self.waits,
            last_error: self.last_error,
            start_time: self.start_time,
            end_time: self.end_time,
            progress: self.progress,
            usage: self.usage,
            // A view names children apart.
            child: None,
            blocked_by: self.blocked_by,
        }
    }
}

impl Body {
    fn of(view: View, payloads: Payloads) -> Self {
        let extras = view
            .step_states
            .into_iter()
            .zip(view.not_retried)
            .zip(view.children);
        let steps = view.steps.into_iter().zip(extras);
        let steps = steps.map(|(step, ((state, not_retried), child))| {
            StepBody::of(step, state, not_retried, child)
        });
        let has_payloads = payloads.0.is_some();
        let (input, output) = payloads.0.unwrap_or_default();
        Self {
            state: view.state,
            sub_state: view.sub_state,
            reason: view.reason,
            sequence: view.sequence,
            branch: view.branch,
            revision: view.revision,
            times: view.times,
            initiator: view.initiator,
            steps: steps.collect(),
            cause: view.cause,
            pause: view.pause,
            pause_cause: view.pause_cause,
            cancellation: view.cancellation,
            reopened: view.reopened,
            forked_from: view.forked_from,
            not_rolled_back: view.not_rolled_back,
            waits: view.waits,
            awaited: view.awaited,
            last_error: view.last_error,
            not_before: view.not_before,
            usage: view.usage,
            abandoned_usage: view.abandoned_usage,
            has_payloads,
            input,
            output,
        }
    }

    fn shown(mut self, row: &ExecutionRow) -> Shown {
        let (origin, status) = (&row.origin, &row.status);
        let states = self.steps.iter().map(|step| step.state).collect();
        let taken = self.steps.iter_mut();
        let (not_retried, children) = taken
            .map(|step| (step.not_retried.take(), step.child.take()))
            .unzip();
        let view = View {
            number: origin.number,
            id: Arc::clone(&origin.id),
            definition: Arc::clone(&origin.definition),
            revision: self.revision,
            labels: Arc::clone(&origin.labels),
            parent: origin.parent.clone(),
            state: self.state,
            sub_state: self.sub_state,
            reason: self.reason,
            pause: self.pause,
            pause_cause: self.pause_cause,
            cancellation: self.cancellation,
            reopened: self.reopened,
            forked_from: self.forked_from,
            not_rolled_back: self.not_rolled_back,
            // A summary is not written while this depends on workers.
            unserved: Vec::new(),
            cause: self.cause,
            queued: None,
            waits: self.waits,
            awaited: self.awaited,
            step_states: states,
            not_retried,
            children,
            steps: self.steps.into_iter().map(StepBody::step).collect(),
            last_error: self.last_error,
            times: self.times,
            not_before: self.not_before,
            input: self.input,
            output: self.output,
            sequence: self.sequence,
            branch: status.branch,
            initiator: self.initiator,
            usage: self.usage,
            abandoned_usage: self.abandoned_usage,
        };
        Shown {
            view,
            has_payloads: self.has_payloads,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::recording::Recording;
    use crate::store::{OpenWork, Status};

    fn row(origin: &Origin, state: &State, summary: Arc<[u8]>) -> ExecutionRow {
        ExecutionRow {
            origin: Arc::new(origin.clone()),
            revision: "".into(),
            status: Status::of(state, &OpenWork::of(state, None)),
            older: false,
            summary: Some(summary),
        }
    }

    fn origin() -> Origin {
        Origin {
            number: 7,
            id: "e7".into(),
            definition: "d".into(),
            labels: Arc::default(),
            parent: None,
            depth: 0,
            not_before: None,
            forked_from: None,
        }
    }

    /// Every state of every recorded history.
    fn states() -> Vec<State> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/histories");
        let mut states = Vec::new();
        for file in std::fs::read_dir(folder).expect("histories") {
            let path = file.expect("a file").path();
            if path
                .extension()
                .is_none_or(|extension| extension != "jsonl")
            {
                continue;
            }
            let recording = Recording::read(&std::fs::read(path).expect("a history"));
            let recording = recording.expect("a recording");
            let events = recording.log(None).expect("a log");
            for event in events {
                let state = recording.state_at(None, event.sequence);
                states.push(state.expect("a state"));
            }
        }
        states
    }

    #[test]
    fn a_summary_shows_what_a_replay_shows() {
        let origin = origin();
        let mut compared = 0;
        for state in states() {
            let Some(summary) = write(&origin, &state, &[1; 16]) else {
                continue;
            };
            let replayed = View::with_coverage(&origin, &state, &Coverage::default());
            let row = row(&origin, &state, summary);
            let shown = read(&row).expect("a summary");
            let mut view = shown.view;
            if !shown.has_payloads {
                view.input.clone_from(&replayed.input);
                view.output.clone_from(&replayed.output);
            }
            assert_eq!(view, replayed);
            compared += 1;
        }
        assert!(compared > 50, "{compared} states");
    }

    #[test]
    fn a_row_that_missed_a_write_shows_the_state_of_its_log() {
        let state = states().pop().expect("a state");
        let origin = origin();
        let summary = write(&origin, &state, &[1; 16]).expect("a summary");
        let mut row = row(&origin, &state, summary);
        assert_ne!(row.status.state, ExecutionState::Created);
        row.status.state = ExecutionState::Created;
        let shown = read(&row).expect("a summary");
        assert_eq!(shown.view.state, state.state());
    }

    #[test]
    fn a_summary_of_another_build_is_not_used() {
        let state = states().pop().expect("a state");
        let origin = origin();
        let summary = write(&origin, &state, &[1; 16]).expect("a summary");
        for other in [&summary[..10], &summary[..summary.len() - 1], &[]] {
            assert!(read(&row(&origin, &state, other.into())).is_none());
        }
        let mut older = row(&origin, &state, summary);
        assert!(read(&older).is_some());
        older.older = true;
        assert!(read(&older).is_none());
    }

    #[test]
    fn large_payloads_are_no_part_of_a_summary() {
        let large: Data = Arc::new(serde_json::json!({ "text": "x".repeat(MOST_PAYLOAD_BYTES) }));
        assert!(!small(&large));
        assert!(small(&Arc::new(
            serde_json::json!({ "a": [1, 2, { "b": null }] })
        )));
    }
}
