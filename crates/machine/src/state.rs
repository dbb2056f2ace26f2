//! Everything that is known about one execution at one point of its log.
//!
//! The head is small whatever the number of steps; a step is one slot. `decide` copies the head
//! and the slots it touches, so that one transition costs the same in a long workflow as in a
//! short one. What is written of it in a snapshot is said here by serde's attributes; the form
//! itself is the business of `snapshot`.

mod run;

pub(crate) use run::{Decision, PolicyRequest, StepRun};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stateway_model::{Reason, Usage};

use crate::event::{Data, PauseCause, moment};
use crate::plan::{Plan, StepIx};
use crate::{ExecutionState, FailureCause, StepState};

/// One execution at one point of its log.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub(crate) head: Head,
    pub(crate) steps: Vec<StepRun>,
}

/// What is known of the execution as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// Not part of a snapshot: the plan is given when a snapshot is restored.
    #[serde(skip, default = "Plan::none")]
    pub(crate) plan: Arc<Plan>,
    pub(crate) sequence: u64,
    pub(crate) id: Arc<str>,
    pub(crate) branch: u32,
    pub(crate) correlation: Arc<str>,
    pub(crate) initiator: Arc<str>,
    pub(crate) input: Data,
    pub(crate) state: ExecutionState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<Reason>,
    pub(crate) times: Times,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
    pub(crate) deadline: Option<Timestamp>,
    /// Steps with something under way, in the order of the plan; so are the lists below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) open: Vec<StepIx>,
    /// Pending steps whose dependencies are settled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ready: Vec<StepIx>,
    /// Failed steps whose consequence has not been drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unsettled: Vec<StepIx>,
    /// Failed steps for which the execution is paused; tried again when it is resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parked: Vec<StepIx>,
    /// Steps that a person has to decide about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) escalated: Vec<StepIx>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) awaiting_signal: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) awaiting_approval: u32,
    /// Steps that are neither completed nor skipped.
    pub(crate) left: u32,
    /// The step that completed last; each slot names the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_completed: Option<StepIx>,
    /// The next step to check while rolling back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undo_next: Option<StepIx>,
    /// Why the execution is paused. Stored snapshots have the older names of this field and the next.
    #[serde(default, rename = "hold", skip_serializing_if = "Option::is_none")]
    pub(crate) pause_cause: Option<PauseCause>,
    /// Since when the execution is paused or escalated; timeouts of steps stand still meanwhile.
    #[serde(
        default,
        rename = "held_since",
        skip_serializing_if = "Option::is_none",
        with = "moment"
    )]
    pub(crate) paused_since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ending: Option<Ending>,
    /// Everything was rolled back, and a person decides what follows.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) rolled_back: bool,
    /// Completed steps that were not rolled back when the execution ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) left_behind: Vec<Arc<str>>,
    /// What went wrong with the execution as a whole, where no step failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<Fault>,
    /// Who cancelled the execution, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cancelled: Option<Cancellation>,
    /// People who had a part of the execution or of its parent run again, or had the execution adopt
    /// another revision; they may not decide about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redone_by: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reopened: Option<Reopened>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forked_from: Option<Arc<str>>,
    /// Written flat beside the head, so that a payload lies no deeper than in its event.
    #[serde(skip)]
    pub(crate) signals: Arc<Signals>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    pub(crate) output: Option<Data>,
    /// What the branches cost that the execution has left.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub(crate) spent: Usage,
    /// What every attempt of this branch cost so far, children included.
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    pub(crate) usage: Usage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_failed: Option<StepIx>,
}

/// When what happened to the execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// When it became known.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
    pub created: Option<Timestamp>,
    /// When it got its slot.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
    pub started: Option<Timestamp>,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
    pub updated: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "moment")]
    pub ended: Option<Timestamp>,
}

/// What follows once work in flight has ended and everything is compensated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Ending {
    RolledBack,
    /// A person decides about the step whose failure began it.
    Escalated(StepIx),
    Cancelled {
        by: Arc<str>,
        #[serde(default, skip_serializing_if = "str::is_empty")]
        comment: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Reason>,
    },
}

/// What went wrong with an execution as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// A timeout where it is not written.
    #[serde(default = "timed_out", skip_serializing_if = "is_timed_out")]
    pub(crate) cause: FailureCause,
    pub(crate) message: Arc<str>,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub(crate) at: Timestamp,
}

const fn timed_out() -> FailureCause {
    FailureCause::TimedOut
}

#[allow(clippy::trivially_copy_pass_by_ref)] // The form that serde asks for.
fn is_timed_out(cause: &FailureCause) -> bool {
    *cause == FailureCause::TimedOut
}

/// Who cancelled an execution, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancellation {
    /// Who; empty when an approval expired.
    pub by: Arc<str>,
    /// Why, in their words.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub comment: Arc<str>,
    /// When.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
}

/// An execution that had ended runs again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reopened {
    /// How often it was reopened.
    pub count: u32,
    /// Who reopened it last.
    pub by: Arc<str>,
    /// When it was reopened last.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub at: Timestamp,
    /// How it had ended before.
    pub from: ExecutionState,
}

/// Signals that came before anyone waited for them, and the ids of all that came.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Signals {
    pub(crate) waiting: BTreeMap<Arc<str>, VecDeque<WaitingSignal>>,
    pub(crate) seen: BTreeSet<Arc<str>>,
}

/// A signal that no step has taken yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WaitingSignal {
    pub(crate) id: Arc<str>,
    pub(crate) payload: Data,
    /// Who sent it.
    pub(crate) by: Arc<str>,
}

impl State {
    /// An execution of which nothing has happened yet: it waits for [`crate::Verb::Create`].
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        let steps: Vec<StepRun> = plan
            .steps()
            .map(|(_, step)| StepRun::new(step.dependencies))
            .collect();
        Self {
            head: Head::new(plan),
            steps,
        }
    }

    /// The plan it runs by.
    #[must_use]
    pub const fn plan(&self) -> &Arc<Plan> {
        &self.head.plan
    }

    /// How many events made it.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.head.sequence
    }

    /// Whether the execution is known.
    #[must_use]
    pub const fn is_created(&self) -> bool {
        self.head.sequence > 0
    }

    /// The execution's id; empty before it is created.
    #[must_use]
    pub const fn execution(&self) -> &Arc<str> {
        &self.head.id
    }

    /// The branch of the log.
    #[must_use]
    pub const fn branch(&self) -> u32 {
        self.head.branch
    }

    /// Where it is.
    #[must_use]
    pub const fn state(&self) -> ExecutionState {
        self.head.state
    }

    /// Why it is there, where its state alone does not say.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        self.head.reason
    }

    /// Why it is paused, while it is.
    #[must_use]
    pub const fn pause_cause(&self) -> Option<&PauseCause> {
        self.head.pause_cause.as_ref()
    }

    /// What it belongs to.
    #[must_use]
    pub const fn correlation(&self) -> &Arc<str> {
        &self.head.correlation
    }

    /// Who cancelled it and why, where someone did.
    #[must_use]
    pub const fn cancellation(&self) -> Option<&Cancellation> {
        self.head.cancelled.as_ref()
    }

    /// When and by whom it was reopened last, where it was.
    #[must_use]
    pub const fn reopened(&self) -> Option<&Reopened> {
        self.head.reopened.as_ref()
    }

    /// The execution it was forked from, where it was.
    #[must_use]
    pub const fn forked_from(&self) -> Option<&Arc<str>> {
        self.head.forked_from.as_ref()
    }

    /// Completed steps that were not rolled back when it ended.
    #[must_use]
    pub fn left_behind(&self) -> &[Arc<str>] {
        &self.head.left_behind
    }

    /// The compensation that is in a worker's hands, and the worker.
    #[must_use]
    pub fn compensation_in_hands(&self) -> Option<(Arc<str>, Arc<str>)> {
        self.head.open.iter().find_map(|ix| {
            let run = self.run(*ix);
            let worker = run.worker.as_ref()?;
            (run.state == StepState::Compensating && run.resume_at.is_none())
                .then(|| (self.head.plan.name(*ix), Arc::clone(worker)))
        })
    }

    /// People who had a part of it or of its parent run again, or had it adopt another revision.
    #[must_use]
    pub fn redone_by(&self) -> &[Arc<str>] {
        &self.head.redone_by
    }

    /// Who started it.
    #[must_use]
    pub const fn initiator(&self) -> &Arc<str> {
        &self.head.initiator
    }

    /// When what happened to it.
    #[must_use]
    pub const fn times(&self) -> Times {
        self.head.times
    }

    /// When its own timeout ends it.
    #[must_use]
    pub const fn deadline(&self) -> Option<Timestamp> {
        self.head.deadline
    }

    /// What it was started with.
    #[must_use]
    pub const fn input(&self) -> &Data {
        &self.head.input
    }

    /// What it answered.
    #[must_use]
    pub const fn output(&self) -> Option<&Data> {
        self.head.output.as_ref()
    }

    /// Where a step is.
    #[must_use]
    pub fn step_state(&self, step: &str) -> Option<StepState> {
        self.head
            .plan
            .find(step)
            .map(|ix| self.steps[ix.at()].state)
    }

    /// How many attempts of a step failed since it was last begun afresh, and how many of them
    /// were corrections: what its retry policy counts.
    #[must_use]
    pub fn failures(&self, step: &str) -> Option<(u32, u32)> {
        let run = self.run(self.head.plan.find(step)?);
        Some((run.failures, run.corrections))
    }

    /// Every step and where it is, in the order of the definition.
    pub fn step_states(&self) -> impl Iterator<Item = (&str, StepState)> {
        self.head
            .plan
            .steps()
            .map(|(ix, step)| (&*step.name, self.steps[ix.at()].state))
    }

    pub(crate) fn run(&self, ix: StepIx) -> &StepRun {
        &self.steps[ix.at()]
    }

    /// When a step's timeout is due as of the newest event. The clock stops while the execution is paused or
    /// escalated; the state keeps the time when that began.
    pub(crate) fn limit(&self, due: Option<Timestamp>) -> Option<Timestamp> {
        match (self.head.paused_since, self.head.times.updated) {
            (Some(since), Some(now)) => {
                due.map(|due| due.checked_add(now.duration_since(since)).unwrap_or(due))
            }
            _ => due,
        }
    }

    /// The steps that the next event may move without naming them.
    pub(crate) fn astir(&self) -> Vec<StepIx> {
        let head = &self.head;
        // A resume after a rollback starts over with whatever was rolled back or given up.
        if head.rolled_back {
            return head.plan.steps().map(|(ix, _)| ix).collect();
        }
        head.open
            .iter()
            .chain(&head.unsettled)
            .chain(&head.parked)
            .copied()
            .collect()
    }
}

impl Head {
    fn new(plan: Arc<Plan>) -> Self {
        let ready = plan
            .steps()
            .filter(|(_, step)| step.dependencies == 0)
            .map(|(ix, _)| ix)
            .collect();
        let left = u32::try_from(plan.len()).unwrap_or(u32::MAX);
        Self {
            plan,
            sequence: 0,
            id: "".into(),
            branch: 0,
            correlation: "".into(),
            initiator: "".into(),
            input: Data::new(Value::Null),
            state: ExecutionState::Created,
            reason: None,
            times: Times::default(),
            deadline: None,
            open: Vec::new(),
            ready,
            unsettled: Vec::new(),
            parked: Vec::new(),
            escalated: Vec::new(),
            awaiting_signal: 0,
            awaiting_approval: 0,
            left,
            last_completed: None,
            undo_next: None,
            pause_cause: None,
            paused_since: None,
            ending: None,
            rolled_back: false,
            left_behind: Vec::new(),
            fault: None,
            cancelled: None,
            redone_by: Vec::new(),
            reopened: None,
            forked_from: None,
            signals: Arc::default(),
            output: None,
            spent: Usage::default(),
            usage: Usage::default(),
            last_failed: None,
        }
    }
}

/// Notes a person or worker once.
pub(crate) fn note(names: &mut Vec<Arc<str>>, name: &Arc<str>) {
    if !name.is_empty() && !names.contains(name) {
        names.push(Arc::clone(name));
    }
}

/// Puts a step into a sorted list.
pub(crate) fn insert(list: &mut Vec<StepIx>, ix: StepIx) {
    if let Err(at) = list.binary_search(&ix) {
        list.insert(at, ix);
    }
}

/// Each step once, in the order of the plan, and only steps that it has.
pub(crate) fn tidy(list: &mut Vec<StepIx>, state: &State) {
    list.retain(|ix| ix.at() < state.steps.len());
    list.sort_unstable();
    list.dedup();
}

/// Takes a step out of a sorted list.
pub(crate) fn remove(list: &mut Vec<StepIx>, ix: StepIx) {
    if let Ok(at) = list.binary_search(&ix) {
        list.remove(at);
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// An output that is `null` is an output.
pub(crate) fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Data>, D::Error> {
    Data::deserialize(from).map(Some)
}
