//! A state as bytes, and back, so that a long log need not be replayed from its beginning.
//!
//! A snapshot is a cache of the log and never the truth: one that this build does not know, or
//! that does not hold together, is refused, and the log is replayed instead. The form is one JSON
//! object: `v` (the version), `revision` (of the plan it needs), `head`, `steps` in the order of
//! the plan, `waiting` and `seen` (signals). A golden file keeps the version that is written. Writing and
//! reading cost as much as there are steps and signals.

mod whole;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::State;
use crate::event::Data;
use crate::plan::Plan;
use crate::state::{Head, Signals, StepRun, WaitingSignal};

/// The version this build writes and reads.
pub const SNAPSHOT_VERSION: u32 = 4;

/// Why bytes are not a state of this plan.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// Written by another build.
    #[error("snapshot version {found} is unknown; this build reads version {SNAPSHOT_VERSION}")]
    UnknownVersion {
        /// The version that was found.
        found: u64,
    },
    /// Of another revision than the plan.
    #[error("the snapshot is of revision {written}, the plan of revision {given}")]
    OtherRevision {
        /// What the snapshot says.
        written: String,
        /// What was given.
        given: String,
    },
    /// It is a snapshot, but no state of this plan.
    #[error("the snapshot is inconsistent: {0}")]
    Inconsistent(&'static str),
    /// Not a snapshot at all.
    #[error("not a snapshot: {0}")]
    Malformed(#[from] serde_json::Error),
}

#[derive(Serialize)]
struct Written<'s> {
    v: u32,
    revision: &'s str,
    head: &'s Head,
    steps: &'s [StepRun],
    /// Name, id, payload and sender; the signals of one name in the order they came.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waiting: Vec<(&'s str, &'s str, &'s Data, &'s str)>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    seen: &'s BTreeSet<Arc<str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "v")]
    _version: u32,
    #[serde(rename = "revision")]
    _revision: String,
    head: Head,
    steps: Vec<StepRun>,
    #[serde(default)]
    waiting: Vec<SignalRow>,
    #[serde(default)]
    seen: BTreeSet<Arc<str>>,
}

/// Name, id, payload and sender of a signal that waits.
type SignalRow = (Arc<str>, Arc<str>, Data, Arc<str>);

/// Only what decides whether the rest can be read.
#[derive(Deserialize)]
struct Label {
    v: u64,
    #[serde(default)]
    revision: String,
}

/// Writes a state. The plan is not part of it, only its revision.
#[must_use]
pub fn snapshot(state: &State) -> Vec<u8> {
    let signals = &state.head.signals;
    let waiting = signals.waiting.iter().flat_map(|(name, queue)| {
        queue
            .iter()
            .map(move |signal| (&**name, &*signal.id, &signal.payload, &*signal.by))
    });
    let written = Written {
        v: SNAPSHOT_VERSION,
        revision: state.plan().revision(),
        head: &state.head,
        steps: &state.steps,
        waiting: waiting.collect(),
        seen: &signals.seen,
    };
    serde_json::to_vec(&written).expect("a state has only text keys, so it is always JSON")
}

/// The revision of the plan that a snapshot needs: an execution may have moved to another one
/// since its creation.
///
/// # Errors
/// An unknown version, or bytes that are no snapshot.
pub fn snapshot_revision(bytes: &[u8]) -> Result<String, SnapshotError> {
    label(bytes).map(|label| label.revision)
}

/// Reads a state of this plan.
///
/// # Errors
/// An unknown version, another revision, bytes that are no snapshot, or a snapshot that does not
/// hold together.
pub fn restore(plan: Arc<Plan>, bytes: &[u8]) -> Result<State, SnapshotError> {
    let Label { revision, .. } = label(bytes)?;
    if revision != plan.revision() {
        return Err(SnapshotError::OtherRevision {
            written: revision,
            given: plan.revision().to_owned(),
        });
    }
    let read: Read = serde_json::from_slice(bytes)?;
    let mut state = State {
        head: read.head,
        steps: read.steps,
    };
    state.head.plan = plan;
    state.head.signals = Arc::new(signals(read.waiting, read.seen));
    whole::check(&state).map_err(SnapshotError::Inconsistent)?;
    Ok(state)
}

fn label(bytes: &[u8]) -> Result<Label, SnapshotError> {
    let label: Label = serde_json::from_slice(bytes)?;
    if label.v == u64::from(SNAPSHOT_VERSION) {
        return Ok(label);
    }
    Err(SnapshotError::UnknownVersion { found: label.v })
}

fn signals(waiting: Vec<SignalRow>, seen: BTreeSet<Arc<str>>) -> Signals {
    let mut queues: BTreeMap<Arc<str>, VecDeque<WaitingSignal>> = BTreeMap::new();
    for (name, id, payload, by) in waiting {
        let signal = WaitingSignal { id, payload, by };
        queues.entry(name).or_default().push_back(signal);
    }
    Signals {
        waiting: queues,
        seen,
    }
}
