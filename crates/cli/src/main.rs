//! The `stateway` binary: reads the arguments, runs one command, ends with its exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use stateway_allocator as _;
use stateway_cli::arguments::Arguments;
use stateway_cli::command;

fn main() -> ExitCode {
    match command::run_to_end(Arguments::parse()) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !failure.message.is_empty() {
                // If standard error cannot be written, the message is lost.
                let _ = writeln!(std::io::stderr(), "{}", failure.lines());
            }
            failure.exit.into()
        }
    }
}
