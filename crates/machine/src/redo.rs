//! Running a part of an execution again: from which step, where the log is left, and how it continues.
//!
//! A success is final, so a completed execution is forked: a copy of the log continues as another
//! execution. Any other execution continues on a new branch of its log.

use std::collections::BTreeSet;
use std::sync::Arc;

use stateway_definition::StepKind;
use stateway_model::Step;

use crate::event::{Data, Redo};
use crate::spending::spent_by_step;
use crate::view::{last_error, step_views, usage};
use crate::{
    Event, ExecutionState, Fact, Rejection, Resolver, State, StepState, Verb, check_resolves_all,
};

/// What a person wants to run again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RedoRequest {
    /// The step to begin with; empty: the step that failed or was interrupted.
    pub step: Arc<str>,
    /// Every step runs again; no step, input or feedback can be given.
    pub from_start: bool,
    /// Other input for the step.
    pub input: Option<Data>,
    /// A message for the worker that runs the step; empty when there is none.
    pub feedback: Arc<str>,
}

/// Where a log is left: before the first start of a step, or of a step that was compensated since.
///
/// A host reads the log twice. It shows every event to [`CutOff::note`] first, and then keeps the events
/// as long as [`CutOff::keeps`] says so.
#[derive(Debug, Clone)]
pub struct CutOff {
    step: Option<Arc<str>>,
    again: BTreeSet<Arc<str>>,
    first: Option<Arc<str>>,
}

impl CutOff {
    /// Checks a request and finds the step to begin with.
    ///
    /// # Errors
    /// A worker is compensating a step, an escalation is open that the person may not resolve, or the
    /// request names no step that can run again.
    pub fn of(
        state: &State,
        request: &RedoRequest,
        resolver: &Resolver<'_>,
    ) -> Result<Self, Rejection> {
        if let Some((step, worker)) = state.compensation_in_hands() {
            return Err(Rejection::CompensationInProgress { step, worker });
        }
        check_resolves_all(state, resolver)
            .map_err(|rejection| Rejection::EscalationUnresolved(Box::new(rejection)))?;
        let step = step_to_redo(state, request)?;
        Ok(Self {
            again: step.iter().map(Arc::clone).collect(),
            step,
            first: None,
        })
    }

    /// Notes an event of the whole log: a step that was compensated, or was about to be, runs again too.
    pub fn note(&mut self, event: &Event) {
        if let Fact::StepCompensationStarted { step, .. } = &event.fact {
            self.again.insert(Arc::clone(step));
        }
    }

    /// Whether the new branch shares the event. From the first event that it does not share on, the
    /// log is left.
    pub fn keeps(&mut self, event: &Event) -> bool {
        if self.first.is_some() {
            return false;
        }
        let Some(begun) = event.fact.begins() else {
            return true;
        };
        if self.step.is_some() && !self.again.contains(begun) {
            return true;
        }
        self.first = Some(Arc::clone(begun));
        false
    }

    /// Whether the log is left already.
    #[must_use]
    pub const fn is_found(&self) -> bool {
        self.first.is_some()
    }

    /// What runs again, once the log was read. The state is the one where the log is left.
    ///
    /// # Errors
    /// The step has not begun, does not exist where the log is left, or takes no input or feedback.
    pub fn redo(&self, before: &State, request: &RedoRequest) -> Result<Redo, Rejection> {
        let Some(first) = &self.first else {
            let step = self.step.clone();
            return Err(Rejection::NotBegun { step });
        };
        let step = Arc::clone(self.step.as_ref().unwrap_or(first));
        // The execution may have adopted the step with a revision, after the log is left.
        if before.step_state(&step).is_none() {
            return Err(Rejection::UnknownStep { step });
        }
        check_redo(before, &step, request)?;
        Ok(Redo {
            step,
            input: request.input.clone(),
            feedback: Arc::clone(&request.feedback),
        })
    }
}

/// Whether an execution that runs again is forked, because a success is final.
#[must_use]
pub fn is_forked(state: &State) -> bool {
    state.state() == ExecutionState::Completed
}

/// The command that continues an execution on a new branch. `left` is the state that is left, `before`
/// the state where the log is left.
#[must_use]
pub fn open_branch(left: &State, before: &State, branch: u32, by: Arc<str>, redo: Redo) -> Verb {
    Verb::OpenBranch {
        branch,
        cutoff: before.sequence(),
        by,
        redo: Some(Box::new(redo)),
        reopened: Some(left.state()).filter(|state| state.is_terminal()),
        spent: usage(left).beyond(usage(before)),
        spent_by_step: spent_by_step(left, before),
    }
}

/// The command that continues the copy of a log as an execution of its own. `before` is the state of
/// the source where the log is left.
#[must_use]
pub fn fork(source: Arc<str>, before: &State, by: Arc<str>, redo: Redo) -> Verb {
    Verb::Fork {
        from: source,
        branch: before.branch(),
        cutoff: before.sequence(),
        by,
        redo: Box::new(redo),
    }
}

/// The events of a source under the id of its fork, the first of them caused by the request to fork.
/// The branches of the source are one log in the fork.
#[must_use]
pub fn forked_events(events: Vec<Event>, id: &Arc<str>, cause: &Arc<str>) -> Vec<Event> {
    let rename = |mut event: Event| {
        match &mut event.fact {
            Fact::ExecutionCreated {
                execution, branch, ..
            } => {
                *execution = Arc::clone(id);
                *branch = 0;
                event.causation = Arc::clone(cause);
            }
            Fact::BranchOpened { branch, parent, .. } => (*branch, *parent) = (0, 0),
            _ => {}
        }
        event
    };
    events.into_iter().map(rename).collect()
}

/// The step to start with: the one named, the one that failed, or the first one that a cancellation
/// interrupted; none for the first of all.
fn step_to_redo(state: &State, request: &RedoRequest) -> Result<Option<Arc<str>>, Rejection> {
    if request.from_start {
        let alone =
            request.step.is_empty() && request.input.is_none() && request.feedback.is_empty();
        return alone.then_some(None).ok_or(Rejection::StepAndStart);
    }
    if request.step.is_empty() {
        // The error of the execution as a whole names no step: its timeout interrupted the open ones.
        let failed = last_error(state).map(|error| error.step);
        let failed = failed.filter(|step| !step.is_empty());
        let failed = failed.or_else(|| interrupted(state));
        let failed = failed.ok_or(Rejection::NothingFailed)?;
        return Ok(Some(failed.into()));
    }
    let step = Arc::clone(&request.step);
    if state.step_state(&step).is_none() {
        return Err(Rejection::UnknownStep { step });
    }
    Ok(Some(step))
}

fn check_redo(before: &State, step: &Arc<str>, request: &RedoRequest) -> Result<(), Rejection> {
    let kind = before.plan().step_definition(step).map(|step| &step.kind);
    let waits = matches!(
        kind,
        Some(StepKind::Sleep { .. } | StepKind::Signal { .. } | StepKind::Approval { .. })
    );
    let step = Arc::clone(step);
    if waits && request.input.is_some() {
        return Err(Rejection::TakesNoInput { step });
    }
    if !matches!(kind, Some(StepKind::Task { .. })) && !request.feedback.is_empty() {
        return Err(Rejection::TakesNoFeedback { step });
    }
    Ok(())
}

/// The step that started first among those that a cancellation interrupted.
fn interrupted(state: &State) -> Option<String> {
    let cancelled = |step: &Step| step.native_state == StepState::Cancelled.as_str();
    step_views(state)
        .into_iter()
        .filter(|step| cancelled(step) && step.start_time.is_some())
        .min_by_key(|step| step.start_time)
        .map(|step| step.name)
}
