//! The worker that runs scripts, `tests/peers/temporal/worker.py`: one process for all namespaces.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::json;

use super::process::{Process, eventually};

/// The worker process. It ends when it is dropped.
pub(crate) struct Worker {
    process: Mutex<Process>,
    python: PathBuf,
    target: String,
    told: PathBuf,
}

impl Worker {
    pub(crate) fn start(python: &Path, target: &str, told: &Path) -> Self {
        Self {
            process: Mutex::new(run(python, target, told)),
            python: python.to_owned(),
            target: target.to_owned(),
            told: told.to_owned(),
        }
    }

    /// Starts a worker in a namespace.
    #[track_caller]
    pub(crate) fn begin(&self, namespace: &str) {
        self.begin_with(namespace, 100);
    }

    /// The same with a cache of this many workflows. Without a cache every task replays its history.
    #[track_caller]
    pub(crate) fn begin_with(&self, namespace: &str, cache: u32) {
        self.order(
            &json!({"begin": namespace, "cache": cache}),
            &format!("ready {namespace}"),
        );
    }

    /// The same with room for one activity at a time.
    #[track_caller]
    pub(crate) fn begin_busy(&self, namespace: &str) {
        self.order(
            &json!({"begin": namespace, "activities": 1}),
            &format!("ready {namespace}"),
        );
    }

    /// Stops the worker of a namespace.
    #[track_caller]
    pub(crate) fn end(&self, namespace: &str) {
        // A workflow that holds its task keeps the process from reading commands.
        let file = self.told.join(format!("end-{namespace}"));
        std::fs::write(&file, "go").expect("the folder of the instructions exists");
        self.order(&json!({"end": namespace}), &format!("ended {namespace}"));
        std::fs::remove_file(file).expect("nobody else removes it");
    }

    /// Ends the process immediately. Its workers of all namespaces die with it.
    pub(crate) fn kill(&self) {
        self.lock().kill();
    }

    /// A new process after a kill; it serves no namespace yet.
    pub(crate) fn restart(&self) {
        *self.lock() = run(&self.python, &self.target, &self.told);
    }

    #[track_caller]
    fn order(&self, command: &serde_json::Value, answer: &str) {
        let mut process = self.lock();
        let count = |process: &Process| process.lines().iter().filter(|it| *it == answer).count();
        let before = count(&process);
        let pipe = process.stdin.as_mut().expect("stdin is a pipe");
        writeln!(pipe, "{command}").expect("the worker reads commands");
        eventually(&format!("the worker answers `{answer}`"), || {
            assert!(
                process.is_alive(),
                "the worker ended: {:?}",
                process.errors()
            );
            (count(&process) > before).then_some(())
        });
    }

    fn lock(&self) -> MutexGuard<'_, Process> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(python: &Path, target: &str, told: &Path) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/temporal/worker.py");
    let mut command = Command::new(python);
    command.arg(script).arg(target).arg(told);
    let mut process = Process::start(&mut command);
    eventually("the worker reads commands", || {
        assert!(
            process.is_alive(),
            "the worker ended: {:?}",
            process.errors()
        );
        process
            .lines()
            .contains(&"listening".to_owned())
            .then_some(())
    });
    process
}
