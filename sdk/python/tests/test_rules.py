"""Rules that need no gateway."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf import any_pb2, descriptor_pool
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

import stateway
from stateway import Category, SubState, _back_off, _channel, _methods
from stateway._caller import provider_of
from stateway._outage import Outage
from stateway.errors import from_rpc
from stateway.v1 import executions_pb2
from stateway.v1 import workers_pb2 as pb
from stateway.worker.records import Begun, TaskRecords
from stateway.worker.handler import Handlers, answer
from stateway.worker.outbox import MOST_MESSAGES, Outbox
from stateway.worker.task import Task


def task(token: str) -> pb.Task:
    return pb.Task(task_token=token)


def done(token: str) -> pb.StreamTasksRequest:
    return pb.StreamTasksRequest(completed=pb.TaskCompleted(task_token=token))


def records(capacity: int, *tokens: str) -> TaskRecords:
    made = TaskRecords(capacity)
    for token in tokens:
        made.take(task(token))
    return made


def begin(of: TaskRecords) -> list[Begun]:
    begun = []
    while (one := of.begin()) is not None:
        begun.append(one)
    return begun


def tokens(begun: list[Begun]) -> list[str]:
    return [one.task.task_token for one in begun]


def test_no_more_tasks_begin_than_the_capacity_allows() -> None:
    at = records(2, "a", "b", "c")
    begun = begin(at)
    assert tokens(begun) == ["a", "b"]
    assert at.finish(begun[0].arrival, "a", done("a"))
    assert tokens(begin(at)) == ["c"]


def test_a_task_that_arrives_twice_runs_once() -> None:
    at = records(4, "a", "a")
    begun = begin(at)
    assert tokens(begun) == ["a"]
    at.take(task("a"))
    assert begin(at) == []
    at.finish(begun[0].arrival, "a", done("a"))
    at.take(task("a"))
    assert begin(at) == [], "its answer is on its way"


def test_an_outage_is_logged_once_and_its_end_is_known(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage(logging.getLogger("stateway.worker"), "the worker is disconnected")
    assert not outage.end()
    for _ in range(3):
        outage.report(stateway.Unavailable("no gateway"))
    assert [record.message for record in caplog.records] == ["the worker is disconnected: no gateway; retrying"]
    assert outage.end() and not outage.end()


async def test_one_text_is_not_taken_for_a_list_of_texts() -> None:
    async with stateway.Client("127.0.0.1:1", actor="ada") as client:
        with pytest.raises(TypeError, match="names"):
            client.watch(names="providers/builtin/executions/e")
        with pytest.raises(TypeError, match="SubState.ERROR"):
            await client.wait("providers/builtin/executions/e", "ERROR")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="roles"):
        _channel.identity("ada", "ops")


def test_wrong_addresses_and_identities_say_what_to_do() -> None:
    for address in (":7380", "127.0.0.1:99999", "127.0.0.1:x"):
        with pytest.raises(stateway.InvalidArgument, match="INVALID_SERVER_URL"):
            _channel._target(address)
    for address in ("[::1]:7380", "gateway.example.org:7380", "unix:/run/stateway"):
        assert _channel._target(address) == address
    with pytest.raises(stateway.InvalidArgument, match="credentials"):
        _channel._target("https://gateway.example.org:7380")
    with pytest.raises(stateway.InvalidArgument, match="actor"):
        _channel.identity(None, ["ops"])


def test_an_answer_is_kept_until_it_is_settled() -> None:
    at = records(1, "a")
    begun = begin(at)
    at.finish(begun[0].arrival, "a", done("a"))
    assert list(at.unacknowledged()) == [done("a")] and not at.is_clear
    at.settle("a")
    assert at.is_clear


def test_the_answer_to_a_withdrawn_task_is_dropped_and_its_place_is_free_afterwards() -> None:
    at = records(1, "a", "b")
    begun = begin(at)
    assert at.withdraw("a")
    assert begin(at) == [], "the handler still runs"
    assert not at.finish(begun[0].arrival, "a", done("a"))
    assert tokens(begin(at)) == ["b"]


def test_a_task_that_is_cancelled_before_it_began_is_given_back() -> None:
    at = records(1, "a", "b")
    assert at.cancel("a") and not at.cancel("unknown")
    begun = begin(at)
    assert tokens(begun) == ["b"]
    assert not at.cancel("b"), "its answer is wanted"
    assert at.finish(begun[0].arrival, "b", done("b"))


def test_of_a_withdrawn_task_that_arrives_again_only_the_new_answer_counts() -> None:
    at = records(2, "a")
    first = begin(at)
    at.withdraw("a")
    at.take(task("a"))
    second = begin(at)
    assert not at.finish(first[0].arrival, "a", done("a"))
    assert at.finish(second[0].arrival, "a", done("a"))


def test_what_is_not_done_is_given_back() -> None:
    at = records(1, "a", "b")
    begun = begin(at)
    assert at.give_back_ready() == ["b"]
    assert at.give_back_running() == ["a"]
    at.finish(begun[0].arrival, "a", done("a"))
    assert at.is_clear


def heartbeat(token: str, detail: str) -> pb.StreamTasksRequest:
    return pb.StreamTasksRequest(heartbeat=pb.TaskHeartbeat(task_token=token, detail=detail))


async def sent(outbox: Outbox) -> list[pb.StreamTasksRequest]:
    outbox.close()
    messages = []
    while (message := await outbox.next()) is not None:
        messages.append(message)
    return messages


async def test_a_gateway_that_does_not_read_costs_one_heartbeat_per_task() -> None:
    outbox = Outbox()
    for number in range(10_000):
        outbox.send(heartbeat("a", str(number)))
        outbox.send(heartbeat("b", "same"))
        outbox.send(heartbeat("", ""))
    assert await sent(outbox) == [heartbeat("a", "9999"), heartbeat("b", "same"), heartbeat("", "")]


async def test_an_answer_replaces_the_heartbeat_of_its_task_and_nothing_else() -> None:
    outbox = Outbox()
    for message in (heartbeat("a", "1"), heartbeat("b", "1"), done("a"), heartbeat("b", "2")):
        outbox.send(message)
    assert await sent(outbox) == [heartbeat("b", "2"), done("a")]


async def test_a_gateway_that_never_reads_ends_the_session_instead_of_filling_the_memory() -> None:
    outbox = Outbox()
    for number in range(MOST_MESSAGES + 1):
        outbox.send(done(str(number)))
    assert outbox.overflowed and await sent(outbox) == []


def test_the_most_specific_handler_does_a_task() -> None:
    handlers = Handlers()
    made: dict[str, Any] = {name: lambda task: None for name in ("both", "action", "role", "any")}
    handlers.add("r", "a", made["both"])
    handlers.add(None, "a", made["action"])
    handlers.add("r", None, made["role"])
    found = [handlers.find("r", "a"), handlers.find("x", "a"), handlers.find("r", "x")]
    assert found == [made["both"], made["action"], made["role"]]
    assert handlers.find("x", "x") is None
    handlers.add(None, None, made["any"])
    assert handlers.find("x", "x") is made["any"]
    with pytest.raises(ValueError):
        handlers.add("r", "a", made["any"])


def made_task() -> Task:
    return Task(pb.Task(task_token="t", role="r", action="a"), lambda heartbeat: None)


async def test_whatever_a_handler_does_the_task_is_answered() -> None:
    def exits(task: Task) -> None:
        raise SystemExit(3)

    async def gives_up(task: Task) -> None:
        raise asyncio.CancelledError

    async def not_json(task: Task) -> object:
        return {"at": object()}

    def fails(task: Task) -> None:
        task.report_usage(input_tokens=3)
        task.report_usage(input_tokens=4, cost_micros=5)
        raise stateway.TaskError(
            "x" * 10_000, Category.TRANSIENT, code="E1", retry_after=timedelta(seconds=2), no_retry=True
        )

    for handler in (exits, gives_up, not_json):
        failed = (await answer(handler, made_task())).failed
        assert failed.task_token == "t" and failed.effects_unknown, failed
    failed = (await answer(None, made_task())).failed
    assert "no handler for role `r`" in failed.message and not failed.effects_unknown
    failed = (await answer(fails, made_task())).failed
    assert failed.category == executions_pb2.ERROR_CATEGORY_TRANSIENT
    assert len(failed.message.encode()) <= 4 * 1024 + 3 and failed.message.endswith("…")
    assert (failed.code, failed.retry_after.seconds, failed.no_retry) == ("E1", 2, True)
    assert failed.usage == executions_pb2.Usage(input_token_count=7, cost_micros=5)
    completed = (await answer(lambda task: None, made_task())).completed
    assert completed.output.data == b"null" and not completed.HasField("usage")


async def test_a_handler_that_reports_something_wrong_fails_its_task_with_the_mistake() -> None:
    def with_wrong_pause(task: Task) -> None:
        raise stateway.TaskError("later", Category.EXTERNAL, retry_after=30)  # type: ignore[arg-type]

    failed = (await answer(with_wrong_pause, made_task())).failed
    assert failed.task_token and failed.effects_unknown
    assert "the result of the handler cannot be sent" in failed.message

    def with_an_exception(task: Task) -> None:
        raise stateway.TaskError(ValueError("no such order"), Category.EXTERNAL)  # type: ignore[arg-type]

    failed = (await answer(with_an_exception, made_task())).failed
    assert (failed.message, failed.category) == ("no such order", executions_pb2.ERROR_CATEGORY_EXTERNAL)



def test_pauses_double_up_to_the_longest_and_then_end() -> None:
    back_off = _back_off.BackOff(first=0.1, longest=0.3, most=3)
    assert [back_off.pause(retry, None, 0.0) for retry in range(1, 5)] == [0.1, 0.2, 0.3, None]
    assert back_off.pause(1, 4.0, 1.0) == 4.0, "what the gateway asks for is not shortened"
    assert back_off.pause(1, None, 1.0) == 0.05


def rpc_error(code: grpc.StatusCode, text: str, *details: Message) -> grpc.aio.AioRpcError:
    status = status_pb2.Status(code=code.value[0], message=text)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    trailers = grpc.aio.Metadata()
    if details:
        trailers.add("grpc-status-details-bin", status.SerializeToString())
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details=text)


def test_every_detail_of_an_error_is_decoded() -> None:
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="filter", description="no field `x`")
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1500)
    info = error_details_pb2.ErrorInfo(
        reason="INVALID_FILTER", domain="stateway.dev", metadata={"column": "7"}
    )
    advice = error_details_pb2.LocalizedMessage(locale="en", message="Look again.")
    error = from_rpc(rpc_error(grpc.StatusCode.INVALID_ARGUMENT, "no such field", info, retry, advice, bad))
    assert type(error) is stateway.InvalidArgument and error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (error.reason, error.domain, error.hint) == ("INVALID_FILTER", "stateway.dev", "Look again.")
    assert error.metadata == {"column": "7"} and error.retry_after == timedelta(seconds=1.5)
    assert error.violations == (stateway.Violation("filter", "no field `x`"),)
    assert error.is_from_gateway and str(error).startswith("no such field (INVALID_FILTER)")


def test_an_error_of_the_connection_is_told_apart() -> None:
    refused = from_rpc(rpc_error(grpc.StatusCode.UNAVAILABLE, "failed to connect to all addresses; refused"))
    lost = from_rpc(rpc_error(grpc.StatusCode.UNAVAILABLE, "Socket closed"))
    assert not refused.is_from_gateway and refused.reason == lost.reason == "GATEWAY_UNREACHABLE"
    assert not refused.was_sent and lost.was_sent


def test_names_of_callers_that_no_header_takes_are_refused() -> None:
    assert _channel.identity("ada", ["ops", "release"]) == (
        ("x-stateway-actor", "ada"),
        ("x-stateway-roles", "ops,release"),
    )
    assert _channel.identity(None) == ()
    for actor, role in (("", "a"), ("a b", "a"), ("ä", "a"), ("a", "b,c"), ("a", ""), (None, "a")):
        with pytest.raises(stateway.InvalidArgument) as caught:
            _channel.identity(actor, [role])
        assert caught.value.reason == "INVALID_IDENTITY"


async def test_an_address_that_is_none_is_refused() -> None:
    for address in ("", "localhost", "https://a:1", "http://a:1/path"):
        with pytest.raises(stateway.InvalidArgument) as caught:
            stateway.Client(address)
        assert caught.value.reason == "INVALID_SERVER_URL"


def test_a_client_outside_of_an_event_loop_is_refused() -> None:
    with pytest.raises(RuntimeError, match="inside a coroutine"):
        stateway.Client("127.0.0.1:1")


def test_the_provider_of_a_name() -> None:
    assert provider_of("providers/sfn/definitions/d") == "providers/sfn"
    assert provider_of("definitions/d") is None and provider_of("providers/b") is None


def test_enumerations_have_the_values_of_the_api() -> None:
    states = {state.name: state.value for state in SubState}
    api = dict(executions_pb2.SubState.items())
    assert {f"SUB_STATE_{name}": value for name, value in states.items()} | {"SUB_STATE_UNSPECIFIED": 0} == api
    categories = {category.name: category.value for category in Category}
    api = dict(executions_pb2.ErrorCategory.items())
    expected = {f"ERROR_CATEGORY_{name}": value for name, value in categories.items()}
    assert expected | {"ERROR_CATEGORY_UNSPECIFIED": 0} == api


def test_every_method_has_the_types_of_the_api() -> None:
    methods = [value for value in vars(_methods).values() if isinstance(value, _methods.Method)]
    assert len(methods) > 30
    for method in methods:
        _, service, name = method.path.split("/")
        found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]
        assert found.input_type is method.request.DESCRIPTOR, method
        assert found.output_type is method.response.DESCRIPTOR, method
