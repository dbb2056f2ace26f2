//! The ids of what waits for a person: `{step}~{attempt}`, with `~b{branch}` behind it on every branch but
//! the first.
//!
//! Several policy rules may ask about one attempt, one after the other; from the second request on, the
//! number of the request follows the attempt: `{step}~{attempt}.2`.

use std::cmp::Ordering;
use std::fmt;

use stateway_provider_api::{Error, ErrorKind, Result, Verb};

/// The longest name of a step.
const LONGEST_STEP: usize = 64;

/// What a person decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An approval.
    Approval,
    /// An escalation.
    Escalation,
}

impl Kind {
    const fn collection(self) -> &'static str {
        match self {
            Self::Approval => "approvals",
            Self::Escalation => "escalations",
        }
    }

    /// The error of an id that names none.
    #[must_use]
    pub fn not_found(self, verb: Verb, id: &str) -> Error {
        let (reason, hint) = match self {
            Self::Approval => ("APPROVAL_NOT_FOUND", "{ListApprovals} names the approvals."),
            Self::Escalation => (
                "ESCALATION_NOT_FOUND",
                "{ListEscalations} names the escalations.",
            ),
        };
        let message = format!("the execution has no {} `{id}`", self.collection());
        Error::new(ErrorKind::NotFound, verb, message)
            .with_reason(reason)
            .with_hint(hint)
    }
}

/// One approval or escalation of an execution. No two have the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseId {
    /// The step.
    pub step: String,
    /// The attempt of the step.
    pub attempt: u32,
    /// Which request about the attempt, from 1.
    pub ordinal: u32,
    /// The branch of the log.
    pub branch: u32,
}

impl CaseId {
    /// The id behind the last part of a name.
    ///
    /// # Errors
    /// The text is no id.
    pub fn parse(kind: Kind, verb: Verb, text: &str) -> Result<Self> {
        Self::read(text).ok_or_else(|| {
            let collection = kind.collection();
            let pattern = format!(
                "providers/{{provider}}/executions/{{execution}}/{collection}/{{step}}~{{attempt}}"
            );
            let message = format!("`name` is not of the form `{pattern}`");
            Error::new(ErrorKind::InvalidArgument, verb, message)
                .with_hint("On a later branch of the log, `~b{branch}` follows the attempt.")
        })
    }

    /// The id behind a text, if the text is one.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('~');
        let (step, attempt) = (parts.next()?, parts.next()?);
        let branch = match parts.next() {
            Some(branch) => number(branch.strip_prefix('b')?)?,
            None => 0,
        };
        if parts.next().is_some() || !is_step(step) {
            return None;
        }
        let (attempt, ordinal) = match attempt.split_once('.') {
            Some((attempt, ordinal)) => (attempt, number(ordinal).filter(|ordinal| *ordinal > 1)?),
            None => (attempt, 1),
        };
        Some(Self {
            step: step.to_owned(),
            attempt: number(attempt)?,
            ordinal,
            branch,
        })
    }
}

impl CaseId {
    /// The order of the ids of one execution in lists: the newest branch first, then by step, then the
    /// newest attempt and its newest request.
    #[must_use]
    pub fn in_list(&self, other: &Self) -> Ordering {
        let branch = other.branch.cmp(&self.branch);
        let newest = (other.attempt, other.ordinal).cmp(&(self.attempt, self.ordinal));
        branch.then_with(|| self.step.cmp(&other.step)).then(newest)
    }
}

impl fmt::Display for CaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}", self.step, self.attempt)?;
        if self.ordinal > 1 {
            write!(f, ".{}", self.ordinal)?;
        }
        match self.branch {
            0 => Ok(()),
            branch => write!(f, "~b{branch}"),
        }
    }
}

/// A number from 1, written in the only way that an id has it.
fn number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}

/// The names of steps need no encoding; what a definition does not allow names none.
fn is_step(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_STEP).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_the_round_trip() {
        for (text, ordinal, branch) in [
            ("sign-off~3", 1, 0),
            ("sign-off~3~b12", 1, 12),
            ("sign-off~3.2~b12", 2, 12),
        ] {
            let id = CaseId::read(text).unwrap();
            assert_eq!((id.attempt, id.ordinal, id.branch), (3, ordinal, branch));
            assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn every_other_text_is_rejected() {
        for wrong in [
            "",
            "s",
            "s~0",
            "s~x",
            "s~+1",
            "s~01",
            "~1",
            "s/t~1",
            "s~1~",
            "s~1~2",
            "s~1~b",
            "s~1~b0",
            "s~1.",
            "s~1.1",
            "s~1.02",
            "s~.2",
            "s~1~b01",
            "s~1~b1~b1",
        ] {
            assert_eq!(CaseId::read(wrong), None, "{wrong}");
        }
    }
}
