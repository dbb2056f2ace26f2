//! Every prefix of every history that was recorded from the real service: no panic, no open step
//! after a success, every back-off found and none made up.
//!
//! The recordings are not ours to keep. `STATEWAY_AWS_RECORDINGS` names a folder of LocalStack's
//! parity snapshots (`*.snapshot.json`); without it the test is counted as skipped. They hold no
//! definitions, so one is made up for each history that retries just what was retried in it.

#[path = "support/recorded.rs"]
mod recorded;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::{Map, Value, json};
use stateway_provider_api::StepObservation;
use stateway_provider_step_functions::pure::{Definition, Event, Fold, steps};

const VARIABLE: &str = "STATEWAY_AWS_RECORDINGS";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trial =
        Trial::ignorable_test(
            "every_prefix_of_every_aws_history_is_understood",
            || match folder() {
                Some(folder) => check(&folder).map(|()| Completion::Completed),
                None => Ok(Completion::ignored_with(format!(
                    "{VARIABLE} names no folder of recordings"
                ))),
            },
        );
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

fn folder() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let beside = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        root.join("../shared/ground-truth/aws-recordings")
    };
    let folder = named.unwrap_or_else(beside);
    folder.is_dir().then_some(folder)
}

#[derive(Default, Debug)]
struct Counts {
    histories: usize,
    mangled: usize,
    events: usize,
    prefixes: usize,
    back_offs: usize,
    failures_not_retried: usize,
    ambiguous: usize,
}

fn check(folder: &Path) -> Result<(), Failed> {
    let mut counts = Counts::default();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let snapshots: Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
        let mut histories = Vec::new();
        find_histories(&snapshots, &mut String::new(), &mut histories);
        for (name, events) in histories {
            check_history(&events, &mut counts).map_err(|why| format!("{name}: {why}"))?;
        }
    }
    println!("summary: AWS recordings: {counts:?}");
    if counts.histories < 100 || counts.back_offs == 0 {
        return Err(format!("too little to tell: {counts:?}").into());
    }
    Ok(())
}

fn find_histories(value: &Value, at: &mut String, found: &mut Vec<(String, Vec<Event>)>) {
    let length = at.len();
    match value {
        Value::Object(fields) => {
            let is_history = |events: &Vec<Value>| {
                let first = events.first();
                first.is_some_and(|event| event.get("type").is_some() && event.get("id").is_some())
            };
            if fields
                .get("events")
                .and_then(Value::as_array)
                .is_some_and(is_history)
            {
                found.push((at.clone(), recorded::history(value)));
            }
            for (key, inner) in fields {
                at.push('/');
                at.push_str(key);
                find_histories(inner, at, found);
                at.truncate(length);
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| find_histories(item, at, found)),
        _ => {}
    }
}

fn check_history(events: &[Event], counts: &mut Counts) -> Result<(), String> {
    let mut events = events.to_vec();
    if events.first().is_some_and(|event| event.id != 1) {
        events.reverse();
    }
    let whole = events
        .iter()
        .zip(1..)
        .all(|(event, id)| event.id == id && event.previous < id);
    if !whole {
        // Snapshotting replaced ids, or left some out. It must still not panic.
        counts.mangled += 1;
        let mut fold = Fold::default();
        for event in &events {
            fold.feed(event, &Definition::default());
            let _ = steps(&fold, &Definition::default(), Timestamp::UNIX_EPOCH);
        }
        return Ok(());
    }
    counts.histories += 1;
    counts.events += events.len();
    let retried = retried(&events);
    let Some(definition) = definition(&events, &retried) else {
        counts.ambiguous += 1;
        return Ok(());
    };
    let mut fold = Fold::default();
    for event in &events {
        counts.prefixes += 1;
        fold.feed(event, &definition);
        let open = steps(&fold, &definition, Timestamp::UNIX_EPOCH);
        let claims = open.iter().filter(|step| backs_off(step)).count();
        let between = |(failure, next): (&u64, &u64)| *failure <= event.id && event.id < *next;
        let really = retried.iter().filter(|pair| between(*pair)).count();
        if (claims == 0) != (really == 0) || claims > really {
            return Err(format!(
                "after event {} ({}) {claims} steps are said to back off, {really} do: {open:#?}",
                event.id, event.kind
            ));
        }
        counts.back_offs += usize::from(retried.contains_key(&event.id));
        let failure = is_failure(event) && !retried.contains_key(&event.id);
        counts.failures_not_retried += usize::from(failure);
    }
    let open = steps(&fold, &definition, Timestamp::UNIX_EPOCH);
    let succeeded = fold
        .ending()
        .is_some_and(|ending| ending.kind == "ExecutionSucceeded");
    if succeeded && !open.is_empty() {
        return Err(format!("open after a success: {open:#?}"));
    }
    Ok(())
}

fn backs_off(step: &StepObservation) -> bool {
    step.native.qualifiers.get("follow_up").map(String::as_str) == Some("retry")
}

fn is_failure(event: &Event) -> bool {
    let failed = ["Failed", "TimedOut"]
        .iter()
        .any(|end| event.kind.ends_with(end));
    let of_a_state = !event.kind.starts_with("Execution")
        && ![
            "ParallelStateFailed",
            "MapStateFailed",
            "MapIterationFailed",
        ]
        .contains(&event.kind.as_str());
    failed && of_a_state || event.kind == "FailStateEntered"
}

/// Each failure that was followed by another attempt, with the event that began it.
fn retried(events: &[Event]) -> BTreeMap<u64, u64> {
    let begins = |event: &&Event| {
        event.kind.ends_with("Scheduled")
            || ["ParallelStateStarted", "MapStateStarted"].contains(&event.kind.as_str())
    };
    let by_id: BTreeMap<u64, &Event> = events.iter().map(|event| (event.id, event)).collect();
    let pairs = events.iter().filter(begins).filter_map(|event| {
        let before = by_id.get(&event.previous)?;
        is_failure(before).then_some((before.id, event.id))
    });
    pairs.collect()
}

/// A definition under which just these failures are retried; `None` when the history shows one
/// state treating failures differently at different times.
fn definition(events: &[Event], retried: &BTreeMap<u64, u64>) -> Option<Definition> {
    let nothing = Definition::default();
    let mut fold = Fold::default();
    let mut paths: BTreeSet<Vec<String>> = BTreeSet::new();
    let mut retries: BTreeMap<String, u32> = BTreeMap::new();
    for event in events {
        if let Some(failure) = retried.iter().find(|(_, next)| **next == event.id) {
            let scope = scope(events, *failure.0, event)?;
            *retries.entry(scope).or_default() += 1;
        }
        fold.feed(event, &nothing);
        for step in steps(&fold, &nothing, Timestamp::UNIX_EPOCH) {
            paths.insert(path(&step.name));
        }
    }
    // One retrier per state cannot tell visits apart: a state that was entered twice and retried
    // in one of them only is ambiguous.
    for name in retries.keys() {
        let entered = |event: &&Event| {
            event.kind.ends_with("StateEntered") && event.detail.name.as_deref() == Some(name)
        };
        if events.iter().filter(entered).count() > 1 {
            return None;
        }
    }
    let mut machine = json!({"States": {}});
    for path in paths {
        let mut at = &mut machine;
        for name in &path {
            let states = at.as_object_mut()?.entry("States").or_insert(json!({}));
            let most = retries.get(name).copied().unwrap_or_default();
            let state = states
                .as_object_mut()?
                .entry(name.clone())
                .or_insert_with(|| {
                    json!({
                        "Retry": [{"ErrorEquals": ["States.ALL"], "MaxAttempts": most}],
                        "Branches": [Value::Object(Map::new())]
                    })
                });
            at = state.pointer_mut("/Branches/0")?;
        }
    }
    Some(Definition::parse(&machine.to_string()))
}

fn path(step: &str) -> Vec<String> {
    let parts = step.split('.');
    parts
        .map(|part| part.split('[').next().unwrap_or(part).to_owned())
        .collect()
}

/// The name of the state that is tried again: that of the failed visit, or of the container that
/// starts again. Found by walking back, independently of the fold.
fn scope(events: &[Event], failure: u64, next: &Event) -> Option<String> {
    let wanted = match next.kind.as_str() {
        "ParallelStateStarted" => "ParallelStateEntered",
        "MapStateStarted" => "MapStateEntered",
        _ => "StateEntered",
    };
    let mut at = failure;
    while at != 0 {
        let event = events.iter().find(|event| event.id == at)?;
        if event.kind.ends_with(wanted) {
            return event.detail.name.clone();
        }
        at = event.previous;
    }
    None
}
