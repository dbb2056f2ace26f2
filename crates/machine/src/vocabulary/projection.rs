//! A history in a seed's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::table::{Machine, Vocabulary};
use crate::event::{PauseCause, WaitFor};
use crate::evolve::apply;
use crate::plan::{Plan, StepIx};
use crate::state::tidy;
use crate::{Event, State, StepState};

/// A history in a seed's words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Projection {
    /// The moves of the execution.
    pub execution: Vec<Move>,
    /// The moves of each step, by name; empty where the seed has no machine for steps.
    pub steps: BTreeMap<String, Vec<Move>>,
    /// The events the seed has names for, in order.
    pub events: Vec<String>,
}

/// One move in a seed's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// From where; empty for the first.
    pub from: String,
    /// To where.
    pub to: String,
    /// What the seed says about it.
    pub kind: MoveKind,
}

/// What a seed says about a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveKind {
    /// The first state.
    Begin,
    /// The seed lists it.
    Legal,
    /// The seed lists it, but here it stands for a part of a move that the seed makes in several:
    /// the execution was never seen there.
    Bridged,
    /// The seed has no word for it, and the table says so.
    Outside,
    /// The seed does not allow it. Never happens; the soak looks for it.
    Illegal,
}

/// Projects a log.
///
/// Situations that a mapping may ask for, of the open steps or of the step itself: `running/new`
/// (first attempt, no worker yet), `running/again` (a later one), `running/assigned`,
/// `backing_off`, `correcting`, `compensating`, `waiting/…` (`timer`, `signal`, `approval`,
/// `child`, `person`), `failed/open` (its consequence is open), `failed/undo` and
/// `cancelled/undo` (while being undone), `pending/again` (to be begun afresh) and
/// `skipped/failure`. Of a held execution: `hold/by_hand`, `hold/failure`, `hold/mismatch`.
#[must_use]
pub fn project<'e>(
    vocabulary: &Vocabulary,
    plan: Arc<Plan>,
    events: impl IntoIterator<Item = &'e Event>,
) -> Projection {
    let mut state = State::new(plan);
    let mut projection = Projection::default();
    for event in events {
        let mut touched = state.astir();
        apply(&mut state, event);
        touched.extend(event.fact.step().and_then(|step| state.plan().find(step)));
        tidy(&mut touched, &state);
        projection
            .events
            .extend(vocabulary.event_name(&event.fact).map(str::to_owned));
        let situations = situations(&state);
        if let Some(to) = vocabulary.execution.map(state.state(), &situations) {
            walk(&vocabulary.execution, &mut projection.execution, to);
        }
        if let Some(machine) = &vocabulary.step {
            project_steps(machine, &state, &touched, &mut projection.steps);
        }
    }
    projection
}

fn project_steps(
    machine: &Machine<StepState>,
    state: &State,
    touched: &[StepIx],
    steps: &mut BTreeMap<String, Vec<Move>>,
) {
    for ix in touched {
        let run = state.run(*ix);
        let moves = steps
            .entry(state.plan().step(*ix).name.to_string())
            .or_default();
        if moves.is_empty()
            && let Some(first) = machine.map(StepState::Pending, &[])
        {
            walk(machine, moves, first);
        }
        if let Some(to) = machine.map(run.state, &[situation(state, *ix)]) {
            walk(machine, moves, to);
        }
    }
}

fn situations(state: &State) -> Vec<&'static str> {
    let head = &state.head;
    let hold = match &head.hold {
        Some(PauseCause::ByHand { .. }) => Some("hold/by_hand"),
        Some(PauseCause::StepFailed { .. }) => Some("hold/failure"),
        Some(PauseCause::RevisionMismatch { .. }) => Some("hold/mismatch"),
        None => None,
    };
    let steps = head
        .open
        .iter()
        .chain(&head.unsettled)
        .map(|ix| situation(state, *ix));
    steps.chain(hold).collect()
}

fn situation(state: &State, ix: StepIx) -> &'static str {
    let run = state.run(ix);
    let open = |list: &[StepIx]| list.binary_search(&ix).is_ok();
    match (run.state, &run.wait) {
        (StepState::Running, _) if run.worker.is_some() => "running/assigned",
        (StepState::Running, _) if run.attempt > 1 => "running/again",
        (StepState::Running, _) => "running/new",
        (StepState::Waiting, Some(WaitFor::Timer)) => "waiting/timer",
        (StepState::Waiting, Some(WaitFor::Signal(_))) => "waiting/signal",
        (StepState::Waiting, Some(WaitFor::Approval(_))) => "waiting/approval",
        (StepState::Waiting, Some(WaitFor::Child(_))) => "waiting/child",
        (StepState::Waiting, Some(WaitFor::Person)) => "waiting/person",
        (StepState::Pending, _) if run.attempt > 0 => "pending/again",
        (StepState::Skipped, _) if run.skipped_by_failure => "skipped/failure",
        (StepState::Failed, _) if run.undoing => "failed/undo",
        (StepState::Cancelled, _) if run.undoing => "cancelled/undo",
        (StepState::Failed, _) if open(&state.head.unsettled) || open(&state.head.parked) => {
            "failed/open"
        }
        (state, _) => state.as_str(),
    }
}

/// Goes to a state: directly, over a bridge, or outside the seed's machine.
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
