//! The built-in engine from outside: the gateway, a worker and the load are three processes, every
//! answer is on disk before it is given, and all of them share this machine.

mod beside;
mod chain;
mod disk;
mod figures;
pub(crate) mod growth;
mod load;
pub(crate) mod timers;
pub(crate) mod verify;

use std::path::Path;

use crate::Outcome;
use crate::process::{Server, bench_worker, stateway_with};
pub(crate) use chain::source;
use figures::Figures;
pub(crate) use figures::cpu;

/// Executions that run at the same time.
const IN_FLIGHT: usize = 64;
/// How long each measurement lasts.
const SECONDS: u64 = 10;
/// The required rate of chains of five steps, in durable steps per second.
const LEAST_STEPS: f64 = 12_000.0;
/// The limit of resident memory.
const MOST_RESIDENT_MIB: f64 = 100.0;

/// A gateway with a store of its own, and a worker.
pub(crate) struct Lab {
    pub(crate) gateway: Server,
    pub(crate) worker: Server,
    folder: tempfile::TempDir,
}

impl Lab {
    async fn new() -> Outcome<Self> {
        Self::on(None).await
    }

    /// The same with a store in this database.
    async fn on(database: Option<&str>) -> Outcome<Self> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("stateway.toml");
        let store = folder.path().join("store.db");
        let store = match database {
            Some(address) => format!("store = {address:?}"),
            None => format!("path = {:?}", store.display()),
        };
        let text = format!("[providers.builtin]\nkind = \"builtin\"\n{store}\n");
        std::fs::write(&config, text)?;
        let gateway = stateway_with(&config).await?;
        let worker = bench_worker(&gateway.url, 256).await?;
        Ok(Self {
            gateway,
            worker,
            folder,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

pub(crate) async fn run(
    executions: Option<u64>,
    beside_restate: bool,
    database: Option<&str>,
) -> Outcome<()> {
    if beside_restate {
        return beside::run().await;
    }
    let lab = Lab::on(database).await?;
    chain::apply(&lab).await?;
    if let Some(executions) = executions {
        return long(&lab, executions).await;
    }
    println!(
        "one fdatasync here takes {}",
        disk::fdatasync(lab.folder())?
    );
    load::lanes(&lab, "chain-5", IN_FLIGHT, 2).await?;
    let mut reached = 0.0_f64;
    for steps in [5_u32, 1] {
        let figures = measured(&lab, steps, IN_FLIGHT).await?;
        println!("\nchains of {steps}, {IN_FLIGHT} under way\n{figures}");
        if steps == 5 {
            reached = figures.steps_per_second();
        }
    }
    let alone = measured(&lab, 5, 1).await?;
    println!("\nchains of 5, one at a time\n{alone}");
    println!(
        "one fdatasync here takes {}",
        disk::fdatasync(lab.folder())?
    );
    let resident = lab.gateway.resident_mib()?;
    // The required figures are those of a store in a file.
    if database.is_some() {
        return Ok(());
    }
    if reached < LEAST_STEPS {
        return Err(format!("{reached:.0} steps/s, {LEAST_STEPS:.0} wanted").into());
    }
    if resident > MOST_RESIDENT_MIB {
        return Err(format!("{resident:.0} MiB resident, {MOST_RESIDENT_MIB:.0} allowed").into());
    }
    Ok(())
}

async fn measured(lab: &Lab, steps: u32, lanes: usize) -> Outcome<Figures> {
    let before = figures::Reading::take(lab).await?;
    let run = load::lanes(lab, &format!("chain-{steps}"), lanes, SECONDS).await?;
    let after = figures::Reading::take(lab).await?;
    Ok(Figures::new(steps, run, &before, &after))
}

/// Many executions, to see that nothing grows with their number.
async fn long(lab: &Lab, executions: u64) -> Outcome<()> {
    println!("executions  steps/s  CPU/step  RSS");
    let mut done = 0;
    while done < executions {
        let before = figures::Reading::take(lab).await?;
        let run = load::lanes(lab, "chain-1", IN_FLIGHT, SECONDS).await?;
        let after = figures::Reading::take(lab).await?;
        done += run.count();
        let figures = Figures::new(1, run, &before, &after);
        println!("{done:10}  {}", figures.line());
    }
    Ok(())
}
