//! Commands as bytes, and back: the form in which a command crosses a process border.
//!
//! The form is one JSON object: `v` (the version), `id`, `verb`. A command that `encode_command` accepts
//! can be decoded again: its length and the nesting of its payload are checked before it is sent.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Versioned;
use crate::limits::text_depth;
use crate::{Command, Verb};

/// The version of commands that this build writes and reads.
pub const COMMAND_VERSION: u32 = 1;
/// The longest command, in bytes.
pub const MAX_COMMAND_BYTES: usize = crate::MAX_EVENT_BYTES;
/// The deepest nesting of objects and arrays that `serde_json` reads.
const MAX_DEPTH: usize = 127;

/// Why a command cannot be sent, or bytes are not a command.
#[derive(Debug, Error)]
pub enum CommandError {
    /// Written by a newer build.
    #[error("command version {found} is unknown; this build reads version {COMMAND_VERSION}")]
    UnknownVersion {
        /// The version that was found.
        found: u64,
    },
    /// Longer than [`MAX_COMMAND_BYTES`].
    #[error("a command has {length} bytes, more than {MAX_COMMAND_BYTES}")]
    TooLong {
        /// The length of the command.
        length: usize,
    },
    /// Nested too deeply to be decoded again.
    #[error("a command is nested {depth} levels deep, more than {MAX_DEPTH}")]
    TooDeep {
        /// The nesting of the command.
        depth: usize,
    },
    /// Not a command at all.
    #[error("not a command: {0}")]
    Malformed(#[from] serde_json::Error),
}

#[derive(Serialize)]
struct Written<'c> {
    v: u32,
    id: &'c Arc<str>,
    verb: &'c Verb,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "v")]
    version: u32,
    id: Arc<str>,
    verb: Verb,
}

/// Writes a command.
///
/// # Errors
/// The command is longer or nested deeper than [`decode_command`] accepts.
pub fn encode_command(command: &Command) -> Result<Vec<u8>, CommandError> {
    let bytes = serde_json::to_vec(&Written {
        v: COMMAND_VERSION,
        id: &command.id,
        verb: &command.verb,
    })?;
    check_length(&bytes)?;
    let depth = text_depth(&bytes);
    if depth > MAX_DEPTH {
        return Err(CommandError::TooDeep { depth });
    }
    Ok(bytes)
}

/// Reads a command.
///
/// # Errors
/// An unknown version, bytes that are no command, or too many of them.
pub fn decode_command(bytes: &[u8]) -> Result<Command, CommandError> {
    check_length(bytes)?;
    match serde_json::from_slice::<Read>(bytes) {
        Ok(read) if read.version == COMMAND_VERSION => Ok(Command::new(read.id, read.verb)),
        Ok(read) => Err(CommandError::UnknownVersion {
            found: read.version.into(),
        }),
        Err(error) => Err(unknown_version(bytes).unwrap_or(CommandError::Malformed(error))),
    }
}

const fn check_length(bytes: &[u8]) -> Result<(), CommandError> {
    let length = bytes.len();
    if length > MAX_COMMAND_BYTES {
        return Err(CommandError::TooLong { length });
    }
    Ok(())
}

/// A newer command may fail to decode for many reasons. The error names the version.
fn unknown_version(bytes: &[u8]) -> Option<CommandError> {
    let Versioned { v } = serde_json::from_slice(bytes).ok()?;
    (v != u64::from(COMMAND_VERSION)).then_some(CommandError::UnknownVersion { found: v })
}
