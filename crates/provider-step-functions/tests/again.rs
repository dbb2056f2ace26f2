//! Calls that are made again: how often, when not, and at whose expense.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use std::time::Duration;

use mock::bench::{Bench, call, counted};
use mock::scene::long_running_sequence;
use serde_json::json;
use stateway_contract_kit::Fault;
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::adapter::Quota;
use stateway_provider_api::{
    Call, Error, ErrorKind, Observation, Provider, SignalRequest, StartDefinition, StartRequest,
    View,
};
use stateway_provider_step_functions::Api;

const SOON: Duration = Duration::from_millis(20);

/// An execution that is over, so that one description is all it takes.
async fn over(burst: u32) -> (Bench, ExecutionId) {
    let bench = Bench::new(|config| {
        let per_second = 1;
        let quota = Quota { burst, per_second };
        config.quotas.insert(Api::DescribeExecution, quota);
    })
    .await;
    let id = bench.put("m", "a", long_running_sequence(20));
    "SUCCEEDED".clone_into(&mut bench.service.world().executions[0].status);
    (bench, id)
}

fn stumble(bench: &Bench, faults: &[Fault]) {
    bench.service.world().stumbles.extend(faults);
}

async fn refused(bench: &Bench, id: &ExecutionId, call: Call) -> Error {
    let got = bench.provider.get(&call, id, View::Basic).await;
    got.expect_err("a refusal")
}

#[tokio::test]
async fn a_failure_that_passes_is_not_seen() {
    for fault in [Fault::Unavailable, Fault::Throttle(SOON)] {
        let (bench, id) = over(100).await;
        stumble(&bench, &[fault]);
        let seen: Observation = bench.get(&id).await;
        assert_eq!(seen.native.state, "SUCCEEDED");
        assert_eq!(
            bench.calls(),
            counted(&[("DescribeExecution", 2)]),
            "{fault:?}"
        );
        stumble(&bench, &[fault, fault]);
        bench.get(&id).await;
        assert_eq!(
            bench.calls(),
            counted(&[("DescribeExecution", 3)]),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_throttle_that_stays_is_told_with_its_pause_after_three_attempts() {
    let (bench, id) = over(100).await;
    stumble(&bench, &[Fault::Throttle(SOON); 3]);
    let error = refused(&bench, &id, call()).await;
    assert_eq!(error.kind, ErrorKind::Throttled);
    assert_eq!(error.retry_after, Some(SOON));
    assert_eq!(bench.calls(), counted(&[("DescribeExecution", 3)]));
}

#[tokio::test]
async fn a_long_pause_is_told_at_once() {
    let (bench, id) = over(100).await;
    let long = Duration::from_secs(7);
    stumble(&bench, &[Fault::Throttle(long)]);
    let error = refused(&bench, &id, call()).await;
    assert_eq!(
        (error.kind, error.retry_after),
        (ErrorKind::Throttled, Some(long))
    );
    assert_eq!(bench.calls(), counted(&[("DescribeExecution", 1)]));
}

#[tokio::test]
async fn nothing_is_repeated_that_would_come_after_the_deadline() {
    let (bench, id) = over(100).await;
    let pause = Duration::from_millis(900);
    stumble(&bench, &[Fault::Throttle(pause)]);
    let soon = Call::within(Duration::from_millis(800));
    let error = refused(&bench, &id, soon).await;
    assert_eq!(
        (error.kind, error.retry_after),
        (ErrorKind::Throttled, Some(pause))
    );
    assert_eq!(bench.calls(), counted(&[("DescribeExecution", 1)]));
}

#[tokio::test]
async fn an_attempt_that_is_repeated_takes_another_turn() {
    let (bench, id) = over(2).await;
    stumble(&bench, &[Fault::Unavailable]);
    bench.get(&id).await;
    // Both turns are gone: the next call would have to wait.
    let error = refused(&bench, &id, Call::within(Duration::from_millis(200))).await;
    assert_eq!(error.kind, ErrorKind::Throttled);
    assert!(error.message.contains("share"), "{error}");
    assert_eq!(bench.calls(), counted(&[("DescribeExecution", 2)]));
}

#[tokio::test]
async fn without_a_turn_nothing_is_repeated() {
    let (bench, id) = over(1).await;
    stumble(&bench, &[Fault::Unavailable]);
    let error = refused(&bench, &id, call()).await;
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(bench.calls(), counted(&[("DescribeExecution", 1)]));
}

#[tokio::test]
async fn a_start_that_is_repeated_is_one_execution() {
    let bench = Bench::new(|_| {}).await;
    let machine = json!({"States": {"T": {"Type": "Task"}}});
    bench
        .service
        .world()
        .machines
        .insert("m".to_owned(), machine);
    let request = StartRequest {
        definition: StartDefinition::native(format!("{}:stateMachine:m", mock::HERE)),
        options: Default::default(),
        execution_id: None,
        input: Some(Payload::json("{}")),
        labels: stateway_model::Labels::new(),
        delay: None,
        request_id: "r-1".parse().expect("a request id"),
    };
    stumble(&bench, &[Fault::Unavailable]);
    let started = bench.provider.start(&call(), request).await;
    started.expect("a start");
    assert_eq!(bench.calls(), counted(&[("StartExecution", 2)]));
    assert_eq!(bench.service.world().executions.len(), 1);
}

#[tokio::test]
async fn an_execution_names_its_caller_and_a_repetition_by_another_one_is_the_same_start() {
    let bench = Bench::new(|_| {}).await;
    let machine = json!({"States": {"T": {"Type": "Task"}}});
    bench
        .service
        .world()
        .machines
        .insert("m".to_owned(), machine);
    let definition = StartDefinition::native(format!("{}:stateMachine:m", mock::HERE));
    let start = |execution_id: Option<&str>| StartRequest {
        execution_id: execution_id.map(|id| ExecutionId::new(id).expect("an id")),
        ..StartRequest::new(definition.clone(), "r-1".parse().expect("a request id"))
    };
    let by = |actor: &str| Call {
        actor: actor.into(),
        ..call()
    };
    for (actor, id) in [("ada", None), ("ada", Some("x")), ("bob", Some("x"))] {
        let started = bench.provider.start(&by(actor), start(id)).await;
        started.expect("a start");
    }
    let world = bench.service.world();
    let mut marks: Vec<_> = world.executions.iter().map(|it| it.mark.clone()).collect();
    marks.sort();
    let expected = ["Actor=ada", "Stateway=r-1;Actor=ada"];
    assert_eq!(marks, expected.map(|mark| Some(mark.to_owned())));
}

#[tokio::test]
async fn an_answer_to_a_task_is_never_repeated() {
    let bench = Bench::new(|_| {}).await;
    let scene = stateway_contract_kit::Scene::AwaitingSignal {
        signal: "approve".to_owned(),
    };
    let arn = bench.service.world().stage(scene);
    let Ok(arn) = arn else { panic!("not staged") };
    let id = ExecutionId::new(arn).expect("an ARN is a name");
    bench.get(&id).await;
    bench.calls();
    bench
        .service
        .world()
        .stumble_at("SendTaskSuccess", Fault::Unavailable);
    let request = SignalRequest {
        id,
        signal: "approve".to_owned(),
        payload: None,
        request_id: "r-1".parse().expect("a request id"),
    };
    let error = bench.provider.signal(&call(), request).await;
    assert_eq!(error.expect_err("a refusal").kind, ErrorKind::Unavailable);
    let sent = bench.calls();
    let sent = sent.iter().find(|(api, _)| api == "SendTaskSuccess");
    assert_eq!(sent.map(|(_, times)| *times), Some(1));
}
