//! Gateways of their own processes on one real PostgreSQL server: one is active, the others stand by.

#![allow(clippy::unwrap_used)]
// Helpers of the tests on Restate are not all used here.
#![allow(dead_code)]

mod peers;
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
    port: u16,
    url: String,
    /// What commands need beside the address.
    variables: Vec<(&'static str, String)>,
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
        self.with_lease("2s")
    }

    fn with_lease(&self, lease: &str) -> Gateway {
        let port = free_port();
        self.begin(port, "", &format!("store_lease = \"{lease}\"\n"))
    }

    /// A gateway that other gateways reach.
    fn reachable(&self) -> Gateway {
        let port = free_port();
        let address =
            format!("store_lease = \"2s\"\nstore_address = \"http://127.0.0.1:{port}\"\n");
        self.begin(port, "", &address)
    }

    /// A gateway with these lines of its sections and of its provider.
    fn begin(&self, port: u16, sections: &str, provider: &str) -> Gateway {
        let config = self.folder.path().join(format!("{port}.toml"));
        let store = self.server.url();
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:{port}\"\n{sections}[providers.main]\nkind = \"builtin\"\nstore = \"{store}\"\n{provider}"
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
            port,
            url: format!("http://127.0.0.1:{port}"),
            variables: Vec::new(),
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

    /// A command that calls the gateway.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(["--server", &self.url]).args(arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What a command prints, or its error.
    fn run(&self, arguments: &[&str]) -> Result<Value, Value> {
        let output = self
            .command(arguments)
            .args(["-o", "json"])
            .output()
            .unwrap();
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
fn calls_at_a_gateway_that_stands_by_do_not_delay_those_after_a_take_over() {
    let lab = Lab::new();
    let first = lab.gateway();
    prepared(&lab, &first);
    first.start("kept").unwrap();
    let second = lab.gateway();
    for _ in 0..12 {
        let refused = second.start("other").unwrap_err().to_string();
        assert!(refused.contains("STORE_STANDBY"), "{refused}");
    }
    first.signal(Signal::TERM);
    second.starts_in_time("later");
    assert_eq!(second.ids(), ["kept", "later"]);
}

#[test]
fn a_gateway_that_wakes_after_its_lease_never_shows_what_another_one_has_changed() {
    let lab = Lab::new();
    let first = lab.gateway();
    prepared(&lab, &first);
    first.start("kept").unwrap();
    first.run(&["cancel", "main/kept"]).unwrap();
    // It is in memory from now on.
    let cancelled = eventually("the execution is cancelled", || {
        let shown = first.run(&["get", "main/kept"]).unwrap();
        (shown["sub_state"] == "failed").then_some(shown)
    });
    let second = lab.gateway();
    first.signal(Signal::STOP);
    eventually("another gateway takes over", || {
        second.run(&["retry-from", "main/kept"]).ok()
    });
    let changed = second.run(&["get", "main/kept"]).unwrap();
    assert_ne!(changed["sub_state"], cancelled["sub_state"]);
    let answers = std::thread::scope(|scope| {
        let asking = || {
            let until = Instant::now() + Duration::from_secs(4);
            let mut answers = Vec::new();
            while Instant::now() < until {
                answers.push(first.run(&["get", "main/kept", "--timeout", "2s"]));
            }
            answers
        };
        let asking: Vec<_> = (0..4).map(|_| scope.spawn(asking)).collect();
        // The first requests wait for the gateway while it is paused.
        std::thread::sleep(Duration::from_secs(1));
        first.signal(Signal::CONT);
        let answers = asking.into_iter().flat_map(|asked| asked.join().unwrap());
        answers.collect::<Vec<_>>()
    });
    assert!(answers.len() > 4, "{answers:?}");
    let shown: Vec<_> = answers
        .iter()
        .filter_map(|answer| answer.as_ref().ok())
        .collect();
    assert!(shown.is_empty(), "{shown:?}");
}

#[test]
fn a_gateway_that_is_stopped_hands_the_store_over_without_waiting_for_the_lease() {
    let lab = Lab::new();
    let first = lab.with_lease("1m");
    prepared(&lab, &first);
    let second = lab.with_lease("1m");
    let stopped = Instant::now();
    first.signal(Signal::TERM);
    second.starts_in_time("later");
    let took = stopped.elapsed();
    println!("summary: handed over after {took:?} with a lease of 1m");
    // Much less than the lease, and enough for a busy machine.
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(second.ids(), ["later"]);
}
