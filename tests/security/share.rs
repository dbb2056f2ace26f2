//! No caller takes all watches and waits.

use futures::future::join_all;
use stateway_client::v1;
use stateway_client::v1::executions_client::ExecutionsClient;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::support::{Puppet, TestGateway, reason_of};

type Client = ExecutionsClient<Channel>;

async fn watch(client: &mut Client) -> Result<Streaming<v1::WatchExecutionsResponse>, Status> {
    let request = v1::WatchExecutionsRequest {
        names: vec!["providers/p/executions/x".into()],
        ..v1::WatchExecutionsRequest::default()
    };
    Ok(client.watch_executions(request).await?.into_inner())
}

fn wait(seconds: u64) -> tonic::Request<v1::WaitExecutionRequest> {
    let mut request = tonic::Request::new(v1::WaitExecutionRequest {
        name: "providers/p/executions/x".into(),
        ..v1::WaitExecutionRequest::default()
    });
    request.set_timeout(std::time::Duration::from_secs(seconds));
    request
}

#[tokio::test]
async fn a_caller_with_every_watch_it_can_get_keeps_nobody_from_watching_or_waiting() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.watch.max_streams = 20;
    gateway.settings.watch.max_waits = 4;
    let gateway = gateway.start().await;
    let mut greedy = gateway.executions().await;
    let mut open = Vec::new();
    let refused = loop {
        match watch(&mut greedy).await {
            Ok(stream) => open.push(stream),
            Err(status) => break status,
        }
    };
    assert_eq!(open.len(), 10);
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(reason_of(&refused), "TOO_MANY_WATCHES");
    let mut other = gateway.executions().await;
    let theirs = watch(&mut other).await.expect("a watch of someone else");
    other.wait_execution(wait(1)).await.expect("a wait");
    // What is closed is free again.
    open.clear();
    drop(theirs);
    let mut last = Vec::new();
    while let Ok(stream) = watch(&mut greedy).await {
        last.push(stream);
        assert!(last.len() <= 10);
    }
    assert!(last.len() >= 9, "{}", last.len());
}

#[tokio::test]
async fn waits_have_a_limit_of_their_own() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.watch.max_waits = 4;
    let gateway = gateway.start().await;
    let greedy = gateway.executions().await;
    let waits = (0..4).map(|_| {
        let mut client = greedy.clone();
        async move { client.wait_execution(wait(2)).await }
    });
    let mut other = gateway.executions().await;
    let someone_else = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let waited = other.wait_execution(wait(1)).await;
        (waited, watch(&mut other).await)
    };
    let (waits, (theirs, watched)) = tokio::join!(join_all(waits), someone_else);
    theirs.expect("a wait of someone else");
    watched.expect("a watch of someone else");
    let refused: Vec<_> = waits.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    for status in refused {
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(reason_of(&status), "TOO_MANY_WAITS");
    }
}
