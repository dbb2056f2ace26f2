//! What each script of the catalogue shows over time, as clients would see it. The clock is
//! advanced by hand: nothing here sleeps.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use stateway_model::{ErrorCategory, Execution, ExecutionId, Payload, Reason, SubState, WaitKind};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, ErrorKind, EventOrder, HistoryRequest,
    Mapper, Observation, PauseRequest, Provider, ResumeRequest, RetryFromRequest, RetryNowRequest,
    SignalRequest, StartDefinition, StartRequest, Table, View, WatchScope, WatchStream, Watched,
};
use stateway_provider_memory::{Clock, Config, MemoryProvider, Script, Upstream};

struct Stage {
    upstream: Arc<Upstream>,
    provider: MemoryProvider,
    mapper: Mapper,
    table: Arc<Table>,
    requests: std::cell::Cell<u32>,
}

impl Stage {
    fn new(config: &Config) -> Self {
        let clock = Clock::manual(Timestamp::constant(1_800_000_000, 0));
        let upstream = Upstream::new(clock);
        let id: stateway_model::ProviderId = "memory".parse().unwrap();
        let table = compiled_in("memory").unwrap();
        Self {
            provider: MemoryProvider::on(upstream.clone(), id.clone(), config, table.clone())
                .unwrap(),
            upstream,
            mapper: Mapper::new(id),
            table,
            requests: std::cell::Cell::new(0),
        }
    }

    fn request_id(&self) -> stateway_provider_api::RequestId {
        self.requests.set(self.requests.get() + 1);
        format!("r{}", self.requests.get()).parse().unwrap()
    }

    fn pass(&self, milliseconds: u64) {
        self.upstream
            .clock()
            .advance(Duration::from_millis(milliseconds));
    }

    fn shown(&self, seen: Observation) -> Execution {
        self.mapper
            .execution(&self.table, seen, self.upstream.clock().now())
    }

    fn start(&self, definition: &str) -> ExecutionId {
        self.try_start(definition, None).unwrap().id
    }

    fn try_start(
        &self,
        definition: &str,
        input: Option<&str>,
    ) -> stateway_provider_api::Result<Observation> {
        let request = StartRequest {
            definition: StartDefinition::native(definition),
            options: Default::default(),
            execution_id: None,
            input: input.map(|input| Payload::json(input.to_owned())),
            labels: Default::default(),
            delay: None,
            request_id: self.request_id(),
        };
        now(self.provider.start(&call(), request))
    }

    fn get(&self, id: &ExecutionId) -> Execution {
        self.shown(now(self.provider.get(&call(), id, View::Full)).unwrap())
    }

    fn at(&self, id: &ExecutionId) -> (SubState, Option<Reason>) {
        let execution = self.get(id);
        (execution.sub_state, execution.reason)
    }

    fn signal(&self, id: &ExecutionId, signal: &str) {
        let request = SignalRequest {
            id: id.clone(),
            signal: signal.into(),
            payload: None,
            request_id: self.request_id(),
        };
        now(self.provider.signal(&call(), request)).unwrap();
    }

    fn cancel(&self, id: &ExecutionId, mode: CancelMode) -> Execution {
        let request = CancelRequest {
            id: id.clone(),
            mode,
            compensation: CompensationChoice::AsDefined,
            comment: "enough".into(),
            request_id: self.request_id(),
        };
        self.shown(now(self.provider.cancel(&call(), request)).unwrap())
    }

    fn pause(&self, id: &ExecutionId) {
        let request = PauseRequest {
            id: id.clone(),
            comment: String::new(),
            request_id: self.request_id(),
        };
        now(self.provider.pause(&call(), request)).unwrap();
    }

    fn resume(&self, id: &ExecutionId) {
        let request = ResumeRequest {
            id: id.clone(),
            request_id: self.request_id(),
        };
        now(self.provider.resume(&call(), request)).unwrap();
    }
}

fn stage() -> Stage {
    Stage::new(&Config::default())
}

fn call() -> Call {
    Call::within(Duration::from_secs(1))
}

/// Nothing in memory has to be waited for.
fn now<T>(future: impl Future<Output = T>) -> T {
    future
        .now_or_never()
        .expect("an undisturbed upstream answers at once")
}

use SubState::{BackingOff, Error, Failed, Running, Succeeded, Waiting};

#[test]
fn hello_is_done_after_its_step() {
    let stage = stage();
    let id = stage.start("hello");
    assert_eq!(stage.at(&id), (Running, None));
    stage.pass(200);
    let done = stage.get(&id);
    assert_eq!(done.sub_state, Succeeded);
    assert_eq!(done.output, Some(Payload::json(r#"{"hello":"world"}"#)));
}

#[test]
fn flaky_backs_off_twice_and_succeeds() {
    let stage = stage();
    let id = stage.start("flaky");
    stage.pass(1_000);
    let first = stage.get(&id);
    assert_eq!(first.sub_state, BackingOff);
    assert_eq!(
        (first.retry.attempt, first.retry.max_attempts),
        (1, Some(5))
    );
    assert_eq!(first.retry.delay, Some(Duration::from_secs(4)));
    assert_eq!(first.last_error.unwrap().message, "card gateway timed out");
    stage.pass(4_000);
    assert_eq!(stage.at(&id), (Running, None));
    stage.pass(1_000);
    let second = stage.get(&id);
    assert_eq!((second.sub_state, second.retry.attempt), (BackingOff, 2));
    assert_eq!(second.retry.delay, Some(Duration::from_secs(8)));
    stage.pass(8_000 + 1_000 + 1_000);
    assert_eq!(stage.at(&id), (Succeeded, None));
}

#[test]
fn retry_now_makes_the_next_attempt_at_once() {
    let stage = stage();
    let id = stage.start("flaky");
    stage.pass(1_000);
    let request = |id: &ExecutionId| RetryNowRequest {
        id: id.clone(),
        step: String::new(),
        request_id: stage.request_id(),
    };
    let again = now(stage.provider.retry_now(&call(), request(&id))).unwrap();
    let again = stage.shown(again);
    assert_eq!((again.sub_state, again.retry.attempt), (Running, 2));
    let refused = now(stage.provider.retry_now(&call(), request(&id))).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::FailedPrecondition);
}

#[test]
fn approval_waits_for_its_signal_even_one_that_came_early() {
    let stage = stage();
    let (early, late) = (stage.start("approval"), stage.start("approval"));
    stage.signal(&early, "approve");
    stage.pass(500);
    assert_eq!(stage.at(&early), (Running, None));
    assert_eq!(stage.at(&late), (Waiting, Some(Reason::AwaitingInput)));
    let wait = &stage.get(&late).waits[0];
    assert_eq!(
        (wait.kind, wait.name.as_str()),
        (WaitKind::Signal, "approve")
    );
    stage.signal(&late, "approve");
    stage.pass(1_000);
    assert_eq!(stage.at(&early), (Succeeded, None));
    assert_eq!(stage.at(&late), (Succeeded, None));
}

#[test]
fn an_approval_that_does_not_come_in_time_fails_and_is_compensated() {
    let stage = stage();
    let id = stage.start("approval");
    stage.pass(24 * 3_600_000 + 500);
    assert_eq!(stage.at(&id), (Running, Some(Reason::Compensating)));
    stage.pass(500);
    let over = stage.get(&id);
    assert_eq!(
        (over.sub_state, over.reason),
        (Failed, Some(Reason::RolledBack))
    );
    let steps: Vec<_> = over.steps.iter().map(|step| step.reason).collect();
    assert_eq!(steps, [Some(Reason::RolledBack), Some(Reason::TimedOut)]);
}

#[test]
fn stuck_is_an_error_until_it_is_resumed() {
    let stage = stage();
    let id = stage.start("stuck");
    stage.pass(3 * 500 + 1_000 + 2_000);
    assert_eq!(stage.at(&id), (Error, Some(Reason::RetriesExhausted)));
    stage.pass(3_600_000);
    assert_eq!(stage.at(&id), (Error, Some(Reason::RetriesExhausted)));
    stage.resume(&id);
    stage.pass(500);
    assert_eq!(stage.at(&id), (Succeeded, None));
}

#[test]
fn doomed_fails_finally_compensates_its_work_and_can_be_sent_back() {
    let stage = stage();
    let id = stage.start("doomed");
    stage.pass(1_000);
    assert_eq!(stage.at(&id), (Running, Some(Reason::Compensating)));
    stage.pass(1_000);
    assert_eq!(stage.at(&id), (Failed, Some(Reason::RolledBack)));
    let request = RetryFromRequest {
        id: id.clone(),
        step: "reserve".into(),
        input: None,
        feedback: String::new(),
        from_start: false,
        request_id: stage.request_id(),
        execution_id: None,
    };
    now(stage.provider.retry_from(&call(), request)).unwrap();
    stage.pass(1_000);
    assert_eq!(stage.at(&id), (Succeeded, None));
    let history = HistoryRequest {
        id,
        page_size: 100,
        cursor: None,
        view: View::Basic,
        order: EventOrder::OldestFirst,
    };
    let events = now(stage.provider.history(&call(), history))
        .unwrap()
        .events;
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event.native_type.as_str())
        .collect();
    assert!(kinds.contains(&"ExecutionFailed") && kinds.contains(&"ExecutionSentBack"));
}

#[test]
fn other_input_for_a_step_is_refused_with_a_hint_and_does_nothing() {
    let stage = stage();
    let id = stage.start("doomed");
    stage.pass(2_000);
    let request = RetryFromRequest {
        id: id.clone(),
        step: "reserve".into(),
        input: Some(stateway_model::Payload::json("{}")),
        feedback: String::new(),
        from_start: false,
        request_id: stage.request_id(),
        execution_id: None,
    };
    let error = now(stage.provider.retry_from(&call(), request)).unwrap_err();
    assert_eq!(
        (error.kind, &*error.message, &*error.hint),
        (
            ErrorKind::Unsupported,
            "this provider takes no other input for a step",
            "Retry without an input, or start another execution with it."
        )
    );
    assert_eq!(stage.at(&id), (Failed, Some(Reason::RolledBack)));
}

#[test]
fn fan_out_shows_running_then_backing_off_then_waiting() {
    let stage = stage();
    let id = stage.start("fan-out");
    stage.pass(2_000);
    let mixed = stage.get(&id);
    assert_eq!(mixed.sub_state, Running);
    let steps: Vec<_> = mixed.steps.iter().map(|step| step.sub_state).collect();
    assert_eq!(steps, [Succeeded, Running, BackingOff, Waiting, Running]);
    stage.pass(22_000);
    assert_eq!(stage.at(&id).0, BackingOff);
    stage.pass(20_000);
    assert_eq!(stage.at(&id), (Waiting, Some(Reason::AwaitingInput)));
    stage.signal(&id, "reviewed");
    stage.pass(500);
    assert_eq!(stage.at(&id), (Succeeded, None));
}

#[test]
fn long_compensates_its_set_up_when_cancelled_but_not_when_killed() {
    let stage = stage();
    let (cancelled, killed) = (stage.start("long"), stage.start("long"));
    stage.pass(2_000);
    let answer = stage.cancel(&cancelled, CancelMode::Graceful);
    assert_eq!(
        (answer.sub_state, answer.reason),
        (Running, Some(Reason::Compensating))
    );
    let answer = stage.cancel(&killed, CancelMode::Kill);
    assert_eq!(
        (answer.sub_state, answer.reason),
        (Failed, Some(Reason::Killed))
    );
    stage.pass(3_000);
    assert_eq!(stage.at(&cancelled), (Failed, Some(Reason::Cancelled)));
}

#[test]
fn whatever_is_held_goes_on_later_by_as_much() {
    let stage = stage();
    let id = stage.start("flaky");
    stage.pass(500);
    stage.pause(&id);
    stage.pass(60_000);
    assert_eq!(stage.at(&id), (Waiting, Some(Reason::Paused)));
    stage.resume(&id);
    stage.pass(499);
    assert_eq!(stage.at(&id), (Running, None));
    stage.pass(1);
    assert_eq!(stage.at(&id).0, BackingOff);
}

#[test]
fn a_script_of_ones_own_is_the_input_and_a_wrong_one_is_refused_with_the_rule() {
    let stage = stage();
    let script = r#"{"steps":[{"name":"nap","waits_for":{"timer":"10s"}}]}"#;
    let id = stage.try_start("script", Some(script)).unwrap().id;
    assert_eq!(stage.at(&id), (Waiting, Some(Reason::AwaitingTimer)));
    stage.pass(10_000);
    assert_eq!(stage.at(&id), (Succeeded, None));
    let error = stage.try_start("script", Some("{}")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidArgument);
    assert!(error.message.contains("needs steps"), "{error}");
}

#[test]
fn the_oldest_finished_execution_makes_room_and_without_one_a_start_is_refused() {
    let stage = Stage::new(&Config {
        max_executions: 2,
        ..Config::default()
    });
    let (quick, slow) = (stage.start("hello"), stage.start("long"));
    let refused = stage.try_start("long", None).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Throttled);
    stage.pass(1_000);
    stage.start("long");
    let gone = now(stage.provider.get(&call(), &quick, View::Basic)).unwrap_err();
    assert_eq!(gone.kind, ErrorKind::NotFound);
    assert_eq!(stage.at(&slow), (Running, None));
}

async fn seen(stream: &mut WatchStream) -> Observation {
    match stream.next().await.unwrap().unwrap() {
        Watched::Seen(seen) => *seen,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_watch_is_pushed_each_change_and_ends_with_the_execution() {
    let stage = stage();
    let id = stage.start("hello");
    let scope = WatchScope::One(id);
    let mut stream = stage.provider.watch(&call(), scope).await.unwrap();
    let first = seen(&mut stream).await;
    assert_eq!(first.native.state, "ACTIVE");
    assert_eq!(stream.next().await.unwrap().unwrap(), Watched::InSync);
    assert!(stream.next().now_or_never().is_none());
    stage.pass(200);
    let last = seen(&mut stream).await;
    assert_eq!(last.native.state, "DONE");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_watch_of_everything_hears_of_new_executions_and_of_those_that_move_by_themselves() {
    let stage = stage();
    let first = stage.start("hello");
    let mut stream = stage
        .provider
        .watch(&call(), WatchScope::All)
        .await
        .unwrap();
    assert_eq!(seen(&mut stream).await.id, first);
    assert_eq!(stream.next().await.unwrap().unwrap(), Watched::InSync);
    let second = stage.start("long");
    assert_eq!(seen(&mut stream).await.id, second);
    stage.pass(200);
    let moved = seen(&mut stream).await;
    assert_eq!((moved.id, moved.native.state.as_str()), (first, "DONE"));
}

#[test]
fn configuration_is_strict() {
    let wrong = |text: &str| toml::from_str::<Config>(text).unwrap_err().to_string();
    assert!(wrong("most = 1").contains("unknown field `most`"));
    let config: Config =
        toml::from_str("[scripts.nap]\nsteps = [{ name = \"nap\", takes = \"1h\" }]").unwrap();
    let made = MemoryProvider::new(
        "m".parse().unwrap(),
        &config,
        compiled_in("memory").unwrap(),
    );
    assert!(made.is_ok());
    for wrong in ["max_executions = 0", "[scripts.none]"] {
        let config: Config = toml::from_str(wrong).unwrap();
        assert!(
            MemoryProvider::new(
                "m".parse().unwrap(),
                &config,
                compiled_in("memory").unwrap()
            )
            .is_err()
        );
    }
}

#[test]
fn the_scripts_and_words_of_the_documentation_are_good() {
    let page = include_str!("../../../docs/providers/memory.md");
    let blocks: Vec<_> = page.split("```json\n").skip(1).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        let script = block.split("```").next().unwrap();
        Script::from_json(script.as_bytes()).unwrap();
    }
    for category in ErrorCategory::ALL {
        assert!(page.contains(&format!("`{category}`")), "{category}");
    }
}
