//! The kills on one store: a gateway that is started and killed, with workers and load around it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::book::Book;
use super::check::{self, Checked};
use super::phases::Phases;
use super::progress::{Progress, Totals};
use super::{CHECK_EVERY, LANES, WORKERS, load, worker};
use crate::Outcome;
use crate::process::{spawn_on, stateway_on};
use stateway_chance::Chance;

/// How long all executions may take to end after the last kill.
const PATIENCE: Duration = Duration::from_secs(180);

/// Kills a gateway on a new store this number of times. The folder of a store that fails its check is kept.
pub(super) async fn run(
    rounds: u64,
    progress: &mut Progress,
    phases: &mut Phases,
    began: Instant,
) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let store = Store::create(folder.path(), Chance::new(progress.seed_of_store())).await?;
    let found = store.kill_and_check(rounds, progress, phases, began).await;
    found.map_err(|error| {
        let folder = folder.keep();
        format!("{error}\nthe store is kept in {}", folder.display()).into()
    })
}

struct Store {
    config: PathBuf,
    /// The port stays the same, so that workers and load find the gateway again.
    address: String,
    chance: Chance,
    book: Arc<Book>,
    checked: Checked,
    /// The workers and the load. They end with this.
    _around: JoinSet<()>,
}

impl Store {
    async fn create(folder: &Path, chance: Chance) -> Outcome<Self> {
        let config = folder.join("stateway.toml");
        std::fs::write(&config, configuration(folder))?;
        let address = free_address()?;
        let mut first = stateway_on(&config, &address).await?;
        load::apply(&first.url).await?;
        let url = first.url.clone();
        first.kill().await?;
        let book = Arc::new(Book::default());
        let mut around = JoinSet::new();
        for index in 0..WORKERS {
            around.spawn(worker::run(url.clone(), index, Arc::clone(&book)));
        }
        for lane in 0..LANES {
            around.spawn(load::run(url.clone(), lane, Arc::clone(&book)));
        }
        Ok(Self {
            config,
            address,
            chance,
            book,
            checked: Checked::default(),
            _around: around,
        })
    }

    async fn kill_and_check(
        mut self,
        rounds: u64,
        progress: &mut Progress,
        phases: &mut Phases,
        began: Instant,
    ) -> Outcome<()> {
        for round in 1..=rounds {
            self.kill_once(phases).await?;
            if round.is_multiple_of(CHECK_EVERY) || round == rounds {
                let found = self.check(phases).await?;
                progress.checked(Totals {
                    kills: round,
                    ..found.totals()
                })?;
                let kills = progress.totals.kills;
                println!("{kills:5} kills in {:4.0?}: {found}", began.elapsed());
            }
        }
        Ok(())
    }

    /// Starts a gateway and kills it at a random moment: in one case of ten before it listens, else
    /// under load.
    async fn kill_once(&mut self, phases: &mut Phases) -> Outcome<()> {
        let asked = Instant::now();
        let mut server = if self.chance.below_u64(10) == 0 {
            let server = spawn_on(&self.config, &self.address)?;
            tokio::time::sleep(Duration::from_millis(self.chance.below_u64(60))).await;
            phases.start += asked.elapsed();
            server
        } else {
            let server = stateway_on(&self.config, &self.address).await?;
            phases.start += asked.elapsed();
            let load = Instant::now();
            tokio::time::sleep(self.moment()).await;
            phases.load += load.elapsed();
            server
        };
        if self.chance.below_u64(3) == 0 {
            self.book.lose_memory(self.chance.below(WORKERS));
        }
        let end = Instant::now();
        server.kill().await?;
        phases.end += end.elapsed();
        phases.kills += 1;
        Ok(())
    }

    /// How long a gateway works before it is killed: mostly while workers reconnect and tasks are
    /// handed out again, now and then in the middle of steady work.
    fn moment(&mut self) -> Duration {
        let longest = if self.chance.below_u64(4) == 0 {
            400
        } else {
            160
        };
        Duration::from_millis(self.chance.below_u64(longest))
    }

    async fn check(&mut self, phases: &mut Phases) -> Outcome<check::Found> {
        let mut server = stateway_on(&self.config, &self.address).await?;
        let settle = Instant::now();
        self.book.close(true);
        check::settle(&server, PATIENCE).await?;
        phases.settle += settle.elapsed();
        let check = Instant::now();
        let found = check::check(&server, &self.book, &mut self.checked).await?;
        phases.check += check.elapsed();
        self.book.close(false);
        server.kill().await?;
        Ok(found)
    }
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
