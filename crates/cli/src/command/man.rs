//! `stateway man`: the manual, generated from the texts of `--help`.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::arguments::Arguments;
use crate::context::{print, print_message};
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Prints or writes manual pages.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stateway man | man -l -
  stateway man ~/.local/share/man/man1
  man stateway-start

With a folder, the command writes one page for the program and one for each command. Without a \
folder, it prints the page of the program.")]
pub struct Man {
    /// Folder to write the pages to; it is created if it does not exist
    folder: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(self) -> Outcome {
        let internal = |error| {
            Failure::new(
                Exit::Internal,
                format!("the manual cannot be rendered: {error}"),
            )
        };
        let Some(folder) = self.folder else {
            let mut page = Vec::new();
            let command = Arguments::command().disable_help_subcommand(true);
            let made = clap_mangen::Man::new(command).render(&mut page);
            made.map_err(|error| internal(error.to_string()))?;
            let page = String::from_utf8(page).map_err(|error| internal(error.to_string()))?;
            print(&page)?;
            return Ok(Exit::Ok);
        };
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| clap_mangen::generate_to(Arguments::command(), &folder));
        written.map_err(|error| {
            let message = format!("{} cannot be written: {error}", folder.display());
            Failure::new(Exit::Refused, message).hint("Use a folder that you can write to.")
        })?;
        print_message(&format!("the pages are in {}", folder.display()));
        Ok(Exit::Ok)
    }
}
