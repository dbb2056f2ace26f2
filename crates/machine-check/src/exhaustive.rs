//! Every state that a small definition can reach, visited by stateright.
//!
//! Time is taken out of the comparison (two states that differ only in when they were reached are
//! one), and attempts are bounded: a person may begin a step afresh as often as they like, the
//! check lets them do it once. Within those bounds nothing is left to chance.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use stateright::{Checker as _, Model, Property};
use stateway_definition::parse;
use stateway_machine::{
    Awaited, CancelMode, Command, Data, ExecutionState, Failure, Obligation, Plan, Resolution,
    State, StepState, Task, Verb, awaited, decide, evolve, execution_may_move, later, obligations,
    step_may_move, step_views, sub_state,
};
use stateway_model::ErrorCategory;

use crate::invariant::moves_on;

/// A small definition with every failure action and every kind of wait.
pub const SMALL: &str = include_str!("exhaustive.yaml");
/// How often any step is begun, first attempts and people's decisions included.
const MOST_ATTEMPTS: u32 = 3;

/// A state, compared without its times.
#[derive(Clone, Debug)]
pub struct Node {
    state: State,
    now: Timestamp,
    legal: bool,
}

impl Node {
    /// Everything that decides what can follow, without times: states, attempts, failures so
    /// far, what is due, what is awaited.
    fn print(&self) -> String {
        let steps: Vec<_> = self
            .state
            .step_states()
            .map(|(step, state)| (step, state, self.state.failures(step)))
            .collect();
        let views: Vec<_> = step_views(&self.state)
            .into_iter()
            .map(|view| (view.name, view.retry.attempt, view.reason))
            .collect();
        let due: Vec<String> = obligations(&self.state).iter().map(untimed).collect();
        let outside = awaited(&self.state);
        let at = (self.state.state(), sub_state(&self.state), self.legal);
        format!("{at:?} {steps:?} {views:?} {due:?} {outside:?}")
    }

    fn attempt(&self, step: &str) -> u32 {
        let views = step_views(&self.state);
        views
            .iter()
            .find(|view| view.name == step)
            .map_or(0, |view| view.retry.attempt)
    }
}

fn untimed(obligation: &Obligation) -> String {
    match obligation {
        Obligation::Slot => "slot".to_owned(),
        Obligation::Task(order) => format!("{} {:?} {:?}", order.key, order.worker, order.feedback),
        Obligation::Child(order) => format!("{} child", order.key),
        Obligation::Timer { timer, .. } => format!("{timer:?}"),
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.print() == other.print()
    }
}

impl Eq for Node {}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print().hash(state);
    }
}

/// Everything that can be done to the small definition.
pub struct Small {
    plan: Arc<Plan>,
}

impl Small {
    /// The model of [`SMALL`].
    ///
    /// # Errors
    /// The definition does not parse.
    pub fn new() -> Result<Self, String> {
        let parsed = parse(SMALL, "exhaustive.yaml").map_err(|invalid| invalid.to_string())?;
        let plan = Plan::new(parsed.definition).map_err(|error| error.to_string())?;
        Ok(Self {
            plan: Arc::new(plan),
        })
    }
}

impl Model for Small {
    type State = Node;
    type Action = (Duration, Act);

    fn init_states(&self) -> Vec<Node> {
        let now = Timestamp::from_second(1_800_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        let node = Node {
            state: State::new(Arc::clone(&self.plan)),
            now,
            legal: true,
        };
        let create = Verb::Create {
            execution: "e".into(),
            correlation: "c".into(),
            initiator: "ada".into(),
            input: Data::new(json!({})),
        };
        step(&node, create, now).into_iter().collect()
    }

    fn actions(&self, node: &Node, actions: &mut Vec<Self::Action>) {
        if node.state.state().is_terminal() {
            return;
        }
        let soon = Duration::ZERO;
        for obligation in obligations(&node.state) {
            match obligation {
                Obligation::Slot => actions.push((soon, Act::GrantSlot)),
                Obligation::Task(order) => tasks(node, &order.key.task, actions),
                Obligation::Child(order) => actions.push((soon, Act::Child(order.key.task))),
                Obligation::Timer { timer, due } => {
                    let wait = Duration::try_from(due.duration_since(node.now)).unwrap_or(soon);
                    actions.push((wait, Act::Fire(format!("{timer:?}"))));
                }
            }
        }
        for awaited in awaited(&node.state) {
            actions.extend(answers(node, &awaited).into_iter().map(|act| (soon, act)));
        }
        let steering = [
            Act::Pause,
            Act::Cancel(CancelMode::Stop),
            Act::Cancel(CancelMode::Compensate),
            Act::Cancel(CancelMode::Kill),
        ];
        actions.extend(steering.into_iter().map(|act| (soon, act)));
    }

    fn next_state(&self, node: &Node, (wait, act): Self::Action) -> Option<Node> {
        let now = later(node.now, wait);
        step(node, act.verb(&node.state)?, now)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("every move is in the table", |_, node| node.legal),
            Property::<Self>::always("something moves it on, or it is over", |_, node| {
                node.state.state().is_terminal()
                    || obligations(&node.state).iter().any(moves_on)
                    || !awaited(&node.state).is_empty()
            }),
            Property::<Self>::always("what is over owes nothing", |_, node| {
                !node.state.state().is_terminal() || obligations(&node.state).is_empty()
            }),
            Property::<Self>::always("completed means settled", |_, node| {
                node.state.state() != ExecutionState::Completed
                    || node.state.step_states().all(|(_, state)| {
                        matches!(state, StepState::Completed | StepState::Skipped)
                    })
            }),
            Property::<Self>::sometimes("it can complete", |_, node| {
                node.state.state() == ExecutionState::Completed
            }),
            Property::<Self>::sometimes("it can be rolled back", |_, node| {
                node.state.state() == ExecutionState::RolledBack
            }),
            Property::<Self>::sometimes("it can be rolled back in part", |_, node| {
                let (_, reason) = sub_state(&node.state);
                reason == Some(stateway_model::Reason::PartiallyRolledBack)
            }),
            Property::<Self>::sometimes("it can be escalated", |_, node| {
                node.state.state() == ExecutionState::Escalated
            }),
        ]
    }
}

/// What is done; small, because stateright keeps it.
#[derive(Clone, Debug, PartialEq)]
pub enum Act {
    /// Trigger.
    Trigger,
    /// A slot.
    GrantSlot,
    /// A worker takes a task.
    Assign(Task),
    /// A worker is done.
    Complete(Task),
    /// A worker's output does not fit.
    Botch(Task),
    /// A worker fails.
    Fail(Task, ErrorCategory),
    /// A child is done.
    Child(Task),
    /// A timer fires.
    Fire(String),
    /// A signal.
    Signal(Arc<str>),
    /// An approval is decided.
    Vote(Arc<str>, u32, bool),
    /// An escalation is resolved.
    Resolve(Arc<str>, Resolution),
    /// Hold.
    Pause,
    /// Go on.
    Resume,
    /// End.
    Cancel(CancelMode),
}

impl Act {
    fn verb(self, state: &State) -> Option<Verb> {
        let (by, comment): (Arc<str>, Arc<str>) = ("bob".into(), "".into());
        Some(match self {
            Self::Trigger => Verb::Trigger { by },
            Self::GrantSlot => Verb::GrantSlot,
            Self::Assign(task) => Verb::AssignTask {
                task,
                worker: "w".into(),
            },
            Self::Complete(task) => Verb::complete(task, Data::new(json!({"ok": 1}))),
            Self::Botch(task) => Verb::complete(task, Data::new(json!(0))),
            Self::Fail(task, category) => Verb::fail(task, Failure::reported(category, "x")),
            Self::Child(Task { step, attempt, .. }) => Verb::FinishChild {
                step,
                attempt,
                outcome: Ok(Data::new(json!({}))),
            },
            Self::Fire(shown) => Verb::FireTimer {
                timer: obligations(state)
                    .into_iter()
                    .find_map(|obligation| match obligation {
                        Obligation::Timer { timer, .. } if format!("{timer:?}") == shown => {
                            Some(timer)
                        }
                        _ => None,
                    })?,
            },
            Self::Signal(name) => {
                let id = format!("m{}", state.sequence()).into();
                Verb::SendSignal {
                    name,
                    id,
                    payload: Data::new(json!({})),
                }
            }
            Self::Vote(step, attempt, grant) => Verb::DecideApproval {
                step,
                attempt,
                grant,
                by,
                roles: vec!["boss".into()],
                comment,
            },
            Self::Resolve(step, resolution) => Verb::ResolveEscalation {
                step,
                resolution,
                by,
                comment,
            },
            Self::Pause => Verb::Pause { by, comment },
            Self::Resume => Verb::Resume { by },
            Self::Cancel(mode) => Verb::Cancel { mode, by, comment },
        })
    }
}

fn tasks(node: &Node, task: &Task, actions: &mut Vec<(Duration, Act)>) {
    let mut add = |act| actions.push((Duration::ZERO, act));
    add(Act::Assign(task.clone()));
    add(Act::Complete(task.clone()));
    add(Act::Botch(task.clone()));
    if node.attempt(&task.step) <= MOST_ATTEMPTS {
        ErrorCategory::ALL
            .iter()
            .for_each(|category| add(Act::Fail(task.clone(), *category)));
    }
}

fn answers(node: &Node, awaited: &Awaited) -> Vec<Act> {
    match awaited {
        Awaited::Trigger => vec![Act::Trigger],
        Awaited::Resume => {
            let tired = node
                .state
                .step_states()
                .any(|(step, _)| node.attempt(step) >= MOST_ATTEMPTS);
            if tired { Vec::new() } else { vec![Act::Resume] }
        }
        Awaited::Signal { name, .. } => vec![Act::Signal(Arc::clone(name))],
        Awaited::Approval { step, attempt, .. } => [true, false]
            .map(|grant| Act::Vote(Arc::clone(step), *attempt, grant))
            .to_vec(),
        Awaited::Person { step } => {
            let mut acts = vec![Act::Resolve(Arc::clone(step), Resolution::Cancel)];
            if node.attempt(step) < MOST_ATTEMPTS {
                acts.push(Act::Resolve(Arc::clone(step), Resolution::Resume));
            }
            acts
        }
    }
}

fn step(node: &Node, verb: Verb, now: Timestamp) -> Option<Node> {
    let events = decide(&node.state, Command::new("c", verb), now).ok()?;
    let mut next = node.clone();
    next.now = now;
    for event in &events {
        let state = evolve(next.state.clone(), event);
        next.legal &= execution_may_move(next.state.state(), state.state());
        next.legal &= next
            .state
            .step_states()
            .zip(state.step_states())
            .all(|((_, from), (_, to))| step_may_move(from, to));
        next.state = state;
    }
    Some(next)
}

/// What the visit found.
#[derive(Debug)]
pub struct Visit {
    /// Different states.
    pub unique: usize,
    /// States generated, repetitions included.
    pub generated: usize,
    /// The longest way.
    pub depth: usize,
    /// Broken properties, with the way that breaks them.
    pub broken: Vec<String>,
}

/// Visits everything.
///
/// # Errors
/// The small definition does not parse.
pub fn visit() -> Result<Visit, String> {
    let checker = Small::new()?.checker().threads(2).spawn_bfs().join();
    let wanted: Vec<&str> = checker
        .model()
        .properties()
        .iter()
        .map(|p| p.name)
        .collect();
    let found = checker.discoveries();
    let is_example = |name: &str| name.starts_with("it can");
    let mut broken: Vec<String> = found
        .iter()
        .filter(|(name, _)| !is_example(name))
        .map(|(name, path)| format!("{name}: {:?}", path.clone().into_actions()))
        .collect();
    let lost = wanted
        .into_iter()
        .filter(|name| is_example(name) && !found.contains_key(name));
    broken.extend(lost.map(|name| format!("never: {name}")));
    Ok(Visit {
        unique: checker.unique_state_count(),
        generated: checker.state_count(),
        depth: checker.max_depth(),
        broken,
    })
}
