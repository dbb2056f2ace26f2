//! Ten thousand watchers on one execution: one upstream stream, and a bounded memory.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use stateway_proto::v1;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_proto::v1::watch_executions_response::Kind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::Outcome;
use crate::get::start_one;
use crate::process::Server;

const WATCHERS: usize = 10_000;
const CONNECTIONS: usize = 50;
const MOST_MIB: f64 = 100.0;

pub(crate) async fn run(stateway: &Server) -> Outcome<()> {
    let name = start_one(stateway, "long").await?;
    let before = stateway.resident_mib()?;
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(ExecutionsClient::connect(stateway.url.clone()).await?);
    }
    let began = Instant::now();
    let mut streams = Vec::new();
    for client in &clients {
        streams.extend(open(client, &name, WATCHERS / CONNECTIONS).await?);
    }
    println!(
        "{} watchers on one execution opened in {:.1?}",
        streams.len(),
        began.elapsed()
    );

    let mut steering = clients[0].clone();
    let pause = v1::PauseExecutionRequest {
        name,
        ..Default::default()
    };
    let began = Instant::now();
    steering.pause_execution(pause).await?;
    try_join_all(streams.iter_mut().map(next_change)).await?;
    println!("a change reached all of them in {:.1?}", began.elapsed());

    let upstream = upstream_watches(stateway).await?;
    let after = stateway.resident_mib()?;
    println!("upstream watch streams opened: {upstream}");
    println!("resident memory: {before:.0} MiB before, {after:.0} MiB now ({MOST_MIB:.0} allowed)");
    if upstream != 1 || after > MOST_MIB {
        return Err("ten thousand watchers cost more than promised".into());
    }
    Ok(())
}

type Stream = Streaming<v1::WatchExecutionsResponse>;

async fn open(client: &ExecutionsClient<Channel>, name: &str, many: usize) -> Outcome<Vec<Stream>> {
    let streams = (0..many).map(|_| {
        let mut client = client.clone();
        let request = v1::WatchExecutionsRequest {
            names: vec![name.to_owned()],
            ..Default::default()
        };
        async move {
            let mut stream = client.watch_executions(request).await?.into_inner();
            while stream
                .message()
                .await?
                .is_some_and(|answer| answer.kind() != Kind::Bookmark)
            {}
            Ok::<Stream, tonic::Status>(stream)
        }
    });
    Ok(try_join_all(streams).await?)
}

async fn next_change(stream: &mut Stream) -> Outcome<()> {
    let change = async {
        while stream
            .message()
            .await?
            .is_some_and(|answer| answer.execution.is_none())
        {}
        Ok::<(), tonic::Status>(())
    };
    Ok(tokio::time::timeout(Duration::from_secs(30), change).await??)
}

/// How many watch streams the gateway has opened to its provider, by its own figures.
async fn upstream_watches(stateway: &Server) -> Outcome<u64> {
    let address = stateway.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    // Of one execution, of its end, or of all executions: each has its own verb.
    let is_watch = |line: &&str| {
        line.starts_with("stateway_upstream_calls_total")
            && line.contains("verb=\"watch")
            && line.contains("outcome=\"ok\"")
    };
    let mut opened = None;
    for line in page.lines().filter(is_watch) {
        let figure: u64 = line.rsplit(' ').next().unwrap_or_default().parse()?;
        opened = Some(opened.unwrap_or(0) + figure);
    }
    Ok(opened.ok_or("no figure for upstream watches")?)
}
