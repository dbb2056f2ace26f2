//! Portable executions inside the server: a host, a gateway with the built-in engine beside it, workers
//! of both, and deaths.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use futures::StreamExt as _;
use serde_json::Value;
use stateway_provider_api::table::compiled_in;
use stateway_provider_builtin::{self as builtin, BuiltinProvider};
use stateway_provider_restate::{HostConfig, hosted_provider};
use stateway_trajectory_kit::{DIFFERENCES, Engine, SCENARIOS, conform, play_random, sources};
use tempfile::TempDir;

use crate::lab::Lab;
use crate::process::{Running, eventually, free_port, publish};

/// A step that fails once, a sleep, and a step that needs the output of the first.
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

/// A step that cannot succeed, after one that has a compensation.
const SAGA: &str = "\
name: saga
failurePolicy: compensate
steps:
  - {name: reserve, agent: packer, timeout: 1m}
  - {name: doom, agent: doom, timeout: 1m, dependsOn: [reserve]}
compensation:
  - {step: reserve, agent: packer, action: release, timeout: 1m}
";

/// A person decides, a child runs, and a step that fails is escalated.
const DEAL: &str = "\
name: deal
steps:
  - {name: sign, approval: {role: boss, expiresAfter: 1h}}
  - {name: deliver, workflow: parcel, timeout: 5m, dependsOn: [sign], input: {n: '${input.n}'}}
  - {name: audit, agent: doom, timeout: 1m, dependsOn: [deliver], onFailure: escalate, retryPolicy: {maxRetries: 0}}
";
const PARCEL: &str = "\
name: parcel
failurePolicy: compensate
steps:
  - {name: wrap, agent: packer, timeout: 1m, input: '${input}'}
  - {name: paid, signal: paid, timeout: 10m, dependsOn: [wrap]}
compensation:
  - {step: wrap, agent: packer, action: unwrap, timeout: 1m}
";

/// The first attempt of `pack` fails; everything else answers its input.
const PACKER: &str =
    "if [ \"$STATEWAY_STEP.$STATEWAY_ATTEMPT\" = pack.1 ]; then exit 75; fi; /bin/cat";
const DOOM: &str = "exit 78";

pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) host: Running,
    pub(crate) gateway: Running,
    pub(crate) url: String,
    _workers: Vec<Running>,
}

fn stateway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stateway"));
    command.current_dir(folder).env_clear();
    command
}

pub(crate) fn begin_host(folder: &Path) -> Running {
    let host = Running::begin(stateway(folder).args(["host", "--log", "warn"]));
    until_talked(&host, "is registered");
    host
}

/// Waits until a process has printed a message.
#[track_caller]
fn until_talked(process: &Running, part: &str) {
    eventually(part, || {
        let talked = process.talked();
        talked.iter().any(|line| line.contains(part)).then_some(())
    });
}

pub(crate) fn begin_gateway(folder: &Path, port: u16) -> Running {
    let address = format!("127.0.0.1:{port}");
    let mut command = stateway(folder);
    let gateway = Running::begin(command.args(["serve", "--listen", &address, "--log", "warn"]));
    until_talked(&gateway, "stateway is listening");
    gateway
}

impl Stage {
    pub(crate) fn new(lab: &Lab) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (admin, ingress) = lab.api_ports();
        let web = serve_json();
        let http = format!("http = {{ allow = [\"http://{web}\"], allow_private = true }}");
        let config = format!(
            "[providers.builtin]\nkind = \"builtin\"\n{http}\n\
             [providers.flows]\nkind = \"restate-host\"\n{http}\n\
             admin = {{ url = \"http://127.0.0.1:{admin}\" }}\n\
             ingress = {{ url = \"http://127.0.0.1:{ingress}\" }}\n\
             host = {{ listen = \"127.0.0.1:{}\" }}\n",
            free_port()
        );
        std::fs::write(folder.path().join("stateway.toml"), config).unwrap();
        std::fs::write(folder.path().join("order.yaml"), ORDER).unwrap();
        std::fs::write(folder.path().join("saga.yaml"), SAGA).unwrap();
        std::fs::write(folder.path().join("deal.yaml"), DEAL).unwrap();
        std::fs::write(folder.path().join("parcel.yaml"), PARCEL).unwrap();
        let calls = format!(
            "name: calls\nsteps: [{{name: pay, http: {{method: GET, url: 'http://{web}/pay'}}, timeout: 30s}}]\n"
        );
        std::fs::write(folder.path().join("calls.yaml"), calls).unwrap();
        let port = free_port();
        let host = begin_host(folder.path());
        let gateway = begin_gateway(folder.path(), port);
        let url = format!("http://127.0.0.1:{port}");
        let mut stage = Self {
            folder,
            host,
            gateway,
            url,
            _workers: Vec::new(),
        };
        stage.run(&["definitions", "apply", "order.yaml", "saga.yaml"]);
        stage.run(&["definitions", "apply", "parcel.yaml", "deal.yaml"]);
        stage.run(&["definitions", "apply", "calls.yaml"]);
        for provider in ["builtin", "flows"] {
            for (role, program) in [("packer", PACKER), ("doom", DOOM)] {
                let mut worker = stage.command(&["worker", "--role", role, "--exec", program]);
                worker.args(["--provider", provider, "--capacity", "4"]);
                let running = Running::begin(&mut worker);
                stage._workers.push(running);
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
        let (out, err) = (output.stdout, output.stderr);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&err)
        );
        String::from_utf8(out).unwrap()
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let out = self.run(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&out).unwrap()
    }

    #[track_caller]
    fn start(&self, provider: &str, definition: &str) -> String {
        let arguments = [
            "start",
            definition,
            "--provider",
            provider,
            "--input",
            "{\"n\":1}",
        ];
        let started = self.json(&arguments);
        let id = started["name"]
            .as_str()
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap();
        format!("{provider}/{id}")
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
}

/// The same definition on both engines: the same events, steps, states and output.
pub(crate) fn same_trajectory(lab: &mut Lab) {
    let stage = Stage::new(lab);
    let names: Vec<_> = ["builtin", "flows"]
        .iter()
        .map(|it| stage.start(it, "order"))
        .collect();
    for name in &names {
        stage.until(name, "waiting", Some("AWAITING_INPUT"));
        stage.run(&["signal", name, "paid", "--input", "true"]);
    }
    let ends: Vec<_> = names
        .iter()
        .map(|it| stage.until(it, "succeeded", None))
        .collect();
    for key in ["native_state", "definition", "revision", "input", "output"] {
        assert_eq!(ends[0][key], ends[1][key], "{key}");
    }
    let steps = |end: &Value| -> Vec<Value> {
        let steps = end["steps"].as_array().unwrap().iter();
        let kept = [
            "name",
            "sub_state",
            "native_state",
            "reason",
            "mapping_basis",
            "blocked_by",
        ];
        steps
            .map(|step| kept.iter().map(|key| step[*key].clone()).collect())
            .collect()
    };
    assert_eq!(steps(&ends[0]), steps(&ends[1]));
    let trajectory = stage.trajectory(&names[0]);
    assert!(
        trajectory
            .iter()
            .any(|it| it.starts_with("AttemptFailed pack 1")),
        "{trajectory:#?}"
    );
    assert_eq!(trajectory, stage.trajectory(&names[1]));
    // A failure that is compensated.
    let names: Vec<_> = ["builtin", "flows"]
        .iter()
        .map(|it| stage.start(it, "saga"))
        .collect();
    for name in &names {
        stage.until(name, "failed", Some("ROLLED_BACK"));
    }
    assert_eq!(stage.trajectory(&names[0]), stage.trajectory(&names[1]));
    // An HTTP step, which the gateway does.
    let names: Vec<_> = ["builtin", "flows"]
        .iter()
        .map(|it| stage.start(it, "calls"))
        .collect();
    let ends: Vec<_> = names
        .iter()
        .map(|it| stage.until(it, "succeeded", None))
        .collect();
    assert_eq!(
        ends[0]["output"]["pay"]["body"],
        serde_json::json!({"paid": true})
    );
    assert_eq!(
        ends[0]["output"]["pay"]["body"],
        ends[1]["output"]["pay"]["body"]
    );
    assert_eq!(stage.trajectory(&names[0]), stage.trajectory(&names[1]));
}

/// Answers every request with JSON, until the test ends.
fn serve_json() -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (mut stream, mut request) = (stream, [0; 4096]);
            match stream.read(&mut request) {
                Ok(bytes) if bytes > 0 => {}
                _ => continue,
            }
            let body = "{\"paid\":true}";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            let _ = write!(
                stream,
                "{head}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

/// Host, gateway and server die in turn while an execution is under way; every step is recorded once.
pub(crate) fn deaths(lab: &mut Lab) {
    let mut stage = Stage::new(lab);
    let name = stage.start("flows", "order");
    stage.until(&name, "waiting", Some("AWAITING_INPUT"));
    stage.host.kill();
    // Reads need no host, and a write that finds none waits for it.
    assert_eq!(
        stage.json(&["get", &name])["native_state"],
        "awaiting_signal"
    );
    let mut waiting = stage.command(&["signal", &name, "paid", "--request-id", "paid-1"]);
    let waiting = Running::begin(waiting.args(["--input", "true", "--timeout", "25s"]));
    stage.host = begin_host(stage.folder.path());
    stage.until(&name, "succeeded", None);
    drop(waiting);
    let second = stage.start("flows", "order");
    stage.gateway.kill();
    let port = stage.url.rsplit(':').next().unwrap().parse().unwrap();
    stage.gateway = begin_gateway(stage.folder.path(), port);
    stage.until(&second, "waiting", Some("AWAITING_INPUT"));
    lab.server.kill();
    lab.restart_server();
    eventually("the signal is accepted", || {
        let mut signal = stage.command(&["signal", &second, "paid", "--request-id", "paid-2"]);
        signal
            .args(["--input", "true"])
            .output()
            .unwrap()
            .status
            .success()
            .then_some(())
    });
    stage.until(&second, "succeeded", None);
    for name in [&name, &second] {
        let trajectory = stage.trajectory(name);
        for step in ["pack", "rest", "paid", "ship"] {
            let wanted = format!("StepCompleted {step} ");
            let ends = trajectory
                .iter()
                .filter(|it| it.starts_with(&wanted))
                .count();
            assert_eq!(ends, 1, "{step}: {trajectory:#?}");
        }
    }
}

/// Approvals, a child and an escalation on both engines: one inbox, the same trajectories.
pub(crate) fn people_and_children(lab: &mut Lab) {
    let mut stage = Stage::new(lab);
    let names: Vec<_> = ["builtin", "flows"]
        .iter()
        .map(|it| stage.start(it, "deal"))
        .collect();
    let inbox = |stage: &Stage, what: &str, key: &str| -> Vec<String> {
        let listed = stage.json(&[what, "list"]);
        let rows = listed[key].as_array().unwrap().iter();
        let mut found: Vec<_> = rows
            .map(|row| row["name"].as_str().unwrap_or_default().to_owned())
            .collect();
        found.sort();
        found
    };
    let both = |stage: &Stage, what: &str, key: &str| {
        eventually(&format!("{what} of both engines"), || {
            let found = inbox(stage, what, key);
            (found.len() == 2).then_some(found)
        })
    };
    let asked = both(&stage, "approvals", "approvals");
    assert!(asked.iter().any(|it| it.contains("flows")), "{asked:?}");
    // The inbox is read while no host runs.
    stage.host.kill();
    assert_eq!(inbox(&stage, "approvals", "approvals"), asked);
    stage.host = begin_host(stage.folder.path());
    for name in &names {
        let approval = format!("{name}/sign~1");
        let boss = ["--as", "bob", "--role", "boss"];
        let wrong = stage
            .command(&["approvals", "grant", &approval, "--as", "eve"])
            .output()
            .unwrap();
        assert!(!wrong.status.success());
        stage.run(&[&["approvals", "grant", &approval][..], &boss].concat());
        let child = format!("{name}~deliver~1");
        stage.until(&child, "waiting", Some("AWAITING_INPUT"));
    }
    // Host and server die while the children wait.
    stage.host.kill();
    stage.host = begin_host(stage.folder.path());
    lab.server.kill();
    lab.restart_server();
    for name in &names {
        let child = format!("{name}~deliver~1");
        eventually("the signal is accepted", || {
            let mut signal = stage.command(&["signal", &child, "paid", "--request-id", "paid-1"]);
            let sent = signal.args(["--input", "true"]).output().unwrap();
            sent.status.success().then_some(())
        });
        stage.until(name, "error", Some("ESCALATED"));
    }
    both(&stage, "escalations", "escalations");
    for name in &names {
        let escalation = format!("{name}/audit~1");
        let operator = ["--as", "olga", "--role", "operator"];
        stage.run(&[&["escalations", "cancel", &escalation][..], &operator].concat());
        stage.until(name, "failed", Some("CANCELLED"));
    }
    assert_eq!(stage.trajectory(&names[0]), stage.trajectory(&names[1]));
    let children = names.iter().map(|name| format!("{name}~deliver~1"));
    let children: Vec<_> = children.collect();
    assert_eq!(
        stage.trajectory(&children[0]),
        stage.trajectory(&children[1])
    );
    // A cancelled parent cancels its child, which compensates.
    let names: Vec<_> = ["builtin", "flows"]
        .iter()
        .map(|it| stage.start(it, "deal"))
        .collect();
    for name in &names {
        let approval = format!("{name}/sign~1");
        eventually("the approval is granted", || {
            let mut grant = stage.command(&["approvals", "grant", &approval]);
            let granted = grant.args(["--as", "bob", "--role", "boss"]).output();
            granted.unwrap().status.success().then_some(())
        });
        let child = format!("{name}~deliver~1");
        stage.until(&child, "waiting", Some("AWAITING_INPUT"));
        stage.run(&["cancel", name]);
        stage.until(&child, "failed", Some("CANCELLED"));
        stage.until(name, "failed", Some("CANCELLED"));
    }
    let children = names.iter().map(|name| format!("{name}~deliver~1"));
    let children: Vec<_> = children.collect();
    assert_eq!(
        stage.trajectory(&children[0]),
        stage.trajectory(&children[1])
    );
}

/// Every golden trajectory of the built-in engine, inside Restate; what differs is what the portability report
/// says before the start.
pub(crate) fn golden_trajectories(lab: &mut Lab) {
    let stage = Stage::new(lab);
    let (admin, ingress) = lab.api_ports();
    let mut config = HostConfig::default();
    config.admin.url = format!("http://127.0.0.1:{admin}");
    config.ingress.url = format!("http://127.0.0.1:{ingress}");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let provider = hosted_provider(&config, compiled_in("builtin").unwrap()).unwrap();
        conform(Engine::Restate, &provider, SCENARIOS.len()).await;
    });
    // The command line reports the same words, and a start is refused with them.
    let limited = "name: limited\nconcurrency: 2\nsteps: [{name: a, sleep: 50ms}]\n";
    std::fs::write(stage.folder.path().join("limited.yaml"), limited).unwrap();
    let validate = ["definitions", "validate", "limited.yaml", "order.yaml"];
    let validate = [&validate[..], &["--for", "builtin", "--for", "flows"]].concat();
    let output = stage.command(&validate).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stdout).unwrap();
    let words = DIFFERENCES[0].words;
    for line in [
        "limited.yaml: exact for builtin".to_owned(),
        "limited.yaml: impossible for flows".to_owned(),
        format!("limited.yaml:   {words}"),
        "order.yaml: exact for flows".to_owned(),
    ] {
        assert!(said.lines().any(|it| it == line), "{line}: {said}");
    }
}

/// One process is gateway and host; it registers itself, and stops both in order.
pub(crate) fn host_inside_the_gateway(lab: &mut Lab) {
    let mut stage = Stage::new(lab);
    // From here on the only host is the one inside the gateway.
    assert!(stage.host.terminate(), "{:?}", stage.host.talked());
    stage.gateway.kill();
    let config = stage.folder.path().join("stateway.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let (before, _) = text.split_once("host = {").unwrap();
    let listen = format!(
        "host = {{ listen = \"127.0.0.1:{}\", serve = true }}\n",
        free_port()
    );
    std::fs::write(&config, format!("{before}{listen}")).unwrap();
    let port = stage.url.rsplit(':').next().unwrap().parse().unwrap();
    stage.gateway = begin_gateway(stage.folder.path(), port);
    until_talked(&stage.gateway, "is registered");
    let name = stage.start("flows", "order");
    stage.until(&name, "waiting", Some("AWAITING_INPUT"));
    stage.run(&["signal", &name, "paid", "--input", "true"]);
    stage.until(&name, "succeeded", None);
    stage._workers.clear();
    assert!(stage.gateway.terminate(), "{:?}", stage.gateway.talked());
    until_talked(&stage.gateway, "stateway host has stopped");
}

/// Another version of the host is registered while executions wait for a signal, a time and a retry. The
/// version before finishes what it has begun and ends; the executions continue on the other one.
pub(crate) fn upgrade(lab: &mut Lab) {
    let mut stage = Stage::new(lab);
    let nap = "name: nap\nsteps:\n  - {name: nap, sleep: 4s}\n  - {name: ship, agent: packer, timeout: 1m, dependsOn: [nap]}\n";
    std::fs::write(stage.folder.path().join("nap.yaml"), nap).unwrap();
    stage.run(&["definitions", "apply", "nap.yaml"]);
    let orders: Vec<_> = (0..5).map(|_| stage.start("flows", "order")).collect();
    let naps: Vec<_> = (0..5).map(|_| stage.start("flows", "nap")).collect();
    for name in &orders {
        stage.until(name, "waiting", Some("AWAITING_INPUT"));
    }
    let listen = format!("127.0.0.1:{}", free_port());
    let mut next = stateway(stage.folder.path());
    next.args([
        "host",
        "--log",
        "warn",
        "--listen",
        &listen,
        "--deployment",
        "next",
    ]);
    let next = Running::begin(&mut next);
    until_talked(&next, "is registered");
    until_talked(&next, "-next");
    assert!(stage.host.terminate(), "{:?}", stage.host.talked());
    stage.host = next;
    for name in &orders {
        stage.run(&["signal", name, "paid", "--input", "true"]);
    }
    for name in orders.iter().chain(&naps) {
        stage.until(name, "succeeded", None);
        let trajectory = stage.trajectory(name);
        let ends = trajectory
            .iter()
            .filter(|it| it.starts_with("StepCompleted ship"));
        assert_eq!(ends.count(), 1, "{trajectory:#?}");
    }
}

/// The names of the variables by which `cargo xtask soak hosts` asks for more.
const DEFINITIONS: &str = "STATEWAY_HOSTS_DEFINITIONS";
const SEED: &str = "STATEWAY_HOSTS_SEED";
/// How many random definitions are played at the same time.
const AT_A_TIME: usize = 12;

/// Random definitions in the same outside world on the built-in engine and inside Restate.
pub(crate) fn random_definitions(lab: &mut Lab) {
    let number = |name: &str, default: u64| {
        let given = std::env::var(name).ok();
        given.map_or(default, |text| text.parse().unwrap())
    };
    let (first, count) = (number(SEED, 1), number(DEFINITIONS, 24));
    let _stage = Stage::new(lab);
    let (admin, ingress) = lab.api_ports();
    let mut config = HostConfig::default();
    config.admin.url = format!("http://127.0.0.1:{admin}");
    config.ingress.url = format!("http://127.0.0.1:{ingress}");
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let wrong = runtime.block_on(async {
        let table = compiled_in("builtin").unwrap();
        let hosted = hosted_provider(&config, table.clone()).unwrap();
        let store = builtin::Config {
            path: folder.path().join("store.db"),
            ..builtin::Config::default()
        };
        let builtin = BuiltinProvider::new(&"builtin".parse().unwrap(), &store, table).unwrap();
        let played = futures::stream::iter(first..first + count).map(|seed| {
            let (hosted, builtin) = (&hosted, &builtin);
            async move {
                let here = play_random(builtin, seed);
                let there = play_random(hosted, seed);
                let (here, there) = tokio::join!(here, there);
                (seed, here, there)
            }
        });
        let mut played = std::pin::pin!(played.buffer_unordered(AT_A_TIME));
        let (mut wrong, mut done, mut points) = (String::new(), 0_u64, 0);
        while let Some((seed, here, there)) = played.next().await {
            done += 1;
            if done.is_multiple_of(100) {
                println!("{done} definitions");
            }
            points += here.as_ref().map_or(0, |text| text.lines().count());
            if here.is_err() || here != there {
                let _ = writeln!(
                    wrong,
                    "== seed {seed}: built-in\n{here:?}\n-- inside Restate\n{there:?}"
                );
                let _ = writeln!(wrong, "{}", sources(seed)[0]);
            }
        }
        println!(
            "{count} random definitions from seed {first}: {points} points of trajectories compared"
        );
        wrong
    });
    assert!(wrong.is_empty(), "{wrong}");
}

/// The default of a definition moves to the host: new executions and events start there, open executions stay.
pub(crate) fn migrate(lab: &mut Lab) {
    let stage = Stage::new(lab);
    let placed = "name: placed\ntrigger: {event: placed}\nsteps:\n  - {name: go, signal: go, timeout: 10m}\n  - {name: sub, workflow: parcel, timeout: 5m, dependsOn: [go]}\n";
    std::fs::write(stage.folder.path().join("placed.yaml"), placed).unwrap();
    stage.run(&["definitions", "apply", "placed.yaml"]);
    let default =
        |stage: &Stage| stage.json(&["definitions", "get", "placed"])["default_provider"].clone();
    assert_eq!(default(&stage), "providers/builtin");
    let start = |stage: &Stage| {
        let started = stage.json(&["start", "placed", "--input", "{}"]);
        started["name"].as_str().unwrap().to_owned()
    };
    let old = start(&stage);
    assert!(old.starts_with("providers/builtin/"), "{old}");
    assert_eq!(publish(&stage.url, "e1"), ["builtin"]);
    let migrate = ["definitions", "migrate", "placed", "--to", "flows"];
    let dry = stage.json(&[&migrate[..], &["--dry-run"]].concat());
    assert_eq!(dry["portability"]["verdict"], "exact");
    assert_eq!(dry["children"], serde_json::json!(["definitions/parcel"]));
    assert_eq!(default(&stage), "providers/builtin");
    let moved = stage.json(&migrate);
    assert_eq!(moved["from"], "providers/builtin");
    assert_eq!(moved["open_executions"][0]["provider"], "providers/builtin");
    assert_eq!(moved["open_executions"][0]["count"], 2);
    assert_eq!(default(&stage), "providers/flows");
    let new = start(&stage);
    assert!(new.starts_with("providers/flows/"), "{new}");
    assert_eq!(publish(&stage.url, "e2"), ["flows"]);
    // A trigger that a person disables is disabled where it starts executions, and a new revision changes nothing.
    stage.run(&["triggers", "disable", "placed", "--comment", "maintenance"]);
    let second = placed.replace("10m", "20m");
    std::fs::write(stage.folder.path().join("placed.yaml"), second).unwrap();
    stage.run(&["definitions", "apply", "placed.yaml"]);
    assert!(publish(&stage.url, "e3").is_empty());
    // The way back takes the disabled trigger along.
    stage.run(&["definitions", "migrate", "placed", "--to", "builtin"]);
    assert_eq!(default(&stage), "providers/builtin");
    assert!(publish(&stage.url, "e4").is_empty());
    stage.run(&["triggers", "enable", "placed"]);
    assert_eq!(publish(&stage.url, "e5"), ["builtin"]);
    // The old execution finishes where it is.
    stage.run(&["signal", &old, "go", "--input", "true"]);
    let child = format!("builtin/{}~sub~1", old.rsplit('/').next().unwrap());
    stage.until(&child, "waiting", Some("AWAITING_INPUT"));
    // What the host cannot run is not moved.
    let limited = "name: limited\nconcurrency: 2\nsteps: [{name: a, sleep: 50ms}]\n";
    std::fs::write(stage.folder.path().join("limited.yaml"), limited).unwrap();
    stage.run(&["definitions", "apply", "limited.yaml"]);
    let refused = stage
        .command(&["definitions", "migrate", "limited", "--to", "flows"])
        .output();
    let refused = refused.unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("`concurrency` is set"), "{said}");
}
