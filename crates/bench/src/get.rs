//! GetExecution on the in-memory provider against the empty service, turn and turn about.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use stateway_proto::v1;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_proto::v1::recovery_client::RecoveryClient;
use tonic::transport::Endpoint;

use crate::Outcome;
use crate::process::Server;

const CONNECTIONS: usize = 4;
const CALLS_IN_FLIGHT: usize = 64;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;
/// What issue and README promise.
const LEAST_RATIO: f64 = 0.70;

pub(crate) async fn run(stateway: &Server, empty: &Server) -> Outcome<()> {
    let name = start_one(stateway).await?;
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

/// Starts an execution that stays where it is, and names it.
pub(crate) async fn start_one(stateway: &Server) -> Outcome<String> {
    let mut client = ExecutionsClient::connect(stateway.url.clone()).await?;
    let request = v1::StartExecutionRequest {
        definition: "providers/memory/definitions/long".into(),
        ..Default::default()
    };
    Ok(client.start_execution(request).await?.into_inner().name)
}

async fn get_rate(server: &Server, name: &str) -> Outcome<f64> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let channel = Endpoint::from_shared(server.url.clone())?
            .tcp_nodelay(true)
            .connect()
            .await?;
        clients.push(ExecutionsClient::new(channel));
    }
    rate(|worker| {
        let mut client = clients[worker % CONNECTIONS].clone();
        let name = name.to_owned();
        async move {
            let request = v1::GetExecutionRequest {
                name,
                view: v1::ExecutionView::Full.into(),
            };
            client.get_execution(request).await.map(drop)
        }
    })
    .await
}

async fn empty_rate(server: &Server) -> Outcome<f64> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        let channel = Endpoint::from_shared(server.url.clone())?
            .tcp_nodelay(true)
            .connect()
            .await?;
        clients.push(RecoveryClient::new(channel));
    }
    rate(|worker| {
        let mut client = clients[worker % CONNECTIONS].clone();
        async move {
            client
                .verify_execution(v1::VerifyExecutionRequest::default())
                .await
                .map(drop)
        }
    })
    .await
}

/// Calls per second over one round.
async fn rate<F>(call: impl Fn(usize) -> F) -> Outcome<f64>
where
    F: Future<Output = Result<(), tonic::Status>>,
{
    let began = Instant::now();
    let workers = (0..CALLS_IN_FLIGHT).map(|worker| {
        let call = &call;
        async move {
            let mut done = 0_u64;
            while began.elapsed() < ROUND {
                call(worker).await?;
                done += 1;
            }
            Ok::<u64, tonic::Status>(done)
        }
    });
    let done: u64 = try_join_all(workers).await?.into_iter().sum();
    Ok(done as f64 / began.elapsed().as_secs_f64())
}
