//! Cancelling follows the definition's failure policy from every door, unless the caller chooses.

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::Compensation;
use stateway_client::v1::cancel_execution_request::Mode;
use stateway_client::v1::resolution::Action;
use tonic::Code;

use crate::support::{BuiltInRig, TestWorker, by, reason_of};

/// A completed step with a compensation, then a step that waits for a person.
fn definition(policy: &str, second: &str) -> String {
    format!(
        "name: job\nfailurePolicy: {policy}\nsteps:\n  \
         - {{name: a, agent: w, action: x, timeout: 1m}}\n  \
         - {{name: b, dependsOn: [a], {second}}}\n\
         compensation: [{{step: a, action: undo, agent: w, timeout: 1m}}]\n"
    )
}

const ESCALATES: &str = "agent: w, action: fail, timeout: 1m, onFailure: escalate";
const APPROVED: &str = "approval: {role: rm}";
const SIGNALLED: &str = "signal: go";

/// Runs step `a`, and reaches the wait of step `b`.
async fn waiting(policy: &str, second: &str, id: &str) -> (BuiltInRig, TestWorker) {
    let rig = BuiltInRig::start().await;
    rig.apply(&definition(policy, second)).await;
    let offer = v1::Offer {
        roles: vec!["w".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    let mut worker = rig.work(offer).await.unwrap();
    rig.begin("job", id, "ada", json!({})).await;
    let task = worker.task().await;
    worker.complete(&task, &json!({}));
    if second == ESCALATES {
        let task = worker.task().await;
        worker.fail(&task, v1::ErrorCategory::AgentError);
    }
    let waits = |view: &v1::Execution| {
        matches!(
            &*view.native_state,
            "escalated" | "awaiting_approval" | "awaiting_signal"
        )
    };
    rig.until(id, waits).await;
    (rig, worker)
}

/// Whether step `a` is compensated before the execution ends.
async fn compensates(rig: &BuiltInRig, worker: &mut TestWorker, id: &str) -> bool {
    let view = rig
        .until(id, |view| {
            view.native_state == "compensating" || view.end_time.is_some()
        })
        .await;
    if view.native_state == "compensating" {
        let task = worker.task().await;
        assert!(task.compensation && task.step == "a", "{task:?}");
        worker.complete(&task, &json!({}));
    }
    let ended = rig.until(id, |view| view.native_state == "cancelled").await;
    let state = |name: &str| {
        let step = ended.steps.iter().find(|step| step.name == name);
        step.unwrap().native_state.clone()
    };
    state("a") == "compensated"
}

fn cancel(id: &str, compensation: Compensation) -> v1::CancelExecutionRequest {
    v1::CancelExecutionRequest {
        name: format!("providers/b/executions/{id}"),
        compensation: compensation.into(),
        ..v1::CancelExecutionRequest::default()
    }
}

#[tokio::test]
async fn cancelling_an_escalation_follows_the_failure_policy() {
    for (policy, expected) in [("compensate", true), ("abort", false)] {
        let (rig, mut worker) = waiting(policy, ESCALATES, "esc").await;
        let request = v1::ResolveEscalationRequest {
            name: "providers/b/executions/esc/escalations/b~1".into(),
            action: Action::Cancel.into(),
            ..v1::ResolveEscalationRequest::default()
        };
        let mut client = rig.approvals().await;
        client
            .resolve_escalation(by("eve", "operator", request))
            .await
            .unwrap();
        assert_eq!(
            compensates(&rig, &mut worker, "esc").await,
            expected,
            "{policy}"
        );
    }
}

#[tokio::test]
async fn the_person_who_cancels_an_escalation_chooses_the_compensation() {
    for (policy, choice, expected) in [
        ("abort", Compensation::Compensate, true),
        ("compensate", Compensation::Skip, false),
    ] {
        let (rig, mut worker) = waiting(policy, ESCALATES, "esc").await;
        let request = v1::ResolveEscalationRequest {
            name: "providers/b/executions/esc/escalations/b~1".into(),
            action: Action::Resume.into(),
            compensation: choice.into(),
            ..v1::ResolveEscalationRequest::default()
        };
        let mut client = rig.approvals().await;
        let wrong = by("eve", "operator", request.clone());
        let refused = client.resolve_escalation(wrong).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        let request = v1::ResolveEscalationRequest {
            action: Action::Cancel.into(),
            ..request
        };
        client
            .resolve_escalation(by("eve", "operator", request))
            .await
            .unwrap();
        assert_eq!(
            compensates(&rig, &mut worker, "esc").await,
            expected,
            "{policy}"
        );
    }
}

#[tokio::test]
async fn a_cancel_of_a_rollback_after_a_failure_is_refused_and_a_repeated_cancel_is_not() {
    let (rig, mut worker) = waiting("compensate", SIGNALLED, "c1").await;
    let mut client = rig.gateway.executions().await;
    for _ in 0..2 {
        let cancelled = client.cancel_execution(cancel("c1", Compensation::Unspecified));
        let shown = cancelled.await.unwrap().into_inner();
        assert_eq!(shown.native_state, "compensating");
    }
    let undo = worker.task().await;
    worker.complete(&undo, &json!({}));

    let failing = "agent: w, action: fail, timeout: 1m";
    rig.apply(&definition("compensate", failing)).await;
    rig.begin("job", "f1", "ada", json!({})).await;
    let a = worker.task().await;
    worker.complete(&a, &json!({}));
    let b = worker.task().await;
    worker.fail(&b, v1::ErrorCategory::AgentError);
    rig.until("f1", |view| view.native_state == "compensating")
        .await;
    let request = cancel("f1", Compensation::Unspecified);
    let refused = client.cancel_execution(request).await.unwrap_err();
    assert_eq!(
        (refused.code(), &*reason_of(&refused)),
        (Code::FailedPrecondition, "ROLLING_BACK")
    );
    let kill = v1::CancelExecutionRequest {
        mode: Mode::Kill.into(),
        ..cancel("f1", Compensation::Unspecified)
    };
    client.cancel_execution(kill).await.unwrap();
    rig.until("f1", |view| view.native_state == "cancelled")
        .await;
}

#[tokio::test]
async fn a_rejected_approval_follows_the_failure_policy() {
    for (policy, expected) in [("compensate", true), ("abort", false)] {
        let (rig, mut worker) = waiting(policy, APPROVED, "rej").await;
        let request = v1::DecideApprovalRequest {
            name: "providers/b/executions/rej/approvals/b~1".into(),
            decision: v1::decide_approval_request::Choice::Reject.into(),
            ..v1::DecideApprovalRequest::default()
        };
        let mut client = rig.approvals().await;
        let rejected = client.decide_approval(by("eve", "rm", request)).await;
        let rejected = rejected.unwrap().into_inner();
        assert_eq!(rejected.state(), v1::approval::State::Rejected);
        assert_eq!(
            compensates(&rig, &mut worker, "rej").await,
            expected,
            "{policy}"
        );
    }
}

#[tokio::test]
async fn a_cancel_follows_the_failure_policy_unless_the_caller_chooses() {
    for (policy, choice, expected) in [
        ("compensate", Compensation::Unspecified, true),
        ("abort", Compensation::Unspecified, false),
        ("compensate", Compensation::Skip, false),
        ("abort", Compensation::Compensate, true),
    ] {
        let (rig, mut worker) = waiting(policy, SIGNALLED, "c1").await;
        let mut client = rig.gateway.executions().await;
        let cancelled = client.cancel_execution(by("ada", "", cancel("c1", choice)));
        cancelled.await.unwrap();
        let done = compensates(&rig, &mut worker, "c1").await;
        assert_eq!(done, expected, "{policy} {choice:?}");
    }
}

#[tokio::test]
async fn a_choice_that_cannot_be_followed_is_rejected() {
    let rig = BuiltInRig::start_beside(|gateway| {
        gateway.with_memory_less("m", &crate::support::clock(), &["cancel_compensation"])
    })
    .await;
    let mut client = rig.gateway.executions().await;
    let start = v1::StartExecutionRequest {
        definition: "providers/m/definitions/approval".into(),
        execution_id: "x".into(),
        ..v1::StartExecutionRequest::default()
    };
    client.start_execution(start).await.unwrap();
    for choice in [Compensation::Compensate, Compensation::Skip] {
        let request = v1::CancelExecutionRequest {
            name: "providers/m/executions/x".into(),
            ..cancel("x", choice)
        };
        let status = client.cancel_execution(request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert_eq!(reason_of(&status), "CAPABILITY_NOT_SUPPORTED");
        let request = v1::CancelExecutionRequest {
            mode: Mode::Kill.into(),
            ..cancel("x", choice)
        };
        let status = client.cancel_execution(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "a kill has no choice");
    }
    let request = v1::GetExecutionRequest {
        name: "providers/m/executions/x".into(),
        ..v1::GetExecutionRequest::default()
    };
    let open = client.get_execution(request).await.unwrap().into_inner();
    assert_eq!(open.reason().label(), "", "{open:?}");
    assert!(open.end_time.is_none());
}
