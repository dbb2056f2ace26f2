//! The `stateway` binary: reads the arguments, runs one command, ends with its exit code.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use stateway_cli::arguments::Arguments;
use stateway_cli::command;
use stateway_cli::exit::Exit;
use stateway_cli::failure::Failure;

/// Many small answers made on one thread and freed on another: a sixth more calls per second than
/// with the system's allocator, by `cargo xtask bench gateway`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(command::run(arguments)),
        Err(error) => Err(Failure::new(
            Exit::Internal,
            format!("the runtime cannot be started: {error}"),
        )),
    };
    match outcome {
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
