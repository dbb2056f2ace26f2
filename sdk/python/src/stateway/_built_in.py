"""The calls of the services `Definitions`, `Approvals`, `Providers`, `Workers` and `Triggers`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from stateway import _methods
from stateway._caller import Caller
from stateway._pages import pages
from stateway.types import json_payload
from stateway.v1 import admin_pb2, approvals_pb2, definitions_pb2, providers_pb2, triggers_pb2, workers_pb2
from stateway.watch import Watch, decode_with


class DefinitionCalls:
    """Definitions: portable ones, and with `parent` those of an engine."""

    _caller: Caller

    async def apply_definition(
        self,
        source: str,
        *,
        source_name: str = "",
        validate_only: bool = False,
        parent: str = "",
        id: str = "",
        labels: Mapping[str, str] | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> definitions_pb2.ApplyDefinitionResponse:
        """Stores a definition (YAML or JSON). A changed one becomes the current revision."""
        request = definitions_pb2.ApplyDefinitionRequest(
            source=source,
            source_name=source_name,
            validate_only=validate_only,
            parent=parent,
            definition_id=id,
            labels=dict(labels or {}),
            request_id=request_id,
        )
        return await self._caller.write(_methods.APPLY_DEFINITION, request, timeout)

    async def get_definition(self, name: str, *, timeout: float | None = None) -> definitions_pb2.Definition:
        """Reads a definition."""
        request = definitions_pb2.GetDefinitionRequest(name=name)
        return await self._caller.read(_methods.GET_DEFINITION, request, timeout)

    def list_definitions(
        self, parent: str = "", *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncIterator[definitions_pb2.Definition]:
        """Every definition, each with its newest revision."""
        request = definitions_pb2.ListDefinitionsRequest(parent=parent, page_size=page_size)
        return pages(self._caller, _methods.LIST_DEFINITIONS, request, "definitions", timeout)

    async def validate_definition(
        self, source: str, *, source_name: str = "", parent: str = "", timeout: float | None = None
    ) -> definitions_pb2.ValidateDefinitionResponse:
        """Checks a definition; nothing is stored."""
        request = definitions_pb2.ValidateDefinitionRequest(
            source=source, source_name=source_name, parent=parent
        )
        return await self._caller.read(_methods.VALIDATE_DEFINITION, request, timeout)

    async def delete_definition(
        self, name: str, *, keep_running: bool = False, request_id: str = "", timeout: float | None = None
    ) -> definitions_pb2.DeleteDefinitionResponse:
        """Deletes a portable definition."""
        request = definitions_pb2.DeleteDefinitionRequest(
            name=name, keep_running=keep_running, request_id=request_id
        )
        return await self._caller.write(_methods.DELETE_DEFINITION, request, timeout)

    async def migrate_definition(
        self,
        name: str,
        provider: str,
        *,
        validate_only: bool = False,
        request_id: str = "",
        timeout: float | None = None,
    ) -> definitions_pb2.MigrateDefinitionResponse:
        """Makes a provider the default of a portable definition. With `validate_only` nothing is changed."""
        request = definitions_pb2.MigrateDefinitionRequest(
            name=name, provider=provider, validate_only=validate_only, request_id=request_id
        )
        return await self._caller.write(_methods.MIGRATE_DEFINITION, request, timeout)


class ApprovalCalls:
    """Approvals and escalations. Decisions are made in the name of the client's `actor` and `roles`."""

    _caller: Caller

    def list_approvals(
        self,
        parent: str = "providers/-",
        *,
        filter: str = "",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[approvals_pb2.Approval]:
        """The pending approvals; others with a filter on `state` or `execution`."""
        request = approvals_pb2.ListApprovalsRequest(parent=parent, filter=filter, page_size=page_size)
        return pages(self._caller, _methods.LIST_APPROVALS, request, "approvals", timeout)

    def watch_approvals(
        self, parent: str = "providers/-", *, filter: str = ""
    ) -> Watch[approvals_pb2.Approval]:
        """Follows the pending approvals. After a broken connection the watch reports `Resync` first."""
        request = approvals_pb2.WatchApprovalsRequest(parent=parent, filter=filter)
        return Watch(self._caller, _methods.WATCH_APPROVALS, request, decode_with("approval"))

    async def get_approval(self, name: str, *, timeout: float | None = None) -> approvals_pb2.Approval:
        """Reads an approval with the input of its step."""
        request = approvals_pb2.GetApprovalRequest(name=name)
        return await self._caller.read(_methods.GET_APPROVAL, request, timeout)

    async def decide_approval(
        self,
        name: str,
        *,
        grant: bool,
        comment: str = "",
        request_id: str = "",
        etag: str = "",
        timeout: float | None = None,
    ) -> approvals_pb2.Approval:
        """Grants an approval, or rejects it if `grant` is false."""
        choice = approvals_pb2.DecideApprovalRequest.GRANT
        if not grant:
            choice = approvals_pb2.DecideApprovalRequest.REJECT
        request = approvals_pb2.DecideApprovalRequest(
            name=name, decision=choice, comment=comment, request_id=request_id, etag=etag
        )
        return await self._caller.write(_methods.DECIDE_APPROVAL, request, timeout)

    def list_escalations(
        self,
        parent: str = "providers/-",
        *,
        filter: str = "",
        page_size: int = 0,
        timeout: float | None = None,
    ) -> AsyncIterator[approvals_pb2.Escalation]:
        """The pending escalations; others with a filter on `state` or `execution`."""
        request = approvals_pb2.ListEscalationsRequest(parent=parent, filter=filter, page_size=page_size)
        return pages(self._caller, _methods.LIST_ESCALATIONS, request, "escalations", timeout)

    async def get_escalation(self, name: str, *, timeout: float | None = None) -> approvals_pb2.Escalation:
        """Reads an escalation with every attempt of its step."""
        request = approvals_pb2.GetEscalationRequest(name=name)
        return await self._caller.read(_methods.GET_ESCALATION, request, timeout)

    async def resolve_escalation(
        self,
        name: str,
        action: approvals_pb2.Resolution.Action,
        *,
        role: str = "",
        comment: str = "",
        request_id: str = "",
        etag: str = "",
        timeout: float | None = None,
    ) -> approvals_pb2.Escalation:
        """Decides how an escalated execution continues, for example `Resolution.RESUME`."""
        request = approvals_pb2.ResolveEscalationRequest(
            name=name, action=action, role=role, comment=comment, request_id=request_id, etag=etag
        )
        return await self._caller.write(_methods.RESOLVE_ESCALATION, request, timeout)


class OtherCalls:
    """Providers, workers, triggers and the store."""

    _caller: Caller

    async def get_provider(self, name: str, *, timeout: float | None = None) -> providers_pb2.Provider:
        """Reads a provider: capabilities, state table and health."""
        request = providers_pb2.GetProviderRequest(name=name)
        return await self._caller.read(_methods.GET_PROVIDER, request, timeout)

    def list_providers(self, *, timeout: float | None = None) -> AsyncIterator[providers_pb2.Provider]:
        """Every configured provider."""
        request = providers_pb2.ListProvidersRequest()
        return pages(self._caller, _methods.LIST_PROVIDERS, request, "providers", timeout)

    def list_workers(
        self, parent: str = "providers/-", *, page_size: int = 0, timeout: float | None = None
    ) -> AsyncIterator[workers_pb2.Worker]:
        """Every connected worker and its tasks."""
        request = workers_pb2.ListWorkersRequest(parent=parent, page_size=page_size)
        return pages(self._caller, _methods.LIST_WORKERS, request, "workers", timeout)

    async def get_queue(
        self, name: str = "providers/-/queue", *, timeout: float | None = None
    ) -> workers_pb2.Queue:
        """The tasks that wait for a worker and the executions that wait for their turn."""
        request = workers_pb2.GetQueueRequest(name=name)
        return await self._caller.read(_methods.GET_QUEUE, request, timeout)

    async def disable_trigger(
        self, definition: str, *, comment: str = "", request_id: str = "", timeout: float | None = None
    ) -> triggers_pb2.Trigger:
        """Disables the trigger of `definitions/{definition}`."""
        request = triggers_pb2.DisableTriggerRequest(
            name=f"{definition}/trigger", comment=comment, request_id=request_id
        )
        return await self._caller.write(_methods.DISABLE_TRIGGER, request, timeout)

    async def enable_trigger(
        self, definition: str, *, request_id: str = "", timeout: float | None = None
    ) -> triggers_pb2.Trigger:
        """Enables the trigger of `definitions/{definition}`."""
        request = triggers_pb2.EnableTriggerRequest(name=f"{definition}/trigger", request_id=request_id)
        return await self._caller.write(_methods.ENABLE_TRIGGER, request, timeout)

    async def purge_executions(
        self, filter: str, *, parent: str = "providers/-", force: bool = False, timeout: float | None = None
    ) -> admin_pb2.PurgeExecutionsResponse:
        """Removes finished executions, for example `end_time < "2026-01-01T00:00:00Z"`.

        Without `force` nothing is removed, and the executions are counted.
        """
        request = admin_pb2.PurgeExecutionsRequest(parent=parent, filter=filter, force=force)
        return await self._caller.read(_methods.PURGE_EXECUTIONS, request, timeout)

    async def publish_event(
        self,
        event: str,
        payload: Any = None,
        *,
        parent: str = "providers/-",
        labels: Mapping[str, str] | None = None,
        request_id: str = "",
        timeout: float | None = None,
    ) -> triggers_pb2.PublishEventResponse:
        """Publishes an event, which starts the definitions that it triggers."""
        request = triggers_pb2.PublishEventRequest(
            parent=parent, event=event, labels=dict(labels or {}), request_id=request_id
        )
        if payload is not None:
            request.payload.CopyFrom(json_payload(payload))
        return await self._caller.write(_methods.PUBLISH_EVENT, request, timeout)
