//! The commands that show or do on the command line what the page shows or does.

use maud::{Markup, html};

use super::action::{Action, allowed};
use super::facts::Facts;
use crate::executions::{ExecutionPath, short_name};
use crate::text::lines;

/// The commands, each with a button that copies it, and the download of the history.
pub(super) fn show(path: &ExecutionPath, facts: &Facts) -> Markup {
    html! {
        section.card aria-labelledby="commands-title" {
            h2 #commands-title { "On the command line" }
            details #commands-list {
                summary { "Commands for this execution" }
                @for command in commands(path, facts) {
                    pre.command tabindex="0" data-copy="the command" { (lines(&command)) }
                }
            }
            @if facts.capabilities().history {
                p { a href={ (path.path()) "/history" } download { "Download the history" } }
            }
        }
    }
}

fn commands(path: &ExecutionPath, facts: &Facts) -> Vec<String> {
    let name = quoted(&short_name(&path.name()));
    let mut commands = vec![
        format!("stateway get {name}"),
        format!("stateway watch {name}"),
        format!("stateway explain {name}"),
    ];
    if facts.capabilities().history {
        commands.push(format!("stateway history {name}"));
    }
    let chosen = &facts.chosen.step;
    if facts.has_step_details() && !chosen.is_empty() {
        commands.push(format!("stateway get {name} --step {}", quoted(chosen)));
    }
    for action in Action::ALL {
        let command = match action {
            Action::Signal => "signal SIGNAL_NAME",
            Action::Kill => "cancel --kill",
            other => other.word(),
        };
        if allowed(action, facts) {
            let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
            let line = format!("stateway {verb} {name} {rest}");
            commands.push(line.trim_end().to_owned());
        }
    }
    commands
}

/// A text as one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |symbol: char| {
        symbol.is_ascii_alphanumeric() || matches!(symbol, '-' | '_' | '.' | '/' | ':' | '~' | '%')
    };
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_word_of_a_shell() {
        assert_eq!(quoted("builtin/order-1"), "builtin/order-1");
        assert_eq!(quoted("a b; rm -rf /"), "'a b; rm -rf /'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
