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
/// Short rounds, turn and turn about: whatever else the machine does meets both alike.
const ROUND: Duration = Duration::from_millis(500);
const ROUNDS: usize = 15;
/// What issue and README promise.
const LEAST_RATIO: f64 = 0.70;

pub(crate) async fn run(stateway: &Server, empty: &Server) -> Outcome<()> {
    let name = start_one(stateway, "hello").await?;
    println!("GetExecution, {CALLS_IN_FLIGHT} calls in flight on {CONNECTIONS} connections");
    println!("round  empty service/s  GetExecution/s  ratio");
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS {
        let baseline = empty_rate(empty).await?;
        let gateway = get_rate(stateway, &name).await?;
        println!(
            "{round:5}  {baseline:15.0}  {gateway:14.0}  {:5.2}",
            gateway / baseline
        );
        ratios.push(gateway / baseline);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    println!("median ratio {median:.2} (at least {LEAST_RATIO:.2} wanted)\n");
    if median < LEAST_RATIO {
        return Err(format!("GetExecution reaches only {median:.2} of an empty service").into());
    }
    Ok(())
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

async fn get_rate(server: &Server, name: &str) -> Outcome<f64> {
    let view = v1::ExecutionView::Full.into();
    let request = v1::GetExecutionRequest {
        name: name.to_owned(),
        view,
    };
    let channels = channels(server).await?;
    rate(|worker, until| {
        let mut client = ExecutionsClient::new(channels[worker % CONNECTIONS].clone());
        let request = request.clone();
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

async fn empty_rate(server: &Server) -> Outcome<f64> {
    let channels = channels(server).await?;
    rate(|worker, until| {
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

async fn channels(server: &Server) -> Outcome<Vec<Channel>> {
    let endpoint = Endpoint::from_shared(server.url.clone())?.tcp_nodelay(true);
    Ok(try_join_all((0..CONNECTIONS).map(|_| endpoint.connect())).await?)
}

/// Calls per second over one round, each worker a task of its own.
async fn rate<F>(worker: impl Fn(usize, Instant) -> F) -> Outcome<f64>
where
    F: Future<Output = Result<u64, tonic::Status>> + Send + 'static,
{
    let began = Instant::now();
    let workers = (0..CALLS_IN_FLIGHT).map(|index| tokio::spawn(worker(index, began + ROUND)));
    let mut done = 0;
    for counted in workers.collect::<Vec<_>>() {
        done += counted.await??;
    }
    Ok(done as f64 / began.elapsed().as_secs_f64())
}
