//! Why a command ends badly: one line for a person, a hint, and an exit code.

use std::fmt::Write;

use crate::exit::Exit;

/// The result of a command: how the process ends, or why it does not end well.
pub type Outcome = Result<Exit, Failure>;

/// Why a command ends badly.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// What happened: a lower-case fragment.
    pub message: String,
    /// The machine-readable reason; empty when there is none.
    pub reason: String,
    /// What to do about it; empty when there is nothing to say.
    pub hint: String,
}

impl Failure {
    /// A failure with this exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            reason: String::new(),
            hint: String::new(),
        }
    }

    /// Wrong arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// The lines for standard error.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut lines = format!("error: {}", self.message);
        // Writing to a String cannot fail.
        if !self.reason.is_empty() {
            let _ = write!(lines, " ({})", self.reason);
        }
        if !self.hint.is_empty() {
            let _ = write!(lines, "\nhint: {}", self.hint);
        }
        lines
    }
}

impl From<stateway_client::Error> for Failure {
    fn from(error: stateway_client::Error) -> Self {
        let mut message = error.message().to_owned();
        for violation in error.violations() {
            // The gateway repeats the message in the violation it is about.
            if violation.description != message && !violation.description.is_empty() {
                let _ = write!(
                    message,
                    "\n  {}: {}",
                    violation.field, violation.description
                );
            }
        }
        Self {
            exit: Exit::of(error.code()),
            message,
            reason: error.reason().to_owned(),
            hint: error.hint().to_owned(),
        }
    }
}

/// A reader that goes away, as `head` does, is the end and not a failure.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::new(Exit::Ok, ""),
            _ => Self::new(Exit::Internal, format!("cannot write the answer: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_reason_and_hint_each_have_their_place() {
        let mut failure = Failure::usage("no such field").hint("See docs/api.md.");
        failure.reason = "INVALID_FILTER".into();
        assert_eq!(
            failure.lines(),
            "error: no such field (INVALID_FILTER)\nhint: See docs/api.md."
        );
        assert_eq!(Failure::usage("no").lines(), "error: no");
    }
}
