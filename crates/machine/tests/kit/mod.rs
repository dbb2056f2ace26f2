//! One execution, driven by hand.
#![allow(dead_code)] // Each test binary uses its own part of it.

pub(crate) mod history;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use stateway_definition::parse;
use stateway_machine::{
    CancelMode, Command, Data, Event, ExecutionState, Failure, Obligation, Plan, Rejection,
    Resolution, State, StepState, StepTimer, Task, Timer, Verb, decide, evolve, later, obligations,
};
use stateway_model::ErrorCategory;

pub(crate) struct Run {
    pub(crate) plan: Arc<Plan>,
    pub(crate) state: State,
    pub(crate) events: Vec<Event>,
    pub(crate) now: Timestamp,
    sent: u32,
}

pub(crate) fn plan(yaml: &str) -> Arc<Plan> {
    let parsed = parse(yaml, "test.yaml").unwrap_or_else(|invalid| panic!("{invalid}"));
    Arc::new(Plan::new(parsed.definition).unwrap())
}

impl Run {
    /// Before anything happened.
    pub(crate) fn absent(yaml: &str) -> Self {
        let plan = plan(yaml);
        let state = State::new(Arc::clone(&plan));
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        Self {
            plan,
            state,
            events: Vec::new(),
            now,
            sent: 0,
        }
    }

    pub(crate) fn created(yaml: &str) -> Self {
        let mut run = Self::absent(yaml);
        run.ok(Verb::Create {
            execution: "e1".into(),
            correlation: "order-7".into(),
            initiator: "ada".into(),
            input: Data::new(json!({"total": 50})),
        });
        run
    }

    pub(crate) fn queued(yaml: &str) -> Self {
        let mut run = Self::created(yaml);
        run.ok(Verb::Trigger { by: "ada".into() });
        run
    }

    /// With a slot.
    pub(crate) fn started(yaml: &str) -> Self {
        let mut run = Self::queued(yaml);
        run.ok(Verb::GrantSlot);
        run
    }

    pub(crate) fn send(&mut self, verb: Verb) -> Result<Vec<&'static str>, Rejection> {
        self.sent += 1;
        let command = Command::new(format!("c{}", self.sent), verb);
        let events = decide(&self.state, command, self.now)?;
        for event in &events {
            self.state = evolve(self.state.clone(), event);
        }
        let names = events.iter().map(|event| event.fact.name()).collect();
        self.events.extend(events);
        Ok(names)
    }

    /// Sends a command that must be taken; the names of its events.
    #[track_caller]
    pub(crate) fn ok(&mut self, verb: Verb) -> Vec<&'static str> {
        let shown = format!("{verb:?}");
        self.send(verb)
            .unwrap_or_else(|refused| panic!("{shown}: {refused}"))
    }

    /// Sends a command that must be refused, and that nothing changes by it.
    #[track_caller]
    pub(crate) fn refused(&mut self, verb: Verb) -> Rejection {
        let before = self.state.clone();
        let rejection = self.send(verb).expect_err("the command should be refused");
        assert_eq!(self.state, before);
        rejection
    }

    #[track_caller]
    pub(crate) fn complete(&mut self, step: &str, output: Value) -> Vec<&'static str> {
        let task = self.task(step);
        self.ok(Verb::complete(task, Data::new(output)))
    }

    /// Completes a step with nothing in particular.
    #[track_caller]
    pub(crate) fn done(&mut self, step: &str) -> Vec<&'static str> {
        self.complete(step, json!({}))
    }

    #[track_caller]
    pub(crate) fn fail(&mut self, step: &str, category: ErrorCategory) -> Vec<&'static str> {
        let task = self.task(step);
        self.ok(Verb::fail(task, Failure::reported(category, "it broke")))
    }

    /// The open task of a step.
    #[track_caller]
    pub(crate) fn task(&self, step: &str) -> Task {
        self.tasks()
            .into_iter()
            .find(|task| &*task.step == step)
            .unwrap_or_else(|| panic!("{step} has no open task: {:?}", self.state.step_state(step)))
    }

    pub(crate) fn tasks(&self) -> Vec<Task> {
        let task = |obligation| match obligation {
            Obligation::Task(order) => Some(order.key.task),
            _ => None,
        };
        obligations(&self.state)
            .into_iter()
            .filter_map(task)
            .collect()
    }

    pub(crate) fn timers(&self) -> Vec<(Timer, Timestamp)> {
        let timer = |obligation| match obligation {
            Obligation::Timer { timer, due } => Some((timer, due)),
            _ => None,
        };
        obligations(&self.state)
            .into_iter()
            .filter_map(timer)
            .collect()
    }

    /// Waits for the step's timer of this kind and fires it.
    #[track_caller]
    pub(crate) fn fire(&mut self, step: &str, wanted: StepTimer) -> Vec<&'static str> {
        let found = self.timers().into_iter().find(|(timer, _)| {
            matches!(timer, Timer::Step { step: s, kind, .. } if &**s == step && *kind == wanted)
        });
        let (timer, due) = found.unwrap_or_else(|| panic!("{step} has no {wanted} timer"));
        self.now = self.now.max(due);
        self.ok(Verb::FireTimer { timer })
    }

    /// Waits until the workflow's timeout.
    #[track_caller]
    pub(crate) fn expire(&mut self) -> Vec<&'static str> {
        let (timer, due) = self.timers().remove(0);
        assert_eq!(timer, Timer::Execution);
        self.now = self.now.max(due);
        self.ok(Verb::FireTimer { timer })
    }

    pub(crate) fn signal(&mut self, name: &str, id: &str) -> Result<Vec<&'static str>, Rejection> {
        let payload = Data::new(json!({"from": id}));
        self.send(Verb::SendSignal {
            name: name.into(),
            id: id.into(),
            payload,
        })
    }

    pub(crate) fn vote(
        &mut self,
        step: &str,
        attempt: u32,
        grant: bool,
        by: &str,
    ) -> Result<Vec<&'static str>, Rejection> {
        self.send(Verb::DecideApproval {
            step: step.into(),
            attempt,
            grant,
            by: by.into(),
            roles: vec!["boss".into()],
            comment: "seen".into(),
        })
    }

    pub(crate) fn pause(&mut self) -> Vec<&'static str> {
        self.ok(Verb::Pause {
            by: "bob".into(),
            comment: "look".into(),
        })
    }

    pub(crate) fn resume(&mut self) -> Vec<&'static str> {
        self.ok(Verb::Resume { by: "bob".into() })
    }

    pub(crate) fn resolve(&mut self, step: &str, resolution: Resolution) -> Vec<&'static str> {
        self.ok(Verb::ResolveEscalation {
            step: step.into(),
            resolution,
            by: "bob".into(),
            comment: "decided".into(),
        })
    }

    pub(crate) fn cancel(&mut self, mode: CancelMode) -> Vec<&'static str> {
        self.ok(Verb::Cancel {
            mode,
            by: "bob".into(),
            comment: "enough".into(),
        })
    }

    pub(crate) fn at(&self) -> ExecutionState {
        self.state.state()
    }

    #[track_caller]
    pub(crate) fn step(&self, step: &str) -> StepState {
        self.state.step_state(step).unwrap()
    }

    pub(crate) fn reason(&self) -> String {
        let (_, reason) = stateway_machine::sub_state(&self.state);
        reason.map_or_else(String::new, |reason| reason.to_string())
    }

    pub(crate) fn wait(&mut self, by: Duration) {
        self.now = later(self.now, by);
    }
}
