//! Logs of version 1, written by a build that knew no other: they replay to the states that build
//! reached.
//!
//! `tests/histories/*.jsonl` at the root of the repository are recordings of the engine, each with a text
//! file of its outcome. `crates/machine/tests/golden/worlds-v1.jsonl` holds random executions of the core with theirs. Neither
//! is ever written again.
#![allow(clippy::unwrap_used)] // In a test, a wrong value is meant to end it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use stateway_definition::{Definition, parse};
use stateway_machine::{
    Event, Plan, State, decode, encode, obligations, replay, restore, snapshot, step_views,
    sub_state,
};
use stateway_replay::{Trajectory, project, vocabularies};

const WORLDS: &str = include_str!("../../machine/tests/golden/worlds-v1.jsonl");

fn event(line: &str) -> Event {
    assert!(line.starts_with("{\"v\":1,"), "{line}");
    decode(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// A recording of the engine: its definition, and the log of each branch.
struct Recording {
    plan: Arc<Plan>,
    branches: BTreeMap<u64, Vec<Event>>,
}

impl Recording {
    fn read(text: &str) -> Self {
        let mut plan = None;
        let mut branches: BTreeMap<u64, Vec<Event>> = BTreeMap::from([(0, Vec::new())]);
        let mut current = 0;
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            if let Some(definition) = value.get("definition").filter(|one| one.is_object()) {
                let source = definition["source"].as_str().unwrap();
                let parsed = parse(source, "recorded.yaml").unwrap();
                plan = plan.or_else(|| Some(Arc::new(Plan::new(parsed.definition).unwrap())));
            } else if let Some(branch) = value.get("branch").filter(|one| one.is_object()) {
                let cutoff = branch["cutoff"].as_u64().unwrap();
                let parent = branch["parent"].as_u64().unwrap();
                branches.insert(branch["branch"].as_u64().unwrap(), Vec::new());
                assert_eq!(
                    (parent, cutoff > 0),
                    (0, true),
                    "a branch of the first branch"
                );
            } else if let Some(row) = value.get("row") {
                current = row["branch"].as_u64().unwrap();
                let first = row["first"].as_u64().unwrap();
                let shared = usize::try_from(first - 1).unwrap();
                if branches[&current].is_empty() {
                    let parent = branches[&0].iter().take(shared).cloned().collect();
                    branches.insert(current, parent);
                }
            } else if value.get("fact").is_some() {
                branches.get_mut(&current).unwrap().push(event(line));
            }
        }
        Self {
            plan: plan.unwrap(),
            branches,
        }
    }

    /// For each branch its end and the way there, as the text file beside the recording has it.
    fn account(&self) -> String {
        let mut text = String::new();
        for (branch, events) in &self.branches {
            let state = replay(Arc::clone(&self.plan), events).unwrap();
            let reason = state.reason().map_or("", |reason| reason.as_str());
            let output = state.output().map(ToString::to_string).unwrap_or_default();
            let head = format!(
                "branch {branch}: {} events, {} {reason} {output}",
                events.len(),
                state.state()
            );
            writeln!(text, "{}", head.trim_end()).unwrap();
            text.push_str(&Trajectory::of(Arc::clone(&self.plan), events).to_string());
        }
        text
    }
}

fn recordings() -> Vec<(String, Recording, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/histories");
    let entries = std::fs::read_dir(folder).unwrap();
    let paths: BTreeSet<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let mut found = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        // Recordings of later versions have events of later versions.
        if path.extension().is_some_and(|kind| kind == "jsonl") && text.contains("\n{\"v\":1,") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let golden = std::fs::read_to_string(path.with_extension("txt")).unwrap();
            found.push((name, Recording::read(&text), golden));
        }
    }
    found
}

#[test]
fn every_recording_of_version_1_replays_to_the_outcome_it_had() {
    let recordings = recordings();
    assert_eq!(recordings.len(), 7);
    for (name, recording, golden) in recordings {
        assert_eq!(recording.account(), golden, "{name}");
    }
}

/// The states of all steps at the end, which the text files do not hold.
#[test]
fn every_recording_of_version_1_ends_with_its_steps_as_they_were() {
    let ends: Vec<String> = recordings()
        .iter()
        .flat_map(|(name, recording, _)| {
            recording.branches.iter().map(move |(branch, events)| {
                let state = replay(Arc::clone(&recording.plan), events).unwrap();
                let steps = state
                    .step_states()
                    .map(|(step, at)| format!(" {step} {at}"));
                format!("{name}/{branch}:{}", steps.collect::<String>())
            })
        })
        .collect();
    assert_eq!(
        ends,
        [
            "approval/0: ready completed sign-off completed ship completed",
            "branch-by-retry-from/0: a completed b failed",
            "branch-by-retry-from/1: a completed b completed",
            "cancelled/0: a completed b cancelled",
            "child-workflow/0: nap completed part completed",
            "correction/0: write completed",
            "retries/0: charge completed",
            "saga-with-compensation/0: reserve compensated charge failed",
        ]
    );
}

/// One random execution: its plan, its log and its end.
struct World {
    plan: Arc<Plan>,
    events: Vec<Event>,
    end: Value,
}

fn worlds() -> Vec<World> {
    let mut found = Vec::new();
    let mut open: Option<(Arc<Plan>, Vec<Event>)> = None;
    for line in WORLDS.lines() {
        if line.starts_with("{\"v\":") {
            open.as_mut().unwrap().1.push(event(line));
            continue;
        }
        let mut value: Value = serde_json::from_str(line).unwrap();
        if let Some(definition) = value.get_mut("definition") {
            let definition: Definition = serde_json::from_value(definition.take()).unwrap();
            open = Some((Arc::new(Plan::new(definition).unwrap()), Vec::new()));
        } else {
            let (plan, events) = open.take().unwrap();
            let end = value["end"].take();
            found.push(World { plan, events, end });
        }
    }
    found
}

fn end_of(state: &State, trajectory: &Trajectory) -> Value {
    let steps: BTreeMap<&str, &str> = state
        .step_states()
        .map(|(step, at)| (step, at.as_str()))
        .collect();
    json!({
        "state": state.state().as_str(),
        "reason": state.reason().map(|reason| reason.as_str()),
        "output": state.output().map(|output| (**output).clone()),
        "steps": steps,
        "trajectory": as_version_1_showed(&trajectory.to_string()),
    })
}

/// The build that recorded the logs showed the back-off of a compensation as running.
fn as_version_1_showed(trajectory: &str) -> Vec<String> {
    let mut shown = BTreeMap::new();
    let mut lines = Vec::new();
    for line in trajectory.lines() {
        let line = line.replace("backing-off COMPENSATING", "running COMPENSATING");
        let subject = line.split(' ').next().unwrap_or_default().to_owned();
        if shown.insert(subject, line.clone()).as_ref() != Some(&line) {
            lines.push(line);
        }
    }
    lines
}

#[test]
fn random_logs_of_version_1_replay_to_the_states_that_were_reached() {
    let worlds = worlds();
    let ends: BTreeSet<_> = worlds
        .iter()
        .map(|one| one.end["state"].to_string())
        .collect();
    assert_eq!(
        ends.len(),
        4,
        "every terminal state is among them: {ends:?}"
    );
    for world in worlds {
        let state = replay(Arc::clone(&world.plan), &world.events).unwrap();
        let trajectory = Trajectory::of(Arc::clone(&world.plan), &world.events);
        assert_eq!(end_of(&state, &trajectory), world.end);
    }
}

#[test]
fn random_logs_of_version_1_hold_every_fact_of_that_version() {
    let worlds = worlds();
    let facts: BTreeSet<_> = worlds
        .iter()
        .flat_map(|world| &world.events)
        .map(|event| event.fact.name())
        .collect();
    assert_eq!(facts.len(), 35, "{facts:?}");
}

/// An execution that the old build left open is read at any event: its state can be shown, stored,
/// projected and continued.
#[test]
fn a_log_of_version_1_can_be_read_at_every_event() {
    for world in worlds() {
        let mut state = State::new(Arc::clone(&world.plan));
        for event in &world.events {
            state.apply(event);
            let restored = restore(Arc::clone(state.plan()), &snapshot(&state)).unwrap();
            assert_eq!(restored, state, "after {}", event.fact.name());
            let shown = step_views(&state).len();
            assert_eq!(shown, state.plan().definition().steps.len());
            let ended = sub_state(&state).0.is_terminal();
            assert_eq!(ended, state.state().is_terminal());
            assert!(!ended || obligations(&state).is_empty());
        }
        for words in vocabularies().unwrap() {
            let projection = project(&words, Arc::clone(&world.plan), &world.events);
            let steps = projection.steps.values().flatten();
            for one in projection.execution.iter().chain(steps) {
                let illegal = one.kind == stateway_replay::MoveKind::Illegal;
                assert!(!illegal, "{}: {one:?}", words.name);
            }
        }
    }
}

#[test]
fn a_log_of_version_1_is_written_again_as_version_2_and_leads_to_the_same_state() {
    for world in worlds() {
        let again: Vec<Event> = world
            .events
            .iter()
            .map(|event| {
                let bytes = encode(event);
                assert!(bytes.starts_with(b"{\"v\":2,"));
                decode(&bytes).unwrap()
            })
            .collect();
        assert_eq!(again, world.events);
        let (new, old) = (&again, &world.events);
        assert_eq!(
            replay(Arc::clone(&world.plan), new),
            replay(Arc::clone(&world.plan), old)
        );
    }
}
