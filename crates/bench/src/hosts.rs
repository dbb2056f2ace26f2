//! Portable executions on a host inside real Restate servers: chains of five steps through gateway, host and
//! worker, on one server and on a cluster of three.
//!
//! The worker is a part of this process, so that the load knows when the last step of an execution is done
//! without asking: an answer that waits for the end would measure how often the gateway polls.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stateway_client::{Task, TaskError, Worker, WorkerNews};
use stateway_proto::v1;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;
use tokio::process::{Child, Command};
use tokio::sync::{Notify, Semaphore};

use crate::Outcome;
use crate::engine::{cpu, source};
use crate::http::Http;
use crate::lab::{free_address, patiently, until_it_answers};
use crate::process::{Server, stateway_host, stateway_with};
use crate::restate::peer;

/// Executions that are under way at the same time.
const IN_FLIGHT: usize = 64;
/// How long a measurement lasts, and the one before it.
const SECONDS: u64 = 15;
const WARM_UP: u64 = 4;
/// The required rate of one server, in executions per second.
const LEAST: f64 = 150.0;
const LAST_STEP: &str = "s5";

pub(crate) async fn run(nodes: u64) -> Outcome<()> {
    println!("load average {}", crate::restate::load());
    let mut reached = 0.0;
    for nodes in [1, nodes].iter().take(if nodes > 1 { 2 } else { 1 }) {
        let lab = Lab::new(usize::try_from(*nodes)?).await?;
        lab.measure(IN_FLIGHT, WARM_UP).await?;
        let figures = lab.measure(IN_FLIGHT, SECONDS).await?;
        println!("\n{nodes} Restate servers, chains of 5, {IN_FLIGHT} under way\n{figures}");
        if *nodes == 1 {
            reached = figures.rate();
            let alone = lab.measure(1, 5).await?;
            println!("\none Restate server, chains of 5, one at a time\n{alone}");
        }
        lab.check().await?;
    }
    println!("load average {}", crate::restate::load());
    if reached < LEAST {
        return Err(format!("{reached:.0} executions/s on one server, {LEAST:.0} wanted").into());
    }
    Ok(())
}

/// Servers, a host, a gateway, and a worker in this process.
struct Lab {
    gateway: Server,
    host: Server,
    servers: Vec<Child>,
    load: Arc<Load>,
    _folder: tempfile::TempDir,
}

/// The state that the load and the worker share.
struct Load {
    /// When an execution was started, and how long its last step took to come.
    began: Mutex<HashMap<String, Instant>>,
    took: Mutex<Vec<Duration>>,
    free: Semaphore,
    ended: Notify,
    started: Mutex<u64>,
}

struct Figures {
    took: Vec<Duration>,
    lasted: Duration,
    cpu: [(&'static str, Duration); 4],
}

impl Lab {
    async fn new(nodes: usize) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let (servers, admin, ingress) = begin_servers(folder.path(), nodes).await?;
        let config = folder.path().join("stateway.toml");
        let host = free_address()?;
        let text = format!(
            "[providers.flows]\nkind = \"restate-host\"\nadmin = {{ url = \"http://{admin}\" }}\n\
             ingress = {{ url = \"http://{ingress}\" }}\nhost = {{ listen = \"{host}\" }}\n\
             limits = {{ max_concurrent = 256 }}\n"
        );
        std::fs::write(&config, text)?;
        let host = stateway_host(&config).await?;
        let registered = "/services/stateway.Execution";
        patiently(|| async move { Http::connect(admin).await?.get(registered).await }).await?;
        let gateway = stateway_with(&config).await?;
        let mut definitions = DefinitionsClient::connect(gateway.url.clone()).await?;
        let request = v1::ApplyDefinitionRequest {
            source: source(5),
            source_name: "chain.yaml".to_owned(),
            ..Default::default()
        };
        definitions.apply_definition(request).await?;
        let load = Arc::new(Load {
            began: Mutex::default(),
            took: Mutex::default(),
            free: Semaphore::new(0),
            ended: Notify::new(),
            started: Mutex::new(0),
        });
        let ready = Arc::new(Notify::new());
        tokio::spawn(work(
            gateway.url.clone(),
            Arc::clone(&load),
            Arc::clone(&ready),
        ));
        ready.notified().await;
        Ok(Self {
            gateway,
            host,
            servers,
            load,
            _folder: folder,
        })
    }

    /// Keeps a constant number of executions running for a time, then waits until all have finished.
    async fn measure(&self, in_flight: usize, seconds: u64) -> Outcome<Figures> {
        let load = &self.load;
        load.free.add_permits(in_flight);
        load.took.lock().expect("no holder panics").clear();
        let before = self.cpu()?;
        let began = Instant::now();
        let until = began + Duration::from_secs(seconds);
        let client = ExecutionsClient::connect(self.gateway.url.clone()).await?;
        let mut starts = tokio::task::JoinSet::new();
        while Instant::now() < until {
            load.free.acquire().await?.forget();
            let (client, load) = (client.clone(), Arc::clone(load));
            starts.spawn(async move { load.start(client).await });
            while let Some(started) = starts.try_join_next() {
                started??;
            }
        }
        while let Some(started) = starts.join_next().await {
            started??;
        }
        let patience = Instant::now() + Duration::from_secs(30);
        while !load.began.lock().expect("no holder panics").is_empty() {
            if Instant::now() > patience {
                return Err("executions have not ended".into());
            }
            let _ = tokio::time::timeout(Duration::from_millis(50), load.ended.notified()).await;
        }
        let lasted = began.elapsed();
        load.free
            .acquire_many(u32::try_from(in_flight)?)
            .await?
            .forget();
        let after = self.cpu()?;
        let mut took = load.took.lock().expect("no holder panics").clone();
        took.sort_unstable();
        let mut cpu = after;
        for (after, before) in cpu.iter_mut().zip(before) {
            after.1 = after.1.saturating_sub(before.1);
        }
        Ok(Figures { took, lasted, cpu })
    }

    /// The processor time of everything so far.
    fn cpu(&self) -> Outcome<[(&'static str, Duration); 4]> {
        let mut servers = Duration::ZERO;
        for server in &self.servers {
            let id = server.id().ok_or("a Restate server has ended")?;
            servers += cpu(&format!("/proc/{id}/stat"))?;
        }
        Ok([
            ("Restate", servers),
            ("host", cpu(&format!("/proc/{}/stat", self.host.id()?))?),
            (
                "gateway",
                cpu(&format!("/proc/{}/stat", self.gateway.id()?))?,
            ),
            ("worker and load", cpu("/proc/self/stat")?),
        ])
    }

    /// Every execution that was started has succeeded.
    async fn check(&self) -> Outcome<()> {
        let mut client = ExecutionsClient::connect(self.gateway.url.clone()).await?;
        let started = *self.load.started.lock().expect("no holder panics");
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let request = v1::CountExecutionsRequest {
                parent: "providers/flows".to_owned(),
            };
            let counted = client.count_executions(request).await?.into_inner();
            let succeeded = counted.counts.iter();
            let succeeded = succeeded.filter(|it| it.sub_state() == v1::SubState::Succeeded);
            let succeeded: i64 = succeeded.map(|it| it.execution_count).sum();
            if succeeded == i64::try_from(started)? {
                println!("  {succeeded} of {started} executions succeeded");
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("{succeeded} of {started} executions succeeded").into());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Load {
    async fn start(&self, mut client: ExecutionsClient<tonic::transport::Channel>) -> Outcome<()> {
        let id = {
            let mut started = self.started.lock().expect("no holder panics");
            *started += 1;
            format!("bench-{started}")
        };
        {
            let mut began = self.began.lock().expect("no holder panics");
            began.insert(id.clone(), Instant::now());
        }
        let request = v1::StartExecutionRequest {
            parent: "providers/flows".to_owned(),
            definition: "definitions/chain-5".to_owned(),
            request_id: id.clone(),
            execution_id: id,
            input: Some(v1::Payload {
                data: (&br#"{"order":42}"#[..]).into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        client.start_execution(request).await?;
        Ok(())
    }

    /// The last step of an execution is done.
    fn end(&self, execution: &str) {
        let id = execution.rsplit('/').next().unwrap_or_default();
        let began = self.began.lock().expect("no holder panics").remove(id);
        if let Some(began) = began {
            let mut took = self.took.lock().expect("no holder panics");
            took.push(began.elapsed());
            self.free.add_permits(1);
            self.ended.notify_one();
        }
    }
}

async fn work(url: String, load: Arc<Load>, ready: Arc<Notify>) {
    let worker = Worker::new(&url)
        .role("bench")
        .capacity(256)
        .observe(move |news| {
            if let WorkerNews::Connected { .. } = news {
                ready.notify_one();
            }
        });
    let done = move |task: Task| {
        let load = Arc::clone(&load);
        async move {
            if task.step() == LAST_STEP {
                load.end(task.execution());
            }
            Ok::<_, TaskError>(serde_json::json!({ "ok": true }))
        }
    };
    if let Err(error) = worker.run(done).await {
        eprintln!("the worker has ended: {error}");
    }
}

/// Starts servers that are one cluster, and waits until each of them answers queries. The addresses are those
/// of the first one.
async fn begin_servers(
    folder: &Path,
    nodes: usize,
) -> Outcome<(Vec<Child>, SocketAddr, SocketAddr)> {
    let mut addresses = Vec::new();
    for _ in 0..nodes {
        addresses.push([free_address()?, free_address()?, free_address()?]);
    }
    let config = folder.join("restate.toml");
    let mut text = "cluster-name = \"bench\"\ndisable-telemetry = true\n\
         default-num-partitions = 12\nrocksdb-total-memory-size = \"256 MiB\"\n"
        .to_owned();
    if nodes > 1 {
        let all = addresses
            .iter()
            .map(|[node, ..]| format!("\"http://{node}\""));
        let all: Vec<_> = all.collect();
        text.push_str("default-replication = 2\nroles = [\"admin\", \"worker\", \"metadata-server\", \"log-server\", \"http-ingress\"]\n");
        text.push_str(&format!(
            "[metadata-client]\ntype = \"replicated\"\naddresses = [{}]\n",
            all.join(", ")
        ));
    }
    std::fs::write(&config, text)?;
    let mut servers = Vec::new();
    for (nth, [node, admin, ingress]) in addresses.iter().enumerate() {
        let server = Command::new(peer("STATEWAY_RESTATE_SERVER")?)
            .env("DO_NOT_TRACK", "1")
            .env("RESTATE_ADMIN__BIND_ADDRESS", admin.to_string())
            .env("RESTATE_INGRESS__BIND_ADDRESS", ingress.to_string())
            .env("RESTATE_AUTO_PROVISION", (nth == 0).to_string())
            .arg("--no-logo")
            .arg("--config-file")
            .arg(&config)
            .args(["--node-name", &format!("n{}", nth + 1)])
            .arg("--base-dir")
            .arg(folder.join(format!("data{nth}")))
            .args(["--bind-address", &node.to_string()])
            .args(["--advertised-address", &format!("http://{node}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        servers.push(server);
    }
    for [_, admin, _] in &addresses {
        until_it_answers(*admin).await?;
    }
    let [_, admin, ingress] = addresses[0];
    Ok((servers, admin, ingress))
}

impl Figures {
    fn rate(&self) -> f64 {
        self.took.len() as f64 / self.lasted.as_secs_f64()
    }

    fn percentile(&self, percent: usize) -> f64 {
        let at = self.took.len() * percent / 100;
        let took = self.took.get(at).copied().unwrap_or_default();
        took.as_secs_f64() * 1_000.0
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "  {:.0} executions/s, start to last step p50 {:.0} ms, p99 {:.0} ms\n  CPU per execution:",
            self.rate(),
            self.percentile(50),
            self.percentile(99)
        )?;
        for (what, time) in self.cpu {
            let each = time.as_secs_f64() * 1_000.0 / self.took.len().max(1) as f64;
            write!(f, " {what} {each:.2} ms")?;
        }
        Ok(())
    }
}
