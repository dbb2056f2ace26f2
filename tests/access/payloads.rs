//! Without the permission for payloads, nothing shows one.

use stateway_client::v1;
use stateway_client::v1::read_payload_request::Source;
use tonic::Code;

use super::rig::{AccessRig, RELEASE, name};
use crate::support::reason_of;

async fn rig() -> AccessRig {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("a1", "acme")).await.unwrap();
    rig
}

#[tokio::test]
async fn an_execution_its_steps_and_its_events_are_shown_without_payloads() {
    let rig = rig().await;
    let seen = rig.get("vic", "a1").await.unwrap();
    assert!(seen.payloads_redacted && seen.input.is_none(), "{seen:?}");
    let whole = rig.get("ada", "a1").await.unwrap();
    assert!(!whole.payloads_redacted && whole.input.is_some());
    assert_eq!(seen.etag, whole.etag);

    let mut client = rig.executions().await;
    let step = v1::GetStepRequest {
        name: format!("{}/steps/sign-off", name("a1")),
    };
    let detail = client
        .get_step(rig.by("vic", step.clone()))
        .await
        .unwrap()
        .into_inner();
    assert!(
        detail.payloads_redacted && detail.input.is_none(),
        "{detail:?}"
    );
    let detail = client
        .get_step(rig.by("ada", step))
        .await
        .unwrap()
        .into_inner();
    assert!(!detail.payloads_redacted && detail.input.is_some());

    let events = v1::ListEventsRequest {
        parent: name("a1"),
        view: v1::ExecutionView::Full.into(),
        ..v1::ListEventsRequest::default()
    };
    for order_by in ["", "sequence desc"] {
        let events = v1::ListEventsRequest {
            order_by: order_by.into(),
            ..events.clone()
        };
        let page = client
            .list_events(rig.by("vic", events.clone()))
            .await
            .unwrap()
            .into_inner();
        assert!(page.payloads_redacted && !page.events.is_empty());
        assert!(page.events.iter().all(|event| event.payload.is_none()));
        assert!(!format!("{page:?}").contains("s3cret"));
        let page = client
            .list_events(rig.by("ada", events))
            .await
            .unwrap()
            .into_inner();
        assert!(!page.payloads_redacted && page.events.iter().any(|it| it.payload.is_some()));
    }
}

#[tokio::test]
async fn payloads_exports_and_replays_are_denied_or_redacted() {
    let rig = rig().await;
    let payload = v1::ReadPayloadRequest {
        name: name("a1"),
        source: Source::Input.into(),
    };
    let mut client = rig.executions().await;
    let status = client
        .read_payload(rig.by("vic", payload.clone()))
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), reason_of(&status)),
        (Code::PermissionDenied, "ACCESS_DENIED".into())
    );
    client.read_payload(rig.by("ada", payload)).await.unwrap();

    let replay = v1::ReplayExecutionRequest {
        name: name("a1"),
        ..v1::ReplayExecutionRequest::default()
    };
    let mut recovery = rig.recovery().await;
    let status = recovery
        .replay_execution(rig.by("vic", replay.clone()))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    recovery
        .replay_execution(rig.by("ada", replay))
        .await
        .unwrap();

    for (who, has_payload) in [("vic", false), ("ada", true)] {
        let export = v1::ExportHistoryRequest {
            name: name("a1"),
            redact: false,
        };
        let mut file = Vec::new();
        let stream = recovery.export_history(rig.by(who, export)).await;
        let mut stream = stream.unwrap().into_inner();
        while let Some(piece) = stream.message().await.unwrap() {
            file.extend_from_slice(&piece.data);
        }
        let text = String::from_utf8_lossy(&file);
        assert_eq!(text.contains("s3cret"), has_payload, "{who}: {text}");
    }
}

#[tokio::test]
async fn an_approval_is_shown_without_its_input() {
    let rig = rig().await;
    let mut client = rig.approvals().await;
    let list = v1::ListApprovalsRequest {
        parent: "providers/-".into(),
        ..v1::ListApprovalsRequest::default()
    };
    let listed = client
        .list_approvals(rig.by("vic", list))
        .await
        .unwrap()
        .into_inner();
    let get = v1::GetApprovalRequest {
        name: listed.approvals[0].name.clone(),
    };
    let seen = client
        .get_approval(rig.by("vic", get.clone()))
        .await
        .unwrap()
        .into_inner();
    assert!(seen.payloads_redacted && seen.input.is_none(), "{seen:?}");
    let seen = client
        .get_approval(rig.by("ada", get))
        .await
        .unwrap()
        .into_inner();
    assert!(!seen.payloads_redacted && seen.input.is_some());
}

#[tokio::test]
async fn a_wait_and_a_watch_show_no_payload() {
    let rig = rig().await;
    let mut client = rig.executions().await;
    let wait = v1::WaitExecutionRequest {
        name: name("a1"),
        sub_states: vec![v1::SubState::Waiting.into()],
    };
    let waited = client
        .wait_execution(rig.by("vic", wait))
        .await
        .unwrap()
        .into_inner();
    assert!(!format!("{waited:?}").contains("s3cret"));
    for (parent, names) in [("providers/-", vec![]), ("", vec![name("a1")])] {
        let watch = v1::WatchExecutionsRequest {
            parent: parent.into(),
            names,
            ..v1::WatchExecutionsRequest::default()
        };
        let stream = client.watch_executions(rig.by("vic", watch)).await;
        let first = stream
            .unwrap()
            .into_inner()
            .message()
            .await
            .unwrap()
            .unwrap();
        assert_eq!(first.execution.as_ref().unwrap().name, name("a1"));
        assert!(!format!("{first:?}").contains("s3cret"));
    }
}
