//! A history in another system's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::table::{Machine, Vocabulary};
use stateway_machine::{
    Event, ExecutionState, Fact, PauseCause, Plan, State, StepAt, StepState, WaitFor,
};

/// A history in another system's words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Projection {
    /// The moves of the execution.
    pub execution: Vec<Move>,
    /// The moves of each step, by name, steps that have not started included; empty where the other
    /// system has no states for steps.
    pub steps: BTreeMap<String, Vec<Move>>,
    /// The events the other system has names for, in order.
    pub events: Vec<String>,
}

/// One move in another system's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The state before; empty for the first move.
    pub from: String,
    /// The state after.
    pub to: String,
    /// Whether the other system allows the move.
    pub kind: MoveKind,
}

/// Whether another system allows a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveKind {
    /// The first state.
    Begin,
    /// The other system lists the move.
    Legal,
    /// The other system lists the move, but here it is a part of one move of ours that the other system
    /// makes in several: the execution was never in the states between.
    Bridged,
    /// The other system does not list the move, or forbids it, and the table gives the reason.
    Outside,
    /// Neither listed nor explained. Never happens; the soak checks it.
    Illegal,
}

/// Projects a log.
///
/// Situations that a mapping may name, of the open steps or of the step itself: `running/new` (no
/// worker has the attempt and none failed before it), `running/again` (an attempt after a failed one),
/// `running/assigned`, `backing_off`, `correcting`, `compensating`, `waiting/…` (`timer`, `signal`,
/// `approval`, `child`, `person`), `failed/open` and `failed/again` (the first or a later failure, whose
/// consequence is open), `failed/undo` and `cancelled/undo` (while being compensated),
/// `compensating/unknown`, `compensated/unknown`, `failed/unknown` and `cancelled/unknown` (compensated
/// although their outcome is unknown), `pending/again` (to be started again) and `skipped/failure`. Of a paused
/// execution: `hold/by_hand`, `hold/failure`, `hold/mismatch`.
#[must_use]
pub fn project<'e>(
    vocabulary: &Vocabulary,
    plan: Arc<Plan>,
    events: impl IntoIterator<Item = &'e Event>,
) -> Projection {
    let mut state = State::new(plan);
    let mut projection = Projection::default();
    let mut path = Path::new(&vocabulary.execution);
    for event in events {
        let touched = state.apply_touching(event);
        let names = vocabulary.event_names(state.plan(), event);
        projection.events.extend(names.map(str::to_owned));
        let situations = situations(&state);
        if let Fact::ExecutionReopened { from, .. } = &event.fact {
            path.reopen(*from, state.state(), &situations);
        } else {
            path.follow(state.state(), &situations);
        }
        if let Some(machine) = &vocabulary.step {
            project_steps(machine, &state, &touched, &mut projection.steps);
        }
    }
    if let Some(machine) = &vocabulary.step
        && state.is_created()
    {
        begin_steps(machine, &state, &mut projection.steps);
    }
    projection.execution = path.moves;
    projection
}

/// Steps that have not started are where steps begin.
fn begin_steps(
    machine: &Machine<StepState>,
    state: &State,
    steps: &mut BTreeMap<String, Vec<Move>>,
) {
    for step in &state.plan().definition().steps {
        let moves = steps.entry(step.name.clone()).or_default();
        begin(machine, moves);
    }
}

fn begin(machine: &Machine<StepState>, moves: &mut Vec<Move>) {
    if moves.is_empty()
        && let Some(row) = machine.map(StepState::Pending, &[])
        && let Some(first) = &row.state
    {
        walk(machine, moves, first);
    }
}

fn project_steps(
    machine: &Machine<StepState>,
    state: &State,
    touched: &[Arc<str>],
    steps: &mut BTreeMap<String, Vec<Move>>,
) {
    for run in touched.iter().filter_map(|step| state.step(step)) {
        let moves = steps.entry(run.name.to_string()).or_default();
        begin(machine, moves);
        let row = machine.map(run.state, &[situation(&run)]);
        if let Some(to) = row.and_then(|row| row.state.as_ref()) {
            walk(machine, moves, to);
        }
    }
}

/// The way of an execution through the states of another system.
struct Path<'m> {
    machine: &'m Machine<ExecutionState>,
    moves: Vec<Move>,
    /// A state that is only shown if the next move is legal from there.
    passing: Option<&'m str>,
}

impl<'m> Path<'m> {
    const fn new(machine: &'m Machine<ExecutionState>) -> Self {
        Self {
            machine,
            moves: Vec::new(),
            passing: None,
        }
    }

    /// Goes where the state of the execution is mapped to.
    fn follow(&mut self, state: ExecutionState, situations: &[&str]) {
        let Some(row) = self.machine.map(state, situations) else {
            return;
        };
        let Some(to) = &row.state else { return };
        if row.passing {
            self.passing = Some(to);
            return;
        }
        if let Some(through) = self.passing.take() {
            let from = self.moves.last().map(|last| last.to.as_str());
            let leads = from.is_some_and(|from| self.machine.is_legal(from, through));
            if leads && self.machine.is_legal(through, to) {
                walk(self.machine, &mut self.moves, through);
            }
        }
        walk(self.machine, &mut self.moves, to);
    }

    /// The execution had ended on another branch: shows the end, and the move from there.
    fn reopen(&mut self, from: ExecutionState, state: ExecutionState, situations: &[&str]) {
        if from == ExecutionState::RolledBack {
            self.follow(ExecutionState::Compensating, &[]);
        }
        self.follow(from, &[]);
        let row = self.machine.map(state, situations);
        let (Some(to), Some(end)) = (row.and_then(|row| row.state.as_ref()), self.moves.last())
        else {
            return;
        };
        let kind = if self.machine.is_legal(&end.to, to) {
            MoveKind::Legal
        } else if self.machine.reopening.is_some() {
            MoveKind::Outside
        } else {
            MoveKind::Illegal
        };
        let (from, to) = (end.to.clone(), to.clone());
        self.moves.push(Move { from, to, kind });
    }
}

fn situations(state: &State) -> Vec<&'static str> {
    let hold = match state.pause_cause() {
        Some(PauseCause::ByHand { .. }) => Some("hold/by_hand"),
        Some(PauseCause::StepFailed { .. }) => Some("hold/failure"),
        Some(PauseCause::RevisionMismatch { .. }) => Some("hold/mismatch"),
        None => None,
    };
    let open = state.steps().filter(|run| run.open);
    let unsettled = state.steps().filter(|run| run.unsettled);
    let steps = open.chain(unsettled).map(|run| situation(&run));
    steps.chain(hold).collect()
}

fn situation(run: &StepAt<'_>) -> &'static str {
    match (run.state, run.wait) {
        (StepState::Running, _) if run.worker.is_some() => "running/assigned",
        (StepState::Running, _) if run.failures > 0 => "running/again",
        (StepState::Running, _) => "running/new",
        (StepState::Waiting, Some(WaitFor::Timer)) => "waiting/timer",
        (StepState::Waiting, Some(WaitFor::Signal(_))) => "waiting/signal",
        (StepState::Waiting, Some(WaitFor::Approval(_))) => "waiting/approval",
        (StepState::Waiting, Some(WaitFor::Child(_))) => "waiting/child",
        (StepState::Waiting, Some(WaitFor::Person)) => "waiting/person",
        (StepState::Pending, _) if run.attempt > 0 => "pending/again",
        (StepState::Skipped, _) if run.skipped_by_failure => "skipped/failure",
        (StepState::Compensating, _) if run.unknown => "compensating/unknown",
        (StepState::Compensated, _) if run.unknown => "compensated/unknown",
        (StepState::Failed, _) if run.undoing && run.unknown => "failed/unknown",
        (StepState::Failed, _) if run.undoing => "failed/undo",
        (StepState::Cancelled, _) if run.undoing && run.unknown => "cancelled/unknown",
        (StepState::Cancelled, _) if run.undoing => "cancelled/undo",
        (StepState::Failed, _) if run.unsettled && run.failures > 1 => "failed/again",
        (StepState::Failed, _) if run.unsettled || run.parked => "failed/open",
        (state, _) => state.as_str(),
    }
}

/// Goes to a state: directly, over a bridge, or outside of what the other system lists.
fn walk<S: PartialEq + Copy + std::fmt::Display>(
    machine: &Machine<S>,
    moves: &mut Vec<Move>,
    to: &str,
) {
    let Some(from) = moves.last().map(|last| last.to.clone()) else {
        moves.push(Move {
            from: String::new(),
            to: to.to_owned(),
            kind: MoveKind::Begin,
        });
        return;
    };
    if from == to {
        return;
    }
    let mut add = |from: &str, to: &str, kind| {
        moves.push(Move {
            from: from.to_owned(),
            to: to.to_owned(),
            kind,
        });
    };
    if machine.is_legal(&from, to) {
        return add(&from, to, MoveKind::Legal);
    }
    if let Some(through) = machine.bridge(&from, to) {
        let mut at = from.as_str();
        for next in through.iter().map(String::as_str).chain([to]) {
            add(at, next, MoveKind::Bridged);
            at = next;
        }
        return;
    }
    let kind = if machine.is_outside(&from, to) {
        MoveKind::Outside
    } else {
        MoveKind::Illegal
    };
    add(&from, to, kind);
}
