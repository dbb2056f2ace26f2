//! Every state that a small definition can reach, visited by stateright.
//!
//! Time is left out of the comparison (two states that differ only in when they were reached count as
//! one), and attempts are bounded: a person may restart a step as often as they like, the check lets
//! them do it once. Within those bounds every state is visited.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use stateright::{Checker as _, Model, Property};
use stateway_definition::parse;
use stateway_machine::{
    Awaited, CancelMode, Command, Data, ExecutionState, Failure, Obligation, Plan, PolicyDecision,
    Resolution, State, StepState, Task, TaskOrder, Verb, awaited, decide, evolve, later,
    obligations, snapshot, step_views, sub_state,
};
use stateway_model::{ErrorCategory, Reason, Usage};
use stateway_replay::{execution_may_move, step_may_move};

use crate::invariant::everything_open_can_continue;

/// Small definitions: one with every failure action and every kind of wait, one with work in flight
/// when it rolls back.
pub const SMALL: [(&str, &str); 2] = [
    ("exhaustive.yaml", include_str!("exhaustive.yaml")),
    ("in-flight.yaml", include_str!("in-flight.yaml")),
];
/// How often any step is begun, first attempts and people's decisions included.
const MOST_ATTEMPTS: u32 = 3;

/// The role whose tasks need an approval by a policy rule.
const GUARDED: &str = "guarded";

/// A state, compared without its times.
#[derive(Clone, Debug)]
pub struct Node {
    state: State,
    now: Timestamp,
    legal: bool,
    /// The state without its times, hashed.
    print: u64,
}

impl Node {
    fn attempt(&self, step: &str) -> u32 {
        let views = step_views(&self.state);
        views
            .iter()
            .find(|view| view.name == step)
            .map_or(0, |view| view.retry.attempt)
    }
}

/// Members of a snapshot that tell what happened and do not decide what can follow: times, results,
/// who decided what.
const PAST: [&str; 23] = [
    "at",
    "cancelled",
    "decision",
    "ended",
    "escalation_role",
    "failed_at",
    "failed_attempt",
    "fault",
    "feedback",
    "first_started",
    "last_event",
    "hand_outs",
    "handed_to",
    "last_failed",
    "left_behind",
    "message",
    "output",
    "revision",
    "seen",
    "sequence",
    "since",
    "times",
    "usage",
];
/// Members of a step that count only while something of it is open.
const OPEN: [&str; 3] = ["lost", "timed", "worker"];
/// Members of a step that count only while the execution may start it again.
const FORWARD: [&str; 7] = [
    "approved_rule",
    "attempt",
    "corrections",
    "failures",
    "role",
    "skipped_by_failure",
    "unmet",
];
/// Members of which only the presence counts.
const DUE: [&str; 6] = [
    "deadline",
    "held_since",
    "due",
    "queue_due",
    "heartbeat_due",
    "resume_at",
];

/// Everything that decides what can follow: the snapshot of the state, without what is past.
fn print(state: &State, legal: bool) -> u64 {
    let mut value: Value = serde_json::from_slice(&snapshot(state)).unwrap_or_default();
    let unsettled = value["head"]["unsettled"].take();
    let ends = value["head"]["ending"].get("escalated").is_none();
    let over = state.state().is_terminal() || state.state().is_ending() && ends;
    if let Some(steps) = value["steps"].as_array_mut() {
        for (at, (step, (_, now))) in steps.iter_mut().zip(state.step_states()).enumerate() {
            let failed = unsettled
                .as_array()
                .is_some_and(|list| list.contains(&json!(at)));
            forget(step, (now.is_open(), failed), over);
        }
    }
    strip(&mut value);
    let mut hasher = DefaultHasher::new();
    (value.to_string(), legal).hash(&mut hasher);
    hasher.finish()
}

fn forget(step: &mut Value, (open, failed): (bool, bool), over: bool) {
    if let Some(step) = step.as_object_mut() {
        step.retain(|name, _| {
            let name = name.as_str();
            let counts = match name {
                "failure" => failed,
                name if OPEN.contains(&name) => open,
                _ => true,
            };
            counts && !(over && FORWARD.contains(&name))
        });
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !PAST.contains(&name.as_str()));
            for (name, member) in members.iter_mut() {
                if DUE.contains(&name.as_str()) {
                    *member = Value::Bool(true);
                } else {
                    strip(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

impl Eq for Node {}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print.hash(state);
    }
}

/// Everything that can be done to a small definition.
pub struct Small {
    plan: Arc<Plan>,
}

impl Small {
    /// The model of one of [`SMALL`].
    ///
    /// # Errors
    /// The definition does not parse.
    pub fn new(file: &str, source: &str) -> Result<Self, String> {
        let parsed = parse(source, file).map_err(|invalid| invalid.to_string())?;
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
            print: 0,
        };
        let create = Verb::Create {
            execution: "e".into(),
            correlation: "c".into(),
            initiator: "ada".into(),
            input: Data::new(json!({})),
            redone_by: Vec::new(),
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
                Obligation::Task(order) => tasks(node, &order, actions),
                Obligation::Child(order) => {
                    let task = order.key.task;
                    actions.push((soon, Act::Child(task.clone(), false)));
                    actions.push((soon, Act::Child(task, true)));
                }
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
            Property::<Self>::always("whatever is open can continue", |_, node| {
                let owed = obligations(&node.state);
                everything_open_can_continue(&owed, &node.state, node.now).is_ok()
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
                reason == Some(Reason::PartiallyRolledBack)
            }),
            Property::<Self>::sometimes("it can be escalated", |_, node| {
                node.state.state() == ExecutionState::Escalated
            }),
            Property::<Self>::sometimes("it can wait for work in flight", |_, node| {
                node.state.state() == ExecutionState::Cancelling
            }),
            Property::<Self>::sometimes("it can run again after a rollback", |_, node| {
                let mut steps = node.state.step_states();
                node.attempt("bill") > 1 && steps.all(|(_, state)| state == StepState::Completed)
            }),
            Property::<Self>::always("nothing is compensated beside work in flight", |_, node| {
                let open = |wanted| {
                    let busy = |owed: &Obligation| matches!(owed, Obligation::Task(order) if order.key.task.undo == wanted);
                    obligations(&node.state).iter().any(busy)
                };
                !(open(true) && open(false))
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
    /// A worker gives a task back, or is lost with it.
    Release(Task, bool),
    /// A policy rule asks for an approval.
    Require(Task),
    /// A worker is done.
    Complete(Task),
    /// A worker's output does not match.
    Botch(Task),
    /// A worker fails.
    Fail(Task, ErrorCategory),
    /// A child completes, or fails.
    Child(Task, bool),
    /// A timer fires.
    Fire(String),
    /// A signal.
    Signal(Arc<str>),
    /// An approval is decided.
    Vote(Arc<str>, u32, bool),
    /// An escalation is resolved.
    Resolve(Arc<str>, u32, Resolution),
    /// Pause.
    Pause,
    /// Resume.
    Resume,
    /// Cancel.
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
                identity: "".into(),
            },
            Self::Release(task, lost) => Verb::ReleaseTask { task, lost },
            Self::Require(task) => Verb::DecidePolicy {
                task,
                rule: "rule".into(),
                decision: PolicyDecision::RequireApproval {
                    role: "boss".into(),
                    due: None,
                },
            },
            Self::Complete(task) => Verb::complete(task, Data::new(json!({"ok": 1}))),
            Self::Botch(task) => Verb::complete(task, Data::new(json!(0))),
            Self::Fail(task, category) => Verb::fail(task, Failure::reported(category, "x")),
            Self::Child(Task { step, attempt, .. }, completes) => Verb::FinishChild {
                step,
                attempt,
                outcome: if completes {
                    Ok(Data::new(json!({})))
                } else {
                    Err(Failure::reported(ErrorCategory::External, "x"))
                },
                usage: Usage::default(),
            },
            Self::Fire(shown) => {
                let mut owed = obligations(state).into_iter();
                Verb::fire(owed.find_map(|owed| match owed {
                    Obligation::Timer { timer, .. } if format!("{timer:?}") == shown => Some(timer),
                    _ => None,
                })?)
            }
            Self::Signal(name) => {
                let id = format!("m{}", state.sequence()).into();
                Verb::SendSignal {
                    name,
                    id,
                    payload: Data::new(json!({})),
                    by,
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
            Self::Resolve(step, attempt, resolution) => Verb::ResolveEscalation {
                step,
                attempt,
                resolution,
                by,
                roles: vec!["lead".into()],
                operators: Vec::new(),
                comment,
                compensate: None,
            },
            Self::Pause => Verb::Pause { by, comment },
            Self::Resume => Verb::Resume { by },
            Self::Cancel(mode) => Verb::Cancel { mode, by, comment },
        })
    }
}

fn tasks(node: &Node, order: &TaskOrder, actions: &mut Vec<(Duration, Act)>) {
    let task = &order.key.task;
    let mut add = |act| actions.push((Duration::ZERO, act));
    if order.worker.is_none() {
        add(Act::Assign(task.clone()));
        if *order.role == *GUARDED {
            add(Act::Require(task.clone()));
        }
        return;
    }
    add(Act::Release(task.clone(), false));
    add(Act::Release(task.clone(), true));
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
            let enough = node
                .state
                .step_states()
                .any(|(step, _)| node.attempt(step) >= MOST_ATTEMPTS);
            if enough {
                Vec::new()
            } else {
                vec![Act::Resume]
            }
        }
        Awaited::Signal { name, .. } => vec![Act::Signal(Arc::clone(name))],
        Awaited::Approval { step, attempt, .. } => [true, false]
            .map(|grant| Act::Vote(Arc::clone(step), *attempt, grant))
            .to_vec(),
        Awaited::Person { step, attempt, .. } => {
            let resolve = |resolution| Act::Resolve(Arc::clone(step), *attempt, resolution);
            let mut acts = vec![resolve(Resolution::Cancel)];
            if node.attempt(step) < MOST_ATTEMPTS {
                acts.push(resolve(Resolution::Resume));
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
    next.print = print(&next.state, next.legal);
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

/// Visits every state of every small definition.
///
/// # Errors
/// A small definition does not parse.
pub fn visit() -> Result<Visit, String> {
    let mut visit = Visit {
        unique: 0,
        generated: 0,
        depth: 0,
        broken: Vec::new(),
    };
    let mut reached = BTreeSet::new();
    let mut wanted = BTreeSet::new();
    for (file, source) in SMALL {
        let checker = Small::new(file, source)?
            .checker()
            .threads(2)
            .spawn_bfs()
            .join();
        visit.unique += checker.unique_state_count();
        visit.generated += checker.state_count();
        visit.depth = visit.depth.max(checker.max_depth());
        let properties = checker.model().properties();
        wanted.extend(properties.iter().map(|property| property.name));
        for (name, path) in checker.discoveries() {
            if is_example(name) {
                reached.insert(name);
            } else {
                let way = path.into_actions();
                visit.broken.push(format!("{file}: {name}: {way:?}"));
            }
        }
    }
    let wanted = wanted.into_iter().filter(|name| is_example(name));
    let missed = wanted.filter(|name| !reached.contains(name));
    visit
        .broken
        .extend(missed.map(|name| format!("never: {name}")));
    Ok(visit)
}

fn is_example(property: &str) -> bool {
    property.starts_with("it can")
}
