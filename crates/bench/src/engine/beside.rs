//! The same chains on the built-in engine and on a Restate server, in alternating rounds.
//!
//! Both have the load generator in this process, the steps in a process of their own, and sync to disk before they
//! answer. Other work on the machine affects both alike, so the ratios are what counts.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tokio::process::Command;

use super::figures::{cpu, written};
use super::load::{self, Run};
use super::{IN_FLIGHT, Lab, MOST_RESIDENT_MIB, chain};
use crate::Outcome;
use crate::http::Http;
use crate::lab::Restate;

const ROUNDS: usize = 5;
/// How long each measurement lasts, and the one before the first.
const SECONDS: u64 = 4;
const WARM_UP: u64 = 2;
/// How long the system calls are counted.
const COUNTED_SECONDS: u64 = 3;
/// The most bytes that are written for a step.
const MOST_WRITTEN: f64 = 2_048.0;

/// What is run on both sides.
struct Scenario {
    name: &'static str,
    steps: u32,
    under_way: usize,
    /// How many times faster the built-in engine is at least.
    least: f64,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "chains of 5, 64 under way",
        steps: 5,
        under_way: IN_FLIGHT,
        least: 6.0,
    },
    Scenario {
        name: "chains of 1, 64 under way",
        steps: 1,
        under_way: IN_FLIGHT,
        least: 5.0,
    },
    Scenario {
        name: "chains of 5, one at a time",
        steps: 5,
        under_way: 1,
        least: 2.5,
    },
];

/// The result of one measurement of one side.
struct Sample {
    workflows_per_second: f64,
    median: Duration,
    slow: Duration,
    /// Processor time of the server and of the process with the steps, and bytes of the server, each per step.
    cpu_micros: f64,
    written: f64,
    resident_mib: f64,
}

pub(super) async fn run() -> Outcome<()> {
    let lab = Lab::new().await?;
    chain::apply(&lab).await?;
    let restate = Restate::start().await?;
    for scenario in &SCENARIOS {
        ours(&lab, scenario, WARM_UP).await?;
        theirs(&restate, scenario, WARM_UP).await?;
    }
    println!("medians of {ROUNDS} alternating rounds of {SECONDS} s each");
    let mut missed = Vec::new();
    for scenario in &SCENARIOS {
        let (mut here, mut there) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // The one that runs first changes with every round.
            if round % 2 == 0 {
                here.push(ours(&lab, scenario, SECONDS).await?);
                there.push(theirs(&restate, scenario, SECONDS).await?);
            } else {
                there.push(theirs(&restate, scenario, SECONDS).await?);
                here.push(ours(&lab, scenario, SECONDS).await?);
            }
        }
        missed.extend(report(scenario, &here, &there));
    }
    let here = syncs(
        lab.gateway.id()?,
        ours(&lab, &SCENARIOS[0], COUNTED_SECONDS),
    );
    let here = here.await?;
    let there = theirs(&restate, &SCENARIOS[0], COUNTED_SECONDS);
    let there = syncs(restate.server_id()?, there).await?;
    match (here, there) {
        (Some(here), Some(there)) => println!(
            "\nsyncs per step, {}, counted by strace: Stateway {here:.3}, Restate {there:.3}",
            SCENARIOS[0].name
        ),
        _ => println!("\nsyncs are not counted: strace is not installed or may not attach"),
    }
    if missed.is_empty() {
        Ok(())
    } else {
        Err(missed.join("; ").into())
    }
}

/// Prints the medians of a scenario, and returns what is worse than promised.
fn report(scenario: &Scenario, here: &[Sample], there: &[Sample]) -> Vec<String> {
    let both = |figure: fn(&Sample) -> f64| (median(here, figure), median(there, figure));
    let (our_rate, their_rate) = both(|sample| sample.workflows_per_second);
    let (our_time, their_time) = both(|sample| sample.median.as_secs_f64() * 1e3);
    let (our_slow, their_slow) = both(|sample| sample.slow.as_secs_f64() * 1e3);
    let (our_cpu, their_cpu) = both(|sample| sample.cpu_micros);
    let (our_bytes, their_bytes) = both(|sample| sample.written);
    let (our_memory, their_memory) = both(|sample| sample.resident_mib);
    // One at a time, the time of a chain is what its rate follows from.
    let ratio = if scenario.under_way == 1 {
        their_time / our_time
    } else {
        our_rate / their_rate
    };
    println!("\n{}: {ratio:.1} x Restate", scenario.name);
    let mut ratios: Vec<f64> = std::iter::zip(here, there)
        .map(|(here, there)| here.workflows_per_second / there.workflows_per_second)
        .collect();
    ratios.sort_by(f64::total_cmp);
    if let [least, .., most] = ratios[..] {
        println!("  single rounds from {least:.1} to {most:.1} x");
    }
    let steps = f64::from(scenario.steps);
    let line = |name: &str, rate: f64, time: f64, slow: f64, cpu: f64, bytes: f64, memory: f64| {
        println!(
            "  {name:8} {rate:6.0} workflows/s, {:6.0} steps/s, p50 {time:.2} ms, p99 {slow:.1} ms, \
             {cpu:.0} µs CPU and {bytes:.0} bytes written per step, {memory:.0} MiB resident",
            rate * steps
        );
    };
    line(
        "Stateway", our_rate, our_time, our_slow, our_cpu, our_bytes, our_memory,
    );
    line(
        "Restate",
        their_rate,
        their_time,
        their_slow,
        their_cpu,
        their_bytes,
        their_memory,
    );
    let mut missed = Vec::new();
    if ratio < scenario.least {
        let Scenario { name, least, .. } = scenario;
        missed.push(format!("{name}: {ratio:.1} x Restate, {least} x wanted"));
    }
    if our_memory > MOST_RESIDENT_MIB {
        missed.push(format!(
            "{}: {our_memory:.0} MiB resident, {MOST_RESIDENT_MIB:.0} allowed",
            scenario.name
        ));
    }
    if scenario.steps > 1 && scenario.under_way > 1 && our_bytes > MOST_WRITTEN {
        missed.push(format!(
            "{}: {our_bytes:.0} bytes written per step, {MOST_WRITTEN:.0} allowed",
            scenario.name
        ));
    }
    missed
}

fn median(samples: &[Sample], figure: fn(&Sample) -> f64) -> f64 {
    let mut figures: Vec<f64> = samples.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

async fn ours(lab: &Lab, scenario: &Scenario, seconds: u64) -> Outcome<Sample> {
    let (server, steps) = (lab.gateway.id()?, lab.worker.id()?);
    let definition = format!("chain-{}", scenario.steps);
    let run = load::lanes(lab, &definition, scenario.under_way, seconds);
    sample(scenario, (server, steps), run).await
}

async fn theirs(restate: &Restate, scenario: &Scenario, seconds: u64) -> Outcome<Sample> {
    let ids = (restate.server_id()?, restate.service_id()?);
    sample(scenario, ids, invocations(restate, scenario, seconds)).await
}

/// Measures a run of a server and of the process with the steps.
async fn sample(
    scenario: &Scenario,
    (server, steps): (u32, u32),
    run: impl Future<Output = Outcome<Run>>,
) -> Outcome<Sample> {
    let used = || -> Outcome<Duration> {
        let of = |id: u32| cpu(&format!("/proc/{id}/stat"));
        Ok(of(server)? + of(steps)?)
    };
    let (used_before, written_before) = (used()?, written(server)?);
    let run = run.await?;
    let total = run.count() as f64 * f64::from(scenario.steps);
    Ok(Sample {
        workflows_per_second: run.count() as f64 / run.lasted.as_secs_f64(),
        median: run.percentile(50),
        slow: run.percentile(99),
        cpu_micros: used()?.saturating_sub(used_before).as_secs_f64() * 1e6 / total,
        written: written(server)?.saturating_sub(written_before) as f64 / total,
        resident_mib: crate::process::resident_mib(server)?,
    })
}

/// Lanes that call the service and wait for its answer, each on a connection of its own.
async fn invocations(restate: &Restate, scenario: &Scenario, seconds: u64) -> Outcome<Run> {
    let lanes = (0..scenario.under_way).map(|_| Http::connect(restate.ingress));
    let lanes = try_join_all(lanes).await?;
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let steps = scenario.steps.to_string();
    let lanes = lanes.into_iter().map(|mut lane| {
        let steps = steps.clone();
        tokio::spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < until {
                let began = Instant::now();
                lane.post("/Chain/run", &steps).await?;
                took.push(began.elapsed());
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(took)
        })
    });
    let mut took = Vec::new();
    for lane in lanes.collect::<Vec<_>>() {
        took.extend(lane.await??);
    }
    took.sort_unstable();
    Ok(Run {
        took,
        lasted: began.elapsed(),
    })
}

/// The syncs per step of a process while chains of five run; nothing where they cannot be counted. Counting slows
/// the process down, so nothing else of that run is used.
async fn syncs(process: u32, run: impl Future<Output = Outcome<Sample>>) -> Outcome<Option<f64>> {
    let folder = tempfile::tempdir()?;
    let counts = folder.path().join("counts");
    let strace = Command::new("strace")
        .args([
            "-f",
            "-c",
            "-e",
            "trace=fsync,fdatasync,sync_file_range",
            "-o",
        ])
        .arg(&counts)
        .args(["-p", &process.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut strace) = strace else {
        return Ok(None);
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    let sample = run.await?;
    if let Some(id) = strace.id() {
        let interrupt = Command::new("kill")
            .args(["-INT", &id.to_string()])
            .status();
        interrupt.await?;
    }
    strace.wait().await?;
    let steps =
        sample.workflows_per_second * COUNTED_SECONDS as f64 * f64::from(SCENARIOS[0].steps);
    Ok(counted(&counts).map(|calls| calls / steps))
}

/// The number of calls in a summary of strace: the fourth column of each line with a name.
fn counted(summary: &Path) -> Option<f64> {
    let summary = std::fs::read_to_string(summary).ok()?;
    let calls = summary.lines().filter_map(|line| {
        let name = line.split_whitespace().next_back()?;
        let sync = ["fsync", "fdatasync", "sync_file_range"].contains(&name);
        let calls = line.split_whitespace().nth(3)?;
        sync.then(|| calls.parse::<f64>().ok())?
    });
    let calls: Vec<f64> = calls.collect();
    (!calls.is_empty()).then(|| calls.iter().sum())
}
