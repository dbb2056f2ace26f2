//! A provider that sends random bytes in the frames of gRPC: every call ends, and the connection stays.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)] // A reset is for other tests.
use crate::raw;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use prost::Message;
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::lock;
use stateway_provider_api::filter::Hints;
use stateway_provider_api::{
    Call, DefinitionsRequest, Error, EventOrder, HistoryRequest, ListRequest, Provider,
    StartDefinition, StartRequest, View, WatchScope,
};
use stateway_provider_remote::{Config, RemoteProvider};
use stateway_wire::v1;

use raw::{Reply, frame, serve_raw};
use stateway_chance::Chance;

const ROUNDS: u64 = 2_000;

fn observation() -> v1::Observation {
    let state = || {
        Some(v1::NativeState {
            state: "ACTIVE".into(),
            ..v1::NativeState::default()
        })
    };
    v1::Observation {
        id: "a".into(),
        version: Some(v1::Version { parts: vec![1, 2] }),
        native_state: state(),
        steps: vec![v1::StepObservation {
            name: "work".into(),
            native_state: state(),
            ..v1::StepObservation::default()
        }],
        labels: [("a".to_owned(), "b".to_owned())].into(),
        ..v1::Observation::default()
    }
}

/// A right answer to the method.
fn good(method: &str) -> Vec<u8> {
    match method {
        "ListExecutions" => {
            let page = v1::ListExecutionsResponse {
                observations: vec![observation()],
                next_cursor: String::new(),
            };
            page.encode_to_vec()
        }
        "CountExecutions" => {
            let group = v1::ExecutionGroup {
                example: Some(observation()),
                count: 3,
                at_least: false,
            };
            let counts = v1::CountExecutionsResponse {
                groups: vec![group],
            };
            counts.encode_to_vec()
        }
        "ObserveExecutions" => {
            let seen = v1::observed_execution::Result::Observation(observation());
            let results = vec![v1::ObservedExecution { result: Some(seen) }];
            v1::ObserveExecutionsResponse { results }.encode_to_vec()
        }
        "ListDefinitions" => {
            let definition = v1::Definition {
                name: "script".into(),
                ..v1::Definition::default()
            };
            let page = v1::ListDefinitionsResponse {
                definitions: vec![definition],
                next_cursor: String::new(),
            };
            page.encode_to_vec()
        }
        "WatchExecutions" => {
            let seen = v1::watch_executions_response::Item::Seen(observation());
            let message = v1::WatchExecutionsResponse { item: Some(seen) };
            message.encode_to_vec()
        }
        "ListEvents" => {
            let event = v1::Event {
                sequence: 1,
                ..v1::Event::default()
            };
            let page = v1::ListEventsResponse {
                events: vec![event],
                next_cursor: String::new(),
            };
            page.encode_to_vec()
        }
        _ => observation().encode_to_vec(),
    }
}

/// Random bytes, or a right answer with some bytes changed, inserted or cut off.
fn bytes(dice: &mut Chance, method: &str) -> Vec<u8> {
    if dice.below_u64(4) == 0 {
        let length = dice.below_u64(300);
        return (0..length).map(|_| dice.below_u64(256) as u8).collect();
    }
    let mut bytes = good(method);
    for _ in 0..dice.below_u64(4) {
        let at = dice.below_u64(bytes.len() as u64 + 1) as usize;
        match dice.below_u64(3) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, dice.below_u64(256) as u8),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = dice.below_u64(256) as u8;
                }
            }
        }
    }
    bytes
}

/// Calls one verb; the number of the round decides which.
async fn ask(far: &RemoteProvider, round: u64) -> Result<(), Error> {
    let call = &Call::within(Duration::from_secs(10));
    let id = ExecutionId::new("a").unwrap();
    let (page_size, cursor) = (10, None);
    match round % 8 {
        0 => far.get(call, &id, View::Full).await.map(drop),
        1 => {
            let hints = Hints::none();
            let request = ListRequest {
                hints,
                page_size,
                cursor,
            };
            far.list(call, request).await.map(drop)
        }
        2 => {
            let request = HistoryRequest {
                id,
                page_size,
                cursor,
                view: View::Full,
                order: EventOrder::OldestFirst,
            };
            far.history(call, request).await.map(drop)
        }
        3 => far.count(call).await.map(drop),
        4 => {
            let request = DefinitionsRequest { page_size, cursor };
            far.definitions(call, request).await.map(drop)
        }
        5 => {
            let definition = StartDefinition::native("script");
            let request = StartRequest::new(definition, "r-1".parse().unwrap());
            far.start(call, request).await.map(drop)
        }
        6 => {
            let mut observed = far.observe(call, &[id]).await;
            observed.pop().expect("one result for one id").map(drop)
        }
        _ => {
            let mut items = far.watch(call, WatchScope::All).await?;
            while let Some(item) = items.next().await {
                item?;
            }
            Ok(())
        }
    }
}

#[tokio::test]
async fn random_bytes_in_a_frame_are_refused_and_nothing_panics() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("far.sock");
    let dice = Mutex::new(Chance::new(7));
    let replying = move |method: &str| {
        let bytes = bytes(&mut lock(&dice), method);
        Reply::Body(frame(&bytes))
    };
    let accepted = serve_raw(&socket, Arc::new(replying));
    let config = Config::at(format!("unix:{}", socket.display()));
    let far = RemoteProvider::new("far".parse().unwrap(), &config, None).unwrap();
    let (mut read, mut refused) = ([0; 8], [0; 8]);
    for round in 0..ROUNDS {
        // A panic of the adapter ends the test here.
        let asked = tokio::time::timeout(Duration::from_secs(20), ask(&far, round));
        let verb = (round % 8) as usize;
        match asked.await.expect("every call ends") {
            Ok(()) => read[verb] += 1,
            Err(_) => refused[verb] += 1,
        }
    }
    println!("{ROUNDS} rounds: read {read:?}, refused {refused:?}");
    // If all answers were refused, only the first check would be tested.
    assert!(read.iter().chain(&refused).all(|count| *count > 0));
    assert_eq!(accepted.load(Ordering::Relaxed), 1, "one connection");
}
