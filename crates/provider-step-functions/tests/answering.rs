//! Signals that answer tasks: tokens and activities, well and in failure.

#[allow(dead_code, reason = "each test uses a part of it")]
use crate::mock;

use std::time::Duration;

use jiff::Timestamp;
use mock::bench::{Bench, call};
use mock::desk::{people, people_state, schedule, waiting};
use mock::script;
use serde_json::{Value, json};
use stateway_contract_kit::Scene;
use stateway_model::{ExecutionId, Payload, Reason, SubState, WaitKind};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, Error, ErrorKind, Observation, Provider, Result, SignalRequest, classify,
};
use stateway_provider_step_functions::{Config, ConfigError, StepFunctionsProvider};

/// Executions that wait at the activity, one after the other.
async fn bench(names: &[&str], change: impl FnOnce(&mut Config)) -> (Bench, Vec<ExecutionId>) {
    let bench = Bench::new(change).await;
    let ids = names.iter().map(|name| {
        let definition = json!({"States": {"Approve": people_state(false)}});
        let mut world = bench.service.world();
        world.machines.insert("m".to_owned(), definition);
        let execution = waiting("m", name, !name.starts_with("nameless"));
        let id = ExecutionId::new(execution.arn()).expect("an ARN is a name");
        world.executions.push(execution);
        id
    });
    let ids = ids.collect();
    (bench, ids)
}

async fn signal(bench: &Bench, id: &ExecutionId, name: &str, body: &str) -> Result<Observation> {
    signal_within(bench, id, name, body, call()).await
}

async fn signal_within(
    bench: &Bench,
    id: &ExecutionId,
    name: &str,
    body: &str,
    call: Call,
) -> Result<Observation> {
    let request = SignalRequest {
        id: id.clone(),
        signal: name.to_owned(),
        payload: Some(Payload::json(body.to_owned())),
        request_id: "r-1".parse().expect("a request id"),
    };
    bench.provider.signal(&call, request).await
}

fn calls_of(bench: &Bench, api: &str) -> usize {
    let calls = bench.service.world().calls.clone();
    calls.get(api).copied().unwrap_or_default()
}

/// Moves the provider's clock to the next heartbeat, and waits until so many were sent in all.
async fn beat(bench: &Bench, total: usize) {
    bench.provider.clock().skip(Duration::from_secs(1));
    let sent = async {
        while calls_of(bench, "SendTaskHeartbeat") < total {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let sent = tokio::time::timeout(Duration::from_secs(5), sent).await;
    let beats = calls_of(bench, "SendTaskHeartbeat");
    assert!(
        sent.is_ok() && beats == total,
        "{beats} heartbeats, not {total}"
    );
}

/// Moves the provider's clock past many heartbeats: none is sent.
async fn no_beat(bench: &Bench) {
    let before = calls_of(bench, "SendTaskHeartbeat");
    bench.provider.clock().skip(Duration::from_secs(60));
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(
        calls_of(bench, "SendTaskHeartbeat"),
        before,
        "nothing is held"
    );
}

fn reason(told: Result<Observation>) -> (ErrorKind, String) {
    let error: Error = told.expect_err("a refusal");
    (error.kind, error.reason().to_owned())
}

/// What the newest event of the execution says.
fn newest(bench: &Bench, at: usize) -> Value {
    let world = bench.service.world();
    world.executions[at]
        .events
        .last()
        .cloned()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_task_for_people_waits_for_a_signal_and_is_answered_by_it() {
    let (bench, ids) = bench(&["a"], |_| {}).await;
    let seen = bench.get(&ids[0]).await;
    let table = compiled_in("step-functions").expect("a table");
    let verdict = classify(&table, &seen, Timestamp::now()).execution;
    assert_eq!(verdict.sub_state, SubState::Waiting);
    assert_eq!(verdict.reason, Some(Reason::AwaitingInput));
    let wait = &seen.steps[0].waits[0];
    assert_eq!(
        (wait.kind, wait.name.as_str()),
        (WaitKind::Signal, "Approve")
    );
    let told = signal(&bench, &ids[0], "Approve", r#"{"ok":true}"#).await;
    assert_eq!(told.expect("an answer").native.state, "SUCCEEDED");
    let events = bench.service.world().executions[0].events.clone();
    let output = events
        .iter()
        .find(|event| event["type"] == "ActivitySucceeded");
    assert_eq!(
        output.expect("an output")["activitySucceededEventDetails"]["output"],
        json!(r#"{"ok":true}"#)
    );
    assert_eq!(
        calls_of(&bench, "GetActivityTask"),
        1,
        "no more than it takes"
    );
}

#[tokio::test]
async fn tasks_of_others_are_kept_for_their_own_signals() {
    let (bench, ids) = bench(&["a", "b", "c"], |_| {}).await;
    // The service hands out the oldest first.
    let told = signal(&bench, &ids[2], "Approve", "{}").await;
    assert_eq!(told.expect("an answer").native.state, "SUCCEEDED");
    assert_eq!(calls_of(&bench, "GetActivityTask"), 3);
    // Those that were taken on the way still wait for their signals.
    let seen = bench.get(&ids[1]).await;
    assert_eq!(seen.steps[0].native.state, "ActivityStarted");
    assert_eq!(seen.steps[0].native.qualifiers["gate"], "signal");
    for id in &ids[..2] {
        signal(&bench, id, "Approve", "{}")
            .await
            .expect("an answer");
    }
    assert_eq!(calls_of(&bench, "GetActivityTask"), 3, "they were here");
}

#[tokio::test]
async fn signals_at_the_same_time_share_one_poll() {
    let (bench, ids) = bench(&["a", "b", "c", "d"], |_| {}).await;
    let told = futures::future::join_all(ids.iter().map(|id| signal(&bench, id, "Approve", "{}")));
    for told in told.await {
        told.expect("an answer");
    }
    assert_eq!(calls_of(&bench, "GetActivityTask"), 4);
}

#[tokio::test]
async fn a_hundred_held_tasks_are_kept_alive_although_each_heartbeat_is_slow() {
    let names: Vec<String> = (0..101).map(|number| format!("e{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (bench, ids) = bench(&names, |config| config.heartbeat_seconds = 1).await;
    signal(&bench, &ids[100], "Approve", "{}")
        .await
        .expect("an answer");
    let slow = stateway_contract_kit::Fault::Slow(Duration::from_millis(200));
    bench.service.world().faults.extend([slow; 100]);
    beat(&bench, 100).await;
}

#[tokio::test]
async fn what_is_held_is_kept_alive_and_forgotten_when_it_is_over() {
    let (bench, ids) = bench(&["a", "b", "c"], |config| config.heartbeat_seconds = 1).await;
    signal(&bench, &ids[2], "Approve", "{}")
        .await
        .expect("an answer");
    beat(&bench, 2).await;
    "ABORTED".clone_into(&mut bench.service.world().executions[0].status);
    // One more beat for each, and from then on only for the one that is left.
    beat(&bench, 4).await;
    beat(&bench, 5).await;
    signal(&bench, &ids[1], "Approve", "{}")
        .await
        .expect("an answer");
    no_beat(&bench).await;
}

#[tokio::test]
async fn without_the_opt_in_nothing_is_taken() {
    let (bench, ids) = bench(&["a"], |config| config.activities.clear()).await;
    let seen = bench.get(&ids[0]).await;
    assert_eq!(seen.steps[0].waits[0].kind, WaitKind::Capacity);
    let error = signal(&bench, &ids[0], "Approve", "{}")
        .await
        .expect_err("a refusal");
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert_eq!(error.reason(), "ACTIVITY_NOT_ADDRESSABLE");
    assert!(error.hint.contains("`activities`"), "{}", error.hint);
    assert_eq!(calls_of(&bench, "GetActivityTask"), 0);
}

#[tokio::test]
async fn a_state_that_does_not_say_whose_its_tasks_are_is_never_taken() {
    let (bench, ids) = bench(&["a"], |_| {}).await;
    let plain = json!({"States": {"Approve": {"Type": "Task", "Resource": people()}}});
    bench.service.world().machines.insert("m".to_owned(), plain);
    let error = signal(&bench, &ids[0], "Approve", "{}")
        .await
        .expect_err("a refusal");
    assert_eq!(error.reason(), "ACTIVITY_NOT_ADDRESSABLE");
    assert!(error.hint.contains("`stateway`"), "{}", error.hint);
    assert_eq!(calls_of(&bench, "GetActivityTask"), 0);
}

#[tokio::test]
async fn a_task_without_an_address_ends_the_polling_and_is_left_to_lapse() {
    let (bench, ids) = bench(&["nameless", "b"], |config| config.heartbeat_seconds = 1).await;
    let told = signal(&bench, &ids[1], "Approve", "{}").await;
    let expected = (
        ErrorKind::FailedPrecondition,
        "ACTIVITY_NOT_ADDRESSABLE".to_owned(),
    );
    assert_eq!(reason(told), expected);
    assert_eq!(calls_of(&bench, "GetActivityTask"), 1);
    no_beat(&bench).await;
    // The next one is whose it says.
    signal(&bench, &ids[1], "Approve", "{}")
        .await
        .expect("an answer");
}

#[tokio::test]
async fn a_task_that_another_worker_has_is_left_to_it() {
    let (bench, ids) = bench(&["a"], |_| {}).await;
    let detail = ("activityStarted", json!({"workerName": "someone"}));
    {
        let events = &mut bench.service.world().executions[0].events;
        let last = events.len();
        script::push(events, last, "ActivityStarted", detail);
    }
    let told = signal(&bench, &ids[0], "Approve", "{}").await;
    assert_eq!(
        reason(told),
        (ErrorKind::FailedPrecondition, "TASK_TAKEN".to_owned())
    );
    assert_eq!(calls_of(&bench, "GetActivityTask"), 0);
}

#[tokio::test]
async fn a_task_that_comes_too_late_is_there_for_the_next_signal() {
    let (bench, ids) = bench(&["a"], |_| {}).await;
    bench.service.world().stumble_at(
        "GetActivityTask",
        stateway_contract_kit::Fault::Slow(Duration::from_millis(900)),
    );
    let short = Call::within(Duration::from_millis(700));
    let told = signal_within(&bench, &ids[0], "Approve", "{}", short).await;
    assert_eq!(reason(told).0, ErrorKind::Timeout);
    // The poll was not given up with the signal, so its task was not lost.
    let answered = async {
        while signal(&bench, &ids[0], "Approve", "{}").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answered = tokio::time::timeout(Duration::from_secs(5), answered).await;
    answered.expect("an answer");
    assert_eq!(calls_of(&bench, "GetActivityTask"), 1);
}

#[tokio::test]
async fn iterations_are_told_apart_by_their_index_or_not_at_all() {
    for with_index in [true, false] {
        let (bench, ids) = bench(&["a"], |_| {}).await;
        let inner = json!({"States": {"Approve": people_state(with_index)}});
        let map = json!({"States": {"M": {"Type": "Map", "ItemProcessor": inner}}});
        {
            let mut world = bench.service.world();
            world.machines.insert("m".to_owned(), map);
            let arn = world.executions[0].arn();
            let mut events = script::begun();
            let id = script::push(&mut events, 0, "MapStateEntered", script::entered("M"));
            let length = ("mapStateStarted", json!({"length": 2}));
            let started = script::push(&mut events, id, "MapStateStarted", length);
            for index in 0..2 {
                let begins = script::iteration("mapIterationStarted", "M", index);
                let id = script::push(&mut events, started, "MapIterationStarted", begins);
                let mut told = json!({"execution": arn, "state": "Approve"});
                if with_index {
                    told["index"] = json!(index);
                }
                schedule(&mut events, id, "Approve", &json!({"stateway": told}));
            }
            world.executions[0].events = events;
        }
        let told = signal(&bench, &ids[0], "Approve", "{}").await;
        assert_eq!(reason(told).1, "SIGNAL_NOT_AWAITED", "two of them wait");
        let told = signal(&bench, &ids[0], "M[1].Approve", "{}").await;
        if with_index {
            told.expect("an answer");
            let world = bench.service.world();
            let ended = world.executions[0].events.iter();
            let mut ended = ended.filter(|event| event["type"] == "ActivitySucceeded");
            let ended = ended.next().expect("one ended")["previousEventId"].clone();
            let started = &world.executions[0].events;
            let started = started.iter().find(|event| event["id"] == ended);
            let scheduled = started.expect("a start")["previousEventId"].as_u64();
            assert_eq!(scheduled, Some(9), "the task of the second iteration");
        } else {
            let expected = (
                ErrorKind::FailedPrecondition,
                "ACTIVITY_NOT_ADDRESSABLE".to_owned(),
            );
            assert_eq!(reason(told), expected);
            assert_eq!(calls_of(&bench, "GetActivityTask"), 0);
        }
    }
}

#[tokio::test]
async fn a_signal_can_let_a_task_fail() {
    let (bench, ids) = bench(&["a", "b"], |_| {}).await;
    let body = r#"{"error":"TooMuch","cause":"over the limit"}"#;
    let told = signal(&bench, &ids[0], "Approve:fail", body)
        .await
        .expect("an answer");
    assert_eq!(told.native.state, "FAILED");
    let error = told.last_error.expect("an error");
    assert_eq!(
        (error.native_code.as_str(), error.message.as_str()),
        ("TooMuch", "over the limit")
    );
    signal(&bench, &ids[1], "Approve:fail", "")
        .await
        .expect("an answer");
    let detail = &newest(&bench, 1)["activityFailedEventDetails"];
    assert_eq!(detail["error"], "Stateway.Denied");
}

#[tokio::test]
async fn a_token_can_be_failed_too() {
    let bench = Bench::new(|_| {}).await;
    let scene = Scene::AwaitingSignal {
        signal: "approve".to_owned(),
    };
    let Ok(arn) = bench.service.world().stage(scene) else {
        panic!("not staged")
    };
    let id = ExecutionId::new(arn).expect("an ARN is a name");
    let body = r#"{"error":"TooMuch"}"#;
    let told = signal(&bench, &id, "approve:fail", body)
        .await
        .expect("an answer");
    assert_eq!(told.native.state, "FAILED");
    assert_eq!(told.last_error.expect("an error").native_code, "TooMuch");
    assert_eq!(calls_of(&bench, "SendTaskFailure"), 1);
    assert_eq!(calls_of(&bench, "SendTaskSuccess"), 0);
}

#[tokio::test]
async fn a_failure_that_makes_no_sense_is_refused_before_anything_is_taken() {
    let (bench, ids) = bench(&["a"], |_| {}).await;
    let long = format!(r#"{{"error":"{}"}}"#, "x".repeat(257));
    for body in ["[1]", r#"{"error":7}"#, r#"{"reason":"no"}"#, long.as_str()] {
        let told = signal(&bench, &ids[0], "Approve:fail", body).await;
        assert_eq!(reason(told).0, ErrorKind::InvalidArgument, "{body}");
    }
    let told = signal(&bench, &ids[0], "Other:fail", "{}").await;
    assert_eq!(reason(told).1, "SIGNAL_NOT_AWAITED");
    assert_eq!(calls_of(&bench, "GetActivityTask"), 0);
}

#[test]
fn only_activities_can_be_named() {
    let with = |arn: &str| Config {
        activities: vec![arn.to_owned()],
        ..Config::default()
    };
    for wrong in [
        "people",
        "arn:aws:states:eu-west-1:0:stateMachine:people",
        "arn:aws:states:eu-west-1:0:activity:",
    ] {
        let made = default_chain(&with(wrong)).err();
        assert_eq!(made, Some(ConfigError::Activity(wrong.to_owned())));
    }
    assert!(default_chain(&with(&people())).is_ok());
    let never = Config {
        heartbeat_seconds: 0,
        ..Config::default()
    };
    assert_eq!(default_chain(&never).err(), Some(ConfigError::Heartbeat(0)));
}

/// A provider with the credentials of the SDK's default chain.
fn default_chain(config: &Config) -> std::result::Result<StepFunctionsProvider, ConfigError> {
    let table = compiled_in("step-functions").expect("a table");
    StepFunctionsProvider::new("aws".parse().expect("an id"), config, table)
}
