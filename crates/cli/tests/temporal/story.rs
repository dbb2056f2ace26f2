//! Platform services and operators look at one gateway: which engine runs an execution makes no difference.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use stateway_visitor::exchange_blocking;
use tempfile::TempDir;

use crate::lab::{Answer, Lab as RestateLab, Peers as RestatePeers};
use crate::process::{Running, eventually};
use crate::temporal::{Lab, Peers, QUEUE};

const NAMESPACE: &str = "story";

/// An activity that fails, and is tried again in ten minutes.
const RETRYING: &str = r#"{"steps":[{"activity":{"id":"charge-card","type":"obey",
    "input":{"name":"order-7"},"retry":{"initial":600,"maximum":5}}}]}"#;

/// A definition of the built-in engine that waits for a signal.
const SHIPPING: &str =
    "name: shipping\nsteps:\n  - name: wait\n    kind: signal\n    signal: packed\n";

/// A gateway and its configuration.
struct Gateway {
    folder: TempDir,
    _process: Running,
    url: String,
}

fn stateway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stateway"));
    command.current_dir(folder).env_clear();
    command
}

impl Gateway {
    fn start(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("stateway.toml"), config).unwrap();
        let mut command = stateway(folder.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn"]);
        let process = Running::begin(&mut command);
        let url = eventually("the gateway listens", || {
            let talked = process.talked();
            let line = talked.iter().find(|line| line.contains("http://"))?;
            let from = line.find("http://")?;
            line[from..].split(' ').next().map(str::to_owned)
        });
        Self {
            folder,
            _process: process,
            url,
        }
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        let mut command = stateway(self.folder.path());
        let output = command
            .args(arguments)
            .args(["--server", &self.url])
            .output()
            .unwrap();
        Answer {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn start_order(&self, lab: &Lab) {
        lab.tell("order-7", "fail");
        let arguments = [
            "start",
            "shop/Script",
            "--id",
            "order-7",
            "--input",
            RETRYING,
        ];
        self.run(&arguments).exits(0);
        let wait = ["wait", "shop/order-7", "--for", "backing-off"];
        self.run(&wait).exits(0);
    }

    /// A page of the dashboard.
    #[track_caller]
    fn page(&self, path: &str) -> String {
        let address = self.url.trim_start_matches("http://").trim_end_matches('/');
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n");
        let answer = exchange_blocking(address.parse().unwrap(), &head, b"").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer
    }
}

fn temporal_config(lab: &Lab) -> String {
    format!(
        "[providers.shop]\nkind = \"temporal\"\naddress = \"{}\"\nnamespace = \"{NAMESPACE}\"\n\
         task_queue = \"{QUEUE}\"\n",
        lab.server.address()
    )
}

fn start_temporal(peers: &Peers) -> Lab {
    let lab = Lab::start(peers, &[NAMESPACE.to_owned()]);
    lab.worker.begin(NAMESPACE);
    lab
}

/// The text of a page, with one blank between words.
fn text_of(page: &str) -> String {
    let mut text = String::new();
    for part in page.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, text)| text));
        text.push(' ');
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The executions of a list by their names.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let executions = list["executions"].as_array().unwrap();
    let found = executions.iter().find(|it| it["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {list:#}"))
}

/// What an operator must see of the order that is retried.
fn assert_counts_down(order: &Value) {
    assert_eq!(order["sub_state"], "backing-off", "{order:#}");
    assert_eq!(order["retry"]["attempt"], 1, "{order:#}");
    assert_eq!(order["retry"]["max_attempt_count"], 5, "{order:#}");
    assert!(order["retry"]["next_attempt_time"].is_string(), "{order:#}");
    let message = order["retry"]["last_error"]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(message.contains("was told to fail"), "{order:#}");
}

pub(crate) fn one_list(peers: &Peers) {
    let lab = start_temporal(peers);
    let restate = RestatePeers::named().map(|peers| RestateLab::new(&peers, ""));
    let mut config = temporal_config(&lab);
    config.push_str("[providers.builtin]\nkind = \"builtin\"\npath = \"store.db\"\n");
    match &restate {
        Ok(restate) => config.push_str(&restate.provider_config()),
        Err(missing) => println!("summary: temporal: the list is shown without Restate: {missing}"),
    }
    let gateway = Gateway::start(&config);
    gateway.start_order(&lab);
    std::fs::write(gateway.folder.path().join("shipping.yaml"), SHIPPING).unwrap();
    gateway
        .run(&["definitions", "apply", "shipping.yaml"])
        .exits(0);
    gateway
        .run(&[
            "start",
            "definitions/shipping",
            "--id",
            "parcel-7",
            "--input",
            "{}",
        ])
        .exits(0);
    if let Ok(restate) = &restate {
        restate.tell("charge-7", "fail");
        let started = gateway.run(&[
            "start",
            "lab/Lab/charge",
            "--input",
            r#""charge-7""#,
            "-o",
            "json",
        ]);
        let name = crate::lab::name(&started.exits(0).json());
        gateway
            .run(&["wait", &name, "--for", "backing-off"])
            .exits(0);
    }

    // Lists of Temporal lag behind its writes.
    lab.namespace(NAMESPACE).until_listed("order-7");
    let list = gateway
        .run(&["list", "--all", "-o", "json"])
        .exits(0)
        .json();
    assert_counts_down(named(&list, "providers/shop/executions/order-7"));
    let parcel = named(&list, "providers/builtin/executions/parcel-7");
    assert_eq!(parcel["sub_state"], "waiting", "{parcel:#}");
    let engines: std::collections::BTreeSet<&str> = list["executions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["name"].as_str()?.split('/').nth(1))
        .collect();
    let expected = if restate.is_ok() { 3 } else { 2 };
    assert_eq!(engines.len(), expected, "{engines:?}");

    let filter = r#"sub_state = "backing-off""#;
    let resting = gateway
        .run(&["list", "--filter", filter, "-o", "json"])
        .exits(0)
        .json();
    let resting = resting["executions"].as_array().unwrap().clone();
    assert_eq!(resting.len(), expected - 1, "{resting:#?}");
    assert!(
        resting.iter().all(|it| it["sub_state"] == "backing-off"),
        "{resting:#?}"
    );

    let top = gateway.run(&["top", "--once"]).exits(0).out;
    let counts_down = "attempt 1 of 5 failed; next attempt in ";
    for part in [
        "shop/order-7",
        "backing-off",
        counts_down,
        "builtin/parcel-7",
    ] {
        assert!(top.contains(part), "{part} is missing in\n{top}");
    }
    let page = text_of(&gateway.page("/executions"));
    for part in ["order-7", "backing-off", "next attempt in ", "parcel-7"] {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
    let counted = gateway
        .run(&["count", "--provider", "shop", "-o", "json"])
        .exits(0)
        .json();
    let mut counts = counted["counts"].as_array().unwrap().iter();
    let resting = counts.find(|it| it["sub_state"] == "backing-off");
    let resting = resting.unwrap()["execution_count"].as_u64();
    assert_eq!(resting, Some(1), "{counted:#}");
}

pub(crate) fn temporal_alone(peers: &Peers) {
    let lab = start_temporal(peers);
    let gateway = Gateway::start(&temporal_config(&lab));
    gateway.start_order(&lab);
    let order = gateway
        .run(&["get", "shop/order-7", "-o", "json"])
        .exits(0)
        .json();
    assert_counts_down(&order);
    assert_eq!(order["steps"][0]["name"], "charge-card", "{order:#}");
    let words = gateway.run(&["get", "shop/order-7"]).exits(0).out;
    for part in [
        "attempt 1 of 5 failed",
        "next attempt in ",
        "was told to fail",
    ] {
        assert!(words.contains(part), "{part} is missing in\n{words}");
    }
    let explained = gateway
        .run(&["explain", "shop/order-7", "-o", "json"])
        .exits(0)
        .json();
    assert_counts_down(&explained["execution"]);
    assert_eq!(explained["row"]["native_state"], "RUNNING", "{explained:#}");
    let explained = gateway.run(&["explain", "shop/order-7"]).exits(0).out;
    let retry = "attempt 1 of 5 failed, a retry is scheduled; next attempt at ";
    assert!(explained.contains(retry), "{explained}");
    let counts_down = "attempt 1 of 5 failed; next attempt in ";
    assert!(explained.contains(counts_down), "{explained}");
    let top = gateway.run(&["top", "--once"]).exits(0).out;
    assert!(top.contains(counts_down), "{top}");
    let page = text_of(&gateway.page("/executions/shop/order-7"));
    for part in [
        "backing-off",
        "charge-card",
        "was told to fail",
        "Next attempt in ",
    ] {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
    let history = gateway.run(&["history", "shop/order-7"]).exits(0).out;
    assert!(history.to_lowercase().contains("charge-card"), "{history}");

    lab.tell("order-7", "go");
    gateway.run(&["retry-now", "shop/order-7"]).exits(0);
    gateway.run(&["wait", "shop/order-7"]).exits(0);
    let done = gateway
        .run(&["get", "shop/order-7", "-o", "json"])
        .exits(0)
        .json();
    assert_eq!(done["sub_state"], "succeeded", "{done:#}");
    assert_eq!(done["output"], json!({"done": "order-7"}), "{done:#}");
}

pub(crate) fn killed_server(peers: &Peers) {
    let mut lab = start_temporal(peers);
    let mut config = temporal_config(&lab);
    config.push_str("[providers.builtin]\nkind = \"builtin\"\npath = \"store.db\"\n");
    let gateway = Gateway::start(&config);
    gateway.start_order(&lab);
    lab.server.kill();
    let list = eventually("the list names the provider that does not answer", || {
        let answer = gateway.run(&["list", "--all", "-o", "json"]);
        let list: Value = serde_json::from_str(&answer.out).ok()?;
        list["unreachable"]
            .to_string()
            .contains("shop")
            .then_some(list)
    });
    assert!(list["executions"].is_array(), "{list:#}");
    lab.server.restart();
    let order = eventually("the order is read again", || {
        let answer = gateway.run(&["get", "shop/order-7", "-o", "json"]);
        serde_json::from_str::<Value>(&answer.out)
            .ok()
            .filter(|it| it["sub_state"] == "backing-off")
    });
    assert_counts_down(&order);
}
