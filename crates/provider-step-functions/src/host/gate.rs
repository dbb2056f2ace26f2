//! An object, read from the history of its execution. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::envelope::Envelope;
use super::machine::{CONTINUE, GATE, RESOURCE, TOKEN};

/// What an object needs of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GateEvent {
    pub(crate) id: u64,
    pub(crate) kind: String,
    pub(crate) at: Option<Timestamp>,
    /// The name of the state, or the resource of the task.
    pub(crate) name: String,
    /// The input, output or parameters.
    pub(crate) data: String,
    pub(crate) error: String,
    pub(crate) cause: String,
}

/// How an execution has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The object continues in the next generation.
    pub(crate) continued: bool,
    pub(crate) at: Option<Timestamp>,
    /// Why, for people.
    pub(crate) why: String,
}

/// What the newest events of an execution say about its object.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Newest {
    /// The turns, the newest first.
    pub(crate) turns: Vec<Envelope>,
    /// The token of the gate, when it may be used.
    pub(crate) token: Option<String>,
    pub(crate) closed: Option<Closed>,
    /// The id of the newest event.
    pub(crate) last_event: u64,
}

/// Whether an event is of the gate, and not of another state.
fn of_gate(event: &GateEvent) -> bool {
    match event.kind.as_str() {
        "TaskStateEntered" => event.name == GATE,
        _ => event.name == RESOURCE,
    }
}

/// The turn that an event has, if any.
fn turn(event: &GateEvent) -> Result<Option<Envelope>, String> {
    match event.kind.as_str() {
        "ExecutionStarted" => {}
        "TaskStateEntered" | "TaskSucceeded" if of_gate(event) => {}
        _ => return Ok(None),
    }
    Envelope::decode(&event.data).map(Some)
}

/// Reads the newest events of an execution, the newest first.
///
/// # Errors
/// The execution is no object: its input or output is another one's.
pub(crate) fn newest(events: &[GateEvent]) -> Result<Newest, String> {
    let mut found = Newest {
        last_event: events.first().map_or(0, |event| event.id),
        ..Newest::default()
    };
    let (mut submitted, mut over) = (false, false);
    let mut continued = false;
    for event in events {
        match event.kind.as_str() {
            "ExecutionSucceeded" | "ExecutionFailed" | "ExecutionAborted" | "ExecutionTimedOut" => {
                let why = [event.error.as_str(), event.cause.as_str()];
                let why: Vec<_> = why.into_iter().filter(|it| !it.is_empty()).collect();
                found.closed = Some(Closed {
                    continued: false,
                    at: event.at,
                    why: why.join(": "),
                });
            }
            "TaskStateEntered" if event.name == CONTINUE => continued = true,
            "TaskSucceeded" | "TaskFailed" | "TaskTimedOut" | "TaskStartFailed"
            | "TaskSubmitFailed"
                if of_gate(event) =>
            {
                over = true;
            }
            "TaskSubmitted" if of_gate(event) => submitted = true,
            "TaskScheduled" if of_gate(event) => {
                if submitted && !over {
                    found.token = token(&event.data);
                }
                over = true;
            }
            _ => {}
        }
        if let Some(turn) = turn(event)? {
            let is_new = found.turns.last().is_none_or(|last| turn.n < last.n);
            if is_new {
                found.turns.push(turn);
            }
        }
    }
    if let Some(closed) = &mut found.closed {
        closed.continued = continued;
        found.token = None;
    }
    Ok(found)
}

/// Whether these events, the newest first, have at least one turn: then no older page is needed.
pub(crate) fn is_enough(events: &[GateEvent]) -> bool {
    let has_turn = |event: &GateEvent| {
        event.kind == "ExecutionStarted" || (event.kind == "TaskStateEntered" && of_gate(event))
    };
    events.iter().any(has_turn)
}

fn token(parameters: &str) -> Option<String> {
    let parameters: Value = serde_json::from_str(parameters).ok()?;
    Some(parameters.get(TOKEN)?.as_str()?.to_owned())
}

/// All values of an object, from all its turns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Values {
    /// The newest turn that was read.
    pub(crate) n: u64,
    pub(crate) values: BTreeMap<String, String>,
    /// Who wrote which turn.
    pub(crate) writers: BTreeMap<u64, String>,
}

impl Values {
    /// Reads further events, the oldest first. A turn that was read before changes nothing.
    ///
    /// # Errors
    /// The execution is no object.
    pub(crate) fn read(&mut self, events: &[GateEvent]) -> Result<(), String> {
        for event in events {
            if let Some(turn) = turn(event)?.filter(|turn| turn.n > self.n) {
                self.n = turn.n;
                self.values.extend(turn.w);
                self.writers.insert(turn.n, turn.by);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A history of the emulator, as it was recorded: two turns, and a gate that waits.
    const WAITING: &str = include_str!("recorded/waiting.json");
    /// One that has failed.
    const FAILED: &str = include_str!("recorded/failed.json");
    /// One that continues in its second generation.
    const CONTINUED: &str = include_str!("recorded/continued.json");

    pub(crate) fn events(text: &str) -> Vec<GateEvent> {
        let read: Value = serde_json::from_str(text).unwrap();
        let events = read["events"].as_array().unwrap().iter().map(|event| {
            let details = event.as_object().unwrap();
            let details = details
                .iter()
                .find(|(key, _)| key.ends_with("EventDetails"));
            let details = details.map_or(&Value::Null, |(_, details)| details);
            let text = |keys: &[&str]| {
                let found = keys.iter().find_map(|key| details[*key].as_str());
                found.unwrap_or_default().to_owned()
            };
            GateEvent {
                id: event["id"].as_u64().unwrap(),
                kind: event["type"].as_str().unwrap().to_owned(),
                at: None,
                name: text(&["name", "resource"]),
                data: text(&["input", "output", "parameters"]),
                error: text(&["error"]),
                cause: text(&["cause"]),
            }
        });
        events.collect()
    }

    fn reversed(text: &str) -> Vec<GateEvent> {
        let mut events = events(text);
        events.reverse();
        events
    }

    #[test]
    fn a_gate_that_waits_shows_its_token_and_its_turns() {
        let events = reversed(WAITING);
        let found = newest(&events).unwrap();
        let turns: Vec<_> = found.turns.iter().map(|turn| turn.n).collect();
        assert_eq!(turns, [3, 2, 1]);
        assert!(found.token.is_some());
        assert_eq!(found.closed, None);
        assert_eq!(found.last_event, events[0].id);
        assert!(is_enough(&events[..4]));
        assert!(!is_enough(&events[..3]));
    }

    #[test]
    fn a_token_is_not_used_before_the_call_with_it_was_made() {
        let events = reversed(WAITING);
        // Without TaskSubmitted, then without TaskStarted, then without TaskScheduled.
        for skipped in 1..=3 {
            let found = newest(&events[skipped..]).unwrap();
            assert_eq!(found.token, None);
            assert_eq!(found.turns[0].n, 3);
        }
        // The next gate is not entered yet, but its turn is there.
        let succeeded = events
            .iter()
            .position(|it| it.kind == "TaskSucceeded")
            .unwrap();
        let found = newest(&events[succeeded..]).unwrap();
        assert_eq!((found.turns[0].n, found.token), (3, None));
    }

    #[test]
    fn an_end_is_shown_with_the_last_turn() {
        let found = newest(&reversed(FAILED)).unwrap();
        let closed = found.closed.unwrap();
        assert_eq!(closed.why, "RETRIES_EXHAUSTED: the card was refused");
        assert!(!closed.continued);
        assert_eq!((found.turns[0].n, found.token), (3, None));
        assert!(
            newest(&reversed(CONTINUED))
                .unwrap()
                .closed
                .unwrap()
                .continued
        );
    }

    #[test]
    fn all_values_come_from_all_turns() {
        let mut values = Values::default();
        values.read(&events(WAITING)).unwrap();
        assert_eq!(values.n, 3);
        let keys: Vec<_> = values.values.keys().map(String::as_str).collect();
        assert_eq!(
            keys,
            [
                "d",
                "e/0000000001",
                "e/0000000002",
                "e/0000000003",
                "i",
                "v",
                "x"
            ]
        );
        assert_eq!(values.values["x"], "state 3");
        let before = values.clone();
        values.read(&events(WAITING)).unwrap();
        assert_eq!(values, before);
    }

    #[test]
    fn an_execution_of_somebody_else_is_no_object() {
        let event = GateEvent {
            kind: "ExecutionStarted".to_owned(),
            data: "{}".to_owned(),
            ..GateEvent::default()
        };
        assert!(newest(&[event]).is_err());
    }
}
