//! Starts are decided by what they ask for, other verbs by the execution that they touch.

use stateway_client::v1;
use tonic::Code;

use super::rig::{AccessRig, ORDER, RELEASE, name, whole};
use crate::support::reason_of;

#[tokio::test]
async fn a_start_is_decided_by_definition_provider_and_labels() {
    let rig = AccessRig::start().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("a1", "acme")).await.unwrap();
    for tenant in ["evil", "", "ACME", "acme2"] {
        let status = rig
            .begin("ada", "release", ("a2", tenant))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{tenant}");
        assert_eq!(reason_of(&status), "ACCESS_DENIED");
    }
    // The answer depends on the request alone: it does not say whether the definition exists.
    let known = rig
        .begin("ada", "release", ("a2", "evil"))
        .await
        .unwrap_err();
    let unknown = rig
        .begin("ada", "nothing", ("a2", "evil"))
        .await
        .unwrap_err();
    assert_eq!(
        whole(&known, ("release", "X")),
        whole(&unknown, ("nothing", "X"))
    );
    let request = v1::StartExecutionRequest {
        definition: "providers/m/definitions/happy".into(),
        labels: [("tenant".to_owned(), "acme".to_owned())].into(),
        ..v1::StartExecutionRequest::default()
    };
    let elsewhere = rig
        .executions()
        .await
        .start_execution(rig.by("ada", request))
        .await;
    assert_eq!(elsewhere.unwrap_err().code(), Code::PermissionDenied);
    let viewer = rig
        .begin("vic", "release", ("a3", "acme"))
        .await
        .unwrap_err();
    assert_eq!(viewer.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_viewer_sees_and_changes_nothing() {
    let rig = AccessRig::start().await;
    rig.apply(ORDER).await;
    rig.begin("ada", "order", ("a1", "acme")).await.unwrap();
    rig.get("vic", "a1").await.unwrap();
    let mut client = rig.executions().await;
    let pause = v1::PauseExecutionRequest {
        name: name("a1"),
        ..v1::PauseExecutionRequest::default()
    };
    let cancel = v1::CancelExecutionRequest {
        name: name("a1"),
        ..v1::CancelExecutionRequest::default()
    };
    let status = client
        .pause_execution(rig.by("vic", pause.clone()))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let status = client
        .cancel_execution(rig.by("vic", cancel.clone()))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    assert_eq!(rig.get("ada", "a1").await.unwrap().pause, None);
    client.pause_execution(rig.by("ada", pause)).await.unwrap();
    client
        .cancel_execution(rig.by("ada", cancel))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_permission_for_some_executions_is_denied_by_name_for_others_that_can_be_read() {
    let rules = r#"
[[rules]]
name = "read-all"
who = { subject = "ada" }
may = "read"

[[rules]]
name = "stop-some"
who = { subject = "ada" }
may = ["stop", "start"]
where = 'definition = order'

[[rules]]
name = "root"
who = { subject = "root" }
may = "admin"
"#;
    let callers = [("root", &[] as &[&str], None), ("ada", &[], None)];
    let rig = AccessRig::with(rules, &callers).await;
    rig.apply(ORDER).await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "order", ("o", "")).await.unwrap();
    rig.begin("root", "release", ("r", "")).await.unwrap();
    let cancel = |id: &str| v1::CancelExecutionRequest {
        name: name(id),
        ..v1::CancelExecutionRequest::default()
    };
    let mut client = rig.executions().await;
    let denied = client
        .cancel_execution(rig.by("ada", cancel("r")))
        .await
        .unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    assert!(denied.message().contains("executions/r"), "{denied}");
    let absent = client
        .cancel_execution(rig.by("ada", cancel("no")))
        .await
        .unwrap_err();
    assert_eq!(absent.code(), Code::NotFound);
    client
        .cancel_execution(rig.by("ada", cancel("o")))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_caller_that_may_write_and_not_read_gets_the_name_alone() {
    let rules = r#"
[[rules]]
name = "starters"
who = { subject = "ci" }
may = ["start", "signal"]

[[rules]]
name = "root"
who = { subject = "root" }
may = "admin"
"#;
    let callers = [("root", &[] as &[&str], None), ("ci", &[], None)];
    let rig = AccessRig::with(rules, &callers).await;
    rig.apply(RELEASE).await;
    let started = rig.begin("ci", "release", ("r", "")).await.unwrap();
    assert_eq!(started.name, name("r"));
    assert!(started.payloads_redacted && started.input.is_none() && started.steps.is_empty());
    assert_eq!(
        rig.get("ci", "r").await.unwrap_err().code(),
        Code::PermissionDenied
    );
}

#[tokio::test]
async fn a_caller_that_may_decide_and_not_read_learns_nothing_by_its_decision() {
    let rules = r#"
[[rules]]
name = "deciders"
who = { subject = "bot" }
may = "approve"

[[rules]]
name = "root"
who = { subject = "root" }
may = "admin"
"#;
    let callers = [("root", &[] as &[&str], None), ("bot", &["ops"], None)];
    let rig = AccessRig::with(rules, &callers).await;
    rig.apply(RELEASE).await;
    rig.begin("root", "release", ("r", "acme")).await.unwrap();
    let request = stateway_client::v1::DecideApprovalRequest {
        name: format!("{}/approvals/sign-off~1", name("r")),
        decision: stateway_client::v1::decide_approval_request::Choice::Grant.into(),
        ..Default::default()
    };
    let mut client = rig.approvals().await;
    let decided = client.decide_approval(rig.by("bot", request.clone())).await;
    let decided = decided.unwrap().into_inner();
    assert_eq!(decided.name, request.name);
    assert!(
        decided.labels.is_empty() && decided.definition.is_empty(),
        "{decided:?}"
    );
    assert!(
        decided.input.is_none() && decided.initiator.is_empty(),
        "{decided:?}"
    );
}
