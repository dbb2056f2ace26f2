//! `stateway completions`: so that the shell knows the commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::context::print;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Prints completions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway completions bash > ~/.local/share/bash-completion/completions/stateway
  stateway completions zsh > ~/.zfunc/_stateway
  stateway completions fish > ~/.config/fish/completions/stateway.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut Arguments::command(),
            "stateway",
            &mut script,
        );
        let script = String::from_utf8(script)
            .map_err(|error| Failure::new(Exit::Internal, format!("completions: {error}")))?;
        print(&script)?;
        Ok(Exit::Ok)
    }
}
