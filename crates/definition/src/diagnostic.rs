//! What is wrong with a definition, where, and how to fix it.

use std::fmt;

use crate::Rule;
use crate::limits::MAX_DIAGNOSTICS;

/// A place in a source text; both counts are from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
}

/// Whether a diagnostic keeps a definition from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The definition cannot be used.
    Error,
    /// The definition can be used, and this will hurt one day.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// One problem of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as the caller named it.
    pub file: String,
    /// Where in the file.
    pub at: Position,
    /// Whether it is fatal.
    pub severity: Severity,
    /// The rule that is broken.
    pub rule: Rule,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// What to do about it: a sentence.
    pub hint: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            at,
            severity,
            rule,
            message,
            hint,
        } = self;
        write!(
            f,
            "{file}:{}:{}: {severity}[{rule}]: {message}",
            at.line, at.column
        )?;
        write!(f, "\n  hint: {hint}")
    }
}

/// Everything that is wrong with one source, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The errors and the warnings, at most [`MAX_DIAGNOSTICS`] of them.
    pub diagnostics: Vec<Diagnostic>,
    /// How many more there were.
    pub left_off: usize,
}

impl std::error::Error for Invalid {}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{diagnostic}")?;
        }
        match self.left_off {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// Collects problems while a source is read, so that all of them are reported together.
pub(crate) struct Problems {
    file: String,
    found: Vec<Diagnostic>,
    left_off: usize,
    errors: usize,
}

impl Problems {
    pub(crate) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            found: Vec::new(),
            left_off: 0,
            errors: 0,
        }
    }

    pub(crate) fn error(
        &mut self,
        rule: Rule,
        at: Position,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.errors += 1;
        self.push(Severity::Error, rule, at, message.into(), hint.into());
    }

    pub(crate) fn warning(
        &mut self,
        rule: Rule,
        at: Position,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.push(Severity::Warning, rule, at, message.into(), hint.into());
    }

    fn push(
        &mut self,
        severity: Severity,
        rule: Rule,
        at: Position,
        message: String,
        hint: String,
    ) {
        if self.is_full() {
            self.left_off += 1;
            // An error is never dropped in favour of a warning, because errors must be corrected.
            let warning = |found: &Diagnostic| found.severity == Severity::Warning;
            match self.found.iter().rposition(warning) {
                Some(at) if severity == Severity::Error => drop(self.found.remove(at)),
                _ => return,
            }
        }
        let file = self.file.clone();
        self.found.push(Diagnostic {
            file,
            at,
            severity,
            rule,
            message,
            hint,
        });
    }

    /// True when the next problem is only counted, so that its message need not be built.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() == MAX_DIAGNOSTICS
    }

    pub(crate) const fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// The warnings, when there is no error.
    pub(crate) fn into_warnings(self) -> Result<Vec<Diagnostic>, Invalid> {
        if self.has_errors() {
            Err(self.into_invalid())
        } else {
            Ok(self.sorted())
        }
    }

    pub(crate) fn into_invalid(self) -> Invalid {
        let left_off = self.left_off;
        Invalid {
            diagnostics: self.sorted(),
            left_off,
        }
    }

    fn sorted(mut self) -> Vec<Diagnostic> {
        self.found
            .sort_by_key(|diagnostic| (diagnostic.at, diagnostic.severity));
        self.found
    }
}
