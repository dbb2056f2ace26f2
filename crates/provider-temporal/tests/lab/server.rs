//! Starts, kills and restarts the development server of Temporal, on free ports and with a database file.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::http;
use super::process::{Process, eventually, free_port};

/// How often a server is started again because another process took one of its ports.
const TRIES: usize = 3;

/// Settings of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settings {
    /// Workflows can be paused, rules can pause activities.
    Tests,
    /// As a server comes, but it deletes within seconds: by default it keeps a deleted run for half a minute or more.
    Default,
    /// A history is long after a hundred events.
    ShortHistories,
}

impl Settings {
    fn values(self) -> &'static [&'static str] {
        match self {
            Self::Tests => &[
                // Off by default: pausing workflows, and rules that pause activities.
                "frontend.WorkflowPauseEnabled=true",
                "frontend.workflowRulesAPIsEnabled=true",
                // By default a failing workflow task is listed after 53 seconds, and each task takes 50 ms.
                "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=1",
                "history.transferProcessorMaxPollRPS=100",
            ],
            Self::ShortHistories => &[
                "limit.historyCount.suggestContinueAsNew=100",
                "history.transferProcessorMaxPollRPS=100",
            ],
            Self::Default => &[
                r#"history.transferProcessorUpdateAckInterval="1s""#,
                r#"history.visibilityProcessorUpdateAckInterval="1s""#,
            ],
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    grpc: u16,
    http: u16,
    metrics: u16,
}

/// A development server. It ends when it is dropped.
pub(crate) struct Server {
    process: Process,
    binary: PathBuf,
    folder: PathBuf,
    namespaces: Vec<String>,
    settings: Settings,
    ports: Ports,
}

impl Server {
    pub(crate) fn start(
        binary: &Path,
        folder: &Path,
        namespaces: &[String],
        settings: Settings,
    ) -> Self {
        for _ in 0..TRIES {
            let ports = Ports {
                grpc: free_port(),
                http: free_port(),
                metrics: free_port(),
            };
            let process = run(binary, folder, namespaces, (settings, ports));
            let mut server = Self {
                process,
                binary: binary.to_owned(),
                folder: folder.to_owned(),
                namespaces: namespaces.to_vec(),
                settings,
                ports,
            };
            if server.is_ready() {
                return server;
            }
            println!("the server ended early: {:?}", server.process.errors());
        }
        panic!("the Temporal server did not start in {TRIES} tries");
    }

    /// The address for the provider's configuration.
    pub(crate) fn address(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.grpc)
    }

    /// The address as SDKs take it.
    pub(crate) fn target(&self) -> String {
        format!("127.0.0.1:{}", self.ports.grpc)
    }

    pub(crate) fn http_port(&self) -> u16 {
        self.ports.http
    }

    /// Ends it immediately, without a chance to clean up.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// The same server again, on the database that it left.
    pub(crate) fn restart(&mut self) {
        self.process.kill();
        let how = (self.settings, self.ports);
        self.process = run(&self.binary, &self.folder, &self.namespaces, how);
        let ready = self.is_ready();
        assert!(ready, "the server ended: {:?}", self.process.errors());
    }

    /// Waits until the server answers, or has ended.
    fn is_ready(&mut self) -> bool {
        let last = self.namespaces.last().map_or("default", String::as_str);
        let path = format!("/api/v1/namespaces/{last}");
        let port = self.ports.http;
        let process = &mut self.process;
        eventually("the Temporal server answers or ends", || {
            if !process.is_alive() {
                return Some(false);
            }
            let (status, _) = http::request(port, "GET", &path, &Value::Null).ok()?;
            (status == 200).then_some(true)
        })
    }
}

fn run(
    binary: &Path,
    folder: &Path,
    namespaces: &[String],
    (settings, ports): (Settings, Ports),
) -> Process {
    let mut command = Command::new(binary);
    command
        .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1"])
        .args(["--log-level", "error"])
        .arg("--port")
        .arg(ports.grpc.to_string())
        .arg("--http-port")
        .arg(ports.http.to_string())
        .arg("--metrics-port")
        .arg(ports.metrics.to_string())
        .arg("--db-filename")
        .arg(folder.join("temporal.db"))
        .args(["--sqlite-pragma", "journal_mode=wal"])
        .args(["--sqlite-pragma", "synchronous=normal"])
        .args(["--search-attribute", "team=Keyword"])
        // Its command line reads a configuration file of the user.
        .env("HOME", folder)
        .env("XDG_CONFIG_HOME", folder);
    for value in settings.values() {
        command.args(["--dynamic-config-value", value]);
    }
    for namespace in namespaces {
        command.arg("--namespace").arg(namespace);
    }
    Process::start(&mut command)
}
