//! A running execution is offered another revision of its definition.

use serde_json::json;
use stateway_client::v1;
use tonic::{Code, Status};

use crate::support::{BuiltInRig, Puppet, by, reason_of};

const OLD: &str = "\
name: order
steps:
  - {name: wait, signal: go, timeout: 1h}
  - {name: ship, agent: warehouse, dependsOn: [wait], timeout: 1h}
";
/// A step that has not begun is another one.
const LATER: &str = "\
name: order
steps:
  - {name: wait, signal: go, timeout: 1h}
  - {name: ship, sleep: 1ms, dependsOn: [wait]}
";
/// A step that has begun is another one.
const BEGUN: &str = "\
name: order
steps:
  - {name: wait, signal: went, timeout: 2h}
  - {name: ship, agent: warehouse, dependsOn: [wait], timeout: 1h}
";
const NAME: &str = "providers/b/executions/e1";
const DIFFERENCE: &str = "step `wait` has begun and is different in the new revision: `signal` was \
                          go and is now went; `timeout` was 1h and is now 2h";

fn adopt(revision: &str) -> v1::AdoptDefinitionRequest {
    v1::AdoptDefinitionRequest {
        name: NAME.into(),
        revision: revision.into(),
        ..v1::AdoptDefinitionRequest::default()
    }
}

async fn offer(rig: &BuiltInRig, revision: &str) -> Result<v1::Execution, Status> {
    let mut client = rig.gateway.executions().await;
    let answer = client.adopt_definition(adopt(revision)).await;
    answer.map(tonic::Response::into_inner)
}

async fn get(rig: &BuiltInRig) -> v1::Execution {
    let request = v1::GetExecutionRequest {
        name: NAME.into(),
        ..v1::GetExecutionRequest::default()
    };
    let found = rig.gateway.executions().await.get_execution(request).await;
    found.unwrap().into_inner()
}

async fn signal(rig: &BuiltInRig) {
    let request = v1::SignalExecutionRequest {
        name: NAME.into(),
        signal: "go".into(),
        ..v1::SignalExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client.signal_execution(request).await.unwrap();
}

#[tokio::test]
async fn a_compatible_revision_is_adopted_and_the_execution_ends_under_it() {
    let rig = BuiltInRig::start().await;
    let old = rig.apply(OLD).await.revision;
    rig.begin("order", "e1", "ada", json!(null)).await;
    let later = rig.apply(LATER).await.revision;
    assert_eq!(get(&rig).await.revision, old);
    let adopted = offer(&rig, "").await.unwrap();
    assert_eq!(adopted.revision, later);
    signal(&rig).await;
    rig.until("e1", |view| view.end_time.is_some()).await;
    let ended = get(&rig).await;
    assert_eq!(ended.sub_state(), v1::SubState::Succeeded);
    assert_eq!(ended.revision, later);
    let refused = offer(&rig, &old).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(reason_of(&refused), "ALREADY_FINISHED");
}

#[tokio::test]
async fn an_incompatible_revision_pauses_with_the_difference_and_resume_keeps_the_old_one() {
    let rig = BuiltInRig::start().await;
    let old = rig.apply(OLD).await.revision;
    rig.begin("order", "e1", "ada", json!(null)).await;
    let begun = rig.apply(BEGUN).await.revision;
    let paused = offer(&rig, "").await.unwrap();
    assert_eq!(paused.sub_state(), v1::SubState::Error);
    assert_eq!(
        (paused.reason().label(), &paused.revision),
        ("PAUSED", &old)
    );
    let pause = get(&rig).await.pause.expect("it is paused");
    assert_eq!(pause.conflicts, [DIFFERENCE]);
    assert_eq!(pause.offered_revision, begun);
    let error = paused.last_error.unwrap();
    assert_eq!(error.native_code, "REVISION_MISMATCH");
    assert_eq!(
        error.message,
        format!("revision {} is not compatible: {DIFFERENCE}", &begun[..12])
    );
    assert_eq!(get(&rig).await.last_error.unwrap().message, error.message);

    let mut client = rig.gateway.executions().await;
    let explained = v1::ExplainExecutionRequest { name: NAME.into() };
    let explained = client
        .explain_execution(explained)
        .await
        .unwrap()
        .into_inner();
    let told = explained
        .evidence
        .iter()
        .any(|line| line.contains(DIFFERENCE));
    assert!(told, "{:#?}", explained.evidence);
    let events = v1::ListEventsRequest {
        parent: NAME.into(),
        ..v1::ListEventsRequest::default()
    };
    let events = client
        .list_events(events)
        .await
        .unwrap()
        .into_inner()
        .events;
    assert!(events.last().unwrap().summary.contains(DIFFERENCE));
    let refused = offer(&rig, "").await.unwrap_err();
    assert_eq!(reason_of(&refused), "INCOMPATIBLE_REVISION");
    assert!(refused.message().contains(DIFFERENCE), "{refused}");

    let resume = v1::ResumeExecutionRequest {
        name: NAME.into(),
        ..v1::ResumeExecutionRequest::default()
    };
    let resumed = client.resume_execution(resume).await.unwrap().into_inner();
    assert_eq!((resumed.revision, resumed.last_error), (old, None));
    signal(&rig).await;
    rig.until("e1", |view| view.steps.len() == 2).await;
}

const GUARDED: &str = "\
name: order
steps:
  - {name: gate, approval: {role: rm}}
  - {name: check, approval: {role: rm}, dependsOn: [gate]}
  - {name: ship, sleep: 1ms, dependsOn: [check]}
";

async fn offer_by(rig: &BuiltInRig, actor: &str) -> v1::Execution {
    let mut client = rig.gateway.executions().await;
    let answer = client.adopt_definition(by(actor, "rm", adopt(""))).await;
    answer.unwrap().into_inner()
}

/// Neither by a revision without the approval nor as a decider under a revision of their choice.
#[tokio::test]
async fn nobody_gets_around_an_approval_with_a_revision() {
    let rig = BuiltInRig::start().await;
    rig.apply(GUARDED).await;
    rig.begin("order", "e1", "ada", json!(null)).await;
    let check = "  - {name: check, approval: {role: rm}, dependsOn: [gate]}\n";
    let without = GUARDED.replace(check, "").replace("[check]", "[gate]");
    rig.apply(&without).await;
    let paused = offer_by(&rig, "mallory").await;
    let message = paused.last_error.unwrap().message;
    assert!(
        message.ends_with("the approval `check` is not in the new revision"),
        "{message}"
    );
    rig.apply(&GUARDED.replace("1ms", "2ms")).await;
    let adopted = offer_by(&rig, "mallory").await;
    assert_eq!(adopted.last_error, None);
    let grant = v1::DecideApprovalRequest {
        name: format!("{NAME}/approvals/gate~1"),
        decision: v1::decide_approval_request::Choice::Grant.into(),
        ..v1::DecideApprovalRequest::default()
    };
    let mut approvals = rig.approvals().await;
    let own = approvals.decide_approval(by("Mallory", "rm", grant.clone()));
    assert_eq!(reason_of(&own.await.unwrap_err()), "SELF_APPROVAL");
    approvals
        .decide_approval(by("eve", "rm", grant))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_revision_that_fits_ends_the_pause() {
    let rig = BuiltInRig::start().await;
    rig.apply(OLD).await;
    rig.begin("order", "e1", "ada", json!(null)).await;
    let later = rig.apply(LATER).await.revision;
    let begun = rig.apply(BEGUN).await.revision;
    offer(&rig, &begun[..8]).await.unwrap();
    let adopted = offer(&rig, &later[..8]).await.unwrap();
    assert_eq!(adopted.revision, later);
    assert_eq!(adopted.sub_state(), v1::SubState::Waiting);
    assert_eq!(adopted.last_error, None);
}

#[tokio::test]
async fn etag_and_request_id_count_as_for_every_write() {
    let rig = BuiltInRig::start().await;
    rig.apply(OLD).await;
    rig.begin("order", "e1", "ada", json!(null)).await;
    let later = rig.apply(LATER).await.revision;
    let etag = get(&rig).await.etag;
    let mut client = rig.gateway.executions().await;
    let stale = v1::AdoptDefinitionRequest {
        etag: "old".into(),
        ..adopt("")
    };
    let refused = client.adopt_definition(stale).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted);
    assert_eq!(reason_of(&refused), "ETAG_MISMATCH");
    let request = v1::AdoptDefinitionRequest {
        etag,
        request_id: "adopt-1".into(),
        ..adopt("")
    };
    for _ in 0..2 {
        let adopted = client.adopt_definition(request.clone()).await.unwrap();
        assert_eq!(adopted.into_inner().revision, later);
    }
    let other = v1::AdoptDefinitionRequest {
        revision: later,
        ..request
    };
    let refused = client.adopt_definition(other).await.unwrap_err();
    assert_eq!(refused.code(), Code::AlreadyExists);
    assert_eq!(reason_of(&refused), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn what_cannot_be_offered_is_refused() {
    let puppet = Puppet::new();
    let rig = BuiltInRig::start_beside(|gateway| gateway.with_puppet("p", &puppet)).await;
    rig.apply(OLD).await;
    rig.begin("order", "e1", "ada", json!(null)).await;
    let unknown = "0".repeat(64);
    for (revision, code) in [
        ("XYZ", Code::InvalidArgument),
        ("0123", Code::InvalidArgument),
        ("01234567", Code::NotFound),
        (unknown.as_str(), Code::NotFound),
    ] {
        let refused = offer(&rig, revision).await.unwrap_err();
        assert_eq!(refused.code(), code, "{revision}: {refused}");
    }
    let mut client = rig.gateway.executions().await;
    for (name, code) in [
        ("providers/b/executions/nobody", Code::NotFound),
        ("providers/p/executions/e1", Code::Unimplemented),
        ("providers/z/executions/e1", Code::NotFound),
    ] {
        let request = v1::AdoptDefinitionRequest {
            name: name.into(),
            ..v1::AdoptDefinitionRequest::default()
        };
        let refused = client.adopt_definition(request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{name}");
    }
}
