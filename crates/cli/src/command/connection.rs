//! The connection of a watch to its gateway, and the messages about it.

use jiff::Timestamp;
use stateway_client::{Change, Code, Error};

use crate::exit::Exit;
use crate::failure::Failure;

/// The number of attempts after which a gateway that never answered counts as unreachable: as many as a single
/// call makes.
const FIRST_TRIES: u32 = 4;

/// The connection of a watch to its gateway.
#[derive(Debug, Default)]
pub(super) struct Connection {
    /// Whether the gateway has ever answered, even with an error.
    pub(super) answered: bool,
    /// When the connection was lost; none while it is open.
    pub(super) lost: Option<Timestamp>,
    /// Attempts without success since the watch was last open.
    tries: u32,
    /// Whether the watch was ever open.
    was_open: bool,
}

impl Connection {
    /// Records a change of the watch. Returns the message to print: once when the connection is lost, once
    /// when it is back.
    ///
    /// # Errors
    /// No gateway has ever answered, or the gateway has refused the watch several times because the caller, or
    /// all callers together, have too many.
    pub(super) fn take<T>(
        &mut self,
        change: &Change<T>,
        now: Timestamp,
    ) -> Result<Option<String>, Failure> {
        let Change::Interrupted(error) = change else {
            self.answered = true;
            self.was_open = true;
            self.tries = 0;
            let back = self.lost.take();
            return Ok(back.map(|_| "connected again".to_owned()));
        };
        self.broken(error, now)
    }

    /// The failure of a watch whose timeout expired.
    pub(super) fn late(&self) -> Failure {
        if self.answered {
            Failure::new(Exit::Deadline, "the timeout expired")
                .hint("Run the command again, or with a longer --timeout.")
        } else {
            Failure::new(Exit::Unreachable, "the gateway has not answered in time")
                .hint("Is it running (`stateway serve`), and is the address right?")
        }
    }

    fn broken(&mut self, error: &Error, now: Timestamp) -> Result<Option<String>, Failure> {
        self.answered |= error.is_from_gateway();
        self.tries += 1;
        let is_refused = error.is_from_gateway() && error.code() == Code::ResourceExhausted;
        if (!self.answered || (is_refused && !self.was_open)) && self.tries >= FIRST_TRIES {
            return Err(error.clone().into());
        }
        if !self.answered {
            return Ok(None);
        }
        let known = self.lost.replace(self.lost.unwrap_or(now));
        Ok(match known {
            Some(_) => None,
            None if is_refused => Some(refused(error)),
            None => Some(format!("connection lost ({error}); trying again")),
        })
    }
}

/// The message for a watch that the gateway refuses for now.
fn refused(error: &Error) -> String {
    let pause = error.retry_after().unwrap_or_default().as_secs();
    let when = match pause {
        0 => String::new(),
        seconds => format!(" in {seconds} s"),
    };
    format!("the gateway refuses the watch for now ({error}); trying again{when}")
}

#[cfg(test)]
mod tests {
    use stateway_client::Client;

    use super::*;

    /// An error that does not come from a gateway.
    fn broken() -> Change {
        match Client::lazy("nowhere") {
            Ok(_) => panic!("`nowhere` is an address"),
            Err(error) => Change::Interrupted(error),
        }
    }

    fn said(connection: &mut Connection, change: &Change) -> String {
        let said = connection.take(change, Timestamp::UNIX_EPOCH).unwrap();
        said.unwrap_or_default()
    }

    #[test]
    fn a_gateway_that_never_answered_is_given_up() {
        let mut connection = Connection::default();
        for _ in 1..FIRST_TRIES {
            assert_eq!(said(&mut connection, &broken()), "");
        }
        let failure = connection.take(&broken(), Timestamp::UNIX_EPOCH);
        assert_ne!(failure.unwrap_err().exit, Exit::Ok);
    }

    #[test]
    fn each_outage_is_told_once_with_its_end() {
        let mut connection = Connection::default();
        for _ in 0..2 {
            assert_eq!(said(&mut connection, &Change::Resync), "");
            assert!(said(&mut connection, &broken()).starts_with("connection lost ("));
            for _ in 0..10 {
                assert_eq!(said(&mut connection, &broken()), "");
            }
            assert!(connection.lost.is_some());
            assert_eq!(said(&mut connection, &Change::Resync), "connected again");
            assert!(connection.lost.is_none());
        }
    }
}
