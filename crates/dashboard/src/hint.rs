//! Hints in terms of pages and buttons: what the gateway refers to as an action
//! (`stateway_model::hint`) is named here as a person finds it on the dashboard.

use stateway_phrases::hint::{self, Action};

/// The hint with pages and buttons in place of actions.
pub(crate) fn in_pages(advice: &str) -> String {
    hint::worded(advice, |action, name| match name {
        Some(name) => format!("{} (`{name}`)", place(action)),
        None => place(action).to_owned(),
    })
}

const fn place(action: Action) -> &'static str {
    match action {
        Action::ApplyDefinition => "`stateway definitions apply`",
        Action::CancelExecution => "the button “Cancel”",
        Action::KillExecution => "the button “Kill”",
        Action::GetApproval
        | Action::GetEscalation
        | Action::ListApprovals
        | Action::ListEscalations => "the page Inbox",
        Action::GetDefinition | Action::ListDefinitions => "the page Definitions",
        Action::GetExecution => "the page of the execution",
        Action::GetProvider => "the page Providers",
        Action::ListBranches | Action::ListEvents => "the history on the page of the execution",
        Action::ListExecutions => "the page Executions",
        Action::ReadPayload => "the download on the page of the execution",
        Action::RetryFrom => "the button “Retry from failure”",
        Action::RetryNow => "the button “Retry now”",
        Action::SendName | Action::SendRoles => "“Acting as” at the top of the page",
        // The dashboard has no page for these.
        Action::RecoverExecution => "`stateway recover`",
        Action::ValidateDefinition => "`stateway definitions validate`",
        Action::VerifyExecution => "`stateway verify`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_become_places_on_the_dashboard() {
        assert_eq!(
            in_pages("Start a new execution, or use {RetryFrom}."),
            "Start a new execution, or use the button “Retry from failure”."
        );
    }
}
