//! GetExecution on the in-memory provider against the empty service, turn and turn about.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use stateway_proto::v1;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_proto::v1::triggers_client::TriggersClient;
use tonic::transport::{Channel, Endpoint};

use crate::Outcome;
use crate::process::Server;

const CONNECTIONS: usize = 4;
const CALLS_IN_FLIGHT: usize = 64;
/// Many short rounds, turn and turn about: other work of the machine lasts longer than two rounds and
/// so slows both down alike, and the median leaves out the rounds in which it began or ended.
const ROUND: Duration = Duration::from_millis(100);
const ROUNDS: usize = 101;
/// The promise of the README.
const LEAST_RATIO: f64 = 0.75;

/// The request, and how to connect.
pub(crate) struct Limits<C> {
    pub(crate) least_ratio: f64,
    /// Connects to an address.
    pub(crate) connect: C,
}

pub(crate) async fn run(stateway: &Server, empty: &Server) -> Outcome<()> {
    let name = start_one(stateway, "hello").await?;
    let limits = Limits {
        least_ratio: LEAST_RATIO,
        connect: async |url: &str| {
            let endpoint = Endpoint::from_shared(url.to_owned())?.tcp_nodelay(true);
            Ok(endpoint.connect().await?)
        },
    };
    let get = async |channels| get_calls(channels, &name).await;
    compare((empty, empty_calls), (stateway, get), limits).await
}

/// Calls of the empty service and of the gateway, turn and turn about.
pub(crate) async fn compare(
    (empty, empty_calls): (&Server, impl AsyncFn(Vec<Channel>) -> Outcome<u32>),
    (stateway, get_calls): (&Server, impl AsyncFn(Vec<Channel>) -> Outcome<u32>),
    limits: Limits<impl AsyncFn(&str) -> Outcome<Channel>>,
) -> Outcome<()> {
    let least_ratio = limits.least_ratio;
    println!(
        "GetExecution, {CALLS_IN_FLIGHT} calls in flight on {CONNECTIONS} connections, {ROUNDS} rounds"
    );
    let (mut baselines, mut gateways) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let channels = channels(empty, &limits.connect).await?;
        baselines.push(measured(empty, empty_calls(channels)).await?);
        let channels = self::channels(stateway, &limits.connect).await?;
        gateways.push(measured(stateway, get_calls(channels)).await?);
    }
    println!("                             quarter   median  quarter");
    for (server, rounds) in [("empty service", &baselines), ("GetExecution", &gateways)] {
        let rate = quartiles(rounds.iter().map(|round| round.rate));
        let cpu = quartiles(rounds.iter().map(|round| round.cpu.as_secs_f64() * 1e6));
        println!("{server:13} calls/s       {}", three(rate, 0));
        println!("{server:13} CPU/call, µs  {}", three(cpu, 1));
    }
    let pairs = gateways.iter().zip(&baselines);
    let ratios = quartiles(pairs.map(|(gateway, baseline)| gateway.rate / baseline.rate));
    let median = ratios[1];
    println!("ratio of calls/s            {}", three(ratios, 2));
    println!("median ratio {median:.2} (at least {least_ratio:.2} wanted)\n");
    if median < least_ratio {
        return Err(format!("GetExecution reaches only {median:.2} of an empty service").into());
    }
    Ok(())
}

/// The lower quartile, the median and the upper quartile.
fn quartiles(figures: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| sorted[sorted.len() * quarter / 4])
}

fn three(figures: [f64; 3], digits: usize) -> String {
    figures
        .map(|figure| format!("{figure:8.digits$}"))
        .join(" ")
}

/// Starts an execution of the in-memory provider, and names it.
pub(crate) async fn start_one(stateway: &Server, definition: &str) -> Outcome<String> {
    let mut client = ExecutionsClient::connect(stateway.url.clone()).await?;
    let request = v1::StartExecutionRequest {
        definition: format!("providers/memory/definitions/{definition}"),
        ..Default::default()
    };
    Ok(client.start_execution(request).await?.into_inner().name)
}

/// One round of calls.
struct Measured {
    /// Calls per second.
    rate: f64,
    /// The processor time of the server per call.
    cpu: Duration,
}

/// Measures one round: its calls, its time, and what the server used of the processor. The connections
/// were made before.
async fn measured(server: &Server, calls: impl Future<Output = Outcome<u32>>) -> Outcome<Measured> {
    let before = server.cpu_time()?;
    let began = Instant::now();
    let calls = calls.await?;
    let took = began.elapsed();
    let used = server.cpu_time()?.saturating_sub(before);
    Ok(Measured {
        rate: f64::from(calls) / took.as_secs_f64(),
        cpu: used / calls.max(1),
    })
}

async fn get_calls(channels: Vec<Channel>, name: &str) -> Outcome<u32> {
    round(|worker, until| {
        let mut client = ExecutionsClient::new(channels[worker % CONNECTIONS].clone());
        let request = v1::GetExecutionRequest {
            name: name.to_owned(),
            view: v1::ExecutionView::Full.into(),
        };
        async move {
            let mut done = 0;
            while Instant::now() < until {
                client.get_execution(request.clone()).await?;
                done += 1;
            }
            Ok(done)
        }
    })
    .await
}

pub(crate) async fn empty_calls(channels: Vec<Channel>) -> Outcome<u32> {
    round(|worker, until| {
        let mut client = TriggersClient::new(channels[worker % CONNECTIONS].clone());
        async move {
            let mut done = 0;
            while Instant::now() < until {
                client
                    .publish_event(v1::PublishEventRequest::default())
                    .await?;
                done += 1;
            }
            Ok(done)
        }
    })
    .await
}

async fn channels(
    server: &Server,
    connect: &impl AsyncFn(&str) -> Outcome<Channel>,
) -> Outcome<Vec<Channel>> {
    try_join_all((0..CONNECTIONS).map(|_| connect(&server.url))).await
}

/// The calls of one round, each worker a task of its own.
pub(crate) async fn round<F>(worker: impl Fn(usize, Instant) -> F) -> Outcome<u32>
where
    F: Future<Output = Result<u32, tonic::Status>> + Send + 'static,
{
    let until = Instant::now() + ROUND;
    let workers = (0..CALLS_IN_FLIGHT).map(|index| tokio::spawn(worker(index, until)));
    let mut done = 0;
    for counted in workers.collect::<Vec<_>>() {
        done += counted.await??;
    }
    Ok(done)
}
