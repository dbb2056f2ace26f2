//! The service model as the SDK has it: every event and every error of it is known here, so that a
//! new version of the SDK fails these tests until it is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aws_sdk_sfn::types::HistoryEventType;
use serde_json::json;
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::Quota;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Call, ErrorKind, EventOrder, HistoryRequest, Provider, View};
use stateway_provider_step_functions::pure::ERROR_NAMES;
use stateway_provider_step_functions::{Api, Config, StepFunctionsProvider};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

const ANYONE: &str = "arn:aws:states:us-east-1:000000000000:execution:m:e";

/// The folder of the SDK's source, as the compiler recorded it beside this test's own binary. The
/// source is there because this test was built from it; `cargo metadata` would also ask for crates
/// of other platforms, which a build never downloads.
fn sdk() -> PathBuf {
    let version = locked_version("aws-sdk-sfn");
    let binary = std::env::current_exe().expect("the path of this test");
    let deps = binary.parent().expect("a folder");
    let folders: BTreeSet<PathBuf> = std::fs::read_dir(deps)
        .expect("the folder of the build")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| is_dep_info_of("aws_sdk_sfn-", path))
        .filter_map(|path| source_folder(&std::fs::read_to_string(path).expect("a text")))
        .collect();
    // A target folder that has seen an update holds the dep-info of the older version too.
    let has_version = |folder: &&PathBuf| {
        std::fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|manifest| manifest.contains(&format!("version = \"{version}\"")))
    };
    let found = folders.iter().find(has_version);
    found
        .unwrap_or_else(|| panic!("no source of aws-sdk-sfn {version} in {folders:?}"))
        .clone()
}

fn is_dep_info_of(prefix: &str, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(prefix) && name.ends_with(".d")
}

/// The package folder of a dep-info file, which has a line `<path>:` for each source file.
fn source_folder(dep_info: &str) -> Option<PathBuf> {
    let root = |line: &str| line.strip_suffix("/src/lib.rs:").map(str::to_owned);
    let folder = dep_info.lines().find_map(root)?;
    Some(PathBuf::from(folder.replace("\\ ", " ")))
}

/// The version of a package in Cargo.lock.
fn locked_version(package: &str) -> String {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    let lock = std::fs::read_to_string(lock).expect("Cargo.lock");
    let entry = format!("name = \"{package}\"\nversion = \"");
    let (_, rest) = lock.split_once(&entry).expect("the package in Cargo.lock");
    let (version, _) = rest.split_once('"').expect("a version");
    version.to_owned()
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
        let events: Vec<_> = if reverse {
            events.into_iter().rev().collect()
        } else {
            events.to_vec()
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
    let provider = StepFunctionsProvider::with_keys(
        "aws".parse().expect("an id"),
        &config,
        compiled_in("step-functions").expect("a table"),
        ("test", "test"),
    );
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
            view: View::Basic,
            order: EventOrder::OldestFirst,
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
