//! `…/approvals/{step}~{attempt}` and `…/escalations/{step}`.

use stateway_model::ExecutionName;
use tonic::Status;

use crate::status::Refusal;

/// One request of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApprovalName {
    pub(super) execution: ExecutionName,
    pub(super) step: String,
    pub(super) attempt: u32,
}

/// One step that a person has to decide about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EscalationName {
    pub(super) execution: ExecutionName,
    pub(super) step: String,
}

impl ApprovalName {
    pub(super) fn parse(text: &str) -> Result<Self, Status> {
        let wrong = || {
            let pattern = "providers/{provider}/executions/{execution}/approvals/{step}~{attempt}";
            Refusal::invalid("name", format!("`name` is not of the form `{pattern}`"))
        };
        let (execution, approval) = text.rsplit_once("/approvals/").ok_or_else(wrong)?;
        let (step, attempt) = approval.rsplit_once('~').ok_or_else(wrong)?;
        let attempt = attempt.parse().ok().filter(|attempt| *attempt > 0);
        let attempt = attempt.filter(|_| is_step(step)).ok_or_else(wrong)?;
        Ok(Self {
            execution: execution.parse().map_err(|_| wrong())?,
            step: step.to_owned(),
            attempt,
        })
    }

    pub(super) fn of(execution: &ExecutionName, step: &str, attempt: u32) -> String {
        format!("{execution}/approvals/{step}~{attempt}")
    }
}

impl EscalationName {
    pub(super) fn parse(text: &str) -> Result<Self, Status> {
        let wrong = || {
            let pattern = "providers/{provider}/executions/{execution}/escalations/{step}";
            Refusal::invalid("name", format!("`name` is not of the form `{pattern}`"))
        };
        let (execution, step) = text.rsplit_once("/escalations/").ok_or_else(wrong)?;
        if !is_step(step) {
            return Err(wrong().into());
        }
        Ok(Self {
            execution: execution.parse().map_err(|_| wrong())?,
            step: step.to_owned(),
        })
    }

    pub(super) fn of(execution: &ExecutionName, step: &str) -> String {
        format!("{execution}/escalations/{step}")
    }
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
    fn both_names_survive_the_round_trip() {
        let text = "providers/p/executions/Order%2F17/approvals/sign-off~3";
        let name = ApprovalName::parse(text).unwrap();
        assert_eq!((name.step.as_str(), name.attempt), ("sign-off", 3));
        assert_eq!(ApprovalName::of(&name.execution, &name.step, 3), text);
        let text = "providers/p/executions/a/escalations/ship";
        let name = EscalationName::parse(text).unwrap();
        assert_eq!(EscalationName::of(&name.execution, &name.step), text);
    }

    #[test]
    fn what_names_neither_is_refused() {
        for wrong in [
            "",
            "providers/p/executions/a",
            "providers/p/executions/a/approvals/",
            "providers/p/executions/a/approvals/s",
            "providers/p/executions/a/approvals/s~0",
            "providers/p/executions/a/approvals/s~x",
            "providers/p/executions/a/approvals/~1",
            "providers/p/executions/a/approvals/s/t~1",
            "providers/p/approvals/s~1",
        ] {
            assert!(ApprovalName::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "providers/p/executions/a/escalations/",
            "a/escalations/s",
        ] {
            assert!(EscalationName::parse(wrong).is_err(), "{wrong}");
        }
    }
}
