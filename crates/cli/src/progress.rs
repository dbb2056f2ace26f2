//! The progress of long work: one line on a terminal, elsewhere a line from time to time.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::context::print_message;

/// How often the line on a terminal changes.
const FRAME: Duration = Duration::from_millis(100);
/// How often a line is printed without a terminal.
const PACE: Duration = Duration::from_secs(5);
/// Erases the line and goes to its start.
const ERASE: &str = "\r\u{1b}[2K";

/// A progress line on standard error.
pub struct Progress {
    terminal: bool,
    drawn: bool,
    last: Instant,
}

impl Progress {
    /// Nothing is printed yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            drawn: false,
            last: Instant::now(),
        }
    }

    /// Prints the line, unless one was printed a moment ago.
    pub fn show(&mut self, line: impl FnOnce() -> String) {
        let pace = if self.terminal { FRAME } else { PACE };
        if self.last.elapsed() < pace {
            return;
        }
        self.last = Instant::now();
        if self.terminal {
            self.drawn = true;
            // If standard error cannot be written, the message is lost.
            let _ = write!(std::io::stderr(), "{ERASE}{}", line());
            let _ = std::io::stderr().flush();
        } else {
            print_message(&line());
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

/// The line of a terminal disappears when the work is done.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(std::io::stderr(), "{ERASE}");
            let _ = std::io::stderr().flush();
        }
    }
}
