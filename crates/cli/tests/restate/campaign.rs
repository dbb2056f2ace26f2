//! Many executions inside the server while gateway, host and server die in turn, and all hosts stay away.

use std::collections::BTreeMap;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stateway_model::ExecutionId;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Call, ListRequest, Provider as _, View};
use stateway_provider_restate::{HostConfig, RestateHostedProvider, hosted_provider};

use crate::hosts::{Stage, begin_gateway, begin_host};
use crate::lab::Lab;
use crate::process::{Running, eventually, post};

/// `cargo xtask crash --hosts restate` asks for more with these variables.
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

struct Campaign<'l> {
    lab: &'l mut Lab,
    stage: Stage,
    provider: RestateHostedProvider,
    runtime: tokio::runtime::Runtime,
    _worker: Running,
}

/// All executions end, every step is recorded once, and no effect is missing.
pub(crate) fn many_executions(lab: &mut Lab) {
    let count = number(EXECUTIONS, 40);
    let away = Duration::from_secs(number(AWAY, 5) as u64);
    let mut campaign = Campaign::begin(lab);
    let begun = Instant::now();
    // Processes die while executions are started, too.
    let starting = campaign.start("first", count);
    let mut deaths = 0;
    while starting.iter().any(|it| !it.is_finished()) || campaign.open() > 0 {
        assert!(begun.elapsed() < PATIENCE, "{} are open", campaign.open());
        campaign.kill(deaths);
        deaths += 1;
        std::thread::sleep(Duration::from_secs(2));
    }
    all_started(starting);
    // Each of the three died.
    assert!(deaths >= 3, "{deaths} kills");
    let (effects, doubles) = campaign.check("first", count);
    println!(
        "{count} executions of {STEPS} tasks and a sleep, {deaths} kills (kill -9) of host, gateway and server in \
         turn: all succeeded after {:.0} s; {effects} effects, {doubles} of them repeated",
        begun.elapsed().as_secs_f64()
    );
    // All hosts are away while executions are under way and others are started.
    let few = (count / 10).max(5);
    all_started(campaign.start("second", few));
    campaign.stage.host.kill();
    let waiting: Vec<_> = (0..3)
        .map(|nth| {
            let id = format!("third-{nth}");
            let key = format!("start-{id}");
            let mut start = campaign.stage.command(&["start", "campaign", "--id", &id]);
            start.args(["--provider", "flows", "--timeout", "2s"]);
            Running::begin(start.args(["--request-id", &key]))
        })
        .collect();
    std::thread::sleep(away);
    campaign.stage.host = begin_host(campaign.stage.folder.path());
    let back = Instant::now();
    drop(waiting);
    eventually("all executions have ended", || {
        (campaign.open() == 0).then_some(())
    });
    campaign.check("second", few);
    campaign.check("third", 3);
    println!(
        "all hosts away for {} s: {} executions ended within {:.0} s of the return of a host",
        away.as_secs(),
        few + 3,
        back.elapsed().as_secs_f64()
    );
    let paused = campaign.paused();
    assert!(paused.contains("\"n\":0"), "{paused}");
}

impl<'l> Campaign<'l> {
    fn begin(lab: &'l mut Lab) -> Self {
        let stage = Stage::new(lab);
        std::fs::write(stage.folder.path().join("campaign.yaml"), CHAIN).unwrap();
        stage.run(&["definitions", "apply", "campaign.yaml"]);
        let mut worker = stage.command(&["worker", "--role", "effects", "--exec", EFFECT]);
        worker.args(["--provider", "flows", "--capacity", "24"]);
        let worker = Running::begin(&mut worker);
        let (admin, ingress) = lab.api_ports();
        let mut config = HostConfig::default();
        config.admin.url = format!("http://127.0.0.1:{admin}");
        config.ingress.url = format!("http://127.0.0.1:{ingress}");
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let provider = runtime
            .block_on(async { hosted_provider(&config, compiled_in("builtin").unwrap()).unwrap() });
        Self {
            lab,
            stage,
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
                    let mut start = self.stage.command(&["start", "campaign", "--id", &id]);
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
        let folder = self.stage.folder.path().to_owned();
        match nth % 3 {
            0 => {
                self.stage.host.kill();
                std::thread::sleep(PAUSE);
                self.stage.host = begin_host(&folder);
            }
            1 => {
                self.stage.gateway.kill();
                std::thread::sleep(PAUSE);
                let port = self.stage.url.rsplit(':').next().unwrap().parse().unwrap();
                self.stage.gateway = begin_gateway(&folder, port);
            }
            _ => {
                self.lab.server.kill();
                std::thread::sleep(PAUSE);
                self.lab.restart_server();
            }
        }
    }

    /// The sub-states of all executions of the campaign, by id.
    fn all(&self) -> BTreeMap<String, String> {
        self.runtime.block_on(async {
            let (mut all, mut cursor) = (BTreeMap::new(), None);
            loop {
                let request = ListRequest {
                    hints: stateway_provider_api::filter::Hints::none(),
                    page_size: 500,
                    cursor: cursor.take(),
                };
                let call = Call::within(Duration::from_secs(20));
                let page = self.provider.list(&call, request).await.unwrap();
                for seen in page.observations {
                    let (sub_state, _) = seen.reported.unwrap();
                    all.insert(seen.id.to_string(), sub_state.to_string());
                }
                cursor = page.next;
                if cursor.is_none() {
                    let of = |id: &String| {
                        ["first-", "second-", "third-"]
                            .iter()
                            .any(|it| id.starts_with(it))
                    };
                    all.retain(|id, _| of(id));
                    return all;
                }
            }
        })
    }

    fn open(&self) -> usize {
        let all = self.all();
        let open = all
            .values()
            .filter(|it| *it != "succeeded" && *it != "failed");
        open.count()
    }

    /// Checks the executions whose ids begin so. The number of effects, and how many were repeated.
    fn check(&self, prefix: &str, count: usize) -> (usize, usize) {
        let all = self.all();
        let own: Vec<_> = all
            .iter()
            .filter(|(id, _)| id.starts_with(prefix))
            .collect();
        assert_eq!(own.len(), count, "{own:?}");
        let text = std::fs::read_to_string(self.stage.folder.path().join("effects.txt")).unwrap();
        let mut effects: BTreeMap<&str, usize> = BTreeMap::new();
        for line in text.lines() {
            *effects.entry(line).or_default() += 1;
        }
        let (mut total, mut distinct) = (0, 0);
        for (id, sub_state) in own {
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

    /// How many invocations Restate has paused.
    fn paused(&self) -> String {
        let (admin, _) = self.lab.api_ports();
        let query = "{\"query\":\"select count(*) as n from sys_invocation where status = 'paused' and target_service_name like 'stateway.%'\"}";
        let (status, answer) = post(admin, "/query", query).unwrap();
        assert_eq!(status, 200, "{answer}");
        answer
    }
}
