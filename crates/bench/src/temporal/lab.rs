//! A Temporal server, a worker that runs scripts, and a gateway in front of them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, Command};

use super::wire::Frontend;
use crate::Outcome;
use crate::process::{self, Server};

/// How long anything may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The processes, ended with the benchmark.
pub(super) struct Lab {
    pub(super) gateway: Server,
    pub(super) address: String,
    metrics: u16,
    _server: Child,
    /// The worker ends when its input does.
    _worker: (Child, ChildStdin),
    _folder: TempDir,
}

impl Lab {
    pub(super) async fn new() -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let (port, metrics) = (free_port()?, free_port()?);
        let server = server((port, metrics), folder.path(), &[])?;
        let address = format!("http://127.0.0.1:{port}");
        until_it_answers(&address).await?;
        let worker = worker(port, &folder).await?;
        let config = folder.path().join("stateway.toml");
        let text = format!(
            "[providers.lab]\nkind = \"temporal\"\naddress = \"{address}\"\ntask_queue = \"lab\"\n"
        );
        std::fs::write(&config, text)?;
        Ok(Self {
            gateway: process::stateway_with(&config).await?,
            address,
            metrics,
            _server: server,
            _worker: worker,
            _folder: folder,
        })
    }

    /// How many requests the frontend has received, by operation.
    pub(super) async fn requests(&self) -> Outcome<BTreeMap<String, f64>> {
        self.figures("service_requests").await
    }

    /// How many requests of an operation are under way.
    pub(super) async fn pending(&self, operation: &str) -> Outcome<f64> {
        let pending = self.figures("service_pending_requests").await?;
        Ok(pending.get(operation).copied().unwrap_or_default())
    }

    /// A metric of the frontend, by operation.
    async fn figures(&self, metric: &str) -> Outcome<BTreeMap<String, f64>> {
        let metric = format!("{metric}{{");
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.metrics)).await?;
        let request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let mut counts = BTreeMap::new();
        let lines = answer.lines().filter(|line| line.starts_with(&metric));
        for line in lines.filter(|line| line.contains("service_name=\"frontend\"")) {
            let operation = line.split("operation=\"").nth(1);
            let operation = operation.and_then(|rest| rest.split('"').next());
            let count = line
                .rsplit(' ')
                .next()
                .and_then(|count| count.parse::<f64>().ok());
            if let (Some(operation), Some(count)) = (operation, count) {
                *counts.entry(operation.to_owned()).or_insert(0.0) += count;
            }
        }
        if counts.is_empty() {
            return Err(format!("the server shows no {metric}").into());
        }
        Ok(counts)
    }
}

/// With a database file, as a server that keeps its state has it, and with these namespaces beside `default`.
pub(crate) fn server(
    (port, metrics): (u16, u16),
    folder: &Path,
    namespaces: &[&str],
) -> Outcome<Child> {
    let (port, metrics, http) = (
        port.to_string(),
        metrics.to_string(),
        free_port()?.to_string(),
    );
    let mut server = Command::new(peer("STATEWAY_TEMPORAL_SERVER")?);
    server
        .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1"])
        .args([
            "--port",
            &port,
            "--http-port",
            &http,
            "--metrics-port",
            &metrics,
        ])
        .args(["--log-level", "error"])
        .arg("--db-filename")
        .arg(folder.join("temporal.db"))
        .args(["--sqlite-pragma", "journal_mode=wal"])
        .args(["--sqlite-pragma", "synchronous=normal"])
        .args([
            "--dynamic-config-value",
            "history.transferProcessorMaxPollRPS=100",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    for namespace in namespaces {
        server.args(["--namespace", namespace]);
    }
    Ok(server.spawn()?)
}

pub(crate) async fn until_it_answers(address: &str) -> Outcome<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        let answered = async {
            let frontend = Frontend::connect(address).await?;
            frontend.send("DescribeNamespace", "").await
        };
        match answered.await {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// The worker of the live tests, in the namespace `default`.
async fn worker(port: u16, folder: &TempDir) -> Outcome<(Child, ChildStdin)> {
    let script =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/temporal/worker.py");
    let mut worker = Command::new(peer("STATEWAY_TEMPORAL_PYTHON")?)
        .arg(script)
        .arg(format!("127.0.0.1:{port}"))
        .arg(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut input = worker.stdin.take().ok_or("the worker has no stdin")?;
    input.write_all(b"{\"begin\": \"default\"}\n").await?;
    input.flush().await?;
    let output = worker.stdout.take().ok_or("the worker has no stdout")?;
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = tokio::time::timeout(PATIENCE, lines.next_line()).await?? {
        if line.starts_with("ready") {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok((worker, input));
        }
    }
    Err("the worker ended before it was ready".into())
}

pub(crate) fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Where a peer is, as `cargo xtask bench` names it.
fn peer(variable: &str) -> Outcome<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.ok_or_else(|| format!("{variable} is not set; use `cargo xtask bench temporal`").into())
}
