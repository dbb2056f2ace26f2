//! A Restate server, a service that fails on request, and a gateway in front of them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::Outcome;
use crate::http::Http;
use crate::process::{self, Server};
use crate::relay::Relay;
use crate::restate::peer;

/// How long anything may take to come up.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// The processes, ended with the benchmark, and what they leave behind.
pub(crate) struct Lab {
    pub(crate) gateway: Server,
    pub(crate) admin: SocketAddr,
    restate: Restate,
}

/// A Restate server and a service, ended with the benchmark, and what they leave behind.
pub(crate) struct Restate {
    pub(crate) ingress: SocketAddr,
    admin: SocketAddr,
    server: Child,
    service: Child,
    folder: Folder,
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // A file that cannot be removed stays in the folder of temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Restate {
    pub(crate) async fn start() -> Outcome<Self> {
        let folder = std::env::temp_dir().join(format!("stateway-bench-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("told"))?;
        let folder = Folder(folder);
        let path = folder.0.as_path();
        let (admin, ingress) = (free_address()?, free_address()?);
        let server = server(path, admin, ingress)?;
        until_it_answers(admin).await?;
        let at = free_address()?;
        let service = Command::new(peer("STATEWAY_RESTATE_SERVICE")?)
            .env("LAB_ADDRESS", at.to_string())
            .env("LAB_FOLDER", path.join("told"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        register(admin, at).await?;
        Ok(Self {
            ingress,
            admin,
            server,
            service,
            folder,
        })
    }

    pub(crate) fn server_id(&self) -> Outcome<u32> {
        Ok(self.server.id().ok_or("the Restate server has ended")?)
    }

    pub(crate) fn service_id(&self) -> Outcome<u32> {
        Ok(self.service.id().ok_or("the service has ended")?)
    }
}

impl Lab {
    pub(crate) async fn new() -> Outcome<Self> {
        let restate = Restate::start().await?;
        let path = restate.folder.0.as_path();
        Ok(Self {
            gateway: gateway(path, "direct", restate.admin, restate.ingress).await?,
            admin: restate.admin,
            restate,
        })
    }

    /// Another gateway, whose queries are counted.
    pub(crate) async fn counted(&self) -> Outcome<(Server, Relay)> {
        let relay = Relay::to(self.admin).await?;
        let gateway = gateway(
            &self.restate.folder.0,
            "counted",
            relay.address,
            self.restate.ingress,
        )
        .await?;
        Ok((gateway, relay))
    }

    /// Tells the attempts that look at this name what to do.
    pub(crate) fn tell(&self, name: &str, what: &str) -> Outcome<()> {
        Ok(std::fs::write(
            self.restate.folder.0.join("told").join(name),
            what,
        )?)
    }
}

async fn gateway(
    folder: &Path,
    name: &str,
    admin: SocketAddr,
    ingress: SocketAddr,
) -> Outcome<Server> {
    let config = folder.join(format!("{name}.toml"));
    let text = format!(
        "[providers.lab]\nkind = \"restate\"\nadmin = {{ url = \"http://{admin}\" }}\n\
         ingress = {{ url = \"http://{ingress}\" }}\n"
    );
    std::fs::write(&config, text)?;
    process::stateway_with(&config).await
}

fn server(folder: &Path, admin: SocketAddr, ingress: SocketAddr) -> Outcome<Child> {
    let config = folder.join("restate.toml");
    let text = format!(
        "node-name = \"bench\"\ncluster-name = \"bench\"\ndisable-telemetry = true\n\
         default-num-partitions = 4\nrocksdb-total-memory-size = \"256 MiB\"\n\
         bind-ip = \"127.0.0.1\"\nadvertised-host = \"127.0.0.1\"\nlisten-mode = \"tcp\"\n\
         [admin]\nbind-port = {}\ndisable-web-ui = true\n[ingress]\nbind-port = {}\n",
        admin.port(),
        ingress.port()
    );
    std::fs::write(&config, text)?;
    let server = Command::new(peer("STATEWAY_RESTATE_SERVER")?)
        .env("DO_NOT_TRACK", "1")
        .arg("--no-logo")
        .arg("--config-file")
        .arg(config)
        .arg("--base-dir")
        .arg(folder.join("data"))
        .args(["--bind-port", &free_address()?.port().to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    Ok(server)
}

pub(crate) async fn until_it_answers(admin: SocketAddr) -> Outcome<()> {
    let probe = r#"{"query":"select count(*) as n from sys_invocation"}"#;
    patiently(|| async move { Http::connect(admin).await?.post("/query", probe).await }).await
}

async fn register(admin: SocketAddr, service: SocketAddr) -> Outcome<()> {
    let body = format!(r#"{{"uri":"http://{service}"}}"#);
    let body = body.as_str();
    patiently(|| async move { Http::connect(admin).await?.post("/deployments", body).await }).await
}

/// Tries until it works, or for too long.
pub(crate) async fn patiently<F: Future<Output = Outcome<String>>>(
    attempt: impl Fn() -> F,
) -> Outcome<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

pub(crate) fn free_address() -> Outcome<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
