//! The names of what waits for a person: `…/approvals/{step}~{attempt}` and
//! `…/escalations/{step}~{attempt}`, with `~b{branch}` behind them on every branch but the first.
//!
//! Several policy rules may ask about one attempt, one after the other; from the second request on, the
//! number of the request follows the attempt: `…/approvals/{step}~{attempt}.2`.

use std::fmt;

use stateway_model::ExecutionName;
use tonic::Status;

use crate::status::Refusal;

/// What a person decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Approval,
    Escalation,
}

impl Kind {
    pub(super) const fn collection(self) -> &'static str {
        match self {
            Self::Approval => "approvals",
            Self::Escalation => "escalations",
        }
    }
}

/// One approval or escalation. No two have the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InboxName {
    pub(super) kind: Kind,
    pub(super) execution: ExecutionName,
    pub(super) step: String,
    pub(super) attempt: u32,
    /// Which request about the attempt, from 1.
    pub(super) ordinal: u32,
    pub(super) branch: u32,
}

impl InboxName {
    pub(super) fn parse(kind: Kind, text: &str) -> Result<Self, Status> {
        Self::read(kind, text).ok_or_else(|| {
            let pattern = format!(
                "providers/{{provider}}/executions/{{execution}}/{}/{{step}}~{{attempt}}",
                kind.collection()
            );
            let message = format!("`name` is not of the form `{pattern}`");
            Refusal::invalid("name", message)
                .hint("On a later branch of the log, `~b{branch}` follows the attempt.")
                .into()
        })
    }

    fn read(kind: Kind, text: &str) -> Option<Self> {
        let separator = format!("/{}/", kind.collection());
        let (execution, last) = text.rsplit_once(&separator)?;
        let mut parts = last.split('~');
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
            kind,
            execution: execution.parse().ok()?,
            step: step.to_owned(),
            attempt: number(attempt)?,
            ordinal,
            branch,
        })
    }
}

impl fmt::Display for InboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let collection = self.kind.collection();
        let (step, attempt) = (&self.step, self.attempt);
        write!(f, "{}/{collection}/{step}~{attempt}", self.execution)?;
        if self.ordinal > 1 {
            write!(f, ".{}", self.ordinal)?;
        }
        match self.branch {
            0 => Ok(()),
            branch => write!(f, "~b{branch}"),
        }
    }
}

/// A number from 1, written in the only way that a name has it.
fn number(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number > 0 && number.to_string() == text).then_some(number)
}

/// The names of steps need no encoding; what a definition does not allow names none.
fn is_step(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=stateway_definition::limits::MAX_NAME_LENGTH).contains(&text.len())
        && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_round_trip() {
        for (kind, text, branch) in [
            (
                Kind::Approval,
                "providers/p/executions/Order%2F17/approvals/sign-off~3",
                0,
            ),
            (
                Kind::Approval,
                "providers/p/executions/a/approvals/sign-off~3~b12",
                12,
            ),
            (
                Kind::Approval,
                "providers/p/executions/a/approvals/sign-off~3.2~b12",
                12,
            ),
            (
                Kind::Escalation,
                "providers/p/executions/a/escalations/ship~3",
                0,
            ),
            (
                Kind::Escalation,
                "providers/p/executions/a/escalations/ship~3~b1",
                1,
            ),
        ] {
            let name = InboxName::parse(kind, text).unwrap();
            assert_eq!((name.attempt, name.branch), (3, branch));
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn every_other_text_is_rejected() {
        for last in [
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
            for kind in [Kind::Approval, Kind::Escalation] {
                let text = format!("providers/p/executions/a/{}/{last}", kind.collection());
                assert!(InboxName::parse(kind, &text).is_err(), "{text}");
            }
        }
        for wrong in ["", "providers/p/executions/a", "providers/p/approvals/s~1"] {
            assert!(InboxName::parse(Kind::Approval, wrong).is_err(), "{wrong}");
        }
        let approval = "providers/p/executions/a/approvals/s~1";
        assert!(InboxName::parse(Kind::Escalation, approval).is_err());
    }
}
