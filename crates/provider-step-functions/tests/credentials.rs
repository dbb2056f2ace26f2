//! Credentials and regions come from the SDK's default chain, and nothing secret comes out: not in
//! a log, at the finest level, and not in an error. The chain reads the process's environment, so
//! each case is a process of its own.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "each test uses a part of it")]
mod mock;

use std::path::Path;
use std::process::{Command, ExitCode, Output};
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use mock::{HERE, Service};
use serde_json::json;
use stateway_contract_kit::{Fault, Scene};
use stateway_model::{ExecutionId, Payload};
use stateway_provider_api::table::compiled_in;
use stateway_provider_api::{Call, Provider, SignalRequest, StartDefinition, StartRequest, View};
use stateway_provider_step_functions::{Config, ConfigError, StepFunctionsProvider};

macro_rules! trials {
    ($($name:ident),+ $(,)?) => {
        vec![$(Trial::test(stringify!($name), || {
            tokio::runtime::Runtime::new()?.block_on($name());
            Ok(())
        })),+]
    };
}

const ACCESS_KEY: &str = "AKIDMAYBEREADBYNOBODY";
const SECRET_KEY: &str = "a-secret-key-that-nobody-may-read";
const SESSION: &str = "a-session-token-that-nobody-may-read";
const INPUT: &str = "an-input-that-nobody-may-read";
const ANSWER: &str = "an-answer-that-nobody-may-read";
const TASK_TOKEN: &str = "token-5";
/// Where the child finds the service.
const ENDPOINT: &str = "STATEWAY_TEST_ENDPOINT";
/// The region and the profile that it is configured with, if any.
const REGION: &str = "STATEWAY_TEST_REGION";
const PROFILE: &str = "STATEWAY_TEST_PROFILE";

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if std::env::var_os(ENDPOINT).is_some() {
        runtime.block_on(child());
        return ExitCode::SUCCESS;
    }
    let trials = trials![
        nothing_secret_stands_in_a_log_or_an_error,
        a_profile_gives_credentials_and_region,
        the_region_that_is_configured_goes_before_the_environments,
        without_credentials_or_region_it_says_what_is_missing,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// What the child processes do: a bit of everything, with every word said aloud.
async fn child() {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .init();
    let text = |name: &str| std::env::var(name).unwrap_or_default();
    let config = Config {
        endpoint: text(ENDPOINT),
        region: text(REGION),
        profile: text(PROFILE),
        ..Config::default()
    };
    let provider = default_chain(&config).unwrap();
    let call = || Call::within(Duration::from_secs(5));
    println!("{config:?} {:?}", provider.health(&call()).await);
    let start = |name: &str| StartRequest {
        definition: StartDefinition::native(format!("{HERE}:stateMachine:{name}")),
        options: Default::default(),
        execution_id: None,
        input: Some(Payload::json(format!("{{\"card\":\"{INPUT}\"}}"))),
        labels: stateway_model::Labels::new(),
        delay: None,
        request_id: "r-1".parse().unwrap(),
    };
    for name in ["kit", "kit", "nobody"] {
        let started = provider.start(&call(), start(name)).await;
        println!(
            "start: {:?}",
            started.err().map(|error| (error.to_string(), error))
        );
    }
    let id = ExecutionId::new(format!("{HERE}:execution:kit:r-1")).unwrap();
    provider.get(&call(), &id, View::Full).await.unwrap();
    let id = ExecutionId::new(format!("{HERE}:execution:scene-1:staged")).unwrap();
    for _ in 0..3 {
        let request = SignalRequest {
            id: id.clone(),
            signal: "approve".to_owned(),
            payload: Some(Payload::json(format!("{{\"code\":\"{ANSWER}\"}}"))),
            request_id: "r-2".parse().unwrap(),
        };
        let told = provider.signal(&call(), request).await;
        println!(
            "signal: {:?}",
            told.err().map(|error| (error.to_string(), error))
        );
    }
    println!("child is done");
}

/// Runs the child with this environment and no other.
fn run(endpoint: &str, environment: &[(&str, &str)], home: &Path) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .env_clear()
        .envs([
            (ENDPOINT, endpoint),
            ("HOME", home.to_str().unwrap()),
            // There is no instance to ask, and the child shall not wait for one.
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ])
        .envs(environment.iter().copied());
    let Output {
        status,
        stdout,
        stderr,
    } = child.output().unwrap();
    let told = [stdout, stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(status.success() && told.contains("child is done"), "{told}");
    told
}

/// A service with something to start, to read, to signal, and with faults.
async fn service() -> (Service, wiremock::MockServer) {
    let service = Service::default();
    {
        let mut world = service.world();
        let machine = json!({"StartAt": "T", "States": {"T": {"Type": "Task", "Resource": "w"}}});
        world.machines.insert("kit".to_owned(), machine);
        let signal = "approve".to_owned();
        assert!(world.stage(Scene::AwaitingSignal { signal }).is_ok());
        let tokens = world.executions[0].events.iter();
        assert_eq!(
            tokens
                .filter(|event| event.to_string().contains(TASK_TOKEN))
                .count(),
            1
        );
        world.stumbles.extend([
            Fault::Unavailable,
            Fault::Throttle(Duration::from_millis(5)),
        ]);
        world.stumble_at("StartExecution", Fault::Malformed);
    }
    let server = service.open().await;
    (service, server)
}

fn keys(session: bool) -> Vec<(&'static str, &'static str)> {
    let mut keys = vec![
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
    ];
    if session {
        keys.push(("AWS_SESSION_TOKEN", SESSION));
    }
    keys
}

/// Each request was signed with the key, for the region, and carries the session token.
fn ensure_signed(service: &Service, region: &str, session: &str) {
    let world = service.world();
    assert!(world.signed.len() > 5, "{} requests", world.signed.len());
    for (authorization, token) in &world.signed {
        assert!(authorization.contains(&format!("Credential={ACCESS_KEY}/")));
        assert!(
            authorization.contains(&format!("/{region}/states/")),
            "{authorization}"
        );
        assert_eq!(token, session);
    }
}

async fn nothing_secret_stands_in_a_log_or_an_error() {
    let (service, server) = service().await;
    let home = tempfile::tempdir().unwrap();
    let mut environment = keys(true);
    environment.push(("AWS_REGION", "eu-west-1"));
    let told = run(&server.uri(), &environment, home.path());
    // It was sent, and the child did speak.
    ensure_signed(&service, "eu-west-1", SESSION);
    assert!(
        told.contains("TRACE") && told.contains("Step Functions"),
        "{told}"
    );
    assert!(told.contains("signal: Some"), "the last signal is refused");
    for secret in [ACCESS_KEY, SECRET_KEY, SESSION, INPUT, ANSWER, TASK_TOKEN] {
        let line = told.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "`{secret}` is told");
    }
}

async fn a_profile_gives_credentials_and_region() {
    let (service, server) = service().await;
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".aws");
    std::fs::create_dir(&folder).unwrap();
    let credentials = format!(
        "[payments]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n"
    );
    std::fs::write(folder.join("credentials"), credentials).unwrap();
    let config = "[profile payments]\nregion = ap-south-1\n";
    std::fs::write(folder.join("config"), config).unwrap();
    run(&server.uri(), &[(PROFILE, "payments")], home.path());
    ensure_signed(&service, "ap-south-1", "");
}

async fn the_region_that_is_configured_goes_before_the_environments() {
    let (service, server) = service().await;
    let home = tempfile::tempdir().unwrap();
    let mut environment = keys(false);
    environment.extend([("AWS_REGION", "eu-west-1"), (REGION, "us-gov-west-1")]);
    run(&server.uri(), &environment, home.path());
    ensure_signed(&service, "us-gov-west-1", "");
}

async fn without_credentials_or_region_it_says_what_is_missing() {
    let home = tempfile::tempdir().unwrap();
    let told = |environment: &[(&str, &str)]| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child = child.env_clear().env("HOME", home.path());
        let child = child.env("AWS_EC2_METADATA_DISABLED", "true");
        let child = child.envs(environment.iter().copied());
        String::from_utf8_lossy(&child.output().unwrap().stdout).into_owned()
    };
    let endpoint = (ENDPOINT, "http://127.0.0.1:9");
    let nobody = told(&[endpoint, (REGION, "eu-west-1")]);
    assert!(
        nobody.contains("this gateway has no AWS credentials"),
        "{nobody}"
    );
    let mut nowhere = keys(false);
    nowhere.push((ENDPOINT, ""));
    let nowhere = told(&nowhere);
    assert!(nowhere.contains("no AWS region is known"), "{nowhere}");
}

/// A provider with the credentials of the SDK's default chain.
fn default_chain(config: &Config) -> Result<StepFunctionsProvider, ConfigError> {
    let table = compiled_in("step-functions").expect("a table");
    StepFunctionsProvider::new("aws".parse().expect("an id"), config, table)
}
