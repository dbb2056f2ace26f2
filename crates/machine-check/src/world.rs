//! A random world around one execution: workers, people, clocks and mistakes.

mod act;
mod book;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use stateway_driver::handle;
use stateway_machine::{
    CancelMode, Command, CutOff, Data, Event, ExecutionState, Plan, RedoRequest, Rejection,
    Resolver, State, Verb, evolve, fork, is_forked, later, obligations, open_branch, replay,
};

use self::book::Book;
use crate::definitions;
use crate::invariant::{Checker, is_in_place, snapshot_is_the_state};
use stateway_chance::Chance;

/// How many commands a world sends before it sends only commands that the execution waits for.
const WILD_COMMANDS: usize = 40;
/// After how many commands people cancel an execution that keeps asking for them.
const PATIENCE: usize = 150;
/// How many commands are enough to end any execution that can be ended.
const MOST_COMMANDS: usize = 2_000;
/// How often an execution that has ended is run again from a step.
const MOST_REOPENED: usize = 2;

/// One execution, what happened to it, and the chance that decides what happens next.
pub struct World {
    chance: Chance,
    plan: Arc<Plan>,
    state: State,
    events: Vec<Event>,
    now: Timestamp,
    sent: usize,
    accepted: usize,
    reopened: usize,
    checker: Checker,
    book: Book,
}

/// What is left of a world when it is over.
#[derive(Debug)]
pub struct Story {
    /// The plan it began with.
    pub plan: Arc<Plan>,
    /// The whole log.
    pub events: Vec<Event>,
    /// Where it ended.
    pub state: State,
    /// How many commands were sent, and how many were accepted.
    pub commands: (usize, usize),
}

/// Runs one world to its end.
///
/// # Errors
/// The invariant that was broken, with the log that broke it.
pub fn run(seed: u64, most_steps: usize) -> Result<Story, String> {
    let mut chance = Chance::new(seed);
    let definition = definitions::definition(&mut chance, most_steps);
    let plan = Plan::new(definition).map_err(|error| error.to_string())?;
    let mut world = World::new(chance, Arc::new(plan));
    world
        .live()
        .map_err(|broken| format!("seed {seed}: {broken}\n{}", world.log()))?;
    Ok(world.into_story())
}

impl World {
    /// A world around an execution that is not created yet.
    #[must_use]
    pub fn new(chance: Chance, plan: Arc<Plan>) -> Self {
        Self {
            chance,
            state: State::new(Arc::clone(&plan)),
            plan,
            events: Vec::new(),
            now: Timestamp::from_second(1_800_000_000).unwrap_or(Timestamp::UNIX_EPOCH),
            sent: 0,
            accepted: 0,
            reopened: 0,
            checker: Checker::default(),
            book: Book::default(),
        }
    }

    /// Is kept until the execution has ended and cannot be reopened.
    fn live(&mut self) -> Result<(), String> {
        self.begin()?;
        let wild = self.chance.below(WILD_COMMANDS);
        loop {
            self.live_until_the_end(wild)?;
            self.stays_ended()?;
            self.checker.finish(&self.plan, &self.events, &self.state)?;
            if self.reopened >= MOST_REOPENED || !self.chance.percent(15) || !self.run_again()? {
                return Ok(());
            }
        }
    }

    fn live_until_the_end(&mut self, wild: usize) -> Result<(), String> {
        while !self.state.state().is_terminal() {
            if self.sent > MOST_COMMANDS {
                return Err("it does not come to an end".to_owned());
            }
            let verb = if self.sent < wild {
                self.any_verb()
            } else {
                self.helpful_verb()
            };
            let Some(verb) = verb else {
                return Err("no command can move it on".to_owned());
            };
            self.send(&verb)?;
        }
        Ok(())
    }

    /// A finished execution takes no command; only to cancel what is cancelled is accepted, and
    /// writes nothing.
    fn stays_ended(&mut self) -> Result<(), String> {
        let length = self.events.len();
        for _ in 0..5 {
            let verb = self.nonsense();
            if self.attempt(&verb).is_ok() {
                return Err("a finished execution took a command".to_owned());
            }
        }
        let verb = self.cancel(CancelMode::Policy);
        let taken = self.attempt(&verb).is_ok();
        let cancelled = self.state.state() == ExecutionState::Cancelled;
        if taken != cancelled || self.events.len() != length {
            return Err("a finished execution was cancelled".to_owned());
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), String> {
        let input = Data::new(json!({"flag": self.chance.percent(70)}));
        let execution = format!("e{}", self.chance.below(1_000)).into();
        self.send(&Verb::Create {
            execution,
            correlation: "all".into(),
            initiator: "ada".into(),
            input,
            redone_by: Vec::new(),
        })
    }

    /// Runs the execution again from a step, as `retry-from` does: the log is left where the machine
    /// says, and continues as another branch or as another execution. False: not possible.
    fn run_again(&mut self) -> Result<bool, String> {
        let mut begun: Vec<Arc<str>> = vec!["".into()];
        begun.extend(
            self.events
                .iter()
                .filter_map(|event| event.fact.begins().cloned()),
        );
        let Some(step) = self.chance.pick(&begun).cloned() else {
            return Ok(false);
        };
        let request = RedoRequest {
            from_start: step.is_empty() && self.chance.percent(50),
            input: (!step.is_empty() && self.chance.percent(30)).then(|| self.output()),
            step,
            feedback: "".into(),
        };
        let roles = ["boss".into(), "operator".into()];
        let resolver = Resolver {
            by: &"eve".into(),
            roles: &roles,
            operators: &roles,
        };
        let Ok(mut cut) = CutOff::of(&self.state, &request, &resolver) else {
            return Ok(false);
        };
        self.events.iter().for_each(|event| cut.note(event));
        let shared = self.events.iter().take_while(|event| cut.keeps(event));
        let shared: Vec<Event> = shared.cloned().collect();
        let before = replay(Arc::clone(&self.plan), &shared).map_err(|error| error.to_string())?;
        let Ok(redo) = cut.redo(&before, &request) else {
            return Ok(false);
        };
        let verb = if is_forked(&self.state) || self.chance.percent(20) {
            fork("another".into(), &before, "eve".into(), redo)
        } else {
            let branch = self.state.branch().max(before.branch()) + 1;
            open_branch(&self.state, &before, branch, "eve".into(), redo)
        };
        (self.events, self.state) = (shared, before);
        self.checker = Checker::of(&self.plan, &self.events);
        self.reopened += 1;
        let taken = self.attempt(&verb);
        taken.map_err(|refused| format!("the execution cannot run again: {refused}"))??;
        Ok(true)
    }

    /// Sends a command; a rejection is fine, a broken invariant is not.
    fn send(&mut self, verb: &Verb) -> Result<(), String> {
        match self.attempt(verb) {
            Ok(broken) => broken,
            Err(_) => Ok(()),
        }
    }

    fn attempt(&mut self, verb: &Verb) -> Result<Result<(), String>, Rejection> {
        self.sent += 1;
        self.now = later(self.now, Duration::from_millis(self.chance.next() % 3_000));
        let id: Arc<str> = format!("{}#{}", verb.name(), self.sent).into();
        let mut after = self.state.clone();
        let step = handle(&mut after, Command::new(id, verb.clone()), self.now)?;
        self.accepted += 1;
        let before = obligations(&self.state);
        let mut broken = is_in_place(&self.state, verb, self.now);
        for event in &step.events {
            let next = evolve(self.state.clone(), event);
            broken = broken.and_then(|()| self.checker.event(&self.state, event, &next));
            self.state = next;
        }
        let now = self.now;
        let (events, state) = (&step.events, &self.state);
        broken = broken.and_then(|()| self.checker.batch(&before, verb, events, state, now));
        broken = broken.and_then(|()| snapshot_is_the_state(state));
        broken = broken.and_then(|()| is_applied(&after, state));
        broken = broken.and_then(|()| self.book.take(verb, &step, state));
        self.events.extend(step.events);
        Ok(broken)
    }

    fn log(&self) -> String {
        let line = |event: &Event| {
            let Event {
                sequence,
                at,
                causation,
                fact,
                ..
            } = event;
            format!("{sequence} {at} {causation} {fact:?}\n")
        };
        let log: String = self.events.iter().map(line).collect();
        format!("{log}{:#?}", self.plan.definition())
    }

    fn into_story(self) -> Story {
        Story {
            plan: self.plan,
            events: self.events,
            state: self.state,
            commands: (self.sent, self.accepted),
        }
    }
}

/// The driver has applied the events as they are applied one by one.
fn is_applied(driven: &State, evolved: &State) -> Result<(), String> {
    if driven == evolved {
        return Ok(());
    }
    Err(format!("driven to {driven:?}, evolved to {evolved:?}"))
}
