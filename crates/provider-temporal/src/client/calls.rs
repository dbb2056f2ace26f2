//! The calls, one method each. A call that counts against a quota names it; the caller takes the turn.

use stateway_provider_api::Result;

use super::{Ask, Client};
use crate::api::workflowservice::v1 as rpc;
use crate::quota::Api;

macro_rules! calls {
    ($( $name:ident: $request:ident => $response:ident, $api:expr; )+) => {
        impl Client {
            $(
                pub(crate) async fn $name(
                    &self,
                    ask: Ask<'_>,
                    message: rpc::$request,
                ) -> Result<rpc::$response> {
                    self.send(ask, $api, message, |mut grpc, request| async move {
                        grpc.$name(request).await
                    })
                    .await
                }
            )+
        }
    };
}

calls! {
    get_system_info: GetSystemInfoRequest => GetSystemInfoResponse, None;
    describe_namespace: DescribeNamespaceRequest => DescribeNamespaceResponse, None;
    start_workflow_execution: StartWorkflowExecutionRequest => StartWorkflowExecutionResponse, None;
    describe_workflow_execution:
        DescribeWorkflowExecutionRequest => DescribeWorkflowExecutionResponse, Some(Api::Reads);
    list_workflow_executions:
        ListWorkflowExecutionsRequest => ListWorkflowExecutionsResponse, Some(Api::Visibility);
    count_workflow_executions:
        CountWorkflowExecutionsRequest => CountWorkflowExecutionsResponse, Some(Api::Visibility);
    get_workflow_execution_history:
        GetWorkflowExecutionHistoryRequest => GetWorkflowExecutionHistoryResponse, Some(Api::Reads);
    get_workflow_execution_history_reverse:
        GetWorkflowExecutionHistoryReverseRequest => GetWorkflowExecutionHistoryReverseResponse,
        Some(Api::Reads);
    signal_workflow_execution: SignalWorkflowExecutionRequest => SignalWorkflowExecutionResponse, None;
    request_cancel_workflow_execution:
        RequestCancelWorkflowExecutionRequest => RequestCancelWorkflowExecutionResponse, None;
    terminate_workflow_execution:
        TerminateWorkflowExecutionRequest => TerminateWorkflowExecutionResponse, None;
    reset_workflow_execution: ResetWorkflowExecutionRequest => ResetWorkflowExecutionResponse, None;
    delete_workflow_execution: DeleteWorkflowExecutionRequest => DeleteWorkflowExecutionResponse, None;
    pause_workflow_execution: PauseWorkflowExecutionRequest => PauseWorkflowExecutionResponse, None;
    unpause_workflow_execution:
        UnpauseWorkflowExecutionRequest => UnpauseWorkflowExecutionResponse, None;
    update_workflow_execution: UpdateWorkflowExecutionRequest => UpdateWorkflowExecutionResponse, None;
    pause_activity: PauseActivityRequest => PauseActivityResponse, None;
    unpause_activity: UnpauseActivityRequest => UnpauseActivityResponse, None;
    reset_activity: ResetActivityRequest => ResetActivityResponse, None;
    pause_activity_execution: PauseActivityExecutionRequest => PauseActivityExecutionResponse, None;
    unpause_activity_execution:
        UnpauseActivityExecutionRequest => UnpauseActivityExecutionResponse, None;
    reset_activity_execution: ResetActivityExecutionRequest => ResetActivityExecutionResponse, None;
    describe_task_queue: DescribeTaskQueueRequest => DescribeTaskQueueResponse, Some(Api::Reads);
    list_schedules: ListSchedulesRequest => ListSchedulesResponse, Some(Api::Visibility);
    describe_schedule: DescribeScheduleRequest => DescribeScheduleResponse, Some(Api::Reads);
    execute_multi_operation: ExecuteMultiOperationRequest => ExecuteMultiOperationResponse, None;
    signal_with_start_workflow_execution:
        SignalWithStartWorkflowExecutionRequest => SignalWithStartWorkflowExecutionResponse, None;
    poll_workflow_task_queue:
        PollWorkflowTaskQueueRequest => PollWorkflowTaskQueueResponse, Some(Api::LongPolls);
    respond_workflow_task_completed:
        RespondWorkflowTaskCompletedRequest => RespondWorkflowTaskCompletedResponse, None;
    respond_workflow_task_failed:
        RespondWorkflowTaskFailedRequest => RespondWorkflowTaskFailedResponse, None;
    respond_query_task_completed:
        RespondQueryTaskCompletedRequest => RespondQueryTaskCompletedResponse, None;
    poll_activity_task_queue:
        PollActivityTaskQueueRequest => PollActivityTaskQueueResponse, Some(Api::LongPolls);
    respond_activity_task_completed:
        RespondActivityTaskCompletedRequest => RespondActivityTaskCompletedResponse, None;
    respond_activity_task_failed:
        RespondActivityTaskFailedRequest => RespondActivityTaskFailedResponse, None;
}

impl Client {
    /// The history of a run, when it has a new event. The server limits such calls on their own.
    pub(crate) async fn poll_workflow_execution_history(
        &self,
        ask: Ask<'_>,
        message: rpc::GetWorkflowExecutionHistoryRequest,
    ) -> Result<rpc::GetWorkflowExecutionHistoryResponse> {
        let api = Some(Api::LongPolls);
        self.send(ask, api, message, |mut grpc, request| async move {
            grpc.get_workflow_execution_history(request).await
        })
        .await
    }
}
