//! Access rules decide a start by its request, and other verbs by the execution that they change.

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
    let expected = v1::Execution {
        name: name("r"),
        payloads_redacted: true,
        ..v1::Execution::default()
    };
    assert_eq!(started, expected);
    rig.apply("name: paid\nsteps: [{name: paid, signal: settled}]\n")
        .await;
    rig.begin("root", "paid", ("p", "")).await.unwrap();
    let signal = v1::SignalExecutionRequest {
        name: name("p"),
        signal: "settled".into(),
        ..v1::SignalExecutionRequest::default()
    };
    let signalled = rig
        .executions()
        .await
        .signal_execution(rig.by("ci", signal))
        .await;
    let expected = v1::Execution {
        name: name("p"),
        ..expected
    };
    assert_eq!(signalled.unwrap().into_inner(), expected);
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

#[tokio::test]
async fn a_rule_about_labels_does_not_allow_what_has_no_labels() {
    let rules = r#"
[[rules]]
name = "not-prod"
who = { subject = "dev" }
may = ["developer", "operator"]
where = 'NOT labels.env = prod'

[[rules]]
name = "root"
who = { subject = "root" }
may = "admin"
"#;
    const NIGHTLY: &str = "\
name: nightly
trigger:
  schedule: '0 3 * * *'
steps:
  - name: sign-off
    approval: {role: ops}
";
    let callers = [("root", &[] as &[&str], None), ("dev", &[], None)];
    let rig = AccessRig::with(rules, &callers).await;
    rig.apply(NIGHTLY).await;
    let apply = v1::ApplyDefinitionRequest {
        source: RELEASE.into(),
        ..v1::ApplyDefinitionRequest::default()
    };
    let delete = v1::DeleteDefinitionRequest {
        name: "definitions/nightly".into(),
        ..v1::DeleteDefinitionRequest::default()
    };
    let disable = v1::DisableTriggerRequest {
        name: "definitions/nightly/trigger".into(),
        ..v1::DisableTriggerRequest::default()
    };
    let enable = v1::EnableTriggerRequest {
        name: "definitions/nightly/trigger".into(),
        ..v1::EnableTriggerRequest::default()
    };
    let mut definitions = rig.definitions().await;
    let mut answers = Vec::new();
    let applied = definitions.apply_definition(rig.by("dev", apply)).await;
    answers.push(("define", "release", applied.map(drop)));
    let deleted = definitions.delete_definition(rig.by("dev", delete)).await;
    answers.push(("define", "nightly", deleted.map(drop)));
    let mut triggers = rig.triggers().await;
    let disabled = triggers.disable_trigger(rig.by("dev", disable)).await;
    answers.push(("steer", "nightly", disabled.map(drop)));
    let enabled = triggers.enable_trigger(rig.by("dev", enable)).await;
    answers.push(("steer", "nightly", enabled.map(drop)));
    for (permission, definition, answer) in answers {
        let what = format!("{permission} {definition}");
        let Err(status) = answer else {
            panic!("{what} was allowed");
        };
        assert_eq!(status.code(), Code::PermissionDenied, "{what}: {status}");
        assert_eq!(reason_of(&status), "ACCESS_DENIED");
        // `stateway access explain` decides the same.
        let case = stateway_access::cases::Case {
            subject: "dev".into(),
            may: permission.into(),
            on: format!("definitions/{definition}"),
            ..stateway_access::cases::Case::default()
        };
        let mut question = case.question().unwrap();
        question.default_provider("b");
        let parsed = stateway_access::Rules::parse(rules, stateway_access::Place::OwnFile);
        let grants = parsed.unwrap().grants(&question.caller);
        let decided = grants.decide(question.permission, &question.object());
        assert!(!decided.allowed, "{what}");
    }
}

#[tokio::test]
async fn a_caller_that_may_resolve_and_not_read_gets_the_name_alone() {
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
    let name = rig.escalated("e", "acme").await;
    let mut client = rig.approvals().await;
    let get = v1::GetEscalationRequest { name: name.clone() };
    let unread = client.get_escalation(rig.by("bot", get)).await;
    assert_eq!(unread.unwrap_err().code(), Code::PermissionDenied);
    let resolve = v1::ResolveEscalationRequest {
        name: name.clone(),
        action: v1::resolution::Action::Cancel.into(),
        ..v1::ResolveEscalationRequest::default()
    };
    let resolved = client.resolve_escalation(rig.by("bot", resolve)).await;
    let expected = v1::Escalation {
        name,
        ..v1::Escalation::default()
    };
    assert_eq!(resolved.unwrap().into_inner(), expected);
}

#[tokio::test]
async fn a_start_without_a_provider_does_not_reveal_a_hidden_definition() {
    let rules = r#"
[[rules]]
name = "orders"
who = { subject = "ada" }
may = ["read", "start"]
where = 'definition = order'

[[rules]]
name = "root"
who = { subject = "root" }
may = "admin"
"#;
    let callers = [("root", &[] as &[&str], None), ("ada", &[], None)];
    let rig = AccessRig::with_second_engine(rules, &callers).await;
    rig.apply(ORDER).await;
    rig.apply(RELEASE).await;
    let start = async |who: &str, definition: &str| {
        let request = v1::StartExecutionRequest {
            definition: format!("definitions/{definition}"),
            ..v1::StartExecutionRequest::default()
        };
        rig.executions()
            .await
            .start_execution(rig.by(who, request))
            .await
    };
    // Several providers have it, and one of them is the default.
    assert!(start("ada", "order").await.is_ok());
    let hidden = start("ada", "release").await.unwrap_err();
    let absent = start("ada", "nothing").await.unwrap_err();
    assert_eq!(
        whole(&hidden, ("release", "X")),
        whole(&absent, ("nothing", "X"))
    );
    // A caller that may read definitions hears that it has mistyped one.
    assert_eq!(
        reason_of(&start("root", "nothing").await.unwrap_err()),
        "DEFINITION_NOT_FOUND"
    );
}

#[tokio::test]
async fn an_escalation_is_not_resolved_with_roles_that_the_identity_does_not_have() {
    let rules = r#"
[[rules]]
name = "all"
who = { subject = "*" }
may = "admin"
"#;
    let callers = [
        ("root", &["admin"] as &[&str], None),
        ("mia", &["member"], None),
        ("olga", &["ops"], None),
    ];
    let rig = AccessRig::with(rules, &callers).await;
    let name = rig.escalated("e1", "").await;
    let resolve = |who: &str, claimed: Option<&'static str>| {
        let request = v1::ResolveEscalationRequest {
            name: name.clone(),
            action: v1::resolution::Action::Resume.into(),
            ..v1::ResolveEscalationRequest::default()
        };
        let mut request = rig.by(who, request);
        if let Some(roles) = claimed {
            let roles = roles.parse().unwrap();
            request.metadata_mut().insert("x-stateway-roles", roles);
        }
        request
    };
    let mut client = rig.approvals().await;
    // The rules allow it, and the role of the escalation is missing.
    let refused = client.resolve_escalation(resolve("mia", None)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert_eq!(reason_of(&refused), "ROLE_REQUIRED");
    let claimed = client.resolve_escalation(resolve("mia", Some("ops"))).await;
    let claimed = claimed.unwrap_err();
    assert_eq!(claimed.code(), Code::Unauthenticated, "{claimed}");
    assert_eq!(reason_of(&claimed), "IDENTITY_HEADERS_NOT_ACCEPTED");
    let get = v1::GetEscalationRequest { name: name.clone() };
    let escalation = client.get_escalation(rig.by("root", get)).await;
    let escalation = escalation.unwrap().into_inner();
    assert_eq!(escalation.state(), v1::escalation::State::Pending);
    let resolved = client.resolve_escalation(resolve("olga", None)).await;
    let resolved = resolved.unwrap().into_inner();
    assert_eq!(resolved.state(), v1::escalation::State::Resolved);
}
