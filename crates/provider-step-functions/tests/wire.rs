//! Recorded answers over a real port and through the SDK: states, errors, and bodies that were
//! broken on the way.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use stateway_chance::Chance;
use stateway_model::ExecutionId;
use stateway_provider_api::adapter::Quota;
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{
    Call, ErrorKind, EventOrder, HistoryRequest, Mapper, Observation, Provider, Result, View,
};
use stateway_provider_step_functions::pure::ERROR_NAMES;
use stateway_provider_step_functions::{Api, Config, StepFunctionsProvider};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate, matchers::any};

const ANYONE: &str = "arn:aws:states:us-east-1:000000000000:execution:m:e";
/// How many broken bodies are tried, unless more are asked for.
const BROKEN_BODIES: u64 = 1_500;
/// Asks for more of them, and for others: `STATEWAY_BROKEN_BODIES=1000000 STATEWAY_BROKEN_FROM=7`.
const HOW_MANY: &str = "STATEWAY_BROKEN_BODIES";
const FROM: &str = "STATEWAY_BROKEN_FROM";

fn number(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(told) => told.parse().expect("a number"),
        Err(_) => usual,
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(folder().join(file)).expect(file)
}

async fn serve(respond: impl Respond + 'static) -> (MockServer, StepFunctionsProvider) {
    let server = MockServer::start().await;
    Mock::given(any())
        .respond_with(respond)
        .mount(&server)
        .await;
    // The quota is not what is tested here.
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

async fn get(provider: &StepFunctionsProvider, arn: &str) -> Result<Observation> {
    let id = ExecutionId::new(arn).expect("a name");
    let call = Call::within(Duration::from_secs(10));
    provider.get(&call, &id, View::Full).await
}

fn operation(request: &Request) -> String {
    let target = request.headers.get("x-amz-target").expect("a target");
    let target = target.to_str().expect("text");
    target.rsplit('.').next().unwrap_or_default().to_owned()
}

/// Answers every call with what was recorded of one execution.
struct Recorded(String);

impl Respond for Recorded {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let call = match operation(request).as_str() {
            "GetExecutionHistory" => "GetExecutionHistory.reverse".to_owned(),
            other => other.to_owned(),
        };
        let body = read(&format!("{}.{call}.json", self.0));
        ResponseTemplate::new(200).set_body_string(body)
    }
}

#[tokio::test]
async fn every_recorded_execution_is_shown_as_expected() {
    let expected: Value = serde_json::from_str(&read("expected.json")).expect("JSON");
    let expected = expected.as_object().expect("an object");
    let table = compiled_in("step-functions").expect("a table");
    let mapper = Mapper::new("aws".parse().expect("an id"));
    for (name, expected) in expected {
        let (_server, provider) = serve(Recorded(name.clone())).await;
        let described: Value =
            serde_json::from_str(&read(&format!("{name}.DescribeExecution.json"))).expect("JSON");
        let arn = described["executionArn"].as_str().expect("an ARN");
        let seen = get(&provider, arn).await.expect(name);
        assert_eq!(
            seen.native.state,
            expected["status"].as_str().expect("a status"),
            "{name}"
        );
        let shown = mapper.execution(&table, seen.clone(), Timestamp::now());
        let word = match expected["overall"].as_str().expect("a word") {
            "running" if name == "dag-paused-on-gate" => "error",
            "aborted" | "timed-out" => "failed",
            word => word,
        };
        assert_eq!(shown.sub_state.as_str(), word, "{name}");
        assert!(shown.input.is_some(), "{name}");
        if word == "backing-off" {
            // The explanation names the event and what the definition makes of it.
            let explained = format!("{:?}", mapper.explain(&table, &seen, Timestamp::now()));
            assert!(explained.contains("ActivityFailed"), "{name}: {explained}");
            assert!(explained.contains("follow_up"), "{name}: {explained}");
        }
    }
    println!(
        "summary: {} recorded executions shown as expected through the SDK",
        expected.len()
    );
}

/// Answers every call with one body.
struct Always(u16, Value);

impl Respond for Always {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        ResponseTemplate::new(self.0).set_body_json(&self.1)
    }
}

#[tokio::test]
async fn every_error_of_the_service_has_its_kind() {
    for (name, kind, reason) in ERROR_NAMES {
        let body = json!({"__type": format!("com.amazonaws.states#{name}"), "message": "told"});
        let (_server, provider) = serve(Always(400, body)).await;
        let error = get(&provider, ANYONE).await.unwrap_err();
        assert_eq!((error.kind, error.native_code.as_str()), (*kind, *name));
        assert_eq!(error.reason(), reason.unwrap_or(kind.reason()));
        assert_eq!(
            error.retry_after.is_some(),
            *kind == ErrorKind::Throttled,
            "{name}"
        );
    }
}

#[tokio::test]
async fn recorded_errors_are_understood() {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder()).expect("the recordings") {
        let name = entry
            .expect("a file")
            .file_name()
            .to_string_lossy()
            .into_owned();
        if !name.starts_with("error.") {
            continue;
        }
        let recorded: Value = serde_json::from_str(&read(&name)).expect("JSON");
        let status = recorded["httpStatus"].as_u64().expect("a status");
        let status = u16::try_from(status).expect("a status");
        let (_server, provider) = serve(Always(status, recorded["body"].clone())).await;
        let error = get(&provider, ANYONE).await.unwrap_err();
        let code = recorded["body"]["__type"].as_str().expect("a name");
        assert_eq!(error.native_code, code, "{name}");
        let known = ERROR_NAMES.iter().find(|(known, ..)| *known == code);
        let kind = if name.contains(".express.") {
            ErrorKind::Unsupported
        } else {
            known.expect(code).1
        };
        assert_eq!(error.kind, kind, "{name}");
        seen += 1;
    }
    assert!(seen >= 14, "only {seen} errors are recorded");
}

/// Answers with recorded bodies in which something was broken.
struct Broken {
    bodies: Vec<Vec<u8>>,
    next: Arc<AtomicU64>,
}

impl Respond for Broken {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body = match operation(request).as_str() {
            "GetExecutionHistory" => self.broken(),
            other => read(&format!("map-many-mixed.{other}.json")).into_bytes(),
        };
        ResponseTemplate::new(200).set_body_bytes(body)
    }
}

impl Broken {
    fn broken(&self) -> Vec<u8> {
        let mut chance = Chance::new(self.next.fetch_add(1, Ordering::Relaxed));
        let mut roll = |sides: usize| chance.below(sides);
        let mut body = self.bodies[roll(self.bodies.len())].clone();
        for _ in 0..=roll(4) {
            let at = roll(body.len());
            match roll(5) {
                0 => body.truncate(at),
                1 => {
                    // Other ids and links: the structure stays JSON, the history makes no sense.
                    for byte in body
                        .iter_mut()
                        .skip(at)
                        .take(400)
                        .filter(|byte| byte.is_ascii_digit())
                    {
                        *byte = b'0' + u8::try_from(roll(10)).unwrap_or_default();
                    }
                }
                2 => {
                    let length = roll(2_000).min(body.len() - at);
                    body.drain(at..at + length);
                }
                3 => {
                    let copied: Vec<u8> = body[at..].iter().copied().take(roll(3_000)).collect();
                    let to = roll(body.len());
                    body.splice(to..to, copied);
                }
                _ => {
                    if let Some(byte) = body.get_mut(at) {
                        *byte = u8::try_from(roll(256)).unwrap_or_default();
                    }
                }
            }
            if body.is_empty() {
                break;
            }
        }
        body
    }
}

#[tokio::test]
async fn broken_histories_are_refused_or_read_and_never_more() {
    let files = [
        "map-many-mixed",
        "parallel-one-backing-off",
        "redriven-running",
        "dag-paused-on-gate",
    ];
    let bodies = files.map(|name| {
        let body: Value =
            serde_json::from_str(&read(&format!("{name}.GetExecutionHistory.reverse.json")))
                .expect("JSON");
        body.to_string().into_bytes()
    });
    let from = number(FROM, 1);
    let most = number(HOW_MANY, BROKEN_BODIES);
    let next = Arc::new(AtomicU64::new(from));
    let broken = Broken {
        bodies: bodies.to_vec(),
        next: next.clone(),
    };
    let (_server, provider) = serve(broken).await;
    let (mut answered, mut refused) = (0, 0);
    while next.load(Ordering::Relaxed) < from.saturating_add(most) {
        let call = Call::within(Duration::from_secs(10));
        let id = ExecutionId::new(ANYONE).expect("a name");
        let request = HistoryRequest {
            id,
            page_size: 1_000,
            cursor: None,
            view: View::Basic,
            order: EventOrder::OldestFirst,
        };
        let told = provider.history(&call, request).await.map(|_| ());
        let seen = get(&provider, ANYONE).await.map(|seen| {
            let table = compiled_in("step-functions").expect("a table");
            let _ = stateway_provider_api::classify(&table, &seen, Timestamp::now());
        });
        for outcome in [told, seen] {
            match outcome {
                Ok(()) => answered += 1,
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::Malformed, "{error}");
                    refused += 1;
                }
            }
        }
    }
    println!("summary: {most} broken histories: {answered} read, {refused} refused as malformed");
    assert!(
        answered > 50 && refused > 50,
        "{answered} read, {refused} refused"
    );
}
