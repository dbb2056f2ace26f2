//! A graceful end: streams are told, calls are answered, and it does not take for ever.

use std::time::{Duration, Instant};

use stateway_client::v1::WaitExecutionRequest;
use stateway_client::v1::watch_executions_response::Kind;
use stateway_provider_api::Verb;
use tonic::Code;

use crate::support::{Puppet, TestGateway, Watching, reason_of};

const ONE: &str = "providers/p/executions/x";

#[tokio::test]
async fn streams_end_with_a_reason_and_waits_with_the_latest_state() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut watching = Watching::on(&gateway, ONE).await;
    watching.expect(Kind::Added).await;
    watching.expect(Kind::Bookmark).await;
    let mut client = gateway.executions().await;
    let waiting = tokio::spawn(async move {
        let request = WaitExecutionRequest {
            name: ONE.into(),
            sub_states: vec![],
        };
        client.wait_execution(request).await
    });
    // The wait shares the watch's topic; give it a moment to be there.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let began = Instant::now();
    gateway.stop();
    let status = watching.next().await.unwrap_err();
    assert_eq!(
        (status.code(), reason_of(&status)),
        (Code::Unavailable, "GATEWAY_DRAINING".into())
    );
    assert!(
        !waiting
            .await
            .unwrap()
            .expect("an answer")
            .into_inner()
            .reached
    );
    drop(watching);
    gateway.stopped().await.expect("a clean end");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_hanging_provider_does_not_keep_it_from_ending() {
    let puppet = Puppet::new();
    puppet.hang(true);
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.drain = Duration::from_millis(200);
    let mut gateway = gateway.start().await;
    let mut client = gateway.executions().await;
    let hanging = tokio::spawn(async move {
        let name = ONE.to_owned();
        client
            .get_execution(stateway_client::v1::GetExecutionRequest { name, view: 0 })
            .await
    });
    puppet
        .until_asked(stateway_provider_api::Verb::Get, 1)
        .await;
    gateway.stop();
    tokio::time::timeout(Duration::from_secs(5), gateway.stopped())
        .await
        .expect("it ends")
        .unwrap();
    assert!(hanging.await.unwrap().is_err());
}

#[tokio::test]
async fn watches_and_reads_of_a_hanging_provider_do_not_delay_the_end() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.drain = Duration::from_secs(20);
    let mut gateway = gateway.start().await;
    let mut one = Watching::on(&gateway, ONE).await;
    one.expect(Kind::Added).await;
    let mut all = Watching::on(&gateway, "providers/-").await;
    all.expect(Kind::Added).await;
    puppet.hang(true);
    let mut client = gateway.executions().await;
    let before = puppet.asked(Verb::Get);
    let reading = tokio::spawn(async move {
        let request = stateway_client::v1::GetExecutionRequest {
            name: ONE.into(),
            view: 0,
        };
        client.get_execution(request).await
    });
    puppet.until_asked(Verb::Get, before + 1).await;
    let began = Instant::now();
    gateway.stop();
    gateway.stopped().await.expect("a clean end");
    let took = began.elapsed();
    // Half of the time that the gateway would wait for the calls.
    assert!(took < Duration::from_secs(10), "the end took {took:?}");
    reading.abort();
}
