//! Whether a state that was read is one that a log can lead to, as far as the machine relies on
//! it: places exist, lists and counts agree with the slots they are about, chains end.

use crate::StepState;
use crate::event::WaitFor;
use crate::plan::StepIx;
use crate::state::{State, StepRun};

type Checked = Result<(), &'static str>;

pub(super) fn check(state: &State) -> Checked {
    ensure(
        state.steps.len() == state.plan().len(),
        "its number of steps differs from the plan",
    )?;
    places_exist(state)?;
    lists_agree(state)?;
    counts_agree(state)?;
    completions_end(state)?;
    signals_are_known(state)
}

const fn ensure(holds: bool, broken: &'static str) -> Checked {
    if holds { Ok(()) } else { Err(broken) }
}

fn places_exist(state: &State) -> Checked {
    let head = &state.head;
    let lists = [
        &head.open,
        &head.ready,
        &head.unsettled,
        &head.parked,
        &head.escalated,
    ];
    let single = [head.last_completed, head.undo_next, head.last_failed];
    let before = state.steps.iter().filter_map(|run| run.completed_before);
    let mut all = lists
        .into_iter()
        .flatten()
        .copied()
        .chain(single.into_iter().flatten())
        .chain(before);
    ensure(
        all.all(|ix| ix.at() < state.steps.len()),
        "it names a step that does not exist",
    )?;
    let sorted = |list: &Vec<StepIx>| list.is_sorted_by(|a, b| a < b);
    ensure(
        lists.into_iter().all(sorted),
        "a list is not in the order of the plan",
    )
}

fn lists_agree(state: &State) -> Checked {
    let head = &state.head;
    let all =
        |list: &[StepIx], fits: fn(&StepRun) -> bool| list.iter().all(|ix| fits(state.run(*ix)));
    let open = state.steps.iter().filter(|run| run.state.is_open()).count();
    ensure(
        open == head.open.len() && all(&head.open, |run| run.state.is_open()),
        "the list of open steps is wrong",
    )?;
    ensure(
        all(&head.ready, |run| {
            run.state == StepState::Pending && run.unmet == 0
        }),
        "a step that is not ready is listed as ready",
    )?;
    ensure(
        all(&head.unsettled, is_failed) && all(&head.parked, is_failed),
        "a step that has not failed is listed as failed",
    )?;
    ensure(
        all(&head.escalated, |run| run.wait == Some(WaitFor::Person)),
        "a step that is not escalated is listed as escalated",
    )
}

fn is_failed(run: &StepRun) -> bool {
    run.state == StepState::Failed
}

fn counts_agree(state: &State) -> Checked {
    let head = &state.head;
    let waits = |wanted: fn(&WaitFor) -> bool| {
        let runs = head.open.iter().map(|ix| state.run(*ix));
        runs.filter(|run| run.wait.as_ref().is_some_and(wanted))
            .count()
    };
    let same = |count: u32, found: usize| usize::try_from(count).is_ok_and(|count| count == found);
    ensure(
        same(
            head.awaiting_signal,
            waits(|wait| matches!(wait, WaitFor::Signal(_))),
        ) && same(
            head.awaiting_approval,
            waits(|wait| matches!(wait, WaitFor::Approval(_))),
        ),
        "the number of waiting steps differs from the stored number",
    )?;
    let mut steps = state.plan().steps().map(|(ix, step)| (state.run(ix), step));
    ensure(
        steps.all(|(run, step)| run.unmet <= step.dependencies),
        "a step waits for more than it depends on",
    )?;
    ensure(
        usize::try_from(head.left).is_ok_and(|left| left <= state.steps.len()),
        "more steps are left than the plan has",
    )
}

/// Each step completes once, so that the backward walk over completed steps ends.
fn completions_end(state: &State) -> Checked {
    let mut led_to = vec![false; state.steps.len()];
    let head = state.head.last_completed.into_iter();
    for ix in head.chain(state.steps.iter().filter_map(|run| run.completed_before)) {
        let before = std::mem::replace(&mut led_to[ix.at()], true);
        ensure(!before, "two completed steps follow the same step")?;
    }
    let mut next = state.head.last_completed;
    for _ in 0..=state.steps.len() {
        match next {
            None => return Ok(()),
            Some(ix) => next = state.run(ix).completed_before,
        }
    }
    Err("the order of completed steps has a cycle")
}

fn signals_are_known(state: &State) -> Checked {
    let signals = &state.head.signals;
    let mut ids = signals.waiting.values().flatten().map(|signal| &signal.id);
    ensure(
        ids.all(|id| signals.seen.contains(id)),
        "a pending signal was never received",
    )
}
