//! What anyone could do next: workers, children, people, operators, clocks, and mistakes of all.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use stateway_definition::Definition;
use stateway_machine::{
    Awaited, CancelMode, Data, Failure, Obligation, PolicyDecision, Redo, Resolution, Task,
    TaskOrder, Timer, Verb, awaited, later,
};
use stateway_model::{ErrorCategory, Progress, Usage};

use super::{PATIENCE, World};

/// People who decide; `ada` started the execution, and one of them is also a worker.
const PEOPLE: [&str; 5] = ["bob", "EVE ", "dan", "cara", "cara"];
/// People who have steps run again and offer revisions.
const OPERATORS: [&str; 2] = ["bob", "eve"];
const WORKERS: [&str; 4] = ["w0", "w1", "w2", "Dan"];
/// In whose name workers are connected; most give none.
const IDENTITIES: [&str; 5] = ["", "", "", "robot", "Bob"];
const RULES: [&str; 2] = ["spending", "night"];

impl World {
    /// Anything anyone could send.
    pub(super) fn any_verb(&mut self) -> Option<Verb> {
        match self.chance.below(20) {
            0 => Some(self.nonsense()),
            1 | 2 => Some(self.steering()),
            _ => self.helpful_verb(),
        }
    }

    /// Something that moves the execution on.
    pub(super) fn helpful_verb(&mut self) -> Option<Verb> {
        let due = self.book.owed();
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
            Obligation::Task(order) if order.worker.is_some() => self.work(order.key.task),
            Obligation::Task(order) => self.hand_out(order),
            Obligation::Child(order) => {
                let Task { step, attempt, .. } = order.key.task;
                Verb::FinishChild {
                    step,
                    attempt,
                    outcome: if self.chance.percent(70) {
                        Ok(self.output())
                    } else {
                        Err(self.failure())
                    },
                    usage: self.usage().unwrap_or_default(),
                }
            }
            Obligation::Timer { timer, due } => {
                if self.chance.percent(80) {
                    self.now = self.now.max(due);
                }
                let note = if self.chance.percent(50) { "none" } else { "" };
                Verb::FireTimer {
                    timer,
                    note: note.into(),
                }
            }
        }
    }

    /// A task that no worker has. Now and then someone answers it all the same: the engine's own
    /// HTTP client, or a worker that was taken for lost.
    fn hand_out(&mut self, order: TaskOrder) -> Verb {
        let task = order.key.task;
        match self.chance.below(100) {
            0..15 if self.sent < PATIENCE => self.policy(task),
            0..25 => self.work(task),
            _ => self.assign(task),
        }
    }

    fn assign(&mut self, task: Task) -> Verb {
        let worker = WORKERS[self.chance.below(WORKERS.len())].into();
        let identity = IDENTITIES[self.chance.below(IDENTITIES.len())].into();
        Verb::AssignTask {
            task,
            worker,
            identity,
        }
    }

    fn policy(&mut self, task: Task) -> Verb {
        let rule = RULES[self.chance.below(RULES.len())].into();
        let decision = match self.chance.below(10) {
            0 | 1 => PolicyDecision::Deny {
                message: if self.chance.percent(50) { "no" } else { "" }.into(),
            },
            2..=5 => PolicyDecision::RequireApproval {
                role: "boss".into(),
                due: (self.chance.percent(50))
                    .then(|| later(self.now, Duration::from_secs(5 + self.chance.next() % 60))),
            },
            _ => PolicyDecision::Allow,
        };
        Verb::DecidePolicy {
            task,
            rule,
            decision,
        }
    }

    /// What the worker of a task does with it.
    fn work(&mut self, task: Task) -> Verb {
        match self.chance.below(20) {
            0 | 1 => Verb::ReleaseTask { task, lost: false },
            2..=4 => Verb::ReleaseTask { task, lost: true },
            5 => self.assign(task),
            6 | 7 => Verb::RecordHeartbeat {
                step: task.step,
                attempt: task.attempt,
                progress: self.progress(),
            },
            8..=10 => Verb::FailTask {
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

    pub(super) fn output(&mut self) -> Data {
        Data::new(match self.chance.below(4) {
            0 => json!({"ok": true, "maybe": 1}),
            1 => json!("not what the schema wants"),
            _ => json!({"ok": true}),
        })
    }

    /// Some workers report no usage, or a usage of zero.
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
        let category = category.unwrap_or(ErrorCategory::Transient);
        Failure {
            no_retry: self.chance.percent(15),
            retry_after: (self.chance.percent(15)).then(|| Duration::from_secs(7)),
            ..Failure::reported(category, "it broke")
        }
    }

    fn answer(&mut self, awaited: Awaited) -> Verb {
        if self.sent > PATIENCE && matches!(awaited, Awaited::Resume | Awaited::Person { .. }) {
            let mode = self.mode();
            return self.cancel(mode);
        }
        match awaited {
            Awaited::Trigger => Verb::Trigger { by: "ada".into() },
            Awaited::Resume => Verb::Resume { by: self.person() },
            Awaited::Signal { name, .. } => self.signal(name),
            Awaited::Approval {
                step,
                attempt,
                role,
                ..
            } => Verb::DecideApproval {
                step,
                attempt: self.nearly(attempt),
                grant: self.chance.percent(60),
                by: self.decider(),
                roles: self.roles(role),
                comment: "seen".into(),
            },
            Awaited::Person {
                step,
                attempt,
                role,
                ..
            } => self.resolve(step, attempt, role),
        }
    }

    fn resolve(&mut self, step: Arc<str>, attempt: u32, role: Option<Arc<str>>) -> Verb {
        let operators = if self.chance.percent(90) {
            vec!["operator".into()]
        } else {
            Vec::new()
        };
        Verb::ResolveEscalation {
            step,
            attempt: self.nearly(attempt),
            resolution: match self.chance.below(4) {
                0 => Resolution::Cancel,
                1 => Resolution::Reassign {
                    role: "deputy".into(),
                },
                _ => Resolution::Resume,
            },
            by: self.person(),
            roles: self.roles(role.unwrap_or_else(|| "operator".into())),
            operators,
            comment: "decided".into(),
            compensate: [None, Some(true), Some(false)][self.chance.below(3)],
        }
    }

    /// A person, in the end one who has done nothing else and so may decide.
    fn decider(&mut self) -> Arc<str> {
        if self.sent > PATIENCE {
            return "zoe".into();
        }
        self.person()
    }

    fn person(&mut self) -> Arc<str> {
        if self.chance.percent(5) {
            return if self.chance.percent(50) {
                "ada"
            } else {
                " Ada"
            }
            .into();
        }
        PEOPLE[self.chance.below(PEOPLE.len())].into()
    }

    /// The role that is asked for, among others; now and then only others.
    fn roles(&mut self, role: Arc<str>) -> Vec<Arc<str>> {
        let mut roles = vec!["clerk".into()];
        if self.chance.percent(90) {
            roles.push(role);
        }
        roles
    }

    /// The number, or one beside it.
    fn nearly(&mut self, number: u32) -> u32 {
        number + u32::from(self.chance.percent(5))
    }

    fn signal(&mut self, name: Arc<str>) -> Verb {
        let id = format!("m{}", self.chance.below(30)).into();
        Verb::SendSignal {
            name,
            id,
            payload: self.output(),
            by: self.person(),
        }
    }

    fn mode(&mut self) -> CancelMode {
        let mode = self.chance.pick(CancelMode::ALL).copied();
        mode.unwrap_or(CancelMode::Stop)
    }

    pub(super) fn cancel(&mut self, mode: CancelMode) -> Verb {
        Verb::Cancel {
            mode,
            by: self.person(),
            comment: "enough".into(),
        }
    }

    /// What an operator does.
    fn steering(&mut self) -> Verb {
        let step: Arc<str> = format!("s{}", self.chance.below(3)).into();
        match self.chance.below(15) {
            0..=2 => Verb::Pause {
                by: self.person(),
                comment: "look".into(),
            },
            3 => Verb::Resume { by: self.person() },
            4 | 5 => {
                let by = self.person();
                if self.chance.percent(30) {
                    Verb::RetryAll { by }
                } else {
                    Verb::RetryNow { step, by }
                }
            }
            6 => self.signal("go0".into()),
            7 => self.signal("go1".into()),
            8 => self.offer(),
            9 => self.branch(step),
            10 => Verb::Fork {
                from: "another".into(),
                branch: 0,
                cutoff: 1,
                by: OPERATORS[self.chance.below(OPERATORS.len())].into(),
                redo: Box::new(self.redo(step)),
            },
            11 => Verb::Recover {
                reason: "a check".into(),
                from: self.state.branch(),
                cutoff: self.state.sequence(),
                again: Vec::new(),
                left: Vec::new(),
                by: self.person(),
            },
            _ => {
                let mode = self.mode();
                self.cancel(mode)
            }
        }
    }

    fn branch(&mut self, step: Arc<str>) -> Verb {
        let redo = self.redo(step);
        Verb::OpenBranch {
            branch: self.state.branch() + 1,
            cutoff: 1,
            by: OPERATORS[self.chance.below(OPERATORS.len())].into(),
            redo: self.chance.percent(50).then(|| Box::new(redo)),
            reopened: None,
            spent: self.usage().unwrap_or_default(),
            spent_by_step: std::collections::BTreeMap::new(),
        }
    }

    /// A step again, as it was or with something new.
    fn redo(&mut self, step: Arc<str>) -> Redo {
        Redo {
            step,
            input: self.chance.percent(50).then(|| self.output()),
            feedback: if self.chance.percent(50) { "look" } else { "" }.into(),
        }
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
            by: OPERATORS[self.chance.below(OPERATORS.len())].into(),
        }
    }

    /// Something that is out of date, out of place or invented.
    pub(super) fn nonsense(&mut self) -> Verb {
        let step: Arc<str> = format!("s{}", self.chance.below(12)).into();
        let attempt = u32::try_from(self.chance.below(5)).unwrap_or(0);
        match self.chance.below(12) {
            0 => Verb::GrantSlot,
            1 => Verb::complete(Task::of(step, attempt), self.output()),
            2 => Verb::fail(Task::undo(step, attempt), self.failure()),
            3 => Verb::fire(Timer::Execution),
            4 => Verb::Trigger { by: "eve".into() },
            5 => self.signal("nobody-waits".into()),
            6 => Verb::heartbeat(step, attempt),
            7 => Verb::Resume { by: "eve".into() },
            8 => self.assign(Task::of(step, attempt)),
            9 => self.policy(Task::of(step, attempt)),
            10 => self.resolve(step, attempt, None),
            _ => Verb::FinishChild {
                step,
                attempt,
                outcome: Ok(self.output()),
                usage: Usage::default(),
            },
        }
    }
}
