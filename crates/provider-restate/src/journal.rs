//! What the journal and its events show: waits, endings, pauses, inputs and outputs. The history for
//! people is in [`history`](crate::history).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use stateway_model::{ExecutionError, Payload, Wait, WaitKind};

use crate::response::{Ending, Pause, failure};
use crate::row::{Entry, Invocation, JournalEvent};

/// What of the row's awaited completions the journal can name.
pub(crate) fn waits(row: &Invocation, entries: &[Entry]) -> Vec<Wait> {
    let awaited: Vec<u32> = row
        .suspended_waiting_for_completions
        .iter()
        .flatten()
        .copied()
        .collect();
    let named = entries.iter().filter_map(|entry| {
        let (kind, command) = command(entry)?;
        let id = completion(&command)?;
        awaited
            .contains(&id)
            .then(|| wait(&kind, &command, entry.appended_at))
            .flatten()
    });
    named.collect()
}

pub(crate) fn wait(kind: &str, command: &Value, since: Option<Timestamp>) -> Option<Wait> {
    let text = |name: &str| command[name].as_str().unwrap_or_default().to_owned();
    let (kind, name) = match kind {
        "Sleep" => (WaitKind::Timer, text("name")),
        "Call" => (WaitKind::Child, text("invocation_id")),
        "GetPromise" => (WaitKind::Signal, text("key")),
        "AttachInvocation" => (WaitKind::Child, String::new()),
        _ => return None,
    };
    let wakes = command["wake_up_time"].as_i64();
    Some(Wait {
        since,
        deadline: wakes.and_then(|wakes| Timestamp::from_millisecond(wakes).ok()),
        ..Wait::new(kind, name)
    })
}

/// How it ended, according to its journal; none if the journal no longer exists.
pub(crate) fn ending(entries: &[Entry]) -> Option<Ending> {
    if entries.is_empty() {
        return None;
    }
    let is_cancel = |entry: &Entry| {
        let notification = &brief(entry)["Notification"];
        notification["id"]["SignalIndex"] == 1 || notification["Signal"]["id"]["Index"] == 1
    };
    let of_type = |name: &'static str| entries.iter().filter(move |entry| entry.entry_type == name);
    Some(Ending {
        has_output: of_type("Command: Output").next().is_some(),
        has_cancel_signal: of_type("Notification: Signal").any(is_cancel),
    })
}

/// The newest pause.
pub(crate) fn pause(events: &[JournalEvent]) -> Option<Pause> {
    let newest = newest(events, "Paused")?;
    let body: Value = serde_json::from_str(newest.event_json.as_deref()?).ok()?;
    let last_failure = body
        .get("last_failure")
        .filter(|failure| !failure.is_null());
    Some(Pause {
        last_failure: last_failure.map(|body| event_failure(body, newest.appended_at)),
    })
}

/// The newest failed attempt that was noted.
pub(crate) fn newest_failure(events: &[JournalEvent]) -> Option<ExecutionError> {
    let newest = newest(events, "TransientError")?;
    let body: Value = serde_json::from_str(newest.event_json.as_deref()?).ok()?;
    Some(event_failure(&body, newest.appended_at))
}

fn newest<'e>(events: &'e [JournalEvent], event_type: &str) -> Option<&'e JournalEvent> {
    let of_type = events.iter().filter(|event| event.event_type == event_type);
    of_type.max_by_key(|event| event.appended_at)
}

pub(crate) fn event_failure(body: &Value, at: Option<Timestamp>) -> ExecutionError {
    let code = body["restate_doc_error_code"].as_str().map(str::to_owned);
    let code = code.or_else(|| body["error_code"].as_u64().map(|code| code.to_string()));
    failure(
        &code.unwrap_or_default(),
        body["error_message"].as_str().unwrap_or_default(),
        body["related_command_name"].as_str(),
        at,
    )
}

/// A command's kind and body.
pub(crate) fn command(entry: &Entry) -> Option<(String, Value)> {
    let Value::Object(mut brief) = brief(entry) else {
        return None;
    };
    let Value::Object(command) = brief.remove("Command")? else {
        return None;
    };
    command.into_iter().next()
}

/// The completion that carries a command's result.
pub(crate) fn completion(command: &Value) -> Option<u32> {
    let id = command.get("result_completion_id");
    let id = id.or_else(|| command.get("completion_id"))?;
    u32::try_from(id.as_u64()?).ok()
}

pub(crate) fn brief(entry: &Entry) -> Value {
    let text = entry.entry_lite_json.as_ref().or(entry.entry_json.as_ref());
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// What an invocation was started with, and by which headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) payload: Option<Payload>,
    headers: BTreeMap<String, String>,
}

impl Input {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// The first entry, unless the journal is gone.
pub(crate) fn input(entries: &[Entry]) -> Option<Input> {
    let entry = entries
        .iter()
        .find(|entry| entry.entry_type == "Command: Input")?;
    let body: Value = serde_json::from_str(entry.entry_json.as_deref()?).ok()?;
    let body = &body["Command"]["Input"];
    let headers: BTreeMap<String, String> = body["headers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|header| {
            let name = header["name"].as_str()?.to_ascii_lowercase();
            Some((name, header["value"].as_str()?.to_owned()))
        })
        .collect();
    let data = bytes(&body["payload"])?;
    let content_type = headers.get("content-type").cloned();
    // No body and no type: it was started with nothing.
    let payload = (!data.is_empty() || content_type.is_some()).then(|| Payload {
        content_type: content_type.unwrap_or_default(),
        data: data.into(),
    });
    Some(Input { payload, headers })
}

/// What an invocation answered. The journal keeps no content type: bytes that are JSON are shown as
/// JSON.
pub(crate) fn output(entries: &[Entry]) -> Option<Payload> {
    let entry = entries
        .iter()
        .find(|entry| entry.entry_type == "Command: Output")?;
    let body: Value = serde_json::from_str(entry.entry_json.as_deref()?).ok()?;
    let data = bytes(&body["Command"]["Output"]["result"]["Success"])?;
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&data).is_ok();
    let content_type = if is_json { "application/json" } else { "" };
    Some(Payload {
        content_type: content_type.to_owned(),
        data: data.into(),
    })
}

/// Bytes, as the journal writes them: an array of numbers.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    let byte = |byte: &Value| u8::try_from(byte.as_u64()?).ok();
    value.as_array()?.iter().map(byte).collect()
}

/// What a restarted invocation kept of the journal it was restarted with: what is older than itself.
pub(crate) fn kept(row: &Invocation, entries: &[Entry]) -> u32 {
    let copied = entries
        .iter()
        .filter(|entry| entry.id == row.id && entry.appended_at < row.created_at);
    copied.map(|entry| entry.index).max().unwrap_or(0)
}

/// The entries that a restart keeps so that the step is done again: all before it.
pub(crate) fn keep_before(step: &str, entries: &[Entry]) -> Option<u32> {
    let first = entries
        .iter()
        .find(|entry| entry.name.as_deref() == Some(step) && command(entry).is_some())?;
    Some(first.index.saturating_sub(1))
}

/// The entries that a restart keeps so that what failed is done again. Where no single command
/// failed only the input is kept, and everything is done again.
pub(crate) fn keep_before_failure(entries: &[Entry]) -> u32 {
    let failed = entries.iter().rev().find_map(|entry| {
        let notification = &brief(entry)["Notification"];
        let failed =
            notification["ty"]["Completion"] == "Run" && notification["result"] == "Failure";
        let id = notification["id"]["CompletionId"].as_u64();
        id.and_then(|id| u32::try_from(id).ok()).filter(|_| failed)
    });
    let command = failed.and_then(|id| {
        let mut commands = entries.iter();
        commands.find(|entry| command(entry).is_some_and(|(_, it)| completion(&it) == Some(id)))
    });
    command.map_or(0, |entry| entry.index.saturating_sub(1))
}
