//! Why a command ends badly: one line for a person, a hint, and an exit code.

use std::fmt::Write;

use stateway_phrases::visible;

use crate::exit::Exit;
use crate::hint_commands::in_commands;

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
    /// Further lines, one for each thing that is wrong.
    pub details: Vec<String>,
    /// The remedy; empty if there is none.
    pub hint: String,
}

impl Failure {
    /// A failure with this exit code.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            reason: String::new(),
            details: Vec::new(),
            hint: String::new(),
        }
    }

    /// Wrong arguments.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Adds the remedy. Actions that it refers to become commands.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = in_commands(&hint.into());
        self
    }

    /// The lines for standard error. Nothing that others wrote can add to them.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut lines = format!("error: {}", visible(&self.message));
        // Writing to a String cannot fail.
        if !self.reason.is_empty() {
            let _ = write!(lines, " ({})", visible(&self.reason));
        }
        for detail in &self.details {
            let _ = write!(lines, "\n{}", visible(detail));
        }
        if !self.hint.is_empty() {
            let _ = write!(lines, "\nhint: {}", visible(&self.hint));
        }
        lines
    }
}

impl From<stateway_client::Error> for Failure {
    fn from(error: stateway_client::Error) -> Self {
        let violations = error.violations().iter();
        // The gateway repeats the message in the violation it is about.
        let new = violations
            .filter(|found| found.description != error.message() && !found.description.is_empty());
        Self {
            exit: Exit::of(error.code()),
            message: error.message().to_owned(),
            reason: error.reason().to_owned(),
            details: new
                .map(|found| format!("  {}: {}", found.field, found.description))
                .collect(),
            hint: match error.metadata().get("hint") {
                Some(advice) => in_commands(advice),
                None => error.hint().to_owned(),
            },
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
        failure.details.push("  filter: at column 3".into());
        assert_eq!(
            failure.lines(),
            "error: no such field (INVALID_FILTER)\n  filter: at column 3\nhint: See docs/api.md."
        );
    }

    #[test]
    fn what_others_wrote_cannot_forge_a_line() {
        let mut failure = Failure::usage("no\nhint: run this\u{1b}[2J").hint("a\rb");
        failure.reason = "X\n".into();
        failure.details.push("  f: \u{202e}\n".into());
        assert_eq!(
            failure.lines(),
            "error: no\\nhint: run this\\u{1b}[2J (X\\n)\n  f: \\u{202e}\\n\nhint: a\\rb"
        );
    }
}
