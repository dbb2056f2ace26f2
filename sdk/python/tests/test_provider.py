"""The base class of providers: what it derives, refuses and bounds for every subclass."""

from __future__ import annotations

import asyncio
import pathlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2

from conftest import ROOT
from stateway.provider import (
    CannotStage,
    ErrorKind,
    Gone,
    Health,
    InSync,
    Observation,
    Provider,
    ProviderError,
    Server,
    Staging,
    StateTable,
    SubState,
    Watched,
    Workload,
    decode_cursor,
    encode_cursor,
    not_found,
    payload,
    watch_by_polling,
)
from stateway.provider.v1 import error_pb2, identity_pb2, provider_pb2, staging_pb2
from stateway.provider.v1 import observation_pb2 as pb

TABLE = ROOT / "examples/python-provider/table.toml"


class Jobs(Provider):
    """Two verbs, one of them blocking."""

    name, version, table = "jobs", "2", TABLE
    declares = frozenset({"payloads"})
    options = frozenset({"queue"})

    def __init__(self) -> None:
        self.jobs = {"a": "open", "b": "done"}
        self.started: list[provider_pb2.StartExecutionRequest] = []

    async def get(self, id: str, full: bool) -> Observation:
        if id == "defect":
            raise KeyError("password=secret")
        if id not in self.jobs:
            raise not_found(id)
        state = pb.NativeState(state=self.jobs[id])
        return Observation(id=id, native_state=state, input=payload({"n": 1}), output=payload(2))

    def start(self, request: provider_pb2.StartExecutionRequest) -> Observation:
        if request.definition == "slow":
            time.sleep(3)
        self.started.append(request)
        return Observation(id="new", native_state=pb.NativeState(state="open"), input=payload(1))

    async def list(self, request: provider_pb2.ListExecutionsRequest) -> provider_pb2.ListExecutionsResponse:
        decode_cursor("list", request.cursor)
        return provider_pb2.ListExecutionsResponse(observations=[await self.get("a", False)])

    async def watch_all(self) -> AsyncIterator[Watched]:
        yield await self.get("a", False)
        yield InSync()
        await asyncio.sleep(0.35)
        yield Gone("a")


class JobStaging(Staging):
    restartable = True

    def reset(self) -> Workload:
        return Workload("d", 1, 2)

    async def succeeded(self) -> str:
        return "b"


class Peer:
    """Calls a provider as the gateway does."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel

    async def get(self, id: str, view: Any = provider_pb2.VIEW_BASIC, timeout: float = 5) -> Any:
        request = provider_pb2.GetExecutionRequest(id=id, view=view)
        return await self.send("Provider/GetExecution", request, Observation, timeout)

    async def send(self, method: str, request: Any, response: Any, timeout: float = 5) -> Any:
        call = self.channel.unary_unary(
            f"/stateway.provider.v1.{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return await call(request, timeout=timeout)

    async def refused(self, method: str, request: Any, timeout: float = 5) -> tuple[str, str, str, Any]:
        """Kind, reason, message and detail of an error."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.send(method, request, Observation, timeout)
        if caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            # The deadline may pass on this side before the answer of the provider arrives.
            return "TIMEOUT", "", "", None
        trailers = {key: value for key, value in caught.value.trailing_metadata() or ()}
        status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
        detail = error_pb2.ErrorDetail()
        assert status.details[0].Unpack(detail)
        kind = ErrorKind(detail.kind)
        return kind.name, detail.reason, caught.value.details() or "", detail


@asynccontextmanager
async def served(
    folder: pathlib.Path, provider: type[Provider] = Jobs, staging: Staging | None = None
) -> AsyncIterator[Peer]:
    server = Server(provider, f"unix:{folder}/p.sock", staging=staging)
    address = await server.start()
    async with grpc.aio.insecure_channel(address) as channel:
        yield Peer(channel)
    await server.stop()


class Ends(Jobs):
    """Ends and counts jobs, without a choice about compensation."""

    async def get(self, id: str, full: bool) -> Observation:
        if id == "large":
            return Observation(id=id, native_state=pb.NativeState(state="open"), notes=["x" * 5_000_000])
        return await super().get(id, full)

    async def cancel(self, request: provider_pb2.CancelExecutionRequest) -> Observation:
        return await self.get(request.id, False)

    async def kill(self, request: provider_pb2.CancelExecutionRequest) -> Observation:
        return await self.get(request.id, False)

    def count(self) -> list[provider_pb2.ExecutionGroup]:
        example = Observation(native_state=pb.NativeState(state="open"))
        return [provider_pb2.ExecutionGroup(example=example, count=7)]


async def test_what_is_off_or_not_known_is_refused(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path, Ends) as peer:
        Cancel = provider_pb2.CancelExecutionRequest
        for mode in (Cancel.GRACEFUL, Cancel.KILL):
            refused = await peer.refused(
                "Provider/CancelExecution", Cancel(id="a", mode=mode, compensation=Cancel.SKIP)
            )
            assert refused[0] == "UNSUPPORTED"
        for unknown in (Cancel(id="a", mode=99), Cancel(id="a", compensation=99)):  # type: ignore[arg-type]
            assert (await peer.refused("Provider/CancelExecution", unknown))[0] == "INVALID_ARGUMENT"
        ids = provider_pb2.ObserveExecutionsRequest(ids=[str(number) for number in range(1_001)])
        assert (await peer.refused("Provider/ObserveExecutions", ids))[0] == "INVALID_ARGUMENT"


async def test_an_answer_that_is_too_large_is_refused_with_its_reason(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path, Ends) as peer:
        get = provider_pb2.GetExecutionRequest(id="large")
        kind, reason, _, _ = await peer.refused("Provider/GetExecution", get)
        assert (kind, reason) == ("INTERNAL", "PROVIDER_ANSWER_TOO_LARGE")


async def test_counts_have_an_example_and_no_state_of_ours(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path, Ends) as peer:
        counted = await peer.send(
            "Provider/CountExecutions",
            provider_pb2.CountExecutionsRequest(),
            provider_pb2.CountExecutionsResponse,
        )
        assert [(group.example.native_state.state, group.count) for group in counted.groups] == [("open", 7)]


def test_capabilities_follow_from_the_methods_and_what_is_declared() -> None:
    assert Jobs.capabilities() == ["list", "payloads", "start", "watch_all"]

    class Wrong(Jobs):
        declares = frozenset({"telepathy"})

    class Half(Jobs):
        async def get_definition(self, request: Any) -> Any:
            return None

    with pytest.raises(TypeError, match="telepathy"):
        Wrong.capabilities()
    with pytest.raises(TypeError, match="list_definitions"):
        Half.capabilities()


async def test_a_provider_describes_itself(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path) as peer:
        request = identity_pb2.DescribeRequest(min_contract_version=1, max_contract_version=1)
        described = await peer.send("Identity/Describe", request, identity_pb2.DescribeResponse)
        assert (described.name, described.version) == ("jobs", "2")
        assert (described.min_contract_version, described.max_contract_version) == (1, 1)
        assert list(described.capabilities) == Jobs.capabilities()
        assert described.state_table == TABLE.read_text() and described.HasField("start_time")
        again = await peer.send("Identity/Describe", request, identity_pb2.DescribeResponse)
        assert again.instance_id == described.instance_id


async def test_payloads_are_only_in_the_full_view(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path) as peer:
        assert (await peer.get("a", provider_pb2.VIEW_FULL)).input.data == b'{"n":1}'
        start = provider_pb2.StartExecutionRequest(definition="d")
        page = provider_pb2.ListExecutionsRequest(page_size=5)
        listed = await peer.send("Provider/ListExecutions", page, provider_pb2.ListExecutionsResponse)
        started = await peer.send("Provider/StartExecution", start, Observation)
        for seen in (await peer.get("a"), listed.observations[0], started):
            assert not seen.HasField("input") and not seen.HasField("output")


async def test_many_are_observed_in_order_and_one_failure_does_not_fail_the_others(
    tmp_path: pathlib.Path,
) -> None:
    async with served(tmp_path) as peer:
        request = provider_pb2.ObserveExecutionsRequest(ids=["b", "none", "a", "b"])
        answer = await peer.send("Provider/ObserveExecutions", request, provider_pb2.ObserveExecutionsResponse)
        kinds = [result.WhichOneof("result") for result in answer.results]
        assert kinds == ["observation", "error", "observation", "observation"]
        assert answer.results[1].error.kind == error_pb2.ERROR_KIND_NOT_FOUND
        assert "does not exist" in answer.results[1].error.message


async def test_what_is_not_offered_is_refused_and_never_ignored(tmp_path: pathlib.Path) -> None:
    start = provider_pb2.StartExecutionRequest
    delayed = start(definition="d")
    delayed.delay.FromTimedelta(timedelta(seconds=1))
    async with served(tmp_path) as peer:
        pause = provider_pb2.PauseExecutionRequest(id="a")
        assert (await peer.refused("Provider/PauseExecution", pause))[:2] == (
            "UNSUPPORTED",
            "CAPABILITY_NOT_SUPPORTED",
        )
        cancel = provider_pb2.CancelExecutionRequest(id="a")
        assert (await peer.refused("Provider/CancelExecution", cancel))[0] == "UNSUPPORTED"
        for request in (start(definition="d", labels={"a": "b"}), delayed):
            assert (await peer.refused("Provider/StartExecution", request))[0] == "UNSUPPORTED"
        option = start(definition="d", options={"quue": "x"})
        assert (await peer.refused("Provider/StartExecution", option))[:2] == (
            "INVALID_ARGUMENT",
            "OPTION_NOT_SUPPORTED",
        )
        await peer.send("Provider/StartExecution", start(definition="d", options={"queue": "x"}), Observation)


async def test_errors_have_a_kind_and_defects_do_not_show_their_text(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path) as peer:
        get = provider_pb2.GetExecutionRequest
        kind, _, message, _ = await peer.refused("Provider/GetExecution", get(id="none"))
        assert (kind, message) == ("NOT_FOUND", "execution `none` does not exist")
        kind, _, message, _ = await peer.refused("Provider/GetExecution", get(id="defect"))
        assert (kind, message) == ("INTERNAL", "the provider failed: KeyError")
        foreign = provider_pb2.ListExecutionsRequest(page_size=1, cursor="kit")
        assert (await peer.refused("Provider/ListExecutions", foreign))[0] == "INVALID_ARGUMENT"


async def test_a_call_ends_by_its_deadline_and_a_blocking_method_delays_no_other(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path) as peer:
        slow = provider_pb2.StartExecutionRequest(definition="slow")
        begun = time.monotonic()
        waiting = asyncio.create_task(peer.refused("Provider/StartExecution", slow, timeout=1))
        await asyncio.sleep(0.1)
        await peer.get("a")
        assert not waiting.done(), "the slow call delays no other"
        assert (await waiting)[0] == "TIMEOUT" and time.monotonic() - begun < 2.5


async def test_a_watch_reports_changes_and_heartbeats(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path) as peer:
        request = provider_pb2.WatchExecutionsRequest(scope=provider_pb2.WatchExecutionsRequest.ALL)
        request.heartbeat_interval.FromTimedelta(timedelta(seconds=0.1))
        watch = peer.channel.unary_stream(
            "/stateway.provider.v1.Provider/WatchExecutions",
            request_serializer=provider_pb2.WatchExecutionsRequest.SerializeToString,
            response_deserializer=provider_pb2.WatchExecutionsResponse.FromString,
        )
        items = [response async for response in watch(request)]
        kinds = [item.WhichOneof("item") for item in items]
        assert kinds[:3] == ["seen", "in_sync", "heartbeat"] and kinds[-1] == "gone", kinds
        assert not items[0].seen.HasField("input")
        request.scope = provider_pb2.WatchExecutionsRequest.ONE
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            [response async for response in watch(request)]
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_tests_stage_scenes_inject_faults_and_restart_the_provider(tmp_path: pathlib.Path) -> None:
    s = staging_pb2
    async with served(tmp_path) as peer:
        with pytest.raises(grpc.aio.AioRpcError) as absent:
            await peer.send("Staging/Reset", s.ResetRequest(), s.ResetResponse)
        assert absent.value.code() is grpc.StatusCode.UNIMPLEMENTED, "only test builds serve it"
    async with served(tmp_path, staging=JobStaging()) as peer:
        reset = await peer.send("Staging/Reset", s.ResetRequest(), s.ResetResponse)
        assert reset.workload.definition == "d" and reset.workload.other_input.data == b"2"
        scene = s.Scene(succeeded=s.SucceededScene())
        staged = await peer.send("Staging/StageExecution", s.StageExecutionRequest(scene=scene), s.StageExecutionResponse)
        assert staged.id == "b"
        stuck = s.StageExecutionRequest(scene=s.Scene(stuck=s.StuckScene()))
        assert (await peer.refused("Staging/StageExecution", stuck))[2] == "executions of this engine are never stuck"
        get = provider_pb2.GetExecutionRequest(id="a")
        faults = {
            s.InjectFaultRequest.THROTTLE: "THROTTLED",
            s.InjectFaultRequest.UNAVAILABLE: "UNAVAILABLE",
            s.InjectFaultRequest.MALFORMED: "MALFORMED",
            s.InjectFaultRequest.DENIED: "PERMISSION_DENIED",
            s.InjectFaultRequest.HANG: "TIMEOUT",
        }
        for fault, kind in faults.items():
            inject = s.InjectFaultRequest(fault=fault)
            inject.delay.FromTimedelta(timedelta(seconds=7))
            await peer.send("Staging/InjectFault", inject, s.InjectFaultResponse)
            found = await peer.refused("Provider/GetExecution", get, timeout=0.3)
            assert found[0] == kind
            if kind == "THROTTLED":
                assert found[3].retry_after.seconds == 7
            await peer.get("a")
        describe = identity_pb2.DescribeRequest()
        before = await peer.send("Identity/Describe", describe, identity_pb2.DescribeResponse)
        await peer.send("Staging/RestartProvider", s.RestartProviderRequest(), s.RestartProviderResponse)
        after = await peer.send("Identity/Describe", describe, identity_pb2.DescribeResponse)
        assert before.instance_id != after.instance_id


async def test_an_address_that_other_machines_reach_needs_credentials() -> None:
    for address in ("0.0.0.0:0", "example.org:1"):
        with pytest.raises(ValueError, match="credentials"):
            Server(Jobs, address)
    server = Server(Jobs, "127.0.0.1:0")
    address = await server.start()
    assert address.startswith("http://127.0.0.1:") and not address.endswith(":0")
    await server.stop()


async def test_only_the_user_of_the_process_may_use_the_socket(tmp_path: pathlib.Path) -> None:
    async with served(tmp_path):
        assert (tmp_path / "p.sock").stat().st_mode & 0o077 == 0


def test_a_cursor_is_valid_for_its_own_list_only() -> None:
    cursor = encode_cursor("list", "position/7")
    assert decode_cursor("list", cursor) == "position/7" and decode_cursor("list", "") is None
    foreign = ["kit", "list", "list.", "list.x", "history.1", cursor + "x", cursor.replace("list", "other"), "ä.b.c"]
    for text in foreign:
        with pytest.raises(ProviderError) as refused:
            decode_cursor("list", text)
        assert refused.value.kind is ErrorKind.INVALID_ARGUMENT


def test_the_row_with_most_conditions_decides_whether_a_state_is_final() -> None:
    table = StateTable(
        '[[rows]]\nnative = "ENDED"\nterminal = false\n'
        '[[rows]]\nnative = "ENDED"\nwhen = {ok = "yes"}\nterminal = true\n'
        '[[rows]]\nscope = "step"\nnative = "OTHER"\nterminal = true\n'
    )
    ended = Observation(native_state=pb.NativeState(state="ENDED"))
    assert not table.is_final(ended)
    ended.native_state.qualifiers["ok"] = "yes"
    assert table.is_final(ended)
    assert not table.is_final(Observation(native_state=pb.NativeState(state="OTHER")))


async def test_polling_reports_differences() -> None:
    def seen(id: str, state: str) -> Observation:
        return Observation(id=id, native_state=pb.NativeState(state=state))

    reads = [[seen("a", "1"), seen("b", "1")], [seen("a", "2"), seen("b", "1")], [seen("a", "2")]]

    async def read() -> list[Observation]:
        return reads.pop(0) if reads else [seen("a", "2")]

    watch = watch_by_polling(read, 0.01)
    found = [await anext(watch) for _ in range(5)]
    assert found == [seen("a", "1"), seen("b", "1"), InSync(), seen("a", "2"), Gone("b")]


def test_a_scene_that_is_not_implemented_has_a_reason() -> None:
    with pytest.raises(CannotStage, match="several open steps"):
        Staging().open_steps([SubState.RUNNING, SubState.WAITING])
    assert Health() == Health("", "")
