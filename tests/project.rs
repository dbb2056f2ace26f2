//! An execution in the words of another system.

use serde_json::json;
use stateway_client::v1;
use stateway_client::v1::projected_move::Kind;
use tonic::Code;

use crate::support::{BuiltInRig, reason_of};

const FLAKY: &str = "\
name: flaky
steps:
  - name: charge_card
    agent: billing
    timeout: 5m
    retryPolicy: {maxRetries: 1, backoff: constant, initialDelay: 1ms, maxDelay: 1ms}
";

fn project(vocabulary: &str) -> v1::ProjectExecutionRequest {
    v1::ProjectExecutionRequest {
        name: "providers/b/executions/f1".into(),
        vocabulary: vocabulary.into(),
    }
}

#[tokio::test]
async fn a_failure_has_the_fields_of_buquets_state_file() {
    let rig = BuiltInRig::start().await;
    rig.apply(FLAKY).await;
    let mut worker = rig
        .work(v1::Offer {
            roles: vec!["billing".into()],
            capacity: 1,
            ..v1::Offer::default()
        })
        .await
        .unwrap();
    rig.begin("flaky", "f1", "ada", json!({})).await;
    let task = worker.task().await;
    let mut client = rig.gateway.executions().await;
    let running = client.project_execution(project("buquet")).await;
    let running = running.unwrap().into_inner();
    assert_eq!(
        (running.status.as_str(), running.terminal),
        ("running", false)
    );
    assert_eq!(running.current_steps, ["charge_card"]);
    worker.fail(&task, v1::ErrorCategory::Transient);
    let again = worker.task().await;
    worker.fail(&again, v1::ErrorCategory::Transient);
    rig.until("f1", |view| view.native_state == "failed").await;

    let failed = client.project_execution(project("buquet")).await;
    let failed = failed.unwrap().into_inner();
    assert_eq!((failed.status.as_str(), failed.terminal), ("failed", true));
    assert_eq!(failed.current_steps, [] as [&str; 0]);
    let error = failed.last_error.expect("an error");
    assert_eq!(
        (&*error.step, &*error.message, error.attempt),
        ("charge_card", "it did not work", 2)
    );
    assert!(error.occur_time.is_some());
    let moves: Vec<_> = failed
        .moves
        .iter()
        .map(|one| (&*one.from, &*one.to, one.kind()))
        .collect();
    assert_eq!(
        moves,
        [
            ("", "pending", Kind::Begin),
            ("pending", "running", Kind::Legal),
            ("running", "failed", Kind::Legal),
        ]
    );
    assert_eq!(failed.source, "workflow engine");
    let step: Vec<_> = failed.steps[0].moves.iter().map(|one| &*one.to).collect();
    assert_eq!(
        step,
        [
            "pending", "running", "failed", "pending", "running", "failed"
        ]
    );
    for vocabulary in ["ioa", "connectsoft", "workflowmanager", "landlord"] {
        let told = client.project_execution(project(vocabulary)).await;
        let told = told.unwrap().into_inner();
        assert!(
            !told.status.is_empty() && !told.source.is_empty(),
            "{vocabulary}"
        );
    }
}

#[tokio::test]
async fn an_unknown_vocabulary_or_execution_is_refused() {
    let rig = BuiltInRig::start().await;
    let mut client = rig.gateway.executions().await;
    let status = client
        .project_execution(project("klingon"))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(reason_of(&status), "UNKNOWN_VOCABULARY");
    let status = client.project_execution(project("ioa")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}
