//! The histories in `tests/histories/`: each replays as it was recorded, by every later build.
//!
//! `cargo xtask histories` makes them anew; that is only ever right when a new kind of history is
//! added, for what was recorded once must stay readable.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use stateway_chance::Chance;
use stateway_engine::recording::Recording;
use stateway_engine::{Clock, Decide, Resolve, RetryFrom, Steer};
use stateway_machine::{CancelMode, Resolution};
use stateway_model::{ErrorCategory, SubState};
use stateway_replay::Trajectory;

use crate::lab::{Hand, Lab};

fn folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/histories"
    ))
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .collect();
    paths.sort();
    paths
}

/// What a recording comes to: for each branch where it ends and how it got there.
fn account(recording: &Recording) -> String {
    let mut text = String::new();
    let grown = recording.branches.iter().map(|grown| grown.branch);
    for branch in std::iter::once(0).chain(grown) {
        let events = recording.log(Some(branch)).unwrap();
        let plan = recording.plan(&events).unwrap();
        let state = recording.state_at(Some(branch), 0).unwrap();
        let reason = state.reason().map_or("", |reason| reason.as_str());
        let output = state.output().map(ToString::to_string).unwrap_or_default();
        let head = format!(
            "branch {branch}: {} events, {} {reason} {output}",
            events.len(),
            state.state()
        );
        writeln!(text, "{}", head.trim_end()).unwrap();
        text.push_str(&Trajectory::of(plan, &events).to_string());
    }
    text
}

#[test]
fn every_history_replays_as_it_was_recorded() {
    let files = files();
    assert!(files.len() >= 7, "only {} histories", files.len());
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let bytes = std::fs::read(&path).unwrap();
        let recording = Recording::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        recording
            .check()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(
            recording.write(),
            bytes,
            "{name} is written otherwise than it was read"
        );
        let golden = std::fs::read_to_string(path.with_extension("txt")).unwrap();
        assert_eq!(account(&recording), golden, "{name}");

        // The definition it was written by makes the same of what was recorded.
        let events = recording.log(None).unwrap();
        let plan = recording.plan(&events).unwrap();
        let shadow = recording.rederive(None, &plan).unwrap();
        let told: Vec<_> = shadow.divergences.iter().map(ToString::to_string).collect();
        if name == "cancelled" {
            // It was recorded when a cancellation did not wait for work in a worker's hands.
            let waits =
                "outcome: cancelled; in the shadow: open, cancelling: `b` has no recorded result";
            assert_eq!(told, [waits]);
            continue;
        }
        assert!(told.is_empty(), "{name}: {told:#?}");
        assert_eq!(shadow.derived_outcome, shadow.recorded_outcome, "{name}");
    }
}

#[test]
fn a_redacted_history_still_replays_and_says_nothing() {
    for path in files() {
        let recording = Recording::read(&std::fs::read(&path).unwrap()).unwrap();
        let redacted = recording.redact().unwrap();
        let bytes = redacted.write();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let read = Recording::read(&bytes).unwrap();
        read.check().unwrap();
        let states = |of: &Recording| {
            let shown = (1..=of.log(None).unwrap().len() as u64).map(|at| {
                let state = of.state_at(None, at).unwrap();
                (
                    state.state(),
                    state
                        .step_states()
                        .map(|(_, state)| state)
                        .collect::<Vec<_>>(),
                )
            });
            shown.collect::<Vec<_>>()
        };
        assert_eq!(states(&read), states(&recording), "{}", path.display());
        for secret in ["sesame", "\"ada\"", "\"eve\"", "gateway timed out"] {
            assert!(!text.contains(secret), "{}: {secret}", path.display());
        }
        let events = read.log(None).unwrap();
        let refused = read
            .rederive(None, &read.plan(&events).unwrap())
            .unwrap_err();
        assert!(
            refused.to_string().contains("payloads were redacted"),
            "{refused}"
        );
    }
}

/// What is changed in a file is noticed, and told with its line where it can be.
#[test]
fn a_file_that_was_changed_is_refused_with_the_line() {
    let path = folder().join("branch-by-retry-from.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let told = |text: String| Recording::read(text.as_bytes()).unwrap_err();
    let with = |line: usize, change: &dyn Fn(&str) -> String| {
        let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        lines[line - 1] = change(&lines[line - 1]);
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let event = 1 + lines
        .iter()
        .position(|line| line.contains("StepCompleted"))
        .unwrap();
    let row = 1 + lines[..event]
        .iter()
        .rposition(|line| line.starts_with("{\"row\""))
        .unwrap();

    let changed = told(with(event, &|line| line.replace("\"n\":1", "\"n\":2")));
    assert_eq!(changed.line, row, "{changed}");
    assert!(changed.what.contains("changed after"), "{changed}");
    let version = told(with(1, &|line| {
        line.replace("\"version\":1", "\"version\":2")
    }));
    assert_eq!(
        (version.line, &*version.what),
        (1, "the file is of version 2; this build reads version 1")
    );
    let foreign = told("{\"name\": \"something else\"}\n".to_owned());
    assert_eq!(
        (foreign.line, &*foreign.what),
        (1, "this is not the history of an execution")
    );
    let garbled = told(with(event, &|line| line[..20].to_owned()));
    assert_eq!(garbled.line, event, "{garbled}");
    let cut = told(text[..text.len() - 10].to_owned());
    assert_eq!(cut.line, lines.len(), "{cut}");
    let without_end = lines[..lines.len() - 1].join("\n") + "\n";
    assert!(
        told(without_end).what.contains("closing line is missing"),
        "no end"
    );
    let source = told(with(2, &|line| line.replace("agent: x", "agent: y")));
    assert!(source.what.contains("was changed"), "{source}");
    assert!(
        told(format!("{text}more\n"))
            .what
            .contains("after its closing line")
    );
    assert!(told(String::new()).what.contains("closing line is missing"));
}

/// Whatever is in a file, reading it is an answer and not an end.
#[test]
fn broken_files_never_panic() {
    let mut inputs = 0;
    for path in files() {
        let good = std::fs::read(path).unwrap();
        let mut chance = Chance::new(good.len() as u64);
        for _ in 0..300 {
            let mut bytes = good.clone();
            for _ in 0..=chance.below(3) {
                let at = chance.below(bytes.len());
                match chance.below(5) {
                    0 => bytes[at] = u8::try_from(chance.below(256)).unwrap(),
                    1 => drop(bytes.drain(at..(at + chance.below(40)).min(bytes.len()))),
                    2 => bytes.truncate(at),
                    3 => {
                        let part = bytes[at..(at + chance.below(200)).min(bytes.len())].to_vec();
                        let to = chance.below(bytes.len());
                        bytes.splice(to..to, part);
                    }
                    _ => bytes[at] = b"0123456789{}\"\n"[chance.below(14)],
                }
            }
            inputs += 1;
            if bytes == good {
                continue;
            }
            let read = Recording::read(&bytes);
            assert!(read.is_err(), "a changed file was taken");
        }
    }
    assert!(inputs > 1_000);
}

/// A hash is no proof against whoever makes it anew; then at least nothing breaks.
#[test]
fn a_forged_history_is_replayed_or_refused() {
    use sha2::{Digest as _, Sha256};
    let good = std::fs::read_to_string(folder().join("retries.jsonl")).unwrap();
    let end = good.trim_end().rfind('\n').unwrap() + 1;
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    };
    for (from, to) in [
        ("\"branch\":0", "\"branch\":4294967295"),
        ("\"first\":1,", "\"first\":18446744073709551615,"),
        ("\"n\":3,", "\"n\":18446744073709551615,"),
        ("\"attempt\":1", "\"attempt\":4294967295"),
        ("\"step\":\"charge\"", "\"step\":\"nobody\""),
    ] {
        let body = good[..end].replace(from, to);
        let counts = good[end..].split("\"digest\"").next().unwrap();
        let digest = hex(&Sha256::digest(&body));
        let forged = format!("{body}{counts}\"digest\":\"{digest}\"}}}}\n");
        let Ok(recording) = Recording::read(forged.as_bytes()) else {
            continue;
        };
        let _ = recording.check();
        let _ = recording.head();
        let _ = recording.redact();
        if let Ok(events) = recording.log(None)
            && let Ok(plan) = recording.plan(&events)
        {
            let _ = recording.rederive(None, &plan);
        }
    }
}

const SAGA: &str = "\
name: saga
failurePolicy: compensate
steps:
  - {name: reserve, agent: x, timeout: 1m}
  - {name: charge, agent: x, timeout: 1m, dependsOn: [reserve], input: {card: '${input.card}'}}
compensation: [{step: reserve, agent: x, timeout: 1m}]
";
const RETRIES: &str = "\
name: retries
steps:
  - name: charge
    agent: x
    timeout: 10m
    retryPolicy: {maxRetries: 3, backoff: exponential, initialDelay: 10s, maxDelay: 1m, jitter: 0.2}
";
const APPROVAL: &str = "\
name: approval
steps:
  - {name: ready, signal: ready}
  - {name: sign-off, dependsOn: [ready], approval: {role: ops, expiresAfter: 1h, onExpiry: escalate}}
  - {name: ship, agent: x, timeout: 1m, dependsOn: [sign-off]}
";
const CORRECTION: &str = "\
name: correction
steps:
  - name: write
    agent: x
    timeout: 1m
    outputSchema: {type: object, required: [title]}
    maxCorrectionAttempts: 2
";
const INNER: &str = "name: inner\nsteps: [{name: i, agent: x, timeout: 1m}]\n";
const CHILD: &str = "\
name: child
steps:
  - {name: nap, sleep: 5m}
  - {name: part, workflow: inner, dependsOn: [nap]}
";
const CHAIN: &str = "\
name: chain
steps:
  - {name: a, agent: x, timeout: 1m}
  - {name: b, agent: x, timeout: 1m, dependsOn: [a]}
";

/// One stage on which a history is made.
struct Stage {
    lab: Lab,
    clock: Clock,
    worker: Hand,
}

impl Stage {
    async fn new(sources: &[&str]) -> Self {
        let (lab, clock) = Lab::by_hand();
        for source in sources {
            lab.apply(source).await;
        }
        let worker = lab.worker("w1", &["x"], 1);
        Self { lab, clock, worker }
    }

    async fn start(&self, definition: &str) -> Arc<str> {
        let mut start = self
            .lab
            .start_of(definition, json!({"card": "sesame", "total": 50}));
        start.id = Some(format!("{definition}-1").into());
        start.labels = [("team".to_owned(), "sesame street".to_owned())].into();
        self.lab.engine.start(start).await.unwrap().id
    }

    async fn done(&mut self, output: serde_json::Value) {
        let task = self.worker.task().await;
        self.clock.advance(1_500);
        self.worker.done(&task, output);
    }

    async fn fail(&mut self, category: ErrorCategory, message: &str) {
        let task = self.worker.task().await;
        self.clock.advance(1_500);
        let failure = stateway_machine::Failure::reported(category, message);
        let outcome = stateway_engine::Outcome::Failed(failure);
        self.worker
            .session
            .answers()
            .settle(task.token, outcome, None);
    }

    async fn write(&self, name: &str, id: &Arc<str>) {
        let recording = self.lab.engine.recording(id.clone()).await.unwrap();
        let path = folder().join(format!("{name}.jsonl"));
        std::fs::write(&path, recording.write()).unwrap();
        std::fs::write(path.with_extension("txt"), account(&recording)).unwrap();
    }
}

#[tokio::test]
#[ignore = "records the golden histories again: `cargo xtask histories`"]
async fn regenerate() {
    std::fs::create_dir_all(folder()).unwrap();
    let mut stage = Stage::new(&[SAGA]).await;
    let id = stage.start("saga").await;
    stage.done(json!({"held": ["sesame"]})).await;
    stage
        .fail(ErrorCategory::Validation, "gateway timed out")
        .await;
    stage.done(json!(null)).await;
    stage.lab.ended(&id).await;
    stage.write("saga-with-compensation", &id).await;

    let mut stage = Stage::new(&[RETRIES]).await;
    let id = stage.start("retries").await;
    for _ in 0..2 {
        stage
            .fail(ErrorCategory::Transient, "gateway timed out")
            .await;
        let resting = stage
            .lab
            .until(&id, |view| view.sub_state == SubState::BackingOff)
            .await;
        let due = resting.steps[0].retry.next_attempt_time.unwrap();
        let wait = due.duration_since(stage.lab.engine.now()).as_millis();
        stage.clock.advance(i64::try_from(wait).unwrap() + 7);
    }
    stage.done(json!({"paid": true})).await;
    stage.lab.ended(&id).await;
    stage.write("retries", &id).await;

    let mut stage = Stage::new(&[APPROVAL]).await;
    let id = stage.start("approval").await;
    stage.clock.advance(60_000);
    let signal = Steer::Signal {
        name: "ready".into(),
        payload: Arc::new(json!({"by": "sesame"})),
    };
    stage.lab.steer(&id, signal).await.unwrap();
    // Nobody decides in time; someone resumes it, and someone else says yes.
    stage.clock.advance(3_600_000);
    stage
        .lab
        .until(&id, |view| view.sub_state == SubState::Error)
        .await;
    stage.clock.advance(5_000);
    let resolve = Resolve {
        compensate: None,
        step: "sign-off".into(),
        attempt: 1,
        branch: None,
        roles: vec!["operator".into()],
        resolution: Resolution::Resume,
        comment: "sesame overslept".into(),
    };
    let resolved = stage
        .lab
        .engine
        .resolve(id.clone(), resolve, "bob".into(), stage.lab.key(5));
    resolved.await.unwrap();
    stage.clock.advance(90_000);
    let decide = Decide {
        step: "sign-off".into(),
        attempt: 2,
        branch: None,
        grant: true,
        roles: vec!["ops".into()],
        comment: "sesame".into(),
    };
    let decided = stage
        .lab
        .engine
        .decide(id.clone(), decide, "eve".into(), stage.lab.key(6));
    decided.await.unwrap();
    stage.done(json!({"sent": true})).await;
    stage.lab.ended(&id).await;
    stage.write("approval", &id).await;

    let mut stage = Stage::new(&[CORRECTION]).await;
    let id = stage.start("correction").await;
    stage.done(json!({"text": "sesame"})).await;
    stage.done(json!({"title": "sesame"})).await;
    stage.lab.ended(&id).await;
    stage.write("correction", &id).await;

    let mut stage = Stage::new(&[INNER, CHILD]).await;
    let id = stage.start("child").await;
    stage.clock.advance(300_003);
    stage.done(json!({"inner": 1})).await;
    stage.lab.ended(&id).await;
    stage.write("child-workflow", &id).await;

    let mut stage = Stage::new(&[CHAIN]).await;
    let id = stage.start("chain").await;
    stage.done(json!({"n": 1})).await;
    stage
        .fail(ErrorCategory::AgentError, "gateway timed out")
        .await;
    stage.lab.ended(&id).await;
    stage.clock.advance(24 * 3_600_000);
    let from = RetryFrom {
        step: "b".into(),
        input: Some(Arc::new(json!({"card": "another sesame"}))),
        feedback: "with sesame".into(),
        ..RetryFrom::default()
    };
    let again = stage
        .lab
        .engine
        .retry_from(id.clone(), from, "eve".into(), stage.lab.key(3));
    again.await.unwrap();
    stage.done(json!({"n": 2})).await;
    stage.lab.ended(&id).await;
    stage.write("branch-by-retry-from", &id).await;

    let mut stage = Stage::new(&[CHAIN]).await;
    let id = stage.start("chain").await;
    stage.done(json!({"n": 1})).await;
    stage.worker.task().await;
    let pause = Steer::Pause {
        cause: "a look by sesame".into(),
    };
    stage.lab.steer(&id, pause).await.unwrap();
    stage.clock.advance(10_000);
    stage.lab.steer(&id, Steer::Resume).await.unwrap();
    stage.clock.advance(10_000);
    let cancel = Steer::Cancel {
        mode: CancelMode::Stop,
        cause: "ordered twice by sesame".into(),
    };
    stage.lab.steer(&id, cancel).await.unwrap();
    stage.lab.ended(&id).await;
    stage.write("cancelled", &id).await;
}
