//! The history of an invocation for people: its journal, the events beside it and its end.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use stateway_model::Event;
use stateway_provider_api::adapter::cursor::{self, HISTORY, NEWEST};
use stateway_provider_api::adapter::{one_line, page_size};
use stateway_provider_api::{Call, EventOrder, HistoryPage, HistoryRequest, Result, Verb};

use crate::RestateProvider;
use crate::journal::{brief, command, completion, event_failure};
use crate::request::LONGEST_PAGE;
use crate::row::{Entry, Invocation, JournalEvent};
use crate::sql;

/// A page of the history.
pub(crate) async fn history(
    provider: &RestateProvider,
    call: &Call,
    request: &HistoryRequest,
) -> Result<HistoryPage> {
    let verb = Verb::History;
    let list = match request.order {
        EventOrder::OldestFirst => HISTORY,
        EventOrder::NewestFirst => NEWEST,
    };
    let from: Option<usize> = cursor::read(list, request.cursor.as_deref(), verb)?;
    let page = page_size(request.page_size, LONGEST_PAGE, verb)? as usize;
    let (id, row) = provider.find(call, verb, &request.id).await?;
    let server = provider.reader.server(call, verb).await?;
    let client = &provider.reader.client;
    let query = sql::journal(&server.schema, &id);
    let entries: Vec<Entry> = client.query(call, verb, &query).await?;
    let events: Vec<JournalEvent> = if server.schema.has("sys_journal_events", "event_json") {
        client.query(call, verb, &sql::events(&id)).await?
    } else {
        Vec::new()
    };
    let mut events = whole(&row, &entries, &events);
    if request.order == EventOrder::NewestFirst {
        // The cursor is the number of events that are older than the page before.
        events.truncate(from.unwrap_or(events.len()));
        let first = events.len().saturating_sub(page);
        let mut events = events.split_off(first);
        events.reverse();
        let next = (first > 0).then(|| cursor::write(list, &first));
        return Ok(HistoryPage { events, next });
    }
    let from = from.unwrap_or(0);
    let upto = from.saturating_add(page);
    let next = (upto < events.len()).then(|| cursor::write(list, &upto));
    events.truncate(upto);
    let events = events.split_off(from.min(events.len()));
    Ok(HistoryPage { events, next })
}

/// Journal, events and the end as one history. An event stands behind the entry it came after, so
/// what was reported stays in its place while more is added.
fn whole(row: &Invocation, entries: &[Entry], events: &[JournalEvent]) -> Vec<Event> {
    let names = run_names(entries);
    let mut placed: Vec<((u32, u8), Event)> = Vec::new();
    for entry in entries {
        placed.push(((entry.index, 0), entry_event(entry, &names)));
    }
    for event in events {
        placed.push(((event.after_journal_entry_index, 1), failure_event(event)));
    }
    placed.sort_by_key(|(place, event)| (*place, event.time));
    let mut events: Vec<Event> = placed.into_iter().map(|(_, event)| event).collect();
    events.extend(end(row));
    for (position, event) in events.iter_mut().enumerate() {
        event.sequence = position as u64 + 1;
    }
    events
}

fn entry_event(entry: &Entry, names: &BTreeMap<u32, String>) -> Event {
    let brief = brief(entry);
    let (step, summary) = match command(entry) {
        Some((kind, body)) => {
            let step = entry.name.clone().filter(|name| !name.is_empty());
            (step, command_summary(&kind, &body))
        }
        None => {
            let about = &brief["Notification"]["id"]["CompletionId"];
            let about = about.as_u64().and_then(|id| u32::try_from(id).ok());
            let step = about.and_then(|id| names.get(&id).cloned());
            (step, notification_summary(&brief["Notification"]))
        }
    };
    Event {
        sequence: 0,
        time: entry.appended_at,
        native_type: entry.entry_type.clone(),
        step: step.unwrap_or_default(),
        attempt: 0,
        summary,
        phase: None,
        detail: None,
    }
}

fn command_summary(kind: &str, body: &Value) -> String {
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    match kind {
        "Call" | "OneWayCall" => format!("calls {}", text("invocation_id")),
        "Sleep" => {
            let wakes = body["wake_up_time"].as_i64();
            let wakes = wakes.and_then(|wakes| Timestamp::from_millisecond(wakes).ok());
            wakes.map_or_else(String::new, |wakes| format!("sleeps until {wakes}"))
        }
        "GetPromise" | "PeekPromise" | "CompletePromise" => format!("promise {}", text("key")),
        "SetState" | "GetEagerState" | "GetLazyState" | "ClearState" => {
            format!("state {}", text("key"))
        }
        "Output" => match &body["result"] {
            Value::String(result) => format!("answers with {}", result.to_lowercase()),
            _ => "answers".to_owned(),
        },
        "Run" => format!("runs {}", text("name")),
        _ => String::new(),
    }
}

fn notification_summary(notification: &Value) -> String {
    let result = notification["result"]
        .as_str()
        .unwrap_or_default()
        .to_lowercase();
    match notification["id"]["SignalIndex"].as_u64() {
        Some(1) => "asked to cancel".to_owned(),
        Some(index) => format!("signal {index}: {result}"),
        None => result,
    }
}

fn failure_event(event: &JournalEvent) -> Event {
    let body = event
        .event_json
        .as_deref()
        .map(serde_json::from_str::<Value>);
    let body = body.and_then(std::result::Result::ok).unwrap_or_default();
    let about = match body.get("last_failure") {
        Some(failure) if !failure.is_null() => Some(event_failure(failure, event.appended_at)),
        _ if body["error_message"].is_string() => Some(event_failure(&body, event.appended_at)),
        _ => None,
    };
    let about = about.unwrap_or_default();
    Event {
        sequence: 0,
        time: event.appended_at,
        native_type: event.event_type.clone(),
        step: about.step,
        attempt: 0,
        summary: if about.native_code.is_empty() {
            about.message
        } else {
            format!("{}: {}", about.native_code, about.message)
        },
        phase: None,
        detail: None,
    }
}

/// There is no entry for the end: a killed invocation's journal just stops.
fn end(row: &Invocation) -> Option<Event> {
    let summary = match (&row.completion_result, &row.completion_failure) {
        (Some(result), Some(failure)) => format!("{result}: {}", one_line(failure)),
        (Some(result), None) => result.clone(),
        _ => return None,
    };
    Some(Event {
        sequence: 0,
        time: row.completed_at,
        native_type: row.status.clone(),
        step: String::new(),
        attempt: 0,
        summary,
        phase: None,
        detail: None,
    })
}

fn run_names(entries: &[Entry]) -> BTreeMap<u32, String> {
    let named = entries.iter().filter_map(|entry| {
        let name = entry.name.clone().filter(|name| !name.is_empty())?;
        let (_, body) = command(entry)?;
        Some((completion(&body)?, name))
    });
    named.collect()
}
