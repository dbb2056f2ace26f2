//! What the access rules hide is recorded as a refusal, and a definition by its name.

use stateway_client::v1;
use tonic::Code;

use super::rig::{AccessRig, ORDER, RELEASE};

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

#[tokio::test]
async fn a_hidden_approval_leaves_a_record_and_an_absent_one_does_not() {
    let rig = AccessRig::audited().await;
    rig.apply(RELEASE).await;
    rig.begin("ada", "release", ("a1", "acme")).await.unwrap();
    let name = pending(&rig).await;
    let before = rig.records().len();
    let mut client = rig.approvals().await;
    let get = |name: &str| v1::GetApprovalRequest { name: name.into() };
    let hidden = client.get_approval(rig.by("eve", get(&name))).await;
    assert_eq!(hidden.unwrap_err().code(), Code::NotFound);
    let absent = name.replace("a1", "a2");
    let absent = client.get_approval(rig.by("eve", get(&absent))).await;
    assert_eq!(absent.unwrap_err().code(), Code::NotFound);
    client
        .get_approval(rig.by("ada", get(&name)))
        .await
        .unwrap();
    let expected = ["GetApproval", "eve", &*name, "NOT_FOUND"].map(ToOwned::to_owned);
    assert_eq!(told(&rig, before), [expected]);
    let last = rig.records().pop().unwrap();
    assert_eq!((&*last.permission, &*last.rule), ("read", ""));
}

#[tokio::test]
async fn a_hidden_provider_and_a_hidden_definition_leave_records() {
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
    for (provider, expected) in [("providers/m", Code::NotFound), ("providers/b", Code::Ok)] {
        let request = v1::GetProviderRequest {
            name: provider.into(),
        };
        let answer = providers.get_provider(rig.by("ada", request)).await;
        assert_eq!(answer.err().map_or(Code::Ok, |it| it.code()), expected);
    }
    for (definition, expected) in [
        ("definitions/release", Code::NotFound),
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
        ["GetDefinition", "ada", "definitions/release", "NOT_FOUND"],
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
