//! Many executions inside an engine while gateway, host and server die in turn, and all hosts stay away. The tests of
//! Temporal use it too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use stateway_model::ExecutionId;
use stateway_provider_api::{Call, ListRequest, Provider, View};
use tokio::runtime::Runtime;

use crate::process::{Running, eventually};

/// A server, a host and a gateway with the provider `flows`.
pub(crate) trait Engine {
    /// The working directory of all commands.
    fn folder(&self) -> &Path;
    /// A command that asks the gateway.
    fn command(&self, arguments: &[&str]) -> Command;
    /// Runs a command, which must succeed.
    fn run(&self, arguments: &[&str]) -> String;
    /// The provider without the gateway.
    fn provider(&self) -> Box<dyn Provider>;
    fn kill_host(&mut self);
    /// Begins the host, and waits until it works.
    fn begin_host(&mut self);
    fn kill_gateway(&mut self);
    fn begin_gateway(&mut self);
    fn kill_server(&mut self);
    fn begin_server(&mut self);
    /// How many executions the engine itself has paused or ended.
    fn count_given_up(&self) -> u64;
}

/// `cargo xtask crash --hosts ENGINE` asks for more with these variables.
const EXECUTIONS: &str = "STATEWAY_HOSTS_EXECUTIONS";
const AWAY: &str = "STATEWAY_HOSTS_AWAY";
/// How many executions are started at the same time.
const LANES: usize = 4;
/// The steps of the chain.
const STEPS: usize = 5;
/// How long a process stays away after a kill.
const PAUSE: Duration = Duration::from_millis(700);
/// How long the executions may take, beside the time in which the hosts are away.
const PATIENCE: Duration = Duration::from_secs(600);

/// The timeouts are longer than the hosts are away: an attempt whose result is not recorded in time has timed out, on every
/// engine.
const CHAIN: &str = "\
name: campaign
steps:
  - {name: s1, agent: effects, timeout: 30m}
  - {name: s2, agent: effects, timeout: 30m, dependsOn: [s1]}
  - {name: s3, agent: effects, timeout: 30m, dependsOn: [s2]}
  - {name: nap, sleep: 200ms, dependsOn: [s2]}
  - {name: s4, agent: effects, timeout: 30m, dependsOn: [s3, nap]}
  - {name: s5, agent: effects, timeout: 30m, dependsOn: [s4]}
";

/// A schedule with a time every minute. Of the times that pass while no host runs, the newest starts an execution.
const TICKS: &str = "\
name: ticks
trigger: {schedule: '* * * * *'}
steps: [{name: rest, sleep: 10ms}]
";

/// What the worker does: one line for each effect. A short line is appended in one piece.
const EFFECT: &str =
    "echo \"$STATEWAY_EXECUTION $STATEWAY_STEP\" >> effects.txt; /bin/sleep 0.05; echo '{}'";

fn number(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok();
    given.map_or(default, |text| text.parse().unwrap())
}

/// Runs a command until it succeeds.
fn repeat(mut command: Command) {
    let until = Instant::now() + PATIENCE;
    loop {
        let output = command.output().unwrap();
        if output.status.success() {
            return;
        }
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(Instant::now() < until, "{message}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn all_started(starting: Vec<JoinHandle<()>>) {
    for lane in starting {
        lane.join().unwrap();
    }
}

struct Campaign<'e> {
    engine: &'e mut dyn Engine,
    provider: Box<dyn Provider>,
    runtime: Runtime,
    _worker: Running,
}

/// All executions end, every step is recorded once, and no effect is missing.
pub(crate) fn run(engine: &mut dyn Engine) {
    let count = number(EXECUTIONS, 40);
    let away = Duration::from_secs(number(AWAY, 5) as u64);
    let mut campaign = Campaign::begin(engine);
    let begun = Instant::now();
    // Processes die while executions are started, too.
    let starting = campaign.start("first", count);
    let mut deaths = 0;
    loop {
        let ended = campaign.ended("first");
        // Each of the three dies, if necessary after the last end.
        if ended == count && deaths >= 3 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{ended} of {count} have ended");
        campaign.kill(deaths);
        deaths += 1;
        std::thread::sleep(Duration::from_secs(2));
    }
    all_started(starting);
    let took = begun.elapsed();
    let (effects, doubles) = campaign.check("first", count);
    println!(
        "{count} executions of {STEPS} tasks and a sleep, {deaths} kills (kill -9) of host, gateway and server in \
         turn: all succeeded after {:.0} s; {effects} effects, {doubles} of them repeated",
        took.as_secs_f64()
    );
    // All hosts are away while executions are under way and others are started.
    let few = (count / 10).max(5);
    all_started(campaign.start("second", few));
    campaign.engine.kill_host();
    let left = Timestamp::now();
    let waiting: Vec<_> = (0..3)
        .map(|nth| {
            let id = format!("third-{nth}");
            let key = format!("start-{id}");
            let mut start = campaign.engine.command(&["start", "campaign", "--id", &id]);
            start.args(["--provider", "flows", "--timeout", "2s"]);
            Running::begin(start.args(["--request-id", &key]))
        })
        .collect();
    std::thread::sleep(away);
    let returned = Timestamp::now();
    campaign.engine.begin_host();
    let back = Instant::now();
    drop(waiting);
    eventually("all executions have ended", || {
        let ended = campaign.ended("second") + campaign.ended("third");
        (ended == few + 3).then_some(())
    });
    let ended_after = back.elapsed();
    campaign.check("second", few);
    campaign.check("third", 3);
    let (passed, started) = campaign.check_schedule(left, returned);
    println!(
        "all hosts away for {} s: {} executions ended within {:.0} s of the return of a host; of {passed} times of a \
         schedule that passed meanwhile {started} started an execution",
        away.as_secs(),
        few + 3,
        ended_after.as_secs_f64()
    );
    campaign.engine.run(&["triggers", "disable", "ticks"]);
    assert_eq!(campaign.engine.count_given_up(), 0);
}

impl<'e> Campaign<'e> {
    fn begin(engine: &'e mut dyn Engine) -> Self {
        for (name, source) in [("campaign.yaml", CHAIN), ("ticks.yaml", TICKS)] {
            std::fs::write(engine.folder().join(name), source).unwrap();
            engine.run(&["definitions", "apply", name]);
        }
        engine.run(&["definitions", "migrate", "ticks", "--to", "flows"]);
        let mut worker = engine.command(&["worker", "--role", "effects", "--exec", EFFECT]);
        worker.args(["--provider", "flows", "--capacity", "24"]);
        let worker = Running::begin(&mut worker);
        let runtime = Runtime::new().unwrap();
        let provider = {
            let _guard = runtime.enter();
            engine.provider()
        };
        Self {
            engine,
            provider,
            runtime,
            _worker: worker,
        }
    }

    /// Starts executions in four threads. A start that fails is repeated with the same request id.
    fn start(&self, prefix: &str, count: usize) -> Vec<JoinHandle<()>> {
        let lane = |lane: usize| {
            let starts: Vec<_> = (lane..count)
                .step_by(LANES)
                .map(|nth| {
                    let id = format!("{prefix}-{nth}");
                    let key = format!("start-{id}");
                    let mut start = self.engine.command(&["start", "campaign", "--id", &id]);
                    start.args(["--provider", "flows", "--timeout", "5s"]);
                    start.args(["--request-id", &key]);
                    start
                })
                .collect();
            std::thread::spawn(|| starts.into_iter().for_each(repeat))
        };
        (0..LANES).map(lane).collect()
    }

    /// Kills one process and starts it again.
    fn kill(&mut self, nth: usize) {
        match nth % 3 {
            0 => {
                self.engine.kill_host();
                std::thread::sleep(PAUSE);
                self.engine.begin_host();
            }
            1 => {
                self.engine.kill_gateway();
                std::thread::sleep(PAUSE);
                self.engine.begin_gateway();
            }
            _ => {
                self.engine.kill_server();
                std::thread::sleep(PAUSE);
                self.engine.begin_server();
            }
        }
    }

    /// The sub-states of the executions whose ids begin so, by id. Waits while a server that has just begun does not
    /// answer.
    fn all(&self, prefix: &str) -> BTreeMap<String, String> {
        let mut all = eventually("the server lists the executions", || self.listed().ok());
        all.retain(|id, _| id.starts_with(prefix));
        all
    }

    fn listed(&self) -> Result<BTreeMap<String, String>, stateway_provider_api::Error> {
        self.runtime.block_on(async {
            let (mut all, mut cursor) = (BTreeMap::new(), None);
            loop {
                let request = ListRequest {
                    hints: stateway_provider_api::filter::Hints::none(),
                    page_size: 500,
                    cursor: cursor.take(),
                };
                let call = Call::within(Duration::from_secs(20));
                let page = self.provider.list(&call, request).await?;
                for seen in page.observations {
                    let (sub_state, _) = seen.reported.unwrap();
                    all.insert(seen.id.to_string(), sub_state.to_string());
                }
                cursor = page.next;
                if cursor.is_none() {
                    return Ok(all);
                }
            }
        })
    }

    /// How many executions whose ids begin so have ended.
    fn ended(&self, prefix: &str) -> usize {
        let all = self.all(prefix);
        let ended = all.values();
        ended
            .filter(|it| *it == "succeeded" || *it == "failed")
            .count()
    }

    /// Of the times of the schedule between these two, at most the newest has started an execution, and later times
    /// start others. The number of times, and of executions.
    fn check_schedule(&self, left: Timestamp, returned: Timestamp) -> (usize, usize) {
        let minutes = (left.as_second() / 60 + 1)..=(returned.as_second() / 60);
        let time = |id: &str| -> Timestamp {
            let text = id.trim_start_matches("ticks~");
            let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).unwrap();
            time.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp()
        };
        let ticks: BTreeSet<i64> = eventually("the times that passed start an execution", || {
            let ticks = self.all("ticks~");
            assert!(!ticks.values().any(|it| it == "failed"), "{ticks:?}");
            let minutes_of = ticks.keys().map(|id| time(id).as_second() / 60);
            let ticks: BTreeSet<i64> = minutes_of.collect();
            let is_done = minutes.is_empty() || ticks.last() >= Some(minutes.start());
            is_done.then_some(ticks)
        });
        let started: Vec<_> = ticks.iter().filter(|it| minutes.contains(it)).collect();
        assert!(started.len() <= 1, "{started:?} of {minutes:?}");
        assert!(
            started.iter().all(|it| *it == minutes.end()),
            "{started:?} of {minutes:?}"
        );
        (minutes.count(), started.len())
    }

    /// Checks the executions whose ids begin so. The number of effects, and how many were repeated.
    fn check(&self, prefix: &str, count: usize) -> (usize, usize) {
        let own = self.all(prefix);
        assert_eq!(own.len(), count, "{own:?}");
        let text = std::fs::read_to_string(self.engine.folder().join("effects.txt")).unwrap();
        let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
        for line in text.lines() {
            *effects.entry(line).or_default() += 1;
        }
        let (mut total, mut distinct) = (0, 0);
        for (id, sub_state) in &own {
            assert_eq!(sub_state, "succeeded", "{id}");
            self.check_log(id);
            for step in 1..=STEPS {
                let line = format!("providers/flows/executions/{id} s{step}");
                let done = effects.get(line.as_str()).copied().unwrap_or_default();
                assert!(done > 0, "{line} has no effect: {effects:?}");
                (total, distinct) = (total + done, distinct + 1);
            }
        }
        (total, total - distinct)
    }

    /// Every step is completed once in the log, and the events are without a gap.
    fn check_log(&self, id: &str) {
        self.runtime.block_on(async {
            let call = Call::within(Duration::from_secs(20));
            let log = self.provider.event_log().unwrap();
            let file = log
                .export(&call, &ExecutionId::new(id).unwrap(), false)
                .await
                .unwrap();
            let recording = stateway_replay::recording::Recording::read(&file).unwrap();
            recording.check().unwrap();
            let mut ends: BTreeMap<String, usize> = BTreeMap::new();
            for (nth, event) in recording.log(None).unwrap().iter().enumerate() {
                assert_eq!(event.sequence, nth as u64 + 1, "{id}");
                if event.fact.name() == "StepCompleted" {
                    let step = event.fact.step().unwrap().to_string();
                    *ends.entry(step).or_default() += 1;
                }
            }
            let steps = ["nap", "s1", "s2", "s3", "s4", "s5"];
            let wanted: BTreeMap<_, _> = steps.iter().map(|it| ((*it).to_owned(), 1)).collect();
            assert_eq!(ends, wanted, "{id}");
            let shown = self
                .provider
                .get(&call, &ExecutionId::new(id).unwrap(), View::Basic)
                .await;
            assert!(shown.is_ok());
        });
    }
}
