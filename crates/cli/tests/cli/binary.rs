//! Runs the binary: once for an answer, or as a gateway that ends with the test.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take before a test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    /// Standard output as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same, if it ended as expected.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

/// The binary, without anything of the surroundings that could change what it does.
pub(crate) fn command(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stateway"));
    command.current_dir(directory).env_clear();
    command
}

/// Runs a command to its end.
pub(crate) fn run(arguments: &[&str]) -> Answer {
    let nowhere = tempfile::tempdir().unwrap();
    finish(command(nowhere.path()).args(arguments), "")
}

/// Runs a prepared command to its end.
pub(crate) fn finish(command: &mut Command, input: &str) -> Answer {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads nothing may be gone before the input is written.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Answer {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A process that ends with the test, whatever becomes of it.
pub(crate) struct Running {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Running {
    pub(crate) fn begin(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let readers: [Box<dyn BufRead + Send>; 2] = [
            Box::new(BufReader::new(child.stdout.take().unwrap())),
            Box::new(BufReader::new(child.stderr.take().unwrap())),
        ];
        for reader in readers {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in reader.lines().map_while(Result::ok) {
                    said.lock().unwrap().push(line);
                }
            });
        }
        Self { child, said }
    }

    /// The id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Every line so far, of both outputs.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// The first line that holds a text; waits for it.
    #[track_caller]
    pub(crate) fn line(&self, text: &str) -> String {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(line) = self.said().into_iter().find(|line| line.contains(text)) {
                return line;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no line with `{text}` in {:#?}", self.said());
    }

    /// Sends a signal to this process alone.
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Waits for the end; the exit code.
    #[track_caller]
    pub(crate) fn code(&mut self) -> i32 {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("still running: {:#?}", self.said());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The scripted provider, which nearly every test here is about.
pub(crate) const MEMORY: &str = "[providers.memory]\nkind = \"memory\"\n";

/// A gateway on a free loopback port.
pub(crate) struct Gateway {
    pub(crate) process: Running,
    pub(crate) url: String,
    directory: tempfile::TempDir,
}

impl Gateway {
    /// With one provider, `memory`, and otherwise the defaults.
    pub(crate) fn new() -> Self {
        Self::with("", &[])
    }

    /// With a configuration file and flags; `memory` is the provider where the file names none.
    pub(crate) fn with(config: &str, flags: &[&str]) -> Self {
        if config.contains("[providers.") {
            Self::just(config, flags)
        } else {
            Self::just(&format!("{config}\n{MEMORY}"), flags)
        }
    }

    /// With a configuration file as it is.
    pub(crate) fn just(config: &str, flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("stateway.toml"), config).unwrap();
        let mut command = command(directory.path());
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(flags);
        let process = Running::begin(&mut command);
        let ready = process.line("stateway is listening on http://");
        let url = ready
            .split_whitespace()
            .find(|word| word.starts_with("http://"))
            .unwrap();
        Self {
            url: url.to_owned(),
            process,
            directory,
        }
    }

    /// A file in the directory where its commands run.
    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// The binary, told to talk to this gateway.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(self.directory.path());
        command.env("STATEWAY_SERVER", &self.url).args(arguments);
        command
    }

    /// Runs a command against this gateway.
    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        finish(&mut self.command(arguments), "")
    }

    /// Starts an execution that follows this script, under this id.
    #[track_caller]
    pub(crate) fn start(&self, id: &str, script: &str) {
        self.run(&["start", "memory/script", "--id", id, "--input", script])
            .exits(0);
    }
}

/// An address at which connections are taken and nothing is ever answered.
pub(crate) fn silent() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}
