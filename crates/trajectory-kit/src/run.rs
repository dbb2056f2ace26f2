//! Plays scenarios and compares what became of them with the golden files.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use stateway_model::{ExecutionId, Payload, SubState};
use stateway_provider_api::{
    ApplyPortableRequest, Call, CancelRequest, DecideRequest, ErrorKind, InboxId, Observation,
    PauseRequest, Portability, PortabilityVerdict, Provider, RequestId, ResolutionAction,
    ResolveRequest, ResumeRequest, RetryFromRequest, RetryNowRequest, SignalRequest,
    StartDefinition, StartRequest, View,
};
use stateway_replay::Trajectory;
use stateway_replay::recording::Recording;

use crate::{Act, Resolve, SCENARIOS, Scenario, worker};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(20);
/// How long a scenario may take to show something.
const PATIENCE: Duration = Duration::from_secs(40);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(20);
/// Set to `write` to write the golden files again.
const GOLDEN: &str = "STATEWAY_GOLDEN";

/// What became of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Played {
    /// It ran; its trajectory.
    Ran(String),
    /// The report called it impossible, and the start was refused with these words.
    Refused(String),
}

/// Plays every scenario, a maximum number of them at the same time, and compares the trajectories with the golden files.
/// Returns the names of the scenarios that were refused, each with the words of the report. With
/// `STATEWAY_GOLDEN=write` the files are written instead.
///
/// # Panics
/// A trajectory differs, or a scenario is stuck.
pub async fn compare_some_at_a_time(
    provider: &dyn Provider,
    most: usize,
) -> Vec<(&'static str, String)> {
    let played = SCENARIOS.iter().map(|scenario| async move {
        // One that is stuck does not hide the others.
        let played = std::panic::AssertUnwindSafe(run(provider, scenario));
        let played = played.catch_unwind().await;
        (scenario.name, played)
    });
    let (mut refused, mut wrong) = (Vec::new(), String::new());
    let is_written = std::env::var(GOLDEN).is_ok_and(|it| it == "write");
    let played: Vec<_> = futures::stream::iter(played).buffered(most).collect().await;
    for (name, played) in played {
        let found = match played {
            Err(_) => {
                let _ = writeln!(wrong, "== {name}: stuck, see above");
                continue;
            }
            Ok(Played::Ran(found)) => found,
            Ok(Played::Refused(words)) => {
                refused.push((name, words));
                continue;
            }
        };
        let file = golden(name);
        if is_written {
            std::fs::write(&file, &found).unwrap();
            continue;
        }
        let wanted = std::fs::read_to_string(&file).unwrap_or_default();
        if wanted != found {
            let _ = writeln!(wrong, "== {name}: wanted\n{wanted}-- found\n{found}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    refused
}

fn golden(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/golden");
    PathBuf::from(folder).join(format!("{name}.txt"))
}

/// Plays one scenario to its end.
///
/// # Panics
/// The scenario is stuck, or a call fails that has to succeed.
pub async fn run(provider: &dyn Provider, scenario: &Scenario) -> Played {
    let stage = Stage { provider, scenario };
    let sources = stage.apply().await;
    let report = stage.report(&sources).await;
    let started = match stage.start().await {
        Ok(started) => started,
        Err(error) => {
            assert_eq!(report.verdict, PortabilityVerdict::Impossible, "{error:?}");
            let reason = report.reasons.first().cloned().unwrap_or_default();
            assert_eq!(error.message, reason, "{}", scenario.name);
            assert_eq!(error.kind, ErrorKind::InvalidArgument);
            return Played::Refused(reason);
        }
    };
    assert_ne!(
        report.verdict,
        PortabilityVerdict::Impossible,
        "{}: it was started",
        scenario.name
    );
    tokio::select! {
        () = worker::work(provider, scenario) => panic!("{}: the worker ended", scenario.name),
        trajectory = stage.play(&started.id) => Played::Ran(trajectory),
    }
}

struct Stage<'s> {
    provider: &'s dyn Provider,
    scenario: &'s Scenario,
}

impl Stage<'_> {
    fn call(&self) -> Call {
        Call {
            actor: "ada".into(),
            ..Call::within(CALL)
        }
    }

    fn person(&self, name: &str, role: &str) -> Call {
        Call {
            actor: name.into(),
            roles: [Arc::from(role)].into(),
            ..Call::within(CALL)
        }
    }

    fn request(&self, what: &str) -> RequestId {
        format!("{}-{what}", self.scenario.name).parse().unwrap()
    }

    /// The sources of the definitions, the scenario's own one first.
    fn sources(&self) -> Vec<String> {
        let name = self.scenario.name;
        let mut sources = vec![format!("name: {name}\n{}", self.scenario.definition)];
        let others = self.scenario.others.iter();
        sources.extend(others.map(|(end, rest)| format!("name: {name}-{end}\n{rest}")));
        let named = sources.into_iter().map(|source| source.replace('@', name));
        named.collect()
    }

    async fn apply(&self) -> Vec<String> {
        let definitions = self.provider.portable_definitions().unwrap();
        let sources = self.sources();
        for (nth, source) in sources.iter().enumerate() {
            let request = ApplyPortableRequest {
                source: source.clone(),
                source_name: format!("{}.yaml", self.scenario.name),
                request_id: self.request(&format!("apply-{nth}")),
            };
            let applied = definitions.apply_portable(&self.call(), request).await;
            applied.unwrap_or_else(|error| panic!("{}: {error:?}", self.scenario.name));
        }
        sources
    }

    async fn report(&self, sources: &[String]) -> Portability {
        let definitions = self.provider.portable_definitions().unwrap();
        let report = definitions.portability(&self.call(), &sources[0]).await;
        report.unwrap()
    }

    async fn start(&self) -> Result<Observation, stateway_provider_api::Error> {
        let definition = StartDefinition::Portable {
            id: self.scenario.name.to_owned(),
            source: None,
        };
        let mut start = StartRequest::new(definition, self.request("start"));
        start.input = Some(Payload::json(r#"{"n":1}"#));
        start.execution_id = Some(ExecutionId::new(format!("t-{}", self.scenario.name)).unwrap());
        self.provider.start(&self.call(), start).await
    }

    async fn play(&self, id: &ExecutionId) -> String {
        for (nth, act) in self.scenario.script.iter().enumerate() {
            self.act(id, *act, nth).await;
        }
        let mut text = String::new();
        let ids = std::iter::once("").chain(self.scenario.children.iter().copied());
        for end in ids {
            let id = ended(id, end);
            self.until(&id, |shown| {
                matches!(shown.0, SubState::Succeeded | SubState::Failed)
            })
            .await;
            let _ = writeln!(text, "# {}{end}", self.scenario.name);
            text.push_str(&trajectory(self.provider, &self.call(), &id).await);
        }
        text
    }

    async fn until(
        &self,
        id: &ExecutionId,
        wanted: impl Fn((SubState, Option<stateway_model::Reason>)) -> bool,
    ) {
        self.until_seen(id, |seen| seen.reported.is_some_and(&wanted))
            .await;
    }

    async fn until_seen(&self, id: &ExecutionId, wanted: impl Fn(&Observation) -> bool) {
        let begun = std::time::Instant::now();
        loop {
            let seen = self.provider.get(&self.call(), id, View::Basic).await;
            if seen.as_ref().is_ok_and(&wanted) {
                return;
            }
            let shown = seen.as_ref().ok().and_then(|seen| seen.reported);
            assert!(
                begun.elapsed() < PATIENCE,
                "{}: `{id}` shows {shown:?}, {:?}",
                self.scenario.name,
                seen.map(|seen| seen.last_error)
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn act(&self, id: &ExecutionId, act: Act, nth: usize) {
        let (provider, call) = (self.provider, self.call());
        let request_id = self.request(&format!("act-{nth}"));
        let id = id.clone();
        let done = match act {
            Act::Until(end, sub_state, reason) => {
                let id = ended(&id, end);
                self.until(&id, |shown| shown == (sub_state, reason)).await;
                return;
            }
            Act::Taken(step) => {
                self.until_seen(&id, |seen| is_taken(seen, step)).await;
                return;
            }
            Act::Signal(end, signal) => {
                let signal = SignalRequest {
                    id: ended(&id, end),
                    signal: signal.to_owned(),
                    payload: Some(Payload::json("true")),
                    request_id,
                };
                provider.signal(&call, signal).await.map(drop)
            }
            Act::Decide(approval, grant) => {
                let decide = DecideRequest {
                    id: InboxId {
                        execution: id,
                        id: approval.to_owned(),
                    },
                    grant,
                    comment: String::new(),
                    etag: String::new(),
                    request_id,
                };
                let boss = self.person("bob", "boss");
                let approvals = provider.approvals().unwrap();
                approvals.decide(&boss, decide).await.map(drop)
            }
            Act::Resolve(escalation, resolve) => {
                let action = match resolve {
                    Resolve::Resume => ResolutionAction::Resume,
                    Resolve::Reassign => ResolutionAction::Reassign {
                        role: self.scenario.name.to_owned(),
                    },
                    Resolve::Cancel => ResolutionAction::Cancel,
                };
                let resolve = ResolveRequest {
                    id: InboxId {
                        execution: id,
                        id: escalation.to_owned(),
                    },
                    action,
                    compensation: stateway_provider_api::CompensationChoice::AsDefined,
                    comment: String::new(),
                    etag: String::new(),
                    request_id,
                };
                let operator = self.person("olga", "operator");
                let approvals = provider.approvals().unwrap();
                approvals.resolve(&operator, resolve).await.map(drop)
            }
            Act::Cancel(mode, compensation) => {
                let cancel = CancelRequest {
                    id,
                    mode,
                    compensation,
                    comment: String::new(),
                    request_id,
                };
                provider.cancel(&call, cancel).await.map(drop)
            }
            Act::Pause => {
                let comment = String::new();
                let pause = PauseRequest {
                    id,
                    comment,
                    request_id,
                };
                provider.pause(&call, pause).await.map(drop)
            }
            Act::Resume => {
                let resume = ResumeRequest { id, request_id };
                provider.resume(&call, resume).await.map(drop)
            }
            Act::RetryNow => {
                let retry = RetryNowRequest {
                    id,
                    step: String::new(),
                    request_id,
                };
                provider.retry_now(&call, retry).await.map(drop)
            }
            Act::RetryFrom(step) => {
                let retry = RetryFromRequest {
                    id,
                    step: step.to_owned(),
                    from_start: false,
                    input: None,
                    feedback: String::new(),
                    execution_id: None,
                    request_id,
                };
                provider.retry_from(&call, retry).await.map(drop)
            }
        };
        done.unwrap_or_else(|error| panic!("{}: {act:?}: {error:?}", self.scenario.name));
    }
}

/// The trajectory of an execution, step by step: parallel steps may interleave in any order.
pub(crate) async fn trajectory(provider: &dyn Provider, call: &Call, id: &ExecutionId) -> String {
    let log = provider.event_log().unwrap();
    let file = log.export(call, id, false).await.unwrap();
    let recording = Recording::read(&file).unwrap();
    recording.check().unwrap();
    let events = recording.log(None).unwrap();
    let plan = recording.plan(&events).unwrap();
    let trajectory = Trajectory::of(plan, &events).by_step();
    let mut text = String::new();
    for point in trajectory.points {
        let step = if point.step.is_empty() {
            "(execution)"
        } else {
            &point.step
        };
        let reason = point.reason.map(|reason| format!(" {reason}"));
        let (attempt, sub_state) = (point.attempt, point.sub_state);
        let _ = writeln!(
            text,
            "{step} {attempt} {sub_state}{}",
            reason.unwrap_or_default()
        );
    }
    text
}

/// Whether a worker has a step.
fn is_taken(seen: &Observation, step: &str) -> bool {
    let mut steps = seen.steps.iter();
    steps.any(|it| it.name == step && it.retry.is_some() && it.waits.is_empty())
}

/// The execution itself, or one whose id begins with its id.
fn ended(id: &ExecutionId, end: &str) -> ExecutionId {
    ExecutionId::new(format!("{id}{end}")).unwrap()
}
