//! Kills the gateway, again and again, at random moments under load, and checks what it promised:
//! every acknowledged start ends, no acknowledged step is lost or done again, what is undone is
//! undone in the right order, and the log and the rows agree.
//!
//! The workers and the load live here, so that they remember what was acknowledged to them. A
//! worker, too, loses its memory now and then. The same seed makes the same choices; the moments
//! still depend on the machine.

mod book;
mod chance;
mod check;
mod load;
mod progress;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::process::{Server, stateway_on};
use book::Book;
use chance::Chance;
use progress::{Progress, Totals};

/// How many workers there are.
const WORKERS: usize = 4;
/// How many executions are started at once.
const LANES: usize = 12;
/// After so many kills everything may end and is checked.
const CHECK_EVERY: u64 = 25;
/// How long everything may take to end once nobody kills.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a campaign is asked to do.
pub(crate) struct Campaign {
    /// The kills of all runs together.
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    /// The file with the progress of the campaign.
    pub(crate) state: PathBuf,
    /// Whether the file of an earlier campaign is replaced.
    pub(crate) new: bool,
}

pub(crate) async fn run(campaign: &Campaign) -> Outcome<()> {
    if campaign.new {
        progress::remove(&campaign.state)?;
    }
    let mut progress = Progress::open(&campaign.state, campaign.seed)?;
    let rounds = campaign.rounds.saturating_sub(progress.totals.kills);
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("stateway.toml");
    std::fs::write(&config, configuration(folder.path()))?;
    // The port stays the same, so that workers and load find the gateway again.
    let address = free_address()?;
    let mut chance = Chance::new(progress.seed_of_run());
    let book = Arc::new(Book::default());
    let mut checked = check::Checked::default();
    println!(
        "seed {}, {} rounds, {} of them done",
        campaign.seed, campaign.rounds, progress.totals.kills
    );

    let first = stateway_on(&config, &address).await?;
    load::apply(&first.url).await?;
    let url = first.url.clone();
    drop(first);
    let workers: Vec<_> = (0..WORKERS)
        .map(|index| tokio::spawn(worker::run(url.clone(), index, Arc::clone(&book))))
        .collect();
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| tokio::spawn(load::run(url.clone(), lane, Arc::clone(&book))))
        .collect();

    let began = Instant::now();
    for round in 1..=rounds {
        let server = stateway_on(&config, &address).await?;
        let while_starting = chance.below(10) == 0;
        if !while_starting {
            tokio::time::sleep(Duration::from_millis(20 + chance.below(400))).await;
        }
        if chance.below(3) == 0 {
            book.lose_memory(chance.pick(WORKERS));
        }
        kill(server).await?;
        if round % CHECK_EVERY == 0 || round == rounds {
            let server = stateway_on(&config, &address).await?;
            let found = check::settle(&server, (&book, &mut checked), PATIENCE).await?;
            println!("{round:5} kills in {:4.0?}: {found}", began.elapsed());
            progress.checked(Totals {
                kills: round,
                ..found.totals()
            })?;
            kill(server).await?;
        }
    }
    workers.into_iter().for_each(|worker| worker.abort());
    lanes.into_iter().for_each(|lane| lane.abort());
    let Totals {
        kills,
        executions,
        answers,
        handed_out_again,
        runs,
    } = progress.totals;
    println!(
        "{kills} kills in {runs} runs: {executions} acknowledged starts ended, {answers} acknowledged \
         answers kept, {handed_out_again} tasks handed out again before they were answered"
    );
    println!("nothing that was acknowledged was lost or done again");
    Ok(())
}

fn configuration(folder: &Path) -> String {
    let store = folder.join("store.db");
    format!(
        "[providers.builtin]\nkind = \"builtin\"\npath = {:?}\nreconnect = \"1s\"\nlease = \"3s\"\n\
         max_active = 10\n",
        store.display()
    )
}

fn free_address() -> Outcome<String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}

/// As a power cut would, for the process.
async fn kill(mut server: Server) -> Outcome<()> {
    server.kill().await
}
