//! Portable executions inside the server: a host, a gateway with the built-in engine beside it, workers of both,
//! and changes of hosts.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Running, eventually, free_port, publish};
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

/// The first attempt of `pack` fails; everything else answers its input.
const PACKER: &str =
    "if [ \"$STATEWAY_STEP.$STATEWAY_ATTEMPT\" = pack.1 ]; then exit 75; fi; /bin/cat";
const DOOM: &str = "exit 78";

pub(crate) struct Stage {
    pub(crate) server: Server,
    _data: TempDir,
    pub(crate) folder: TempDir,
    pub(crate) host: Running,
    pub(crate) gateway: Running,
    pub(crate) url: String,
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

pub(crate) fn begin_host(folder: &Path) -> Running {
    let host = Running::begin(stateway(folder).args(["host", "--log", "warn"]));
    until_said(&host, "polls the task queue");
    host
}

pub(crate) fn begin_gateway(folder: &Path, port: u16) -> Running {
    let address = format!("127.0.0.1:{port}");
    let mut command = stateway(folder);
    let gateway = Running::begin(command.args(["serve", "--listen", &address, "--log", "warn"]));
    until_said(&gateway, "is listening");
    gateway
}

impl Stage {
    pub(crate) fn new(peers: &Peers) -> Self {
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

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stateway(self.folder.path());
        command.args(arguments).args(["--server", &self.url]);
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
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

    pub(crate) fn restart_gateway(&mut self) {
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

/// Reads need no host: get, list, count, explain, history and a watch show the executions. A signal that is sent while
/// no host runs is carried out when a host returns.
pub(crate) fn reads_without_a_host(peers: &Peers) {
    let mut stage = Stage::new(peers);
    let name = stage.start("flows", "order");
    let other = stage.start("flows", "order");
    for name in [&name, &other] {
        stage.until(name, "waiting", Some("AWAITING_INPUT"));
    }
    let before = stage.json(&["explain", &name]);
    stage.host.kill();
    assert_eq!(
        stage.json(&["get", &name])["native_state"],
        "awaiting_signal"
    );
    let listed = stage.json(&["list", "--provider", "flows"]);
    assert_eq!(listed["executions"].as_array().unwrap().len(), 2);
    let counted = stage.json(&["count", "--provider", "flows"]);
    let counts = counted["counts"].as_array().unwrap().iter();
    let counts = counts.filter(|it| it["execution_count"] != 0);
    let counts: Vec<_> = counts
        .map(|it| {
            (
                it["sub_state"].as_str().unwrap(),
                it["execution_count"].clone(),
            )
        })
        .collect();
    assert_eq!(counts, [("waiting", Value::from(2))]);
    let explained = stage.json(&["explain", &name]);
    assert_eq!(explained["row"]["native_state"], "awaiting_signal");
    assert_eq!(explained["row"], before["row"]);
    let trajectory = stage.trajectory(&name);
    let packed = trajectory.iter();
    let mut packed = packed.filter(|it| it.starts_with("StepCompleted pack 2"));
    assert!(packed.next().is_some(), "{trajectory:#?}");
    let watch = Running::begin(&mut stage.command(&["watch", &name, "-o", "json"]));
    let shown = |state: &str| {
        eventually(&format!("the watch shows {state}"), || {
            let said = watch.said();
            let lines = said.iter().map(|line| serde_json::from_str::<Value>(line));
            let mut lines = lines.map(Result::unwrap);
            lines.find(|line| line["execution"]["sub_state"] == state)
        })
    };
    assert_eq!(shown("waiting")["execution"]["reason"], "AWAITING_INPUT");
    // A write waits for a host.
    let mut signal = stage.command(&["signal", &name, "paid", "--request-id", "paid-1"]);
    let signal = Running::begin(signal.args(["--timeout", "25s"]));
    stage.host = begin_host(stage.folder.path());
    shown("succeeded");
    drop(signal);
    stage.run(&["signal", &other, "paid"]);
    stage.until(&other, "succeeded", None);
}

/// Another host takes over while executions wait for a signal, a time and a retry: the host before finishes what it has
/// begun and ends.
pub(crate) fn upgrade(peers: &Peers) {
    let mut stage = Stage::new(peers);
    let nap = "name: nap\nsteps:\n  - {name: nap, sleep: 4s}\n  - {name: ship, agent: packer, timeout: 1m, dependsOn: [nap]}\n";
    std::fs::write(stage.folder.path().join("nap.yaml"), nap).unwrap();
    stage.run(&["definitions", "apply", "nap.yaml"]);
    let orders: Vec<_> = (0..5).map(|_| stage.start("flows", "order")).collect();
    for name in &orders {
        stage.until(name, "waiting", Some("AWAITING_INPUT"));
    }
    let naps: Vec<_> = (0..5).map(|_| stage.start("flows", "nap")).collect();
    // These fail once, and the next attempt is due in 300 ms.
    let retried: Vec<_> = (0..5).map(|_| stage.start("flows", "order")).collect();
    let next = begin_host(stage.folder.path());
    assert!(stage.host.terminate(), "{:?}", stage.host.talked());
    until_said(&stage.host, "stateway host has stopped");
    stage.host = next;
    for name in &retried {
        stage.until(name, "waiting", Some("AWAITING_INPUT"));
    }
    for name in orders.iter().chain(&retried) {
        stage.run(&["signal", name, "paid", "--input", "true"]);
    }
    for name in orders.iter().chain(&retried).chain(&naps) {
        stage.until(name, "succeeded", None);
        let trajectory = stage.trajectory(name);
        let ends = trajectory.iter();
        let ends = ends.filter(|it| it.starts_with("StepCompleted ship"));
        assert_eq!(ends.count(), 1, "{trajectory:#?}");
    }
}

/// One process is gateway and host, and stops both in order.
pub(crate) fn host_inside_the_gateway(peers: &Peers) {
    let mut stage = Stage::new(peers);
    // From here on the only host is the one inside the gateway.
    assert!(stage.host.terminate(), "{:?}", stage.host.talked());
    let config = stage.folder.path().join("stateway.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let served = text.replace(
        "task_queue = \"flows\"",
        "task_queue = \"flows\", serve = true",
    );
    assert_ne!(served, text);
    std::fs::write(&config, served).unwrap();
    stage.restart_gateway();
    until_said(&stage.gateway, "polls the task queue `flows`");
    let name = stage.start("flows", "order");
    stage.until(&name, "waiting", Some("AWAITING_INPUT"));
    stage.run(&["signal", &name, "paid", "--input", "true"]);
    stage.until(&name, "succeeded", None);
    stage.workers.clear();
    assert!(stage.gateway.terminate(), "{:?}", stage.gateway.talked());
    until_said(&stage.gateway, "stateway has stopped");
    let talked = stage.gateway.talked();
    let at = |part: &str| talked.iter().position(|line| line.contains(part));
    let (host, gateway) = (at("stateway host has stopped"), at("stateway has stopped"));
    assert!(host.is_some() && host < gateway, "{talked:#?}");
}

/// The default of a definition moves to the host: new executions, events and its schedule start there, open executions
/// stay.
pub(crate) fn migrate(peers: &Peers) {
    let stage = Stage::new(peers);
    let placed = "name: placed\ntrigger: {event: placed, schedule: '0 0 1 1 *'}\nsteps:\n  - {name: go, signal: go, timeout: 10m}\n  - {name: sub, workflow: parcel, timeout: 5m, dependsOn: [go]}\n";
    std::fs::write(stage.folder.path().join("placed.yaml"), placed).unwrap();
    stage.run(&["definitions", "apply", "placed.yaml"]);
    let default = || stage.json(&["definitions", "get", "placed"])["default_provider"].clone();
    assert_eq!(default(), "providers/builtin");
    // Whether the schedule of a provider has a next time.
    let is_scheduled = |provider: &str| {
        let queue = stage.json(&["queue", provider]);
        let scheduled = queue["scheduled"].as_array().unwrap();
        assert_eq!(scheduled.len(), 1, "{queue:#}");
        let is_disabled = scheduled[0]["disabled"].is_object();
        assert_eq!(scheduled[0]["next_start_time"].is_null(), is_disabled);
        !is_disabled
    };
    let both = || (is_scheduled("builtin"), is_scheduled("flows"));
    assert_eq!(both(), (true, false));
    let start = || {
        let started = stage.json(&["start", "placed", "--input", "{}"]);
        started["name"].as_str().unwrap().to_owned()
    };
    let old = start();
    assert!(old.starts_with("providers/builtin/"), "{old}");
    assert_eq!(publish(&stage.url, "e1"), ["builtin"]);
    let migrate = ["definitions", "migrate", "placed", "--to", "flows"];
    let dry = stage.json(&[&migrate[..], &["--dry-run"]].concat());
    assert_eq!(dry["portability"]["verdict"], "exact", "{dry:#}");
    assert_eq!(dry["children"], serde_json::json!(["definitions/parcel"]));
    assert_eq!(default(), "providers/builtin");
    let moved = stage.json(&migrate);
    assert_eq!(moved["from"], "providers/builtin");
    assert_eq!(moved["open_executions"][0]["provider"], "providers/builtin");
    assert_eq!(moved["open_executions"][0]["count"], 2);
    assert_eq!(default(), "providers/flows");
    assert_eq!(both(), (false, true));
    let new = start();
    assert!(new.starts_with("providers/flows/"), "{new}");
    assert_eq!(publish(&stage.url, "e2"), ["flows"]);
    // A trigger that a person disables stays disabled on the way back.
    stage.run(&["triggers", "disable", "placed", "--comment", "maintenance"]);
    assert!(publish(&stage.url, "e3").is_empty());
    assert_eq!(both(), (false, false));
    stage.run(&["definitions", "migrate", "placed", "--to", "builtin"]);
    assert_eq!(default(), "providers/builtin");
    assert!(publish(&stage.url, "e4").is_empty());
    stage.run(&["triggers", "enable", "placed"]);
    assert_eq!(publish(&stage.url, "e5"), ["builtin"]);
    assert_eq!(both(), (true, false));
    // Each open execution finishes where it was started.
    for name in [&old, &new] {
        let name = name.replace("providers/", "").replace("/executions", "");
        stage.run(&["signal", &name, "go", "--input", "true"]);
        stage.until(&name, "succeeded", None);
        stage.until(&format!("{name}~sub~1"), "succeeded", None);
    }
    // What the host cannot run is not moved.
    let limited = "name: limited\nconcurrency: 2\nsteps: [{name: a, sleep: 50ms}]\n";
    std::fs::write(stage.folder.path().join("limited.yaml"), limited).unwrap();
    stage.run(&["definitions", "apply", "limited.yaml"]);
    let mut refused = stage.command(&["definitions", "migrate", "limited", "--to", "flows"]);
    let refused = refused.output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("`concurrency` is set"), "{said}");
}
