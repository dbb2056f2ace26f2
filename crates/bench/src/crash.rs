//! Kills the gateway again and again, at random moments under load, and checks that every
//! acknowledged start ends, that no acknowledged answer is lost or requested again, that compensation
//! runs in reverse order, and that the log and the rows agree.
//!
//! The workers and the load run in this process, so that they remember what was acknowledged to them.
//! Workers lose their memory now and then. The same seed makes the same choices; the moments of the
//! kills still depend on the machine.

mod book;
mod check;
mod load;
mod phases;
mod progress;
mod store;
mod worker;

use std::path::PathBuf;
use std::time::Instant;

use crate::Outcome;
use phases::Phases;
use progress::{Progress, Totals};

/// Number of workers.
const WORKERS: usize = 4;
/// Number of lanes that start executions.
const LANES: usize = 12;
/// Number of executions of one lane that may be open. A longer queue would only prolong the wait for
/// its end before a check.
const OPEN_PER_LANE: usize = 3;
/// Number of kills between two checks.
const CHECK_EVERY: u64 = 50;
/// Number of kills after which the campaign continues with an empty store. A check reads the whole
/// store, and a restart scans it.
const KILLS_PER_STORE: u64 = 500;

/// The settings of a campaign.
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
    println!(
        "seed {}, {} rounds, {} of them done",
        campaign.seed, campaign.rounds, progress.totals.kills
    );
    let began = Instant::now();
    let mut phases = Phases::default();
    while progress.totals.kills < campaign.rounds {
        let rounds = (campaign.rounds - progress.totals.kills).min(KILLS_PER_STORE);
        progress.next_store();
        store::run(rounds, &mut progress, &mut phases, began).await?;
    }
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
    println!("this run: {phases}");
    println!("nothing that was acknowledged was lost or done again");
    Ok(())
}
