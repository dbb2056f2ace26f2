//! Hints in terms of commands: what the gateway refers to as an action (`stateway_model::hint`) is
//! named here as a command or an option of this program.

use stateway_model::hint::{self, Action};

/// The hint with commands in place of actions.
#[must_use]
pub fn in_commands(advice: &str) -> String {
    hint::worded(advice, |action, name| {
        let command = command(action);
        match name {
            Some(name) if takes_name(action) => {
                format!("`{}`", command.replace("NAME", name))
            }
            _ => format!("`{command}`"),
        }
    })
}

/// The command line that does what the action does, with `NAME` for a resource.
const fn command(action: Action) -> &'static str {
    match action {
        Action::ApplyDefinition => "stateway definitions apply FILE",
        Action::CancelExecution => "stateway cancel NAME",
        Action::KillExecution => "stateway cancel NAME --kill",
        Action::GetApproval => "stateway approvals get NAME",
        Action::GetDefinition => "stateway definitions get NAME",
        Action::GetEscalation => "stateway escalations get NAME",
        Action::GetExecution => "stateway get NAME",
        Action::GetProvider => "stateway providers get NAME",
        Action::ListApprovals => "stateway approvals list",
        Action::ListBranches => "stateway branches NAME",
        Action::ListDefinitions => "stateway definitions list",
        Action::ListEscalations => "stateway escalations list",
        Action::ListEvents => "stateway history NAME",
        Action::ListExecutions => "stateway list",
        Action::ReadPayload => "stateway get NAME --payload input|output",
        Action::RecoverExecution => "stateway recover NAME",
        Action::RetryFrom => "stateway retry-from NAME",
        Action::RetryNow => "stateway retry-now NAME",
        Action::ValidateDefinition => "stateway definitions validate FILE",
        Action::VerifyExecution => "stateway verify NAME",
        Action::SendName => "--as NAME",
        Action::SendRoles => "--role ROLE",
    }
}

fn takes_name(action: Action) -> bool {
    command(action).contains("NAME")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn actions_become_commands_and_other_words_stay() {
        assert_eq!(
            in_commands("{GetProvider} lists the capabilities of each provider."),
            "`stateway providers get NAME` lists the capabilities of each provider."
        );
        assert_eq!(
            in_commands("{GetDefinition order-saga} lists the revisions."),
            "`stateway definitions get order-saga` lists the revisions."
        );
        assert_eq!(in_commands("RetryNow, {x}"), "RetryNow, {x}");
    }

    #[test]
    fn every_command_and_option_exists() {
        let known = crate::arguments::Arguments::command();
        for action in Action::ALL {
            let mut at = &known;
            for word in command(*action).split(' ') {
                if let Some(option) = word.strip_prefix("--") {
                    let has = |from: &clap::Command| {
                        from.get_arguments()
                            .any(|arg| arg.get_long() == Some(option))
                    };
                    assert!(has(at) || has(&known), "{action:?}: {word}");
                } else if word.chars().all(|letter| letter.is_ascii_lowercase())
                    && word != "stateway"
                {
                    at = at
                        .find_subcommand(word)
                        .unwrap_or_else(|| panic!("{action:?}: {word}"));
                }
            }
        }
    }
}
