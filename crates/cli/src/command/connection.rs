//! The connection of a watch to its gateway, and the messages about it.

use jiff::Timestamp;
use stateway_client::{Change, Error};

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
    tries: u32,
}

impl Connection {
    /// Takes in what the watch tells. Answers what to say: once when the connection is lost, once
    /// when it is back.
    ///
    /// # Errors
    /// No gateway has ever answered.
    pub(super) fn take<T>(
        &mut self,
        change: &Change<T>,
        now: Timestamp,
    ) -> Result<Option<String>, Failure> {
        let Change::Interrupted(error) = change else {
            self.answered = true;
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
        if !self.answered {
            return if self.tries < FIRST_TRIES {
                Ok(None)
            } else {
                Err(error.clone().into())
            };
        }
        let known = self.lost.replace(self.lost.unwrap_or(now));
        Ok(match known {
            Some(_) => None,
            None => Some(format!("connection lost ({error}); trying again")),
        })
    }
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
