//! Portable executions inside the server: a host, a gateway with the built-in engine beside it, workers of both,
//! and deaths.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Running, eventually, free_port};
use crate::temporal::{Peers, Server, Settings};

/// A step that fails once, a sleep, a signal, and a step that needs the output of the first.
const ORDER: &str = "\
name: order
steps:
  - name: pack
    agent: packer
    timeout: 1m
    retryPolicy: {maxRetries: 2, backoff: constant, initialDelay: 300ms}
  - {name: rest, sleep: 400ms, dependsOn: [pack]}
  - {name: paid, signal: paid, timeout: 10m, dependsOn: [rest]}
  - {name: ship, agent: packer, timeout: 1m, dependsOn: [paid], input: '${steps.pack.output}'}
";

/// A person decides, a child runs, and a step that cannot succeed is compensated.
const DEAL: &str = "\
name: deal
failurePolicy: compensate
steps:
  - {name: sign, approval: {role: boss, expiresAfter: 1h}}
  - {name: deliver, workflow: parcel, timeout: 5m, dependsOn: [sign], input: {n: '${input.n}'}}
  - {name: doom, agent: doom, timeout: 1m, dependsOn: [deliver], retryPolicy: {maxRetries: 0}}
compensation:
  - {step: deliver, agent: packer, action: fetch, timeout: 1m}
";
const PARCEL: &str = "\
name: parcel
steps:
  - {name: wrap, agent: packer, timeout: 1m, input: '${input}'}
";

/// Three steps in a row.
const CHAIN: &str = "\
name: chain
steps:
  - {name: one, agent: packer, timeout: 1m}
  - {name: two, agent: packer, timeout: 1m, dependsOn: [one]}
  - {name: three, agent: packer, timeout: 1m, dependsOn: [two]}
";

/// The first attempt of `pack` fails; everything else answers its input. Each task leaves a line.
const PACKER: &str = "echo $STATEWAY_EXECUTION $STATEWAY_STEP >> effects; \
     if [ \"$STATEWAY_STEP.$STATEWAY_ATTEMPT\" = pack.1 ]; then exit 75; fi; /bin/cat";
const DOOM: &str = "exit 78";
/// How many executions are under way while processes die.
const EXECUTIONS: usize = 40;

struct Stage {
    server: Server,
    _data: TempDir,
    folder: TempDir,
    host: Running,
    gateway: Running,
    url: String,
    workers: Vec<Running>,
}

fn stateway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stateway"));
    command.current_dir(folder).env_clear();
    command
}

fn until_said(process: &Running, part: &str) {
    eventually(part, || {
        let talked = process.talked();
        talked.iter().any(|line| line.contains(part)).then_some(())
    });
}

fn begin_host(folder: &Path) -> Running {
    let host = Running::begin(stateway(folder).args(["host", "--log", "warn"]));
    until_said(&host, "polls the task queue");
    host
}

fn begin_gateway(folder: &Path, port: u16) -> Running {
    let address = format!("127.0.0.1:{port}");
    let mut command = stateway(folder);
    let gateway = Running::begin(command.args(["serve", "--listen", &address, "--log", "warn"]));
    until_said(&gateway, "is listening");
    gateway
}

impl Stage {
    fn new(peers: &Peers) -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = Server::start(&peers.server, data.path(), &[], Settings::Tests);
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "[providers.builtin]\nkind = \"builtin\"\n\
             [providers.flows]\nkind = \"temporal-host\"\naddress = \"{}\"\n\
             host = {{ task_queue = \"flows\" }}\n",
            server.address()
        );
        std::fs::write(folder.path().join("stateway.toml"), config).unwrap();
        let sources = [
            ("order.yaml", ORDER),
            ("parcel.yaml", PARCEL),
            ("deal.yaml", DEAL),
            ("chain.yaml", CHAIN),
        ];
        for (name, source) in sources {
            std::fs::write(folder.path().join(name), source).unwrap();
        }
        let port = free_port();
        let host = begin_host(folder.path());
        let gateway = begin_gateway(folder.path(), port);
        let mut stage = Self {
            server,
            _data: data,
            folder,
            host,
            gateway,
            url: format!("http://127.0.0.1:{port}"),
            workers: Vec::new(),
        };
        for (name, _) in sources {
            stage.run(&["definitions", "apply", name]);
        }
        for provider in ["builtin", "flows"] {
            for (role, program) in [("packer", PACKER), ("doom", DOOM)] {
                let mut worker = stage.command(&["worker", "--role", role, "--exec", program]);
                worker.args(["--provider", provider, "--capacity", "4"]);
                let running = Running::begin(&mut worker);
                stage.workers.push(running);
            }
        }
        stage
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stateway(self.folder.path());
        command.args(arguments).args(["--server", &self.url]);
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same, again and again until it succeeds.
    #[track_caller]
    fn run_surely(&self, arguments: &[&str]) {
        eventually(&format!("{arguments:?}"), || {
            let output = self.command(arguments).output().unwrap();
            output.status.success().then_some(())
        });
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let out = self.run(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&out).unwrap()
    }

    #[track_caller]
    fn start(&self, provider: &str, definition: &str) -> String {
        let input = ["--input", "{\"n\":1}"];
        let start = ["start", definition, "--provider", provider];
        let started = self.json(&[&start[..], &input].concat());
        let name = started["name"].as_str().unwrap();
        format!("{provider}/{}", name.rsplit('/').next().unwrap())
    }

    #[track_caller]
    fn until(&self, name: &str, sub_state: &str, reason: Option<&str>) -> Value {
        eventually(&format!("{name} is {sub_state} {reason:?}"), || {
            // A child may not exist yet.
            let got = self.command(&["get", name, "-o", "json"]).output().unwrap();
            let shown: Value = serde_json::from_slice(&got.stdout).ok()?;
            let is = shown["sub_state"] == sub_state && shown["reason"].as_str() == reason;
            is.then_some(shown)
        })
    }

    /// What happened: event, step and attempt, in order.
    fn trajectory(&self, name: &str) -> Vec<String> {
        let history = self.json(&["history", name, "--all"]);
        let events = history["events"].as_array().unwrap().iter();
        // The id of the execution is a part of the ids of its children.
        let id = name.rsplit('/').next().unwrap().split('~').next().unwrap();
        let events = events.map(|event| {
            let text = |key: &str| {
                let text = event[key].as_str().unwrap_or_default();
                text.replace(id, "ID")
            };
            let summary = match text("native_type").as_str() {
                // The texts that name a worker or a time.
                "TaskAssigned" | "RetryScheduled" => String::new(),
                _ => text("summary"),
            };
            let (native, step, attempt) = (text("native_type"), text("step"), &event["attempt"]);
            format!("{native} {step} {attempt} {summary}")
        });
        events.collect()
    }

    fn restart_gateway(&mut self) {
        self.gateway.kill();
        let port = self.url.rsplit(':').next().unwrap().parse().unwrap();
        self.gateway = begin_gateway(self.folder.path(), port);
    }
}

/// The same definition on both engines: the same events, steps, states and output.
pub(crate) fn same_trajectory(peers: &Peers) {
    let stage = Stage::new(peers);
    let both = |definition: &str| -> Vec<String> {
        let providers = ["builtin", "flows"].iter();
        providers.map(|it| stage.start(it, definition)).collect()
    };
    let names = both("order");
    for name in &names {
        stage.until(name, "waiting", Some("AWAITING_INPUT"));
        stage.run(&["signal", name, "paid", "--input", "true"]);
    }
    let ends = names.iter().map(|it| stage.until(it, "succeeded", None));
    let ends: Vec<_> = ends.collect();
    for key in ["native_state", "definition", "revision", "input", "output"] {
        assert_eq!(ends[0][key], ends[1][key], "{key}");
    }
    let trajectory = stage.trajectory(&names[0]);
    let failed = trajectory.iter();
    let mut failed = failed.filter(|it| it.starts_with("AttemptFailed pack 1"));
    assert!(failed.next().is_some(), "{trajectory:#?}");
    assert_eq!(trajectory, stage.trajectory(&names[1]));
    // An approval in one inbox, a child, and a failure that is compensated.
    let names = both("deal");
    eventually("one inbox has both approvals", || {
        let listed = stage.json(&["approvals", "list"]);
        (listed["approvals"].as_array().unwrap().len() == 2).then_some(())
    });
    for name in &names {
        let approval = format!("{name}/sign~1");
        let boss = ["--as", "bob", "--role", "boss"];
        stage.run(&[&["approvals", "grant", &approval][..], &boss].concat());
        stage.until(name, "failed", Some("ROLLED_BACK"));
    }
    assert_eq!(stage.trajectory(&names[0]), stage.trajectory(&names[1]));
    let children: Vec<_> = names.iter().map(|it| format!("{it}~deliver~1")).collect();
    let trajectory = stage.trajectory(&children[0]);
    assert_eq!(trajectory, stage.trajectory(&children[1]));
}

/// Host, gateway and server die in turn while executions are under way: all finish, every step is recorded once.
pub(crate) fn deaths(peers: &Peers) {
    let mut stage = Stage::new(peers);
    let waiting = stage.start("flows", "order");
    stage.until(&waiting, "waiting", Some("AWAITING_INPUT"));
    stage.host.kill();
    // Reads need no host.
    let seen = stage.json(&["get", &waiting]);
    assert_eq!(seen["native_state"], "awaiting_signal");
    stage.host = begin_host(stage.folder.path());
    let mut names = Vec::new();
    for number in 0..EXECUTIONS {
        let id = format!("chain-{number}");
        let start = ["start", "chain", "--provider", "flows", "--id", &id];
        let request = ["--request-id", &id];
        stage.run_surely(&[&start[..], &request].concat());
        names.push(format!("flows/{id}"));
        match number {
            10 => {
                stage.host.kill();
                stage.host = begin_host(stage.folder.path());
            }
            20 => stage.restart_gateway(),
            30 => stage.server.restart(),
            _ => {}
        }
    }
    stage.run_surely(&["signal", &waiting, "paid", "--request-id", "paid-1"]);
    let until = Instant::now() + Duration::from_secs(120);
    for name in &names {
        while stage.json(&["get", name])["sub_state"] != "succeeded" {
            assert!(Instant::now() < until, "{name} does not finish");
            std::thread::sleep(Duration::from_millis(200));
        }
        let trajectory = stage.trajectory(name);
        for step in ["one", "two", "three"] {
            let wanted = format!("StepCompleted {step} ");
            let ends = trajectory.iter().filter(|it| it.starts_with(&wanted));
            assert_eq!(ends.count(), 1, "{step}: {trajectory:#?}");
        }
    }
    stage.until(&waiting, "succeeded", None);
    let effects = std::fs::read_to_string(stage.folder.path().join("effects")).unwrap();
    let effects = effects
        .lines()
        .filter(|line| line.contains("chain-"))
        .count();
    println!("{effects} effects for {} steps", EXECUTIONS * 3);
    assert!(effects >= EXECUTIONS * 3);
}
