//! Chains on a Temporal server, beside plain chains of five activities on the same server, in alternating rounds.

mod plain;

use super::load::Figures;
use super::{Engine, Lab};
use crate::Outcome;
use crate::temporal::lab::{free_port, server, until_it_answers};
use crate::temporal::load;

use self::plain::Plain;

/// Executions that are under way at the same time, in one series of rounds after the other.
const IN_FLIGHT: [usize; 2] = [1, 64];
const ROUNDS: usize = 5;
/// How long a measurement lasts, and the one before the first round.
const SECONDS: u64 = 6;
const WARM_UP: u64 = 3;
/// A hosted chain is not slower than a plain chain: the median of the ratios of the rates is at least this. The rounds of
/// one run differ by up to a tenth on a shared machine.
const LEAST_RATIO: f64 = 0.9;
/// The namespace of the plain chains.
const NAMESPACE: &str = "plain";

pub(crate) async fn run() -> Outcome<()> {
    println!("load average {}", load());
    let folder = tempfile::tempdir()?;
    let port = free_port()?;
    let servers = vec![server((port, free_port()?), folder.path(), &[NAMESPACE])?];
    let address = format!("http://127.0.0.1:{port}");
    until_it_answers(&address).await?;
    let engine = Engine {
        name: "Temporal",
        servers,
        provider: format!("kind = \"temporal-host\"\naddress = \"{address}\"\n"),
        ready: "polls the task queue",
    };
    let lab = Lab::new(engine, folder).await?;
    let plain = Plain::begin(&address).await?;
    let mut slow = Vec::new();
    for in_flight in IN_FLIGHT {
        let ratio = compare(&lab, &plain, in_flight).await?;
        if ratio < LEAST_RATIO {
            slow.push(format!("{ratio:.2} with {in_flight} under way"));
        }
    }
    lab.check().await?;
    println!("load average {}", load());
    if slow.is_empty() {
        return Ok(());
    }
    let slow = slow.join(", ");
    Err(format!("hosted chains to plain chains: {slow}; {LEAST_RATIO} wanted").into())
}

/// Alternating rounds; the median of the ratios of the rates.
async fn compare(lab: &Lab, plain: &Plain, in_flight: usize) -> Outcome<f64> {
    println!("\nchains of 5, {in_flight} under way");
    lab.measure(in_flight, WARM_UP).await?;
    plain.measure(lab, in_flight, WARM_UP).await?;
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let (hosted, activities): (Figures, Figures);
        // Neither is always the first one.
        if round % 2 == 0 {
            hosted = lab.measure(in_flight, SECONDS).await?;
            activities = plain.measure(lab, in_flight, SECONDS).await?;
        } else {
            activities = plain.measure(lab, in_flight, SECONDS).await?;
            hosted = lab.measure(in_flight, SECONDS).await?;
        }
        let ratio = hosted.rate() / activities.rate();
        println!(
            "hosted\n{hosted}\nfive activities\n{activities}\n  ratio of the rates {ratio:.2}"
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ratios.len() / 2];
    println!("{in_flight} under way: median ratio {ratio:.2} of {ROUNDS} rounds");
    Ok(ratio)
}
