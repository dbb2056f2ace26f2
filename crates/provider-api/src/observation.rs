//! The observation of a provider, in the terms of the engine. Only the built-in engine adds a
//! sub-state.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use stateway_model::{
    CancelInfo, ExecutionError, ExecutionId, Labels, PauseInfo, Payload, Progress, Reason,
    ReopenInfo, RetryBasis, SubState, Usage, Wait,
};

use crate::Version;
use crate::table::Qualifier;

/// An execution as its engine shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The engine's id.
    pub id: ExecutionId,
    /// Places this among the other observations of the execution. `None` where the engine has
    /// nothing to order by: then the observation that was asked for later counts as the newer one.
    pub version: Option<Version>,
    /// What it runs, if the engine reports it.
    pub definition: Option<ObservedDefinition>,
    /// The definition's revision; empty when there is none.
    pub revision: String,
    /// The native state with its qualifiers.
    pub native: NativeState,
    /// The sub-state and its reason, from an engine that computes them itself: the built-in engine and
    /// the hosts of portable definitions. `None`: [`classify`](crate::classify) computes them from the provider's table.
    pub reported: Option<(SubState, Option<Reason>)>,
    /// The evidence about its attempts. `None` means that the engine shows nothing, not that there
    /// were no retries.
    pub retry: Option<RetryEvidence>,
    /// The waits of the execution itself, without those of its steps.
    pub waits: Vec<Wait>,
    /// Its steps, where the engine shows them.
    pub steps: Vec<StepObservation>,
    /// The provider reports steps in the full view only. Then the steps have no effect on the state of
    /// the execution, which must show the same in every view.
    pub steps_are_detail: bool,
    /// The adapter has read only a part of the execution, and another process may have read more. Then
    /// the execution has no etag.
    pub is_partial: bool,
    /// The last error.
    pub last_error: Option<ExecutionError>,
    /// When it was accepted.
    pub create_time: Option<Timestamp>,
    /// When it began to run.
    pub start_time: Option<Timestamp>,
    /// When it last changed.
    pub update_time: Option<Timestamp>,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// The input.
    pub input: Option<Payload>,
    /// The output.
    pub output: Option<Payload>,
    /// The labels.
    pub labels: Labels,
    /// The usage of its attempts so far, if the engine reports it.
    pub usage: Option<Usage>,
    /// The part of `usage` that branches cost which the execution has left.
    pub abandoned_usage: Option<Usage>,
    /// Who cancelled it and why, where someone did.
    pub cancellation: Option<CancelInfo>,
    /// Who paused it and why, while it is paused.
    pub pause: Option<PauseInfo>,
    /// When and by whom it was reopened last, where it was.
    pub reopen: Option<ReopenInfo>,
    /// The execution of this provider that it was forked from.
    pub forked_from: Option<ExecutionId>,
    /// The executions that were forked from it, oldest first; in the full view only.
    pub forks: Vec<ExecutionId>,
    /// Completed steps that were not rolled back when it ended.
    pub not_rolled_back: Vec<String>,
    /// The execution of this provider that it does a step of; in the full view only.
    pub parent_execution: Option<ExecutionId>,
    /// Further evidence for [`explain`](crate::Mapper::explain), a line each.
    pub notes: Vec<String>,
}

impl Observation {
    /// An observation of which only id and state are known.
    #[must_use]
    pub const fn new(id: ExecutionId, native: NativeState) -> Self {
        Self {
            id,
            version: None,
            definition: None,
            revision: String::new(),
            native,
            reported: None,
            retry: None,
            waits: Vec::new(),
            steps: Vec::new(),
            steps_are_detail: false,
            is_partial: false,
            last_error: None,
            create_time: None,
            start_time: None,
            update_time: None,
            end_time: None,
            input: None,
            output: None,
            labels: Labels::new(),
            usage: None,
            abandoned_usage: None,
            cancellation: None,
            pause: None,
            reopen: None,
            forked_from: None,
            forks: Vec::new(),
            not_rolled_back: Vec::new(),
            parent_execution: None,
            notes: Vec::new(),
        }
    }
}

/// What an execution runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedDefinition {
    /// A definition of the engine's own, by its native id.
    Native(String),
    /// A portable definition, by its id.
    Portable(String),
}

/// A native state with its qualifiers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct NativeState {
    /// The native state, verbatim.
    pub state: String,
    /// Further facts that the provider's table asks about, by the table's names
    /// (`completion_result = "failure"`).
    pub qualifiers: BTreeMap<String, String>,
}

impl NativeState {
    /// A native state without qualifiers.
    #[must_use]
    pub fn new(state: impl Into<String>) -> Self {
        Self {
            state: state.into(),
            qualifiers: BTreeMap::new(),
        }
    }

    /// Adds a qualifier.
    #[must_use]
    pub fn with(mut self, qualifier: Qualifier, value: impl Into<String>) -> Self {
        let name = qualifier.as_str().to_owned();
        self.qualifiers.insert(name, value.into());
        self
    }
}

/// A step as its engine shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepObservation {
    /// Unique within the execution.
    pub name: String,
    /// The native state with its qualifiers.
    pub native: NativeState,
    /// The same as [`Observation::reported`], for the step.
    pub reported: Option<(SubState, Option<Reason>)>,
    /// The evidence about its attempts.
    pub retry: Option<RetryEvidence>,
    /// What it waits for.
    pub waits: Vec<Wait>,
    /// The last error of the step.
    pub last_error: Option<ExecutionError>,
    /// When its first attempt started.
    pub start_time: Option<Timestamp>,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// How far its present attempt is, if the worker reports it.
    pub progress: Option<Progress>,
    /// The usage of its attempts so far, if the engine reports it.
    pub usage: Option<Usage>,
    /// The execution of this provider that does it.
    pub child: Option<ExecutionId>,
    /// The steps that must settle before this one starts; only while it has not started.
    pub blocked_by: Vec<String>,
    /// Further evidence for [`explain`](crate::Mapper::explain), a line each.
    pub notes: Vec<String>,
}

impl StepObservation {
    /// A step of which only name and state are known.
    #[must_use]
    pub fn new(name: impl Into<String>, native: NativeState) -> Self {
        Self {
            name: name.into(),
            native,
            reported: None,
            retry: None,
            waits: Vec::new(),
            last_error: None,
            start_time: None,
            end_time: None,
            progress: None,
            usage: None,
            child: None,
            blocked_by: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// What is known of the attempts of an execution or a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryEvidence {
    /// The attempt that runs or that failed last, from 1.
    pub attempt: u32,
    /// How many there may be in all; 0 is unlimited, `None` is not known.
    pub max_attempts: Option<u32>,
    /// Where the attempt is.
    pub phase: RetryPhase,
    /// When the next attempt starts.
    pub next_attempt_time: Option<Timestamp>,
    /// The pause before it.
    pub delay: Option<Duration>,
    /// It may start up to this much later.
    pub jitter: Option<Duration>,
    /// Why the last attempt failed.
    pub last_error: Option<ExecutionError>,
    /// Whether the engine reports the evidence or the adapter infers it. Never
    /// [`RetryBasis::None`]: without evidence there is no value.
    pub basis: RetryBasis,
}

impl RetryEvidence {
    /// The engine reports this attempt, and it is under way.
    #[must_use]
    pub const fn reported(attempt: u32) -> Self {
        Self {
            attempt,
            max_attempts: None,
            phase: RetryPhase::UnderWay,
            next_attempt_time: None,
            delay: None,
            jitter: None,
            last_error: None,
            basis: RetryBasis::Reported,
        }
    }
}

/// Where an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPhase {
    /// The attempt runs, or is ready to.
    UnderWay,
    /// The attempt failed and another one is scheduled.
    BetweenAttempts,
    /// The attempt failed and no other one follows by itself.
    Exhausted,
}
