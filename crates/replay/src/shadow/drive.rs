//! Running a definition on recorded input: no worker, no person, no clock. The earliest thing that is
//! recorded comes next and is decided about like a command of a live run. Where nothing is recorded
//! that would end an attempt or a wait, the step stays where it is and is named.

mod known;
mod next;
mod take;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use stateway_model::Usage;

use super::recorded::Recorded;
use super::window::Windows;
use super::{Unrecorded, limit::MOST_EVENTS};
use stateway_driver::{Answer, Step, handle};
use stateway_machine::{Command, Event, Fact, Plan, Rejection, State, Task, Timer, Verb, VerbName};

use next::{Due, ShadowAction};
use take::Taking;

/// What a run led to.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) state: State,
    pub(super) events: Vec<Event>,
    pub(super) refused: Vec<Refused>,
    pub(super) unrecorded: Vec<Unrecorded>,
    /// It was stopped because it did not end.
    pub(super) endless: bool,
}

/// Something that was accepted in the recorded run and is rejected here.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) sequence: u64,
    pub(super) verb: VerbName,
    pub(super) why: Rejection,
}

/// Runs a plan on the recorded input of another. `same_schema` says whether a step checks its
/// output as it did then.
pub(super) fn drive(
    plan: &Arc<Plan>,
    recorded: Recorded,
    same_schema: impl Fn(&str) -> bool,
) -> Driven {
    let mut rerun = Rerun {
        state: State::new(Arc::clone(plan)),
        clock: recorded
            .acts
            .front()
            .map_or(Timestamp::UNIX_EPOCH, |act| act.at),
        recorded,
        events: Vec::new(),
        opened: BTreeMap::new(),
        escalated: BTreeMap::new(),
        paused: None,
        windows: Windows::default(),
        without_effect: BTreeSet::new(),
        refused: Vec::new(),
        same_schema: &same_schema,
    };
    while rerun.events.len() < MOST_EVENTS {
        let Some(due) = rerun.next() else { break };
        rerun.carry(&due);
    }
    let unrecorded = rerun.unrecorded();
    Driven {
        endless: rerun.events.len() >= MOST_EVENTS,
        state: rerun.state,
        events: rerun.events,
        refused: rerun.refused,
        unrecorded,
    }
}

struct Rerun<'s> {
    state: State,
    clock: Timestamp,
    recorded: Recorded,
    events: Vec<Event>,
    opened: BTreeMap<Task, Timestamp>,
    escalated: BTreeMap<Arc<str>, Timestamp>,
    paused: Option<Timestamp>,
    windows: Windows,
    /// Timers that fired and changed nothing.
    without_effect: BTreeSet<(Timer, Timestamp)>,
    refused: Vec<Refused>,
    same_schema: &'s dyn Fn(&str) -> bool,
}

impl Rerun<'_> {
    /// Lets something happen. What was used is not used a second time.
    fn carry(&mut self, next: &Due) {
        self.clock = self.clock.max(next.at);
        match self.take(next) {
            Some(Taking::Command(verb, cause)) => self.send(next, verb, cause),
            Some(Taking::Early(verb, cause)) => {
                let redone_by = self.state.redone_by().to_vec();
                self.send(next, verb, cause);
                self.state.set_redone_by(redone_by);
            }
            Some(Taking::Continue { by, spent, forked }) => self.proceed(by, &spent, forked),
            None => {}
        }
    }

    fn send(&mut self, next: &Due, verb: Verb, cause: Arc<str>) {
        let name = verb.name();
        let last = self.state.times().updated;
        let handled = handle(&mut self.state, Command::new(cause, verb), self.clock);
        let answer = handled.as_ref().map(Step::answer);
        if let ShadowAction::Fire(timer, set_for) = &next.what
            && answer != Ok(Answer::Accepted)
        {
            self.without_effect.insert((timer.clone(), *set_for));
            return;
        }
        match handled {
            Ok(step) => {
                let events = step.events.into_iter();
                events.for_each(|event| self.record(event, last));
            }
            Err(why) => self.refused.push(Refused {
                sequence: next.sequence,
                verb: name,
                why,
            }),
        }
    }

    /// The place in the log of a branch that was opened at the beginning.
    fn proceed(
        &mut self,
        by: Option<Arc<str>>,
        (whole, by_step): &(Usage, BTreeMap<Arc<str>, Usage>),
        forked: bool,
    ) {
        if let Some(by) = by
            && !self.state.redone_by().contains(&by)
        {
            let mut people = self.state.redone_by().to_vec();
            people.push(by);
            self.state.set_redone_by(people);
        }
        self.state.add_spent(*whole, by_step);
        if forked {
            self.state.clear_usage();
        }
    }

    /// Records an event that is part of the state already. `last` is the time of the event before
    /// its command.
    fn record(&mut self, event: Event, last: Option<Timestamp>) {
        match &event.fact {
            Fact::StepStarted { step, attempt, .. }
            | Fact::StepWaiting { step, attempt, .. }
            | Fact::CorrectionRequested { step, attempt, .. } => {
                self.opened
                    .insert(Task::of(Arc::clone(step), *attempt), event.at);
            }
            Fact::StepCompensationStarted { step, attempt, .. } => {
                self.opened
                    .insert(Task::undo(Arc::clone(step), *attempt), event.at);
            }
            Fact::ExecutionEscalated { step, .. } => {
                self.escalated.insert(Arc::clone(step), event.at);
            }
            Fact::ExecutionPaused { .. } => self.paused = Some(event.at),
            Fact::BranchOpened { .. } | Fact::ExecutionForked { .. } => {
                self.stand_still(event.at, last);
            }
            _ => {}
        }
        self.windows.count(&event.fact);
        self.events.push(event);
    }

    fn stand_still(&mut self, now: Timestamp, last: Option<Timestamp>) {
        let Some(last) = last else { return };
        let lost = now.duration_since(last);
        let times = self.opened.values_mut();
        let times = times.chain(self.escalated.values_mut());
        for at in times.chain(self.paused.as_mut()) {
            *at = later(*at, lost);
        }
    }
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(at)
}
