//! A real Temporal server behind the gateway: the provider's read and GetExecution beside the bare description, a
//! watch of a thousand workflows, a hundred of them between attempts, and a watch for each of some of them.

pub(crate) mod lab;
mod overhead;
pub(crate) mod wire;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use stateway_proto::v1;
use stateway_proto::v1::executions_client::ExecutionsClient;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::Outcome;
use lab::Lab;
use wire::Frontend;

const WAITING: usize = 900;
const RETRYING: usize = 100;
const STARTS_IN_FLIGHT: usize = 8;
/// The pause between the attempts of an activity that is watched, in seconds.
const BACKOFF: u64 = 20;
/// Time for the watch to come to rest, and time in which its calls are counted.
const SETTLE: Duration = Duration::from_secs(15);
const STEADY: Duration = Duration::from_secs(30);
const CHANGES: usize = 15;
/// Calls per second that a self-hosted server allows for lists, and the provider's default for reads.
const MOST_LISTS: f64 = 10.0;
const READS_QUOTA: f64 = 500.0;
/// The limits of a self-hosted server for a namespace.
const MOST_READS: f64 = 2_400.0;
/// Watches of one execution, and how many of them a stream has.
const SINGLE: usize = 400;
const NAMES_EACH: usize = 100;
/// The long polls of the provider, unless configured.
const MOST_POLLS: f64 = 300.0;
/// An end is seen by the next list. The next attempt is seen when the execution is due.
const LATEST_END: Duration = Duration::from_secs(3);
const LATEST_ATTEMPT: Duration = Duration::from_secs(5);

pub(crate) async fn run() -> Outcome<()> {
    println!("load average {}", load());
    let lab = Lab::new().await?;
    let client = ExecutionsClient::connect(lab.gateway.url.clone()).await?;
    start(&client, "alone", &failing(3_600)).await?;
    until_it_backs_off(&client, &name_of("alone")).await?;
    let little_overhead = overhead::measure(&lab, &client, "alone").await?;
    let within_bounds = watch(&lab, &client).await?;
    println!("load average {}", load());
    if little_overhead && within_bounds {
        Ok(())
    } else {
        Err("that is more than promised".into())
    }
}

pub(crate) fn load() -> String {
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    loads.split(' ').next().unwrap_or_default().to_owned()
}

/// A workflow whose only activity fails and is retried after this number of seconds.
fn failing(seconds: u64) -> String {
    format!(
        r#"{{"steps":[{{"activity":{{"id":"charge","type":"fail","retry":{{"initial":{seconds},"coefficient":1.0}}}}}}]}}"#
    )
}

const WAITS: &str = r#"{"steps":[{"signal":"go"}]}"#;

fn name_of(id: &str) -> String {
    format!("providers/lab/executions/{id}")
}

async fn start(client: &ExecutionsClient<Channel>, id: &str, script: &str) -> Outcome<String> {
    let request = v1::StartExecutionRequest {
        definition: "providers/lab/definitions/Script".into(),
        execution_id: id.to_owned(),
        input: Some(v1::Payload {
            content_type: "application/json".into(),
            data: script.as_bytes().to_vec().into(),
        }),
        request_id: id.to_owned(),
        ..Default::default()
    };
    let started = client.clone().start_execution(request).await?;
    Ok(started.into_inner().name)
}

async fn get(
    client: &ExecutionsClient<Channel>,
    name: &str,
) -> Result<v1::Execution, tonic::Status> {
    let request = v1::GetExecutionRequest {
        name: name.to_owned(),
        view: v1::ExecutionView::Basic.into(),
    };
    Ok(client.clone().get_execution(request).await?.into_inner())
}

/// Waits until the execution backs off.
async fn until_it_backs_off(client: &ExecutionsClient<Channel>, name: &str) -> Outcome<()> {
    let until = Instant::now() + Duration::from_secs(30);
    while get(client, name).await?.sub_state() != v1::SubState::BackingOff {
        if Instant::now() > until {
            return Err("the activity does not back off".into());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// One watch of all executions; true if it costs and lags no more than promised.
async fn watch(lab: &Lab, client: &ExecutionsClient<Channel>) -> Outcome<bool> {
    let began = Instant::now();
    let retrying = failing(BACKOFF);
    let ids: Vec<(String, &str)> = (0..WAITING)
        .map(|number| (format!("waiting-{number}"), WAITS))
        .chain((0..RETRYING).map(|number| (format!("retrying-{number}"), retrying.as_str())))
        .collect();
    stream::iter(&ids)
        .map(|(id, script)| start(client, id, script))
        .buffered(STARTS_IN_FLIGHT)
        .try_for_each(|_| async { Ok(()) })
        .await?;
    for number in [0, RETRYING - 1] {
        until_it_backs_off(client, &name_of(&format!("retrying-{number}"))).await?;
    }
    println!(
        "{WAITING} workflows that wait and {RETRYING} that retry every {BACKOFF} s, started in {:.1?}",
        began.elapsed()
    );
    let mut watched = open(client).await?;
    let mut states = States::default();
    states.read_for(&mut watched, SETTLE).await?;
    let (rates, late) = states.count(lab, &mut watched, STEADY).await?;
    let what = format!("a watch of {} workflows", WAITING + RETRYING);
    let good = rates.print(&what) & print_attempts(late);
    let frontend = Frontend::connect(&lab.address).await?;
    let mut ends = Vec::new();
    for number in 0..CHANGES {
        let id = format!("waiting-{number}");
        let began = Instant::now();
        frontend.terminate(&id).await?;
        states.until_ended(&mut watched, &name_of(&id)).await?;
        ends.push(began.elapsed());
    }
    let longest = ends.iter().copied().max().unwrap_or_default();
    println!(
        "a termination outside the gateway is reported after {:.0} ms (median of {CHANGES}), {:.0} ms at most ({} allowed)",
        milliseconds(median(ends)),
        milliseconds(longest),
        LATEST_END.as_millis()
    );
    drop(watched);
    Ok(good && longest <= LATEST_END && watch_each(lab, client).await?)
}

/// Opens a watch for each execution, including those that retry. Returns whether the watches stay within the quotas.
async fn watch_each(lab: &Lab, client: &ExecutionsClient<Channel>) -> Outcome<bool> {
    let waiting = (CHANGES..SINGLE - RETRYING + CHANGES).map(|number| format!("waiting-{number}"));
    let retrying = (0..RETRYING).map(|number| format!("retrying-{number}"));
    let names: Vec<String> = waiting.chain(retrying).map(|id| name_of(&id)).collect();
    let mut streams = Vec::new();
    for names in names.chunks(NAMES_EACH) {
        let request = v1::WatchExecutionsRequest {
            names: names.to_vec(),
            ..Default::default()
        };
        let stream = client.clone().watch_executions(request).await?.into_inner();
        streams.push(stream);
    }
    let mut watched = stream::select_all(streams);
    let mut states = States::default();
    states.read_for(&mut watched, SETTLE).await?;
    let (rates, late) = states.count(lab, &mut watched, STEADY).await?;
    let mut polls = 0.0;
    for operation in [
        "GetWorkflowExecutionHistory",
        "PollWorkflowExecutionHistory",
    ] {
        polls += lab.pending(operation).await?;
    }
    let good = rates.print(&format!("{SINGLE} watches of one workflow")) & print_attempts(late);
    println!("{polls:.0} long polls under way ({MOST_POLLS:.0} configured)");
    Ok(good && polls > 0.0 && polls <= MOST_POLLS)
}

/// Calls of one kind per second: on average and at most.
#[derive(Default)]
struct Rates {
    seconds: f64,
    calls: BTreeMap<&'static str, f64>,
    most: BTreeMap<&'static str, f64>,
}

const LISTS: &[&str] = &["ListWorkflowExecutions", "CountWorkflowExecutions"];
const READS: &[&str] = &[
    "DescribeWorkflowExecution",
    "GetWorkflowExecutionHistory",
    "GetWorkflowExecutionHistoryReverse",
    "PollWorkflowExecutionHistory",
    "DescribeTaskQueue",
];

impl Rates {
    fn add(&mut self, before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>, seconds: f64) {
        self.seconds += seconds;
        for (kind, operations) in [("lists", LISTS), ("reads", READS)] {
            let count =
                |name: &&str| after.get(*name).unwrap_or(&0.0) - before.get(*name).unwrap_or(&0.0);
            let count = operations.iter().map(count).sum::<f64>();
            *self.calls.entry(kind).or_default() += count;
            let most = self.most.entry(kind).or_default();
            *most = most.max(count / seconds);
        }
    }

    fn print(&self, what: &str) -> bool {
        let of = |kind: &str| (self.calls[kind] / self.seconds, self.most[kind]);
        let ((lists, most_lists), (reads, most_reads)) = (of("lists"), of("reads"));
        println!(
            "{what}: {lists:.1} lists a second, {most_lists:.0} in the busiest ({MOST_LISTS:.0} allowed); \
             {reads:.0} reads a second, {most_reads:.0} in the busiest ({MOST_READS:.0} allowed)"
        );
        most_lists <= MOST_LISTS && reads <= READS_QUOTA && most_reads <= MOST_READS
    }
}

fn print_attempts(late: Vec<Duration>) -> bool {
    let (count, longest) = (late.len(), late.iter().copied().max().unwrap_or_default());
    println!(
        "the next attempt of a retried activity is reported {:.0} ms after its time (median of {count}), {:.0} ms at most ({} allowed)",
        milliseconds(median(late)),
        milliseconds(longest),
        LATEST_ATTEMPT.as_millis()
    );
    count > 0 && longest <= LATEST_ATTEMPT
}

type Watched = Streaming<v1::WatchExecutionsResponse>;
type Answer = Result<v1::WatchExecutionsResponse, tonic::Status>;

async fn open(client: &ExecutionsClient<Channel>) -> Outcome<Watched> {
    let request = v1::WatchExecutionsRequest {
        parent: "providers/lab".into(),
        ..Default::default()
    };
    Ok(client.clone().watch_executions(request).await?.into_inner())
}

/// What the watch reported last of each execution: when its next attempt was to begin.
#[derive(Default)]
struct States {
    next_attempts: BTreeMap<String, SystemTime>,
}

impl States {
    /// Reads the stream for a while, and counts the calls of every second.
    async fn count(
        &mut self,
        lab: &Lab,
        watched: &mut (impl Stream<Item = Answer> + Unpin),
        time: Duration,
    ) -> Outcome<(Rates, Vec<Duration>)> {
        let (mut rates, mut late) = (Rates::default(), Vec::new());
        let until = Instant::now() + time;
        let (mut before, mut at) = (lab.requests().await?, Instant::now());
        while Instant::now() < until {
            late.extend(self.read_for(watched, Duration::from_secs(1)).await?);
            let after = lab.requests().await?;
            rates.add(&before, &after, at.elapsed().as_secs_f64());
            (before, at) = (after, Instant::now());
        }
        Ok((rates, late))
    }

    /// Reads the stream for a while. Returns how much later than announced each next attempt was
    /// reported.
    async fn read_for(
        &mut self,
        watched: &mut (impl Stream<Item = Answer> + Unpin),
        time: Duration,
    ) -> Outcome<Vec<Duration>> {
        let until = tokio::time::Instant::now() + time;
        let mut late = Vec::new();
        while let Ok(answer) = tokio::time::timeout_at(until, watched.next()).await {
            let answer = answer.ok_or("the watch has ended")??;
            if let Some(execution) = answer.execution {
                late.extend(self.take(&execution));
            }
        }
        Ok(late)
    }

    fn take(&mut self, execution: &v1::Execution) -> Option<Duration> {
        let retry = execution.retry.as_ref()?;
        let next = retry
            .next_attempt_time
            .and_then(|time| SystemTime::try_from(time).ok());
        let announced = self.next_attempts.remove(&execution.name);
        if let Some(next) = next {
            self.next_attempts.insert(execution.name.clone(), next);
        }
        let announced = announced.filter(|announced| Some(*announced) != next)?;
        SystemTime::now().duration_since(announced).ok()
    }

    async fn until_ended(&mut self, watched: &mut Watched, name: &str) -> Outcome<()> {
        let until = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            let answer = tokio::time::timeout_at(until, watched.message()).await??;
            let answer = answer.ok_or("the watch has ended")?;
            let ended = answer
                .execution
                .is_some_and(|it| it.name == name && it.sub_state() == v1::SubState::Failed);
            if ended {
                return Ok(());
            }
        }
    }
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
