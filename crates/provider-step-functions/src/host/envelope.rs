//! What one turn of an object stores in Step Functions. Pure.
//!
//! Values are texts inside the JSON: Step Functions reads and writes the JSON that passes through it, and a
//! number could come out in another form.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stateway_hosted::definition_object::{CURRENT, StoredDefinition};
use stateway_hosted::message::{ChildRequest, ObjectRequest};
use stateway_hosted::object::{EVENTS, Message, Turn, Write};

/// The version of the form.
const VERSION: u32 = 1;
/// The most bytes of an envelope. Step Functions passes 262,144 bytes from state to state, and the error of the end
/// is added to them.
pub(crate) const MOST_BYTES: usize = 256 * 1024 - 4 * 1024;
/// The longest error and cause that are stored for the end.
const LONGEST_CAUSE: usize = 1_024;

/// One turn of an object: what it wrote, and what is still to be done about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Envelope {
    stateway: u32,
    /// The id of the object.
    pub(crate) id: String,
    /// The number of the turn; the first one is 1.
    pub(crate) n: u64,
    /// Who wrote it: no two writers have the same.
    pub(crate) by: String,
    /// The name of the next generation, for the machine.
    pub(crate) next: String,
    /// When the alarm is due, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) alarm: Option<i64>,
    /// The messages to other objects that are not known to be delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) out: Vec<Outgoing>,
    /// The turn repeats the values that a next generation needs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) carried: bool,
    /// The values that the turn wrote.
    pub(crate) w: BTreeMap<String, String>,
    /// The error of an execution that has failed, for the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) error: String,
    /// Its cause.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) cause: String,
}

/// A message to another object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outgoing {
    /// The turn and the place of the message in it: no other message of the object has it.
    pub(crate) key: String,
    /// The id of the execution or the name of the definition.
    pub(crate) to: String,
    /// Whether it goes to a definition.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) definition: bool,
    /// The message as JSON.
    pub(crate) body: String,
}

/// Where a turn stands among others.
pub(crate) struct Place<'p> {
    pub(crate) id: &'p str,
    pub(crate) by: String,
    pub(crate) next: String,
    /// The alarm that the turn answers, by the time for which it was armed.
    pub(crate) fires: Option<Timestamp>,
    /// The messages of earlier turns that were delivered.
    pub(crate) delivered: &'p BTreeSet<String>,
}

impl Envelope {
    /// The envelope of a turn after another one.
    pub(crate) fn after(before: Option<&Self>, turn: &Turn, place: Place<'_>) -> Self {
        let n = before.map_or(0, |before| before.n) + 1;
        let mut w = BTreeMap::new();
        for write in &turn.writes {
            match write {
                Write::Set { key, value } => {
                    w.insert(key.clone(), String::from_utf8_lossy(value).into_owned());
                }
                // Step Functions keeps its history; the capability is off.
                Write::ClearAll => {}
            }
        }
        let out = before.map(|before| before.out.clone()).unwrap_or_default();
        let mut out: Vec<_> = out
            .into_iter()
            .filter(|it| !place.delivered.contains(&it.key))
            .collect();
        let new = turn.messages.iter().enumerate();
        out.extend(new.filter_map(|(nth, message)| outgoing(format!("{n}.{nth}"), message)));
        let armed = turn.alarm.map(|due| due.as_millisecond());
        // Only the alarm itself removes an alarm: another request may come after its time and before it fires.
        let fired = place.fires.map(Timestamp::as_millisecond);
        let before = before.and_then(|before| before.alarm);
        let before = before.filter(|due| Some(*due) != fired);
        Self {
            stateway: VERSION,
            id: place.id.to_owned(),
            n,
            by: place.by,
            next: place.next,
            alarm: armed.or(before),
            out,
            carried: false,
            w,
            error: String::new(),
            cause: String::new(),
        }
    }

    /// Whether a request is the alarm that this turn has armed.
    pub(crate) fn is_fired(&self, fires: Option<Timestamp>) -> bool {
        fires.is_some_and(|armed| self.alarm == Some(armed.as_millisecond()))
    }

    /// The turn of a definition: its alarm is the one that it has armed. Another request than the alarm starts
    /// nothing that is due, so an alarm of the past stays until it has fired.
    pub(crate) fn of_definition(mut self) -> Self {
        let stored = self.w.get(CURRENT);
        let stored = stored.and_then(|it| serde_json::from_str::<StoredDefinition>(it).ok());
        if let Some(stored) = stored {
            self.alarm = stored.trigger.and_then(|trigger| trigger.armed);
        }
        self
    }

    /// The same for an execution that ends with an error.
    pub(crate) fn failed(mut self, error: &str, cause: &str) -> Self {
        self.error = cut(error, 256).to_owned();
        self.cause = cut(cause, LONGEST_CAUSE).to_owned();
        self
    }

    /// A turn after this one that changes nothing and repeats these values beside the newest ones: Step Functions
    /// deletes the history of a generation that has ended.
    pub(crate) fn carry(
        &self,
        (by, name): (String, String),
        values: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let mut next = self.clone();
        (next.n, next.carried) = (self.n + 1, true);
        (next.by, next.next) = (by, name);
        for (key, value) in values {
            next.w.entry(key).or_insert(value);
        }
        next.w.retain(|key, _| !key.starts_with(EVENTS));
        next
    }

    /// As the JSON that Step Functions stores.
    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).expect("it has only text keys, so it is always JSON")
    }

    /// The envelope of an input or output of the gate.
    pub(crate) fn decode(text: &str) -> Result<Self, String> {
        let read: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if read.stateway == VERSION {
            Ok(read)
        } else {
            Err(format!("version {} is unknown", read.stateway))
        }
    }
}

impl Outgoing {
    /// The message.
    pub(crate) fn message(&self) -> Result<Message, serde_json::Error> {
        let to = self.to.as_str().into();
        Ok(if self.definition {
            let body: ChildRequest = serde_json::from_str(&self.body)?;
            Message::Definition(to, Box::new(body))
        } else {
            let body: ObjectRequest = serde_json::from_str(&self.body)?;
            Message::Execution(to, Box::new(body))
        })
    }
}

/// The time for which the alarm was armed that a request to an execution or a definition fires; none for another
/// request.
pub(crate) fn fires(request: &[u8]) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Request {
        work: Work,
    }
    #[derive(Deserialize)]
    struct Work {
        alarm: Alarm,
    }
    #[derive(Deserialize)]
    struct Alarm {
        #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
        armed: Timestamp,
    }
    let request: Request = serde_json::from_slice(request).ok()?;
    Some(request.work.alarm.armed)
}

/// A message that is to be sent. What cannot be written as JSON does not exist.
fn outgoing(key: String, message: &Message) -> Option<Outgoing> {
    let (to, definition, body) = match message {
        Message::Execution(id, request) => (id, false, serde_json::to_string(request).ok()?),
        Message::Definition(name, request) => (name, true, serde_json::to_string(request).ok()?),
    };
    Some(Outgoing {
        key,
        to: to.to_string(),
        definition,
        body,
    })
}

fn cut(text: &str, most: usize) -> &str {
    match text.char_indices().nth(most) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> Write {
        Write::Set {
            key: key.to_owned(),
            value: value.as_bytes().to_vec(),
        }
    }

    fn place(delivered: &BTreeSet<String>) -> Place<'_> {
        Place {
            id: "order-1",
            by: "a.1".to_owned(),
            next: "order-1_g2".to_owned(),
            fires: None,
            delivered,
        }
    }

    fn end_child(to: &str) -> Message {
        let request = stateway_hosted::object::killed(Timestamp::UNIX_EPOCH, "parent", "");
        Message::Execution(to.into(), Box::new(request))
    }

    #[test]
    fn an_envelope_is_read_as_it_was_written() {
        let turn = Turn {
            writes: vec![set("x", "{\"big\":12345678901234567890}\n"), set("v", "{}")],
            alarm: Timestamp::from_millisecond(5_000).ok(),
            messages: vec![end_child("child")],
            ..Turn::default()
        };
        let none = BTreeSet::new();
        let written = Envelope::after(None, &turn, place(&none)).failed("FAILED", "why");
        let read = Envelope::decode(&written.encode()).unwrap();
        assert_eq!(read, written);
        assert_eq!((read.n, read.alarm), (1, Some(5_000)));
        assert_eq!(read.w["x"], "{\"big\":12345678901234567890}\n");
        assert_eq!(read.out[0].message().unwrap(), end_child("child"));
        assert!(Envelope::decode("{\"n\":1}").is_err());
    }

    /// A turn of the definition `nightly`, after the values of the turns before.
    fn defined(
        before: &mut BTreeMap<String, Vec<u8>>,
        request: &stateway_hosted::definition_object::DefinitionRequest,
    ) -> Turn {
        let request = serde_json::to_vec(request).unwrap();
        let mut read = |key: &str| Ok(before.get(key).cloned());
        let turn = stateway_hosted::definition_object::handle("nightly", &request, &mut read);
        let turn = turn.unwrap();
        for write in &turn.writes {
            if let Write::Set { key, value } = write {
                before.insert(key.clone(), value.clone());
            }
        }
        turn
    }

    #[test]
    fn the_alarm_of_a_definition_stays_until_it_has_fired() {
        use stateway_hosted::definition_object::{DefinitionRequest, DefinitionWork, alarm};
        let (none, mut values) = (BTreeSet::new(), BTreeMap::new());
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let request = |id: &str, time: &str, work| DefinitionRequest {
            v: stateway_hosted::message::VERSION,
            id: id.into(),
            body: id.into(),
            at: at(time),
            work,
        };
        let apply = DefinitionWork::Apply {
            source:
                "name: nightly\ntrigger: {schedule: '0 * * * *'}\nsteps: [{name: a, sleep: 1s}]"
                    .into(),
            source_name: "nightly.yaml".into(),
            never_scheduled: false,
        };
        let place = |fires| Place {
            fires,
            ..place(&none)
        };
        let ten = at("2026-01-01T10:00:00Z");
        let half = "2026-01-01T09:30:00Z";
        let turn = defined(&mut values, &request("r1", half, apply));
        let applied = Envelope::after(None, &turn, place(None)).of_definition();
        assert_eq!(applied.alarm, Some(ten.as_millisecond()));
        // No gateway ran at ten. The first request after that is not the alarm.
        let late = "2026-01-01T12:10:00Z";
        let home = request("r2", late, DefinitionWork::SetHome { home: true });
        let turn = defined(&mut values, &home);
        let homed = Envelope::after(Some(&applied), &turn, place(None)).of_definition();
        assert_eq!(homed.alarm, Some(ten.as_millisecond()));
        let turn = defined(&mut values, &alarm(ten, at(late)));
        let fired = Envelope::after(Some(&homed), &turn, place(Some(ten))).of_definition();
        assert_eq!(
            fired.alarm,
            Some(at("2026-01-01T13:00:00Z").as_millisecond())
        );
        let started: Vec<_> = fired.out.iter().map(|it| it.to.as_str()).collect();
        assert_eq!(started, ["nightly~20260101T120000Z"]);
        let delete = request("r3", late, DefinitionWork::Delete);
        let turn = defined(&mut values, &delete);
        let deleted = Envelope::after(Some(&fired), &turn, place(None)).of_definition();
        assert_eq!(deleted.alarm, None);
    }

    #[test]
    fn a_message_is_carried_until_it_is_delivered() {
        let none = BTreeSet::new();
        let first = Turn {
            messages: vec![end_child("a"), end_child("b")],
            ..Turn::default()
        };
        let first = Envelope::after(None, &first, place(&none));
        let second = Turn {
            messages: vec![end_child("c")],
            ..Turn::default()
        };
        let delivered = BTreeSet::from(["1.0".to_owned()]);
        let second = Envelope::after(Some(&first), &second, place(&delivered));
        let keys: Vec<_> = second.out.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["1.1", "2.0"]);
    }

    #[test]
    fn a_turn_before_the_next_generation_repeats_what_the_next_one_needs() {
        let turn = Turn {
            writes: vec![set("x", "new"), set("e/0000000007", "event")],
            alarm: Timestamp::from_millisecond(5_000).ok(),
            messages: vec![end_child("a")],
            ..Turn::default()
        };
        let none = BTreeSet::new();
        let before = Envelope::after(None, &turn, place(&none));
        let values = [("d", "source"), ("x", "old")];
        let values = values.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let carried = before.carry(("a.2".to_owned(), "order-1_g3".to_owned()), values);
        let pairs: Vec<_> = carried
            .w
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        assert_eq!(pairs, [("d", "source"), ("x", "new")]);
        assert_eq!(
            (carried.n, carried.alarm, carried.out.len()),
            (2, Some(5_000), 1)
        );
        assert_eq!(carried.next, "order-1_g3");
    }

    #[test]
    fn the_alarm_that_a_request_fires_is_read_from_it() {
        let armed = Timestamp::from_millisecond(900).unwrap();
        let now = Timestamp::from_millisecond(1_000).unwrap();
        let execution = stateway_hosted::object::alarm(armed, now);
        let definition = stateway_hosted::definition_object::alarm(armed, now);
        let mut other = execution.clone();
        for request in [
            serde_json::to_vec(&execution).unwrap(),
            serde_json::to_vec(&definition).unwrap(),
        ] {
            assert_eq!(fires(&request), Some(armed));
        }
        for work in [
            stateway_hosted::message::Work::Asked,
            stateway_hosted::message::Work::EndChild { kill: true },
        ] {
            other.work = work;
            assert_eq!(fires(&serde_json::to_vec(&other).unwrap()), None);
        }
    }

    #[test]
    fn an_alarm_stays_until_it_fires_or_until_another_one_is_armed() {
        let none = BTreeSet::new();
        let armed = |millis| Turn {
            alarm: Timestamp::from_millisecond(millis).ok(),
            ..Turn::default()
        };
        let before = Envelope::after(None, &armed(5_000), place(&none));
        let quiet = Turn::default();
        assert_eq!(
            Envelope::after(Some(&before), &quiet, place(&none)).alarm,
            Some(5_000)
        );
        assert_eq!(
            Envelope::after(Some(&before), &armed(2_000), place(&none)).alarm,
            Some(2_000)
        );
        // Another request may cross the time of an alarm that has not fired: the alarm stays.
        let overdue = Envelope::after(None, &armed(900), place(&none));
        assert_eq!(
            Envelope::after(Some(&overdue), &quiet, place(&none)).alarm,
            Some(900)
        );
        let fires = |alarm| Place {
            fires: Timestamp::from_millisecond(alarm).ok(),
            ..place(&none)
        };
        // The alarm that fires is gone, unless it was armed again.
        let after = |turn: &Turn| Envelope::after(Some(&overdue), turn, fires(900)).alarm;
        assert_eq!(after(&quiet), None);
        assert_eq!(after(&armed(7_000)), Some(7_000));
        // An alarm that another gateway has fired before removes no later one.
        assert_eq!(
            Envelope::after(Some(&before), &quiet, fires(900)).alarm,
            Some(5_000)
        );
    }
}
