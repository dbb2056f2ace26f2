//! The names of what waits for a person: `…/approvals/{approval}` and `…/escalations/{escalation}`. The
//! provider chooses the last part.

use std::fmt;

use stateway_model::{ExecutionName, ProviderId};
use stateway_provider_api::InboxId;
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
    pub(super) provider: ProviderId,
    pub(super) id: InboxId,
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
        if last.is_empty() || last.contains('/') {
            return None;
        }
        let execution: ExecutionName = execution.parse().ok()?;
        Some(Self {
            kind,
            provider: execution.provider,
            id: InboxId {
                execution: execution.id,
                id: last.to_owned(),
            },
        })
    }
}

impl fmt::Display for InboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let execution = ExecutionName::new(self.provider.clone(), self.id.execution.clone());
        write!(f, "{execution}/{}/{}", self.kind.collection(), self.id.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_round_trip() {
        for (kind, text) in [
            (
                Kind::Approval,
                "providers/p/executions/Order%2F17/approvals/sign-off~3",
            ),
            (
                Kind::Escalation,
                "providers/p/executions/a/escalations/ship~3~b1",
            ),
        ] {
            let name = InboxName::parse(kind, text).unwrap();
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn every_other_text_is_rejected() {
        for wrong in [
            "",
            "providers/p/executions/a",
            "providers/p/approvals/s~1",
            "providers/p/executions/a/approvals/",
            "providers/p/executions/a/approvals/s/t",
            "providers/p/executions/a/escalations/s~1",
        ] {
            assert!(InboxName::parse(Kind::Approval, wrong).is_err(), "{wrong}");
        }
    }
}
