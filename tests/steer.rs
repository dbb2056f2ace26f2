//! Signal, cancel, pause, resume, retry now, retry from, purge; and the etag that guards them.

use std::time::Duration;

use stateway_client::v1;
use stateway_client::v1::SubState;
use stateway_client::v1::cancel_execution_request::Mode;
use stateway_client::v1::executions_client::ExecutionsClient;
use stateway_client::v1::watch_executions_response::Kind;
use stateway_model::ExecutionId;
use stateway_provider_api::{Capabilities, NativeState, Observation};
use stateway_provider_memory::Clock;
use tonic::Code;
use tonic::transport::Channel;

use crate::support::{Puppet, Running, TestGateway, Watching, clock, hint_of, reason_of};

async fn started(definition: &str) -> (Running, ExecutionsClient<Channel>, Clock, String) {
    let clock = clock();
    let gateway = TestGateway::new().with_memory("m", &clock).start().await;
    let mut client = gateway.executions().await;
    let request = v1::StartExecutionRequest {
        definition: format!("providers/m/definitions/{definition}"),
        ..Default::default()
    };
    let name = client
        .start_execution(request)
        .await
        .unwrap()
        .into_inner()
        .name;
    (gateway, client, clock, name)
}

async fn get(client: &mut ExecutionsClient<Channel>, name: &str) -> v1::Execution {
    let request = v1::GetExecutionRequest {
        name: name.into(),
        view: 0,
    };
    client
        .get_execution(request)
        .await
        .expect("it is there")
        .into_inner()
}

#[tokio::test]
async fn a_signal_moves_what_waits_for_it() {
    let (_gateway, mut client, clock, name) = started("approval").await;
    clock.advance(Duration::from_secs(1));
    let waiting = get(&mut client, &name).await;
    assert_eq!(waiting.sub_state(), SubState::Waiting);
    assert_eq!(
        (
            waiting.waits[0].kind().label(),
            waiting.waits[0].name.as_str()
        ),
        ("signal", "approve")
    );
    let signal = v1::SignalExecutionRequest {
        name: name.clone(),
        signal: "approve".into(),
        ..Default::default()
    };
    client
        .signal_execution(signal)
        .await
        .expect("it is delivered");
    clock.advance(Duration::from_secs(5));
    assert_eq!(
        get(&mut client, &name).await.sub_state(),
        SubState::Succeeded
    );
}

#[tokio::test]
async fn cancelling_twice_is_cancelling_once_and_the_reason_is_kept() {
    let (_gateway, mut client, clock, name) = started("long").await;
    let cancel = v1::CancelExecutionRequest {
        name: name.clone(),
        ..Default::default()
    };
    client.cancel_execution(cancel.clone()).await.expect("once");
    client.cancel_execution(cancel).await.expect("twice");
    clock.advance(Duration::from_secs(10));
    let ended = get(&mut client, &name).await;
    assert_eq!(
        (ended.sub_state(), ended.reason().label()),
        (SubState::Failed, "CANCELLED")
    );
    let signal = v1::SignalExecutionRequest {
        name,
        signal: "s".into(),
        ..Default::default()
    };
    let status = client.signal_execution(signal).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&status), "ALREADY_FINISHED");
}

#[tokio::test]
async fn killing_is_not_cancelling() {
    let (_gateway, mut client, _, name) = started("long").await;
    let mode = Mode::Kill.into();
    let kill = v1::CancelExecutionRequest {
        name: name.clone(),
        mode,
        ..Default::default()
    };
    let killed = client.cancel_execution(kill).await.unwrap().into_inner();
    assert_eq!(
        (killed.sub_state(), killed.reason().label()),
        (SubState::Failed, "KILLED")
    );
}

#[tokio::test]
async fn paused_by_hand_is_waiting_until_resumed() {
    let (_gateway, mut client, _, name) = started("long").await;
    let pause = v1::PauseExecutionRequest {
        name: name.clone(),
        ..Default::default()
    };
    let paused = client.pause_execution(pause).await.unwrap().into_inner();
    assert_eq!(
        (paused.sub_state(), paused.reason().label()),
        (SubState::Waiting, "PAUSED")
    );
    let resume = v1::ResumeExecutionRequest {
        name: name.clone(),
        ..Default::default()
    };
    let resumed = client
        .resume_execution(resume.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(resumed.sub_state(), SubState::Running);
    let resume = v1::ResumeExecutionRequest {
        request_id: "another".into(),
        ..resume
    };
    let status = client.resume_execution(resume).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn retry_now_ends_a_back_off() {
    let (_gateway, mut client, clock, name) = started("flaky").await;
    clock.advance(Duration::from_millis(1_200));
    assert_eq!(
        get(&mut client, &name).await.sub_state(),
        SubState::BackingOff
    );
    let retry = v1::RetryNowRequest {
        name: name.clone(),
        ..Default::default()
    };
    let retried = client.retry_now(retry).await.unwrap().into_inner();
    assert_eq!(retried.sub_state(), SubState::Running);
    assert_eq!(retried.retry.unwrap().attempt, 2);
}

#[tokio::test]
async fn retry_from_does_the_work_again() {
    let (_gateway, mut client, clock, name) = started("hello").await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        get(&mut client, &name).await.sub_state(),
        SubState::Succeeded
    );
    let again = v1::RetryFromRequest {
        name,
        origin: Some(v1::retry_from_request::Origin::Step("greet".into())),
        ..Default::default()
    };
    let again = client.retry_from(again).await.unwrap().into_inner();
    assert_eq!(again.sub_state(), SubState::Running);
}

#[tokio::test]
async fn what_has_finished_can_be_purged_and_its_watchers_are_told() {
    let (gateway, mut client, clock, name) = started("hello").await;
    let purge = v1::PurgeExecutionRequest {
        name: name.clone(),
        ..Default::default()
    };
    let open = client.purge_execution(purge.clone()).await.unwrap_err();
    assert_eq!(
        (open.code(), reason_of(&open)),
        (Code::FailedPrecondition, "NOT_FINISHED".into())
    );
    clock.advance(Duration::from_secs(1));
    let mut all = Watching::on(&gateway, "providers/m").await;
    let mut one = Watching::on(&gateway, &name).await;
    for watching in [&mut all, &mut one] {
        watching.expect(Kind::Added).await;
        watching.expect(Kind::Bookmark).await;
    }
    client.purge_execution(purge.clone()).await.unwrap();
    for watching in [&mut all, &mut one] {
        watching.expect(Kind::Removed).await;
    }
    let get = v1::GetExecutionRequest { name, view: 0 };
    let gone = client.get_execution(get).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    let twice = client.purge_execution(purge).await.unwrap_err();
    assert_eq!(twice.code(), Code::NotFound);
}

#[tokio::test]
async fn a_provider_that_cannot_purge_says_so() {
    let can = Capabilities {
        purge: false,
        ..Capabilities::ALL
    };
    let puppet = Puppet::with_capabilities(Capabilities {
        watch_one: false,
        watch_end: false,
        watch_all: false,
        ..can
    });
    puppet.show("x", "SUCCEEDED");
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let purge = v1::PurgeExecutionRequest {
        name: "providers/p/executions/x".into(),
        ..Default::default()
    };
    let mut client = gateway.executions().await;
    let refused = client.purge_execution(purge).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason_of(&refused)),
        (Code::Unimplemented, "CAPABILITY_NOT_SUPPORTED".into())
    );
}

#[tokio::test]
async fn a_write_with_a_stale_etag_is_aborted_and_does_nothing() {
    let (_gateway, mut client, clock, name) = started("flaky").await;
    let stale = get(&mut client, &name).await.etag;
    clock.advance(Duration::from_millis(1_200));
    let cancel = v1::CancelExecutionRequest {
        name: name.clone(),
        etag: stale,
        ..Default::default()
    };
    let status = client.cancel_execution(cancel.clone()).await.unwrap_err();
    assert_eq!(
        (status.code(), reason_of(&status)),
        (Code::Aborted, "ETAG_MISMATCH".into())
    );
    let current = get(&mut client, &name).await;
    assert_eq!(current.sub_state(), SubState::BackingOff);
    let cancel = v1::CancelExecutionRequest {
        etag: current.etag,
        ..cancel
    };
    client
        .cancel_execution(cancel)
        .await
        .expect("the etag is current");
}

#[tokio::test]
async fn an_etag_cannot_be_compared_with_a_partial_read() {
    let puppet = Puppet::new();
    let id = ExecutionId::new("x").expect("an id");
    let whole = Observation::new(id, NativeState::new("RUNNING"));
    puppet.show_observation(whole.clone());
    let gateway = TestGateway::new().with_puppet("p", &puppet).start().await;
    let mut client = gateway.executions().await;
    let name = "providers/p/executions/x";
    let etag = get(&mut client, name).await.etag;
    puppet.show_observation(Observation {
        is_partial: true,
        ..whole
    });
    assert_eq!(get(&mut client, name).await.etag, "");
    let cancel = v1::CancelExecutionRequest {
        name: name.into(),
        etag,
        ..Default::default()
    };
    let status = client.cancel_execution(cancel).await.unwrap_err();
    assert_eq!(
        (status.code(), reason_of(&status)),
        (Code::Aborted, "ETAG_NOT_AVAILABLE".into())
    );
    assert!(hint_of(&status).contains("without an etag"), "{status:?}");
}

#[tokio::test]
async fn the_history_is_told_in_order_over_pages() {
    let (_gateway, mut client, clock, name) = started("flaky").await;
    clock.advance(Duration::from_secs(60));
    let mut request = v1::ListEventsRequest {
        parent: name,
        page_size: 2,
        ..Default::default()
    };
    let mut sequences = Vec::new();
    loop {
        let page = client
            .list_events(request.clone())
            .await
            .unwrap()
            .into_inner();
        assert!(page.events.len() <= 2);
        sequences.extend(page.events.iter().map(|event| event.sequence));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert!(sequences.len() > 4, "{sequences:?}");
    assert!(sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
}
