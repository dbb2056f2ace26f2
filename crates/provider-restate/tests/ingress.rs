//! The ingress is down while the admin API answers: only starting and signalling need the ingress.

#![allow(clippy::unwrap_used)]

use crate::fake;

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::filter::Hints;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, CancelMode, CancelRequest, CompensationChoice, Error, ErrorKind, EventOrder,
    HistoryRequest, ListRequest, PauseRequest, Provider, RequestId, SignalRequest, StartDefinition,
    StartRequest, View,
};
use stateway_provider_restate::{Config, RestateProvider};

use fake::{Fake, Invocation, entry};

fn call() -> Call {
    Call::within(Duration::from_secs(5))
}

fn request_id() -> RequestId {
    "r-1".parse().unwrap()
}

/// The admin API of this server, and an ingress at another address.
fn provider(fake: &Fake, ingress: &str) -> RestateProvider {
    let admin = fake.config().admin.url;
    let config = Config::at(admin, ingress.to_owned());
    RestateProvider::new(
        "restate".parse().unwrap(),
        &config,
        compiled_in("restate").unwrap(),
    )
    .unwrap()
}

/// An address at which nothing listens.
fn closed() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A succeeded invocation whose journal holds its output, as the recording of 1.7.12 does.
fn succeeded(fake: &Fake) -> ExecutionId {
    let output =
        json!({"Command": {"Output": {"result": {"Success": b"{\"total\":7}"}, "name": ""}}});
    put_succeeded(fake, vec![entry(1, "Command: Output", "", output)])
}

fn put_succeeded(fake: &Fake, journal: Vec<serde_json::Value>) -> ExecutionId {
    let id = fake.put(Invocation {
        row: json!({"status": "completed", "completion_result": "success"}),
        journal,
        output: Some(json!({"total": 7})),
        ..Invocation::default()
    });
    ExecutionId::new(id).unwrap()
}

fn status(fake: &Fake, status: &str) -> ExecutionId {
    let id = fake.put(Invocation {
        row: json!({"status": status}),
        ..Invocation::default()
    });
    ExecutionId::new(id).unwrap()
}

#[tokio::test]
async fn every_read_answers_while_the_ingress_is_down() {
    let fake = Fake::new().await;
    let (done, open) = (succeeded(&fake), status(&fake, "running"));
    let provider = provider(&fake, &closed());
    for id in [&done, &open] {
        for view in [View::Basic, View::Full] {
            let seen = provider.get(&call(), id, view).await.unwrap();
            assert_eq!(&seen.id, id);
        }
        let request = HistoryRequest {
            id: id.clone(),
            page_size: 10,
            cursor: None,
            view: View::Basic,
            order: EventOrder::OldestFirst,
        };
        provider.history(&call(), request).await.unwrap();
    }
    let request = ListRequest {
        page_size: 10,
        cursor: None,
        hints: Hints::none(),
    };
    let listed = provider.list(&call(), request).await.unwrap();
    assert_eq!(listed.observations.len(), 2);
    let watched = provider.observe(&call(), &[done, open]).await;
    assert!(watched.iter().all(Result::is_ok));
}

#[tokio::test]
async fn the_output_is_read_from_the_journal_while_the_ingress_is_down() {
    let fake = Fake::new().await;
    let (kept, forgotten) = (succeeded(&fake), put_succeeded(&fake, Vec::new()));
    let provider = provider(&fake, &closed());
    let seen = provider.get(&call(), &kept, View::Full).await.unwrap();
    assert_eq!(seen.output, Some(Payload::json(r#"{"total":7}"#)));
    // Without a journal only the ingress knows the output. The rest is still shown.
    let seen = provider.get(&call(), &forgotten, View::Full).await.unwrap();
    assert_eq!(
        (seen.output, seen.native.state.as_str()),
        (None, "completed")
    );
}

#[tokio::test]
async fn an_ingress_that_accepts_and_never_answers_delays_no_read_past_its_deadline() {
    let fake = Fake::new().await;
    let done = succeeded(&fake);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = provider(&fake, &format!("http://{}", silent.local_addr().unwrap()));
    let call = Call::within(Duration::from_secs(2));
    let seen = provider.get(&call, &done, View::Full).await.unwrap();
    assert_eq!(seen.output, Some(Payload::json(r#"{"total":7}"#)));
    assert!(!call.remaining().is_zero());
}

#[tokio::test]
async fn starting_and_signalling_fail_and_name_the_ingress() {
    let fake = Fake::new().await;
    let order = fake.put(Invocation {
        row: json!({
            "status": "suspended", "target_service_name": "Order", "target_service_key": "o-1",
        }),
        ..Invocation::default()
    });
    let provider = provider(&fake, &closed());
    let start = StartRequest {
        definition: StartDefinition::native("Lab/long"),
        options: Default::default(),
        execution_id: None,
        input: None,
        labels: Default::default(),
        delay: None,
        request_id: request_id(),
    };
    let signal = SignalRequest {
        id: ExecutionId::new(order).unwrap(),
        signal: "approve".to_owned(),
        payload: None,
        request_id: request_id(),
    };
    let refused: [Error; 2] = [
        provider.start(&call(), start).await.unwrap_err(),
        provider.signal(&call(), signal).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert_eq!(error.reason(), "PROVIDER_UNAVAILABLE");
        assert_eq!(error.message, "the ingress cannot be reached");
        assert_eq!(error.component.as_deref(), Some("ingress"));
        assert!(error.hint.contains("ingress.url"), "{}", error.hint);
    }
}

#[tokio::test]
async fn verbs_of_the_admin_api_work_while_the_ingress_is_down() {
    let fake = Fake::new().await;
    let (paused, cancelled) = (status(&fake, "running"), status(&fake, "running"));
    let provider = provider(&fake, &closed());
    let pause = PauseRequest {
        id: paused,
        comment: String::new(),
        request_id: request_id(),
    };
    provider.pause(&call(), pause).await.unwrap();
    let cancel = CancelRequest {
        id: cancelled,
        mode: CancelMode::Kill,
        compensation: CompensationChoice::AsDefined,
        comment: String::new(),
        request_id: request_id(),
    };
    provider.cancel(&call(), cancel).await.unwrap();
}

#[tokio::test]
async fn health_names_an_ingress_that_is_down() {
    let fake = Fake::new().await;
    let health = provider(&fake, &closed()).health(&call()).await.unwrap();
    let expected = "vqueues are on; the ingress cannot be reached, so start and signal fail";
    assert_eq!(health.detail, expected);
    let up = fake.config().ingress.url;
    let health = provider(&fake, &up).health(&call()).await.unwrap();
    assert_eq!(health.detail, "vqueues are on");
}

#[tokio::test]
async fn an_admin_api_that_is_down_is_no_outage_of_one_component() {
    let fake = Fake::new().await;
    let config = Config::at(closed(), fake.config().ingress.url);
    let provider = RestateProvider::new(
        "restate".parse().unwrap(),
        &config,
        compiled_in("restate").unwrap(),
    )
    .unwrap();
    let id = ExecutionId::new(fake::id(1)).unwrap();
    let error = provider.get(&call(), &id, View::Basic).await.unwrap_err();
    assert_eq!(error.message, "the admin API cannot be reached");
    assert_eq!(error.component, None);
}

#[tokio::test]
async fn the_name_of_the_caller_goes_with_a_start_into_the_journal() {
    let fake = Fake::new().await;
    let ingress = wiremock::MockServer::start().await;
    let provider = provider(&fake, &ingress.uri());
    for actor in ["ada", stateway_provider_api::ANONYMOUS] {
        let start = StartRequest {
            definition: StartDefinition::native("Lab/long"),
            options: Default::default(),
            execution_id: None,
            input: None,
            labels: Default::default(),
            delay: None,
            request_id: request_id(),
        };
        let named = Call {
            actor: actor.into(),
            ..call()
        };
        // The answer of this server does not matter here.
        let _ = provider.start(&named, start).await;
    }
    let sent = ingress.received_requests().await.unwrap();
    let posts = sent.iter().filter(|request| request.method == "POST");
    let actors: Vec<_> = posts
        .map(|request| {
            request
                .headers
                .get("x-stateway-actor")
                .map(|name| name.to_str().unwrap())
        })
        .collect();
    assert_eq!(actors.first(), Some(&Some("ada")));
    assert!(actors.contains(&None), "{actors:?}");
}
