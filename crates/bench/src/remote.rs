//! GetExecution through a provider in another process, beside the same provider inside the gateway.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_proto::v1;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_provider_api::table::compiled_in;
use stateway_provider_memory::{Config, MemoryProvider};
use stateway_provider_server::{About, Listener, ProviderServer, serve};
use tokio::net::TcpListener;
use tonic::transport::Channel;

use crate::Outcome;
use crate::process;

const ROUNDS: usize = 21;
const CALLS: usize = 100;
/// The wire may add at most this to the median.
const MOST_ADDED: Duration = Duration::from_micros(500);
/// How long the gateway may take to connect to the providers.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serves the in-memory provider: on a unix socket, and on a port of this machine.
pub(crate) async fn serve_memory(socket: &str) -> Outcome<()> {
    let table = compiled_in("memory").ok_or("the table is not compiled in")?;
    let provider = MemoryProvider::new("far".parse()?, &Config::default(), table)?;
    let server = ProviderServer::new(Arc::new(provider), About::new("bench", "1"));
    let port = TcpListener::bind("127.0.0.1:0").await?;
    let unix = Listener::unix(socket)?;
    eprintln!("listening on http://{}", port.local_addr()?);
    let forever = std::future::pending;
    let unix = serve(unix, server.routes(), forever());
    let port = serve(Listener::plain(port)?, server.routes(), forever());
    tokio::try_join!(unix, port)?;
    Ok(())
}

pub(crate) async fn run() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("far.sock");
    let far = process::memory_provider(socket.to_str().ok_or("the path is not text")?).await?;
    let config = folder.path().join("stateway.toml");
    std::fs::write(&config, configuration(&socket, &far.url))?;
    let gateway = process::stateway_with(&config).await?;
    let client = ExecutionsClient::connect(gateway.url.clone()).await?;
    let ways = ["near", "unix", "port"];
    let mut names = Vec::new();
    for way in ways {
        names.push(start(&client, way).await?);
    }
    println!("GetExecution, one call in flight, {CALLS} of each a round");
    println!(
        "round  in process p50 ms  unix socket p50 ms  loopback p50 ms  added: unix  loopback"
    );
    let mut added = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        let [near, unix, port] = measured(&client, &names).await?;
        // The first round warms everything up.
        if round == 0 {
            continue;
        }
        let over = [unix - near, port - near];
        println!(
            "{round:5}  {near:17.3}  {unix:18.3}  {port:15.3}  {:11.3}  {:8.3}",
            over[0], over[1]
        );
        added[0].push(over[0]);
        added[1].push(over[1]);
    }
    let [unix, port] = added.map(median);
    let most = MOST_ADDED.as_secs_f64() * 1e3;
    println!(
        "added at the median: unix socket {unix:.3} ms, loopback {port:.3} ms (at most {most:.3} ms)"
    );
    if unix.max(port) <= most {
        Ok(())
    } else {
        Err("that is more than promised".into())
    }
}

fn configuration(socket: &Path, url: &str) -> String {
    format!(
        "[providers.near]\nkind = \"memory\"\n\
         [providers.unix]\nkind = \"remote\"\naddress = \"unix:{}\"\n\
         [providers.port]\nkind = \"remote\"\naddress = \"{url}\"\n",
        socket.display()
    )
}

/// Starts an execution, once the provider is connected.
async fn start(client: &ExecutionsClient<Channel>, provider: &str) -> Outcome<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let request = v1::StartExecutionRequest {
            definition: format!("providers/{provider}/definitions/hello"),
            ..Default::default()
        };
        match client.clone().start_execution(request).await {
            Ok(started) => return Ok(started.into_inner().name),
            Err(status) if Instant::now() > end => return Err(status.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// The median of each way in milliseconds. Which way comes first changes with every call.
async fn measured(client: &ExecutionsClient<Channel>, names: &[String]) -> Outcome<[f64; 3]> {
    let mut took = [const { Vec::new() }; 3];
    for call in 0..CALLS {
        for turn in 0..3 {
            let way = (call + turn) % 3;
            let request = v1::GetExecutionRequest {
                name: names[way].clone(),
                view: v1::ExecutionView::Basic.into(),
            };
            let began = Instant::now();
            client.clone().get_execution(request).await?;
            took[way].push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(took.map(median))
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
