//! A provider process that is killed and restarted again and again under a watch: no change is lost, and
//! nothing is left behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stateway_client::v1;
use stateway_client::v1::watch_executions_response::Kind;
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::MEMORY;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, Provider, StartDefinition, StartRequest,
};
use stateway_provider_memory::{Clock, MemoryProvider, Upstream};

use super::process::{Process, Socket, remote};
use super::serves;
use crate::support::{TestGateway, Watching};

/// How often the process is killed: `STATEWAY_REMOTE_KILLS`, or a few times.
fn kills() -> u64 {
    let wanted = std::env::var("STATEWAY_REMOTE_KILLS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(25)
}

/// A stream of numbers from a seed.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides.max(1)
    }
}

/// Changes the engine directly, whether its provider runs or not.
struct Hand {
    hand: MemoryProvider,
    open: Vec<ExecutionId>,
    /// The last native state of each execution.
    truth: BTreeMap<String, &'static str>,
    requests: u64,
}

impl Hand {
    fn new(upstream: &Arc<Upstream>) -> Self {
        Self {
            hand: Process::memory(upstream, MEMORY),
            open: Vec::new(),
            truth: BTreeMap::new(),
            requests: 0,
        }
    }

    fn request_id(&mut self) -> stateway_provider_api::RequestId {
        self.requests += 1;
        format!("hand-{}", self.requests).parse().unwrap()
    }

    async fn start(&mut self) {
        let input = r#"{"steps":[{"name":"work","takes":"1h"}]}"#;
        let request = StartRequest {
            input: Some(Payload::json(input)),
            ..StartRequest::new(StartDefinition::native("script"), self.request_id())
        };
        let call = Call::within(Duration::from_secs(5));
        let id = self.hand.start(&call, request).await.unwrap().id;
        self.truth.insert(id.to_string(), "ACTIVE");
        self.open.push(id);
    }

    async fn kill(&mut self, at: usize) {
        let id = self.open.swap_remove(at);
        let request = CancelRequest {
            id: id.clone(),
            mode: CancelMode::Kill,
            compensation: CompensationChoice::AsDefined,
            comment: String::new(),
            request_id: self.request_id(),
        };
        let call = Call::within(Duration::from_secs(5));
        self.hand.cancel(&call, request).await.unwrap();
        self.truth.insert(id.to_string(), "KILLED");
    }

    async fn change(&mut self, dice: &mut Dice) {
        let open = self.open.len() as u64;
        if open > 40 || open > 0 && dice.roll(2) == 0 {
            self.kill(dice.roll(open) as usize).await;
        } else {
            self.start().await;
        }
    }
}

/// What a client knows from its watch.
struct Reader {
    seen: BTreeMap<String, String>,
}

impl Reader {
    fn take(&mut self, answer: v1::WatchExecutionsResponse) {
        let kind = answer.kind();
        let Some(execution) = answer.execution else {
            return;
        };
        let id = execution
            .name
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        if kind == Kind::Removed {
            self.seen.remove(&id);
        } else {
            self.seen.insert(id, execution.native_state);
        }
    }

    fn knows(&self, truth: &BTreeMap<String, &'static str>) -> bool {
        self.seen.len() == truth.len()
            && self
                .seen
                .iter()
                .all(|(id, state)| truth.get(id) == Some(&state.as_str()))
    }
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_the_provider_lose_no_change_and_leak_no_stream() {
    let socket = Socket::new();
    let upstream = Upstream::new(Clock::manual(jiff::Timestamp::now()));
    let mut engine = Hand::new(&upstream);
    let mut process = Process::on(&upstream, &socket);
    let mut gateway = TestGateway::new();
    // The breaker and the pauses of the followers are made for outages of seconds.
    gateway.settings.default_upstream.breaker_cool_down = Duration::from_millis(20);
    let gateway = gateway.with("far", "remote", remote(&socket)).start().await;
    serves(&gateway).await;
    let mut watching = Watching::on(&gateway, "providers/far").await;
    let mut reader = Reader {
        seen: BTreeMap::new(),
    };
    let mut dice = Dice(7);
    // Every stream of every process shares the engine: their number shows a stream that is left behind.
    let (began, mut files, mut shares) = (Instant::now(), 0, 0);
    let kills = kills();
    for kill in 0..kills {
        for _ in 0..=dice.roll(4) {
            engine.change(&mut dice).await;
        }
        tokio::time::sleep(Duration::from_millis(dice.roll(30))).await;
        drop(process);
        // What happens while nobody can see it must arrive as well.
        engine.change(&mut dice).await;
        process = Process::on(&upstream, &socket);
        // Every tenth time the reader must be told everything before the next kill.
        if kill % 10 == 9 {
            follow(&mut watching, &mut reader, &engine.truth).await;
            if kill == 9 {
                (files, shares) = (open_files(), Arc::strong_count(&upstream));
            }
        }
    }
    follow(&mut watching, &mut reader, &engine.truth).await;
    let took = began.elapsed().as_secs_f64();
    let calm = async {
        // A killed process ends in the background.
        while Arc::strong_count(&upstream) > shares || open_files() > files {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let is_calm = tokio::time::timeout(super::PATIENCE, calm).await.is_ok();
    let (left, shared) = (open_files(), Arc::strong_count(&upstream));
    assert!(
        is_calm,
        "files {files}, then {left}; streams {shares}, then {shared}"
    );
    let open_calls = super::health(&super::provider(&gateway).await).open_call_count;
    assert!(open_calls <= 1, "{open_calls} calls are open");
    println!(
        "{kills} kills in {took:.1} s: {} executions, every last state arrived; open files: {files} \
         after 10 kills, {left} at the end; users of the engine: {shares}, then {shared}",
        engine.truth.len(),
    );
}

async fn follow(
    watching: &mut Watching,
    reader: &mut Reader,
    truth: &BTreeMap<String, &'static str>,
) {
    while !reader.knows(truth) {
        let answer = watching.next().await.expect("the watch is open");
        reader.take(answer);
    }
}
