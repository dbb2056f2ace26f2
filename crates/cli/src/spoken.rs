//! Hints in terms of commands. The gateway names the methods of its API in hints, for every
//! client; this module replaces them by the commands of this program.

/// Calls and the commands that make them.
const COMMANDS: [(&str, &str); 30] = [
    ("AdoptDefinition", "definitions adopt"),
    ("ApplyDefinition", "definitions apply"),
    ("CancelExecution", "cancel"),
    ("DecideApproval", "approvals grant"),
    ("DeleteDefinition", "definitions delete"),
    ("DisableTrigger", "triggers disable"),
    ("EnableTrigger", "triggers enable"),
    ("ExplainExecution", "explain"),
    ("GetApproval", "approvals get"),
    ("GetDefinition", "definitions get"),
    ("GetEscalation", "escalations get"),
    ("GetExecution", "get"),
    ("GetProvider", "providers get"),
    ("GetQueue", "queue"),
    ("ListApprovals", "approvals list"),
    ("ListDefinitions", "definitions list"),
    ("ListEscalations", "escalations list"),
    ("ListEvents", "history"),
    ("ListExecutions", "list"),
    ("ListProviders", "providers list"),
    ("PauseExecution", "pause"),
    ("PurgeExecutions", "admin purge"),
    ("ResolveEscalation", "escalations resume"),
    ("ResumeExecution", "resume"),
    ("RetryFrom", "retry-from"),
    ("RetryNow", "retry-now"),
    ("SignalExecution", "signal"),
    ("ValidateDefinition", "definitions validate"),
    ("WatchApprovals", "approvals watch"),
    ("WatchExecutions", "watch"),
];

/// The hint with commands in place of calls.
#[must_use]
pub fn spoken(hint: &str) -> String {
    let mut said = String::with_capacity(hint.len());
    for piece in hint.split_inclusive(|symbol: char| !symbol.is_ascii_alphanumeric()) {
        let word = piece.trim_end_matches(|symbol: char| !symbol.is_ascii_alphanumeric());
        let command = COMMANDS.iter().find(|(call, _)| *call == word);
        match command {
            Some((_, command)) => {
                let after = &piece[word.len()..];
                // One that stands in quotes already keeps them.
                match said.ends_with('`') {
                    true => said.push_str(&format!("stateway {command}{after}")),
                    false => said.push_str(&format!("`stateway {command}`{after}")),
                }
            }
            None => said.push_str(piece),
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn calls_become_commands_and_other_words_stay() {
        assert_eq!(
            spoken("GetProvider lists the capabilities of each provider."),
            "`stateway providers get` lists the capabilities of each provider."
        );
        assert_eq!(
            spoken("The engine retries automatically; RetryNow retries immediately."),
            "The engine retries automatically; `stateway retry-now` retries immediately."
        );
        assert_eq!(spoken("Use `ListEvents`."), "Use `stateway history`.");
        assert_eq!(spoken("RetryNower, a\u{e9}b"), "RetryNower, a\u{e9}b");
    }

    #[test]
    fn every_command_is_one() {
        let known = crate::arguments::Arguments::command();
        for (call, command) in COMMANDS {
            let mut at = &known;
            for word in command.split(' ') {
                at = at.find_subcommand(word).unwrap_or_else(|| panic!("{call}"));
            }
        }
    }
}
