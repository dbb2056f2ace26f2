//! Ten thousand connections that begin a TLS handshake and say nothing more, beside a client that works.
//!
//! The gateway bounds the connections of clients that have proved nothing, so that neither their number nor
//! their age matters to a client that has. The time of its calls is measured in turns, without the silent
//! connections and with them, on the same connection: the ratio of both is the figure, for the medians and for the 99th
//! percentiles.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use stateway_client::{Client, Get, Security, Start};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::{Outcome, process};

/// How many connections stay half open.
const CONNECTIONS: usize = 10_000;
/// Calls of one turn, and turns of each kind.
const CALLS: usize = 500;
const TURNS: usize = 4;
/// The most that the median may grow.
const LIMIT: f64 = 1.5;
/// The most that the 99th percentile may grow while the silent connections are open. The slowest calls depend on what
/// else the machine does, so that the bound is wider. While connections are being opened, this process competes with the
/// gateway for the processors, and only the median says something about the gateway.
const SLOW_LIMIT: f64 = 2.0;
/// The beginning of a TLS record.
const BEGINNING: [u8; 5] = [22, 3, 1, 2, 0];

pub(crate) async fn run() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    certificates(folder.path())?;
    let stateway = std::env::current_exe()?.with_file_name("stateway");
    let keys = path("keys.json");
    let created = std::process::Command::new(stateway)
        .args(["keys", "create", "--subject", "bench", "--file"])
        .arg(&keys)
        .output()?;
    if !created.status.success() {
        return Err(String::from_utf8_lossy(&created.stderr).into());
    }
    let key = String::from_utf8(created.stdout)?;
    let config = path("stateway.toml");
    std::fs::write(
        &config,
        "[server.tls]\ncert = \"server.pem\"\nkey = \"server.key\"\n\
         [authentication.api_keys]\nfile = \"keys.json\"\n[providers.memory]\nkind = \"memory\"\n\
         [[access.rules]]\nname = \"bench\"\nwho = { subject = \"bench\" }\nmay = [\"read\", \"start\"]\n",
    )?;
    let server = process::stateway_with(&config).await?;
    let security = Security::default().ca(path("ca.pem")).token(key.trim())?;
    let client = Client::lazy_with(&server.url, &security)?.without_retries();
    let address: SocketAddr = server.url.trim_start_matches("https://").parse()?;

    let start = Start::new("providers/memory/definitions/hello");
    let name = client.start(start).await?.name;
    measure(&client, &name).await?;
    let (mut quiet, mut during, mut beside) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        quiet.extend(measure(&client, &name).await?);
        let (silent, times) = tokio::join!(half_open(address), measure(&client, &name));
        let silent = silent?;
        during.extend(times?);
        beside.extend(measure(&client, &name).await?);
        drop(silent);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (quiet, during) = (Figures::of(quiet), Figures::of(during));
    let beside = Figures::of(beside);
    println!("calls without silent connections: {quiet}");
    println!("calls while {CONNECTIONS} are opened: {during}");
    println!("calls beside {CONNECTIONS} half-open ones: {beside}");
    let ratio = |figures: &Figures| figures.median.as_secs_f64() / quiet.median.as_secs_f64();
    let (while_opened, after) = (ratio(&during), ratio(&beside));
    println!(
        "ratios of the medians: {while_opened:.2} while they are opened, {after:.2} beside them (limit: {LIMIT})"
    );
    let slow = beside.slow.as_secs_f64() / quiet.slow.as_secs_f64();
    println!("ratio of the 99th percentiles: {slow:.2} beside them (limit: {SLOW_LIMIT})");
    let worst = while_opened.max(after);
    if worst > LIMIT {
        return Err(
            format!("calls take {worst:.2} times as long beside half-open connections").into(),
        );
    }
    if slow > SLOW_LIMIT {
        return Err(format!(
            "the slowest calls take {slow:.2} times as long beside half-open connections"
        )
        .into());
    }
    Ok(())
}

/// Opens connections that never finish their handshake.
async fn half_open(address: SocketAddr) -> Outcome<Vec<TcpStream>> {
    let mut open = Vec::with_capacity(CONNECTIONS);
    while open.len() < CONNECTIONS {
        let batch = (0..100).map(|_| async move {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(&BEGINNING).await?;
            Ok::<_, std::io::Error>(stream)
        });
        for stream in futures::future::join_all(batch).await {
            open.push(stream?);
        }
    }
    Ok(open)
}

async fn measure(client: &Client, name: &str) -> Outcome<Vec<Duration>> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = Instant::now();
        client.get(Get::new(name)).await?;
        times.push(begun.elapsed());
    }
    Ok(times)
}

struct Figures {
    median: Duration,
    slow: Duration,
}

impl Figures {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: usize| times[times.len() * share / 100];
        Self {
            median: at(50),
            slow: at(99),
        }
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "median {:?}, 99 of 100 within {:?}",
            self.median, self.slow
        )
    }
}

/// Writes an authority, and a certificate of this machine.
fn certificates(folder: &std::path::Path) -> Outcome<()> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, "bench");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()])?;
    let certificate = params.signed_by(&key, &authority)?;
    std::fs::write(folder.join("ca.pem"), authority.pem())?;
    std::fs::write(folder.join("server.pem"), certificate.pem())?;
    std::fs::write(folder.join("server.key"), key.serialize_pem())?;
    Ok(())
}
