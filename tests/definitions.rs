//! Definitions are checked, kept by revision, and run where they can.

use stateway_client::v1;
use stateway_client::v1::definition_step::{Consequence, Kind};
use stateway_client::v1::definitions_client::DefinitionsClient;
use stateway_client::v1::diagnostic::Severity;
use stateway_client::v1::portability::Verdict;
use stateway_client::v1::triggers_client::TriggersClient;
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{BuiltInRig, Puppet, TestGateway, clock, error_info, hint_of, reason_of};

const HELLO: &str = "\
name: hello
description: Says hello.
steps:
  - name: greet
    agent: greeter
    timeout: 5m
";

fn apply(source: &str) -> v1::ApplyDefinitionRequest {
    v1::ApplyDefinitionRequest {
        source: source.into(),
        source_name: "hello.yaml".into(),
        ..v1::ApplyDefinitionRequest::default()
    }
}

fn get(name: &str) -> v1::GetDefinitionRequest {
    v1::GetDefinitionRequest { name: name.into() }
}

#[tokio::test]
async fn applying_twice_changes_nothing_and_a_new_text_is_a_new_revision() {
    let rig = BuiltInRig::start().await;
    let mut client = rig.definitions().await;
    let first = client.apply_definition(apply(HELLO)).await.unwrap();
    let (first, changed) = applied(first.into_inner());
    assert_eq!(first.name, "definitions/hello");
    assert_eq!(first.revision.len(), 64);
    assert_eq!(first.description, "Says hello.");
    assert!(changed && first.create_time.is_some());
    let again = format!("# the same, with a comment\n{HELLO}");
    let again = client.apply_definition(apply(&again)).await.unwrap();
    let (again, changed) = applied(again.into_inner());
    assert_eq!((changed, &again.revision), (false, &first.revision));
    let other = HELLO.replace("5m", "6m");
    let second = client.apply_definition(apply(&other)).await.unwrap();
    let (second, changed) = applied(second.into_inner());
    assert!(changed);
    assert_ne!(second.revision, first.revision);
    let newest = client.get_definition(get("definitions/hello")).await;
    let newest = newest.unwrap().into_inner();
    assert_eq!((newest.revision, newest.source), (second.revision, other));
}

#[tokio::test]
async fn a_repeated_request_does_not_bring_an_old_revision_back() {
    let rig = BuiltInRig::start().await;
    let mut client = rig.definitions().await;
    let request = v1::ApplyDefinitionRequest {
        request_id: "apply-1".into(),
        ..apply(HELLO)
    };
    let first = client.apply_definition(request.clone()).await.unwrap();
    let (first, _) = applied(first.into_inner());
    let newer = rig.apply(&HELLO.replace("5m", "6m")).await;
    let again = client.apply_definition(request.clone()).await.unwrap();
    let (again, changed) = applied(again.into_inner());
    assert_eq!((again.revision, changed), (first.revision, false));
    let current = client.get_definition(get("definitions/hello")).await;
    assert_eq!(current.unwrap().into_inner().revision, newer.revision);
    let other = v1::ApplyDefinitionRequest {
        source: HELLO.replace("5m", "7m"),
        ..request
    };
    let status = client.apply_definition(other).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    assert_eq!(reason_of(&status), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn a_definition_tells_what_a_picture_of_it_needs() {
    let rig = BuiltInRig::start().await;
    let source = "\
name: ship
failurePolicy: compensate
steps:
  - {name: pack, agent: packer, action: pack it, timeout: 5m}
  - {name: ask, approval: {role: ops, expiresAfter: 1h, onReject: fail}, dependsOn: [pack]}
  - {name: rest, sleep: 90s, dependsOn: [ask], when: '${input.slow} == true'}
compensation:
  - {step: pack, agent: packer, action: unpack, timeout: 5m}
";
    rig.apply(source).await;
    let mut client = rig.definitions().await;
    let found = client.get_definition(get("definitions/ship")).await;
    let pack = v1::DefinitionStep {
        name: "pack".into(),
        kind: Kind::Task.into(),
        role: "packer".into(),
        summary: "pack it".into(),
        compensated: true,
        ..v1::DefinitionStep::default()
    };
    let ask = v1::DefinitionStep {
        name: "ask".into(),
        kind: Kind::Approval.into(),
        depends_on: vec!["pack".into()],
        role: "ops".into(),
        summary: "expires after 1h".into(),
        on_reject: Consequence::Fail.into(),
        on_expiry: Consequence::Escalate.into(),
        ..v1::DefinitionStep::default()
    };
    let rest = v1::DefinitionStep {
        name: "rest".into(),
        kind: Kind::Sleep.into(),
        depends_on: vec!["ask".into()],
        summary: "1m30s".into(),
        condition: "${input.slow} == true".into(),
        ..v1::DefinitionStep::default()
    };
    assert_eq!(found.unwrap().into_inner().steps, [pack, ask, rest]);
    let listed = client
        .list_definitions(v1::ListDefinitionsRequest::default())
        .await;
    assert_eq!(listed.unwrap().into_inner().definitions[0].steps, []);
}

#[tokio::test]
async fn a_revision_is_found_by_its_first_digits() {
    let rig = BuiltInRig::start().await;
    let old = rig.apply(HELLO).await.revision;
    let new = rig.apply(&HELLO.replace("5m", "6m")).await.revision;
    let mut client = rig.definitions().await;
    for digits in [old.as_str(), &old[..8], &old[..20]] {
        let name = format!("definitions/hello/revisions/{digits}");
        let found = client
            .get_definition(get(&name))
            .await
            .unwrap()
            .into_inner();
        assert_eq!((found.revision.as_str(), &*found.source), (&*old, HELLO));
        assert_eq!(found.revisions, [new.as_str(), &old]);
    }
    let nobody = "definitions/hello/revisions/00000000";
    let status = client.get_definition(get(nobody)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert_eq!(reason_of(&status), "REVISION_NOT_FOUND");
    let message = status.message();
    assert!(
        message.ends_with("the definition `hello` has no revision 00000000"),
        "{message}"
    );
    for wrong in [
        "",
        "hello",
        "definitions/hello/revisions/0000",
        "providers/b/definitions/",
        "providers/b/definitions/x/revisions/",
    ] {
        let status = client.get_definition(get(wrong)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong}");
    }
    let status = client.get_definition(get("definitions/nobody")).await;
    assert_eq!(status.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_provider_without_definitions_of_its_own_says_so() {
    let rig = BuiltInRig::start().await;
    let mut client = rig.definitions().await;
    let parent = || "providers/b".to_owned();
    let list = v1::ListDefinitionsRequest {
        parent: parent(),
        ..v1::ListDefinitionsRequest::default()
    };
    let native = v1::ApplyDefinitionRequest {
        parent: parent(),
        definition_id: "x".into(),
        ..apply("{}")
    };
    let check = v1::ValidateDefinitionRequest {
        source: "{}".into(),
        parent: parent(),
        ..v1::ValidateDefinitionRequest::default()
    };
    let refusals = [
        client
            .get_definition(get("providers/b/definitions/x"))
            .await
            .unwrap_err(),
        client.list_definitions(list.clone()).await.unwrap_err(),
        client.apply_definition(native.clone()).await.unwrap_err(),
        client.validate_definition(check).await.unwrap_err(),
    ];
    for status in refusals {
        assert_eq!(status.code(), Code::Unimplemented);
        assert_eq!(reason_of(&status), "CAPABILITY_NOT_SUPPORTED");
    }
    // Every provider has its own, so one has to be named; a portable one names itself.
    let every = v1::ListDefinitionsRequest {
        parent: "providers/-".into(),
        ..list
    };
    let status = client.list_definitions(every).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let unnamed = v1::ApplyDefinitionRequest {
        parent: String::new(),
        ..native
    };
    let status = client.apply_definition(unnamed).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn what_is_not_valid_is_refused_with_every_place() {
    let rig = BuiltInRig::start().await;
    let mut client = rig.definitions().await;
    let wrong = "name: x\nsteps:\n  - name: a\n    dependsOn: [b]\n    timeout: soon\n";
    let status = client.apply_definition(apply(wrong)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(reason_of(&status), "INVALID_DEFINITION");
    let details = status.get_error_details();
    let violations = &details.bad_request().expect("violations").field_violations;
    assert!(violations.len() >= 2, "{violations:#?}");
    let said: Vec<_> = violations
        .iter()
        .map(|found| found.description.as_str())
        .collect();
    assert!(
        said.iter().any(|said| said.starts_with("hello.yaml:4:")),
        "{said:#?}"
    );
    assert!(
        said.iter().any(|said| said.starts_with("hello.yaml:5:")),
        "{said:#?}"
    );
    assert!(violations.iter().all(|found| found.field == "source"));
    let nameless = client.apply_definition(apply("steps: [{name: a}]")).await;
    assert_eq!(reason_of(&nameless.unwrap_err()), "INVALID_DEFINITION");
    let listed = client
        .list_definitions(v1::ListDefinitionsRequest::default())
        .await;
    assert_eq!(listed.unwrap().into_inner().definitions, []);
}

#[tokio::test]
async fn a_check_stores_nothing() {
    let rig = BuiltInRig::start().await;
    let mut client = rig.definitions().await;
    let request = v1::ApplyDefinitionRequest {
        validate_only: true,
        ..apply(HELLO)
    };
    let checked = client.apply_definition(request).await.unwrap();
    let (checked, _) = applied(checked.into_inner());
    assert_eq!(checked.create_time, None);
    let status = client.get_definition(get("definitions/hello")).await;
    assert_eq!(status.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn definitions_are_listed_by_name_in_pages_without_their_sources() {
    let rig = BuiltInRig::start().await;
    for name in ["c", "a", "b"] {
        rig.apply(&HELLO.replace("hello", name)).await;
    }
    let mut client = rig.definitions().await;
    let mut request = v1::ListDefinitionsRequest {
        page_size: 2,
        ..v1::ListDefinitionsRequest::default()
    };
    let first = client
        .list_definitions(request.clone())
        .await
        .unwrap()
        .into_inner();
    request.page_token = first.next_page_token;
    let second = client.list_definitions(request).await.unwrap().into_inner();
    assert_eq!(second.next_page_token, "");
    let all = first.definitions.iter().chain(&second.definitions);
    let names: Vec<_> = all.clone().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["definitions/a", "definitions/b", "definitions/c"]);
    assert!(all.clone().all(|found| found.source.is_empty()));
    assert!(
        all.clone()
            .all(|found| found.description.starts_with("Says "))
    );
    let request = v1::ListDefinitionsRequest {
        page_size: 2,
        page_token: "nonsense".into(),
        ..v1::ListDefinitionsRequest::default()
    };
    let status = client.list_definitions(request).await.unwrap_err();
    assert_eq!(reason_of(&status), "INVALID_PAGE_TOKEN");
}

#[tokio::test]
async fn checking_needs_no_engine_and_says_who_can_run_it() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let channel = gateway.channel().await;
    let mut client = v1::definitions_client::DefinitionsClient::new(channel);
    let request = v1::ValidateDefinitionRequest {
        source: HELLO.into(),
        ..v1::ValidateDefinitionRequest::default()
    };
    let checked = client
        .validate_definition(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(checked.name, "definitions/hello");
    assert_eq!(checked.revision.len(), 64);
    let [portability] = checked.portability.as_slice() else {
        panic!("{:#?}", checked.portability);
    };
    assert_eq!(portability.verdict(), Verdict::Impossible);
    assert_eq!(
        portability.reasons,
        [
            "providers of kind step-functions run only their native definitions, not portable definitions"
        ]
    );

    let rig = BuiltInRig::start().await;
    let request = v1::ValidateDefinitionRequest {
        source: HELLO.replace("greet\n", "greet\n    colour: red\n"),
        source_name: "x.yaml".into(),
        ..v1::ValidateDefinitionRequest::default()
    };
    let mut client = rig.definitions().await;
    let checked = client
        .validate_definition(request)
        .await
        .unwrap()
        .into_inner();
    let wrong = &checked.diagnostics[0];
    assert_eq!(wrong.severity(), Severity::Error);
    assert_eq!((wrong.source_name.as_str(), wrong.line), ("x.yaml", 5));
    assert!(wrong.column > 0 && !wrong.hint.is_empty() && !wrong.rule.is_empty());
    assert_eq!(
        (checked.revision.as_str(), checked.portability.len()),
        ("", 0)
    );
    let request = v1::ValidateDefinitionRequest {
        source: HELLO.into(),
        ..v1::ValidateDefinitionRequest::default()
    };
    let checked = client
        .validate_definition(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(checked.portability[0].verdict(), Verdict::Exact);
}

#[tokio::test]
async fn a_portable_definition_goes_to_the_only_provider_that_can_run_it() {
    let rig = BuiltInRig::start().await;
    rig.apply(HELLO).await;
    let mut client = rig.gateway.executions().await;
    let request = v1::StartExecutionRequest {
        definition: "definitions/hello".into(),
        ..v1::StartExecutionRequest::default()
    };
    let started = client.start_execution(request.clone()).await;
    let started = started.expect("it starts").into_inner();
    assert!(
        started.name.starts_with("providers/b/executions/"),
        "{started:#?}"
    );
    assert_eq!(started.definition, "definitions/hello");

    let without = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let status = without.executions().await.start_execution(request).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert_eq!(reason_of(&status), "CAPABILITY_NOT_SUPPORTED");
    assert_ne!(hint_of(&status), "");
}

/// The definition that was applied, and whether it changed.
fn applied(response: v1::ApplyDefinitionResponse) -> (v1::Definition, bool) {
    (response.definition.expect("a definition"), response.changed)
}

fn start(definition: &str) -> v1::StartExecutionRequest {
    v1::StartExecutionRequest {
        definition: definition.into(),
        ..v1::StartExecutionRequest::default()
    }
}

/// The message and the suggestion of a refusal that says a definition does not exist.
fn unknown(status: &tonic::Status) -> (String, Option<String>) {
    assert_eq!(status.code(), Code::NotFound, "{status}");
    let (reason, mut metadata) = error_info(status);
    assert_eq!(reason, "DEFINITION_NOT_FOUND");
    (status.message().to_owned(), metadata.remove("suggestion"))
}

#[tokio::test]
async fn a_misspelt_definition_is_refused_with_the_name_that_was_meant() {
    let expected = (
        "no definition `helo`; did you mean `hello`?".to_owned(),
        Some("hello".to_owned()),
    );
    let alone = BuiltInRig::start().await;
    let beside = BuiltInRig::start_beside(|gateway| gateway.with_memory("m", &clock())).await;
    for rig in [alone, beside] {
        rig.apply(HELLO).await;
        let mut executions = rig.gateway.executions().await;
        for name in ["definitions/helo", "providers/b/definitions/helo"] {
            let status = executions.start_execution(start(name)).await.unwrap_err();
            assert_eq!(unknown(&status), expected, "{name}");
        }
        let mut definitions = rig.definitions().await;
        let status = definitions.get_definition(get("definitions/helo")).await;
        assert_eq!(unknown(&status.unwrap_err()), expected);
        let status = definitions.get_definition(get("definitions/nobody")).await;
        let nothing_similar = ("no definition `nobody`".to_owned(), None);
        assert_eq!(unknown(&status.unwrap_err()), nothing_similar);
    }
}

#[tokio::test]
async fn a_misspelt_definition_is_no_question_of_the_provider_where_several_could_run_it() {
    let rig = BuiltInRig::start().await;
    let directory = tempfile::tempdir().unwrap();
    let other = crate::support::BuiltIn::open(directory.path().join("other.db"));
    let two = TestGateway::new()
        .with_engine("b", rig.built_in())
        .with_engine("c", other)
        .start()
        .await;
    rig.apply(HELLO).await;
    let mut client = two.executions().await;
    let status = client.start_execution(start("definitions/helo")).await;
    assert_eq!(
        unknown(&status.unwrap_err()),
        (
            "no definition `helo`; did you mean `hello`?".to_owned(),
            Some("hello".to_owned())
        )
    );
    // A definition that one of them has starts there.
    let started = client.start_execution(start("definitions/hello")).await;
    let name = started.unwrap().into_inner().name;
    assert!(name.starts_with("providers/b/"), "{name}");
}

#[tokio::test]
async fn one_of_several_providers_is_the_default_of_a_definition() {
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| crate::support::BuiltIn::open(directory.path().join(name));
    let two = TestGateway::new()
        .with_engine("b", open("b.db"))
        .with_engine("c", open("c.db"))
        .start()
        .await;
    let channel = two.channel().await;
    let mut definitions = DefinitionsClient::new(channel.clone());
    let source = "name: nightly\ntrigger: {event: tick, schedule: '0 3 * * *'}\nsteps: [{name: a, sleep: 1s}]";
    let apply = v1::ApplyDefinitionRequest {
        source: source.to_owned(),
        ..Default::default()
    };
    definitions.apply_definition(apply).await.unwrap();
    let found = definitions.get_definition(get("definitions/nightly")).await;
    let found = found.unwrap().into_inner();
    assert_eq!(found.default_provider, "providers/b");
    assert!(found.trigger.unwrap().disabled.is_none());
    let mut executions = two.executions().await;
    let started = executions
        .start_execution(start("definitions/nightly"))
        .await;
    let name = started.unwrap().into_inner().name;
    assert!(name.starts_with("providers/b/"), "{name}");
    // An event starts it on the default provider and on no other.
    let mut triggers = TriggersClient::new(channel);
    let event = v1::PublishEventRequest {
        parent: "providers/-".to_owned(),
        event: "tick".to_owned(),
        ..Default::default()
    };
    let published = triggers.publish_event(event).await.unwrap().into_inner();
    assert_eq!(
        (published.executions.len(), published.refused.len()),
        (1, 0)
    );
    // It is the default already; the other one cannot store that it is.
    let migrate = |provider: &str| v1::MigrateDefinitionRequest {
        name: "definitions/nightly".to_owned(),
        provider: provider.to_owned(),
        ..Default::default()
    };
    let moved = definitions.migrate_definition(migrate("providers/b")).await;
    let moved = moved.unwrap().into_inner();
    assert_eq!(moved.previous_provider, "providers/b");
    assert_eq!(moved.open_executions[0].count, 2);
    let refused = definitions.migrate_definition(migrate("providers/c")).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    let found = definitions.get_definition(get("definitions/nightly")).await;
    assert_eq!(found.unwrap().into_inner().default_provider, "providers/b");
}

#[tokio::test]
async fn a_misspelt_definition_of_an_engines_own_is_refused_with_the_name_that_was_meant() {
    let puppet = Puppet::new();
    puppet.define(vec![stateway_provider_api::NativeDefinition {
        name: "payments".into(),
        ..Default::default()
    }]);
    let gateway = TestGateway::new()
        .with_puppet("p", &puppet)
        .with_memory("m", &clock())
        .start()
        .await;
    let mut client = gateway.executions().await;
    for (name, message, suggestion) in [
        (
            "providers/p/definitions/payment",
            "provider p: no workflow `payment`; did you mean `payments`?",
            Some("payments"),
        ),
        (
            "providers/p/definitions/orders",
            "provider p: no workflow `orders`",
            None,
        ),
        (
            "providers/m/definitions/helo",
            "provider m: no definition `helo`; did you mean `hello`?",
            Some("hello"),
        ),
    ] {
        let status = client.start_execution(start(name)).await.unwrap_err();
        let expected = (message.to_owned(), suggestion.map(str::to_owned));
        assert_eq!(unknown(&status), expected, "{name}");
    }
}
