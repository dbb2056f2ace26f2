//! Events as bytes, and back. Commands are in `command`.
//!
//! The form is one JSON object per event: `v` (the version), `n` (sequence), `at` (milliseconds),
//! `by` (causation), `of` (the event that caused it), `who` (actor), `for` (correlation), `fact`.
//! Version 2 added `of`, `who` and facts; this build reads both versions. A golden file keeps each
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

/// The version this build writes.
pub const EVENT_VERSION: u32 = 2;
/// The versions this build reads.
const READABLE: std::ops::RangeInclusive<u32> = 1..=EVENT_VERSION;

/// Why bytes are not an event.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// Written by a newer build.
    #[error("event version {found} is unknown; this build reads versions 1 to {EVENT_VERSION}")]
    UnknownVersion {
        /// The version that was found.
        found: u64,
    },
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "v")]
    version: u32,
    n: u64,
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    at: Timestamp,
    by: Arc<str>,
    #[serde(default)]
    of: Option<u64>,
    #[serde(default)]
    who: Arc<str>,
    #[serde(rename = "for")]
    correlation: Arc<str>,
    fact: Fact,
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

/// Reads an event.
///
/// # Errors
/// An unknown version, bytes that are no event, or too many of them.
pub fn decode(bytes: &[u8]) -> Result<Event, DecodeError> {
    if bytes.len() > MAX_READ_EVENT_BYTES {
        return Err(DecodeError::TooLong {
            length: bytes.len(),
        });
    }
    match read(bytes)? {
        Ok(read) if READABLE.contains(&read.version) => Ok(Event {
            sequence: read.n,
            at: read.at,
            causation: read.by,
            cause: read.of,
            actor: read.who,
            correlation: read.correlation,
            fact: read.fact,
        }),
        Ok(read) => Err(DecodeError::UnknownVersion {
            found: read.version.into(),
        }),
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

/// A newer event fails to read for many reasons; its version is the one worth telling.
fn unknown_version(bytes: &[u8]) -> Option<DecodeError> {
    let Versioned { v } = serde_json::from_slice(bytes).ok()?;
    (!(1..=u64::from(EVENT_VERSION)).contains(&v))
        .then_some(DecodeError::UnknownVersion { found: v })
}
