//! The gateway and ten workers are killed and started in any order: nothing is stuck, and nothing
//! that was acknowledged is run again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use stateway_chance::Chance;

use crate::binary::{Answer, Running, command, finish};

const WORKERS: usize = 10;
const EXECUTIONS: usize = 24;
/// How many times something is killed or started while executions are started too.
const BLOWS: usize = 30;
/// How long everything may take to come to its end once everything runs again.
const PATIENCE: Duration = Duration::from_secs(60);

/// A task says when it begins, takes a moment, and is done.
const PROGRAM: &str = r#"echo "$(date +%s%3N) $STATEWAY_EXECUTION $STATEWAY_STEP" >> begun.log
sleep 0.03; echo {}"#;

const CHAIN: &str = "\
name: chain
steps:
  - {name: a, agent: hand, action: a}
  - {name: b, agent: hand, action: b, dependsOn: [a]}
  - {name: c, agent: hand, action: c, dependsOn: [b]}
";

/// Short leases, so that the tasks of the dead are given to the living soon.
const CONFIG: &str = "\
[providers.builtin]
kind = \"builtin\"
lease = \"2s\"
reconnect = \"1s\"
";

/// The gateway is number 0, the workers are the others.
struct Town {
    directory: tempfile::TempDir,
    address: String,
    processes: Vec<Option<Running>>,
    chance: Chance,
}

impl Town {
    fn new(seed: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            std::fs::write(directory.path().join(file), text).unwrap();
        };
        write("stateway.toml", CONFIG);
        write("chain.yaml", CHAIN);
        write("begun.log", "");
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        Self {
            directory,
            address,
            processes: (0..=WORKERS).map(|_| None).collect(),
            chance: Chance::new(seed),
        }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn start(&mut self, number: usize) {
        let mut process = command(self.path());
        process.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        match number {
            0 => process.args(["serve", "--listen", &self.address]),
            _ => {
                let (server, id) = (format!("http://{}", self.address), format!("w{number}"));
                let worker = ["worker", "--role", "hand", "--exec", PROGRAM];
                process
                    .args(worker)
                    .args(["--server", &server, "--id", &id, "--capacity", "2"])
            }
        };
        self.processes[number] = Some(Running::begin(&mut process));
    }

    /// Kills what runs, starts what does not.
    fn strike(&mut self, number: usize) {
        match self.processes[number].take() {
            Some(running) => {
                running.signal("-KILL");
                drop(running);
            }
            None => self.start(number),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.chance.below(bound)
    }

    fn ask(&self, arguments: &[&str]) -> Answer {
        let mut asked = command(self.path());
        asked.env("STATEWAY_SERVER", format!("http://{}", self.address));
        finish(asked.args(arguments), "")
    }

    /// Starts an execution, if anyone is there to start it; the id makes a repetition harmless.
    fn begin(&self, execution: usize) -> bool {
        let id = format!("e{execution}");
        let answer = self.ask(&[
            "start",
            "chain",
            "--provider",
            "builtin",
            "--id",
            &id,
            "--request-id",
            &id,
            "--timeout",
            "2s",
        ]);
        assert!([0, 6].contains(&answer.code), "{answer:?}");
        answer.code == 0
    }

    fn history(&self, execution: usize) -> Vec<Value> {
        let name = format!("builtin/e{execution}");
        let told = self
            .ask(&["history", &name, "--all", "-o", "json"])
            .exits(0);
        told.json()["events"].as_array().unwrap().clone()
    }
}

#[test]
fn whatever_is_killed_nothing_is_stuck_and_nothing_acknowledged_runs_again() {
    let mut town = Town::new(20_261_116);
    (0..=WORKERS).for_each(|number| town.start(number));
    town.processes[0].as_ref().unwrap().line("listening");
    town.ask(&["definitions", "apply", "chain.yaml"]).exits(0);

    let mut begun = 0;
    for _ in 0..BLOWS {
        // The gateway is struck as often as three workers.
        let struck = town.below(WORKERS + 3).saturating_sub(2);
        town.strike(struck);
        if begun < EXECUTIONS && town.begin(begun) {
            begun += 1;
        }
        let pause = u64::try_from(town.below(80)).unwrap();
        std::thread::sleep(Duration::from_millis(pause));
    }
    for number in 0..=WORKERS {
        if town.processes[number].is_none() {
            town.start(number);
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while begun < EXECUTIONS {
        assert!(Instant::now() < deadline, "executions cannot be started");
        begun += usize::from(town.begin(begun));
    }
    for execution in 0..EXECUTIONS {
        let name = format!("builtin/e{execution}");
        let waited = town.ask(&["wait", &name, "--timeout", "60s"]);
        assert_eq!(
            waited.code,
            0,
            "{name}: {waited:?} {:#?}",
            town.history(execution)
        );
    }

    let log = std::fs::read_to_string(town.path().join("begun.log")).unwrap();
    let mut runs = BTreeMap::<(&str, &str), Vec<i64>>::new();
    for line in log.lines() {
        let mut words = line.split(' ');
        let at = words.next().unwrap().parse().unwrap();
        let execution = words.next().unwrap().rsplit('/').next().unwrap();
        let step = words.next().unwrap();
        runs.entry((execution, step)).or_default().push(at);
    }
    for execution in 0..EXECUTIONS {
        let (id, history) = (format!("e{execution}"), town.history(execution));
        for step in ["a", "b", "c"] {
            let of = |kind: &str| {
                let events = history.iter().enumerate();
                let wanted = events.filter(move |(_, event)| {
                    event["native_type"] == kind && event["step"] == step
                });
                wanted
                    .map(|(at, event)| (at, event.clone()))
                    .collect::<Vec<_>>()
            };
            let (completed, assigned) = (of("StepCompleted"), of("TaskAssigned"));
            assert_eq!(completed.len(), 1, "{id} {step}: {history:#?}");
            let (place, event) = &completed[0];
            let late = assigned.iter().any(|(at, _)| at > place);
            assert!(!late, "{id} {step} was handed out again: {history:#?}");
            let time: jiff::Timestamp = event["occur_time"].as_str().unwrap().parse().unwrap();
            let begun = &runs[&(id.as_str(), step)];
            let again = begun.iter().any(|at| *at > time.as_millisecond());
            assert!(!again, "{id} {step} began at {begun:?}, done at {time}");
        }
    }
}
