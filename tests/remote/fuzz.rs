//! Providers that answer at random, for a bounded time: no panic, and the gateway serves everything else.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prost::Message;
use prost_types::{Duration as Span, Timestamp};
use stateway_client::v1 as api;
use stateway_client::v1::definitions_client::DefinitionsClient;
use stateway_wire::v1;
use stateway_wire::v1::watch_executions_response::Item;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use super::bad::{Bad, description, observation};
use super::process::{Socket, remote, serving};
use super::{PATIENCE, get};
use crate::support::{TestGateway, Watching};
use stateway_chance::Chance;

/// For how long: `STATEWAY_REMOTE_FUZZ_SECONDS`, or a few seconds.
fn budget() -> Duration {
    let wanted = std::env::var("STATEWAY_REMOTE_FUZZ_SECONDS").ok();
    let wanted = wanted.and_then(|text| text.parse().ok());
    Duration::from_secs(wanted.unwrap_or(4))
}

fn seed() -> u64 {
    let wanted = std::env::var("STATEWAY_REMOTE_FUZZ_SEED").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(11)
}

fn text(dice: &mut Chance) -> String {
    let texts = [
        "",
        "a",
        "ACTIVE",
        "DONE",
        "BROKEN",
        "\0",
        "../../x",
        "ü\u{202e}",
        "%2F",
        "a/b",
        "\n\n",
    ];
    match dice.below_u64(12) {
        11 => "x".repeat(dice.below_u64(5_000) as usize),
        at => texts[at as usize].to_owned(),
    }
}

fn figure(dice: &mut Chance) -> i64 {
    [0, 1, -1, i64::MAX, i64::MIN, 1_000_000_000, 7][dice.below_u64(7) as usize]
}

fn small(dice: &mut Chance) -> i32 {
    [0, 1, -1, i32::MAX, i32::MIN, 99, 3][dice.below_u64(7) as usize]
}

fn time(dice: &mut Chance) -> Option<Timestamp> {
    let (seconds, nanos) = (figure(dice), small(dice));
    (dice.below_u64(2) == 0).then_some(Timestamp { seconds, nanos })
}

fn span(dice: &mut Chance) -> Option<Span> {
    let (seconds, nanos) = (figure(dice), small(dice));
    (dice.below_u64(2) == 0).then_some(Span { seconds, nanos })
}

fn native(dice: &mut Chance) -> Option<v1::NativeState> {
    let state = text(dice);
    let qualifiers = (0..dice.below_u64(3))
        .map(|_| (text(dice), text(dice)))
        .collect();
    (dice.below_u64(8) > 0).then_some(v1::NativeState { state, qualifiers })
}

fn error(dice: &mut Chance) -> Option<v1::ExecutionError> {
    let error = v1::ExecutionError {
        step: text(dice),
        message: text(dice),
        native_code: text(dice),
        category: small(dice),
        attempt: small(dice),
        occur_time: time(dice),
    };
    (dice.below_u64(2) == 0).then_some(error)
}

fn retry(dice: &mut Chance) -> Option<v1::RetryEvidence> {
    let retry = v1::RetryEvidence {
        attempt: small(dice),
        max_attempt_count: Some(small(dice)),
        phase: small(dice),
        next_attempt_time: time(dice),
        delay: span(dice),
        jitter_duration: span(dice),
        last_error: error(dice),
        basis: small(dice),
    };
    (dice.below_u64(2) == 0).then_some(retry)
}

fn wait(dice: &mut Chance) -> v1::Wait {
    v1::Wait {
        kind: small(dice),
        name: text(dice),
        start_time: time(dice),
        expire_time: time(dice),
        detail: text(dice),
        blocker: small(dice),
    }
}

fn step(dice: &mut Chance) -> v1::StepObservation {
    v1::StepObservation {
        name: text(dice),
        native_state: native(dice),
        retry: retry(dice),
        waits: (0..dice.below_u64(3)).map(|_| wait(dice)).collect(),
        last_error: error(dice),
        start_time: time(dice),
        end_time: time(dice),
        progress: Some(v1::Progress {
            fraction: [f64::NAN, f64::INFINITY, 0.5][dice.below_u64(3) as usize],
            detail: text(dice),
        }),
        usage: None,
        child: text(dice),
        blocked_by: vec![text(dice)],
        notes: vec![text(dice)],
    }
}

fn random(dice: &mut Chance) -> v1::Observation {
    if dice.below_u64(4) == 0 {
        return observation("a");
    }
    v1::Observation {
        id: if dice.below_u64(3) > 0 {
            "a".to_owned()
        } else {
            text(dice)
        },
        version: (dice.below_u64(2) == 0).then(|| v1::Version {
            parts: (0..dice.below_u64(5))
                .map(|_| dice.below_u64(u64::MAX))
                .collect(),
        }),
        definition: text(dice),
        revision: text(dice),
        native_state: native(dice),
        retry: retry(dice),
        waits: (0..dice.below_u64(4)).map(|_| wait(dice)).collect(),
        steps: (0..dice.below_u64(4)).map(|_| step(dice)).collect(),
        steps_are_detail: dice.below_u64(2) == 0,
        is_partial: dice.below_u64(2) == 0,
        last_error: error(dice),
        create_time: time(dice),
        start_time: time(dice),
        update_time: time(dice),
        end_time: time(dice),
        input: Some(v1::Payload {
            data: text(dice).into(),
            content_type: text(dice),
        }),
        labels: [(text(dice), text(dice))].into(),
        usage: Some(v1::Usage {
            input_token_count: figure(dice),
            output_token_count: figure(dice),
            cost_micros: figure(dice),
        }),
        forked_from: text(dice),
        forks: vec![text(dice)],
        notes: vec![text(dice)],
        ..v1::Observation::default()
    }
}

fn some<T>(dice: &mut Chance, most: u64, mut make: impl FnMut(&mut Chance) -> T) -> Vec<T> {
    (0..dice.below_u64(most)).map(|_| make(dice)).collect()
}

fn payload(dice: &mut Chance) -> Option<v1::Payload> {
    let payload = v1::Payload {
        data: text(dice).into(),
        content_type: text(dice),
    };
    (dice.below_u64(2) == 0).then_some(payload)
}

fn event(dice: &mut Chance) -> v1::Event {
    let detail = v1::EventDetail {
        payload: payload(dice),
        payload_truncated: dice.below_u64(2) == 0,
        correlation_id: text(dice),
        request_id: text(dice),
        cause_sequence: figure(dice),
        actor: text(dice),
    };
    v1::Event {
        // Often in order, so that whole pages are read.
        sequence: if dice.below_u64(4) == 0 {
            figure(dice)
        } else {
            7
        },
        occur_time: time(dice),
        native_type: text(dice),
        step: text(dice),
        attempt: if dice.below_u64(4) == 0 {
            small(dice)
        } else {
            1
        },
        summary: text(dice),
        phase: small(dice),
        detail: (dice.below_u64(2) == 0).then_some(detail),
    }
}

fn definition(dice: &mut Chance) -> v1::Definition {
    v1::Definition {
        name: text(dice),
        revision: text(dice),
        revisions: some(dice, 4, text),
        source: text(dice),
        labels: [(text(dice), text(dice))].into(),
        create_time: time(dice),
        changed: dice.below_u64(2) == 0,
    }
}

fn problem(dice: &mut Chance) -> v1::DefinitionProblem {
    v1::DefinitionProblem {
        is_error: dice.below_u64(2) == 0,
        code: text(dice),
        message: text(dice),
        location: text(dice),
    }
}

fn group(dice: &mut Chance) -> v1::ExecutionGroup {
    let example = random(dice);
    v1::ExecutionGroup {
        example: (dice.below_u64(8) > 0).then_some(example),
        count: figure(dice),
        at_least: dice.below_u64(2) == 0,
    }
}

/// Empty, short, or longer than allowed.
fn cursor(dice: &mut Chance) -> String {
    match dice.below_u64(3) {
        0 => String::new(),
        _ => text(dice),
    }
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

fn detail(dice: &mut Chance) -> v1::ErrorDetail {
    v1::ErrorDetail {
        kind: if dice.below_u64(2) == 0 {
            small(dice)
        } else {
            dice.below_u64(15) as i32
        },
        reason: [
            "",
            "SLOW_DOWN",
            "ALREADY_FINISHED",
            "PROVIDER_ANSWER_TOO_LARGE",
            "not a word",
        ][dice.below_u64(5) as usize]
            .to_owned(),
        hint: text(dice),
        native_code: text(dice),
        retry_after: span(dice),
        suggestion: text(dice),
        component: text(dice),
        metadata: [(text(dice), text(dice))].into(),
        engine_answered: (dice.below_u64(2) == 0).then_some(true),
        message: text(dice),
    }
}

/// An error of any code, with details that are right, wrong or no details at all, and other trailers.
fn failure(dice: &mut Chance) -> Status {
    let code = Code::from_i32(1 + dice.below_u64(16) as i32);
    let message = text(dice);
    let value = if dice.below_u64(4) == 0 {
        some(dice, 200, |dice| dice.below_u64(256) as u8)
    } else {
        detail(dice).encode_to_vec()
    };
    let details = match dice.below_u64(4) {
        0 => Vec::new(),
        1 => some(dice, 500, |dice| dice.below_u64(256) as u8),
        _ => {
            let any = prost_types::Any {
                type_url: "type.googleapis.com/stateway.provider.v1.ErrorDetail".to_owned(),
                value,
            };
            let status = RpcStatus {
                code: small(dice),
                message: text(dice),
                details: vec![any],
            };
            status.encode_to_vec()
        }
    };
    let mut trailers = MetadataMap::new();
    if dice.below_u64(3) == 0 {
        let long = "t".repeat(dice.below_u64(12_000) as usize);
        trailers.insert("x-trailer", long.parse().expect("ASCII"));
        let bytes = some(dice, 300, |dice| dice.below_u64(256) as u8);
        trailers.insert_bin("x-trailer-bin", MetadataValue::from_bytes(&bytes));
    }
    Status::with_details_and_metadata(code, message, details.into(), trailers)
}

fn item(dice: &mut Chance) -> Item {
    match dice.below_u64(5) {
        0 => Item::Gone(text(dice)),
        1 => Item::InSync(v1::InSync {}),
        2 => Item::Heartbeat(v1::Heartbeat {}),
        _ => Item::Seen(random(dice)),
    }
}

fn garbled(dice: &mut Chance) -> v1::DescribeResponse {
    let mut good = description();
    good.capabilities = stateway_wire::capability_names(stateway_wire::CAPABILITIES);
    // A refused description ends all calls for a while, so it is rare.
    match dice.below_u64(250) {
        0 => good.state_table = text(dice),
        1 => {
            let at = dice.below_u64(good.state_table.len() as u64) as usize;
            let at = good.state_table.floor_char_boundary(at);
            good.state_table.truncate(at);
        }
        2 => good.capabilities = vec![text(dice); dice.below_u64(400) as usize],
        3 => good.min_contract_version = small(dice),
        4 => good.instance_id = text(dice),
        5 => good.name = text(dice),
        6 => good.version = text(dice),
        7 => good.start_time = time(dice),
        8..20 => {
            let off = dice.below_u64(good.capabilities.len() as u64) as usize;
            good.capabilities.remove(off);
        }
        _ => {}
    }
    good
}

/// Counts panics of any thread, except those in the code of tests.
fn count_panics() -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let before = panic::take_hook();
    let counted = Arc::clone(&count);
    panic::set_hook(Box::new(move |info| {
        // Other tests of this binary may panic on purpose, in their own code.
        let place = info.location().map(|at| at.file().to_owned());
        let place = place.unwrap_or_default();
        if !place.starts_with("tests/") && !place.contains("/tests/") {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        before(info);
    }));
    count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_answers_at_random_panics_nothing() {
    let panics = count_panics();
    let (socket, bad) = (Socket::new(), Bad::new());
    let mut process = Some(serving(&socket.path(), bad.routes()));
    let mut gateway = TestGateway::new();
    // Random errors are often outages. An open breaker would keep most calls from the provider.
    gateway.settings.default_upstream.breaker_failures = u32::MAX;
    // The executions of a provider without watches are polled: lists and ObserveExecutions.
    let (polled_socket, polled) = (Socket::new(), Bad::new());
    polled.change(|script| script.description.capabilities = vec!["list".to_owned()]);
    let _polled_process = serving(&polled_socket.path(), polled.routes());
    let gateway = gateway
        .with("far", "remote", remote(&socket))
        .with("polled", "remote", remote(&polled_socket))
        .with_memory("good", &crate::support::clock())
        .start()
        .await;
    let mut dice = Chance::new(seed());
    let (end, mut rounds) = (Instant::now() + budget(), 0_u64);
    let (mut watching, mut polling) = (None, None);
    while Instant::now() < end || rounds < LEAST_ROUNDS {
        rounds += 1;
        let (described, seen) = (garbled(&mut dice), random(&mut dice));
        let items = some(&mut dice, 6, item);
        let dice = &mut dice;
        polled.change(|script| {
            script.observation = random(dice);
            script.list = Some(v1::ListExecutionsResponse {
                observations: some(dice, 4, random),
                next_cursor: String::new(),
            });
            script.failure = (dice.below_u64(8) == 0).then(|| failure(dice));
        });
        if rounds % 4 == 0 {
            let request = api::WatchExecutionsRequest {
                names: vec!["providers/polled/executions/a".into()],
                ..api::WatchExecutionsRequest::default()
            };
            let opened = Watching::open(&gateway, request);
            let opened = tokio::time::timeout(PATIENCE, opened).await;
            polling = opened.expect("every call ends").ok();
        }
        let list = v1::ListExecutionsResponse {
            observations: some(dice, 4, random),
            next_cursor: cursor(dice),
        };
        bad.change(|script| {
            script.description = described;
            script.observation = seen;
            script.watch = items;
            script.list = (dice.below_u64(10) > 0).then_some(list);
            script.counts.groups = some(dice, 4, group);
            script.events.events = some(dice, 6, event);
            script.events.next_cursor = cursor(dice);
            script.definitions.definitions = some(dice, 6, definition);
            script.definitions.next_cursor = cursor(dice);
            script.definition = definition(dice);
            script.problems.problems = some(dice, 6, problem);
            script.health.detail = text(dice);
            script.failure = (dice.below_u64(4) == 0).then(|| failure(dice));
        });
        if dice.below_u64(20) == 0 {
            drop(process.take());
            if dice.below_u64(2) == 0 {
                garbage(&socket, dice);
            }
            process = Some(serving(&socket.path(), bad.routes()));
        }
        ask(&gateway, dice, rounds).await;
        if dice.below_u64(10) == 0 {
            let request = api::WatchExecutionsRequest {
                parent: "providers/-".into(),
                ..api::WatchExecutionsRequest::default()
            };
            watching = Watching::open(&gateway, request).await.ok();
        }
        let good = get(&gateway, "providers/good/executions/none");
        let good = tokio::time::timeout(PATIENCE, good).await.expect("in time");
        assert_eq!(good.unwrap_err().code(), Code::NotFound);
    }
    drop((watching, polling));
    assert_eq!(panics.load(Ordering::Relaxed), 0);
    let mut called = bad.called();
    let observed = polled.called().remove("observe_executions");
    called.insert("observe_executions", observed.unwrap_or_default());
    println!(
        "{rounds} rounds with seed {}; calls that arrived: {called:?}",
        seed()
    );
    // A fuzz test whose calls are refused before they are sent tests nothing.
    for method in METHODS {
        let arrived = called.get(method).copied().unwrap_or_default();
        assert!(
            arrived > rounds / 500,
            "{method}: {arrived} calls in {rounds} rounds"
        );
    }
}

/// Every method whose answers are random.
const METHODS: [&str; 20] = [
    "describe",
    "check_health",
    "start_execution",
    "get_execution",
    "observe_executions",
    "list_executions",
    "count_executions",
    "list_events",
    "watch_executions",
    "signal_execution",
    "cancel_execution",
    "pause_execution",
    "resume_execution",
    "retry_now",
    "retry_from",
    "purge_execution",
    "list_definitions",
    "get_definition",
    "apply_definition",
    "validate_definition",
];

/// The rounds of a short run: each kind of call several times.
const LEAST_ROUNDS: u64 = 8 * KINDS;
/// The kinds of calls that `ask` makes, one after the other.
const KINDS: u64 = 17;

async fn ask(gateway: &crate::support::Running, dice: &mut Chance, round: u64) {
    let name = "providers/far/executions/a".to_owned();
    let mut client = gateway.executions().await;
    let mut definitions = DefinitionsClient::new(gateway.channel().await);
    let parent = "providers/far".to_owned();
    let asked = async {
        match round % KINDS {
            0 => drop(get(gateway, &name).await),
            1 => {
                let mut request = api::ListExecutionsRequest {
                    parent,
                    page_token: if dice.below_u64(8) == 0 {
                        text(dice)
                    } else {
                        String::new()
                    },
                    ..api::ListExecutionsRequest::default()
                };
                // The tokens of the gateway contain the cursors of the provider.
                for _ in 0..3 {
                    let Ok(page) = client.list_executions(request.clone()).await else {
                        break;
                    };
                    request.page_token = page.into_inner().next_page_token;
                    if request.page_token.is_empty() {
                        break;
                    }
                }
            }
            2 => {
                let request = api::ExplainExecutionRequest { name };
                drop(client.explain_execution(request).await);
            }
            3 => {
                let request = api::StartExecutionRequest {
                    parent,
                    definition: "providers/far/definitions/script".into(),
                    ..api::StartExecutionRequest::default()
                };
                drop(client.start_execution(request).await);
            }
            4 => {
                let request = api::GetProviderRequest { name: parent };
                let shown = gateway.providers().await.get_provider(request).await;
                assert!(shown.is_ok(), "{shown:?}");
            }
            5 => {
                let mut request = api::ListEventsRequest {
                    parent: name,
                    order_by: ["", "sequence desc"][dice.below_u64(2) as usize].to_owned(),
                    page_token: if dice.below_u64(8) == 0 {
                        text(dice)
                    } else {
                        String::new()
                    },
                    ..api::ListEventsRequest::default()
                };
                for _ in 0..3 {
                    let Ok(page) = client.list_events(request.clone()).await else {
                        break;
                    };
                    request.page_token = page.into_inner().next_page_token;
                    if request.page_token.is_empty() {
                        break;
                    }
                }
            }
            6 => {
                let request = api::CountExecutionsRequest { parent };
                drop(client.count_executions(request).await);
            }
            7 => {
                let request = api::SignalExecutionRequest {
                    name,
                    signal: "go".into(),
                    ..api::SignalExecutionRequest::default()
                };
                drop(client.signal_execution(request).await);
            }
            8 => {
                let request = api::CancelExecutionRequest {
                    name,
                    mode: dice.below_u64(3) as i32,
                    ..api::CancelExecutionRequest::default()
                };
                drop(client.cancel_execution(request).await);
            }
            9 => {
                let request = api::PauseExecutionRequest {
                    name,
                    ..api::PauseExecutionRequest::default()
                };
                drop(client.pause_execution(request).await);
            }
            10 => {
                let request = api::ResumeExecutionRequest {
                    name,
                    ..api::ResumeExecutionRequest::default()
                };
                drop(client.resume_execution(request).await);
            }
            11 => {
                let request = api::RetryNowRequest {
                    name,
                    ..api::RetryNowRequest::default()
                };
                drop(client.retry_now(request).await);
            }
            12 => {
                let request = api::RetryFromRequest {
                    name,
                    ..api::RetryFromRequest::default()
                };
                drop(client.retry_from(request).await);
            }
            13 => {
                let request = api::PurgeExecutionRequest {
                    name,
                    ..api::PurgeExecutionRequest::default()
                };
                drop(client.purge_execution(request).await);
            }
            14 => {
                let mut request = api::ListDefinitionsRequest {
                    parent,
                    ..api::ListDefinitionsRequest::default()
                };
                for _ in 0..3 {
                    let Ok(page) = definitions.list_definitions(request.clone()).await else {
                        break;
                    };
                    request.page_token = page.into_inner().next_page_token;
                    if request.page_token.is_empty() {
                        break;
                    }
                }
            }
            15 => {
                let request = api::GetDefinitionRequest {
                    name: "providers/far/definitions/a".into(),
                };
                drop(definitions.get_definition(request).await);
            }
            _ => {
                let source = "the engine's own language".to_owned();
                let request = api::ApplyDefinitionRequest {
                    source: source.clone(),
                    definition_id: "a".into(),
                    validate_only: dice.below_u64(4) == 0,
                    parent: parent.clone(),
                    ..api::ApplyDefinitionRequest::default()
                };
                drop(definitions.apply_definition(request).await);
                let request = api::ValidateDefinitionRequest {
                    source,
                    source_name: "a".into(),
                    parent,
                };
                drop(definitions.validate_definition(request).await);
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("every call ends");
}

/// Something that does not speak HTTP/2 at all takes the socket for one connection.
fn garbage(socket: &Socket, dice: &mut Chance) {
    std::fs::remove_file(socket.path()).ok();
    let Ok(listener) = UnixListener::bind(socket.path()) else {
        return;
    };
    let bytes: Vec<u8> = (0..dice.below_u64(2_000))
        .map(|_| dice.below_u64(256) as u8)
        .collect();
    listener.set_nonblocking(true).ok();
    let until = Instant::now() + Duration::from_millis(80);
    while Instant::now() < until {
        if let Ok((mut stream, _)) = listener.accept() {
            stream.write_all(&bytes).ok();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
