//! Chains on one Restate server, and on a cluster.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, Command};

use super::{Engine, Lab};
use crate::Outcome;
use crate::lab::{free_address, until_it_answers};
use crate::restate::peer;

/// Executions that are under way at the same time.
const IN_FLIGHT: usize = 64;
/// How long a measurement lasts, and the one before it.
const SECONDS: u64 = 15;
const WARM_UP: u64 = 4;
/// What is promised for one server, in executions per second.
const LEAST: f64 = 150.0;

pub(crate) async fn run(nodes: u64) -> Outcome<()> {
    println!("load average {}", crate::restate::load());
    let mut reached = 0.0;
    for nodes in [1, nodes].iter().take(if nodes > 1 { 2 } else { 1 }) {
        let lab = lab(usize::try_from(*nodes)?).await?;
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

async fn lab(nodes: usize) -> Outcome<Lab> {
    let folder = tempfile::tempdir()?;
    let (servers, admin, ingress) = begin_servers(folder.path(), nodes).await?;
    let host = free_address()?;
    let provider = format!(
        "kind = \"restate-host\"\nadmin = {{ url = \"http://{admin}\" }}\n\
         ingress = {{ url = \"http://{ingress}\" }}\nhost = {{ listen = \"{host}\" }}\n"
    );
    let engine = Engine {
        name: "Restate",
        servers,
        provider,
        ready: "the host is registered",
    };
    Lab::new(engine, folder).await
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
