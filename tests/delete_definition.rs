//! Definitions are deleted: refused while executions are open, unless they keep their revision.

use serde_json::json;
use stateway_client::v1;
use tonic::{Code, Status};

use crate::support::{BuiltInRig, by, error_info, reason_of};

const GATE: &str = "name: gate\nsteps: [{name: wait, signal: go, timeout: 1h}]\n";

fn delete(name: &str, keep_running: bool) -> v1::DeleteDefinitionRequest {
    v1::DeleteDefinitionRequest {
        name: format!("definitions/{name}"),
        keep_running,
        ..v1::DeleteDefinitionRequest::default()
    }
}

fn start(name: &str) -> v1::StartExecutionRequest {
    v1::StartExecutionRequest {
        definition: format!("definitions/{name}"),
        ..v1::StartExecutionRequest::default()
    }
}

async fn signal(rig: &BuiltInRig, id: &str) {
    let request = v1::SignalExecutionRequest {
        name: format!("providers/b/executions/{id}"),
        signal: "go".into(),
        ..v1::SignalExecutionRequest::default()
    };
    let mut client = rig.gateway.executions().await;
    client.signal_execution(request).await.expect("it is open");
}

async fn get(rig: &BuiltInRig, name: &str) -> Result<v1::Definition, Status> {
    let request = v1::GetDefinitionRequest { name: name.into() };
    let found = rig.definitions().await.get_definition(request).await;
    found.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_definition_with_open_executions_is_refused_with_their_number() {
    let rig = BuiltInRig::start().await;
    rig.apply(GATE).await;
    for id in ["e1", "e2"] {
        rig.begin("gate", id, "ada", json!(null)).await;
    }
    let mut client = rig.definitions().await;
    let refused = client.delete_definition(delete("gate", false)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let (reason, metadata) = error_info(&refused);
    assert_eq!(
        (reason.as_str(), metadata["open_executions"].as_str()),
        ("DEFINITION_IN_USE", "2")
    );
    for id in ["e1", "e2"] {
        signal(&rig, id).await;
    }
    let deleted = client.delete_definition(delete("gate", false)).await;
    assert_eq!(deleted.unwrap().into_inner().open_execution_count, 0);
}

#[tokio::test]
async fn open_executions_finish_under_their_revision_and_nothing_new_starts() {
    let rig = BuiltInRig::start().await;
    let revision = rig.apply(GATE).await.revision;
    rig.begin("gate", "e1", "ada", json!(null)).await;
    let mut client = rig.definitions().await;
    let deleted = client.delete_definition(delete("gate", true)).await;
    assert_eq!(deleted.unwrap().into_inner().open_execution_count, 1);
    let listed = client.list_definitions(v1::ListDefinitionsRequest::default());
    assert!(listed.await.unwrap().into_inner().definitions.is_empty());
    let mut executions = rig.gateway.executions().await;
    let refused = executions.start_execution(start("gate")).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    assert_eq!(reason_of(&refused), "DEFINITION_NOT_FOUND");
    assert!(refused.message().contains("was deleted"), "{refused}");
    let missing = get(&rig, "definitions/gate").await.unwrap_err();
    assert_eq!(reason_of(&missing), "DEFINITION_NOT_FOUND");

    signal(&rig, "e1").await;
    let request = v1::GetExecutionRequest {
        name: "providers/b/executions/e1".into(),
        ..v1::GetExecutionRequest::default()
    };
    let found = executions.get_execution(request).await.unwrap();
    let found = found.into_inner();
    assert_eq!(found.sub_state(), v1::SubState::Succeeded);
    let name = format!("{}/revisions/{}", found.definition, found.revision);
    let source = get(&rig, &name).await.unwrap();
    assert_eq!(
        (source.revision, source.source),
        (revision, GATE.to_owned())
    );
    assert!(source.deleted);
    let replayed = v1::ReplayExecutionRequest {
        name: found.name,
        ..v1::ReplayExecutionRequest::default()
    };
    let replayed = rig.recovery().await.replay_execution(replayed).await;
    replayed.expect("the log replays");
}

#[tokio::test]
async fn a_deleted_definition_is_back_once_it_is_applied_again() {
    let rig = BuiltInRig::start().await;
    let first = rig.apply(GATE).await;
    let mut client = rig.definitions().await;
    let request = v1::DeleteDefinitionRequest {
        request_id: "delete-1".into(),
        ..delete("gate", false)
    };
    client.delete_definition(request.clone()).await.unwrap();
    let again = rig.apply(GATE).await;
    assert_eq!(again.revision, first.revision);
    // The repeated request has no further effect.
    client.delete_definition(request.clone()).await.unwrap();
    let found = get(&rig, "definitions/gate").await.unwrap();
    assert!(!found.deleted);
    rig.begin("gate", "e1", "ada", json!(null)).await;
    let other = v1::DeleteDefinitionRequest {
        keep_running: true,
        ..request
    };
    let refused = client.delete_definition(other).await.unwrap_err();
    assert_eq!(reason_of(&refused), "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn a_child_of_a_deleted_definition_fails_its_step() {
    let rig = BuiltInRig::start().await;
    rig.apply(GATE).await;
    rig.apply(
        "name: parent\nsteps:\n  - {name: wait, signal: go, timeout: 1h}\n  \
         - {name: child, workflow: gate, dependsOn: [wait], timeout: 1h}\n",
    )
    .await;
    rig.begin("parent", "p1", "ada", json!(null)).await;
    let mut client = rig.definitions().await;
    client
        .delete_definition(by("ada", "", delete("gate", false)))
        .await
        .unwrap();
    signal(&rig, "p1").await;
    let request = v1::GetExecutionRequest {
        name: "providers/b/executions/p1".into(),
        ..v1::GetExecutionRequest::default()
    };
    let found = rig.gateway.executions().await.get_execution(request).await;
    let found = found.unwrap().into_inner();
    assert_eq!(found.sub_state(), v1::SubState::Failed);
    let error = found.last_error.unwrap();
    assert_eq!(error.step, "child");
    assert_eq!(error.message, "there is no definition `gate`");
}

#[tokio::test]
async fn what_names_no_portable_definition_is_refused() {
    let rig = BuiltInRig::start().await;
    let mut client = rig.definitions().await;
    for (name, code) in [
        ("", Code::InvalidArgument),
        ("gate", Code::InvalidArgument),
        ("providers/b/definitions/gate", Code::InvalidArgument),
        ("definitions/gate", Code::NotFound),
    ] {
        let request = v1::DeleteDefinitionRequest {
            name: name.into(),
            ..v1::DeleteDefinitionRequest::default()
        };
        let refused = client.delete_definition(request).await.unwrap_err();
        assert_eq!(refused.code(), code, "{name}");
    }
}
