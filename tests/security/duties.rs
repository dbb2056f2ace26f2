//! Nobody decides about their own work under another spelling of their name.

use serde_json::json;
use stateway_client::v1;
use tonic::Code;

use crate::support::{BuiltInRig, by, reason_of};

const PAID: &str = "\
name: paid
steps:
  - {name: wait, signal: invoice}
  - {name: check, approval: {role: ops}, dependsOn: [wait]}
";

/// The signal is what is approved, so its sender does not approve it; nor does the starter.
#[tokio::test]
async fn whoever_sent_the_signal_or_started_the_execution_does_not_approve_it() {
    let rig = BuiltInRig::start().await;
    rig.apply(PAID).await;
    rig.begin("paid", "e1", "ada", json!(null)).await;
    let signal = v1::SignalExecutionRequest {
        name: "providers/b/executions/e1".into(),
        signal: "invoice".into(),
        ..v1::SignalExecutionRequest::default()
    };
    let mut executions = rig.gateway.executions().await;
    let sent = executions.signal_execution(by("bob", "", signal)).await;
    sent.expect("it is waited for");
    let asks = |view: &v1::Execution| view.native_state == "awaiting_approval";
    rig.until("e1", asks).await;
    let mut approvals = rig.approvals().await;
    for (actor, is_allowed) in [
        ("bob", false),
        ("BOB", false),
        ("ada", false),
        ("aDa", false),
        ("eve", true),
    ] {
        let decision = v1::DecideApprovalRequest {
            name: "providers/b/executions/e1/approvals/check~1".into(),
            decision: v1::decide_approval_request::Choice::Grant.into(),
            ..v1::DecideApprovalRequest::default()
        };
        let decided = approvals.decide_approval(by(actor, "ops", decision)).await;
        match decided {
            Ok(_) => assert!(is_allowed, "{actor}"),
            Err(status) => {
                assert!(!is_allowed, "{actor}: {status}");
                assert_eq!(status.code(), Code::PermissionDenied, "{actor}");
                assert_eq!(reason_of(&status), "SELF_APPROVAL", "{actor}");
            }
        }
    }
}
