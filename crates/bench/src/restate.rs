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

const ROUNDS: usize = 21;
const CALLS: usize = 60;
/// What the issue promises: GetExecution may take this much longer than the query behind it.
const MOST_OVERHEAD: f64 = 0.15;
const WATCHED: usize = 1_000;
const STREAMS_PER_CONNECTION: usize = 100;
const STARTS_IN_FLIGHT: usize = 8;
/// Time for the watches to come to rest, and time in which their queries are counted.
const SETTLE: Duration = Duration::from_secs(10);
const STEADY: Duration = Duration::from_secs(20);
const CHANGES: usize = 15;
/// A look every second at what is watched, at one query for each hundred: never more than that, and
/// less while nothing changes, because one query tells so of all of them.
const MOST_QUERIES_PER_SECOND: f64 = 10.0;
/// A kill leaves the in-memory table, so the next look sees it: one second, and what a busy machine
/// adds. A manual pause is recorded there, so the watch reports it when the row is read again.
const MOST_ADDED: [(&str, Duration); 2] = [
    ("kill", Duration::from_secs(3)),
    ("pause", Duration::from_secs(8)),
];

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
    println!("load average {}", load());
    let lab = Lab::new().await?;
    let client = ExecutionsClient::connect(lab.gateway.url.clone()).await?;
    lab.tell("bench", "fail")?;
    let name = start(&client, "alone").await?;
    let overhead = overhead(&lab, &client, &name).await?;
    let within_bounds = watch(&lab).await?;
    println!("load average {}", load());
    if overhead <= MOST_OVERHEAD && within_bounds {
        Ok(())
    } else {
        Err("that is more than promised".into())
    }
}

/// How busy the machine is, where it tells.
pub(crate) fn load() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split(' ').next().unwrap_or_default().to_owned()
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

/// Turn and turn about, one call in flight, because that is where an overhead shows. Each round
/// gives a ratio of medians, and the median of those decides: whatever else the machine does meets
/// both ways alike. Beside them an answer that the gateway gives without asking anybody.
async fn overhead(lab: &Lab, client: &ExecutionsClient<Channel>, name: &str) -> Outcome<f64> {
    let query = bare_query(id_of(name));
    let mut admin = Http::connect(lab.admin).await?;
    println!("GetExecution beside the bare query, one call in flight, {CALLS} of each a round");
    println!("round  query p50 ms  GetExecution p50 ms  no upstream p50 ms  overhead");
    let mut ratios = Vec::new();
    for round in 0..=ROUNDS {
        let mut took = [const { Vec::new() }; 3];
        for call in 0..CALLS {
            // The order changes with every call.
            let order = [[0, 1, 2], [1, 0, 2]][call % 2];
            for way in order {
                let began = Instant::now();
                match way {
                    0 => drop(admin.post("/query", &query).await?),
                    1 => drop(get(client, name).await?),
                    _ => drop(get(client, "providers/nobody/executions/x").await),
                }
                took[way].push(began.elapsed());
            }
        }
        // The first round warms everything up.
        if round == 0 {
            continue;
        }
        let [bare, through, empty] = took.map(|took| milliseconds(median(took)));
        let over = through / bare - 1.0;
        println!(
            "{round:5}  {bare:12.2}  {through:19.2}  {empty:18.2}  {:7.1}%",
            over * 100.0
        );
        ratios.push(over);
    }
    ratios.sort_by(f64::total_cmp);
    let at = |part: usize| ratios[ratios.len() * part / 4] * 100.0;
    println!(
        "overhead {:.1}% (median of {ROUNDS} rounds; at most {:.0}% wanted), quartiles {:.1}% and \
         {:.1}%\n",
        at(2),
        MOST_OVERHEAD * 100.0,
        at(1),
        at(3)
    );
    Ok(at(2) / 100.0)
}

async fn get(
    client: &ExecutionsClient<Channel>,
    name: &str,
) -> Result<v1::Execution, tonic::Status> {
    let request = v1::GetExecutionRequest {
        name: name.to_owned(),
        view: v1::ExecutionView::Basic.into(),
    };
    let got = client.clone().get_execution(request).await?;
    Ok(got.into_inner())
}

/// A thousand watches on a gateway of their own; true if they cost and lag no more than promised.
async fn watch(lab: &Lab) -> Outcome<bool> {
    let (gateway, relay) = lab.counted().await?;
    let client = ExecutionsClient::connect(gateway.url.clone()).await?;
    let began = Instant::now();
    let names: Vec<String> = stream::iter(0..WATCHED)
        .map(|number| start_watched(&client, number))
        .buffered(STARTS_IN_FLIGHT)
        .try_collect()
        .await?;
    println!(
        "{WATCHED} invocations started in {:.1?}; each backs off for an hour",
        began.elapsed()
    );
    let mut streams = Vec::new();
    for names in names.chunks(STREAMS_PER_CONNECTION) {
        let client = ExecutionsClient::connect(gateway.url.clone()).await?;
        streams.extend(try_join_all(names.iter().map(|name| open(&client, name))).await?);
    }
    tokio::time::sleep(SETTLE).await;
    let (before, began) = (relay.queries(), Instant::now());
    tokio::time::sleep(STEADY).await;
    let rate = (relay.queries() - before) as f64 / began.elapsed().as_secs_f64();
    println!(
        "{WATCHED} watches, nothing changes: {rate:.1} queries a second, health checks included \
         ({MOST_QUERIES_PER_SECOND:.0} allowed)"
    );
    let mut good = rate <= MOST_QUERIES_PER_SECOND;
    let mut watched = names.iter().zip(streams);
    for (action, most) in MOST_ADDED {
        let mut added = Vec::new();
        for (name, stream) in watched.by_ref().take(CHANGES) {
            added.push(added_latency(lab, (name, stream), action).await?);
        }
        let longest = added.iter().copied().max().unwrap_or_default();
        println!(
            "a {action} outside of the gateway is reported {:.0} ms after a direct query shows it \
             (median of {CHANGES}), {:.0} ms at most ({} allowed)",
            milliseconds(median(added)),
            milliseconds(longest),
            most.as_millis()
        );
        good &= longest <= most;
    }
    if let Some((name, mut stream)) = watched.next() {
        let kill = v1::CancelExecutionRequest {
            name: name.clone(),
            mode: v1::cancel_execution_request::Mode::Kill.into(),
            ..Default::default()
        };
        let began = Instant::now();
        client.clone().cancel_execution(kill).await?;
        next_change(&mut stream).await?;
        println!(
            "a kill through the gateway is reported after {:.0} ms",
            milliseconds(began.elapsed())
        );
    }
    Ok(good)
}

async fn start_watched(client: &ExecutionsClient<Channel>, number: usize) -> Outcome<String> {
    start(client, &format!("watched-{number}")).await
}

/// The delay with which a watch reports a change made at the admin API, compared with the underlying query.
async fn added_latency(
    lab: &Lab,
    (name, mut stream): (&str, Stream),
    action: &str,
) -> Outcome<Duration> {
    let id = id_of(name);
    let told = tokio::spawn(async move { next_change(&mut stream).await.map(|()| Instant::now()) });
    let mut admin = Http::connect(lab.admin).await?;
    admin.patch(&format!("/invocations/{id}/{action}")).await?;
    let query = bare_query(id);
    while admin
        .post("/query", &query)
        .await?
        .contains("\"backing-off\"")
    {}
    let visible = Instant::now();
    Ok(told.await??.saturating_duration_since(visible))
}

fn id_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

type Stream = Streaming<v1::WatchExecutionsResponse>;

async fn open(client: &ExecutionsClient<Channel>, name: &str) -> Outcome<Stream> {
    let request = v1::WatchExecutionsRequest {
        names: vec![name.to_owned()],
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

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// Where a peer is, as `cargo xtask bench restate` names it.
pub(crate) fn peer(variable: &str) -> Outcome<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.ok_or_else(|| format!("{variable} is not set; use `cargo xtask bench restate`").into())
}
