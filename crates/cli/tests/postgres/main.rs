//! Gateways of their own processes on one real PostgreSQL server: one is active, the others stand by.

#![allow(clippy::unwrap_used)]
// Helpers of the tests on Restate are not all used here.
#![allow(dead_code)]

#[path = "../restate/process.rs"]
mod process;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use process::{Running, eventually, free_port};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use stateway_postgres_peer::{PostgresPeer, VARIABLE, programs};
use tempfile::TempDir;

const GATE: &str = "name: gate\nsteps: [{name: a, signal: go}]\n";

/// A server, and the folder of the configurations of gateways.
struct Lab {
    server: PostgresPeer,
    folder: TempDir,
}

/// A gateway on the store.
struct Gateway {
    process: Running,
    url: String,
}

impl Lab {
    fn new() -> Self {
        let programs = programs(VARIABLE).unwrap_or_else(|error| panic!("{error}"));
        let lab = Self {
            server: PostgresPeer::start(&programs),
            folder: tempfile::tempdir().unwrap(),
        };
        std::fs::write(lab.folder.path().join("gate.yaml"), GATE).unwrap();
        lab
    }

    fn gateway(&self) -> Gateway {
        let port = free_port();
        let config = self.folder.path().join(format!("{port}.toml"));
        let store = self.server.url();
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:{port}\"\n[providers.main]\nkind = \"builtin\"\nstore = \"{store}\"\nstore_lease = \"2s\"\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut serve = Command::new(binary());
        serve.arg("serve").arg("--config").arg(config);
        let mut process = Running::begin(&mut serve);
        eventually("the gateway listens", || {
            assert!(process.is_alive(), "{:?}", process.talked());
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        Gateway {
            process,
            url: format!("http://127.0.0.1:{port}"),
        }
    }
}

fn binary() -> PathBuf {
    std::env::var_os("STATEWAY_BINARY").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_stateway")),
        PathBuf::from,
    )
}

impl Gateway {
    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// What a command prints, or its error.
    fn run(&self, arguments: &[&str]) -> Result<Value, Value> {
        let mut command = Command::new(binary());
        command
            .args(["--server", &self.url, "-o", "json"])
            .args(arguments);
        let output = command.output().unwrap();
        let read = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        };
        if output.status.success() {
            Ok(read(&output.stdout))
        } else {
            Err(read(&output.stderr))
        }
    }

    fn start(&self, id: &str) -> Result<Value, Value> {
        self.run(&["start", "main/gate", "--id", id])
    }

    fn starts_in_time(&self, id: &str) {
        eventually("an execution starts", || self.start(id).ok());
    }

    fn ids(&self) -> Vec<String> {
        let listed = self.run(&["list", "--all"]).unwrap();
        let listed = listed["executions"].as_array().unwrap().clone();
        let name = |it: &Value| {
            it["name"]
                .as_str()
                .unwrap()
                .rsplit('/')
                .next()
                .unwrap()
                .to_owned()
        };
        let mut ids: Vec<_> = listed.iter().map(name).collect();
        ids.sort();
        ids
    }
}

fn prepared(lab: &Lab, gateway: &Gateway) {
    let file = lab.folder.path().join("gate.yaml");
    let applied = gateway.run(&["definitions", "apply", file.to_str().unwrap()]);
    applied.unwrap();
}

#[test]
fn after_a_kill_another_gateway_continues_with_everything_that_was_acknowledged() {
    let lab = Lab::new();
    let mut first = lab.gateway();
    prepared(&lab, &first);
    let second = lab.gateway();
    let refused = second.start("refused").unwrap_err().to_string();
    assert!(refused.contains("STORE_STANDBY"), "{refused}");
    let kept: Vec<String> = (0..10).map(|number| format!("kept-{number}")).collect();
    for id in &kept {
        first.start(id).unwrap();
    }
    let killed = Instant::now();
    first.process.kill();
    second.starts_in_time("later");
    println!(
        "summary: taken over after {:?} with a lease of 2s",
        killed.elapsed()
    );
    let mut expected = kept;
    expected.push("later".to_owned());
    assert_eq!(second.ids(), expected);
}

#[test]
fn a_gateway_that_was_paused_past_its_lease_stands_by_when_it_wakes() {
    let lab = Lab::new();
    let first = lab.gateway();
    prepared(&lab, &first);
    first.start("kept").unwrap();
    let second = lab.gateway();
    first.signal(Signal::STOP);
    second.starts_in_time("later");
    first.signal(Signal::CONT);
    let refused = first.start("zombie").unwrap_err().to_string();
    assert!(refused.contains("STORE_"), "{refused}");
    eventually("the first gateway stands by", || {
        let refused = first.run(&["get", "main/kept"]).err()?;
        refused.to_string().contains("STORE_STANDBY").then_some(())
    });
    assert_eq!(second.ids(), ["kept", "later"]);
}

#[test]
fn a_gateway_that_is_stopped_hands_the_store_over_without_waiting_for_the_lease() {
    let lab = Lab::new();
    let first = lab.gateway();
    prepared(&lab, &first);
    let second = lab.gateway();
    let stopped = Instant::now();
    first.signal(Signal::TERM);
    second.starts_in_time("later");
    let took = stopped.elapsed();
    println!("summary: handed over after {took:?} with a lease of 2s");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(second.ids(), ["later"]);
}
