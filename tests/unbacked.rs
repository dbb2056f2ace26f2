//! Services with nothing behind them say so; none pretends.

use stateway_client::v1;
use tonic::{Code, Status};

use crate::support::{Puppet, TestGateway, reason_of};

#[tokio::test]
async fn every_method_without_a_backing_is_unimplemented_with_the_reason() {
    let gateway = TestGateway::new()
        .with_puppet("p", &Puppet::new())
        .start()
        .await;
    let channel = gateway.channel().await;
    let mut definitions = v1::definitions_client::DefinitionsClient::new(channel.clone());
    let mut approvals = v1::approvals_client::ApprovalsClient::new(channel.clone());
    let mut workers = v1::workers_client::WorkersClient::new(channel.clone());
    let mut admin = v1::admin_client::AdminClient::new(channel.clone());
    let mut triggers = v1::triggers_client::TriggersClient::new(channel.clone());
    let mut executions = v1::executions_client::ExecutionsClient::new(channel.clone());
    let mut recovery = v1::recovery_client::RecoveryClient::new(channel);
    let refusals: Vec<Option<Status>> = vec![
        definitions
            .apply_definition(v1::ApplyDefinitionRequest::default())
            .await
            .err(),
        definitions
            .get_definition(v1::GetDefinitionRequest::default())
            .await
            .err(),
        definitions
            .list_definitions(v1::ListDefinitionsRequest::default())
            .await
            .err(),
        definitions
            .delete_definition(v1::DeleteDefinitionRequest::default())
            .await
            .err(),
        triggers
            .disable_trigger(v1::DisableTriggerRequest::default())
            .await
            .err(),
        triggers
            .enable_trigger(v1::EnableTriggerRequest::default())
            .await
            .err(),
        executions
            .adopt_definition(v1::AdoptDefinitionRequest {
                name: "providers/p/executions/a".into(),
                ..v1::AdoptDefinitionRequest::default()
            })
            .await
            .err(),
        approvals
            .list_approvals(v1::ListApprovalsRequest {
                parent: "providers/-".into(),
                ..v1::ListApprovalsRequest::default()
            })
            .await
            .err(),
        approvals
            .get_approval(v1::GetApprovalRequest { name: approval() })
            .await
            .err(),
        approvals
            .decide_approval(v1::DecideApprovalRequest {
                name: approval(),
                ..v1::DecideApprovalRequest::default()
            })
            .await
            .err(),
        approvals
            .list_escalations(v1::ListEscalationsRequest {
                parent: "providers/p".into(),
                ..v1::ListEscalationsRequest::default()
            })
            .await
            .err(),
        approvals
            .get_escalation(v1::GetEscalationRequest {
                name: "providers/p/executions/a/escalations/s~1".into(),
            })
            .await
            .err(),
        approvals
            .resolve_escalation(v1::ResolveEscalationRequest {
                name: "providers/p/executions/a/escalations/s~1".into(),
                ..v1::ResolveEscalationRequest::default()
            })
            .await
            .err(),
        workers.stream_tasks(tokio_stream::empty()).await.err(),
        workers
            .list_workers(v1::ListWorkersRequest {
                parent: "providers/-".into(),
                ..v1::ListWorkersRequest::default()
            })
            .await
            .err(),
        workers
            .get_queue(v1::GetQueueRequest {
                name: "providers/-/queue".into(),
            })
            .await
            .err(),
        admin
            .purge_executions(v1::PurgeExecutionsRequest {
                parent: "providers/-".into(),
                ..v1::PurgeExecutionsRequest::default()
            })
            .await
            .err(),
        admin
            .backup_store(v1::BackupStoreRequest {
                provider: "providers/-".into(),
                ..v1::BackupStoreRequest::default()
            })
            .await
            .err(),
        triggers
            .publish_event(v1::PublishEventRequest {
                parent: "providers/-".into(),
                ..v1::PublishEventRequest::default()
            })
            .await
            .err(),
        executions
            .project_execution(v1::ProjectExecutionRequest {
                name: "providers/p/executions/a".into(),
                vocabulary: "buquet".into(),
            })
            .await
            .err(),
        recovery
            .verify_execution(v1::VerifyExecutionRequest { name: execution() })
            .await
            .err(),
        recovery
            .verify_executions(v1::VerifyExecutionsRequest {
                parent: "providers/-".into(),
            })
            .await
            .err(),
        recovery
            .recover_execution(v1::RecoverExecutionRequest {
                name: execution(),
                ..v1::RecoverExecutionRequest::default()
            })
            .await
            .err(),
        recovery
            .replay_execution(v1::ReplayExecutionRequest {
                name: execution(),
                ..v1::ReplayExecutionRequest::default()
            })
            .await
            .err(),
        recovery
            .list_branches(v1::ListBranchesRequest {
                parent: execution(),
                ..v1::ListBranchesRequest::default()
            })
            .await
            .err(),
        recovery
            .export_history(v1::ExportHistoryRequest {
                name: execution(),
                redact: false,
            })
            .await
            .err(),
        executions
            .get_step(v1::GetStepRequest {
                name: format!("{}/steps/s", execution()),
            })
            .await
            .err(),
        executions
            .list_events(v1::ListEventsRequest {
                parent: execution(),
                branch: format!("{}/branches/current", execution()),
                ..v1::ListEventsRequest::default()
            })
            .await
            .err(),
    ];
    for status in refusals {
        let status = status.expect("a refusal");
        assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
        assert_eq!(reason_of(&status), "CAPABILITY_NOT_SUPPORTED");
    }
}

fn execution() -> String {
    "providers/p/executions/a".into()
}

fn approval() -> String {
    "providers/p/executions/a/approvals/s~1".into()
}
