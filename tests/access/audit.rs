//! What the access rules hide and what does not exist is recorded as a refusal, and a definition by its name.

use stateway_audit::Record;
use stateway_client::v1;
use stateway_provider_api::ErrorKind;
use tonic::Code;

use super::probing::{OPERATORS, every_verb};
use super::rig::{AccessRig, CALLERS, ORDER, RELEASE, TENANTS, name};
use crate::support::{Puppet, TestGateway};

/// Verb, actor, object and outcome of the records after the given number.
fn told(rig: &AccessRig, skipped: usize) -> Vec<[String; 4]> {
    let records = rig.records().into_iter().skip(skipped);
    let told = records.map(|it| [it.verb, it.actor, it.object, it.outcome]);
    told.collect()
}

async fn pending(rig: &AccessRig) -> String {
    let request = v1::ListApprovalsRequest {
        parent: "providers/b".into(),
        ..v1::ListApprovalsRequest::default()
    };
    loop {
        let mut client = rig.approvals().await;
        let listed = client.list_approvals(rig.by("ada", request.clone())).await;
        if let Some(first) = listed.unwrap().into_inner().approvals.first() {
            return first.name.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The records after the given number, without what differs between any two calls, and with one name for the
/// execution that they are about.
fn alike(rig: &AccessRig, skipped: usize, id: &str) -> Vec<Record> {
    let records = rig.records().into_iter().skip(skipped);
    let alike = records.map(|it| Record {
        object: it.object.replace(id, "X"),
        time: Record::default().time,
        request_id: String::new(),
        address: String::new(),
        ..it
    });
    alike.collect()
}

#[tokio::test]
async fn what_is_hidden_and_what_does_not_exist_leave_the_same_records() {
    let rules = format!("{TENANTS}{OPERATORS}");
    let rig = AccessRig::audited_with(&rules, &CALLERS).await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("theirs", "acme"))
        .await
        .unwrap();
    let mut records = Vec::new();
    for id in ["theirs", "absent"] {
        let before = rig.records().len();
        let asked = every_verb(&rig, "eve", &name(id)).await;
        let of = alike(&rig, before, id);
        // One record for each call, reads as well.
        assert_eq!(of.len(), asked.len(), "{id}");
        for record in &of {
            assert_eq!(record.outcome, "NOT_FOUND", "{record:?}");
            assert_eq!((&*record.actor, &*record.rule), ("eve", ""), "{record:?}");
            assert_ne!(record.permission, "", "{record:?}");
        }
        records.push(of);
    }
    assert_eq!(records[0], records[1]);
}

#[tokio::test]
async fn what_does_not_exist_is_no_refusal_for_a_caller_that_may_read_it() {
    let rig = AccessRig::audited().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("a1", "acme")).await.unwrap();
    let before = rig.records().len();
    // From an administrator nothing is hidden.
    let absent = rig.get("root", "absent").await;
    assert_eq!(absent.unwrap_err().code(), Code::NotFound);
    // A step that does not exist, of an execution that the caller may read.
    let step = v1::GetStepRequest {
        name: format!("{}/steps/none", name("a1")),
    };
    let mut client = rig.executions().await;
    let absent = client.get_step(rig.by("ada", step)).await;
    assert_eq!(absent.unwrap_err().code(), Code::NotFound);
    let name = pending(&rig).await;
    let get = v1::GetApprovalRequest { name };
    let mut client = rig.approvals().await;
    client.get_approval(rig.by("ada", get)).await.unwrap();
    assert_eq!(told(&rig, before), [[""; 4]; 0]);
}

#[tokio::test]
async fn an_engine_that_fails_is_no_refusal_of_its_callers() {
    let puppet = Puppet::new();
    let beside = |gateway: TestGateway| gateway.with_puppet("p", &puppet);
    let rig = AccessRig::made(TENANTS, &CALLERS, true, beside).await;
    puppet.fail(ErrorKind::Unavailable, None);
    let before = rig.records().len();
    let execution = "providers/p/executions/x".to_owned();
    let mut client = rig.executions().await;
    let events = v1::ListEventsRequest {
        parent: execution.clone(),
        ..v1::ListEventsRequest::default()
    };
    let failed = client.list_events(rig.by("ada", events)).await;
    assert_eq!(failed.unwrap_err().code(), Code::Unavailable);
    let wait = v1::WaitExecutionRequest {
        name: execution,
        ..v1::WaitExecutionRequest::default()
    };
    let failed = client.wait_execution(rig.by("ada", wait)).await;
    assert_eq!(failed.unwrap_err().code(), Code::Unavailable);
    assert_eq!(told(&rig, before), [[""; 4]; 0]);
}

#[tokio::test]
async fn hidden_and_absent_providers_and_definitions_leave_the_same_records() {
    let rules = r#"
[[rules]]
name = "orders"
who = { subject = "ada" }
may = "read"
where = 'provider = b AND definition = order'

[[rules]]
name = "root"
who = { subject = "root" }
may = "admin"
"#;
    let callers = [("root", &[] as &[&str], None), ("ada", &[], None)];
    let rig = AccessRig::audited_with(rules, &callers).await;
    rig.apply(RELEASE).await;
    rig.apply(ORDER).await;
    let before = rig.records().len();
    let mut providers = rig.rig.gateway.providers().await;
    let mut definitions = rig.definitions().await;
    for (provider, expected) in [
        ("providers/m", Code::NotFound),
        ("providers/absent", Code::NotFound),
        ("providers/b", Code::Ok),
    ] {
        let request = v1::GetProviderRequest {
            name: provider.into(),
        };
        let answer = providers.get_provider(rig.by("ada", request)).await;
        assert_eq!(answer.err().map_or(Code::Ok, |it| it.code()), expected);
    }
    for (definition, expected) in [
        ("definitions/release", Code::NotFound),
        ("definitions/absent", Code::NotFound),
        ("definitions/order", Code::Ok),
    ] {
        let request = v1::GetDefinitionRequest {
            name: definition.into(),
        };
        let answer = definitions.get_definition(rig.by("ada", request)).await;
        assert_eq!(answer.err().map_or(Code::Ok, |it| it.code()), expected);
    }
    let expected = [
        ["GetProvider", "ada", "providers/m", "NOT_FOUND"],
        ["GetProvider", "ada", "providers/absent", "NOT_FOUND"],
        ["GetDefinition", "ada", "definitions/release", "NOT_FOUND"],
        ["GetDefinition", "ada", "definitions/absent", "NOT_FOUND"],
    ];
    assert_eq!(
        told(&rig, before),
        expected.map(|it| it.map(ToOwned::to_owned))
    );
    for record in rig.records().into_iter().skip(before) {
        assert_eq!((&*record.permission, &*record.rule), ("read", ""));
    }
}

#[tokio::test]
async fn a_definition_is_recorded_by_its_name_whether_it_is_applied_or_refused() {
    let rig = AccessRig::audited().await;
    let before = rig.records().len();
    for (who, expected) in [("root", None), ("ada", Some(Code::PermissionDenied))] {
        let request = v1::ApplyDefinitionRequest {
            source: ORDER.into(),
            source_name: "/home/ada/order.yaml".into(),
            ..v1::ApplyDefinitionRequest::default()
        };
        let mut client = rig.definitions().await;
        let applied = client.apply_definition(rig.by(who, request)).await;
        assert_eq!(applied.err().map(|status| status.code()), expected);
    }
    let name = "definitions/order";
    let expected = [
        ["ApplyDefinition", "root", name, "OK"],
        ["ApplyDefinition", "ada", name, "PERMISSION_DENIED"],
    ];
    assert_eq!(
        told(&rig, before),
        expected.map(|it| it.map(ToOwned::to_owned))
    );
    let first = &rig.records()[before];
    assert_eq!(first.result, name);
}

#[tokio::test]
async fn a_start_is_recorded_with_the_rule_that_allowed_it() {
    let rig = AccessRig::audited().await;
    rig.apply(RELEASE).await;
    for (who, id, rule) in [("ada", "a1", "tenants-start"), ("root", "a2", "admins")] {
        rig.begin(who, "release", (id, "acme")).await.unwrap();
        let record = rig.records().pop().unwrap();
        assert_eq!((&*record.verb, &*record.actor), ("StartExecution", who));
        assert_eq!((&*record.outcome, &*record.proof), ("OK", "api-key"));
        assert_eq!((&*record.permission, &*record.rule), ("start", rule));
    }
    // A start that waits is recorded before it waits: the client or the gateway may end first.
    let before = rig.records().len();
    let start = v1::StartExecutionRequest {
        parent: "providers/b".into(),
        definition: "definitions/release".into(),
        execution_id: "a4".into(),
        input: Some(v1::Payload {
            data: r#"{"secret": "s3cret"}"#.into(),
            content_type: String::new(),
        }),
        labels: [("tenant".to_owned(), "acme".to_owned())].into(),
        wait: true,
        ..v1::StartExecutionRequest::default()
    };
    let mut client = rig.executions().await;
    let request = rig.by("ada", start);
    let waiting = tokio::spawn(async move { client.start_execution(request).await });
    while rig.records().len() == before {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let record = rig.records().pop().unwrap();
    assert_eq!((&*record.verb, &*record.outcome), ("StartExecution", "OK"));
    assert_eq!(record.result, super::rig::name("a4"));
    assert_eq!(
        (&*record.permission, &*record.rule),
        ("start", "tenants-start")
    );
    assert!(!waiting.is_finished());
    waiting.abort();
    // No rule allows the start for another tenant.
    let refused = rig.begin("ada", "release", ("a3", "evil")).await;
    assert_eq!(refused.unwrap_err().code(), Code::PermissionDenied);
    let record = rig.records().pop().unwrap();
    assert_eq!((&*record.permission, &*record.rule), ("start", ""));
    assert_eq!(
        rig.records().len(),
        before + 2,
        "the start that waited has one record"
    );
}
