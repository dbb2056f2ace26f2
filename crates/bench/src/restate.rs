//! A real Restate server behind the gateway: GetExecution beside the bare query it stands for, and
//! a watch on a thousand invocations.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use futures::stream::{self, StreamExt, TryStreamExt};
use stateway_proto::v1;
use stateway_proto::v1::executions_client::ExecutionsClient;
use stateway_proto::v1::watch_executions_response::Kind;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::Outcome;
use crate::http::Http;
use crate::lab::Lab;
use crate::process::Server;

const ROUNDS: usize = 7;
const CALLS: usize = 150;
/// What the issue promises: GetExecution may take this much longer than the query behind it.
const MOST_OVERHEAD: f64 = 0.15;
const WATCHED: usize = 1_000;
const STREAMS_PER_CONNECTION: usize = 100;
const STARTS_IN_FLIGHT: usize = 8;
const STEADY: Duration = Duration::from_secs(10);
const CHANGES: usize = 5;
/// One query per look and hundred watched; nothing changes while it is counted, so looks are at
/// their slowest pace. Far below one query per watched invocation and look.
const MOST_QUERIES_PER_SECOND: f64 = 10.0;

/// The query behind a GetExecution, with every column the adapter asks for.
fn bare_query(id: &str) -> String {
    let columns = "id, status, target_service_name, target_service_key, target_handler_name, \
         target_service_ty, completion_result, completion_failure, created_at, modified_at, \
         inboxed_at, scheduled_start_at, running_at, completed_at, retry_count, next_retry_at, \
         split_part(last_failure, chr(10), 1) AS last_failure, last_failure_error_code, \
         last_failure_related_command_name, suspended_waiting_for_completions, \
         suspended_waiting_for_signals";
    format!(r#"{{"query":"SELECT {columns} FROM sys_invocation WHERE id IN ('{id}')"}}"#)
}

pub(crate) async fn run() -> Outcome<()> {
    let lab = Lab::new().await?;
    let client = ExecutionsClient::connect(lab.gateway.url.clone()).await?;
    lab.tell("bench", "fail")?;
    let name = start(&client, "alone").await?;
    let overhead = overhead(&lab, &client, &name).await?;
    let rate = watch(&lab, &client).await?;
    match overhead <= MOST_OVERHEAD && rate <= MOST_QUERIES_PER_SECOND {
        true => Ok(()),
        false => Err("that is more than promised".into()),
    }
}

async fn start(client: &ExecutionsClient<Channel>, request_id: &str) -> Outcome<String> {
    let request = v1::StartExecutionRequest {
        definition: "providers/lab/definitions/Lab%2Fcharge".into(),
        input: Some(v1::Payload {
            content_type: "application/json".into(),
            data: br#""bench""#.to_vec().into(),
        }),
        request_id: request_id.to_owned(),
        ..Default::default()
    };
    let started = client.clone().start_execution(request).await?;
    Ok(started.into_inner().name)
}

/// Turn and turn about, one call in flight, because that is where an overhead shows. The lower
/// quartile decides: on a busy machine the median is mostly the wait for a core, and the way with
/// more processes on it waits more often.
async fn overhead(lab: &Lab, client: &ExecutionsClient<Channel>, name: &str) -> Outcome<f64> {
    let id = name.rsplit('/').next().unwrap_or_default();
    let query = bare_query(id);
    let mut admin = Http::connect(lab.admin).await?;
    println!("GetExecution beside the bare query, one call in flight, {CALLS} calls a round");
    println!("       query ms       GetExecution ms  overhead");
    println!("round    p25    p50       p25    p50    p25    p50");
    let (mut quartiles, mut medians) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (mut bare, mut through) = (Vec::new(), Vec::new());
        for _ in 0..CALLS {
            let began = Instant::now();
            admin.post("/query", &query).await?;
            bare.push(began.elapsed());
            let request = v1::GetExecutionRequest {
                name: name.to_owned(),
                view: v1::ExecutionView::Basic.into(),
            };
            let began = Instant::now();
            client.clone().get_execution(request).await?;
            through.push(began.elapsed());
        }
        // The first round warms everything up.
        if round == 0 {
            continue;
        }
        let [bare, through] = [bare, through].map(|took| [quartile(took.clone()), median(took)]);
        let over = |at: usize| through[at].as_secs_f64() / bare[at].as_secs_f64() - 1.0;
        let [bare, through] = [bare, through].map(|took| took.map(milliseconds));
        println!(
            "{round:5}  {:5.2}  {:5.2}     {:5.2}  {:5.2}  {:4.1}%  {:4.1}%",
            bare[0],
            bare[1],
            through[0],
            through[1],
            over(0) * 100.0,
            over(1) * 100.0
        );
        quartiles.push(over(0));
        medians.push(over(1));
    }
    let middle = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let (quartile, median) = (middle(quartiles), middle(medians));
    println!(
        "overhead {:.1}% at the lower quartile (at most {:.0}% wanted), {:.1}% at the median\n",
        quartile * 100.0,
        MOST_OVERHEAD * 100.0,
        median * 100.0
    );
    Ok(quartile)
}

async fn watch(lab: &Lab, client: &ExecutionsClient<Channel>) -> Outcome<f64> {
    let began = Instant::now();
    let names: Vec<String> = stream::iter(0..WATCHED)
        .map(|number| async move { start(client, &format!("watched-{number}")).await })
        .buffered(STARTS_IN_FLIGHT)
        .try_collect()
        .await?;
    println!(
        "{WATCHED} invocations started in {:.1?}; each backs off for an hour",
        began.elapsed()
    );
    let mut streams = Vec::new();
    for names in names.chunks(STREAMS_PER_CONNECTION) {
        let client = ExecutionsClient::connect(lab.gateway.url.clone()).await?;
        streams.extend(try_join_all(names.iter().map(|name| open(&client, name))).await?);
    }
    let quiet = latency_of_get(client, &names[0]).await?;
    let before = observe_calls(&lab.gateway).await?;
    let began = Instant::now();
    tokio::time::sleep(STEADY).await;
    let calls = observe_calls(&lab.gateway).await? - before;
    let rate = calls as f64 / began.elapsed().as_secs_f64();
    println!(
        "{WATCHED} watches, nothing changes: {rate:.1} queries a second, of up to a hundred \
         invocations each ({MOST_QUERIES_PER_SECOND:.0} allowed); Get p50 meanwhile {:.2} ms",
        milliseconds(quiet)
    );

    let mut admin = Http::connect(lab.admin).await?;
    let mut told = Vec::new();
    for (name, stream) in names.iter().zip(&mut streams).take(CHANGES) {
        let id = name.rsplit('/').next().unwrap_or_default();
        let began = Instant::now();
        admin.patch(&format!("/invocations/{id}/kill")).await?;
        next_change(stream).await?;
        told.push(began.elapsed());
    }
    let most = told.iter().copied().max().unwrap_or_default();
    println!(
        "a kill behind the gateway's back is told after {:.0} ms (median of {CHANGES}), {:.0} ms at most",
        milliseconds(median(told)),
        milliseconds(most)
    );
    let kill = v1::CancelExecutionRequest {
        name: names[CHANGES].clone(),
        mode: v1::cancel_execution_request::Mode::Kill.into(),
        ..Default::default()
    };
    let began = Instant::now();
    client.clone().cancel_execution(kill).await?;
    next_change(&mut streams[CHANGES]).await?;
    println!(
        "a kill through the gateway is told after {:.0} ms",
        milliseconds(began.elapsed())
    );
    Ok(rate)
}

async fn latency_of_get(client: &ExecutionsClient<Channel>, name: &str) -> Outcome<Duration> {
    let mut took = Vec::new();
    for _ in 0..CALLS {
        let request = v1::GetExecutionRequest {
            name: name.to_owned(),
            view: v1::ExecutionView::Basic.into(),
        };
        let began = Instant::now();
        client.clone().get_execution(request).await?;
        took.push(began.elapsed());
    }
    Ok(median(took))
}

type Stream = Streaming<v1::WatchExecutionsResponse>;

async fn open(client: &ExecutionsClient<Channel>, name: &str) -> Outcome<Stream> {
    let request = v1::WatchExecutionsRequest {
        parent: name.to_owned(),
        ..Default::default()
    };
    let mut stream = client.clone().watch_executions(request).await?.into_inner();
    while let Some(answer) = stream.message().await? {
        if answer.kind() == Kind::Bookmark {
            break;
        }
    }
    Ok(stream)
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

/// The reads of many that the gateway has made, by its own figures. While nothing changes each is
/// one query.
async fn observe_calls(gateway: &Server) -> Outcome<u64> {
    let address = gateway.url.trim_start_matches("http://").parse()?;
    let page = Http::connect(address).await?.get("/metrics").await?;
    let is_observe = |line: &&str| {
        line.starts_with("stateway_upstream_calls_total") && line.contains("verb=\"observe\"")
    };
    let counts = page.lines().filter(is_observe);
    let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    Ok(counts.sum())
}

fn median(took: Vec<Duration>) -> Duration {
    at(took, 2)
}

fn quartile(took: Vec<Duration>) -> Duration {
    at(took, 4)
}

/// What one in so many takes no longer than.
fn at(mut took: Vec<Duration>, one_in: usize) -> Duration {
    took.sort_unstable();
    took.get(took.len() / one_in).copied().unwrap_or_default()
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// Where a peer is, as `cargo xtask bench restate` names it.
pub(crate) fn peer(variable: &str) -> Outcome<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.ok_or_else(|| format!("{variable} is not set; use `cargo xtask bench restate`").into())
}
