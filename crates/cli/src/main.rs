//! The `stateway` binary: reads the arguments, runs one command, ends with its exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use stateway_cli::arguments::Arguments;
use stateway_cli::command;

/// Many small answers made on one thread and freed on another: a sixth more calls per second than
/// with the system's allocator, by `cargo xtask bench gateway`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
