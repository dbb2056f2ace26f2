//! The servers under measurement, each a process of its own that ends with the benchmark.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::Outcome;

/// A server process and where it listens.
pub(crate) struct Server {
    child: Child,
    /// Empty until the server listens.
    pub(crate) url: String,
}

/// The gateway with the in-memory provider.
pub(crate) async fn stateway() -> Outcome<Server> {
    let config = std::env::temp_dir().join(format!("stateway-bench-{}.toml", std::process::id()));
    std::fs::write(&config, "[providers.memory]\nkind = \"memory\"\n")?;
    let server = stateway_with(&config).await;
    std::fs::remove_file(config)?;
    server
}

/// The gateway with this configuration.
pub(crate) async fn stateway_with(config: &Path) -> Outcome<Server> {
    let binary = std::env::current_exe()?.with_file_name("stateway");
    let config = config.to_str().ok_or("the path is not text")?;
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--log",
        "warn",
        "--config",
        config,
    ];
    start(binary, &arguments).await
}

/// The host of the only provider of this configuration, once it prints this.
pub(crate) async fn stateway_host(config: &Path, ready: &str) -> Outcome<Server> {
    let binary = std::env::current_exe()?.with_file_name("stateway");
    let config = config.to_str().ok_or("the path is not text")?;
    let mut server = spawn(&binary, &["host", "--log", "warn", "--config", config])?;
    server.until(|line| line.contains(ready)).await?;
    Ok(server)
}

/// The gateway with this configuration at this address, once it listens.
pub(crate) async fn stateway_on(config: &Path, address: &str) -> Outcome<Server> {
    let mut server = spawn_on(config, address)?;
    server.listen().await?;
    Ok(server)
}

/// The gateway with this configuration at this address, which does not listen yet.
pub(crate) fn spawn_on(config: &Path, address: &str) -> Outcome<Server> {
    let binary = std::env::current_exe()?.with_file_name("stateway");
    let config = config.to_str().ok_or("the path is not text")?;
    let arguments = [
        "serve", "--listen", address, "--log", "error", "--config", config,
    ];
    spawn(&binary, &arguments)
}

/// A worker of the engine's benchmark.
pub(crate) async fn bench_worker(url: &str, capacity: u32) -> Outcome<Server> {
    let capacity = capacity.to_string();
    start(std::env::current_exe()?, &["worker", url, &capacity]).await
}

/// The baseline.
pub(crate) async fn empty_service() -> Outcome<Server> {
    start(std::env::current_exe()?, &["empty-service"]).await
}

/// The baseline over TLS, with the certificate in this folder.
pub(crate) async fn empty_service_with_tls(folder: &Path) -> Outcome<Server> {
    let folder = folder.to_str().ok_or("the path is not text")?;
    start(std::env::current_exe()?, &["empty-service", folder]).await
}

/// The in-memory provider in a process of its own, on this unix socket and on a port.
pub(crate) async fn memory_provider(socket: &str) -> Outcome<Server> {
    start(std::env::current_exe()?, &["memory-provider", socket]).await
}

/// Starts a server that prints to stderr where it listens.
async fn start(binary: PathBuf, arguments: &[&str]) -> Outcome<Server> {
    let mut server = spawn(&binary, arguments)?;
    server.listen().await?;
    Ok(server)
}

fn spawn(binary: &Path, arguments: &[&str]) -> Outcome<Server> {
    let child = Command::new(binary)
        .args(arguments)
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let url = String::new();
    Ok(Server { child, url })
}

impl Server {
    /// Waits until the server prints its address.
    async fn listen(&mut self) -> Outcome<()> {
        let is_url = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
        let line = self.until(|line| line.split_whitespace().any(|word| is_url(&word)));
        let line = line.await?;
        let mut words = line.split_whitespace();
        words
            .find(is_url)
            .unwrap_or_default()
            .clone_into(&mut self.url);
        Ok(())
    }

    /// Waits until the server prints such a line.
    async fn until(&mut self, is_wanted: impl Fn(&str) -> bool) -> Outcome<String> {
        let stderr = self.child.stderr.take().ok_or("no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut printed = Vec::new();
        while let Some(line) = lines.next_line().await? {
            if is_wanted(&line) {
                // Later messages must not fill the pipe.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(line);
            }
            printed.push(line);
        }
        Err(format!(
            "the server ended before it was ready: {}",
            printed.join("; ")
        )
        .into())
    }

    /// Ends the process immediately, as a power cut would.
    pub(crate) async fn kill(&mut self) -> Outcome<()> {
        self.child.start_kill()?;
        self.child.wait().await?;
        Ok(())
    }

    /// Its process.
    pub(crate) fn id(&self) -> Outcome<u32> {
        Ok(self.child.id().ok_or("it has ended")?)
    }

    /// The processor time that its threads have used, where the system tells.
    pub(crate) fn cpu_time(&self) -> Outcome<Duration> {
        let mut nanos = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.id()?))? {
            let told = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let used = told.split_whitespace().next().ok_or("no schedstat")?;
            nanos += used.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }

    /// Resident memory in MiB, where the system tells.
    pub(crate) fn resident_mib(&self) -> Outcome<f64> {
        resident_mib(self.id()?)
    }
}

/// Resident memory of a process in MiB, where the system tells.
pub(crate) fn resident_mib(process: u32) -> Outcome<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: f64 = line
        .and_then(|line| line.split_whitespace().next())
        .ok_or("no VmRSS")?
        .parse()?;
    Ok(kib / 1024.0)
}
