//! Escalations: a person with the role decides about a step, not about their own work, and on the
//! record.

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::escalation::State;
use stateway_client::v1::resolution::Action;
use stateway_client::v1::stream_tasks_request::Message as Said;
use stateway_engine::{Clock, PolicyVerdict, Ruling};
use tonic::Code;

use crate::support::{BuiltInRig, TestWorker, by, reason_of, time_of};

const FORBIDDEN: &str = "\
name: forbidden
steps:
  - {name: pay, agent: billing, action: x, timeout: 5m, onFailure: escalate}
";

/// The definitions of the review: a governance block, and an approval that expires.
const GOV: &str = "\
name: gov
timeout: 10m
steps: [{name: a, agent: billing, action: gov, timeout: 1m}]
";
const EXPIRES: &str = "\
name: exp
timeout: 10m
steps:
  - {name: gate, approval: {role: rm, expiresAfter: 1s}}
  - {name: promote, agent: billing, action: x, timeout: 1m, dependsOn: [gate]}
";

const NAMED: &str = "\
name: named
escalation: {role: accounting}
steps:
  - {name: pay, agent: billing, action: x, timeout: 5m, onFailure: escalate}
";

fn list(filter: &str) -> v1::ListEscalationsRequest {
    v1::ListEscalationsRequest {
        parent: "providers/b".into(),
        filter: filter.into(),
        ..v1::ListEscalationsRequest::default()
    }
}

fn escalation(execution: &str, step: &str, attempt: u32) -> String {
    format!("providers/b/executions/{execution}/escalations/{step}~{attempt}")
}

fn resolve(name: &str, action: Action, role: &str) -> v1::ResolveEscalationRequest {
    v1::ResolveEscalationRequest {
        name: name.into(),
        action: action.into(),
        role: role.into(),
        comment: "my decision".into(),
        ..v1::ResolveEscalationRequest::default()
    }
}

async fn get(rig: &BuiltInRig, name: &str) -> v1::Escalation {
    let request = v1::GetEscalationRequest { name: name.into() };
    let answer = rig.approvals().await.get_escalation(request).await;
    answer.unwrap().into_inner()
}

async fn listed(rig: &BuiltInRig, filter: &str) -> Vec<(String, State)> {
    let answer = rig.approvals().await.list_escalations(list(filter)).await;
    let rows = answer.unwrap().into_inner().escalations;
    rows.iter()
        .map(|row| (row.name.clone(), row.state()))
        .collect()
}

fn is_escalated(view: &v1::Execution) -> bool {
    view.native_state == "escalated"
}

async fn worker(rig: &BuiltInRig) -> TestWorker {
    let offer = v1::Offer {
        worker_id: "w-1".into(),
        roles: vec!["billing".into(), "treasury".into()],
        capacity: 1,
        ..v1::Offer::default()
    };
    rig.work(offer).await.unwrap()
}

/// `ada` started an execution whose only step failed with a governance failure.
async fn blocked(source: &str, definition: &str, id: &str) -> (BuiltInRig, TestWorker) {
    let rig = BuiltInRig::start().await;
    rig.apply(source).await;
    let mut worker = worker(&rig).await;
    rig.begin(definition, id, "ada", json!({})).await;
    let task = worker.task().await;
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until(id, is_escalated).await;
    (rig, worker)
}

#[tokio::test]
async fn a_step_is_resumed_reassigned_or_its_execution_cancelled() {
    let (rig, mut worker) = blocked(FORBIDDEN, "forbidden", "e1").await;
    let mut client = rig.approvals().await;
    let first = escalation("e1", "pay", 1);
    let rows = client.list_escalations(list("")).await.unwrap();
    let rows = rows.into_inner().escalations;
    let [row] = rows.as_slice() else {
        panic!("{rows:#?}");
    };
    assert_eq!((row.name.as_str(), row.state()), (&*first, State::Pending));
    assert_eq!(row.roles, ["operator"]);
    assert_eq!(row.cause, "it did not work");
    assert_eq!(
        row.last_error.as_ref().unwrap().category().label(),
        "governance"
    );
    let inbox = v1::ListApprovalsRequest {
        parent: "providers/-".into(),
        ..v1::ListApprovalsRequest::default()
    };
    let inbox = client.list_approvals(inbox).await.unwrap().into_inner();
    assert_eq!(inbox.approvals, [], "an escalation is no approval");
    for wrong in [
        resolve(&first, Action::Unspecified, ""),
        resolve(&first, Action::Reassign, ""),
        resolve(&first, Action::Resume, "x"),
        resolve(
            "providers/b/executions/e1/escalations/pay",
            Action::Resume,
            "",
        ),
    ] {
        let status = client.resolve_escalation(by("eve", "operator", wrong));
        assert_eq!(status.await.unwrap_err().code(), Code::InvalidArgument);
    }

    let resumed = by("eve", "operator", resolve(&first, Action::Resume, ""));
    let resumed = client.resolve_escalation(resumed).await.unwrap();
    let resumed = resumed.into_inner();
    assert_eq!(resumed.state(), State::Resolved);
    let resolution = resumed.resolution.unwrap();
    let decision = resolution.decision.clone().unwrap();
    assert_eq!(resolution.action(), Action::Resume);
    assert_eq!(
        (&*decision.decided_by, &*decision.comment),
        ("eve", "my decision")
    );
    assert!(time_of(decision.decide_time.as_ref()) <= jiff::Timestamp::now());
    let task = worker.task().await;
    assert_eq!((task.role.as_str(), task.attempt), ("billing", 2));
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("e1", is_escalated).await;

    let second = escalation("e1", "pay", 2);
    let reassign = resolve(&second, Action::Reassign, "treasury");
    let reassigned = client.resolve_escalation(by("eve", "operator", reassign));
    let reassigned = reassigned.await.unwrap().into_inner();
    assert_eq!(reassigned.resolution.unwrap().role, "treasury");
    let task = worker.task().await;
    assert_eq!((task.role.as_str(), task.attempt), ("treasury", 3));
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("e1", is_escalated).await;

    let third = escalation("e1", "pay", 3);
    let cancel = by("eve", "operator", resolve(&third, Action::Cancel, ""));
    client.resolve_escalation(cancel).await.unwrap();
    rig.until("e1", |view| view.native_state == "cancelled")
        .await;
    assert_eq!(listed(&rig, "").await, []);
    let resolved = [&third, &second, &first].map(|name| (name.clone(), State::Resolved));
    assert_eq!(listed(&rig, "state = resolved").await, resolved);
    let all = "execution = providers/b/executions/e1 AND roles:operator";
    assert_eq!(listed(&rig, all).await.len(), 3);
    assert_eq!(
        listed(&rig, "state = resolved AND definition = other").await,
        []
    );
    let status = client.list_escalations(list("state = granted")).await;
    assert_eq!(reason_of(&status.unwrap_err()), "INVALID_FILTER");
}

#[tokio::test]
async fn a_page_never_has_more_than_was_asked_for() {
    let (rig, mut worker) = blocked(FORBIDDEN, "forbidden", "e1").await;
    let mut client = rig.approvals().await;
    for attempt in 1..=2 {
        let name = escalation("e1", "pay", attempt);
        let resume = by("eve", "operator", resolve(&name, Action::Resume, ""));
        client.resolve_escalation(resume).await.unwrap();
        let task = worker.task().await;
        worker.fail(&task, v1::ErrorCategory::Governance);
        rig.until("e1", is_escalated).await;
    }
    let expected: Vec<_> = [3, 2, 1].map(|it| escalation("e1", "pay", it)).into();
    for filter in [
        "state = PENDING OR state = RESOLVED",
        "execution = providers/b/executions/e1",
    ] {
        for page_size in 1..=3 {
            let mut request = v1::ListEscalationsRequest {
                page_size,
                ..list(filter)
            };
            let mut found = Vec::new();
            loop {
                let page = client.list_escalations(request.clone()).await.unwrap();
                let page = page.into_inner();
                assert!(page.escalations.len() <= page_size as usize, "{filter}");
                found.extend(page.escalations.into_iter().map(|row| row.name));
                request.page_token = page.next_page_token;
                if request.page_token.is_empty() {
                    break;
                }
            }
            assert_eq!(found, expected, "{filter} in pages of {page_size}");
        }
    }
}

#[tokio::test]
async fn a_late_decision_never_reaches_a_newer_escalation() {
    let (rig, mut worker) = blocked(FORBIDDEN, "forbidden", "e2").await;
    let mut client = rig.approvals().await;
    let old = escalation("e2", "pay", 1);
    let resume = v1::ResolveEscalationRequest {
        request_id: "once".into(),
        ..resolve(&old, Action::Resume, "")
    };
    client
        .resolve_escalation(by("eve", "operator", resume.clone()))
        .await
        .unwrap();
    let task = worker.task().await;
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("e2", is_escalated).await;
    // The same decision again answers the resolved escalation.
    for again in [resume, resolve(&old, Action::Resume, "")] {
        let again = client.resolve_escalation(by("eve", "operator", again));
        let again = again.await.unwrap().into_inner();
        assert_eq!(
            (again.name.as_str(), again.state()),
            (&*old, State::Resolved)
        );
    }
    for (actor, action) in [("eve", Action::Cancel), ("tom", Action::Resume)] {
        let late = client.resolve_escalation(by(actor, "operator", resolve(&old, action, "")));
        let status = late.await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(reason_of(&status), "STALE_ESCALATION");
        assert!(status.message().contains("`eve`"), "{}", status.message());
    }
    let new = escalation("e2", "pay", 2);
    assert_eq!(get(&rig, &new).await.state(), State::Pending);

    let retry = v1::RetryFromRequest {
        name: "providers/b/executions/e2".into(),
        origin: Some(v1::retry_from_request::Origin::Step("pay".into())),
        ..v1::RetryFromRequest::default()
    };
    let mut executions = rig.gateway.executions().await;
    let retried = executions.retry_from(by("ops", "operator", retry)).await;
    retried.unwrap();
    let task = worker.task().await;
    worker.fail(&task, v1::ErrorCategory::Governance);
    rig.until("e2", is_escalated).await;
    let branched = format!("{}~b1", escalation("e2", "pay", 1));
    assert_eq!(listed(&rig, "").await, [(branched.clone(), State::Pending)]);
    let status =
        client.resolve_escalation(by("eve", "operator", resolve(&new, Action::Resume, "")));
    assert_eq!(reason_of(&status.await.unwrap_err()), "STALE_ESCALATION");
    assert_eq!(get(&rig, &new).await.state(), State::Withdrawn);
    assert_eq!(get(&rig, &old).await.state(), State::Resolved);
    let unknown = by(
        "eve",
        "operator",
        resolve(&escalation("e2", "pay", 9), Action::Resume, ""),
    );
    let status = client.resolve_escalation(unknown).await.unwrap_err();
    assert_eq!(reason_of(&status), "ESCALATION_NOT_FOUND");
    // The person who had the step run again does not decide about it.
    let own = client.resolve_escalation(by(
        "ops",
        "operator",
        resolve(&branched, Action::Resume, ""),
    ));
    assert_eq!(reason_of(&own.await.unwrap_err()), "SELF_APPROVAL");
}

#[tokio::test]
async fn the_starter_cannot_resume_a_governance_block_and_an_operator_can() {
    let (rig, mut worker) = blocked(GOV, "gov", "g1").await;
    let mut client = rig.approvals().await;
    let name = escalation("g1", "a", 1);
    for (actor, roles, reason) in [
        ("ada", "operator", "SELF_APPROVAL"),
        ("Ada", "operator", "SELF_APPROVAL"),
        ("w-1", "operator", "SELF_APPROVAL"),
        ("eve", "", "ROLE_REQUIRED"),
        ("eve", "intern", "ROLE_REQUIRED"),
    ] {
        for action in [Action::Resume, Action::Cancel] {
            let refused = client.resolve_escalation(by(actor, roles, resolve(&name, action, "")));
            let status = refused.await.unwrap_err();
            assert_eq!(status.code(), Code::PermissionDenied, "{actor} {reason}");
            assert_eq!(reason_of(&status), reason, "{actor}");
        }
    }
    assert_eq!(get(&rig, &name).await.state(), State::Pending);
    let resumed = by("eve", "operator", resolve(&name, Action::Resume, ""));
    client.resolve_escalation(resumed).await.unwrap();
    assert_eq!(worker.task().await.attempt, 2);
}

/// Running the step again replaces the decision about the escalation, so it needs the same right.
#[tokio::test]
async fn the_starter_cannot_lift_a_governance_block_with_any_retry() {
    let (rig, mut worker) = blocked(GOV, "gov", "g2").await;
    let name = "providers/b/executions/g2";
    let mut client = rig.gateway.executions().await;
    let retry = v1::RetryFromRequest {
        name: name.into(),
        origin: Some(v1::retry_from_request::Origin::Step("a".into())),
        ..v1::RetryFromRequest::default()
    };
    let refused_to_all = [
        ("ada", "operator", "SELF_APPROVAL"),
        ("w-1", "operator", "SELF_APPROVAL"),
        ("eve", "", "ROLE_REQUIRED"),
    ];
    for (actor, roles, reason) in refused_to_all {
        let refused = client.retry_from(by(actor, roles, retry.clone())).await;
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{actor}");
        assert_eq!(reason_of(&status), reason, "{actor}");
    }
    let resume = v1::ResumeExecutionRequest {
        name: name.into(),
        ..v1::ResumeExecutionRequest::default()
    };
    let refused = client.resume_execution(by("ada", "operator", resume)).await;
    assert_eq!(reason_of(&refused.unwrap_err()), "ESCALATED");
    let now = v1::RetryNowRequest {
        name: name.into(),
        ..v1::RetryNowRequest::default()
    };
    let refused = client.retry_now(by("ada", "operator", now)).await;
    assert_eq!(reason_of(&refused.unwrap_err()), "WRONG_STATE");

    // A cancel does not resolve the escalation either.
    let cancel = v1::CancelExecutionRequest {
        name: name.into(),
        ..v1::CancelExecutionRequest::default()
    };
    let cancelled = client.cancel_execution(by("ada", "", cancel)).await;
    cancelled.unwrap();
    rig.until("g2", |view| view.native_state == "cancelled")
        .await;
    for (actor, roles, reason) in refused_to_all {
        let refused = client.retry_from(by(actor, roles, retry.clone())).await;
        assert_eq!(reason_of(&refused.unwrap_err()), reason, "{actor}");
    }
    let reopened = client.retry_from(by("eve", "operator", retry)).await;
    reopened.unwrap();
    assert_eq!(worker.task().await.step, "a");
}

#[tokio::test]
async fn the_starter_cannot_reassign_an_expired_approval_and_an_operator_can() {
    let clock = Clock::manual(jiff::Timestamp::now());
    let rig = BuiltInRig::with(|config| config.clock = clock.clone()).await;
    rig.apply(EXPIRES).await;
    rig.begin("exp", "x1", "dev", json!({})).await;
    rig.until("x1", |view| view.native_state == "awaiting_approval")
        .await;
    clock.advance(2_000);
    rig.until("x1", is_escalated).await;
    let mut client = rig.approvals().await;
    let name = escalation("x1", "gate", 1);
    for (actor, roles, reason) in [
        ("dev", "operator,rm", "SELF_APPROVAL"),
        ("kim", "intern", "ROLE_REQUIRED"),
    ] {
        let reassign = resolve(&name, Action::Reassign, "intern");
        let refused = client.resolve_escalation(by(actor, roles, reassign));
        assert_eq!(reason_of(&refused.await.unwrap_err()), reason);
    }
    let found = get(&rig, &name).await;
    assert_eq!(
        (found.reason().label(), found.roles.as_slice()),
        ("TIMED_OUT", &["operator".to_owned()][..])
    );
    let reassign = resolve(&name, Action::Reassign, "lead");
    client
        .resolve_escalation(by("eve", "operator", reassign))
        .await
        .unwrap();
    rig.until("x1", |view| view.native_state == "awaiting_approval")
        .await;
    let approval = v1::GetApprovalRequest {
        name: "providers/b/executions/x1/approvals/gate~2".into(),
    };
    let approval = client.get_approval(approval).await.unwrap().into_inner();
    assert_eq!(approval.role, "lead");
    let request = v1::ListApprovalsRequest {
        parent: "providers/b".into(),
        filter: "execution = b/x1 AND state = EXPIRED".into(),
        ..v1::ListApprovalsRequest::default()
    };
    let expired = client.list_approvals(request).await.unwrap().into_inner();
    assert_eq!(
        expired.approvals[0].state(),
        v1::approval::State::Expired,
        "the first request stays readable"
    );
    let grant = v1::DecideApprovalRequest {
        name: approval.name,
        decision: v1::decide_approval_request::Choice::Grant.into(),
        ..v1::DecideApprovalRequest::default()
    };
    let own = client.decide_approval(by("Eve", "lead", grant.clone()));
    let status = own.await.unwrap_err();
    assert_eq!(reason_of(&status), "SELF_APPROVAL");
    let message = status.message();
    assert!(message.contains("reassigned the approval"), "{message}");
    let granted = client.decide_approval(by("kim", "lead", grant)).await;
    let granted = granted.unwrap().into_inner();
    assert_eq!(granted.state(), v1::approval::State::Granted);
}

#[tokio::test]
async fn the_role_is_the_definitions_or_else_the_configured_one() {
    let rig = BuiltInRig::with(|config| config.escalation_roles = vec!["sre".into()]).await;
    let mut worker = worker(&rig).await;
    let mut client = rig.approvals().await;
    for (source, definition, role, other) in [
        (FORBIDDEN, "forbidden", "sre", "operator"),
        (NAMED, "named", "accounting", "sre"),
    ] {
        rig.apply(source).await;
        rig.begin(definition, definition, "ada", json!({})).await;
        let task = worker.task().await;
        worker.fail(&task, v1::ErrorCategory::Governance);
        rig.until(definition, is_escalated).await;
        let name = escalation(definition, "pay", 1);
        assert_eq!(get(&rig, &name).await.roles, [role]);
        assert_eq!(
            listed(&rig, &format!("roles:{role}")).await,
            [(name.clone(), State::Pending)]
        );
        let refused =
            client.resolve_escalation(by("eve", other, resolve(&name, Action::Cancel, "")));
        let status = refused.await.unwrap_err();
        assert_eq!(reason_of(&status), "ROLE_REQUIRED");
        assert!(status.message().contains(role), "{}", status.message());
        let cancelled = by("eve", role, resolve(&name, Action::Cancel, ""));
        client.resolve_escalation(cancelled).await.unwrap();
    }
}

#[tokio::test]
async fn an_escalation_shows_every_attempt_with_error_worker_and_usage() {
    let rig = BuiltInRig::start().await;
    rig.apply(
        "name: flaky\nsteps:\n  - {name: pay, agent: billing, action: x, timeout: 5m, \
         onFailure: escalate, retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 1ms}}\n",
    )
    .await;
    let mut worker = worker(&rig).await;
    rig.begin("flaky", "f1", "ada", json!({})).await;
    for message in ["no answer", "still no answer"] {
        let task = worker.task().await;
        worker.say(Said::Failed(v1::TaskFailed {
            task_token: task.task_token.clone(),
            category: v1::ErrorCategory::Transient.into(),
            message: message.into(),
            usage: Some(v1::Usage {
                input_token_count: 100,
                output_token_count: 20,
                cost_micros: 7,
            }),
            ..v1::TaskFailed::default()
        }));
    }
    rig.until("f1", is_escalated).await;
    let found = get(&rig, &escalation("f1", "pay", 2)).await;
    assert_eq!(found.reason().label(), "RETRIES_EXHAUSTED");
    assert_eq!(found.attempt, 2);
    let rows: Vec<_> = found
        .attempts
        .iter()
        .map(|attempt| {
            let error = attempt.error.as_ref().unwrap();
            let tokens = attempt.usage.as_ref().unwrap().input_token_count;
            let times = (attempt.start_time.is_some(), attempt.end_time.is_some());
            (
                attempt.attempt,
                &*attempt.worker,
                &*error.message,
                tokens,
                times,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (1, "w-1", "no answer", 100, (true, true)),
            (2, "w-1", "still no answer", 100, (true, true)),
        ]
    );
    let listed = rig.approvals().await.list_escalations(list("")).await;
    let listed = listed.unwrap().into_inner().escalations;
    assert_eq!(
        (&listed[0].etag, listed[0].attempts.len()),
        (&found.etag, 0)
    );
}

/// A rule that denies every task.
#[derive(Debug)]
struct DenyAll;

impl stateway_engine::Policy for DenyAll {
    fn decide(&self, _: &stateway_engine::PolicyQuestion<'_>) -> Option<Ruling> {
        Some(Ruling {
            rule: "no-payments".into(),
            verdict: PolicyVerdict::Deny {
                message: "closed".into(),
            },
        })
    }
}

#[tokio::test]
async fn an_escalation_names_the_policy_rule_that_led_to_it() {
    let rig = BuiltInRig::with(|config| config.policy = Some(std::sync::Arc::new(DenyAll))).await;
    rig.apply(FORBIDDEN).await;
    let _worker = worker(&rig).await;
    rig.begin("forbidden", "d1", "ada", json!({})).await;
    rig.until("d1", is_escalated).await;
    let found = get(&rig, &escalation("d1", "pay", 1)).await;
    assert_eq!(
        (found.policy_rule.as_str(), found.reason().label()),
        ("no-payments", "GOVERNANCE")
    );
    let [attempt] = found.attempts.as_slice() else {
        panic!("{:#?}", found.attempts);
    };
    assert_eq!(
        (&*attempt.policy_rule, attempt.policy_decision().label()),
        ("no-payments", "deny")
    );
    assert_eq!(attempt.worker, "", "no worker had the task");
}

#[tokio::test]
async fn an_escalation_is_a_wait_of_its_own_kind() {
    let (rig, _worker) = blocked(NAMED, "named", "k1").await;
    let mut executions = rig.gateway.executions().await;
    let mut found = async |filter: &str| {
        let request = v1::ListExecutionsRequest {
            parent: "providers/b".into(),
            filter: filter.into(),
            ..v1::ListExecutionsRequest::default()
        };
        let answer = executions.list_executions(request).await.unwrap();
        answer.into_inner().executions
    };
    assert_eq!(found("waits.kind:APPROVAL").await, []);
    let escalated = found("waits.kind:ESCALATION").await;
    assert_eq!(escalated.len(), 1);
    let wait = &escalated[0].waits[0];
    assert_eq!(
        (wait.kind().label(), &*wait.name),
        ("escalation", "accounting")
    );
}
