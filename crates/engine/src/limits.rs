//! The bounds of the engine, one table: each fits into the next one. Data that was acknowledged can be read
//! back, replayed, listed and sent.
//!
//! | bound | value | checked | fits into |
//! |---|---|---|---|
//! | depth of a payload | [`MAX_PAYLOAD_DEPTH`] | at every door and by the core | the depth events are read with |
//! | bytes of a payload | `max_payload_bytes` | at every door and by the core | an event; half a message |
//! | bytes of an event | [`MAX_EVENT_BYTES`] | before the append | the bytes events are read with |
//! | bytes of a task's input | [`task_bytes`] of `max_message_bytes` | by the core and at the hand-out | a message to a worker |
//! | bytes of a message | `max_message_bytes` | by the configuration | what clients accept |
//! | commands of a turn | [`WORK_PER_TURN`] | by the keeper | the time that other clients wait |
//! | bytes of a turn | [`BYTES_PER_TURN`] | by the keeper | memory |
//! | depth of children | [`MAX_CHILD_DEPTH`] | when a child starts | the length of a child's id |
//! | executions of a tree | `max_tree` | when a child starts | the store |
//! | active executions | `max_active` | when an execution gets a slot | memory |
//! | bytes of active executions | `max_memory_bytes` | when an execution gets a slot | memory |
//!
//! The machine has the first half of the table: `stateway_machine`, module `limits`.

use stateway_machine::{ENVELOPE_BYTES, Limits, MAX_EVENT_BYTES, MAX_PAYLOAD_BYTES};

use crate::Config;
use crate::error::{EngineError, ErrorKind, Result};

/// The most commands of one turn. A command takes some ten microseconds, so that a turn leaves the keeper
/// to other clients within a fraction of a second. The rest continues in the next turn.
pub(crate) const WORK_PER_TURN: usize = 4_096;
/// The most bytes of events of one turn. They are in memory several times: in the turn, as the states that they
/// lead to, and in what is sent afterwards.
pub(crate) const BYTES_PER_TURN: usize = 8 * 1024 * 1024;
pub(crate) use stateway_machine::MAX_CHILD_DEPTH;
/// The default of `max_payload_bytes`, where a message has room for it.
pub const DEFAULT_PAYLOAD_BYTES: usize = 1024 * 1024;
/// How many sessions of a worker in a row may end without a message from it before the longest of its tasks
/// goes to another worker.
pub(crate) const MAX_ENDED_SESSIONS: u32 = 5;

/// The most bytes of a task's input: what a message has room for beside names, texts and the action.
#[must_use]
pub const fn task_bytes(max_message_bytes: usize) -> usize {
    max_message_bytes - envelope(max_message_bytes)
}

/// The highest `max_payload_bytes` with this `max_message_bytes`: an event has one payload, and a message
/// has the input and the output of an execution.
#[must_use]
pub const fn most_payload_bytes(max_message_bytes: usize) -> usize {
    let half = task_bytes(max_message_bytes) / 2;
    if half < MAX_PAYLOAD_BYTES {
        half
    } else {
        MAX_PAYLOAD_BYTES
    }
}

const fn envelope(max_message_bytes: usize) -> usize {
    let quarter = max_message_bytes / 4;
    if quarter < ENVELOPE_BYTES {
        quarter
    } else {
        ENVELOPE_BYTES
    }
}

impl Config {
    /// The limits of the data of an execution.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        Limits {
            payload_bytes: self.max_payload_bytes,
            task_bytes: task_bytes(self.max_message_bytes),
        }
    }

    /// Checks that the limits fit into each other.
    ///
    /// # Errors
    /// A limit that does not; the message names both.
    pub fn check_limits(&self) -> Result<()> {
        let (payload, message) = (self.max_payload_bytes, self.max_message_bytes);
        let most = most_payload_bytes(message);
        if payload <= most {
            return Ok(());
        }
        let why = if most == MAX_PAYLOAD_BYTES {
            format!("an event holds at most {MAX_EVENT_BYTES} bytes")
        } else {
            format!("with `max_message_bytes` = {message} a message holds the input and the output")
        };
        Err(EngineError::new(
            ErrorKind::InvalidArgument,
            "LIMITS_DO_NOT_FIT",
            format_args!("`max_payload_bytes` is {payload} and must be at most {most}: {why}"),
        )
        .hint("Lower `max_payload_bytes`, or raise `max_message_bytes` of `[server]`."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;
    const MIB: usize = 1024 * KIB;

    #[test]
    fn the_limits_fit_into_each_other_for_every_size_of_a_message() {
        // message, task, payload
        for (message, task, payload) in [
            (64 * KIB, 48 * KIB, 24 * KIB),
            (MIB, 768 * KIB, 384 * KIB),
            (4 * MIB, 3 * MIB, 1536 * KIB),
            (8 * MIB, 7 * MIB, 3 * MIB),
            (64 * MIB, 63 * MIB, 3 * MIB),
        ] {
            assert_eq!(task_bytes(message), task, "{message}");
            assert_eq!(most_payload_bytes(message), payload, "{message}");
            assert!(2 * payload <= task && task < message);
            assert!(payload + ENVELOPE_BYTES <= MAX_EVENT_BYTES);
        }
    }

    #[test]
    fn the_defaults_fit() {
        let config = Config::new("store.db");
        assert!(config.check_limits().is_ok());
        assert_eq!(config.max_payload_bytes, DEFAULT_PAYLOAD_BYTES);
        assert_eq!(config.limits(), Limits::default());
    }

    #[test]
    fn a_payload_that_no_event_or_message_holds_is_refused_by_both_names() {
        let mut config = Config::new("store.db");
        config.max_payload_bytes = 2 * MIB;
        let refused = config.check_limits().unwrap_err();
        assert!(refused.message.contains("`max_payload_bytes` is 2097152"));
        assert!(refused.message.contains("`max_message_bytes` = 4194304"));
        config.max_message_bytes = 64 * MIB;
        assert!(config.check_limits().is_ok());
        config.max_payload_bytes = 4 * MIB;
        let refused = config.check_limits().unwrap_err();
        assert!(refused.message.contains("an event holds at most 4194304"));
    }
}
