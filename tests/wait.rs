//! WaitExecution blocks server-side until a sub-state or the deadline.

use std::time::{Duration, Instant};

use stateway_client::v1::{SubState, WaitExecutionRequest};
use stateway_provider_api::Verb;
use tonic::{Code, Request};

use crate::support::{Puppet, TestGateway};

fn wait_for(sub_states: &[SubState], timeout: Duration) -> Request<WaitExecutionRequest> {
    let mut request = Request::new(WaitExecutionRequest {
        name: "providers/p/executions/x".into(),
        sub_states: sub_states.iter().map(|state| (*state).into()).collect(),
    });
    request.set_timeout(timeout);
    request
}

#[tokio::test]
async fn it_ends_when_the_execution_finishes() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut client = gateway.executions().await;
    let waiting = tokio::spawn(async move {
        client
            .wait_execution(wait_for(&[], Duration::from_secs(20)))
            .await
    });
    puppet.until_asked(Verb::Get, 1).await;
    puppet.show("x", "TIMED_OUT");
    let answer = waiting.await.unwrap().unwrap().into_inner();
    let execution = answer.execution.expect("an execution");
    assert!(answer.reached);
    assert_eq!(
        (execution.sub_state(), execution.reason().label()),
        (SubState::Failed, "TIMED_OUT")
    );
}

#[tokio::test]
async fn it_ends_at_once_when_the_wanted_sub_state_is_there_or_can_never_come() {
    let puppet = Puppet::new();
    puppet.show("x", "PENDING_REDRIVE");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut client = gateway.executions().await;
    let wanted = wait_for(&[SubState::Error], Duration::from_secs(20));
    assert!(
        client
            .wait_execution(wanted)
            .await
            .unwrap()
            .into_inner()
            .reached
    );
    puppet.show("x", "SUCCEEDED");
    let never = wait_for(&[SubState::Waiting], Duration::from_secs(20));
    let answer = client.wait_execution(never).await.unwrap().into_inner();
    assert!(answer.reached, "a finished execution always ends the wait");
    assert_eq!(answer.execution.unwrap().sub_state(), SubState::Succeeded);
}

#[tokio::test]
async fn the_deadline_answers_with_the_latest_state_instead_of_an_error() {
    let puppet = Puppet::new();
    puppet.show("x", "RUNNING");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let began = Instant::now();
    let answer = gateway
        .executions()
        .await
        .wait_execution(wait_for(&[], Duration::from_millis(300)))
        .await
        .expect("no error")
        .into_inner();
    assert!(!answer.reached);
    assert_eq!(answer.execution.unwrap().sub_state(), SubState::Running);
    assert!(
        began.elapsed() >= Duration::from_millis(150),
        "it waited for the deadline"
    );
}

#[tokio::test]
async fn waiting_for_what_does_not_exist_is_not_found() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let request = wait_for(&[], Duration::from_secs(5));
    let status = gateway
        .executions()
        .await
        .wait_execution(request)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}
