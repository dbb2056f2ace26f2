//! A random world around one execution: workers, people, clocks and mistakes.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use stateway_definition::Definition;
use stateway_machine::{
    Awaited, CancelMode, Command, Data, Event, Failure, Obligation, Plan, Redo, Rejection,
    Resolution, State, Task, Timer, Verb, awaited, decide, evolve, later, obligations,
};
use stateway_model::{ErrorCategory, Progress, Usage};

use crate::chance::Chance;
use crate::definitions;
use crate::invariant::{Checker, is_in_place, snapshot_is_the_state};

/// How many commands a world sends before it only does what moves the execution on.
const WILD_COMMANDS: usize = 40;
/// After how many commands people give up on an execution that keeps coming back to them.
const PATIENCE: usize = 150;
/// How many commands are enough to end any execution that can be ended.
const MOST_COMMANDS: usize = 2_000;

/// One execution, what happened to it, and the chance that decides what happens next.
pub struct World {
    chance: Chance,
    plan: Arc<Plan>,
    state: State,
    events: Vec<Event>,
    now: Timestamp,
    sent: usize,
    accepted: usize,
    checker: Checker,
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
            checker: Checker::default(),
        }
    }

    /// Lives until the execution ends.
    fn live(&mut self) -> Result<(), String> {
        self.begin()?;
        let wild = self.chance.below(WILD_COMMANDS);
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
                return Err("nothing can move it on".to_owned());
            };
            self.send(&verb)?;
        }
        for _ in 0..5 {
            let verb = self.nonsense();
            if self.attempt(&verb).is_ok() {
                return Err("a finished execution took a command".to_owned());
            }
        }
        self.checker.finish(&self.plan, &self.events, &self.state)
    }

    fn begin(&mut self) -> Result<(), String> {
        let input = Data::new(json!({"flag": self.chance.percent(70)}));
        let execution = format!("e{}", self.chance.below(1_000)).into();
        self.send(&Verb::Create {
            execution,
            correlation: "all".into(),
            initiator: "ada".into(),
            input,
        })
    }

    /// Sends a command; a refusal is fine, a broken invariant is not.
    fn send(&mut self, verb: &Verb) -> Result<(), String> {
        match self.attempt(verb) {
            Ok(broken) => broken,
            Err(_) => Ok(()),
        }
    }

    fn attempt(&mut self, verb: &Verb) -> Result<Result<(), String>, Rejection> {
        self.sent += 1;
        self.now = later(self.now, Duration::from_millis(self.chance.next() % 3_000));
        let name = verb.name();
        let id: Arc<str> = format!("{name}#{}", self.sent).into();
        let events = decide(&self.state, Command::new(id, verb.clone()), self.now)?;
        self.accepted += 1;
        let before = obligations(&self.state);
        let mut broken = is_in_place(&self.state, verb, self.now);
        for event in &events {
            let next = evolve(self.state.clone(), event);
            broken = broken.and_then(|()| self.checker.event(&self.state, event, &next, name));
            self.state = next;
        }
        broken = broken.and_then(|()| self.checker.batch(&before, &events, &self.state));
        broken = broken.and_then(|()| snapshot_is_the_state(&self.state));
        self.events.extend(events);
        Ok(broken)
    }

    /// Anything anyone could send.
    fn any_verb(&mut self) -> Option<Verb> {
        match self.chance.below(20) {
            0 => Some(self.nonsense()),
            1 | 2 => Some(self.steering()),
            _ => self.helpful_verb(),
        }
    }

    /// Something that moves the execution on.
    fn helpful_verb(&mut self) -> Option<Verb> {
        let due = obligations(&self.state);
        let outside = awaited(&self.state);
        let at = self.chance.below(due.len() + outside.len());
        if let Some(obligation) = due.get(at).cloned() {
            return Some(self.meet(obligation));
        }
        outside
            .get(at - due.len())
            .cloned()
            .map(|awaited| self.answer(awaited))
    }

    fn meet(&mut self, obligation: Obligation) -> Verb {
        match obligation {
            Obligation::Slot => Verb::GrantSlot,
            Obligation::Task(order) => self.work(order.key.task),
            Obligation::Child(order) => {
                let outcome = if self.chance.percent(70) {
                    Ok(self.output())
                } else {
                    Err(self.failure())
                };
                let Task { step, attempt, .. } = order.key.task;
                Verb::FinishChild {
                    step,
                    attempt,
                    outcome,
                }
            }
            Obligation::Timer { timer, due } => {
                if self.chance.percent(80) {
                    self.now = self.now.max(due);
                }
                Verb::FireTimer { timer }
            }
        }
    }

    fn work(&mut self, task: Task) -> Verb {
        match self.chance.below(10) {
            0 => Verb::ReleaseTask { task },
            1 | 2 => Verb::AssignTask {
                task,
                worker: format!("w{}", self.chance.below(2)).into(),
            },
            3 => Verb::RecordHeartbeat {
                step: task.step,
                attempt: task.attempt,
                progress: self.progress(),
            },
            4 => Verb::FailTask {
                task,
                failure: self.failure(),
                usage: self.usage(),
            },
            _ => Verb::CompleteTask {
                task,
                output: self.output(),
                usage: self.usage(),
            },
        }
    }

    fn output(&mut self) -> Data {
        Data::new(match self.chance.below(4) {
            0 => json!({"ok": true, "maybe": 1}),
            1 => json!("not what the schema wants"),
            _ => json!({"ok": true}),
        })
    }

    /// Now and then a worker says nothing, or that it used nothing.
    fn usage(&mut self) -> Option<Usage> {
        let figure = self.chance.next() % 3;
        let usage = Usage {
            input_tokens: figure,
            output_tokens: figure * 7,
            cost_micros: figure,
        };
        self.chance.percent(60).then_some(usage)
    }

    fn progress(&mut self) -> Option<Progress> {
        let part = u8::try_from(self.chance.below(4)).unwrap_or(0);
        let told = Progress::new(f64::from(part) / 3.0, "at it");
        told.filter(|_| self.chance.percent(70))
    }

    fn failure(&mut self) -> Failure {
        let category = self.chance.pick(ErrorCategory::ALL).copied();
        Failure::reported(category.unwrap_or(ErrorCategory::Transient), "it broke")
    }

    fn answer(&mut self, awaited: Awaited) -> Verb {
        if self.sent > PATIENCE && matches!(awaited, Awaited::Resume | Awaited::Person { .. }) {
            let mode = CancelMode::Stop;
            return Verb::Cancel {
                mode,
                by: "bob".into(),
                comment: "enough".into(),
            };
        }
        match awaited {
            Awaited::Trigger => Verb::Trigger { by: "ada".into() },
            Awaited::Resume => Verb::Resume { by: "bob".into() },
            Awaited::Signal { name, .. } => self.signal(name),
            Awaited::Approval {
                step,
                attempt,
                role,
            } => Verb::DecideApproval {
                step,
                attempt,
                grant: self.chance.percent(60),
                by: if self.chance.percent(5) {
                    "ada".into()
                } else {
                    "bob".into()
                },
                roles: vec![role],
                comment: "seen".into(),
            },
            Awaited::Person { step } => Verb::ResolveEscalation {
                step,
                resolution: match self.chance.below(4) {
                    0 => Resolution::Cancel,
                    1 => Resolution::Reassign {
                        role: "chief".into(),
                    },
                    _ => Resolution::Resume,
                },
                by: "bob".into(),
                comment: "decided".into(),
            },
        }
    }

    fn signal(&mut self, name: Arc<str>) -> Verb {
        let id = format!("m{}", self.chance.below(30)).into();
        Verb::SendSignal {
            name,
            id,
            payload: self.output(),
        }
    }

    /// What an operator does.
    fn steering(&mut self) -> Verb {
        let step: Arc<str> = format!("s{}", self.chance.below(3)).into();
        match self.chance.below(13) {
            0..=2 => Verb::Pause {
                by: "bob".into(),
                comment: "look".into(),
            },
            3 => Verb::Resume { by: "bob".into() },
            4 | 5 => Verb::RetryNow { step },
            6 => self.signal("go0".into()),
            7 => self.signal("go1".into()),
            8 => self.offer(),
            9 => Verb::OpenBranch {
                branch: self.state.branch() + 1,
                cutoff: 1,
                by: "bob".into(),
                redo: self.redo(step),
            },
            10 => Verb::Recover {
                reason: "a look".into(),
                from: self.state.branch(),
                cutoff: self.state.sequence(),
                again: Vec::new(),
                left: Vec::new(),
                by: "bob".into(),
            },
            _ => {
                let mode = self
                    .chance
                    .pick(CancelMode::ALL)
                    .copied()
                    .unwrap_or(CancelMode::Stop);
                Verb::Cancel {
                    mode,
                    by: "bob".into(),
                    comment: "enough".into(),
                }
            }
        }
    }

    /// A step again, as it was or with something new.
    fn redo(&mut self, step: Arc<str>) -> Option<Box<Redo>> {
        let redo = Redo {
            step,
            input: self.chance.percent(50).then(|| self.output()),
            feedback: if self.chance.percent(50) { "look" } else { "" }.into(),
        };
        self.chance.percent(50).then(|| Box::new(redo))
    }

    /// The definition with a longer timeout somewhere, or one more step.
    fn offer(&mut self) -> Verb {
        let mut definition: Definition = self.state.plan().definition().clone();
        let at = self.chance.below(definition.steps.len());
        if self.chance.percent(50) {
            definition.steps[at].timeout = Some(Duration::from_secs(77));
        } else {
            let mut more = definition.steps[at].clone();
            more.name = format!("{}x", more.name);
            more.depends_on = vec![definition.steps[at].name.clone()];
            (more.input, more.when) = (None, None);
            let place = if self.chance.percent(50) {
                0
            } else {
                definition.steps.len()
            };
            if definition.step(&more.name).is_none() {
                definition.steps.insert(place, more);
            }
        }
        Verb::OfferDefinition {
            definition: Arc::new(definition),
        }
    }

    /// Something that is out of date, out of place or made up.
    fn nonsense(&mut self) -> Verb {
        let step: Arc<str> = format!("s{}", self.chance.below(12)).into();
        let attempt = u32::try_from(self.chance.below(5)).unwrap_or(0);
        match self.chance.below(9) {
            0 => Verb::GrantSlot,
            1 => Verb::complete(Task::of(step, attempt), self.output()),
            2 => Verb::fail(Task::undo(step, attempt), self.failure()),
            3 => Verb::FireTimer {
                timer: Timer::Execution,
            },
            4 => Verb::Trigger { by: "eve".into() },
            5 => self.signal("nobody-waits".into()),
            6 => Verb::heartbeat(step, attempt),
            7 => Verb::Resume { by: "eve".into() },
            _ => Verb::FinishChild {
                step,
                attempt,
                outcome: Ok(self.output()),
            },
        }
    }

    fn log(&self) -> String {
        let line =
            |event: &Event| format!("{} {} {:?}\n", event.sequence, event.causation, event.fact);
        self.events.iter().map(line).collect()
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
