//! The steps of an invocation, from its journal: runs, calls, sleeps, promises, awakeables.
//!
//! A child is an execution of its own; here it is the call that waits for it. State and what an
//! invocation does to others are no steps.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use stateway_model::{Wait, WaitKind};
use stateway_provider_api::{NativeState, Observation, RetryPhase, StepObservation};

use crate::id::InvocationId;
use crate::journal::{brief, command, completion, wait};
use crate::qualifier;
use crate::row::{Entry, Invocation};

/// Commands that end immediately, or that are about another invocation.
const NO_STEPS: &[&str] = &[
    "Input",
    "Output",
    "GetLazyState",
    "GetLazyStateKeys",
    "GetEagerState",
    "GetEagerStateKeys",
    "SetState",
    "ClearState",
    "ClearAllState",
    "PeekPromise",
    "CompletePromise",
    "CompleteAwakeable",
    "SendSignal",
    "GetInvocationOutput",
];

/// Below are Restate's own signals.
const FIRST_AWAKEABLE: u32 = 17;

/// The steps, in the order in which they began; awakeables last, because their beginning is not
/// journalled.
pub(crate) fn steps(
    row: &Invocation,
    entries: &[Entry],
    seen: &Observation,
) -> Vec<StepObservation> {
    let results = results(entries);
    let mut steps = Vec::new();
    for entry in entries {
        let Some((kind, body)) = command(entry) else {
            continue;
        };
        if !NO_STEPS.contains(&kind.as_str()) {
            let result = answers(&body).find_map(|id| results.get(&Answer::Completion(id)));
            steps.push(step(entry, (&kind, &body), result, seen));
        }
    }
    steps.extend(awakeables(row, &results));
    name_apart(&mut steps);
    steps
}

/// What a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Completion(u32),
    Signal(u32),
}

/// How it came out, and when.
struct Outcome {
    result: &'static str,
    at: Option<Timestamp>,
}

fn results(entries: &[Entry]) -> BTreeMap<Answer, Outcome> {
    let told = entries.iter().filter_map(|entry| {
        let brief = brief(entry);
        let notification = brief.get("Notification")?;
        let number = |name: &str| {
            let number = notification["id"][name].as_u64()?;
            u32::try_from(number).ok()
        };
        let about = match number("CompletionId") {
            Some(id) => Answer::Completion(id),
            None => Answer::Signal(number("SignalIndex")?),
        };
        let result = match notification["result"].as_str() {
            Some("Failure") => "failure",
            _ => "success",
        };
        let at = entry.appended_at;
        Some((about, Outcome { result, at }))
    });
    told.collect()
}

/// The completions that end a command: of a call its result, of a send that it was accepted.
fn answers(body: &Value) -> impl Iterator<Item = u32> {
    let accepted = match body.get("result_completion_id") {
        Some(_) => None,
        None => body["invocation_id_completion_id"].as_u64(),
    };
    let accepted = accepted.and_then(|id| u32::try_from(id).ok());
    completion(body).or(accepted).into_iter()
}

fn step(
    entry: &Entry,
    (kind, body): (&str, &Value),
    result: Option<&Outcome>,
    seen: &Observation,
) -> StepObservation {
    let named = entry.name.clone().filter(|name| !name.is_empty());
    let mut step = StepObservation::new(
        named.unwrap_or_else(|| spoken(kind, body)),
        native(kind, result),
    );
    step.start_time = entry.appended_at;
    step.end_time = result.and_then(|result| result.at);
    if result.is_some() {
        return step;
    }
    step.waits = wait(kind, body, entry.appended_at).into_iter().collect();
    // Restate counts the invocation's attempts; they are those of the command that fails.
    let failed = seen.retry.as_ref().and_then(|it| it.last_error.as_ref());
    if failed.is_some_and(|error| !error.step.is_empty() && error.step == step.name) {
        step.last_error = failed.cloned();
        step.retry = seen.retry.clone();
        if let Some(retry) = step
            .retry
            .as_mut()
            .filter(|_| seen.native.state == "paused")
        {
            retry.phase = RetryPhase::Exhausted;
        }
    }
    step
}

fn native(kind: &str, result: Option<&Outcome>) -> NativeState {
    let native = NativeState::new(kind);
    match result {
        Some(outcome) => native.with(qualifier::RESULT, outcome.result),
        None => native,
    }
}

/// The name of a command that has none: what it is about.
fn spoken(kind: &str, body: &Value) -> String {
    let text = |body: &Value, name: &str| body[name].as_str().map(str::to_owned);
    let target = body["invocation_target"].as_object();
    let target = target.and_then(|kinds| kinds.values().next());
    let called = target.and_then(|target| {
        let (service, handler) = (text(target, "name")?, text(target, "handler")?);
        Some(match text(target, "key") {
            Some(key) => format!("{service}/{key}/{handler}"),
            None => format!("{service}/{handler}"),
        })
    });
    let called = called.or_else(|| text(body, "key"));
    called.unwrap_or_else(|| kind.to_lowercase())
}

fn awakeables(row: &Invocation, results: &BTreeMap<Answer, Outcome>) -> Vec<StepObservation> {
    let Some(id) = InvocationId::parse(&row.id) else {
        return Vec::new();
    };
    let open = row.suspended_waiting_for_signals.iter().flatten().copied();
    let answered = results.keys().filter_map(|about| match about {
        Answer::Signal(signal) => Some(*signal),
        Answer::Completion(_) => None,
    });
    let signals: BTreeSet<u32> = open.chain(answered).collect();
    let step = |signal: u32| {
        let (name, result) = (id.awakeable(signal), results.get(&Answer::Signal(signal)));
        let mut step = StepObservation::new(name.clone(), native("Awakeable", result));
        step.end_time = result.and_then(|result| result.at);
        if result.is_none() {
            step.waits = vec![Wait::new(WaitKind::Callback, name)];
        }
        step
    };
    let of_handlers = signals.into_iter().filter(|it| *it >= FIRST_AWAKEABLE);
    of_handlers.map(step).collect()
}

/// A name that came before gets its number.
fn name_apart(steps: &mut [StepObservation]) {
    let mut seen = BTreeMap::<String, u32>::new();
    for step in steps {
        let times = seen.entry(step.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            step.name = format!("{}#{times}", step.name);
        }
    }
}
