//! Deadlines are honoured, passed on, and never longer than one upstream call may take.

use std::time::Duration;

use stateway_client::v1::GetExecutionRequest;
use tonic::{Code, Request};

use crate::support::{Puppet, TestGateway, reason_of};

fn request(timeout: Duration) -> Request<GetExecutionRequest> {
    let name = "providers/p/executions/x".to_owned();
    let mut request = Request::new(GetExecutionRequest { name, view: 0 });
    request.set_timeout(timeout);
    request
}

#[tokio::test]
async fn the_clients_deadline_reaches_the_provider_less_a_margin() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    gateway
        .executions()
        .await
        .get_execution(request(Duration::from_secs(2)))
        .await
        .unwrap();
    let given = puppet.budgets()[0];
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(2)).contains(&given),
        "{given:?}"
    );
}

#[tokio::test]
async fn no_upstream_call_may_take_longer_than_the_operator_allows() {
    let puppet = Puppet::new();
    puppet.hang(true);
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.default_upstream.timeout = Duration::from_millis(100);
    let gateway = gateway.start().await;
    // The deadline of the client is far beyond the time that the test waits.
    let call = async {
        let mut client = gateway.executions().await;
        client
            .get_execution(request(Duration::from_secs(3_000)))
            .await
    };
    let answer = tokio::time::timeout(Duration::from_secs(60), call).await;
    let status = answer.expect("the limit of the operator").unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(reason_of(&status), "PROVIDER_TIMEOUT");
}

#[tokio::test]
async fn a_client_that_gives_up_early_does_not_open_the_breaker_for_others() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let mut gateway = TestGateway::new().with_puppet("p", &puppet);
    gateway.settings.default_upstream.breaker_failures = 2;
    gateway.settings.default_upstream.health_interval = Duration::from_secs(3600);
    let gateway = gateway.start().await;
    puppet.hang(true);
    for _ in 0..5 {
        let early = request(Duration::from_millis(20));
        assert!(
            gateway
                .executions()
                .await
                .get_execution(early)
                .await
                .is_err()
        );
    }
    puppet.hang(false);
    gateway
        .executions()
        .await
        .get_execution(request(Duration::from_secs(5)))
        .await
        .expect("closed");
}
