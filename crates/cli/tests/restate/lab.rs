//! A server, a service and a gateway, and the hand that asks and tells.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Running, eventually, free_port, post};

/// Where the peers are.
pub(crate) struct Peers {
    server: PathBuf,
    older: PathBuf,
    service: PathBuf,
}

impl Peers {
    /// As `cargo xtask test` names them.
    pub(crate) fn named() -> Result<Self, String> {
        let named = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).ok_or_else(|| {
                format!("{name} names no peer; `cargo xtask test` installs and names them")
            })
        };
        Ok(Self {
            server: named("STATEWAY_RESTATE_SERVER")?,
            older: named("STATEWAY_RESTATE_OLDER_SERVER")?,
            service: named("STATEWAY_RESTATE_SERVICE")?,
        })
    }
}

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }
}

#[derive(Clone, Copy)]
struct Ports {
    admin: u16,
    ingress: u16,
    node: u16,
    service: u16,
}

pub(crate) struct Lab {
    folder: TempDir,
    peers: Peers,
    age: Age,
    ports: Ports,
    pub(crate) server: Running,
    pub(crate) service: Running,
    _gateway: Running,
    url: String,
}

impl Lab {
    /// A laboratory of its own, with these lines at the head of the server's configuration.
    pub(crate) fn new(peers: &Peers, settings: &str) -> Self {
        Self::of(Age::Present, peers, settings)
    }

    /// The same with the older server.
    pub(crate) fn older(peers: &Peers) -> Self {
        Self::of(Age::Older, peers, "")
    }

    fn of(age: Age, peers: &Peers, settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("told")).unwrap();
        let peers = Peers {
            server: peers.server.clone(),
            older: peers.older.clone(),
            service: peers.service.clone(),
        };
        let (ports, server) = begin_server((age, &peers), folder.path(), settings);
        let service = begin_service(&peers, folder.path(), ports);
        register(ports);
        let (gateway, url) = begin_gateway(folder.path(), ports);
        Self {
            folder,
            peers,
            age,
            ports,
            server,
            service,
            _gateway: gateway,
            url,
        }
    }

    /// The same server again, on the data it left.
    pub(crate) fn restart_server(&mut self) {
        self.server = run_server((self.age, &self.peers), self.folder.path(), self.ports);
        let ports = self.ports;
        eventually("the server answers queries again", || {
            answers_queries(ports)
        });
    }

    /// The same service again.
    pub(crate) fn restart_service(&mut self) {
        self.service = begin_service(&self.peers, self.folder.path(), self.ports);
    }

    /// The configuration of a provider on this server, for a gateway beside this laboratory's own.
    #[allow(dead_code, reason = "only stories over several engines need it")]
    pub(crate) fn provider_config(&self) -> String {
        provider_config(self.ports)
    }

    /// The ports of the admin API and of the ingress.
    #[allow(dead_code, reason = "only stories with a host need it")]
    pub(crate) fn api_ports(&self) -> (u16, u16) {
        (self.ports.admin, self.ports.ingress)
    }

    /// The other peers, for a laboratory beside this one.
    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Tells all attempts that look at this name what to do.
    pub(crate) fn tell(&self, name: &str, what: &str) {
        // In one step, so that nobody reads half of it.
        let new = self.folder.path().join("new");
        std::fs::write(&new, what).unwrap();
        std::fs::rename(new, self.folder.path().join("told").join(name)).unwrap();
    }

    /// Runs a command of the command line.
    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        let output = self.command(arguments).output().unwrap();
        Answer {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = stateway(self.folder.path());
        command.args(arguments).args(["--server", &self.url]);
        command
    }

    /// Starts a handler and answers the execution's short name.
    #[track_caller]
    pub(crate) fn start(&self, handler: &str, input: &str) -> String {
        let definition = format!("lab/{handler}");
        let started = self.run(&["start", &definition, "--input", input, "-o", "json"]);
        name(&started.exits(0).json())
    }

    #[track_caller]
    pub(crate) fn get(&self, name: &str) -> Value {
        self.run(&["get", name, "-o", "json"]).exits(0).json()
    }

    /// Follows an execution.
    pub(crate) fn watch(&self, name: &str) -> Running {
        Running::begin(&mut self.command(&["watch", name, "-o", "json"]))
    }

    /// Waits until the execution shows this, then sees the same on a list and in an explanation.
    /// What it shows may end only by what the test does next.
    #[track_caller]
    pub(crate) fn sees(&self, name: &str, sub_state: &str, reason: Option<&str>) -> Value {
        let shown = eventually(&format!("{name} is {sub_state} {reason:?}"), || {
            let shown = self.get(name);
            shows(&shown, sub_state, reason).then_some(shown)
        });
        let listed = self.run(&["list", "--all", "-o", "json"]).exits(0).json();
        let listed = listed["executions"].as_array().unwrap().clone();
        let listed = listed.iter().find(|it| it["name"] == shown["name"]);
        let listed = listed.unwrap_or_else(|| panic!("{name} is not listed"));
        assert!(shows(listed, sub_state, reason), "listed as {listed:#}");
        assert_eq!(listed["etag"], shown["etag"], "{listed:#} and {shown:#}");
        let explained = self.run(&["explain", name, "-o", "json"]).exits(0).json();
        assert!(
            shows(&explained["execution"], sub_state, reason),
            "{explained:#}"
        );
        assert_eq!(
            explained["row"]["native_state"], shown["native_state"],
            "{explained:#}"
        );
        assert_eq!(explained["execution"]["etag"], shown["etag"]);
        shown
    }

    /// The same, and that a watch tells it too.
    #[track_caller]
    pub(crate) fn sees_watched(
        &self,
        watch: &Running,
        name: &str,
        sub_state: &str,
        reason: Option<&str>,
    ) -> Value {
        let shown = self.sees(name, sub_state, reason);
        eventually(&format!("the watch of {name} tells {sub_state}"), || {
            let last = told(watch).pop()?;
            shows(&last, sub_state, reason).then_some(())
        });
        shown
    }
}

/// The executions that a watch has told of.
pub(crate) fn told(watch: &Running) -> Vec<Value> {
    let lines = watch.said();
    let changes = lines
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let executions = changes.map(|change| change["execution"].clone());
    executions
        .filter(|execution| !execution.is_null())
        .collect()
}

fn shows(execution: &Value, sub_state: &str, reason: Option<&str>) -> bool {
    execution["sub_state"] == sub_state && execution["reason"].as_str() == reason
}

/// `lab/inv_…`
pub(crate) fn name(execution: &Value) -> String {
    let id = execution["name"]
        .as_str()
        .unwrap()
        .rsplit('/')
        .next()
        .unwrap();
    format!("lab/{id}")
}

fn stateway(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stateway"));
    command.current_dir(folder).env_clear();
    command
}

/// How often a server is begun again because someone else took one of its ports.
const TRIES: usize = 3;

/// Which of the two servers.
#[derive(Clone, Copy)]
enum Age {
    Present,
    Older,
}

fn begin_server(server: (Age, &Peers), folder: &Path, settings: &str) -> (Ports, Running) {
    for _ in 0..TRIES {
        let ports = Ports {
            admin: free_port(),
            ingress: free_port(),
            node: free_port(),
            service: free_port(),
        };
        let config = match server.0 {
            Age::Present => present_config(ports, settings),
            Age::Older => older_config(ports),
        };
        std::fs::write(folder.join("restate.toml"), config).unwrap();
        let mut running = run_server(server, folder, ports);
        let ready = eventually("the server answers queries or ends", || {
            if running.is_alive() {
                answers_queries(ports).map(|()| true)
            } else {
                Some(false)
            }
        });
        if ready {
            return (ports, running);
        }
        println!("the server ended early: {:?}", running.talked());
    }
    panic!("no server after {TRIES} tries");
}

fn present_config(Ports { admin, ingress, .. }: Ports, settings: &str) -> String {
    format!(
        "{settings}\nnode-name = \"lab\"\ncluster-name = \"lab\"\ndisable-telemetry = true\n\
         default-num-partitions = 4\nrocksdb-total-memory-size = \"256 MiB\"\n\
         bind-ip = \"127.0.0.1\"\nadvertised-host = \"127.0.0.1\"\nlisten-mode = \"tcp\"\n\
         [admin]\nbind-port = {admin}\ndisable-web-ui = true\n\
         [ingress]\nbind-port = {ingress}\n"
    )
}

/// Addresses are written otherwise, and pausing has to be allowed.
fn older_config(ports: Ports) -> String {
    let Ports {
        admin,
        ingress,
        node,
        ..
    } = ports;
    format!(
        "node-name = \"lab\"\ncluster-name = \"lab\"\ndisable-telemetry = true\n\
         default-num-partitions = 4\nrocksdb-total-memory-size = \"256 MiB\"\n\
         bind-address = \"127.0.0.1:{node}\"\nadvertised-address = \"http://127.0.0.1:{node}\"\n\
         auto-provision = true\n\
         [admin]\nbind-address = \"127.0.0.1:{admin}\"\n\
         [ingress]\nbind-address = \"127.0.0.1:{ingress}\"\n\
         [default-retry-policy]\ninitial-interval = \"500ms\"\nmax-attempts = 70\n\
         on-max-attempts = \"pause\"\n"
    )
}

fn run_server((age, peers): (Age, &Peers), folder: &Path, ports: Ports) -> Running {
    let mut command = match age {
        Age::Present => {
            let mut command = Command::new(&peers.server);
            let node = ports.node.to_string();
            command.args(["--no-logo", "--bind-port", &node]);
            command
        }
        Age::Older => Command::new(&peers.older),
    };
    command
        .env("DO_NOT_TRACK", "1")
        .arg("--config-file")
        .arg(folder.join("restate.toml"))
        .arg("--base-dir")
        .arg(folder.join("data"));
    Running::begin(&mut command)
}

/// Health is answered a moment before queries are.
fn answers_queries(ports: Ports) -> Option<()> {
    let probe = r#"{"query":"select count(*) as n from sys_invocation"}"#;
    let (status, _) = post(ports.admin, "/query", probe)?;
    (status == 200).then_some(())
}

fn begin_service(peers: &Peers, folder: &Path, ports: Ports) -> Running {
    let mut command = Command::new(&peers.service);
    command
        .env("LAB_ADDRESS", format!("127.0.0.1:{}", ports.service))
        .env("LAB_FOLDER", folder.join("told"));
    let mut service = Running::begin(&mut command);
    eventually("the service listens", || {
        assert!(service.is_alive(), "the service ended early");
        service.said().contains(&"ready".to_owned()).then_some(())
    });
    service
}

fn register(ports: Ports) {
    let body = format!(r#"{{"uri":"http://127.0.0.1:{}"}}"#, ports.service);
    eventually("the service is registered", || {
        let (status, answer) = post(ports.admin, "/deployments", &body)?;
        assert!(status < 500, "{answer}");
        (status == 201 || status == 200).then_some(())
    });
}

fn provider_config(ports: Ports) -> String {
    format!(
        "[providers.lab]\nkind = \"restate\"\n\
         admin = {{ url = \"http://127.0.0.1:{}\" }}\n\
         ingress = {{ url = \"http://127.0.0.1:{}\" }}\n\
         signals = {{ approval = \"approve\" }}\n",
        ports.admin, ports.ingress
    )
}

fn begin_gateway(folder: &Path, ports: Ports) -> (Running, String) {
    std::fs::write(folder.join("stateway.toml"), provider_config(ports)).unwrap();
    let mut command = stateway(folder);
    command.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn"]);
    let gateway = Running::begin(&mut command);
    let url = eventually("the gateway listens", || {
        let talked = gateway.talked();
        let line = talked.iter().find(|line| line.contains("http://"))?;
        let from = line.find("http://")?;
        line[from..].split(' ').next().map(str::to_owned)
    });
    (gateway, url)
}
