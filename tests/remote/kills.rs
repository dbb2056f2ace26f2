//! A provider process that is killed with SIGKILL and started again, over and over, under watches: no change is
//! lost, nothing is left behind, and a provider that is back is called immediately.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use stateway_client::v1;
use stateway_client::v1::watch_executions_response::Kind;

use super::journal::{GONE, JournalFile, ProviderProcess};
use super::process::{Socket, remote};
use super::{PATIENCE, get, serves};
use crate::support::{Running, TestGateway, Watching};
use stateway_chance::Chance;

/// The execution that is also watched on its own.
const ANCHOR: &str = "anchor";
/// The longest that a call may fail after the provider was started: most of it is the start of the process
/// and the pause between two connects. The breaker alone would wait for 5 seconds.
const BACK_WITHIN: Duration = Duration::from_secs(4);

/// What may be held for a moment.
const SLACK: usize = 8;

/// How often the process is killed: `STATEWAY_REMOTE_KILLS`, or a few times.
fn kills() -> u64 {
    let wanted = std::env::var("STATEWAY_REMOTE_KILLS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(25)
}

/// Changes the engine, whether its provider runs or not, and knows the truth.
struct Hand {
    journal: JournalFile,
    open: Vec<String>,
    /// The last native state of each execution that exists.
    truth: BTreeMap<String, &'static str>,
    /// Every execution that ever existed when all changes had to be known.
    numbers: u64,
    changes: u64,
}

impl Hand {
    fn set(&mut self, id: &str, state: &'static str) {
        self.changes += 1;
        self.journal.set(id, state);
        if state == GONE {
            self.truth.remove(id);
        } else {
            self.truth.insert(id.to_owned(), state);
        }
    }

    /// A new execution, the end of one, the removal of one, or another state of the one that is watched alone.
    fn change(&mut self, dice: &mut Chance) {
        let open = self.open.len() as u64;
        match dice.below_u64(8) {
            0 => {
                let state = ["ACTIVE", "HELD", "STUCK"][dice.below_u64(3) as usize];
                self.set(ANCHOR, state);
            }
            1 if open > 0 => {
                let id = self.open.swap_remove(dice.below_u64(open) as usize);
                self.set(&id, GONE);
            }
            2..=4 if open > 0 => {
                let id = self.open.swap_remove(dice.below_u64(open) as usize);
                self.set(&id, "KILLED");
            }
            _ => {
                self.numbers += 1;
                let id = format!("e{}", self.numbers);
                self.set(&id, "ACTIVE");
                self.open.push(id);
            }
        }
    }
}

/// What a client knows from its watch.
#[derive(Default)]
struct Reader {
    seen: BTreeMap<String, String>,
    /// Every execution that was ever reported.
    met: BTreeSet<String>,
}

impl Reader {
    fn take(&mut self, answer: v1::WatchExecutionsResponse) {
        let kind = answer.kind();
        let Some(execution) = answer.execution else {
            return;
        };
        let id = execution.name.rsplit('/').next().unwrap_or_default();
        if kind == Kind::Removed {
            self.seen.remove(id);
        } else {
            self.met.insert(id.to_owned());
            self.seen.insert(id.to_owned(), execution.native_state);
        }
    }

    async fn follow(&mut self, watching: &mut Watching, truth: &BTreeMap<String, &'static str>) {
        let knows = |seen: &BTreeMap<String, String>| {
            seen.len() == truth.len()
                && seen
                    .iter()
                    .all(|(id, state)| truth.get(id) == Some(&state.as_str()))
        };
        while !knows(&self.seen) {
            let answer = watching.next().await.expect("the watch is open");
            self.take(answer);
        }
        assert!(truth.keys().all(|id| self.met.contains(id)));
    }
}

/// What a leak would make grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    files: usize,
    tasks: usize,
    calls: i32,
}

impl Held {
    async fn by(gateway: &Running) -> Self {
        Self {
            files: std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
            tasks: tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks(),
            calls: super::health(&super::provider(gateway).await).open_call_count,
        }
    }

    /// Whether this is about as much as before. A connection that was being made when one of them was
    /// counted is a few tasks and files more; a leak is at least one more for each kill.
    fn is_within(self, before: Self) -> bool {
        self.files <= before.files + SLACK
            && self.tasks <= before.tasks + SLACK
            && self.calls <= before.calls.max(1)
    }
}

/// The time until a call succeeds.
async fn until_answered(gateway: &Running) -> Duration {
    let began = Instant::now();
    let name = format!("providers/far/executions/{ANCHOR}");
    while let Err(error) = get(gateway, &name).await {
        assert!(began.elapsed() < BACK_WITHIN, "still {error}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_the_provider_process_lose_no_change_and_leak_no_stream() {
    let socket = Socket::new();
    let journal = socket.path().with_extension("journal");
    let mut hand = Hand {
        journal: JournalFile::new(&journal),
        open: Vec::new(),
        truth: BTreeMap::new(),
        numbers: 0,
        changes: 0,
    };
    hand.set(ANCHOR, "ACTIVE");
    let mut process = ProviderProcess::start(&socket.path(), &journal);
    let gateway = TestGateway::new()
        .with("far", "remote", remote(&socket))
        .start()
        .await;
    serves(&gateway).await;
    let mut watching = Watching::on(&gateway, "providers/far").await;
    let request = v1::WatchExecutionsRequest {
        names: vec![format!("providers/far/executions/{ANCHOR}")],
        ..v1::WatchExecutionsRequest::default()
    };
    let mut watching_one = Watching::open(&gateway, request).await.expect("it opens");
    let (mut reader, mut reader_of_one) = (Reader::default(), Reader::default());
    let mut dice = Chance::new(7);
    let (began, mut held, mut back) = (Instant::now(), None, Vec::new());
    let kills = kills();
    for kill in 0..kills {
        for _ in 0..=dice.below_u64(4) {
            hand.change(&mut dice);
        }
        tokio::time::sleep(Duration::from_millis(dice.below_u64(60))).await;
        process.kill();
        // What happens while nobody can see it must arrive as well.
        hand.change(&mut dice);
        process = ProviderProcess::start(&socket.path(), &journal);
        if kill % 2 == 0 {
            back.push(until_answered(&gateway).await);
        }
        // Every tenth time the readers must know everything before the next kill.
        if kill % 10 == 9 {
            reader.follow(&mut watching, &hand.truth).await;
            let anchor = BTreeMap::from([(ANCHOR.to_owned(), hand.truth[ANCHOR])]);
            reader_of_one.follow(&mut watching_one, &anchor).await;
            if kill == 9 {
                held = Some(Held::by(&gateway).await);
            }
        }
    }
    reader.follow(&mut watching, &hand.truth).await;
    let anchor = BTreeMap::from([(ANCHOR.to_owned(), hand.truth[ANCHOR])]);
    reader_of_one.follow(&mut watching_one, &anchor).await;
    let took = began.elapsed().as_secs_f64();
    let early = held.expect("at least ten kills");
    let calm = async {
        // What a lost connection held ends in the background.
        loop {
            let now = Held::by(&gateway).await;
            if now.is_within(early) {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let Ok(late) = tokio::time::timeout(PATIENCE, calm).await else {
        let late = Held::by(&gateway).await;
        panic!("after 10 kills {early:?}, at the end {late:?}");
    };
    back.sort();
    println!(
        "{kills} kills in {took:.1} s: {} changes of {} executions, every last state arrived in both watches; \
         first answer {} ms after the start of the process (median), {} ms (longest); after 10 kills {early:?}, \
         at the end {late:?}",
        hand.changes,
        hand.numbers + 1,
        back[back.len() / 2].as_millis(),
        back[back.len() - 1].as_millis(),
    );
}
