//! Approvals and escalations of hosted executions: one inbox, the rules of the core.

use std::sync::Arc;

use jiff::SignedDuration;
use stateway_hosted::provider::HostedProvider;
use stateway_model::{ErrorCategory, Payload, Reason, SubState};
use stateway_provider_api::{
    Approval, ApprovalState, Approvals as _, Call, CompensationChoice, DecideRequest, ErrorKind,
    EscalationState, InboxHints, InboxId, InboxRequest, Provider as _, ResolutionAction,
    ResolveRequest, StartDefinition, StartRequest, TaskFailure, TaskOutcome,
};

use crate::lab::Lab;
use crate::provider::{Worker, apply, call, completed, get, provider, start};

const SIGN: &str = "name: test\nsteps:\n  - {name: pack, agent: packer, timeout: 1m}\n  - {name: sign, approval: {role: boss, expiresAfter: 1h}, dependsOn: [pack], input: '${steps.pack.output}'}\n  - {name: ship, agent: packer, timeout: 1m, dependsOn: [sign]}";

fn person(name: &str, roles: &[&str]) -> Call {
    Call {
        actor: name.into(),
        roles: roles.iter().map(|role| Arc::from(*role)).collect(),
        ..call()
    }
}

fn pending() -> InboxRequest {
    InboxRequest {
        hints: InboxHints {
            pending_only: true,
            ..InboxHints::default()
        },
        page_size: 10,
        cursor: None,
    }
}

fn decide(id: &InboxId, grant: bool, request: &str) -> DecideRequest {
    DecideRequest {
        id: id.clone(),
        grant,
        comment: "looked at".to_owned(),
        etag: String::new(),
        request_id: request.parse().unwrap(),
    }
}

async fn inbox(provider: &HostedProvider<Lab>) -> Vec<Approval> {
    let page = provider.list_approvals(&call(), pending()).await.unwrap();
    page.items
}

/// An execution that waits for the approval of its step `sign`.
async fn waits_for_approval(provider: &HostedProvider<Lab>) -> Approval {
    apply(provider, SIGN).await;
    let mut worker = Worker::connect(provider, "w1", 1).await;
    start(provider, "r1").await;
    let task = worker.task().await;
    worker.answer(&task, completed(r#"{"box":7}"#)).await;
    let mut found = inbox(provider).await;
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[tokio::test]
async fn an_approval_is_listed_granted_once_and_remembered() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let asked = waits_for_approval(&provider).await;
    assert_eq!((asked.step.as_str(), asked.role.as_str()), ("sign", "boss"));
    assert_eq!(
        asked.expire_time,
        Some(lab.now() + SignedDuration::from_hours(1))
    );
    let seen = get(&provider, &asked.id.execution).await;
    assert_eq!(
        seen.reported,
        Some((SubState::Waiting, Some(Reason::AwaitingInput)))
    );
    let shown = provider.get_approval(&call(), &asked.id).await.unwrap();
    assert_eq!(shown.input, Some(Payload::json(r#"{"box":7}"#)));
    let boss = person("bob", &["boss"]);
    let granted = decide(&asked.id, true, "d1");
    let done = provider.decide(&boss, granted.clone()).await.unwrap();
    assert_eq!(done.state, ApprovalState::Granted);
    assert_eq!(done.decision.as_ref().unwrap().by, "bob");
    // The same request, and the same decision under another id, have no further effect.
    let again = provider.decide(&boss, granted).await.unwrap();
    assert_eq!(again, done);
    let other = provider.decide(&boss, decide(&asked.id, true, "d2")).await;
    assert_eq!(other.unwrap(), done);
    // Anything else is refused with who decided.
    let refused = provider.decide(&boss, decide(&asked.id, false, "d3")).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.kind, refused.reason()),
        (ErrorKind::FailedPrecondition, "ALREADY_DECIDED")
    );
    assert!(refused.message.contains("bob"), "{}", refused.message);
    assert_eq!(inbox(&provider).await, []);
    // Every state of one execution is listed, from its log.
    let all = InboxRequest {
        hints: InboxHints {
            execution: Some(asked.id.execution.clone()),
            ..InboxHints::default()
        },
        ..pending()
    };
    let all = provider.list_approvals(&call(), all).await.unwrap().items;
    assert_eq!(all[0].state, ApprovalState::Granted);
}

#[tokio::test]
async fn an_approval_needs_its_role_and_another_person_than_the_starter() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(
        &provider,
        "name: test\nsteps: [{name: sign, approval: {role: boss, expiresAfter: 1h}}]",
    )
    .await;
    let definition = StartDefinition::Portable {
        id: "test".to_owned(),
        source: None,
    };
    let begin = StartRequest::new(definition, "r1".parse().unwrap());
    let ada = person("ada", &["boss"]);
    let started = provider.start(&ada, begin).await.unwrap();
    let asked = inbox(&provider).await.remove(0);
    let bob = person("bob", &["boss"]);
    for (who, kind, reason) in [
        (
            person("eve", &["clerk"]),
            ErrorKind::PermissionDenied,
            "ROLE_REQUIRED",
        ),
        (ada, ErrorKind::PermissionDenied, "SELF_APPROVAL"),
    ] {
        let refused = provider.decide(&who, decide(&asked.id, true, "d1")).await;
        let refused = refused.unwrap_err();
        assert_eq!((refused.kind, refused.reason()), (kind, reason));
    }
    // A stale etag is refused, the current one is not.
    let mut stale = decide(&asked.id, false, "d3");
    stale.etag = "no".to_owned();
    let refused = provider.decide(&bob, stale).await;
    assert_eq!(refused.unwrap_err().reason(), "ETAG_MISMATCH");
    let shown = provider.get_approval(&call(), &asked.id).await.unwrap();
    let mut fresh = decide(&asked.id, false, "d4");
    fresh.etag = shown.etag();
    let done = provider.decide(&bob, fresh).await.unwrap();
    assert_eq!(done.state, ApprovalState::Rejected);
    // `onReject` is `cancel` by default.
    let seen = get(&provider, &started.id).await;
    assert_eq!(
        seen.reported,
        Some((SubState::Failed, Some(Reason::Rejected)))
    );
}

#[tokio::test]
async fn an_approval_expires_by_the_alarm() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let asked = waits_for_approval(&provider).await;
    lab.pass(SignedDuration::from_mins(61));
    let shown = provider.get_approval(&call(), &asked.id).await.unwrap();
    assert_eq!(shown.state, ApprovalState::Expired);
    let late = provider
        .decide(&person("bob", &["boss"]), decide(&asked.id, true, "d1"))
        .await;
    assert_eq!(late.unwrap_err().reason(), "APPROVAL_EXPIRED");
}

#[tokio::test]
async fn an_unknown_approval_is_not_found() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let asked = waits_for_approval(&provider).await;
    for (id, kind) in [
        ("sign~9", ErrorKind::NotFound),
        ("sign~1.2", ErrorKind::NotFound),
        ("sign", ErrorKind::InvalidArgument),
    ] {
        let id = InboxId {
            id: id.to_owned(),
            ..asked.id.clone()
        };
        let found = provider.get_approval(&call(), &id).await.unwrap_err();
        assert_eq!(found.kind, kind, "{}", id.id);
    }
}

#[tokio::test]
async fn a_list_ends_between_two_requests_of_one_execution() {
    let lab = Lab::default();
    let provider = provider(&lab);
    let step =
        |name: &str| format!("  - {{name: {name}, approval: {{role: boss, expiresAfter: 1h}}}}");
    let steps: Vec<_> = ["a", "b", "c"].map(step).into();
    apply(
        &provider,
        &format!("name: test\nsteps:\n{}", steps.join("\n")),
    )
    .await;
    for request in ["r1", "r2"] {
        start(&provider, request).await;
    }
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let request = InboxRequest {
            page_size: 2,
            cursor,
            ..pending()
        };
        let page = provider.list_approvals(&call(), request).await.unwrap();
        assert!(page.items.len() <= 2);
        found.extend(page.items.into_iter().map(|it| it.id));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let steps: Vec<_> = found.iter().map(|id| id.id.as_str()).collect();
    assert_eq!(steps, ["a~1", "b~1", "c~1", "a~1", "b~1", "c~1"]);
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 6);
}

const ESCALATES: &str = "name: test\nsteps:\n  - name: pack\n    agent: packer\n    timeout: 1m\n    onFailure: escalate\n    retryPolicy: {maxRetries: 0}";

fn failed(category: ErrorCategory) -> TaskOutcome {
    TaskOutcome::Failed(TaskFailure {
        category,
        message: "no paper".to_owned(),
        no_retry: false,
        code: String::new(),
        effects_unknown: false,
        retry_after: None,
    })
}

fn resolve(id: &InboxId, action: ResolutionAction, request: &str) -> ResolveRequest {
    ResolveRequest {
        id: id.clone(),
        action,
        compensation: CompensationChoice::AsDefined,
        comment: String::new(),
        etag: String::new(),
        request_id: request.parse().unwrap(),
    }
}

#[tokio::test]
async fn an_escalation_is_resolved_by_an_operator_and_the_step_runs_again() {
    let lab = Lab::default();
    let provider = provider(&lab);
    apply(&provider, ESCALATES).await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let started = start(&provider, "r1").await;
    let task = worker.task().await;
    worker.answer(&task, failed(ErrorCategory::External)).await;
    let found = provider.list_escalations(&call(), pending()).await.unwrap();
    let asked = &found.items[0];
    assert_eq!(asked.roles, ["operator"]);
    let shown = provider.get_escalation(&call(), &asked.id).await.unwrap();
    assert_eq!(shown.history.len(), 1);
    assert_eq!(shown.error.as_ref().unwrap().message, "no paper");
    let nobody = provider
        .resolve(
            &person("eve", &["clerk"]),
            resolve(&asked.id, ResolutionAction::Resume, "e1"),
        )
        .await;
    assert_eq!(nobody.unwrap_err().reason(), "ROLE_REQUIRED");
    let operator = person("olga", &["operator"]);
    let resume = resolve(&asked.id, ResolutionAction::Resume, "e2");
    let done = provider.resolve(&operator, resume.clone()).await.unwrap();
    assert_eq!(done.state, EscalationState::Resolved);
    assert_eq!(provider.resolve(&operator, resume).await.unwrap(), done);
    let other = resolve(&asked.id, ResolutionAction::Cancel, "e3");
    let other = provider.resolve(&operator, other).await.unwrap_err();
    assert_eq!(other.reason(), "STALE_ESCALATION");
    let task = worker.task().await;
    assert_eq!(task.attempt, 2);
    worker.answer(&task, completed("1")).await;
    let seen = get(&provider, &started.id).await;
    assert_eq!(seen.reported, Some((SubState::Succeeded, None)));
}

#[tokio::test]
async fn a_governance_failure_escalates_and_a_resolution_can_cancel() {
    let lab = Lab::default();
    let provider = provider(&lab).with_escalation_roles(vec!["auditor".into()]);
    apply(
        &provider,
        "name: test\nsteps: [{name: pack, agent: packer, timeout: 1m}]",
    )
    .await;
    let mut worker = Worker::connect(&provider, "w1", 1).await;
    let started = start(&provider, "r1").await;
    let task = worker.task().await;
    worker
        .answer(&task, failed(ErrorCategory::Governance))
        .await;
    let found = provider.list_escalations(&call(), pending()).await.unwrap();
    let asked = &found.items[0];
    assert_eq!(asked.roles, ["auditor"]);
    let cancel = resolve(&asked.id, ResolutionAction::Cancel, "e1");
    let done = provider.resolve(&person("ann", &["auditor"]), cancel).await;
    assert_eq!(done.unwrap().state, EscalationState::Resolved);
    let seen = provider
        .get(&call(), &started.id, stateway_provider_api::View::Basic)
        .await
        .unwrap();
    assert_eq!(
        seen.reported,
        Some((SubState::Failed, Some(Reason::Cancelled)))
    );
}
