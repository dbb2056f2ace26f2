//! Accepts connections, and neither spins nor floods the log while the system has none to give.
//!
//! Without a free file descriptor `accept` fails immediately and stays ready: a plain loop would
//! use a whole core and say nothing.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

/// The pauses after failures: doubled from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The shortest time between two lines in the log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Takes connections from a listener.
pub(crate) struct Acceptor {
    listener: TcpListener,
    trouble: Trouble,
}

impl Acceptor {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self {
            listener,
            trouble: Trouble::default(),
        }
    }

    /// The next connection.
    pub(crate) async fn next(&mut self) -> (TcpStream, SocketAddr) {
        let Self { listener, trouble } = self;
        accepted(trouble, || listener.accept()).await
    }
}

/// Calls `accept` until it succeeds.
async fn accepted<T, F>(trouble: &mut Trouble, mut accept: impl FnMut() -> F) -> T
where
    F: Future<Output = io::Result<T>>,
{
    loop {
        let error = match accept().await {
            Ok(accepted) => {
                trouble.failures = 0;
                return accepted;
            }
            Err(error) => error,
        };
        if is_about_one_connection(&error) {
            continue;
        }
        let now = Instant::now();
        if trouble.is_worth_a_line(now) {
            tracing::warn!(
                failures = trouble.failures + 1,
                "cannot accept connections: {error}; raise the limit of open files, or close \
                 connections"
            );
        }
        sleep(trouble.pause()).await;
    }
}

/// The connection broke before it was accepted; the next one may be fine.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

/// Failures in a row, and when they were last logged.
#[derive(Debug, Default)]
struct Trouble {
    failures: u32,
    logged: Option<Instant>,
}

impl Trouble {
    fn is_worth_a_line(&mut self, now: Instant) -> bool {
        let is_due = self
            .logged
            .is_none_or(|logged| now.duration_since(logged) >= LOG_INTERVAL);
        if is_due {
            self.logged = Some(now);
        }
        is_due
    }

    fn pause(&mut self) -> Duration {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        pause.min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMFILE: i32 = 24;

    #[tokio::test(start_paused = true)]
    async fn without_file_descriptors_accept_is_tried_about_once_a_second() {
        let began = Instant::now();
        let mut trouble = Trouble::default();
        let mut tries = 0;
        accepted(&mut trouble, || {
            tries += 1;
            let is_over = began.elapsed() > Duration::from_secs(60);
            std::future::ready(if is_over {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(EMFILE))
            })
        })
        .await;
        assert!((60..=80).contains(&tries), "{tries}");
        assert_eq!(trouble.failures, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lasting_failure_is_logged_once_in_ten_seconds() {
        let mut trouble = Trouble::default();
        let mut lines = 0;
        for _ in 0..60 {
            lines += u32::from(trouble.is_worth_a_line(Instant::now()));
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(lines, 6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_broke_before_it_was_accepted_delays_no_other() {
        let began = Instant::now();
        let mut tries = 0;
        accepted(&mut Trouble::default(), || {
            tries += 1;
            std::future::ready(if tries > 100 {
                Ok(())
            } else {
                Err(io::ErrorKind::ConnectionAborted.into())
            })
        })
        .await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
