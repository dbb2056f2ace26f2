//! A gateway with the built-in engine in a directory of its own.

use crate::binary::{Answer, Gateway, PATIENCE, Running, finish};

const CONFIG: &str =
    "[providers.builtin]\nkind = \"builtin\"\npath = \"store.db\"\nbackups = \".\"\n";

/// A gateway with one provider, `builtin`, that may write its backups beside its store.
pub(crate) fn gateway() -> Gateway {
    Gateway::just(CONFIG, &[])
}

/// Applies a definition that is given on standard input.
#[track_caller]
pub(crate) fn apply(gateway: &Gateway, source: &str) -> Answer {
    let mut command = gateway.command(&["definitions", "apply", "-", "-o", "json"]);
    finish(&mut command, source).exits(0)
}

/// Starts an execution in someone's name.
#[track_caller]
pub(crate) fn start(gateway: &Gateway, definition: &str, id: &str, by: &str) {
    let definition = format!("definitions/{definition}");
    gateway
        .run(&[
            "start",
            &definition,
            "--id",
            id,
            "--as",
            by,
            "--input",
            "{}",
        ])
        .exits(0);
}

/// Runs a program for every task of a role, until it is dropped.
pub(crate) fn worker(gateway: &Gateway, role: &str, program: &str) -> Running {
    Running::begin(&mut gateway.command(&["worker", "--role", role, "--exec", program]))
}

/// Asks again until the answer is as wanted.
#[track_caller]
pub(crate) fn until(
    gateway: &Gateway,
    arguments: &[&str],
    wanted: impl Fn(&Answer) -> bool,
) -> Answer {
    let begin = std::time::Instant::now();
    loop {
        let answer = gateway.run(arguments);
        if wanted(&answer) {
            return answer;
        }
        assert!(begin.elapsed() < PATIENCE, "{answer:#?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
