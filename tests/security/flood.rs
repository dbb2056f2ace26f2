//! Control frames without number are cut off, and everyone else is served meanwhile. Each flood is
//! bounded in frames and in time.

use std::time::{Duration, Instant};

use stateway_client::v1;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::wire::{RawClient, frame};
use crate::support::{BuiltInRig, Puppet, Running, TestGateway, json_of};

/// The most frames of a flood.
const MOST_FRAMES: usize = 500_000;
/// The longest flood.
const LONGEST: Duration = Duration::from_secs(10);
/// How long a call of someone else may take meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

const PRIORITY: u8 = 2;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const UNKNOWN: u8 = 0x42;

async fn gateway() -> Running {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    TestGateway::new().with_puppet("p", &puppet).start().await
}

/// Sends a frame again and again until the connection is closed; how many were sent.
async fn flood(gateway: &Running, one: &[u8]) -> Option<usize> {
    let RawClient { stream } = RawClient::connect(gateway.address).await;
    let (mut read, mut write) = stream.into_split();
    let ended = tokio::spawn(async move {
        // What the gateway answers is read, so that nothing but the flood matters.
        let mut sink = tokio::io::sink();
        let _ = tokio::io::copy(&mut read, &mut sink).await;
    });
    let batch = one.repeat(1_000);
    let begun = Instant::now();
    for batches in 1..=MOST_FRAMES / 1_000 {
        if begun.elapsed() > LONGEST {
            break;
        }
        if write.write_all(&batch).await.is_err() || ended.is_finished() {
            return Some(batches * 1_000);
        }
    }
    let _ = tokio::time::timeout(Duration::from_secs(2), ended)
        .await
        .ok()?;
    Some(MOST_FRAMES)
}

/// Reads an execution until the flood is over; how often.
async fn serve_others(gateway: &Running, flood: impl Future<Output = Option<usize>>) -> usize {
    let mut client = gateway.executions().await;
    let mut answered = 0;
    let others = async {
        loop {
            let request = v1::GetExecutionRequest {
                name: "providers/p/executions/x".into(),
                view: 0,
            };
            let answer = tokio::time::timeout(PATIENCE, client.get_execution(request)).await;
            answer.expect("in time").expect("an answer");
            answered += 1;
        }
    };
    let sent = tokio::select! {
        sent = flood => sent,
        () = others => unreachable!("it does not end"),
    };
    let sent = sent.expect("the connection is closed");
    assert!(sent < MOST_FRAMES, "{sent}");
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_control_frames_is_cut_off_and_others_are_served() {
    let gateway = gateway().await;
    for (name, one) in [
        ("PING", frame(PING, 0, 0, &[7; 8])),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("PRIORITY", frame(PRIORITY, 0, 3, &[0, 0, 0, 0, 16])),
        ("GOAWAY", frame(GOAWAY, 0, 0, &[0; 8])),
        ("an unknown frame", frame(UNKNOWN, 0, 0, &[1, 2, 3])),
    ] {
        serve_others(&gateway, flood(&gateway, &one)).await;
        // A new connection is served right away.
        let mut client = gateway.executions().await;
        let request = v1::GetExecutionRequest {
            name: "providers/p/executions/x".into(),
            view: 0,
        };
        client.get_execution(request).await.expect(name);
    }
}

/// `GET /` in HPACK, without any string.
const REQUEST: [u8; 3] = [0x82, 0x84, 0x86];
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Sends what `part` makes, again and again, until the connection is closed; how many parts were sent.
async fn flood_with(
    gateway: &Running,
    begin: Vec<u8>,
    most: u32,
    mut part: impl FnMut(u32) -> Vec<u8>,
) -> Option<u32> {
    let RawClient { mut stream } = RawClient::connect(gateway.address).await;
    stream.write_all(&begin).await.ok()?;
    let (mut read, mut write) = stream.into_split();
    let ended = tokio::spawn(async move {
        let mut sink = tokio::io::sink();
        let _ = tokio::io::copy(&mut read, &mut sink).await;
    });
    for number in 0..most {
        if write.write_all(&part(number)).await.is_err() || ended.is_finished() {
            return Some(number);
        }
        // The gateway gets its turn, so that the connection ends at the frame that is too much.
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let closed = tokio::time::timeout(Duration::from_secs(5), ended).await;
    closed.is_ok().then_some(most)
}

/// Requests that are opened and reset immediately (CVE-2023-44487), and requests that make the gateway reset
/// them (CVE-2025-8671).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_resets_end_the_connection_and_others_are_served() {
    let gateway = gateway().await;
    let request = |number: u32| {
        let stream = 2 * number + 1;
        (
            stream,
            frame(HEADERS, END_STREAM | END_HEADERS, stream, &REQUEST),
        )
    };
    let cancelled = |number| {
        let (stream, request) = request(number);
        [request, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    };
    let provoked = |number| {
        let (stream, request) = request(number);
        // A window update of nothing is an error of the stream.
        [request, frame(WINDOW_UPDATE, 0, stream, &[0; 4])].concat()
    };
    let mut client = gateway.executions().await;
    for part in [&cancelled as &(dyn Fn(u32) -> Vec<u8> + Sync), &provoked] {
        let sent = flood_with(&gateway, Vec::new(), 100_000, part).await;
        let sent = sent.expect("the connection is closed");
        assert!(sent < 100_000, "{sent}");
        let request = v1::GetExecutionRequest {
            name: "providers/p/executions/x".into(),
            view: 0,
        };
        client
            .get_execution(request)
            .await
            .expect("others are served");
    }
}

/// Headers that never end (CVE-2024-27316): CONTINUATION frames, with content and without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_never_end_close_the_connection() {
    let gateway = gateway().await;
    // A literal header with a value of 1 KiB, and nothing at all.
    let header = [&[0x00, 0x01, b'a', 0x7f, 0x81, 0x07][..], &[b'x'; 1024]].concat();
    for content in [header, Vec::new()] {
        let begin = frame(HEADERS, END_STREAM, 1, &REQUEST);
        let one = frame(CONTINUATION, 0, 1, &content);
        let sent = flood_with(&gateway, begin, 100_000, |_| one.clone()).await;
        let sent = sent.expect("the connection is closed");
        assert!(sent < 100_000, "{sent}");
    }
}

/// A window of 1 KiB means a window update for every half KiB that is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_a_tiny_window_reads_and_sends_as_much_as_it_wants() {
    let rig = BuiltInRig::start().await;
    rig.apply("name: gate\nsteps: [{name: a, signal: go}]")
        .await;
    let input = serde_json::Value::from("x".repeat(500_000));
    for n in 0..10 {
        rig.begin("gate", &format!("e{n}"), "ada", input.clone())
            .await;
    }
    let stream = TcpStream::connect(rig.gateway.address).await.unwrap();
    let (mut send, connection) = h2::client::Builder::new()
        .initial_window_size(1_024)
        .handshake::<_, bytes::Bytes>(stream)
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    for n in 0..40 {
        let name = format!("providers/b/executions/e{}", n % 10);
        let message = [&[0x0a, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
        let request = http::Request::post("http://localhost/stateway.v1.Executions/GetExecution")
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        send = send.ready().await.unwrap();
        let (response, mut body) = send.send_request(request, false).unwrap();
        body.send_data(super::wire::framed(&message).into(), true)
            .unwrap();
        let mut received = response.await.unwrap().into_body();
        let mut whole = 0;
        while let Some(part) = received.data().await {
            let part = part.expect("the connection lives");
            received
                .flow_control()
                .release_capacity(part.len())
                .unwrap();
            whole += part.len();
        }
        assert!(whole > 500_000, "{whole}");
    }
    assert!(!connection.is_finished());
    let kept = rig.get("e3").await;
    assert_eq!(json_of(kept.input.as_ref()), input);
}
