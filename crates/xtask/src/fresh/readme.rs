//! The commands of README.md, read from its first shell block. Pure.

/// One command, as README.md writes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A server: it is up when it answers, and then it is stopped.
    Serve(String),
    /// A command that ends by itself.
    Run(String),
}

impl Step {
    pub(super) fn command(&self) -> &str {
        match self {
            Self::Serve(command) | Self::Run(command) => command,
        }
    }
}

/// The commands of the first fenced `sh` block, without comments.
///
/// # Errors
/// The block is absent, or it lacks the command that serves or the one that tests.
pub(super) fn steps(readme: &str) -> Result<Vec<Step>, String> {
    let block = readme
        .lines()
        .skip_while(|line| *line != "```sh")
        .skip(1)
        .take_while(|line| *line != "```");
    let steps: Vec<Step> = block.filter_map(step).collect();
    let serves = steps.iter().any(|step| matches!(step, Step::Serve(_)));
    let tests = steps
        .iter()
        .any(|step| step.command().ends_with("xtask test"));
    if serves && tests {
        Ok(steps)
    } else {
        Err(format!(
            "the first `sh` block of README.md must hold `… serve` and `… xtask test`, but holds {steps:?}"
        ))
    }
}

fn step(line: &str) -> Option<Step> {
    let command = line.split(" #").next().unwrap_or_default().trim();
    if command.is_empty() || command.starts_with('#') {
        None
    } else if command.ends_with(" serve") {
        Some(Step::Serve(command.to_owned()))
    } else {
        Some(Step::Run(command.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_of_this_repository_has_the_two_commands() {
        let readme = std::fs::read_to_string(crate::run::root().join("README.md"));
        let expected = vec![
            Step::Serve("cargo run --release -- serve".to_owned()),
            Step::Run("cargo xtask test".to_owned()),
        ];
        assert_eq!(steps(&readme.expect("README.md")), Ok(expected));
    }

    #[test]
    fn only_the_first_shell_block_counts_and_comments_are_left_out() {
        let readme = "# Title\n\n```console\n$ ls\n```\n\n```sh\n# first\ncargo run -- serve   # comes up\n\n\
                      cargo xtask test # all\n```\n\n```sh\nrm everything\n```\n";
        let expected = vec![
            Step::Serve("cargo run -- serve".to_owned()),
            Step::Run("cargo xtask test".to_owned()),
        ];
        assert_eq!(steps(readme), Ok(expected));
    }

    #[test]
    fn a_readme_without_the_commands_is_refused() {
        for readme in [
            "",
            "no block",
            "```sh\ncargo xtask test\n```",
            "```sh\ncargo run -- serve\n```",
        ] {
            let refused = steps(readme).expect_err("a command is missing");
            assert!(refused.contains("README.md must hold"), "{refused}");
        }
    }
}
