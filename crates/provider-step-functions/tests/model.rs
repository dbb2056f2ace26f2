//! The service model as the SDK has it: every event and every error of it is known here, so that a
//! new version of the SDK fails these tests until it is.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use aws_sdk_sfn::types::HistoryEventType;
use serde_json::{Value, json};
use stateway_model::ExecutionId;
use stateway_provider_api::{Call, ErrorKind, HistoryRequest, Provider, View};
use stateway_provider_step_functions::{Api, Config, ERROR_NAMES, Quota, StepFunctionsProvider};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

const ANYONE: &str = "arn:aws:states:us-east-1:000000000000:execution:m:e";

/// Where the SDK's source lies: this build was made from it.
fn sdk() -> PathBuf {
    let told = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let told: Value = serde_json::from_slice(&told.stdout).expect("metadata");
    let packages = told["packages"].as_array().expect("packages");
    let sdk = packages
        .iter()
        .find(|package| package["name"] == "aws-sdk-sfn")
        .expect("the SDK");
    let manifest = PathBuf::from(sdk["manifest_path"].as_str().expect("a path"));
    manifest.parent().expect("a folder").to_owned()
}

#[test]
fn every_error_of_the_sdk_has_a_row() {
    let source = std::fs::read_to_string(sdk().join("src/error_meta.rs")).expect("the errors");
    let errors = source
        .split("pub enum Error {")
        .nth(1)
        .and_then(|rest| rest.split("\n}").next())
        .expect("the enum of all errors");
    let variant = |line: &str| {
        let (name, of) = line.trim().split_once('(')?;
        of.starts_with("crate::types::error::")
            .then(|| name.to_owned())
    };
    let errors: BTreeSet<String> = errors.lines().filter_map(variant).collect();
    assert!(
        errors.len() >= 33,
        "only {} errors were found",
        errors.len()
    );
    let known: BTreeSet<String> = ERROR_NAMES
        .iter()
        .map(|(name, ..)| (*name).to_owned())
        .collect();
    let unknown: Vec<_> = errors.difference(&known).collect();
    assert!(unknown.is_empty(), "no kind is given to {unknown:?}");
    println!(
        "summary: {} errors of the SDK each have one kind",
        errors.len()
    );
}

/// An execution that runs and has one event of a kind behind an open task.
struct OneKind(String);

impl Respond for OneKind {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let target = request.headers.get("x-amz-target").expect("a target");
        let target = target.to_str().expect("text");
        let machine = "arn:aws:states:us-east-1:000000000000:stateMachine:m";
        let event = |id: u32, kind: &str| json!({"id": id, "previousEventId": id - 1, "type": kind, "timestamp": 1.0});
        let mut entered = event(2, "TaskStateEntered");
        entered["previousEventId"] = json!(0);
        entered["stateEnteredEventDetails"] = json!({"name": "T"});
        let events = [
            event(1, "ExecutionStarted"),
            entered,
            event(3, "ActivityScheduled"),
            event(4, &self.0),
        ];
        let reverse = String::from_utf8_lossy(&request.body).contains("\"reverseOrder\":true");
        let events: Vec<_> = match reverse {
            true => events.into_iter().rev().collect(),
            false => events.to_vec(),
        };
        ResponseTemplate::new(200).set_body_json(match target.rsplit('.').next() {
            Some("GetExecutionHistory") => json!({"events": events}),
            Some("DescribeExecution") => json!({
                "executionArn": ANYONE, "stateMachineArn": machine, "name": "e",
                "status": "RUNNING", "startDate": 1.0, "input": "{}"
            }),
            _ => json!({
                "stateMachineArn": machine, "name": "m", "roleArn": "arn:aws:iam::0:role/r",
                "updateDate": 1.0, "definition": "{\"States\":{\"T\":{\"Type\":\"Task\"}}}"
            }),
        })
    }
}

async fn serve(kind: &str) -> (MockServer, StepFunctionsProvider) {
    let server = MockServer::start().await;
    let respond = OneKind(kind.to_owned());
    Mock::given(any())
        .respond_with(respond)
        .mount(&server)
        .await;
    let plenty = Quota {
        burst: 1_000_000,
        per_second: 1_000_000,
    };
    let config = Config {
        endpoint: server.uri(),
        region: "us-east-1".to_owned(),
        quotas: Api::ALL.into_iter().map(|api| (api, plenty)).collect(),
        ..Config::default()
    };
    let provider = StepFunctionsProvider::with_credentials(&config, "test", "test");
    (server, provider.expect("a good configuration"))
}

#[tokio::test]
async fn every_event_of_the_sdk_is_told_verbatim_and_one_of_tomorrow_too() {
    let tomorrow = ["KindOfTomorrow"];
    let kinds = HistoryEventType::values();
    for kind in kinds.iter().chain(&tomorrow) {
        let (_server, provider) = serve(kind).await;
        let id = ExecutionId::new(ANYONE).expect("a name");
        let call = Call::within(Duration::from_secs(10));
        let request = HistoryRequest {
            id: id.clone(),
            page_size: 10,
            cursor: None,
        };
        let told = provider.history(&call, request).await.expect("a history");
        assert_eq!(told.events[3].native_type, *kind);
        assert!(!told.events[3].summary.is_empty(), "{kind}");
        let seen = provider.get(&call, &id, View::Full).await;
        let seen = seen.unwrap_or_else(|error| panic!("{kind}: {error}"));
        let over = kind.starts_with("Execution")
            && !["ExecutionStarted", "ExecutionRedriven"].contains(kind);
        assert_eq!(seen.native.state == "RUNNING", !over, "{kind}");
    }
    println!(
        "summary: {} kinds of events read through the SDK",
        kinds.len()
    );
}

#[tokio::test]
async fn a_step_that_waits_for_a_worker_cannot_be_signalled_and_says_why() {
    let (_server, provider) = serve("ActivityStarted").await;
    let call = Call::within(Duration::from_secs(10));
    let request = stateway_provider_api::SignalRequest {
        id: ExecutionId::new(ANYONE).expect("a name"),
        signal: "T".to_owned(),
        payload: None,
        request_id: "r-1".parse().expect("a request id"),
    };
    let refused = provider.signal(&call, request.clone()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unsupported);
    assert_eq!(refused.reason(), "ACTIVITY_NOT_ADDRESSABLE");
    let other = stateway_provider_api::SignalRequest {
        signal: "Other".to_owned(),
        ..request
    };
    let refused = provider.signal(&call, other).await.unwrap_err();
    assert_eq!(refused.reason(), "SIGNAL_NOT_AWAITED");
}
