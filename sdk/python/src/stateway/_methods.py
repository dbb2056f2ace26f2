"""The methods of the API: path, request and response of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf import empty_pb2
from google.protobuf.message import Message

from stateway.v1 import (
    admin_pb2,
    approvals_pb2,
    definitions_pb2,
    executions_pb2,
    providers_pb2,
    triggers_pb2,
    workers_pb2,
)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True)
class Method(Generic[Request, Response]):
    """One method of a service."""

    path: str
    request: type[Request]
    response: type[Response]


def _of(service: str, name: str, request: type[Request], response: type[Response]) -> Method[Request, Response]:
    return Method(f"/stateway.v1.{service}/{name}", request, response)


_e, _d, _a = executions_pb2, definitions_pb2, approvals_pb2

START = _of("Executions", "StartExecution", _e.StartExecutionRequest, _e.Execution)
GET = _of("Executions", "GetExecution", _e.GetExecutionRequest, _e.Execution)
LIST = _of("Executions", "ListExecutions", _e.ListExecutionsRequest, _e.ListExecutionsResponse)
COUNT = _of("Executions", "CountExecutions", _e.CountExecutionsRequest, _e.CountExecutionsResponse)
WATCH = _of("Executions", "WatchExecutions", _e.WatchExecutionsRequest, _e.WatchExecutionsResponse)
WAIT = _of("Executions", "WaitExecution", _e.WaitExecutionRequest, _e.WaitExecutionResponse)
LIST_EVENTS = _of("Executions", "ListEvents", _e.ListEventsRequest, _e.ListEventsResponse)
GET_STEP = _of("Executions", "GetStep", _e.GetStepRequest, _e.StepDetail)
EXPLAIN = _of("Executions", "ExplainExecution", _e.ExplainExecutionRequest, _e.ExplainExecutionResponse)
SIGNAL = _of("Executions", "SignalExecution", _e.SignalExecutionRequest, _e.Execution)
CANCEL = _of("Executions", "CancelExecution", _e.CancelExecutionRequest, _e.Execution)
PAUSE = _of("Executions", "PauseExecution", _e.PauseExecutionRequest, _e.Execution)
RESUME = _of("Executions", "ResumeExecution", _e.ResumeExecutionRequest, _e.Execution)
RETRY_NOW = _of("Executions", "RetryNow", _e.RetryNowRequest, _e.Execution)
RETRY_FROM = _of("Executions", "RetryFrom", _e.RetryFromRequest, _e.Execution)
ADOPT_DEFINITION = _of("Executions", "AdoptDefinition", _e.AdoptDefinitionRequest, _e.Execution)
READ_PAYLOAD = _of("Executions", "ReadPayload", _e.ReadPayloadRequest, _e.ReadPayloadResponse)
PURGE = _of("Executions", "PurgeExecution", _e.PurgeExecutionRequest, empty_pb2.Empty)

APPLY_DEFINITION = _of(
    "Definitions", "ApplyDefinition", _d.ApplyDefinitionRequest, _d.ApplyDefinitionResponse
)
GET_DEFINITION = _of("Definitions", "GetDefinition", _d.GetDefinitionRequest, _d.Definition)
LIST_DEFINITIONS = _of(
    "Definitions", "ListDefinitions", _d.ListDefinitionsRequest, _d.ListDefinitionsResponse
)
VALIDATE_DEFINITION = _of(
    "Definitions", "ValidateDefinition", _d.ValidateDefinitionRequest, _d.ValidateDefinitionResponse
)
DELETE_DEFINITION = _of(
    "Definitions", "DeleteDefinition", _d.DeleteDefinitionRequest, _d.DeleteDefinitionResponse
)
MIGRATE_DEFINITION = _of(
    "Definitions", "MigrateDefinition", _d.MigrateDefinitionRequest, _d.MigrateDefinitionResponse
)

LIST_APPROVALS = _of("Approvals", "ListApprovals", _a.ListApprovalsRequest, _a.ListApprovalsResponse)
WATCH_APPROVALS = _of("Approvals", "WatchApprovals", _a.WatchApprovalsRequest, _a.WatchApprovalsResponse)
GET_APPROVAL = _of("Approvals", "GetApproval", _a.GetApprovalRequest, _a.Approval)
DECIDE_APPROVAL = _of("Approvals", "DecideApproval", _a.DecideApprovalRequest, _a.Approval)
LIST_ESCALATIONS = _of(
    "Approvals", "ListEscalations", _a.ListEscalationsRequest, _a.ListEscalationsResponse
)
GET_ESCALATION = _of("Approvals", "GetEscalation", _a.GetEscalationRequest, _a.Escalation)
RESOLVE_ESCALATION = _of("Approvals", "ResolveEscalation", _a.ResolveEscalationRequest, _a.Escalation)

LIST_PROVIDERS = _of(
    "Providers", "ListProviders", providers_pb2.ListProvidersRequest, providers_pb2.ListProvidersResponse
)
GET_PROVIDER = _of("Providers", "GetProvider", providers_pb2.GetProviderRequest, providers_pb2.Provider)

STREAM_TASKS = _of(
    "Workers", "StreamTasks", workers_pb2.StreamTasksRequest, workers_pb2.StreamTasksResponse
)
LIST_WORKERS = _of(
    "Workers", "ListWorkers", workers_pb2.ListWorkersRequest, workers_pb2.ListWorkersResponse
)
GET_QUEUE = _of("Workers", "GetQueue", workers_pb2.GetQueueRequest, workers_pb2.Queue)

PUBLISH_EVENT = _of(
    "Triggers", "PublishEvent", triggers_pb2.PublishEventRequest, triggers_pb2.PublishEventResponse
)
DISABLE_TRIGGER = _of("Triggers", "DisableTrigger", triggers_pb2.DisableTriggerRequest, triggers_pb2.Trigger)
ENABLE_TRIGGER = _of("Triggers", "EnableTrigger", triggers_pb2.EnableTriggerRequest, triggers_pb2.Trigger)
PURGE_EXECUTIONS = _of(
    "Admin", "PurgeExecutions", admin_pb2.PurgeExecutionsRequest, admin_pb2.PurgeExecutionsResponse
)
