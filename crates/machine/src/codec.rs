//! Events as bytes, and back. Commands are in `command`.
//!
//! The form is one JSON object per event: `v` (the version), `n` (sequence), `at` (milliseconds),
//! `by` (causation), `of` (the event that caused it), `who` (actor), `for` (correlation), `fact`.
//! Version 2 added `of`, `who` and facts. Version 3 is the short form of an event that follows another one in the same
//! row of a log: it leaves out what is the same as in the event before, `n` if it is the next one, and `of` if it is the
//! event before (`0`: no event). This build reads all versions. A golden file keeps each
//! version; a change that old readers would misread needs a new one, and unknown versions are refused
//! by name.

mod command;

pub use command::{
    COMMAND_VERSION, CommandError, MAX_COMMAND_BYTES, decode_command, encode_command,
};

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::limits::{MAX_READ_DEPTH, MAX_READ_EVENT_BYTES, text_depth};
use crate::{Event, Fact};

/// The version of a whole event that this build writes.
pub const EVENT_VERSION: u32 = 2;
/// The version of the short form.
const SHORT_VERSION: u32 = 3;

/// Why bytes are not an event.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// Written by a newer build.
    #[error("event version {found} is unknown; this build reads versions 1 to {SHORT_VERSION}")]
    UnknownVersion {
        /// The version that was found.
        found: u64,
    },
    /// The short form of an event that follows another one, without that one.
    #[error("the short form of an event refers to the event before it, but no event precedes it")]
    NothingBefore,
    /// Longer than any event.
    #[error("an event has {length} bytes, more than {MAX_READ_EVENT_BYTES}")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// Deeper than any event.
    #[error("an event has {depth} levels of lists and objects, more than {MAX_READ_DEPTH}")]
    TooDeep {
        /// Its depth.
        depth: usize,
    },
    /// Not an event at all.
    #[error("not an event: {0}")]
    Malformed(#[from] serde_json::Error),
}

#[derive(Serialize)]
struct Written<'e> {
    v: u32,
    n: u64,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    at: Timestamp,
    by: &'e Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    who: &'e Arc<str>,
    #[serde(rename = "for")]
    correlation: &'e Arc<str>,
    fact: &'e Fact,
}

/// The short form: everything that is absent follows from the event before.
#[derive(Serialize)]
struct ShortWritten<'e> {
    v: u32,
    #[serde(
        with = "jiff::fmt::serde::timestamp::millisecond::optional",
        skip_serializing_if = "Option::is_none"
    )]
    at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'e Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    who: Option<&'e Arc<str>>,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    correlation: Option<&'e Arc<str>>,
    fact: &'e Fact,
}

/// An event of any version.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "v")]
    version: u32,
    #[serde(default)]
    n: Option<u64>,
    #[serde(default, with = "jiff::fmt::serde::timestamp::millisecond::optional")]
    at: Option<Timestamp>,
    #[serde(default)]
    by: Option<Arc<str>>,
    #[serde(default)]
    of: Option<u64>,
    #[serde(default)]
    who: Option<Arc<str>>,
    #[serde(rename = "for", default)]
    correlation: Option<Arc<str>>,
    fact: Fact,
}

impl Read {
    /// A whole event.
    fn whole(self) -> serde_json::Result<Event> {
        use serde::de::Error as _;
        let missing = serde_json::Error::missing_field;
        Ok(Event {
            sequence: self.n.ok_or_else(|| missing("n"))?,
            at: self.at.ok_or_else(|| missing("at"))?,
            causation: self.by.ok_or_else(|| missing("by"))?,
            cause: self.of,
            actor: self.who.unwrap_or_default(),
            correlation: self.correlation.ok_or_else(|| missing("for"))?,
            fact: self.fact,
        })
    }

    /// A short event after another one.
    fn after(self, before: &Event) -> Event {
        let same =
            |text: Option<Arc<str>>, before: &Arc<str>| text.unwrap_or_else(|| Arc::clone(before));
        let cause = match self.of {
            None => Some(before.sequence),
            Some(0) => None,
            of => of,
        };
        Event {
            sequence: before.sequence + 1,
            at: self.at.unwrap_or(before.at),
            causation: same(self.by, &before.causation),
            cause,
            actor: same(self.who, &before.actor),
            correlation: same(self.correlation, &before.correlation),
            fact: self.fact,
        }
    }
}

/// Only the version, whatever else there is.
#[derive(Deserialize)]
struct Versioned {
    v: u64,
}

/// Writes an event.
#[must_use]
pub fn encode(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    encode_into(event, &mut bytes);
    bytes
}

/// Writes an event at the end of a buffer, which a writer of many can keep.
pub fn encode_into(event: &Event, bytes: &mut Vec<u8>) {
    let written = Written {
        v: EVENT_VERSION,
        n: event.sequence,
        at: event.at,
        by: &event.causation,
        of: event.cause,
        who: &event.actor,
        correlation: &event.correlation,
        fact: &event.fact,
    };
    serde_json::to_writer(bytes, &written)
        .expect("an event has only text keys, so it is always JSON, and a buffer takes all of it");
}

/// What the short form of an event leaves out where the event before has the same.
#[derive(Debug, Clone)]
pub struct EventHeader {
    sequence: u64,
    at: Timestamp,
    causation: Arc<str>,
    actor: Arc<str>,
    correlation: Arc<str>,
}

impl From<&Event> for EventHeader {
    fn from(event: &Event) -> Self {
        Self {
            sequence: event.sequence,
            at: event.at,
            causation: Arc::clone(&event.causation),
            actor: Arc::clone(&event.actor),
            correlation: Arc::clone(&event.correlation),
        }
    }
}

/// Writes an event after the one before it in the same row of a log, shorter where the two have something in common.
pub fn encode_after(before: Option<&EventHeader>, event: &Event, bytes: &mut Vec<u8>) {
    let Some(before) = before.filter(|before| before.sequence + 1 == event.sequence) else {
        encode_into(event, bytes);
        return;
    };
    let changed = |text, before: &Arc<str>| Some(text).filter(|text: &&Arc<str>| **text != *before);
    let of = match event.cause {
        Some(cause) if cause == before.sequence => None,
        cause => Some(cause.unwrap_or(0)),
    };
    let written = ShortWritten {
        v: SHORT_VERSION,
        at: Some(event.at).filter(|at| *at != before.at),
        by: changed(&event.causation, &before.causation),
        of,
        who: changed(&event.actor, &before.actor),
        correlation: changed(&event.correlation, &before.correlation),
        fact: &event.fact,
    };
    serde_json::to_writer(bytes, &written)
        .expect("an event has only text keys, so it is always JSON, and a buffer takes all of it");
}

/// Reads the events of a row of a log, one line each. `Err` has the place of the line, from 0.
///
/// # Errors
/// A line is no event: see [`decode`].
pub fn decode_row(lines: &[u8]) -> Result<Vec<Event>, (usize, DecodeError)> {
    let lines = lines.split(|byte| *byte == b'\n');
    let mut events: Vec<Event> = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let event = decode_after(events.last(), line);
        events.push(event.map_err(|error| (events.len(), error))?);
    }
    Ok(events)
}

/// Reads a whole event.
///
/// # Errors
/// An unknown version, bytes that are no event, or too many of them.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    decode_after(None, bytes)
}

fn decode_after(before: Option<&Event>, bytes: &[u8]) -> Result<Event, DecodeError> {
    if bytes.len() > MAX_READ_EVENT_BYTES {
        return Err(DecodeError::TooLong {
            length: bytes.len(),
        });
    }
    match read(bytes)? {
        Ok(read) => match (read.version, before) {
            (1..=EVENT_VERSION, _) => Ok(read.whole()?),
            (SHORT_VERSION, Some(before)) => Ok(read.after(before)),
            (SHORT_VERSION, None) => Err(DecodeError::NothingBefore),
            (found, _) => Err(DecodeError::UnknownVersion {
                found: found.into(),
            }),
        },
        Err(error) => Err(unknown_version(bytes).unwrap_or(DecodeError::Malformed(error))),
    }
}

/// Reads an event with the reader's own limit of depth, and a deeper one with ours. Most events need no
/// count of their levels.
fn read(bytes: &[u8]) -> Result<serde_json::Result<Read>, DecodeError> {
    let first = serde_json::from_slice::<Read>(bytes);
    if first.is_ok() {
        return Ok(first);
    }
    let depth = text_depth(bytes);
    if depth > MAX_READ_DEPTH {
        return Err(DecodeError::TooDeep { depth });
    }
    let mut deep = serde_json::Deserializer::from_slice(bytes);
    deep.disable_recursion_limit();
    let read = Read::deserialize(&mut deep);
    Ok(read.and_then(|read| deep.end().map(|()| read)))
}

/// A newer event fails to read for many reasons; the error names its version.
fn unknown_version(bytes: &[u8]) -> Option<DecodeError> {
    let Versioned { v } = serde_json::from_slice(bytes).ok()?;
    (!(1..=u64::from(SHORT_VERSION)).contains(&v))
        .then_some(DecodeError::UnknownVersion { found: v })
}
