//! A small simulation of the service: random state machines, run to their end.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};
use stateway_chance::Chance;
use stateway_provider_step_functions::pure::{Detail, Event};

/// Beyond this nothing new is nested.
const DEEPEST: u32 = 3;

pub(crate) struct Run {
    pub(crate) definition: Value,
    pub(crate) events: Vec<Event>,
    /// What was open after each event.
    pub(crate) moments: Vec<Moment>,
}

/// The open steps that are neither Parallel nor Map, with whether each backs off.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moment {
    pub(crate) open: BTreeMap<String, bool>,
}

pub(crate) fn simulate(seed: u64) -> Run {
    let mut dice = Chance::new(seed);
    let mut names = 0;
    let program = sequence(&mut dice, &mut names, 0);
    let definition = machine(&program);
    let mut world = World {
        dice,
        events: Vec::new(),
        moments: Vec::new(),
        threads: Vec::new(),
    };
    world.emit("ExecutionStarted", 0, Detail::default());
    let mut root = Thread::new(0, String::new(), None);
    root.ops.extend(program.iter().cloned().map(Op::Do));
    world.threads.push(root);
    while world.step() {}
    let last = world.events.len() as u64;
    world.emit("ExecutionSucceeded", last, Detail::default());
    Run {
        definition,
        events: world.events,
        moments: world.moments,
    }
}

#[derive(Debug, Clone)]
enum Node {
    Pass(String),
    Wait(String),
    /// Fails this often before it succeeds.
    Task(String, u64),
    /// With this many failed attempts of the whole; then the first branch begins with a task that
    /// fails and that nothing retries.
    Parallel(String, u64, Vec<Vec<Node>>),
    Map(String, u64, Vec<Node>),
}

fn sequence(dice: &mut Chance, names: &mut u32, depth: u32) -> Vec<Node> {
    (0..=dice.below_u64(3))
        .map(|_| node(dice, names, depth))
        .collect()
}

fn node(dice: &mut Chance, names: &mut u32, depth: u32) -> Node {
    *names += 1;
    let name = |kind: &str| format!("{kind}{names}");
    match dice.below_u64(if depth < DEEPEST { 7 } else { 4 }) {
        0 => Node::Pass(name("pass")),
        1 => Node::Wait(name("wait")),
        2 | 3 => Node::Task(name("task"), dice.below_u64(3)),
        4 | 5 => {
            let name = name("parallel");
            let failures = dice.below_u64(3).saturating_sub(1);
            let count = 1 + dice.below_u64(3);
            let mut branches: Vec<_> = (0..count)
                .map(|_| sequence(dice, names, depth + 1))
                .collect();
            if failures > 0 {
                *names += 1;
                branches[0].insert(0, Node::Task(format!("doomed{names}"), 0));
            }
            Node::Parallel(name, failures, branches)
        }
        _ => {
            let name = name("map");
            let count = dice.below_u64(4);
            Node::Map(name, count, sequence(dice, names, depth + 1))
        }
    }
}

fn machine(nodes: &[Node]) -> Value {
    let retry = |most: u64| json!([{"ErrorEquals": ["Boom"], "MaxAttempts": most}]);
    let states = nodes.iter().map(|node| match node {
        Node::Pass(name) => (name.clone(), json!({"Type": "Pass"})),
        Node::Wait(name) => (name.clone(), json!({"Type": "Wait", "Seconds": 9})),
        Node::Task(name, fails) => (
            name.clone(),
            json!({"Type": "Task", "Retry": retry(*fails)}),
        ),
        Node::Parallel(name, fails, branches) => {
            let branches: Vec<_> = branches.iter().map(|branch| machine(branch)).collect();
            let state = json!({"Type": "Parallel", "Retry": retry(*fails), "Branches": branches});
            (name.clone(), state)
        }
        Node::Map(name, _, body) => (
            name.clone(),
            json!({"Type": "Map", "ItemProcessor": machine(body)}),
        ),
    });
    json!({"States": states.collect::<serde_json::Map<_, _>>()})
}

#[derive(Debug, Clone)]
enum Op {
    Do(Node),
    /// An event of the open state.
    Event(&'static str, &'static str, String),
    /// Starts an attempt of a container: name, failures left, what each child does.
    Fork(String, &'static str, u64, Vec<Vec<Node>>),
    /// The whole attempt fails with the event before.
    FailContainer,
}

struct Thread {
    previous: u64,
    prefix: String,
    parent: Option<usize>,
    ops: VecDeque<Op>,
    /// The open step, and whether it backs off.
    open: Option<(String, bool)>,
    children: Vec<usize>,
    /// What to fork again when the attempt fails.
    attempt: Option<(String, u64, Vec<Vec<Node>>)>,
    iteration: Option<(String, u64)>,
    done: bool,
}

impl Thread {
    fn new(previous: u64, prefix: String, parent: Option<usize>) -> Self {
        Self {
            previous,
            prefix,
            parent,
            ops: VecDeque::new(),
            open: None,
            children: Vec::new(),
            attempt: None,
            iteration: None,
            done: false,
        }
    }
}

struct World {
    dice: Chance,
    events: Vec<Event>,
    moments: Vec<Moment>,
    threads: Vec<Thread>,
}

impl World {
    fn emit(&mut self, kind: &str, previous: u64, detail: Detail) -> u64 {
        let id = self.events.len() as u64 + 1;
        self.events.push(Event {
            id,
            previous,
            kind: kind.to_owned(),
            at: None,
            detail,
        });
        self.moments.push(Moment::default());
        id
    }

    /// Notes what is open now, for the last event.
    fn note(&mut self) {
        let open = self.threads.iter().filter(|thread| !thread.done);
        let open = open.filter_map(|thread| thread.open.clone()).collect();
        if let Some(moment) = self.moments.last_mut() {
            moment.open = open;
        }
    }

    /// Lets one thread make one move. Whether there was one.
    fn step(&mut self) -> bool {
        let ready: Vec<usize> = (0..self.threads.len())
            .filter(|at| self.is_ready(*at))
            .collect();
        if ready.is_empty() {
            return false;
        }
        let chosen = self.dice.below_u64(ready.len() as u64) as usize;
        self.advance(ready[chosen]);
        self.note();
        true
    }

    fn is_ready(&self, at: usize) -> bool {
        let thread = &self.threads[at];
        !thread.done
            && thread
                .children
                .iter()
                .all(|child| self.threads[*child].done)
    }

    fn advance(&mut self, at: usize) {
        let children = std::mem::take(&mut self.threads[at].children);
        if let Some(last) = children
            .iter()
            .map(|child| self.threads[*child].previous)
            .max()
        {
            self.threads[at].previous = last;
        }
        let Some(op) = self.threads[at].ops.pop_front() else {
            self.threads[at].done = true;
            if let Some((name, index)) = self.threads[at].iteration.clone() {
                let detail = Detail {
                    name: Some(name),
                    index: Some(index),
                    ..Detail::default()
                };
                let previous = self.threads[at].previous;
                self.emit("MapIterationSucceeded", previous, detail);
            }
            return;
        };
        match op {
            Op::Do(node) => self.begin(at, &node),
            Op::Event(kind, error, name) => self.say(at, kind, error, &name),
            Op::Fork(name, kind, failures, bodies) => self.fork(at, name, kind, failures, bodies),
            Op::FailContainer => self.fail_container(at),
        }
    }

    fn begin(&mut self, at: usize, node: &Node) {
        let mut ops = Vec::new();
        let event = |kind, name: &str| Op::Event(kind, "", name.to_owned());
        match node {
            Node::Pass(name) => {
                self.say(at, "PassStateEntered", "", name);
                ops.push(event("PassStateExited", name));
            }
            Node::Wait(name) => {
                self.say(at, "WaitStateEntered", "", name);
                ops.push(event("WaitStateExited", name));
            }
            Node::Task(name, failures) => {
                self.say(at, "TaskStateEntered", "", name);
                let doomed = name.starts_with("doomed") && self.is_doomed(at);
                for _ in 0..*failures {
                    ops.push(event("ActivityScheduled", name));
                    ops.push(event("ActivityStarted", name));
                    ops.push(Op::Event("ActivityFailed", "Boom", name.clone()));
                }
                ops.push(event("ActivityScheduled", name));
                if doomed {
                    ops.push(Op::Event("ActivityFailed", "Boom", name.clone()));
                    ops.push(Op::FailContainer);
                } else {
                    ops.push(event("ActivityStarted", name));
                    ops.push(event("ActivitySucceeded", name));
                    ops.push(event("TaskStateExited", name));
                }
            }
            Node::Parallel(name, failures, branches) => {
                self.say(at, "ParallelStateEntered", "", name);
                let fork = Op::Fork(name.clone(), "Parallel", *failures, branches.clone());
                ops.extend([fork, event("ParallelStateSucceeded", name)]);
                ops.push(event("ParallelStateExited", name));
            }
            Node::Map(name, count, body) => {
                self.say(at, "MapStateEntered", "", name);
                let bodies = (0..*count).map(|_| body.clone()).collect();
                ops.push(Op::Fork(name.clone(), "Map", 0, bodies));
                ops.push(event("MapStateSucceeded", name));
                ops.push(event("MapStateExited", name));
            }
        }
        for op in ops.into_iter().rev() {
            self.threads[at].ops.push_front(op);
        }
    }

    fn is_doomed(&self, at: usize) -> bool {
        let parent = self.threads[at].parent.map(|parent| &self.threads[parent]);
        let attempt = parent.and_then(|parent| parent.attempt.as_ref());
        attempt.is_some_and(|(_, failures, _)| *failures > 0)
    }

    fn say(&mut self, at: usize, kind: &'static str, error: &str, name: &str) {
        let named = kind.contains("StateEntered") || kind.contains("StateExited");
        let detail = Detail {
            name: named.then(|| name.to_owned()),
            error: (!error.is_empty()).then(|| error.to_owned()),
            ..Detail::default()
        };
        let previous = self.threads[at].previous;
        let id = self.emit(kind, previous, detail);
        let thread = &mut self.threads[at];
        // The service links the exit of a Map to what its success is linked to.
        if kind != "MapStateSucceeded" {
            thread.previous = id;
        }
        let container = kind.starts_with("Parallel") || kind.starts_with("Map");
        let doomed = name.starts_with("doomed");
        thread.open = match kind {
            _ if container || kind.ends_with("Exited") => None,
            "ActivityFailed" => Some((
                format!("{}{name}", thread.prefix),
                !doomed || error == "Boom",
            )),
            _ => Some((format!("{}{name}", thread.prefix), false)),
        };
        if doomed && kind == "ActivityFailed" {
            self.drop_siblings(at);
        }
    }

    /// The whole container backs off: nothing else in it counts.
    fn drop_siblings(&mut self, at: usize) {
        let Some(parent) = self.threads[at].parent else {
            return;
        };
        let siblings = self.threads[parent].children.clone();
        for sibling in siblings.into_iter().filter(|sibling| *sibling != at) {
            self.drop_thread(sibling);
        }
    }

    fn drop_thread(&mut self, at: usize) {
        self.threads[at].done = true;
        for child in self.threads[at].children.clone() {
            self.drop_thread(child);
        }
    }

    fn fork(&mut self, at: usize, name: String, kind: &str, failures: u64, bodies: Vec<Vec<Node>>) {
        let previous = self.threads[at].previous;
        let started = self.emit(&format!("{kind}StateStarted"), previous, Detail::default());
        self.threads[at].previous = started;
        let prefix = self.threads[at].prefix.clone();
        let mut children = Vec::new();
        for (index, body) in bodies.iter().enumerate() {
            let prefix = match kind {
                "Map" => format!("{prefix}{name}[{index}]."),
                _ => format!("{prefix}{name}."),
            };
            let mut child = Thread::new(started, prefix, Some(at));
            child.ops.extend(body.iter().cloned().map(Op::Do));
            if kind == "Map" {
                let detail = Detail {
                    name: Some(name.clone()),
                    index: Some(index as u64),
                    ..Detail::default()
                };
                self.note();
                child.previous = self.emit("MapIterationStarted", started, detail);
                child.iteration = Some((name.clone(), index as u64));
            }
            self.threads.push(child);
            children.push(self.threads.len() - 1);
        }
        self.threads[at].children = children;
        self.threads[at].attempt = Some((name, failures, bodies));
    }

    fn fail_container(&mut self, at: usize) {
        let Some(parent) = self.threads[at].parent else {
            return;
        };
        let failed = self.threads[at].previous;
        for child in std::mem::take(&mut self.threads[parent].children) {
            self.drop_thread(child);
        }
        let Some((name, failures, bodies)) = self.threads[parent].attempt.take() else {
            return;
        };
        self.threads[parent].previous = failed;
        self.fork(parent, name, "Parallel", failures - 1, bodies);
    }
}
