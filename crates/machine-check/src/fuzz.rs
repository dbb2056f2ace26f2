//! Broken bytes for the readers: whatever comes, they answer and never panic.
//!
//! Seeded mutation of a corpus of valid inputs and of hostile ones made by hand. The toolchain
//! has no coverage-guided fuzzer; what is lost in guidance is made up by running in every test
//! run, from the same seeds on every machine.

use std::time::{Duration, Instant};

use stateway_definition::{limits::MAX_SOURCE_BYTES, parse};
use stateway_machine::{Plan, decode, encode};

use crate::chance::Chance;

/// Valid definitions and pieces of them.
const DEFINITIONS: [&str; 3] = [
    include_str!("../../definition/tests/examples/every-kind.yaml"),
    include_str!("../../definition/tests/examples/compensation.yaml"),
    include_str!("exhaustive.yaml"),
];
/// Valid events.
const EVENTS: &str = include_str!("../../machine/tests/golden/events-v1.jsonl");
/// What YAML, JSON, references and conditions are made of.
const PIECES: [&str; 26] = [
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
    "(((",
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
    vec![
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

/// Throws mutated events at the reader until the time is up or the count is reached.
#[must_use]
pub fn events(seed: u64, count: u64, time: Duration) -> Tally {
    let mut chance = Chance::new(seed);
    let corpus: Vec<&str> = EVENTS.lines().collect();
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
