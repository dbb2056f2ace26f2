"""Serves a provider: the services Identity and Provider, and Staging in test builds."""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import pathlib
import re
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timezone
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from stateway.provider.calls import MAX_THREADS, as_error, call, remaining, within
from stateway.provider.errors import Context, ErrorKind, ProviderError
from stateway.provider.listener import SocketError, UnixSocket
from stateway.provider.provider import Provider
from stateway.provider.staging import CannotStage, Staging
from stateway.provider.start_errors import AddressError, ClassError, StartError
from stateway.provider.threads import DaemonThreads
from stateway.provider.v1 import identity_pb2, staging_pb2
from stateway.provider.v1 import observation_pb2 as observation
from stateway.provider.v1 import provider_pb2 as pb
from stateway.provider.verbs import Verbs
from stateway.types import json_payload

CONTRACT_VERSION = 1
"""The version of the contract that this package speaks."""

MAX_MESSAGE_BYTES = 4 * 1024 * 1024

_PACKAGE = "/stateway.provider.v1."
# How long open calls, and then the provider, may take to end after a stop, in seconds.
_GRACE = 2.0
_OPTIONS = [
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    # The gateway sends a ping every 10 seconds, also without open calls. By default, gRPC closes connections
    # with more than one ping in 5 minutes.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 500),
]
_log = logging.getLogger("stateway.provider")

Factory = Callable[[], Provider]


class Server:
    """A provider at an address. `make` creates the provider, again for every restart by the tests."""

    def __init__(
        self,
        make: Factory,
        address: str,
        *,
        staging: Staging | None = None,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        """`address` is `unix:/path/of/socket` or `host:port`. A host that is not this machine needs
        credentials, which should ask for the certificate of the gateway (`mutual_tls`).
        """
        if credentials is None and address.startswith("https://"):
            raise AddressError(f"`{address}` needs credentials (`--tls`), because https is encrypted")
        if credentials is not None and address.startswith("http://"):
            raise AddressError(f"`{address}` takes no credentials, because http is not encrypted")
        bare = address.removeprefix("http://").removeprefix("https://")
        if not re.fullmatch(r"unix:.+|[^/]+:\d+", bare):
            raise AddressError(f"`{address}` is not an address; use `unix:/path/of/socket` or `host:port`")
        address = bare
        if credentials is None and not _is_local(address):
            raise AddressError(f"`{address}` can be reached from other machines: give credentials (`--tls`)")
        if not callable(make):
            raise ClassError(
                f"a server creates the provider itself: give it the class `{type(make).__name__}`, not an object of it"
            )
        self._make = make
        self._address = address
        path = address.removeprefix("unix:")
        self._socket = UnixSocket(path) if path != address else None
        self._staging = staging
        self._credentials = credentials
        self._fault: staging_pb2.InjectFaultRequest | None = None
        self._begin()

    def _begin(self) -> None:
        """A new provider, as after a start of the program."""
        self._verbs = Verbs(self._make())
        self._instance_id = str(uuid.uuid4())
        self._start_time = datetime.now(timezone.utc)

    async def start(self) -> str:
        """Begins to serve. Returns the address as the configuration of the gateway takes it.

        Raises `SocketError` if another process uses the socket, or if the path is that of another file, and
        `StartError` if the class or the state table of the provider has a mistake.
        """
        self._verbs.provider.check()
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((_Methods(self),))
        if self._socket is not None:
            self._socket.check()
            try:
                with self._socket.creating() as path:
                    await self._listen(f"unix:{path}")
            except BaseException:
                await self._server.stop(None)
                raise
            return self._address
        port = await self._listen(self._address)
        scheme = "http" if self._credentials is None else "https"
        return f"{scheme}://{self._address.rpartition(':')[0]}:{port}"

    async def _listen(self, address: str) -> int:
        try:
            if self._credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, self._credentials)
        except RuntimeError:
            # gRPC does not tell the cause.
            text = "the address cannot be used, or another process uses it"
            raise SocketError(errno.EADDRINUSE, text, self._address) from None
        await self._server.start()
        return port

    async def stop(self) -> None:
        """Lets open calls finish, then closes the provider. The next process can use the socket immediately."""
        if self._socket is not None:
            self._socket.remove()
        await self._server.stop(_GRACE)
        try:
            await asyncio.wait_for(self._verbs.provider.close(), _GRACE)
        except (asyncio.TimeoutError, TimeoutError):
            _log.warning("the provider did not close within %s seconds", _GRACE)

    async def describe(self, request: identity_pb2.DescribeRequest) -> identity_pb2.DescribeResponse:
        provider = self._verbs.provider
        return identity_pb2.DescribeResponse(
            name=provider.name,
            version=provider.version,
            min_contract_version=CONTRACT_VERSION,
            max_contract_version=CONTRACT_VERSION,
            capabilities=sorted(self._verbs.capabilities),
            instance_id=self._instance_id,
            start_time=self._start_time,
            state_table=provider.state_table().text,
        )

    async def reset(self, request: staging_pb2.ResetRequest) -> staging_pb2.ResetResponse:
        assert self._staging is not None
        self._fault = None
        workload = await call(self._staging.reset)
        takes = self._verbs.provider.retry_from_takes
        made = staging_pb2.Workload(
            definition=workload.definition,
            input=_payload(workload.input),
            other_input=_payload(workload.other_input),
            takes_feedback="feedback" in takes,
            takes_from_start="from_start" in takes,
        )
        if workload.step_input is not None:
            made.step_input.CopyFrom(_payload(workload.step_input))
        return staging_pb2.ResetResponse(workload=made)

    async def stage(self, request: staging_pb2.StageExecutionRequest) -> staging_pb2.StageExecutionResponse:
        assert self._staging is not None
        try:
            return staging_pb2.StageExecutionResponse(id=await call(self._staging.stage, request.scene))
        except CannotStage as reason:
            raise ProviderError(ErrorKind.UNSUPPORTED, str(reason)) from None

    async def inject(self, request: staging_pb2.InjectFaultRequest) -> staging_pb2.InjectFaultResponse:
        self._fault = request
        return staging_pb2.InjectFaultResponse()

    async def restart(self, request: staging_pb2.RestartProviderRequest) -> staging_pb2.RestartProviderResponse:
        assert self._staging is not None
        if not self._staging.restartable:
            raise ProviderError(ErrorKind.UNSUPPORTED, "the engine does not outlive its provider")
        await self._verbs.provider.close()
        self._begin()
        return staging_pb2.RestartProviderResponse()

    async def disturb(self) -> None:
        """Carries out the fault that was injected, in place of the engine."""
        fault, self._fault = self._fault, None
        if fault is None:
            return
        delay = fault.delay.ToTimedelta()
        if fault.fault == staging_pb2.InjectFaultRequest.HANG:
            await asyncio.Event().wait()
        if fault.fault == staging_pb2.InjectFaultRequest.SLOW:
            await asyncio.sleep(delay.total_seconds())
            return
        kinds = {
            staging_pb2.InjectFaultRequest.THROTTLE: ErrorKind.THROTTLED,
            staging_pb2.InjectFaultRequest.UNAVAILABLE: ErrorKind.UNAVAILABLE,
            staging_pb2.InjectFaultRequest.MALFORMED: ErrorKind.MALFORMED,
            staging_pb2.InjectFaultRequest.DENIED: ErrorKind.PERMISSION_DENIED,
        }
        raise ProviderError(kinds[fault.fault], "a fault of the tests", retry_after=delay or None)

    def method(self, path: str) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The handler of a method."""
        service, _, name = path.removeprefix(_PACKAGE).partition("/")
        if service == "Identity" and name == "Describe":
            return _unary(
                name, identity_pb2.DescribeRequest, identity_pb2.DescribeResponse, self.describe
            )
        if service == "Provider":
            return self._provider_method(name)
        if service == "Staging" and self._staging is not None:
            return self._staging_method(name)
        return None

    def _provider_method(self, name: str) -> grpc.RpcMethodHandler[Any, Any] | None:
        if name == "WatchExecutions":
            return grpc.unary_stream_rpc_method_handler(
                self._watch,
                request_deserializer=pb.WatchExecutionsRequest.FromString,
                response_serializer=pb.WatchExecutionsResponse.SerializeToString,
            )
        found = self._verbs.handlers.get(name)
        if found is None:
            return None
        request, response, handle = found

        async def disturbed(message: Any) -> Any:
            await self.disturb()
            return await handle(message)

        return _unary(name, request, response, disturbed)

    def _staging_method(self, name: str) -> grpc.RpcMethodHandler[Any, Any] | None:
        s = staging_pb2
        found: dict[str, tuple[Any, Any, Any]] = {
            "Reset": (s.ResetRequest, s.ResetResponse, self.reset),
            "StageExecution": (s.StageExecutionRequest, s.StageExecutionResponse, self.stage),
            "InjectFault": (s.InjectFaultRequest, s.InjectFaultResponse, self.inject),
            "RestartProvider": (s.RestartProviderRequest, s.RestartProviderResponse, self.restart),
        }
        return _unary(name, *found[name]) if name in found else None

    async def _watch(
        self, request: pb.WatchExecutionsRequest, context: Context
    ) -> AsyncIterator[pb.WatchExecutionsResponse]:
        try:
            async for response in self._verbs.responses(request, self.disturb()):
                yield bounded(response)
        except Exception as error:
            await as_error(error, "WatchExecutions").abort(context)


class _Methods(grpc.GenericRpcHandler):
    def __init__(self, server: Server) -> None:
        self._server = server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        return self._server.method(handler_call_details.method)


def _unary(
    name: str, request: type[Any], response: type[Any], handle: Callable[[Any], Awaitable[Any]]
) -> grpc.RpcMethodHandler[Any, Any]:
    async def answer(message: Any, context: Context) -> Any:
        try:
            return bounded(await within(remaining(context), handle(message)))
        except Exception as error:
            await as_error(error, name).abort(context)

    return grpc.unary_unary_rpc_method_handler(
        answer, request_deserializer=request.FromString, response_serializer=response.SerializeToString
    )


_Answer = TypeVar("_Answer", bound=Message)


def bounded(answer: _Answer) -> _Answer:
    """Refuses an answer that gRPC would not send. The gateway then asks for fewer rows, where it can."""
    if answer.ByteSize() > MAX_MESSAGE_BYTES:
        raise ProviderError(
            ErrorKind.INTERNAL, "the answer is larger than 4 MiB", reason="PROVIDER_ANSWER_TOO_LARGE"
        )
    return answer


def _payload(value: Any) -> observation.Payload:
    made = json_payload(value)
    return observation.Payload(data=made.data, content_type=made.content_type)


def _is_local(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    return address.startswith("unix:") or host in ("127.0.0.1", "localhost", "::1")


def mutual_tls(certificate: str, key: str, gateway_ca: str) -> grpc.ServerCredentials:
    """Credentials from PEM files. Only a gateway with a certificate of `gateway_ca` may connect."""
    read = [pathlib.Path(path).read_bytes() for path in (certificate, key, gateway_ca)]
    return grpc.ssl_server_credentials(
        [(read[1], read[0])], root_certificates=read[2], require_client_auth=True
    )


async def serve(
    make: Factory,
    address: str,
    *,
    staging: Staging | None = None,
    credentials: grpc.ServerCredentials | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT.

    Then the process can end, also if a method hangs that blocks or that runs in `asyncio.to_thread`.
    """
    asyncio.get_running_loop().set_default_executor(DaemonThreads(MAX_THREADS))
    server = Server(make, address, staging=staging, credentials=credentials)
    at = await server.start()
    print(f"listening on {at}", file=sys.stderr, flush=True)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await stop.wait()
    await server.stop()


def main(make: Factory, staging: Callable[[], Staging] | None = None) -> None:
    """The command line of a provider: `program ADDRESS [--staging] [--tls CERTIFICATE KEY GATEWAY_CA]`."""
    parser = argparse.ArgumentParser(description=make.__doc__, allow_abbrev=False)
    parser.add_argument("address", help="unix:/path/of/socket, or host:port")
    parser.add_argument("--tls", nargs=3, metavar=("CERTIFICATE", "KEY", "GATEWAY_CA"), help="PEM files")
    if staging is not None:
        parser.add_argument("--staging", action="store_true", help="serve what `stateway conformance` needs")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    stage = staging() if staging is not None and given.staging else None
    try:
        credentials = mutual_tls(*given.tls) if given.tls else None
    except OSError as error:
        parser.exit(1, f"error: cannot read `{error.filename}`: {error.strerror}\n")
    try:
        asyncio.run(serve(make, given.address, staging=stage, credentials=credentials))
    except (SocketError, StartError) as error:
        parser.exit(1, f"error: {error}\n")
