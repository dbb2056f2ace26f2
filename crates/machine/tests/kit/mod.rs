//! One execution, driven command by command.
#![allow(dead_code)] // Each test binary uses its own part of it.

pub(crate) mod history;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use stateway_definition::parse;
use stateway_machine::{
    Awaited, CancelMode, Command, Data, Event, ExecutionState, Fact, Failure, Obligation, Plan,
    Redo, Rejection, Resolution, State, StepState, StepTimer, Task, TaskOrder, Timer, Verb,
    awaited, decide, evolve, later, obligations, replay, spent_by_step, task_order, usage,
};
use stateway_model::{ErrorCategory, Usage};

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
            redone_by: Vec::new(),
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

    /// The execution as it was after the first events, as a new branch or a fork begins.
    pub(crate) fn rewound(&self, cutoff: usize) -> Self {
        let events = self.events[..cutoff].to_vec();
        Self {
            plan: Arc::clone(&self.plan),
            state: replay(Arc::clone(&self.plan), &events).unwrap(),
            events,
            now: self.now,
            sent: self.sent,
        }
    }

    /// A branch from after the first events that runs a step again; with how the execution had
    /// ended, where it had.
    #[track_caller]
    pub(crate) fn retried_from(&self, cutoff: usize, step: &str, by: &str) -> Self {
        let mut again = self.rewound(cutoff);
        let reopened = Some(self.at()).filter(|at| at.is_terminal());
        let (whole, shared) = (usage(&self.state), usage(&again.state));
        again.ok(Verb::OpenBranch {
            branch: self.state.branch() + 1,
            cutoff: cutoff as u64,
            by: by.into(),
            redo: Some(Box::new(Redo::from(step))),
            reopened,
            spent: Usage {
                input_tokens: whole.input_tokens - shared.input_tokens,
                output_tokens: whole.output_tokens - shared.output_tokens,
                cost_micros: whole.cost_micros - shared.cost_micros,
            },
            spent_by_step: spent_by_step(&self.state, &again.state),
        });
        again
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

    /// A worker takes the open task of a step.
    #[track_caller]
    pub(crate) fn assign(&mut self, step: &str, worker: &str) -> Vec<&'static str> {
        self.assign_as(step, worker, "")
    }

    /// A worker takes the open task of a step in someone's name.
    #[track_caller]
    pub(crate) fn assign_as(
        &mut self,
        step: &str,
        worker: &str,
        identity: &str,
    ) -> Vec<&'static str> {
        let task = self.task(step);
        self.ok(Verb::AssignTask {
            task,
            worker: worker.into(),
            identity: identity.into(),
        })
    }

    /// A worker gives the open task of a step back.
    #[track_caller]
    pub(crate) fn release(&mut self, step: &str) -> Vec<&'static str> {
        let task = self.task(step);
        self.ok(Verb::ReleaseTask { task, lost: false })
    }

    /// The worker of the open task of a step is lost.
    #[track_caller]
    pub(crate) fn lose(&mut self, step: &str) -> Vec<&'static str> {
        let task = self.task(step);
        self.ok(Verb::ReleaseTask { task, lost: true })
    }

    /// The open task of a step, as it is handed out.
    #[track_caller]
    pub(crate) fn order(&self, step: &str) -> TaskOrder {
        let task = self.task(step);
        task_order(&self.state, &task).unwrap()
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

    /// The step's timer of this kind and when it is due.
    pub(crate) fn timer(&self, step: &str, wanted: StepTimer) -> Option<(Timer, Timestamp)> {
        self.timers().into_iter().find(|(timer, _)| {
            matches!(timer, Timer::Step { step: s, kind, .. } if &**s == step && *kind == wanted)
        })
    }

    /// In how many seconds the step's timer of this kind is due.
    pub(crate) fn due_in(&self, step: &str, wanted: StepTimer) -> Option<i64> {
        let (_, due) = self.timer(step, wanted)?;
        Some(due.duration_since(self.now).as_secs())
    }

    /// Waits for the step's timer of this kind and fires it.
    #[track_caller]
    pub(crate) fn fire(&mut self, step: &str, wanted: StepTimer) -> Vec<&'static str> {
        let found = self.timer(step, wanted);
        let (timer, due) = found.unwrap_or_else(|| panic!("{step} has no {wanted} timer"));
        self.now = self.now.max(due);
        self.ok(Verb::fire(timer))
    }

    /// Waits until the workflow's timeout.
    #[track_caller]
    pub(crate) fn expire(&mut self) -> Vec<&'static str> {
        let (timer, due) = self.timers().remove(0);
        assert_eq!(timer, Timer::Execution);
        self.now = self.now.max(due);
        self.ok(Verb::fire(timer))
    }

    pub(crate) fn signal(&mut self, name: &str, id: &str) -> Result<Vec<&'static str>, Rejection> {
        let payload = Data::new(json!({"from": id}));
        self.send(Verb::SendSignal {
            name: name.into(),
            id: id.into(),
            payload,
            by: "shop".into(),
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

    /// Bob, who has the role `operator`, decides about the open escalation of a step.
    #[track_caller]
    pub(crate) fn resolve(&mut self, step: &str, resolution: Resolution) -> Vec<&'static str> {
        let verb = self.resolution(step, resolution, "bob", &["operator"]);
        self.ok(verb)
    }

    /// A decision about the open escalation of a step, by someone with these roles.
    #[track_caller]
    pub(crate) fn resolution(
        &self,
        step: &str,
        resolution: Resolution,
        by: &str,
        roles: &[&str],
    ) -> Verb {
        let open = awaited(&self.state).into_iter().find_map(|one| match one {
            Awaited::Person {
                step: s, attempt, ..
            } if &*s == step => Some(attempt),
            _ => None,
        });
        Verb::ResolveEscalation {
            step: step.into(),
            attempt: open.unwrap_or_else(|| panic!("{step} is not escalated")),
            resolution,
            by: by.into(),
            roles: roles.iter().map(|role| Arc::from(*role)).collect(),
            operators: vec!["operator".into()],
            comment: "decided".into(),
            compensate: None,
        }
    }

    pub(crate) fn cancel(&mut self, mode: CancelMode) -> Vec<&'static str> {
        self.ok(Verb::Cancel {
            mode,
            by: "bob".into(),
            comment: "enough".into(),
        })
    }

    /// The newest fact of this name.
    #[track_caller]
    pub(crate) fn fact(&self, name: &str) -> &Fact {
        let found = self.events.iter().rev().find(|e| e.fact.name() == name);
        &found.unwrap_or_else(|| panic!("no {name}")).fact
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
