//! Providers that answer at random, for a bounded time: no panic, and the gateway serves everything else.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use prost_types::{Duration as Span, Timestamp};
use stateway_client::v1 as api;
use stateway_wire::v1;
use stateway_wire::v1::watch_executions_response::Item;
use tonic::Code;

use super::bad::{Bad, description, observation};
use super::kills::Dice;
use super::process::{Socket, remote, serving};
use super::{PATIENCE, get};
use crate::support::{TestGateway, Watching};

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

fn text(dice: &mut Dice) -> String {
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
    match dice.roll(12) {
        11 => "x".repeat(dice.roll(5_000) as usize),
        at => texts[at as usize].to_owned(),
    }
}

fn figure(dice: &mut Dice) -> i64 {
    [0, 1, -1, i64::MAX, i64::MIN, 1_000_000_000, 7][dice.roll(7) as usize]
}

fn small(dice: &mut Dice) -> i32 {
    [0, 1, -1, i32::MAX, i32::MIN, 99, 3][dice.roll(7) as usize]
}

fn time(dice: &mut Dice) -> Option<Timestamp> {
    let (seconds, nanos) = (figure(dice), small(dice));
    (dice.roll(2) == 0).then_some(Timestamp { seconds, nanos })
}

fn span(dice: &mut Dice) -> Option<Span> {
    let (seconds, nanos) = (figure(dice), small(dice));
    (dice.roll(2) == 0).then_some(Span { seconds, nanos })
}

fn native(dice: &mut Dice) -> Option<v1::NativeState> {
    let state = text(dice);
    let qualifiers = (0..dice.roll(3))
        .map(|_| (text(dice), text(dice)))
        .collect();
    (dice.roll(8) > 0).then_some(v1::NativeState { state, qualifiers })
}

fn error(dice: &mut Dice) -> Option<v1::ExecutionError> {
    let error = v1::ExecutionError {
        step: text(dice),
        message: text(dice),
        native_code: text(dice),
        category: small(dice),
        attempt: small(dice),
        occur_time: time(dice),
    };
    (dice.roll(2) == 0).then_some(error)
}

fn retry(dice: &mut Dice) -> Option<v1::RetryEvidence> {
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
    (dice.roll(2) == 0).then_some(retry)
}

fn wait(dice: &mut Dice) -> v1::Wait {
    v1::Wait {
        kind: small(dice),
        name: text(dice),
        start_time: time(dice),
        expire_time: time(dice),
        detail: text(dice),
        blocker: small(dice),
    }
}

fn step(dice: &mut Dice) -> v1::StepObservation {
    v1::StepObservation {
        name: text(dice),
        native_state: native(dice),
        retry: retry(dice),
        waits: (0..dice.roll(3)).map(|_| wait(dice)).collect(),
        last_error: error(dice),
        start_time: time(dice),
        end_time: time(dice),
        progress: Some(v1::Progress {
            fraction: [f64::NAN, f64::INFINITY, 0.5][dice.roll(3) as usize],
            detail: text(dice),
        }),
        usage: None,
        child: text(dice),
        blocked_by: vec![text(dice)],
        notes: vec![text(dice)],
    }
}

fn random(dice: &mut Dice) -> v1::Observation {
    if dice.roll(4) == 0 {
        return observation("a");
    }
    v1::Observation {
        id: if dice.roll(3) > 0 {
            "a".to_owned()
        } else {
            text(dice)
        },
        version: (dice.roll(2) == 0).then(|| v1::Version {
            parts: (0..dice.roll(5)).map(|_| dice.roll(u64::MAX)).collect(),
        }),
        definition: text(dice),
        revision: text(dice),
        native_state: native(dice),
        retry: retry(dice),
        waits: (0..dice.roll(4)).map(|_| wait(dice)).collect(),
        steps: (0..dice.roll(4)).map(|_| step(dice)).collect(),
        steps_are_detail: dice.roll(2) == 0,
        is_partial: dice.roll(2) == 0,
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

fn item(dice: &mut Dice) -> Item {
    match dice.roll(5) {
        0 => Item::Gone(text(dice)),
        1 => Item::InSync(v1::InSync {}),
        2 => Item::Heartbeat(v1::Heartbeat {}),
        _ => Item::Seen(random(dice)),
    }
}

fn garbled(dice: &mut Dice) -> v1::DescribeResponse {
    let mut good = description();
    match dice.roll(8) {
        0 => good.state_table = text(dice),
        1 => {
            let at = dice.roll(good.state_table.len() as u64) as usize;
            let at = good.state_table.floor_char_boundary(at);
            good.state_table.truncate(at);
        }
        2 => good.capabilities = vec![text(dice); dice.roll(400) as usize],
        3 => good.min_contract_version = small(dice),
        4 => good.instance_id = text(dice),
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
    let gateway = TestGateway::new()
        .with("far", "remote", remote(&socket))
        .with_memory("good", &crate::support::clock())
        .start()
        .await;
    let mut dice = Dice(seed());
    let (end, mut rounds) = (Instant::now() + budget(), 0_u64);
    let mut watching = None;
    while Instant::now() < end {
        rounds += 1;
        let (described, seen) = (garbled(&mut dice), random(&mut dice));
        let items: Vec<_> = (0..dice.roll(6)).map(|_| item(&mut dice)).collect();
        bad.change(|script| {
            script.description = described;
            script.observation = seen;
            script.watch = items;
        });
        if dice.roll(20) == 0 {
            drop(process.take());
            if dice.roll(2) == 0 {
                garbage(&socket, &mut dice);
            }
            process = Some(serving(&socket.path(), bad.routes()));
        }
        ask(&gateway, &mut dice).await;
        if dice.roll(10) == 0 {
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
    drop(watching);
    assert_eq!(panics.load(Ordering::Relaxed), 0);
    println!("{rounds} rounds with seed {}", seed());
}

async fn ask(gateway: &crate::support::Running, dice: &mut Dice) {
    let name = "providers/far/executions/a".to_owned();
    let mut client = gateway.executions().await;
    let asked = async {
        match dice.roll(6) {
            0 => drop(get(gateway, &name).await),
            1 => {
                let request = api::ListExecutionsRequest {
                    parent: "providers/far".into(),
                    ..api::ListExecutionsRequest::default()
                };
                drop(client.list_executions(request).await);
            }
            2 => {
                let request = api::ExplainExecutionRequest { name };
                drop(client.explain_execution(request).await);
            }
            3 => {
                let request = api::StartExecutionRequest {
                    parent: "providers/far".into(),
                    definition: "providers/far/definitions/script".into(),
                    ..api::StartExecutionRequest::default()
                };
                drop(client.start_execution(request).await);
            }
            4 => {
                let request = api::GetProviderRequest {
                    name: "providers/far".into(),
                };
                let shown = gateway.providers().await.get_provider(request).await;
                assert!(shown.is_ok(), "{shown:?}");
            }
            _ => {
                let request = api::ListEventsRequest {
                    parent: name,
                    ..api::ListEventsRequest::default()
                };
                drop(client.list_events(request).await);
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .expect("every call ends");
}

/// Something that does not speak HTTP/2 at all takes the socket for one connection.
fn garbage(socket: &Socket, dice: &mut Dice) {
    std::fs::remove_file(socket.path()).ok();
    let Ok(listener) = UnixListener::bind(socket.path()) else {
        return;
    };
    let bytes: Vec<u8> = (0..dice.roll(2_000))
        .map(|_| dice.roll(256) as u8)
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
