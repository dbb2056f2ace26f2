//! The built-in engine with many stored executions: what grows with their number, and what does not.
//!
//! One store grows from size to size. At each size the gateway is restarted, then everything is measured.
//! The stored executions have a label and one step that is skipped, so that no worker is needed to make them. A few
//! that are looked for are the oldest: a search that reads from the newest on would read everything.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use stateway_proto::v1;
use stateway_proto::v1::definitions_client::DefinitionsClient;
use stateway_proto::v1::executions_client::ExecutionsClient;
use tonic::transport::{Channel, Endpoint};

use super::{IN_FLIGHT, Lab, chain, load};
use crate::Outcome;
use crate::process::{Server, bench_worker, stateway_with};

/// The sizes unless another one is given.
const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];
/// Lanes that make the stored executions.
const MAKERS: usize = 256;
/// Executions of the definition and with the label that are looked for.
const RARE: usize = 20;
/// Executions that wait for a signal.
const WAITING: usize = 100;
/// How often each question is asked.
const TIMES: usize = 15;
/// Pages of 1,000 before the deep page.
const DEEP_PAGES: usize = 9;
/// How long the throughput is measured.
const SECONDS: u64 = 5;
/// Rounds of Get on each provider, turn and turn about.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(300);
/// The maximum duration of a page of a rare definition or label.
const MOST_RARE: Duration = Duration::from_millis(50);
/// The bytes of a large payload: the default of `max_payload_bytes`, less the JSON around it.
const PAYLOAD: usize = 1024 * 1024 - 64;
/// The maximum of resident memory with large payloads.
const MOST_RESIDENT_MIB: f64 = 300.0;
/// The least rate of Get, as a part of the in-memory provider's.
const LEAST_RATIO: f64 = 0.6;

const DEFINITIONS: [&str; 3] = [
    "name: stored\nsteps: [{name: a, agent: bench, when: \"${input.run} == true\"}]",
    "name: rare\nsteps: [{name: a, agent: bench, when: \"${input.run} == true\"}]",
    "name: gate\nsteps: [{name: a, signal: go}]",
];

pub(crate) async fn run(executions: Option<u64>) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let config = configuration(folder.path())?;
    let mut sizes = SIZES.to_vec();
    if let Some(only) = executions {
        sizes = vec![only];
    }
    let gateway = stateway_with(&config).await?;
    let worker = bench_worker(&gateway.url, 256).await?;
    let mut lab = Lab {
        gateway,
        worker,
        folder,
    };
    chain::apply(&lab).await?;
    let mut stored = prepare(&lab.gateway).await?;
    let mut failures = Vec::new();
    for size in sizes {
        make(&lab.gateway, size.saturating_sub(stored)).await?;
        stored = stored.max(size);
        lab.worker.kill().await?;
        lab.gateway.kill().await?;
        let began = Instant::now();
        lab.gateway = stateway_with(&config).await?;
        let started = began.elapsed();
        lab.worker = bench_worker(&lab.gateway.url, 256).await?;
        println!("\n{size} executions stored");
        println!("start-up after a kill           {started:9.0?}");
        println!(
            "resident after the start        {:6.0} MiB",
            lab.gateway.resident_mib()?
        );
        failures.extend(measure(&lab).await?);
        let file = std::fs::metadata(lab.folder().join("store.db"))?.len();
        println!("file per execution              {:6} B", file / size.max(1));
    }
    let resident = payloads(&lab).await?;
    if resident > MOST_RESIDENT_MIB {
        failures.push(format!(
            "{resident:.0} MiB resident, {MOST_RESIDENT_MIB:.0} allowed"
        ));
    }
    if failures.is_empty() {
        return Ok(());
    }
    Err(failures.join("; ").into())
}

fn configuration(folder: &Path) -> Outcome<PathBuf> {
    let config = folder.join("stateway.toml");
    let store = folder.join("store.db");
    let text = format!(
        "[providers.builtin]\nkind = \"builtin\"\npath = {:?}\n\n[providers.memory]\nkind = \"memory\"\n",
        store.display()
    );
    std::fs::write(&config, text)?;
    Ok(config)
}

async fn channel(gateway: &Server) -> Outcome<Channel> {
    let endpoint = Endpoint::from_shared(gateway.url.clone())?.tcp_nodelay(true);
    Ok(endpoint.connect().await?)
}

fn start(definition: &str, label: (&str, String)) -> v1::StartExecutionRequest {
    v1::StartExecutionRequest {
        parent: "providers/builtin".to_owned(),
        definition: format!("definitions/{definition}"),
        labels: [(label.0.to_owned(), label.1)].into(),
        input: Some(v1::Payload {
            data: (&br#"{"run":false}"#[..]).into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Makes the definitions known, and starts the executions that are looked for; how many.
async fn prepare(gateway: &Server) -> Outcome<u64> {
    let channel = channel(gateway).await?;
    let mut definitions = DefinitionsClient::new(channel.clone());
    for source in DEFINITIONS {
        let request = v1::ApplyDefinitionRequest {
            source: source.to_owned(),
            source_name: "growth.yaml".to_owned(),
            ..Default::default()
        };
        definitions.apply_definition(request).await?;
    }
    let mut client = ExecutionsClient::new(channel);
    for number in 0..RARE {
        let label = ("tenant", format!("t{number}"));
        client.start_execution(start("rare", label)).await?;
        let label = ("rare", "yes".to_owned());
        client.start_execution(start("stored", label)).await?;
    }
    for number in 0..WAITING {
        let label = ("tenant", format!("t{number}"));
        client.start_execution(start("gate", label)).await?;
    }
    Ok((2 * RARE + WAITING) as u64)
}

/// Starts executions that end immediately.
async fn make(gateway: &Server, count: u64) -> Outcome<()> {
    let began = Instant::now();
    let channels = try_join_all((0..4).map(|_| channel(gateway))).await?;
    let lanes = (0..MAKERS).map(|lane| {
        let mut client = ExecutionsClient::new(channels[lane % channels.len()].clone());
        tokio::spawn(async move {
            let mut number = lane as u64;
            while number < count {
                let label = ("tenant", format!("t{}", number % 1_000));
                client.start_execution(start("stored", label)).await?;
                number += MAKERS as u64;
            }
            Ok::<_, tonic::Status>(())
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await??;
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    println!("\n{count} executions made ({rate:.0}/s)");
    Ok(())
}

/// Measures everything at one size; what is not as promised.
async fn measure(lab: &Lab) -> Outcome<Vec<String>> {
    let mut failures = Vec::new();
    let channel = channel(&lab.gateway).await?;
    let mut client = ExecutionsClient::new(channel.clone());
    page(
        &mut client,
        "list, first page of 50",
        50,
        "",
        usize::MAX,
        "",
    )
    .await?;
    page(
        &mut client,
        "list, page of 1,000",
        1_000,
        "",
        usize::MAX,
        "",
    )
    .await?;
    let deep = deep_token(&mut client).await?;
    page(
        &mut client,
        "list, page of 50 after 9,000",
        50,
        "",
        usize::MAX,
        &deep,
    )
    .await?;
    page(
        &mut client,
        "filter sub_state = WAITING",
        50,
        "sub_state = WAITING",
        50,
        "",
    )
    .await?;
    for (what, filter) in [
        ("filter on a rare definition", "definition = rare"),
        ("filter on a rare label", "labels.rare = yes"),
        ("filter on an unknown label", "labels.rare = no"),
    ] {
        let wanted = if filter.ends_with("no") { 0 } else { RARE };
        let took = page(&mut client, what, 50, filter, wanted, "").await?;
        if took > MOST_RARE {
            failures.push(format!("{what}: {took:.0?}, {MOST_RARE:.0?} allowed"));
        }
    }
    let mut took = Vec::new();
    for _ in 0..TIMES {
        let request = v1::CountExecutionsRequest {
            parent: "providers/builtin".to_owned(),
        };
        let began = Instant::now();
        client.count_executions(request).await?;
        took.push(began.elapsed());
    }
    println!("count                           {:9.2?}", median(took));
    for filter in [
        "",
        "sub_state = FAILED",
        "labels.rare = yes AND sub_state:*",
    ] {
        let (open, shown) = watch(&mut client, filter).await?;
        println!("watch opened, filter {filter:?}: {open:.1?}, {shown} executions");
    }
    let ratio = get_ratio(&channel).await?;
    println!("Get, to the in-memory provider  {ratio:9.2}");
    if ratio < LEAST_RATIO {
        failures.push(format!(
            "Get: {ratio:.2} of the in-memory provider, {LEAST_RATIO} wanted"
        ));
    }
    println!(
        "resident before the load        {:6.0} MiB",
        lab.gateway.resident_mib()?
    );
    let run = load::lanes(lab, "chain-1", IN_FLIGHT, SECONDS).await?;
    let rate = run.count() as f64 / run.lasted.as_secs_f64();
    println!("one-step workflows              {rate:7.0}/s");
    println!(
        "resident after the load         {:6.0} MiB",
        lab.gateway.resident_mib()?
    );
    Ok(failures)
}

/// Runs executions whose input and output are large; the most memory that was resident.
async fn payloads(lab: &Lab) -> Outcome<f64> {
    let channel = channel(&lab.gateway).await?;
    let until = Instant::now() + Duration::from_secs(2 * SECONDS);
    let text = format!("{{\"text\":\"{}\"}}", "x".repeat(PAYLOAD));
    let lanes = (0..IN_FLIGHT).map(|_| {
        let client = ExecutionsClient::new(channel.clone());
        let mut client = client.max_decoding_message_size(16 * 1024 * 1024);
        let data = text.clone().into_bytes();
        tokio::spawn(async move {
            let mut done = 0_u32;
            while Instant::now() < until {
                let request = v1::StartExecutionRequest {
                    parent: "providers/builtin".to_owned(),
                    definition: "definitions/chain-1".to_owned(),
                    input: Some(v1::Payload {
                        data: data.clone().into(),
                        ..Default::default()
                    }),
                    ..Default::default()
                };
                let name = client.start_execution(request).await?.into_inner().name;
                let wait = v1::WaitExecutionRequest {
                    name,
                    ..Default::default()
                };
                client.wait_execution(wait).await?;
                done += 1;
            }
            Ok::<_, tonic::Status>(done)
        })
    });
    let lanes: Vec<_> = lanes.collect();
    let mut most = 0.0_f64;
    while !lanes.iter().all(tokio::task::JoinHandle::is_finished) {
        most = most.max(lab.gateway.resident_mib()?);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut done = 0;
    for lane in lanes {
        done += lane.await??;
    }
    println!("\n{done} executions with payloads of 1 MiB, {IN_FLIGHT} under way");
    println!("resident, at most               {most:6.0} MiB");
    Ok(most)
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

/// How long a page takes; the median.
async fn page(
    client: &mut ExecutionsClient<Channel>,
    what: &str,
    page_size: i32,
    filter: &str,
    wanted: usize,
    page_token: &str,
) -> Outcome<Duration> {
    let mut took = Vec::new();
    for _ in 0..TIMES {
        let request = v1::ListExecutionsRequest {
            parent: "providers/builtin".to_owned(),
            page_size,
            page_token: page_token.to_owned(),
            filter: filter.to_owned(),
        };
        let began = Instant::now();
        let page = client.list_executions(request).await?.into_inner();
        took.push(began.elapsed());
        let found = page.executions.len();
        let full = usize::try_from(page_size)?;
        if found != wanted.min(full) {
            return Err(format!("{what}: {found} executions on the page").into());
        }
    }
    let first = took.first().copied().unwrap_or_default();
    let median = median(took);
    println!("{what:31} {median:9.2?} (first {first:.1?})");
    Ok(median)
}

/// The token of the page after many.
async fn deep_token(client: &mut ExecutionsClient<Channel>) -> Outcome<String> {
    let mut page_token = String::new();
    for _ in 0..DEEP_PAGES {
        let request = v1::ListExecutionsRequest {
            parent: "providers/builtin".to_owned(),
            page_size: 1_000,
            page_token,
            filter: String::new(),
        };
        page_token = client
            .list_executions(request)
            .await?
            .into_inner()
            .next_page_token;
    }
    // A token belongs to its filter, not to the size of the page.
    Ok(page_token)
}

/// How long the current set of a watch takes, and how many executions it has.
async fn watch(client: &mut ExecutionsClient<Channel>, filter: &str) -> Outcome<(Duration, usize)> {
    let request = v1::WatchExecutionsRequest {
        parent: "providers/builtin".to_owned(),
        filter: filter.to_owned(),
        ..Default::default()
    };
    let began = Instant::now();
    let mut stream = client.watch_executions(request).await?.into_inner();
    let mut shown = 0;
    while let Some(item) = stream.message().await? {
        match item.kind() {
            v1::watch_executions_response::Kind::Bookmark => return Ok((began.elapsed(), shown)),
            _ => shown += 1,
        }
    }
    Err("the watch ended".into())
}

/// The rate of Get on finished executions, as a part of the in-memory provider's: the median of rounds,
/// turn and turn about.
async fn get_ratio(channel: &Channel) -> Outcome<f64> {
    let mut client = ExecutionsClient::new(channel.clone());
    // Old ones: the newest may still be in memory.
    let mut names = Vec::new();
    let mut page_token = String::new();
    for _ in 0..5 {
        let request = v1::ListExecutionsRequest {
            parent: "providers/builtin".to_owned(),
            page_size: 1_000,
            page_token,
            filter: "sub_state = SUCCEEDED".to_owned(),
        };
        let page = client.list_executions(request).await?.into_inner();
        page_token = page.next_page_token;
        names = page
            .executions
            .into_iter()
            .map(|execution| execution.name)
            .collect();
    }
    let request = v1::StartExecutionRequest {
        definition: "providers/memory/definitions/hello".to_owned(),
        ..Default::default()
    };
    let in_memory = vec![client.start_execution(request).await?.into_inner().name];
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let memory = gets(channel, &in_memory).await?;
        let builtin = gets(channel, &names).await?;
        ratios.push(f64::from(builtin) / f64::from(memory.max(1)));
    }
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[ratios.len() / 2])
}

/// How many calls are answered in a round.
async fn gets(channel: &Channel, names: &[String]) -> Outcome<u32> {
    let until = Instant::now() + ROUND;
    let lanes = (0..IN_FLIGHT).map(|lane| {
        let mut client = ExecutionsClient::new(channel.clone());
        let names = names.to_vec();
        tokio::spawn(async move {
            let (mut calls, mut at) = (0_u32, lane);
            while Instant::now() < until {
                let request = v1::GetExecutionRequest {
                    name: names[at % names.len()].clone(),
                    ..Default::default()
                };
                client.get_execution(request).await?;
                (calls, at) = (calls + 1, at + IN_FLIGHT);
            }
            Ok::<_, tonic::Status>(calls)
        })
    });
    let mut calls = 0;
    for lane in lanes.collect::<Vec<_>>() {
        calls += lane.await??;
    }
    Ok(calls)
}
