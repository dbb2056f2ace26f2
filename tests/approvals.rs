//! People decide: in their own name, with the role that is asked for, once, and on the record.

use serde_json::json;
use stateway_machine::ExecutionState;
use stateway_proto::v1;
use stateway_proto::v1::approval::State;
use stateway_proto::v1::resolution::Action;
use tonic::Code;

use crate::support::{BuiltInRig, by, json_of, reason_of, time_of};

const RELEASE: &str = "\
name: release
steps:
  - name: sign-off
    approval: {role: ops}
    input: {version: '${input.version}'}
";

/// One step asks while another one runs, so the execution as a whole shows neither.
const BESIDE: &str = "\
name: beside
steps:
  - name: long
    agent: nobody
    timeout: 5m
  - name: yes
    approval: {role: legal}
";

const FORBIDDEN: &str = "\
name: forbidden
steps:
  - name: pay
    agent: billing
    timeout: 5m
    onFailure: escalate
";

fn list(filter: &str) -> v1::ListApprovalsRequest {
    v1::ListApprovalsRequest {
        parent: "providers/-".into(),
        filter: filter.into(),
        ..v1::ListApprovalsRequest::default()
    }
}

fn decide(name: &str, grant: bool) -> v1::DecideApprovalRequest {
    v1::DecideApprovalRequest {
        name: name.into(),
        grant,
        comment: "looks good".into(),
        ..v1::DecideApprovalRequest::default()
    }
}

fn approval(execution: &str, step: &str, attempt: u32) -> String {
    format!("providers/b/executions/{execution}/approvals/{step}~{attempt}")
}

async fn asking(execution: &str) -> BuiltInRig {
    let rig = BuiltInRig::start().await;
    rig.apply(RELEASE).await;
    let input = json!({"version": 7});
    rig.begin("release", execution, "ada", input).await;
    let waits = |view: &stateway_engine::View| view.state == ExecutionState::AwaitingApproval;
    rig.until(execution, waits).await;
    rig
}

#[tokio::test]
async fn the_inbox_shows_what_a_person_needs_to_decide() {
    let rig = asking("r1").await;
    let mut client = rig.approvals().await;
    let inbox = client.list_approvals(list("")).await.unwrap().into_inner();
    let [row] = inbox.approvals.as_slice() else {
        panic!("{inbox:#?}");
    };
    assert_eq!(row.name, approval("r1", "sign-off", 1));
    assert_eq!(row.state(), State::Pending);
    assert_eq!((row.role.as_str(), row.step.as_str()), ("ops", "sign-off"));
    assert_eq!(row.execution, "providers/b/executions/r1");
    assert_eq!(row.definition, "definitions/release");
    assert_eq!(
        (row.initiator.as_str(), &*row.labels["team"]),
        ("ada", "shop")
    );
    assert!(row.summary.contains("ops") && row.create_time.is_some());
    let request = v1::GetApprovalRequest {
        name: row.name.clone(),
    };
    let one = client.get_approval(request).await.unwrap().into_inner();
    assert_eq!(json_of(one.input.as_ref()), json!({"version": 7}));
    assert_eq!(one.etag, row.etag);
}

#[tokio::test]
async fn a_yes_is_on_the_record_and_lets_the_execution_go_on() {
    let rig = asking("r2").await;
    let mut client = rig.approvals().await;
    let name = approval("r2", "sign-off", 1);
    let decided = client.decide_approval(by("eve", "dev,ops", decide(&name, true)));
    let decided = decided.await.unwrap().into_inner();
    assert_eq!(decided.state(), State::Granted);
    let decision = decided.decision.clone().expect("a decision");
    assert_eq!(decision.decided_by, "eve");
    assert_eq!(decision.comment, "looks good");
    assert!(time_of(decision.decide_time.as_ref()) <= rig.engine.now());
    rig.until("r2", |view| view.state == ExecutionState::Completed)
        .await;
    let inbox = client.list_approvals(list("")).await.unwrap().into_inner();
    assert_eq!(inbox.approvals, []);
    let filter = "execution = providers/b/executions/r2";
    let all = client
        .list_approvals(list(filter))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(all.approvals[0].decision, Some(decision));
    let filter = format!("{filter} AND state = REJECTED");
    let none = client.list_approvals(list(&filter)).await.unwrap();
    assert_eq!(none.into_inner().approvals, []);
}

#[tokio::test]
async fn nobody_decides_about_their_own_or_without_the_role() {
    let rig = asking("r3").await;
    let mut client = rig.approvals().await;
    let name = approval("r3", "sign-off", 1);
    for (actor, roles, reason) in [
        ("ada", "ops", "SELF_APPROVAL"),
        ("eve", "dev", "ROLE_REQUIRED"),
        ("eve", "", "ROLE_REQUIRED"),
    ] {
        let refused = client.decide_approval(by(actor, roles, decide(&name, true)));
        let status = refused.await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{reason}");
        assert_eq!(reason_of(&status), reason);
    }
    let still = client.list_approvals(list("role = ops")).await.unwrap();
    assert_eq!(still.into_inner().approvals.len(), 1);
}

#[tokio::test]
async fn a_decision_is_made_once_and_repeated_safely() {
    let rig = asking("r4").await;
    let mut client = rig.approvals().await;
    let name = approval("r4", "sign-off", 1);
    let yes = v1::DecideApprovalRequest {
        request_id: "d-1".into(),
        ..decide(&name, true)
    };
    let first = client.decide_approval(by("eve", "ops", yes.clone())).await;
    let first = first.unwrap().into_inner();
    let again = client.decide_approval(by("eve", "ops", yes.clone())).await;
    assert_eq!(again.unwrap().into_inner().decision, first.decision);
    let other = v1::DecideApprovalRequest {
        grant: false,
        ..yes
    };
    let status = client.decide_approval(by("eve", "ops", other)).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_eq!(reason_of(&status), "REQUEST_ID_REUSED");
    // Also when the execution has ended: the same again is no news, another one comes too late.
    rig.until("r4", |view| view.state == ExecutionState::Completed)
        .await;
    let same = client.decide_approval(by("eve", "ops", decide(&name, true)));
    assert_eq!(same.await.unwrap().into_inner().decision, first.decision);
    let late = client.decide_approval(by("tom", "ops", decide(&name, false)));
    let status = late.await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&status), "ALREADY_DECIDED");
}

#[tokio::test]
async fn a_stale_or_unknown_request_is_refused() {
    let rig = asking("r5").await;
    let mut client = rig.approvals().await;
    let stale = approval("r5", "sign-off", 2);
    let refused = client.decide_approval(by("eve", "ops", decide(&stale, true)));
    let status = refused.await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&status), "STALE_APPROVAL");
    let etag = v1::DecideApprovalRequest {
        etag: "old".into(),
        ..decide(&approval("r5", "sign-off", 1), true)
    };
    let status = client.decide_approval(by("eve", "ops", etag)).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    assert_eq!(reason_of(&status), "ETAG_MISMATCH");
    for (name, code) in [
        (stale, Code::NotFound),
        (approval("nobody", "sign-off", 1), Code::NotFound),
        (
            "providers/b/executions/r5".to_owned(),
            Code::InvalidArgument,
        ),
    ] {
        let status = client.get_approval(v1::GetApprovalRequest { name }).await;
        assert_eq!(status.unwrap_err().code(), code);
    }
    let status = client.list_approvals(list("colour = red")).await;
    assert_eq!(reason_of(&status.unwrap_err()), "INVALID_FILTER");
}

#[tokio::test]
async fn an_approval_beside_running_work_is_in_the_inbox_and_pages_follow() {
    let rig = BuiltInRig::start().await;
    rig.apply(BESIDE).await;
    rig.apply(RELEASE).await;
    for id in ["p1", "p2", "p3"] {
        rig.begin("beside", id, "ada", json!({})).await;
    }
    rig.begin("release", "q1", "ada", json!({"version": 1}))
        .await;
    let asks = |view: &stateway_engine::View| view.steps.iter().any(|step| step.name == "yes");
    for id in ["p1", "p2", "p3"] {
        let view = rig.until(id, asks).await;
        assert_eq!(view.state, ExecutionState::Running);
    }
    let mut client = rig.approvals().await;
    let mut found = Vec::new();
    let mut request = v1::ListApprovalsRequest {
        page_size: 2,
        ..list("role = legal")
    };
    loop {
        let page = client
            .list_approvals(request.clone())
            .await
            .unwrap()
            .into_inner();
        found.extend(page.approvals.into_iter().map(|row| row.execution));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    found.sort();
    let expected = ["p1", "p2", "p3"].map(|id| format!("providers/b/executions/{id}"));
    assert_eq!(found, expected);
    request.filter = "role = ops".into();
    let status = client.list_approvals(request).await.unwrap_err();
    assert_eq!(reason_of(&status), "INVALID_PAGE_TOKEN");
}

#[tokio::test]
async fn what_was_decided_is_listed_over_all_executions() {
    let rig = asking("d1").await;
    let input = json!({"version": 8});
    rig.begin("release", "d2", "ada", input.clone()).await;
    rig.begin("release", "d3", "ada", input).await;
    let waits = |view: &stateway_engine::View| view.state == ExecutionState::AwaitingApproval;
    let mut client = rig.approvals().await;
    for (id, grant) in [("d1", true), ("d2", false)] {
        rig.until(id, waits).await;
        let decision = decide(&approval(id, "sign-off", 1), grant);
        client
            .decide_approval(by("eve", "ops", decision))
            .await
            .unwrap();
    }
    let mut listed = async |filter: &str| -> Vec<(String, State)> {
        let answer = client.list_approvals(list(filter)).await.unwrap();
        let rows = answer.into_inner().approvals;
        rows.iter()
            .map(|row| (row.execution.clone(), row.state()))
            .collect()
    };
    let (granted, rejected) = (
        ("providers/b/executions/d1".to_owned(), State::Granted),
        ("providers/b/executions/d2".to_owned(), State::Rejected),
    );
    assert_eq!(
        listed("state = decided").await,
        [rejected.clone(), granted.clone()]
    );
    assert_eq!(listed("state = granted").await, [granted]);
    assert_eq!(listed("state = rejected AND role = ops").await, [rejected]);
    assert_eq!(listed("state = decided AND definition = other").await, []);
}

#[tokio::test]
async fn a_step_that_needs_a_person_is_resumed_reassigned_or_cancelled() {
    let rig = BuiltInRig::start().await;
    rig.apply(FORBIDDEN).await;
    let mut worker = rig
        .work(v1::Offer {
            roles: vec!["billing".into(), "treasury".into()],
            capacity: 1,
            ..v1::Offer::default()
        })
        .await
        .unwrap();
    let mut client = rig.approvals().await;
    let escalated = |view: &stateway_engine::View| view.state == ExecutionState::Escalated;
    rig.begin("forbidden", "e1", "ada", json!({})).await;
    let task = worker.task().await;
    worker.fail(&task, "governance");
    rig.until("e1", escalated).await;

    let request = v1::ListEscalationsRequest {
        parent: "providers/b".into(),
        ..v1::ListEscalationsRequest::default()
    };
    let listed = client.list_escalations(request.clone()).await.unwrap();
    let listed = listed.into_inner().escalations;
    let [row] = listed.as_slice() else {
        panic!("{listed:#?}");
    };
    let name = "providers/b/executions/e1/escalations/pay";
    assert_eq!(
        (row.name.as_str(), row.cause.as_str()),
        (name, "it did not work")
    );
    assert_eq!(row.last_error.as_ref().unwrap().category, "governance");
    let inbox = client.list_approvals(list("")).await.unwrap().into_inner();
    assert_eq!(inbox.approvals, [], "an escalation is no approval");

    let resolve = |action: Action, role: &str| v1::ResolveEscalationRequest {
        name: name.into(),
        action: action.into(),
        role: role.into(),
        comment: "my decision".into(),
        ..v1::ResolveEscalationRequest::default()
    };
    for wrong in [
        resolve(Action::Unspecified, ""),
        resolve(Action::Reassign, ""),
        resolve(Action::Resume, "x"),
    ] {
        let status = client.resolve_escalation(wrong).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
    let resumed = client.resolve_escalation(by("eve", "", resolve(Action::Resume, "")));
    let resumed = resumed.await.unwrap().into_inner();
    let decision = resumed.resolution.unwrap().decision.unwrap();
    assert_eq!(
        (&*decision.decided_by, &*decision.comment),
        ("eve", "my decision")
    );
    let task = worker.task().await;
    assert_eq!((task.role.as_str(), task.attempt), ("billing", 2));
    worker.fail(&task, "governance");
    rig.until("e1", escalated).await;

    let again = resolve(Action::Reassign, "treasury");
    client
        .resolve_escalation(by("eve", "", again))
        .await
        .unwrap();
    let task = worker.task().await;
    assert_eq!(task.role, "treasury");
    worker.fail(&task, "governance");
    rig.until("e1", escalated).await;

    client
        .resolve_escalation(by("eve", "", resolve(Action::Cancel, "")))
        .await
        .unwrap();
    rig.until("e1", |view| view.state == ExecutionState::Cancelled)
        .await;
    let listed = client.list_escalations(request).await.unwrap();
    assert_eq!(listed.into_inner().escalations, []);
    let late = client.resolve_escalation(by("eve", "", resolve(Action::Resume, "")));
    assert_eq!(late.await.unwrap_err().code(), Code::FailedPrecondition);
}
