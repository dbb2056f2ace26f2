//! Silent and idle connections are closed; quiet ones with an open call are not.

use std::time::Duration;

use stateway_client::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wire::{PATIENCE, RawClient};
use crate::support::{Puppet, Running, TestGateway};

const HANDSHAKE: Duration = Duration::from_millis(300);
const IDLE: Duration = Duration::from_millis(800);

async fn gateway() -> Running {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.handshake_timeout = HANDSHAKE;
    gateway.settings.idle_timeout = IDLE;
    gateway.settings.watch.heartbeat = Duration::from_secs(60);
    gateway.start().await
}

/// Whether the other end closes the connection within this time.
async fn is_closed_within(stream: &mut TcpStream, time: Duration) -> bool {
    let mut buffer = [0; 1_024];
    let reading = async { while let Ok(1..) = stream.read(&mut buffer).await {} };
    tokio::time::timeout(time, reading).await.is_ok()
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let gateway = gateway().await;
    for said in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut silent = TcpStream::connect(gateway.address).await.unwrap();
        silent.write_all(said).await.unwrap();
        assert!(!is_closed_within(&mut silent, HANDSHAKE / 2).await);
        // It has two more seconds to read that it is being closed.
        assert!(is_closed_within(&mut silent, PATIENCE).await, "{said:?}");
    }
}

#[tokio::test]
async fn an_http_2_connection_without_calls_is_closed() {
    let gateway = gateway().await;
    let mut idle = RawClient::connect(gateway.address).await;
    assert!(!idle.is_closed_within(IDLE / 2).await);
    assert!(idle.is_closed_within(PATIENCE).await);
}

#[tokio::test]
async fn a_client_whose_connection_was_closed_connects_again_by_itself() {
    let gateway = gateway().await;
    let mut client = gateway.executions().await;
    let get = || v1::GetExecutionRequest {
        name: "providers/p/executions/x".into(),
        view: 0,
    };
    for _ in 0..3 {
        client.get_execution(get()).await.expect("an answer");
        tokio::time::sleep(IDLE * 2).await;
    }
}

#[tokio::test]
async fn a_quiet_watch_and_a_quiet_wait_outlive_the_idle_time() {
    let gateway = gateway().await;
    let mut client = gateway.executions().await;
    let request = v1::WatchExecutionsRequest {
        names: vec!["providers/p/executions/x".into()],
        ..v1::WatchExecutionsRequest::default()
    };
    let mut watch = client.watch_executions(request).await.unwrap().into_inner();
    // What is there, and the bookmark after it.
    for _ in 0..2 {
        watch.message().await.unwrap().expect("a message");
    }
    let mut other = gateway.executions().await;
    let mut wait = tonic::Request::new(v1::WaitExecutionRequest {
        name: "providers/p/executions/x".into(),
        ..v1::WaitExecutionRequest::default()
    });
    wait.set_timeout(IDLE * 4);
    let waited = other.wait_execution(wait).await.expect("an answer");
    assert!(!waited.into_inner().reached);
    let next = tokio::time::timeout(Duration::from_millis(50), watch.message()).await;
    assert!(next.is_err(), "the watch is still open: {next:?}");
}
