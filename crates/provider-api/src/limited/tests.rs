//! Every verb is refused when its capability is off and reaches the provider when it is on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use stateway_model::{ExecutionId, Payload};

use super::*;
use crate::table::compiled_in;
use crate::{
    Branch, BranchChoice, BranchEventsPage, BranchEventsRequest, EventOrder, Projection,
    ReplayRequest, Replayed, StepHistory,
};
use crate::{
    CancelMode, CompensationChoice, Error, ErrorKind, NativeState, StartDefinition, Table,
};

/// Refuses every call with the verb's name, so that a test sees what arrived.
struct Probe {
    generation: AtomicU64,
    hints: Mutex<Option<Hints>>,
    view: Mutex<Option<View>>,
}

/// The result of a future that waits for nothing.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("the probe answers immediately")
}

fn arrived<T>(verb: Verb) -> Result<T> {
    Err(Error::new(ErrorKind::Conflict, verb, "arrived"))
}

fn table() -> Arc<Table> {
    compiled_in("memory").unwrap()
}

#[async_trait]
impl Provider for Probe {
    fn describe(&self) -> Arc<Description> {
        let generation = self.generation.load(Ordering::Relaxed);
        Arc::new(Description {
            generation,
            capabilities: if generation == 0 {
                Capabilities::NONE
            } else {
                Capabilities::ALL
            },
            table: table(),
        })
    }

    async fn health(&self, _: &Call) -> Result<Health> {
        arrived(Verb::Health)
    }

    fn restart_count(&self) -> u64 {
        self.generation.load(Ordering::Relaxed) + 6
    }

    fn note_violation(&self, _: &Error) {
        self.generation.store(2, Ordering::Relaxed);
    }

    async fn start(&self, _: &Call, _: StartRequest) -> Result<Observation> {
        arrived(Verb::Start)
    }

    async fn get(&self, _: &Call, id: &ExecutionId, view: View) -> Result<Observation> {
        *lock(&self.view) = Some(view);
        Ok(Observation::new(id.clone(), NativeState::new("ACTIVE")))
    }

    async fn observe(&self, _: &Call, ids: &[ExecutionId]) -> Vec<Result<Observation>> {
        ids.iter().map(|_| arrived(Verb::Observe)).collect()
    }

    async fn list(&self, _: &Call, request: ListRequest) -> Result<ListPage> {
        *lock(&self.hints) = Some(request.hints);
        arrived(Verb::List)
    }

    async fn count(&self, _: &Call) -> Result<Vec<Count>> {
        arrived(Verb::Count)
    }

    async fn history(&self, _: &Call, request: HistoryRequest) -> Result<HistoryPage> {
        *lock(&self.view) = Some(request.view);
        arrived(Verb::History)
    }

    async fn watch(&self, _: &Call, scope: WatchScope) -> Result<WatchStream> {
        arrived(scope.verb())
    }

    async fn signal(&self, _: &Call, _: SignalRequest) -> Result<Observation> {
        arrived(Verb::Signal)
    }

    async fn cancel(&self, _: &Call, request: CancelRequest) -> Result<Observation> {
        arrived(request.verb())
    }

    async fn pause(&self, _: &Call, _: PauseRequest) -> Result<Observation> {
        arrived(Verb::Pause)
    }

    async fn resume(&self, _: &Call, _: ResumeRequest) -> Result<Observation> {
        arrived(Verb::Resume)
    }

    async fn retry_now(&self, _: &Call, _: RetryNowRequest) -> Result<Observation> {
        arrived(Verb::RetryNow)
    }

    async fn retry_from(&self, _: &Call, _: RetryFromRequest) -> Result<Observation> {
        arrived(Verb::RetryFrom)
    }

    async fn purge(&self, _: &Call, _: PurgeRequest) -> Result<()> {
        arrived(Verb::Purge)
    }

    async fn definitions(&self, _: &Call, _: DefinitionsRequest) -> Result<DefinitionsPage> {
        arrived(Verb::Definitions)
    }

    async fn definition(&self, _: &Call, _: &str, _: Option<&str>) -> Result<NativeDefinition> {
        arrived(Verb::Definitions)
    }

    async fn apply_definition(
        &self,
        _: &Call,
        _: ApplyDefinitionRequest,
    ) -> Result<NativeDefinition> {
        arrived(Verb::ApplyDefinition)
    }

    async fn validate_definition(&self, _: &Call, _: &str) -> Result<Vec<DefinitionProblem>> {
        arrived(Verb::ApplyDefinition)
    }

    fn is_embedded(&self) -> bool {
        true
    }

    fn active_gateway(&self) -> Option<ActiveGateway> {
        Some(Box::pin(futures::stream::empty()))
    }

    fn event_log(&self) -> Option<&dyn EventLog> {
        Some(self)
    }
}

#[async_trait]
impl EventLog for Probe {
    async fn branches(
        &self,
        _: &Call,
        _: &ExecutionId,
        _: Option<u32>,
        _: usize,
    ) -> Result<Vec<Branch>> {
        arrived(Verb::Branches)
    }

    async fn branch_events(
        &self,
        _: &Call,
        request: BranchEventsRequest,
    ) -> Result<BranchEventsPage> {
        *lock(&self.view) = Some(request.view);
        arrived(Verb::BranchEvents)
    }

    async fn step(&self, _: &Call, _: &ExecutionId, _: &str) -> Result<StepHistory> {
        Ok(StepHistory {
            input: Some(Payload::json("1")),
            ..StepHistory::default()
        })
    }

    async fn export(&self, _: &Call, _: &ExecutionId, redact: bool) -> Result<Vec<u8>> {
        Ok(vec![u8::from(redact)])
    }

    async fn replay(&self, _: &Call, _: ReplayRequest) -> Result<Replayed> {
        arrived(Verb::Replay)
    }

    async fn project(&self, _: &Call, _: &ExecutionId, _: &str) -> Result<Projection> {
        arrived(Verb::Project)
    }
}

fn probe() -> Arc<Probe> {
    Arc::new(Probe {
        generation: AtomicU64::new(1),
        hints: Mutex::new(None),
        view: Mutex::new(None),
    })
}

fn limited(probe: &Arc<Probe>, disabled: &[&str]) -> Limited<Probe> {
    let disabled: Vec<String> = disabled.iter().map(ToString::to_string).collect();
    Limited::without(Arc::clone(probe), &disabled).unwrap()
}

fn id() -> ExecutionId {
    ExecutionId::new("e").unwrap()
}

fn start_request() -> StartRequest {
    StartRequest::new(StartDefinition::native("order"), "r".parse().unwrap())
}

fn cancel_request(mode: CancelMode) -> CancelRequest {
    CancelRequest {
        id: id(),
        mode,
        compensation: CompensationChoice::AsDefined,
        comment: String::new(),
        request_id: "r".parse().unwrap(),
    }
}

fn history_request() -> HistoryRequest {
    HistoryRequest {
        id: id(),
        page_size: 1,
        cursor: None,
        view: View::Full,
        order: EventOrder::OldestFirst,
    }
}

/// What each call answers, with the verb it belongs to.
fn answers(provider: &dyn Provider) -> Vec<(Verb, Error)> {
    let call = &Call::within(Duration::from_secs(1));
    let request_id = || "r".parse().unwrap();
    let list = ListRequest {
        hints: Hints::none(),
        page_size: 1,
        cursor: None,
    };
    let signal = SignalRequest {
        id: id(),
        signal: "go".into(),
        payload: None,
        request_id: request_id(),
    };
    let pause = PauseRequest {
        id: id(),
        comment: String::new(),
        request_id: request_id(),
    };
    let resume = ResumeRequest {
        id: id(),
        request_id: request_id(),
    };
    let retry_now = RetryNowRequest {
        id: id(),
        step: String::new(),
        request_id: request_id(),
    };
    let retry_from = RetryFromRequest {
        id: id(),
        step: String::new(),
        input: None,
        feedback: String::new(),
        from_start: false,
        execution_id: None,
        request_id: request_id(),
    };
    let purge = PurgeRequest {
        id: id(),
        request_id: request_id(),
    };
    let definitions = DefinitionsRequest {
        page_size: 1,
        cursor: None,
    };
    let apply = ApplyDefinitionRequest {
        name: "order".into(),
        source: "{}".into(),
        labels: Default::default(),
        request_id: request_id(),
    };
    block_on(async {
        let mut answers = vec![
            (Verb::Health, provider.health(call).await.err()),
            (
                Verb::Start,
                provider.start(call, start_request()).await.err(),
            ),
            (Verb::List, provider.list(call, list).await.err()),
            (Verb::Count, provider.count(call).await.err()),
            (
                Verb::History,
                provider.history(call, history_request()).await.err(),
            ),
            (Verb::Signal, provider.signal(call, signal).await.err()),
            (Verb::Pause, provider.pause(call, pause).await.err()),
            (Verb::Resume, provider.resume(call, resume).await.err()),
            (
                Verb::RetryNow,
                provider.retry_now(call, retry_now).await.err(),
            ),
            (
                Verb::RetryFrom,
                provider.retry_from(call, retry_from).await.err(),
            ),
            (Verb::Purge, provider.purge(call, purge).await.err()),
            (
                Verb::Definitions,
                provider.definitions(call, definitions).await.err(),
            ),
            (
                Verb::Definitions,
                provider.definition(call, "order", None).await.err(),
            ),
            (
                Verb::ApplyDefinition,
                provider.apply_definition(call, apply).await.err(),
            ),
            (
                Verb::ApplyDefinition,
                provider.validate_definition(call, "{}").await.err(),
            ),
        ];
        for scope in [
            WatchScope::All,
            WatchScope::One(id()),
            WatchScope::End(id()),
        ] {
            let verb = scope.verb();
            answers.push((verb, provider.watch(call, scope).await.err()));
        }
        for (verb, mode) in [
            (Verb::Cancel, CancelMode::Graceful),
            (Verb::Kill, CancelMode::Kill),
        ] {
            let answer = provider.cancel(call, cancel_request(mode)).await;
            answers.push((verb, answer.err()));
        }
        for answer in provider.observe(call, &[id()]).await {
            answers.push((Verb::Observe, answer.err()));
        }
        let expect = |(verb, error): (Verb, Option<Error>)| (verb, error.unwrap());
        answers.into_iter().map(expect).collect()
    })
}

#[test]
fn with_everything_on_every_call_arrives() {
    let provider = limited(&probe(), &[]);
    for (verb, error) in answers(&provider) {
        assert_eq!((error.verb, error.kind), (verb, ErrorKind::Conflict));
    }
}

#[test]
fn with_everything_off_only_reading_one_and_health_arrive() {
    let provider = Limited::to(probe(), Capabilities::NONE);
    for (verb, error) in answers(&provider) {
        let expected = match verb {
            Verb::Health | Verb::Observe => ErrorKind::Conflict,
            _ => ErrorKind::Unsupported,
        };
        assert_eq!((error.verb, error.kind), (verb, expected));
    }
}

#[test]
fn each_capability_turns_off_its_own_verbs() {
    for (name, _) in Capabilities::ALL.iter() {
        let provider = limited(&probe(), &[name]);
        for (verb, error) in answers(&provider) {
            let expected = if verb.is_offered(&provider.capabilities()) {
                ErrorKind::Conflict
            } else {
                ErrorKind::Unsupported
            };
            assert_eq!(error.kind, expected, "{verb} without {name}");
        }
    }
}

#[test]
fn labels_delays_and_choices_that_are_off_are_refused() {
    let call = Call::within(Duration::from_secs(1));
    let provider = limited(
        &probe(),
        &["labels", "start_delayed", "cancel_compensation"],
    );
    let mut labelled = start_request();
    labelled.labels.insert("team".into(), "shop".into());
    let mut delayed = start_request();
    delayed.delay = Some(Duration::from_secs(1));
    let mut chosen = cancel_request(CancelMode::Graceful);
    chosen.compensation = CompensationChoice::Compensate;
    let refused = [
        block_on(provider.start(&call, labelled)),
        block_on(provider.start(&call, delayed)),
        block_on(provider.cancel(&call, chosen)),
    ];
    let kinds = refused.map(|refused| refused.unwrap_err().kind);
    assert_eq!(kinds, [ErrorKind::Unsupported; 3]);
}

#[test]
fn the_provider_is_not_asked_for_what_is_not_shown() {
    let (call, probe) = (Call::within(Duration::from_secs(1)), probe());
    let provider = limited(&probe, &["list_hints", "payloads", "steps"]);
    let hints = Hints {
        sub_states: Vec::new(),
        ..Hints::none()
    };
    let list = ListRequest {
        hints,
        page_size: 1,
        cursor: None,
    };
    assert!(block_on(provider.list(&call, list)).is_err());
    assert_eq!(lock(&probe.hints).take(), Some(Hints::none()));
    block_on(provider.get(&call, &id(), View::Full)).unwrap();
    assert_eq!(lock(&probe.view).take(), Some(View::Basic));
    assert!(block_on(provider.history(&call, history_request())).is_err());
    assert_eq!(lock(&probe.view).take(), Some(View::Basic));
}

#[test]
fn capabilities_that_arrive_later_are_limited_too() {
    let probe = probe();
    probe.generation.store(0, Ordering::Relaxed);
    let provider = limited(&probe, &["signal"]);
    assert_eq!(provider.describe().generation, 0);
    assert_eq!(provider.capabilities(), Capabilities::NONE);
    probe.generation.store(1, Ordering::Relaxed);
    let expected = Capabilities::ALL.without("signal").unwrap();
    assert_eq!(provider.capabilities(), expected);
    assert_eq!(provider.describe().generation, 1);
}

#[test]
fn restarts_and_violations_are_passed_on() {
    let probe = probe();
    let provider = limited(&probe, &[]);
    assert_eq!(provider.restart_count(), 7);
    provider.note_violation(&Error::unsupported(Verb::WatchAll));
    assert_eq!(provider.restart_count(), 8);
}

#[test]
fn an_extension_is_passed_on_unless_it_is_off() {
    assert!(limited(&probe(), &[]).is_embedded());
    assert!(limited(&probe(), &[]).active_gateway().is_some());
    assert!(limited(&probe(), &[]).event_log().is_some());
    assert!(limited(&probe(), &["event_log"]).event_log().is_none());
    // The probe has no other extension, whatever its capabilities say.
    assert!(limited(&probe(), &[]).workers().is_none());
}

#[test]
fn an_event_log_shows_no_payloads_that_are_off() {
    let (call, probe) = (Call::within(Duration::from_secs(1)), probe());
    let events = || BranchEventsRequest {
        id: id(),
        branch: BranchChoice::Current,
        cursor: None,
        page_size: 1,
        view: View::Full,
        order: EventOrder::OldestFirst,
    };
    for (disabled, view, redacted) in [
        (&[][..], View::Full, false),
        (&["payloads"][..], View::Basic, true),
    ] {
        let provider = limited(&probe, disabled);
        let log = provider.event_log().unwrap();
        assert!(block_on(log.branch_events(&call, events())).is_err());
        assert_eq!(lock(&probe.view).take(), Some(view));
        let step = block_on(log.step(&call, &id(), "pay")).unwrap();
        assert_eq!(step.input.is_none(), redacted);
        let exported = block_on(log.export(&call, &id(), false)).unwrap();
        assert_eq!(exported, [u8::from(redacted)]);
    }
}

#[test]
fn a_name_that_is_no_capability_is_refused() {
    let refused = Limited::without(probe(), &["teleport".to_owned()]).err();
    assert_eq!(refused, Some(UnknownCapability("teleport".into())));
}

#[test]
fn without_steps_a_count_could_contradict_a_list_and_is_off() {
    assert!(!limited(&probe(), &["steps"]).capabilities().count);
    assert!(limited(&probe(), &["labels"]).capabilities().count);
}
