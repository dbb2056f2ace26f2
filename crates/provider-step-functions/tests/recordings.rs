//! Every recorded execution is classified as `expected.json` says, by its history alone, read as
//! far as it takes, from the beginning and event by event.

#![expect(
    clippy::unwrap_used,
    reason = "a recording that is not as it should be fails the test"
)]

use crate::recorded;

use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::Value;
use stateway_model::{ExecutionId, SubState};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{NativeState, Observation, StepObservation, classify};
use stateway_provider_step_functions::pure::{Definition, Event, Fold, HistoryPages, steps};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn read(file: &str) -> Value {
    let text = std::fs::read_to_string(folder().join(file)).expect(file);
    serde_json::from_str(&text).expect(file)
}

struct Recording {
    name: String,
    expected: Value,
    status: String,
    events: Vec<Event>,
    reverse: Vec<Event>,
    definition: Definition,
}

fn recordings() -> Vec<Recording> {
    let expected = read("expected.json");
    let all = expected.as_object().expect("an object").iter();
    let all: Vec<_> = all
        .map(|(name, expected)| {
            let call = |call: &str| read(&format!("{name}.{call}.json"));
            let machine = call("DescribeStateMachineForExecution");
            Recording {
                name: name.clone(),
                expected: expected.clone(),
                status: call("DescribeExecution")["status"]
                    .as_str()
                    .unwrap()
                    .to_owned(),
                events: recorded::history(&call("GetExecutionHistory")),
                reverse: recorded::history(&call("GetExecutionHistory.reverse")),
                definition: Definition::parse(machine["definition"].as_str().unwrap()),
            }
        })
        .collect();
    assert!(all.len() >= 24, "only {} recordings", all.len());
    all
}

fn fold(events: &[Event], definition: &Definition) -> Fold {
    let mut fold = Fold::default();
    events.iter().for_each(|event| fold.feed(event, definition));
    fold
}

/// The time at which the recording was made, or just after.
fn now(events: &[Event]) -> Timestamp {
    events.last().and_then(|event| event.at).expect("a time")
}

/// The step's name, by the reference's path and state.
fn step_name(step: &Value) -> String {
    let path = step["path"].as_array().unwrap().iter();
    let mut parts: Vec<_> = path.map(|part| part.as_str().unwrap().to_owned()).collect();
    parts.push(step["state"].as_str().unwrap().to_owned());
    parts.join(".")
}

fn close(time: Option<Timestamp>, seconds: f64) -> bool {
    time.is_some_and(|time| (time.as_microsecond() as f64 / 1e6 - seconds).abs() < 0.001)
}

fn check_step(recording: &Recording, seen: &StepObservation, shown: SubState, expected: &Value) {
    let about = format!("{}: {}", recording.name, seen.name);
    // The table tells more than the reference: a gate that a person answers is an error, and a
    // failure that ended the execution is a failure.
    let word = match expected["sub"].as_str().unwrap() {
        "running" if seen.name.ends_with("~paused") => "error",
        _ if recording.status != "RUNNING" => "failed",
        word => word,
    };
    assert_eq!(shown.as_str(), word, "{about}");
    let retry = seen.retry.as_ref();
    if let (Some(attempt), "Task") = (
        expected["attempt"].as_u64(),
        expected["type"].as_str().unwrap(),
    ) && expected
        .get("scope")
        .is_none_or(|scope| scope == &expected["state"])
    {
        assert_eq!(
            retry.map(|retry| u64::from(retry.attempt)),
            Some(attempt),
            "{about}"
        );
    }
    if let Some(error) = expected["error"].as_str() {
        let last = seen.last_error.as_ref().expect(&about);
        assert_eq!(last.native_code, error, "{about}");
    }
    if let Some(most) = expected["maxRetries"].as_u64() {
        let retry = retry.expect(&about);
        let already = expected["retry"].as_u64().unwrap();
        let left = u64::from(retry.max_attempts.unwrap() - retry.attempt) - 1;
        assert_eq!(already + left, most, "{about}");
        let window = expected["nextAttempt"].as_array().unwrap();
        let (from, until) = (window[0].as_f64().unwrap(), window[1].as_f64().unwrap());
        assert!(close(retry.next_attempt_time, from), "{about}: {retry:?}");
        let jitter = retry.jitter.unwrap_or_default();
        let latest = retry.next_attempt_time.unwrap().checked_add(jitter).ok();
        assert!(close(latest, until), "{about}: {retry:?}");
        assert_eq!(
            retry.jitter.is_some(),
            expected["jitterFull"].as_bool().unwrap()
        );
    }
    if expected["queued"].as_bool() == Some(true) {
        assert_eq!(seen.native.state, "ActivityScheduled", "{about}");
        assert!(!seen.waits[0].is_outside(), "{about}");
    }
}

fn check(recording: &Recording, fold: &Fold) {
    let name = &recording.name;
    let now = now(&recording.events);
    let id = ExecutionId::new("e").unwrap();
    let status = fold.ending().map_or("RUNNING", |ending| ending.status());
    assert_eq!(status, recording.status, "{name}");
    let mut seen = Observation::new(id, NativeState::new(status));
    seen.steps = steps(fold, &recording.definition, now);
    let table = compiled_in("step-functions").expect("a table");
    let classified = classify(&table, &seen, now);
    let overall = match recording.expected["overall"].as_str().unwrap() {
        "running" if name == "dag-paused-on-gate" => "error",
        "aborted" | "timed-out" => "failed",
        word => word,
    };
    assert_eq!(classified.execution.sub_state.as_str(), overall, "{name}");
    assert!(
        classified.execution.row.is_some() && classified.steps.iter().all(|s| s.row.is_some()),
        "{name}: a word that is in no table: {:?}",
        seen.steps
    );
    let expected = recording.expected["steps"].as_array().unwrap();
    let names: Vec<_> = seen.steps.iter().map(|step| step.name.clone()).collect();
    let wanted: Vec<_> = expected.iter().map(step_name).collect();
    assert_eq!(names, wanted, "{name}");
    for ((step, verdict), expected) in seen.steps.iter().zip(&classified.steps).zip(expected) {
        check_step(recording, step, verdict.sub_state, expected);
    }
    let redrives = recording.expected["redrives"].as_u64().unwrap();
    assert_eq!(u64::from(fold.redrives()), redrives, "{name}");
}

#[test]
fn every_recording_is_classified_as_expected() {
    let all = recordings();
    for recording in &all {
        check(recording, &fold(&recording.events, &recording.definition));
    }
    println!("{} of {} recordings as expected", all.len(), all.len());
}

#[test]
fn reading_newest_first_shows_the_same() {
    for recording in recordings() {
        let mut reader = HistoryPages::new(&recording.definition, None, 5);
        assert_eq!(reader.wants(), Some(100));
        reader.take(recording.reverse.clone(), false);
        assert_eq!(reader.wants(), None);
        let fold = reader.finish();
        if recording.expected["redrives"] == 0 {
            check(&recording, &fold);
        }
    }
}

#[test]
fn going_on_from_any_event_shows_the_same() {
    for recording in recordings() {
        for seen in 1..recording.events.len() {
            let known = fold(&recording.events[..seen], &recording.definition);
            let mut reader = HistoryPages::new(&recording.definition, Some(known), 5);
            reader.take(recording.reverse.clone(), false);
            check(&recording, &reader.finish());
        }
    }
}

#[test]
fn a_history_without_its_definition_claims_no_back_off_at_once() {
    for recording in recordings() {
        let nothing = Definition::default();
        let fold = fold(&recording.events, &nothing);
        for step in steps(&fold, &nothing, now(&recording.events)) {
            assert_ne!(
                step.native.qualifiers.get("follow_up").map(String::as_str),
                Some("retry"),
                "{}",
                recording.name
            );
        }
    }
}
