//! An execution as a host shows it: where it is, its steps and waits, its times and payloads.
//!
//! Every host computes its views here, so an execution shows the same states, reasons and evidence
//! wherever it runs. A host that stores views as JSON leaves input and output out of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stateway_machine::{
    Awaited, Cancellation, Data, ExecutionState, PauseCause, Reopened, Seeking, State, StepState,
    Times, abandoned_usage, awaited, child_id, child_key, last_error, not_retried, seeking,
    step_views, sub_state_where, usage, waits,
};
use stateway_model::{
    CancelInfo, DefinitionName, Execution, ExecutionError, ExecutionId, ExecutionName,
    MappingBasis, PauseInfo, Payload, Reason, ReopenInfo, Retry, Step, SubState, Usage, Wait,
    WaitKind,
};

/// An execution as it is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Its place among all executions, in the order of their creation.
    pub number: i64,
    /// Its id.
    pub id: Arc<str>,
    /// The name of its definition.
    pub definition: Arc<str>,
    /// The revision it runs by.
    pub revision: Arc<str>,
    /// The labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The parent execution of which it runs a step; none without a parent.
    pub parent: Option<Parent>,
    /// The native state.
    pub state: ExecutionState,
    /// The sub-state.
    pub sub_state: SubState,
    /// Why, where the word alone does not say.
    pub reason: Option<Reason>,
    /// Why it is paused, while it is.
    pub pause: Option<PauseKind>,
    /// Who paused it and why, or why a new revision cannot be adopted.
    pub pause_cause: Option<PauseCause>,
    /// Who cancelled it and why.
    pub cancellation: Option<Cancellation>,
    /// When and by whom it was reopened last.
    pub reopened: Option<Reopened>,
    /// The execution it was forked from.
    pub forked_from: Option<Arc<str>>,
    /// Completed steps that were not rolled back when it ended.
    pub not_rolled_back: Vec<Arc<str>>,
    /// Steps whose tasks no connected worker can take.
    pub unserved: Vec<Arc<str>>,
    /// Why the execution as a whole is where it is: the core's own reason.
    pub cause: Option<Reason>,
    /// Why it has not begun, while it is queued; none where that is not known.
    pub queued: Option<QueueCause>,
    /// What it waits for, its steps' waits included.
    pub waits: Vec<Wait>,
    /// What a person can do next: the pending approvals and escalations among it.
    pub awaited: Vec<Awaited>,
    /// Every step, in the order of the definition.
    pub steps: Vec<Step>,
    /// The state of each step, in the same order.
    pub step_states: Vec<StepState>,
    /// Why no retry follows the last failure of each of the steps, in the same order.
    pub not_retried: Vec<Option<String>>,
    /// The ids of the executions that do the steps, in the same order.
    pub children: Vec<Option<Arc<str>>>,
    /// The last error; while the execution is paused because of a revision, the reason.
    pub last_error: Option<ExecutionError>,
    /// When what happened to it.
    pub times: Times,
    /// When it is to be released, while that is to come.
    pub not_before: Option<Timestamp>,
    /// The input. Not part of the serialised view.
    #[serde(skip)]
    pub input: Data,
    /// The output. Not part of the serialised view.
    #[serde(skip)]
    pub output: Option<Data>,
    /// How many events its branch has.
    pub sequence: u64,
    /// The branch of its log.
    pub branch: u32,
    /// Who started it.
    pub initiator: Arc<str>,
    /// The usage of its attempts so far: children, compensations and abandoned branches included.
    pub usage: Usage,
    /// The part of it that abandoned branches cost.
    pub abandoned_usage: Usage,
}

/// Why a queued execution has not begun, with the figures of this moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueCause {
    /// As many executions of its definition run as `concurrency` allows.
    Concurrency {
        /// How many run.
        running: usize,
        /// How many may run.
        limit: usize,
    },
    /// As many executions run as `max_active` allows.
    MaxActive {
        /// How many run.
        active: usize,
        /// How many may run.
        limit: usize,
    },
    /// The executions in memory are as large as `max_memory_bytes` allows.
    Memory,
    /// It could not begin, and is tried again.
    TriedAgain,
    /// It begins in a moment.
    Next,
}

/// Why an execution is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseKind {
    /// Someone asked for it.
    Hand,
    /// A step failed and its policy is to pause.
    Failure,
    /// The execution was offered a revision with which it is not compatible.
    Revision,
}

/// Which step of which execution a child does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The execution's number.
    pub number: i64,
    /// The step.
    pub step: Arc<str>,
    /// Its attempt.
    pub attempt: u32,
    /// The branch of the log it belongs to.
    pub branch: u32,
}

/// The facts that a host stores about an execution beside its state.
#[derive(Debug, Clone, Default)]
pub struct ViewOrigin {
    /// Its place among all executions, in the order of their creation; 0 where the host counts none.
    pub number: i64,
    /// Its id.
    pub id: Arc<str>,
    /// The name of its definition.
    pub definition: Arc<str>,
    /// The labels.
    pub labels: Arc<BTreeMap<String, String>>,
    /// The parent execution of which it runs a step; none without a parent.
    pub parent: Option<Parent>,
    /// When it is to be released.
    pub not_before: Option<Timestamp>,
}

/// The facts that a host has about the connected workers.
pub trait TaskCoverage {
    /// Whether a connected worker could take the task, now or when it has room.
    fn serves(&self, task: &Seeking) -> bool;

    /// How many workers the task could go to, in one line; empty where that is not known.
    fn words(&self, task: &Seeking) -> String;
}

/// Nothing is known of workers: every task counts as served.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnknownCoverage;

impl TaskCoverage for UnknownCoverage {
    fn serves(&self, _: &Seeking) -> bool {
        true
    }

    fn words(&self, _: &Seeking) -> String {
        String::new()
    }
}

impl View {
    /// A state as it is shown, of which nothing is known but its log.
    #[must_use]
    pub fn of_state(state: &State) -> Self {
        let name = state.plan().definition().name.as_deref();
        let origin = ViewOrigin {
            id: Arc::clone(state.execution()),
            definition: name.unwrap_or_default().into(),
            ..ViewOrigin::default()
        };
        Self::of(&origin, state, &UnknownCoverage)
    }

    /// A state as it is shown by a host that knows this much more about it.
    #[must_use]
    pub fn of(origin: &ViewOrigin, state: &State, coverage: &impl TaskCoverage) -> Self {
        let mut unserved = seeking(state);
        unserved.retain(|task| !coverage.serves(task));
        let names: Vec<Arc<str>> = unserved.iter().map(|task| Arc::clone(&task.step)).collect();
        let (shown, reason) = sub_state_where(state, &names);
        let (mut steps, mut waits) = (step_views(state), waits(state));
        for task in seeking(state) {
            let detail = coverage.words(&task);
            let stuck = names.contains(&task.step);
            explain(&mut steps, &mut waits, &task.step, &detail, stuck);
        }
        let not_retried = steps.iter().map(|step| not_retried(state, &step.name));
        let states = steps.iter().filter_map(|step| state.step_state(&step.name));
        let children = steps.iter().map(|step| child_of(state, &step.name));
        Self {
            number: origin.number,
            id: Arc::clone(&origin.id),
            definition: Arc::clone(&origin.definition),
            revision: state.plan().shared_revision(),
            labels: Arc::clone(&origin.labels),
            parent: origin.parent.clone(),
            state: state.state(),
            sub_state: shown,
            reason,
            pause: state.pause_cause().map(kind_of),
            pause_cause: state.pause_cause().cloned(),
            cancellation: state.cancellation().cloned(),
            reopened: state.reopened().cloned(),
            forked_from: state.forked_from().cloned(),
            not_rolled_back: state.left_behind().to_vec(),
            unserved: names,
            cause: state.reason(),
            queued: None,
            waits,
            awaited: awaited(state),
            step_states: states.collect(),
            not_retried: not_retried.collect(),
            children: children.collect(),
            steps,
            last_error: mismatch(state).or_else(|| last_error(state)),
            times: state.times(),
            not_before: origin
                .not_before
                .filter(|_| state.state() == ExecutionState::Created),
            input: Arc::clone(state.input()),
            output: state.output().cloned(),
            sequence: state.sequence(),
            branch: state.branch(),
            initiator: Arc::clone(state.initiator()),
            usage: usage(state),
            abandoned_usage: abandoned_usage(state),
        }
    }
}

/// The id of the execution that does a step.
fn child_of(state: &State, step: &str) -> Option<Arc<str>> {
    child_key(state, step).map(|key| child_id(&key))
}

/// Adds to a step that is ready for a worker how many workers are connected; one that no worker can
/// take is waiting.
fn explain(steps: &mut [Step], waits: &mut [Wait], name: &str, detail: &str, stuck: bool) {
    let Some(step) = steps.iter_mut().find(|step| step.name == *name) else {
        return;
    };
    if stuck {
        (step.sub_state, step.reason) = (SubState::Waiting, Some(Reason::NoWorker));
    }
    for wait in &mut step.waits {
        let same = waits.iter_mut().find(|other| *other == wait);
        if wait.kind == WaitKind::Capacity {
            detail.clone_into(&mut wait.detail);
            if let Some(same) = same {
                detail.clone_into(&mut same.detail);
            }
        }
    }
}

impl View {
    /// The same as every client sees it, under this name. Nothing is asked of a table: the core's
    /// own word is the canonical one.
    #[must_use]
    pub fn execution(self, name: ExecutionName) -> Execution {
        let payload = |data: &Data| match &**data {
            Value::Null => None,
            value => Some(Payload::json(value.to_string())),
        };
        let retry = retry_of(&self.steps, self.sub_state);
        let definition = DefinitionName::portable(&self.definition);
        let (cancellation, pause) = (self.cancel_info(), self.pause_info());
        let reopen = self.reopen_info();
        let forked_from = self.forked_from.as_ref().and_then(|id| {
            let id = ExecutionId::new(&**id).ok()?;
            Some(ExecutionName::new(name.provider.clone(), id))
        });
        let not_rolled_back = self.not_rolled_back.iter().map(ToString::to_string);
        let not_rolled_back = not_rolled_back.collect();
        let mut steps = self.steps;
        for (step, child) in steps.iter_mut().zip(&self.children) {
            let id = child.as_deref().and_then(|id| ExecutionId::new(id).ok());
            step.child = id.map(|id| ExecutionName::new(name.provider.clone(), id));
        }
        Execution {
            name,
            definition: definition.map_or_else(|_| String::new(), |name| name.to_string()),
            revision: self.revision.to_string(),
            sub_state: self.sub_state,
            native_state: self.state.to_string(),
            reason: self.reason,
            mapping_basis: MappingBasis::Native,
            retry,
            waits: self.waits,
            steps,
            steps_are_detail: false,
            is_partial: false,
            last_error: self.last_error,
            create_time: self.times.created,
            start_time: self.times.started,
            update_time: self.times.updated,
            end_time: self.times.ended,
            input: payload(&self.input),
            output: self.output.as_ref().and_then(payload),
            labels: (*self.labels).clone(),
            usage: Some(self.usage).filter(|usage| !usage.is_zero()),
            abandoned_usage: Some(self.abandoned_usage).filter(|usage| !usage.is_zero()),
            cancellation,
            pause,
            reopen,
            forked_from,
            forks: Vec::new(),
            not_rolled_back,
            parent_execution: None,
        }
    }

    /// Who cancelled it, in the words of every client.
    #[must_use]
    pub fn cancel_info(&self) -> Option<CancelInfo> {
        let Cancellation { by, comment, at } = self.cancellation.as_ref()?;
        Some(CancelInfo {
            by: by.to_string(),
            comment: comment.to_string(),
            time: Some(*at),
        })
    }

    /// Who reopened the execution, as every client shows it.
    #[must_use]
    pub fn reopen_info(&self) -> Option<ReopenInfo> {
        let Reopened {
            count,
            by,
            at,
            from,
        } = self.reopened.as_ref()?;
        Some(ReopenInfo {
            count: *count,
            by: by.to_string(),
            time: Some(*at),
            from: from.to_string(),
        })
    }

    /// Why it is paused, in the words of every client.
    #[must_use]
    pub fn pause_info(&self) -> Option<PauseInfo> {
        let info = PauseInfo::default();
        Some(match self.pause_cause.as_ref()? {
            PauseCause::ByHand { by, comment } => PauseInfo {
                by: by.to_string(),
                comment: comment.to_string(),
                ..info
            },
            PauseCause::StepFailed { step } => PauseInfo {
                step: step.to_string(),
                ..info
            },
            PauseCause::RevisionMismatch { offered, conflicts } => PauseInfo {
                offered_revision: offered.to_string(),
                conflicts: conflicts.iter().map(ToString::to_string).collect(),
                ..info
            },
        })
    }
}

/// How an execution is being retried: by the step that decides its sub-state, or, once it has ended,
/// by the step that was tried most.
fn retry_of(steps: &[Step], shown: SubState) -> Retry {
    let tried = |step: &&Step| step.retry.attempt > 0;
    let open = steps
        .iter()
        .filter(tried)
        .find(|step| step.sub_state == shown && step.end_time.is_none());
    let most = || {
        steps
            .iter()
            .filter(tried)
            .max_by_key(|step| step.retry.attempt)
    };
    open.or_else(most)
        .map_or(Retry::UNKNOWN, |step| step.retry.clone())
}

/// The code of the error that an execution shows while it is paused for a revision.
const REVISION_MISMATCH: &str = "REVISION_MISMATCH";

/// Why an execution is paused that was offered a revision with which it is not compatible.
fn mismatch(state: &State) -> Option<ExecutionError> {
    let Some(PauseCause::RevisionMismatch { offered, conflicts }) = state.pause_cause() else {
        return None;
    };
    Some(ExecutionError {
        native_code: REVISION_MISMATCH.to_owned(),
        at: state.times().updated,
        ..ExecutionError::message(revision_conflict(offered, conflicts))
    })
}

const fn kind_of(cause: &PauseCause) -> PauseKind {
    match cause {
        PauseCause::ByHand { .. } => PauseKind::Hand,
        PauseCause::StepFailed { .. } => PauseKind::Failure,
        PauseCause::RevisionMismatch { .. } => PauseKind::Revision,
    }
}

/// Why an execution cannot continue under a revision that was offered to it.
#[must_use]
pub fn revision_conflict(offered: &str, conflicts: &[String]) -> String {
    let short = offered.get(..12).unwrap_or(offered);
    format!(
        "revision {short} is not compatible: {}",
        conflicts.join("; ")
    )
}
