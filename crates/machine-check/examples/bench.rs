//! `cargo run --release -p stateway-machine-check --example bench`
//!
//! What one step transition costs, in nanoseconds and allocations, and that it does not grow with
//! the number of steps.

use std::alloc::System;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::json;
use stateway_definition::{Definition, parse};
use stateway_machine::{
    Command, Data, Event, Failure, Plan, State, Task, Verb, decide, decode, encode, evolve, replay,
};
use stateway_model::ErrorCategory;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    println!("one step transition: decide (step completed, next step started) + evolve of both");
    println!(
        "{:>6} {:>14} {:>14} {:>14}",
        "steps", "ns/transition", "allocations", "bytes/event"
    );
    for steps in [10, 100, 1_000] {
        let run = chain(steps);
        println!(
            "{steps:>6} {:>14.0} {:>14.1} {:>14.0}",
            run.nanos / run.transitions,
            run.allocations / run.transitions,
            run.bytes / run.event_count(),
        );
    }
    println!("\nreplay");
    println!(
        "{:>6} {:>14} {:>14} {:>18}",
        "events", "µs", "ns/event", "decode ns/event"
    );
    for (steps, retries) in [(227, 3), (455, 3), (909, 3), (1_000, 6)] {
        replay_of(steps, retries);
    }
}

struct Run {
    events: Vec<Event>,
    transitions: f64,
    nanos: f64,
    allocations: f64,
    bytes: f64,
}

impl Run {
    fn event_count(&self) -> f64 {
        u32::try_from(self.events.len()).map_or(1.0, f64::from)
    }
}

fn definition(steps: usize) -> Definition {
    let mut text = String::from(
        "steps:\n  - {name: s0, agent: w, timeout: 5m, retryPolicy: {maxRetries: 9}}\n",
    );
    for n in 1..steps {
        let before = n - 1;
        text.push_str(&format!(
            "  - {{name: s{n}, agent: w, timeout: 5m, retryPolicy: {{maxRetries: 9}}, dependsOn: [s{before}]}}\n"
        ));
    }
    parse(&text, "bench.yaml")
        .expect("the bench's definition parses")
        .definition
}

/// A chain of steps, each completed as soon as it is handed out; the best of several runs.
fn chain(steps: usize) -> Run {
    let plan = Arc::new(Plan::new(definition(steps)).expect("the bench's plan is whole"));
    let rounds = (50_000 / steps).max(5);
    let mut best: Option<Run> = None;
    for _ in 0..rounds {
        let run = once(&plan, steps);
        if best.as_ref().is_none_or(|best| run.nanos < best.nanos) {
            best = Some(run);
        }
    }
    best.expect("there is at least one round")
}

fn once(plan: &Arc<Plan>, steps: usize) -> Run {
    let now = Timestamp::from_second(1_800_000_000).expect("a moment in 2027");
    let mut log = Vec::with_capacity(steps * 2 + 8);
    let mut state = begin(plan, now, &mut log);
    let output = Data::new(json!({"ok": true}));
    let commands: Vec<Verb> = plan
        .definition()
        .steps
        .iter()
        .map(|step| Verb::complete(Task::of(step.name.as_str(), 1), Arc::clone(&output)))
        .collect();
    let (began, counted) = (Instant::now(), Region::new(COUNTING));
    for verb in commands {
        state = send(state, verb, now, &mut log);
    }
    let nanos = began.elapsed().as_nanos() as f64;
    let allocations = counted.change().allocations as f64;
    assert!(black_box(&state).state().is_terminal());
    let bytes = log.iter().map(|event| encode(event).len()).sum::<usize>() as f64;
    let transitions = steps as f64;
    Run {
        events: log,
        transitions,
        nanos,
        allocations,
        bytes,
    }
}

/// Created, triggered, with a slot.
fn begin(plan: &Arc<Plan>, now: Timestamp, log: &mut Vec<Event>) -> State {
    let mut state = State::new(Arc::clone(plan));
    let create = Verb::Create {
        execution: "0192f0c1-7d4e-7000-8000-000000000001".into(),
        correlation: "order-7".into(),
        initiator: "ada".into(),
        input: Data::new(json!({"order": 7})),
        redone_by: Vec::new(),
    };
    for verb in [create, Verb::Trigger { by: "ada".into() }, Verb::GrantSlot] {
        state = send(state, verb, now, log);
    }
    state
}

fn send(mut state: State, verb: Verb, now: Timestamp, log: &mut Vec<Event>) -> State {
    let events = decide(&state, Command::new("c", verb), now).expect("the bench is in order");
    for event in events {
        state = evolve(state, &event);
        log.push(event);
    }
    state
}

/// A chain in which every step fails some times before it is done: 2 + 3 × retries events each.
fn replay_of(steps: usize, retries: u32) {
    let plan = Arc::new(Plan::new(definition(steps)).expect("the bench's plan is whole"));
    let events = with_retries(&plan, retries);
    let count = events.len();
    let written: Vec<Vec<u8>> = events.iter().map(encode).collect();
    let began = Instant::now();
    let read: Vec<Event> = written
        .iter()
        .filter_map(|bytes| decode(bytes).ok())
        .collect();
    let decoding = began.elapsed().as_nanos() as f64 / count as f64;
    let mut best = f64::MAX;
    for _ in 0..20 {
        let began = Instant::now();
        let state = replay(Arc::clone(&plan), &read).expect("the bench's log is whole");
        best = best.min(began.elapsed().as_nanos() as f64);
        black_box(state);
    }
    println!(
        "{count:>6} {:>14.0} {:>14.0} {decoding:>18.0}",
        best / 1_000.0,
        best / count as f64
    );
}

fn with_retries(plan: &Arc<Plan>, retries: u32) -> Vec<Event> {
    let now = Timestamp::from_second(1_800_000_000).expect("a moment in 2027");
    let mut log = Vec::new();
    let mut state = begin(plan, now, &mut log);
    for step in &plan.definition().steps {
        let name: Arc<str> = step.name.as_str().into();
        for attempt in 1..=retries {
            let failure = Failure::reported(ErrorCategory::Transient, "connection reset");
            let task = Task::of(Arc::clone(&name), attempt);
            state = send(state, Verb::fail(task, failure), now, &mut log);
            state = send(
                state,
                Verb::RetryNow {
                    step: Arc::clone(&name),
                    by: "ada".into(),
                },
                now,
                &mut log,
            );
        }
        let (task, output) = (Task::of(name, retries + 1), Data::new(json!({"ok": true})));
        state = send(state, Verb::complete(task, output), now, &mut log);
    }
    assert!(state.state().is_terminal());
    log
}
