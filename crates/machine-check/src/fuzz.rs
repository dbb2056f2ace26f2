//! Broken bytes for the readers: whatever the input, they answer and never panic.
//!
//! Seeded mutation of a corpus of valid inputs and of hostile ones written manually. The toolchain has
//! no coverage-guided fuzzer; these run in every test run instead, from the same seeds on every
//! machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_definition::{Schedule, limits::MAX_SOURCE_BYTES, parse};
use stateway_machine::{
    CancelMode, Command, Event, Plan, State, Timer, Verb, awaited, decide, decode, decode_command,
    encode, encode_command, evolve, last_error, obligations, restore, snapshot, step_views,
    sub_state, usage, waits,
};
use stateway_replay::rederive;

use crate::invariant::meet;
use crate::world::{Story, run};
use stateway_chance::Chance;

/// Valid definitions and pieces of them.
const DEFINITIONS: [&str; 4] = [
    include_str!("../../definition/tests/examples/every-kind.yaml"),
    include_str!("../../definition/tests/examples/compensation.yaml"),
    include_str!("exhaustive.yaml"),
    include_str!("in-flight.yaml"),
];
/// Valid events of every version.
const EVENTS: [&str; 2] = [
    include_str!("../../machine/tests/golden/events-v1.jsonl"),
    include_str!("../../machine/tests/golden/events-v2.jsonl"),
];
/// Valid commands.
const COMMANDS: &str = include_str!("../../machine/tests/golden/commands-v1.jsonl");
/// A valid snapshot and its definition.
const BUSY: &str = include_str!("../../machine/tests/busy.yaml");
const SNAPSHOT: &str = include_str!("../../machine/tests/golden/snapshot-v4.json");
/// How many random worlds lend their logs.
const LOGS: u64 = 60;
/// What YAML, JSON, references and conditions are made of.
const PIECES: [&str; 29] = [
    "${",
    "}",
    "${input.x}",
    "${steps.a.output[0]}",
    "&a ",
    "*a",
    "<<: *a",
    "!!binary ",
    "---\n",
    "[",
    "{",
    "\"",
    "'",
    "|\n",
    ">-\n",
    "\t",
    "- ",
    ": ",
    "? ",
    "\u{feff}",
    "\\u0000",
    "99999999999999999999",
    "-1",
    "1e999",
    "when: ",
    "trigger: {schedule: '* * * * *', timezone: UTC}",
    "${event.x}",
    "concurrency: ",
    "(((",
];

/// What schedules are made of, and what they are not.
const CRON: [&str; 24] = [
    "*", "0", "1", "5", "7", "23", "31", "59", "60", "-", "/", ",", " ", " ", " ", "mon", "SUN",
    "feb", "*/5", "1-5", "@daily", "L", "?", "é",
];
/// Fields that fit anywhere.
const FIELDS: [&str; 8] = ["*", "*", "1", "5", "*/2", "1-5", "3,4", "2-6/3"];
/// Zones with ordinary, odd and no changes of clocks.
const ZONES: [&str; 5] = [
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
];

/// How much was thrown at a reader.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    /// Inputs.
    pub inputs: u64,
    /// Inputs that were read.
    pub accepted: u64,
}

/// Hostile definitions: each is small and would like to become large, deep or slow.
#[must_use]
pub fn hostile() -> Vec<String> {
    let laughs = (1..12).fold("a0: &a0 [x, x]\n".to_owned(), |text, n| {
        let before = n - 1;
        format!("{text}a{n}: &a{n} [*a{before}, *a{before}, *a{before}, *a{before}]\n")
    });
    let many = |piece: &str, count: usize| piece.repeat(count);
    let listed = |count: usize, one: &dyn Fn(usize) -> String| {
        (0..count).map(one).collect::<Vec<_>>().join(",")
    };
    let long = "n".repeat(58);
    vec![
        // A chain of too many steps, the same behind a ring, a dense graph, and names that are
        // nearly right: each would make comparing steps with each other slow or large.
        format!(
            "steps: [{}]",
            listed(8_000, &|n| format!(
                "{{name: s{n}, dependsOn: [s{}]}}",
                n.saturating_sub(1)
            ))
        ),
        format!(
            "steps: [{}]",
            listed(1_000, &|n| format!(
                "{{name: s{n}, dependsOn: [s{}]}}",
                (n + 1).min(999)
            ))
        ),
        format!(
            "steps: [{}]",
            listed(1_000, &|n| format!(
                "{{name: s{n}, dependsOn: [{}]}}",
                listed(n.min(45), &|back| format!("s{}", n - back - 1))
            ))
        ),
        format!(
            "steps: [{}]",
            listed(300, &|n| format!(
                "{{name: {long}{n}, dependsOn: [{}]}}",
                listed(22, &|other| format!("{long}x{other}"))
            ))
        ),
        format!("{laughs}steps: *a11\n"),
        format!("steps: {}", many("[", 200_000)),
        format!("steps: {}{}", many("[", 200), many("]", 200)),
        format!("steps: {}1{}", many("{a: ", 5_000), many("}", 5_000)),
        many("- ", 100_000),
        many("a:\n ", 50_000),
        many("? ", 100_000),
        format!("steps: [{}]", many("{name: a},", 40_000)),
        format!("steps: [{}]", many("x,", 200_000)),
        format!("name: \"{}\"", many("a", MAX_SOURCE_BYTES + 1)),
        format!("name: \"{}\"", many("a", MAX_SOURCE_BYTES / 2)),
        format!("steps: [{{name: a, when: \"{}true\"}}]", many("!", 2_000)),
        format!("steps: [{{name: a, when: \"{}\"}}]", many("(", 2_000)),
        format!(
            "steps: [{{name: a, input: \"{}\"}}]",
            many("${input.a}", 20_000)
        ),
        format!(
            "steps: [{{name: a, outputSchema: {{pattern: \"{}\"}}}}]",
            many("(a*)*", 200)
        ),
        "steps: [{name: a, outputSchema: {$ref: \"#\"}}]".to_owned(),
        format!("steps: [{{name: a, timeout: {}s}}]", many("9", 400)),
        format!("trigger: {{schedule: \"{}\"}}", many("1,", 100_000)),
        "trigger: {schedule: \"59 23 31 2,4,6,9,11 */7\"}\nsteps: [{name: a}]".to_owned(),
        format!(
            "trigger: {{condition: \"{}\"}}",
            many("${event.a} && ", 2_000)
        ),
        format!("{}: 1", many("k", 100_000)),
        "\u{0}\u{1}\u{2}".to_owned(),
        "%YAML 9.9\n---\nsteps: []".to_owned(),
    ]
}

/// Throws mutated definitions at the reader until the time is up or the count is reached.
#[must_use]
pub fn definitions(seed: u64, count: u64, time: Duration) -> Tally {
    let mut chance = Chance::new(seed);
    until(count, time, || {
        let base = DEFINITIONS[chance.below(DEFINITIONS.len())];
        let text = String::from_utf8_lossy(&mutate(&mut chance, base.as_bytes())).into_owned();
        match parse(&text, "fuzz.yaml") {
            Ok(parsed) => Plan::new(parsed.definition).is_ok(),
            Err(invalid) => {
                let told = invalid.to_string();
                assert!(!invalid.diagnostics.is_empty() && told.contains("hint: "));
                false
            }
        }
    })
}

/// Throws schedules at their reader; the times of those it takes come one after the other, on
/// whole minutes.
#[must_use]
pub fn schedules(seed: u64, count: u64, time: Duration) -> Tally {
    let mut chance = Chance::new(seed);
    until(count, time, || {
        let field = |chance: &mut Chance| -> String {
            if chance.percent(85) {
                return FIELDS[chance.below(FIELDS.len())].to_owned();
            }
            (0..=chance.below(2))
                .map(|_| CRON[chance.below(CRON.len())])
                .collect()
        };
        let text = (0..5).map(|_| field(&mut chance)).collect::<Vec<_>>();
        let zone = chance.pick(&ZONES).copied();
        let zone = zone.filter(|_| chance.percent(80));
        let Ok(schedule) = Schedule::parse(&text.join(" "), zone) else {
            return false;
        };
        let second = i64::try_from(chance.next() % 4_000_000_000).unwrap_or(0);
        let mut now = Timestamp::from_second(second).unwrap_or_default();
        for _ in 0..5 {
            let Some(next) = schedule.next_after(now) else {
                panic!("{schedule:?} stops after {now}");
            };
            assert!(next > now, "{schedule:?} goes back from {now} to {next}");
            now = next;
        }
        true
    })
}

/// Throws mutated events at the reader until the time is up or the count is reached.
#[must_use]
pub fn events(seed: u64, count: u64, time: Duration) -> Tally {
    let mut chance = Chance::new(seed);
    let corpus: Vec<&str> = EVENTS.iter().flat_map(|golden| golden.lines()).collect();
    until(count, time, || {
        let base = corpus[chance.below(corpus.len())];
        let bytes = mutate(&mut chance, base.as_bytes());
        match decode(&bytes) {
            Ok(event) => {
                let again = decode(&encode(&event));
                assert!(
                    again.is_ok_and(|again| again == event),
                    "what was read is not written"
                );
                true
            }
            Err(_) => false,
        }
    })
}

/// Throws mutated commands at the reader until the time is up or the count is reached.
#[must_use]
pub fn commands(seed: u64, count: u64, time: Duration) -> Tally {
    let mut chance = Chance::new(seed);
    let corpus: Vec<&str> = COMMANDS.lines().collect();
    until(count, time, || {
        let base = corpus[chance.below(corpus.len())];
        let bytes = mutate(&mut chance, base.as_bytes());
        let Ok(command) = decode_command(&bytes) else {
            return false;
        };
        let again = encode_command(&command).map(|bytes| decode_command(&bytes));
        assert!(
            matches!(again, Ok(Ok(again)) if again == command),
            "a decoded command is not encoded as it was"
        );
        true
    })
}

/// Reads mutated snapshots, and runs the machine on those that the reader accepts.
#[must_use]
pub fn snapshots(seed: u64, count: u64, time: Duration) -> Tally {
    let mut chance = Chance::new(seed);
    let Some(plan) = plan_of(BUSY) else {
        return Tally::default();
    };
    until(count, time, || {
        let bytes = mutate(&mut chance, SNAPSHOT.trim_end().as_bytes());
        let Ok(state) = restore(Arc::clone(&plan), &bytes) else {
            return false;
        };
        let again = restore(Arc::clone(&plan), &snapshot(&state));
        assert!(again.is_ok_and(|again| again == state));
        poke(&state, state.times().updated.unwrap_or_default());
        true
    })
}

fn plan_of(source: &str) -> Option<Arc<Plan>> {
    let read = parse(source, "fuzz.yaml").ok()?;
    Plan::new(read.definition).ok().map(Arc::new)
}

/// Throws histories that never happened at `evolve`, at whatever reads a state and at the shadow
/// replay: real events in any order, some twice, some missing. A log can be damaged; its readers must
/// not panic.
#[must_use]
pub fn histories(seed: u64, count: u64, time: Duration) -> Tally {
    let mut chance = Chance::new(seed);
    let corpus: Vec<Story> = (0..LOGS).filter_map(|seed| run(seed, 6).ok()).collect();
    until(count, time, || {
        let Some(story) = chance.pick(&corpus) else {
            return false;
        };
        let events = damaged(&mut chance, &story.events);
        let mut state = State::new(Arc::clone(&story.plan));
        for event in &events {
            state = evolve(state, event);
            poke(&state, event.at);
        }
        rederive(&story.plan, &events, &story.plan).is_ok()
    })
}

/// Events of a log in any order, after the creation.
fn damaged(chance: &mut Chance, log: &[Event]) -> Vec<Event> {
    let mut events: Vec<Event> = log.iter().take(1).cloned().collect();
    for sequence in 2..=chance.next() % 60 {
        // Most events stay beside their neighbours, so that some of them still mean something.
        let at = if chance.percent(70) {
            usize::try_from(sequence - 1).unwrap_or(0) % log.len()
        } else {
            chance.below(log.len())
        };
        let mut event = log[at].clone();
        event.sequence = sequence;
        events.push(event);
    }
    events
}

/// Whatever reads a state, what the state itself asks for, and a few commands.
fn poke(state: &State, now: Timestamp) {
    let _ = (awaited(state), sub_state(state));
    for owed in obligations(state) {
        let _ = meet(&owed, state, now);
    }
    let _ = (
        step_views(state),
        waits(state),
        last_error(state),
        usage(state),
    );
    let by: Arc<str> = "eve".into();
    for verb in [
        Verb::Resume {
            by: Arc::clone(&by),
        },
        Verb::fire(Timer::Execution),
        Verb::Cancel {
            mode: CancelMode::Compensate,
            comment: Arc::clone(&by),
            by,
        },
    ] {
        let _ = decide(state, Command::new("c", verb), now);
    }
}

fn until(count: u64, time: Duration, mut one: impl FnMut() -> bool) -> Tally {
    let began = Instant::now();
    let mut tally = Tally::default();
    while tally.inputs < count && began.elapsed() < time {
        tally.inputs += 1;
        tally.accepted += u64::from(one());
    }
    tally
}

/// One to eight changes: bytes flipped, removed, doubled, swapped, pieces put in.
fn mutate(chance: &mut Chance, base: &[u8]) -> Vec<u8> {
    let mut bytes = base.to_vec();
    for _ in 0..=chance.below(8) {
        let at = chance.below(bytes.len());
        let length = chance.below(20).min(bytes.len().saturating_sub(at));
        match chance.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << chance.below(8),
            1 => drop(bytes.drain(at..at + length)),
            2 => {
                let copy = bytes[at..at + length].to_vec();
                bytes.splice(at..at, copy);
            }
            3 if !bytes.is_empty() => {
                let other = chance.below(bytes.len());
                bytes.swap(at, other);
            }
            4 => bytes.truncate(at.max(1)),
            _ => {
                let piece = PIECES[chance.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
    bytes
}
