//! HTTP steps: the engine calls out.

use std::time::Duration;

use serde_json::json;
use stateway_engine::{AllowList, HttpCaller, HttpSettings, Steer};
use stateway_model::{ErrorCategory, SubState};
use wiremock::matchers::{any, method};
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::lab::Lab;

/// A step that calls a server of the test.
fn call(server: &MockServer, more: &str) -> String {
    let url = server.uri();
    format!("name: call\nsteps: [{{name: a, http: {{url: \"{url}/x?key=hidden\"}}{more}}}]")
}

fn settings(server: &MockServer) -> HttpSettings {
    HttpSettings {
        allow: AllowList::new(&[server.uri()], false).unwrap(),
        ..HttpSettings::default()
    }
}

async fn answers(template: ResponseTemplate) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(template)
        .mount(&server)
        .await;
    server
}

#[tokio::test]
async fn a_step_calls_out_and_answers_what_came_back() {
    let template = ResponseTemplate::new(201)
        .insert_header("etag", "\"7\"")
        .insert_header("set-cookie", "a=b")
        .set_body_json(json!({"id": 7}));
    let server = answers(template).await;
    let lab = Lab::new();
    lab.apply(&call(&server, ", timeout: 5s")).await;
    let _caller = HttpCaller::spawn(&lab.engine, &settings(&server)).unwrap();
    let started = lab.start("call", json!({"order": 1})).await;
    let ended = lab.ended(&started.id).await;
    let headers = json!({"content-type": "application/json", "etag": "\"7\""});
    let output = json!({"a": {"status": 201, "headers": headers, "body": {"id": 7}}});
    assert_eq!(*ended.output.unwrap(), output);
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].method.as_str(), "POST");
    assert_eq!(
        requests[0].body_json::<serde_json::Value>().unwrap(),
        json!({"order": 1})
    );
    let key = requests[0].headers["idempotency-key"].to_str().unwrap();
    assert_eq!(key, format!("{}/0/a/1", started.id));
}

#[tokio::test]
async fn without_an_allow_list_a_step_is_refused_and_the_setting_named() {
    let server = answers(ResponseTemplate::new(200)).await;
    let lab = Lab::new();
    lab.apply(&call(&server, ", timeout: 5s")).await;
    let _caller = HttpCaller::spawn(&lab.engine, &HttpSettings::default()).unwrap();
    let started = lab.start("call", json!(null)).await;
    let view = lab
        .until(&started.id, |view| view.sub_state == SubState::Error)
        .await;
    let error = view.last_error.unwrap();
    assert_eq!(error.category, Some(ErrorCategory::Governance));
    assert!(error.message.contains("`http.allow`"), "{}", error.message);
    assert!(!error.message.contains("hidden"), "{}", error.message);
    assert!(server.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn codes_that_pass_are_tried_again_and_others_are_not() {
    for (status, tries) in [
        (408, 2),
        (425, 2),
        (429, 2),
        (500, 2),
        (502, 2),
        (503, 2),
        (504, 2),
        (400, 1),
        (401, 1),
        (404, 1),
        (409, 1),
        (422, 1),
    ] {
        let server = answers(ResponseTemplate::new(status).set_body_string("no such thing")).await;
        let lab = Lab::new();
        let retry = ", timeout: 5s, retryPolicy: {maxRetries: 1, initialDelay: 1ms}";
        lab.apply(&call(&server, retry)).await;
        let _caller = HttpCaller::spawn(&lab.engine, &settings(&server)).unwrap();
        let started = lab.start("call", json!(null)).await;
        let ended = lab.ended(&started.id).await;
        assert_eq!(ended.sub_state, SubState::Failed);
        assert_eq!(
            server.received_requests().await.unwrap().len(),
            tries,
            "{status}"
        );
        let error = ended.last_error.unwrap();
        let wanted = format!("{}/x: {status} ", server.uri());
        assert!(error.message.contains(&wanted), "{}", error.message);
        assert!(
            error.message.ends_with(": no such thing"),
            "{}",
            error.message
        );
    }
}

#[tokio::test]
async fn retry_after_is_waited_for_in_either_form() {
    let (lab, clock) = Lab::by_hand();
    let date = "Thu, 01 Jan 2099 00:00:00 GMT";
    for (header, pause) in [("90", 90), (date, 24 * 60 * 60)] {
        let server = MockServer::start().await;
        Mock::given(any())
            .respond_with(ResponseTemplate::new(503).insert_header("retry-after", header))
            .up_to_n_times(1)
            .mount(&server)
            .await;
        Mock::given(any())
            .respond_with(ResponseTemplate::new(200))
            .with_priority(9)
            .mount(&server)
            .await;
        let retry = ", timeout: 5s, retryPolicy: {maxRetries: 1, initialDelay: 1s}";
        lab.apply(&call(&server, retry)).await;
        let caller = HttpCaller::spawn(&lab.engine, &settings(&server)).unwrap();
        let started = lab.start("call", json!(null)).await;
        let view = lab
            .until(&started.id, |view| view.sub_state == SubState::BackingOff)
            .await;
        let next = view.steps[0].retry.next_attempt_time.unwrap();
        let waits = next.duration_since(lab.engine.now()).as_secs();
        // A date is longer away than any pause that is granted.
        assert_eq!(waits, pause);
        clock.advance(pause * 1_000);
        assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
        drop(caller);
    }
}

#[tokio::test]
async fn an_attempt_ends_at_its_time_limit() {
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    let server = answers(slow).await;
    let lab = Lab::new();
    lab.apply(&call(&server, ", timeout: 100ms")).await;
    let _caller = HttpCaller::spawn(&lab.engine, &settings(&server)).unwrap();
    let started = lab.start("call", json!(null)).await;
    let ended = lab.ended(&started.id).await;
    assert_eq!(ended.reason, Some(stateway_model::Reason::TimedOut));
}

#[tokio::test]
async fn a_step_without_a_limit_has_the_configured_one() {
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    let server = answers(slow).await;
    let lab = Lab::new();
    lab.apply(&call(&server, "")).await;
    let mut settings = settings(&server);
    settings.timeout = Duration::from_millis(50);
    let _caller = HttpCaller::spawn(&lab.engine, &settings).unwrap();
    let started = lab.start("call", json!(null)).await;
    let ended = lab.ended(&started.id).await;
    assert_eq!(ended.reason, Some(stateway_model::Reason::TimedOut));
}

#[tokio::test]
async fn a_call_that_a_stop_cut_off_is_made_again_with_the_same_key() {
    let server = MockServer::start().await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(200).set_delay(Duration::from_secs(60)))
        .up_to_n_times(1)
        .mount(&server)
        .await;
    Mock::given(method("POST"))
        .respond_with(ResponseTemplate::new(200))
        .with_priority(9)
        .mount(&server)
        .await;
    let lab = Lab::new();
    lab.apply(&call(&server, ", timeout: 30s")).await;
    let caller = HttpCaller::spawn(&lab.engine, &settings(&server)).unwrap();
    let started = lab.start("call", json!(null)).await;
    while server.received_requests().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The caller does not keep the engine: the file is free when its handle is gone.
    let lab = lab.restart();
    drop(caller);
    let _caller = HttpCaller::spawn(&lab.engine, &settings(&server)).unwrap();
    assert_eq!(lab.ended(&started.id).await.sub_state, SubState::Succeeded);
    let requests = server.received_requests().await.unwrap();
    let keys: Vec<_> = requests
        .iter()
        .map(|request| &request.headers["idempotency-key"])
        .collect();
    assert_eq!(keys, [&keys[0].clone(), &keys[0].clone()]);
}

#[tokio::test]
async fn a_cancelled_step_is_not_waited_for() {
    let slow = ResponseTemplate::new(200).set_delay(Duration::from_secs(60));
    let server = answers(slow).await;
    let lab = Lab::new();
    lab.apply(&call(&server, ", timeout: 30s")).await;
    let mut settings = settings(&server);
    settings.capacity = 1;
    let _caller = HttpCaller::spawn(&lab.engine, &settings).unwrap();
    let first = lab.start("call", json!(1)).await;
    while server.received_requests().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = lab.start("call", json!(2)).await;
    assert_eq!(second.waits[0].kind.as_str(), "capacity");
    let cancel = Steer::Cancel {
        mode: stateway_machine::CancelMode::Kill,
        cause: "enough".into(),
    };
    lab.steer(&first.id, cancel).await.unwrap();
    // Its place is free for the next one.
    while server.received_requests().await.unwrap().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_callers_name_is_taken_by_nobody_else() {
    let lab = Lab::new();
    let offer = stateway_engine::Offer {
        worker: "engine/http".into(),
        ..Default::default()
    };
    let error = lab.engine.connect(offer).unwrap_err();
    assert_eq!(error.reason, "RESERVED_WORKER_ID");
}

#[test]
fn without_a_runtime_there_is_no_caller() {
    let lab = Lab::new();
    let error = HttpCaller::spawn(&lab.engine, &HttpSettings::default()).unwrap_err();
    assert!(error.to_string().contains("runtime"), "{error}");
}
