"""A client in another language: generated from the API's image, it trusts nothing but the wire.

Each function named test_* is one test. An argument runs only the tests whose names contain it. The
gateway is the real binary, started on a free loopback port and ended by its process id.
"""

import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import uuid

import grpc
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.rpc import error_details_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT = 10


def generate_client(folder):
    """Generates a client from the committed image of the API, and makes it importable."""
    image = ROOT / "proto/stateway.v1.binpb"
    files = FileDescriptorSet.FromString(image.read_bytes()).file
    ours = [file.name for file in files if file.package == "stateway.v1"]
    arguments = ["protoc", f"--descriptor_set_in={image}"]
    arguments += [f"--python_out={folder}", f"--grpc_python_out={folder}", *ours]
    assert protoc.main(arguments) == 0, "no client can be generated from the image"
    sys.path.insert(0, folder)


CONFIG = """
[providers.memory]
kind = "memory"
[providers.builtin]
kind = "builtin"
"""


class Gateway:
    """The real binary with scripted executions and the durable engine, in a folder of its own."""

    def __enter__(self):
        binary = os.path.abspath(os.environ["STATEWAY_BINARY"])
        self.folder = tempfile.TemporaryDirectory()
        (pathlib.Path(self.folder.name) / "stateway.toml").write_text(CONFIG)
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0"],
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder.name,
        )
        for line in self.process.stderr:
            if found := re.search(r"http://(127\.0\.0\.1:\d+)", line):
                self.address = found.group(1)
                return self
        raise RuntimeError("the gateway ended before it listened")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=TIMEOUT)
        self.folder.cleanup()


def test_reflection_describes_every_service(address):
    channel = grpc.insecure_channel(address)
    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    ours = {f"stateway.v1.{name}" for name in
            ("Executions", "Definitions", "Approvals", "Providers", "Workers", "Recovery", "Admin",
             "Triggers")}
    assert ours <= services, services
    method = DescriptorPool(database).FindServiceByName("stateway.v1.Executions").FindMethodByName(
        "WatchExecutions"
    )
    assert method.server_streaming
    assert method.input_type.full_name == "stateway.v1.WatchExecutionsRequest"


def test_providers_tell_what_they_can_do(address):
    from stateway.v1 import providers_pb2, providers_pb2_grpc

    stub = providers_pb2_grpc.ProvidersStub(grpc.insecure_channel(address))
    answer = stub.ListProviders(providers_pb2.ListProvidersRequest(), timeout=TIMEOUT)
    names = [provider.name for provider in answer.providers]
    assert names == ["providers/builtin", "providers/memory"], names
    assert all(provider.capabilities.signal for provider in answer.providers)


def test_an_execution_is_started_watched_signalled_and_waited_for(address):
    from stateway.v1 import executions_pb2, executions_pb2_grpc

    stub = executions_pb2_grpc.ExecutionsStub(grpc.insecure_channel(address))
    request = executions_pb2.StartExecutionRequest(
        definition="providers/memory/definitions/approval", request_id=str(uuid.uuid4())
    )
    started = stub.StartExecution(request, timeout=TIMEOUT)
    assert stub.StartExecution(request, timeout=TIMEOUT).name == started.name
    seen = []
    watch = stub.WatchExecutions(
        executions_pb2.WatchExecutionsRequest(names=[started.name]), timeout=TIMEOUT
    )
    for answer in watch:
        seen.append(answer.execution.sub_state)
        if answer.execution.sub_state == executions_pb2.SUB_STATE_WAITING:
            break
    watch.cancel()
    assert executions_pb2.SUB_STATE_RUNNING in seen, seen
    stub.SignalExecution(
        executions_pb2.SignalExecutionRequest(name=started.name, signal="approve"), timeout=TIMEOUT
    )
    waited = stub.WaitExecution(
        executions_pb2.WaitExecutionRequest(name=started.name), timeout=TIMEOUT
    )
    assert waited.reached
    assert waited.execution.sub_state == executions_pb2.SUB_STATE_SUCCEEDED


def test_an_error_carries_its_error_info(address):
    from stateway.v1 import executions_pb2, executions_pb2_grpc

    stub = executions_pb2_grpc.ExecutionsStub(grpc.insecure_channel(address))
    try:
        stub.ListExecutions(
            executions_pb2.ListExecutionsRequest(parent="providers/-", filter="substate = running"),
            timeout=TIMEOUT,
        )
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        info = error_details_pb2.ErrorInfo()
        assert rpc_status.from_call(error).details[0].Unpack(info)
        assert (info.reason, info.domain) == ("INVALID_FILTER", "stateway.dev")
        assert info.metadata["column"] == "1"
        advice = error_details_pb2.LocalizedMessage()
        assert any(detail.Unpack(advice) for detail in rpc_status.from_call(error).details)
        assert "sub_state" in advice.message
    else:
        raise AssertionError("a bad filter was accepted")


def test_the_tour_of_the_readme_durable_executions(address):
    """The section "Two minutes": an order that cannot be delivered is rolled back."""
    from stateway.v1 import definitions_pb2, definitions_pb2_grpc
    from stateway.v1 import executions_pb2, executions_pb2_grpc

    channel = grpc.insecure_channel(address)
    source = (ROOT / "examples/order-saga/order-saga.yaml").read_text()
    applied = definitions_pb2_grpc.DefinitionsStub(channel).ApplyDefinition(
        definitions_pb2.ApplyDefinitionRequest(source=source), timeout=TIMEOUT
    )
    assert applied.changed and applied.definition.name == "definitions/order-saga", applied
    stub = executions_pb2_grpc.ExecutionsStub(channel)
    start = executions_pb2.StartExecutionRequest(
        definition="definitions/order-saga", execution_id="order-17"
    )
    start.input.data = json.dumps({"order": "o-17", "amount": 4200, "address": "the moon"}).encode()
    started = stub.StartExecution(start, timeout=TIMEOUT)
    assert started.name == "providers/builtin/executions/order-17", started

    get = executions_pb2.GetExecutionRequest(name=started.name)
    seen = stub.GetExecution(get, timeout=TIMEOUT)
    assert seen.sub_state == executions_pb2.SUB_STATE_WAITING, seen
    assert seen.reason == executions_pb2.REASON_NO_WORKER, seen
    wait = seen.waits[0]
    assert wait.kind == executions_pb2.Wait.CAPACITY, seen
    assert (wait.blocker, wait.name) == (executions_pb2.Wait.WORKER, "warehouse"), seen

    def deliver(task):
        if task.action == "deliver":
            raise ValueError("nobody delivers there")
        return {"reservation": "r-1"}

    with Worker(channel, ["warehouse", "payments", "shipping"], deliver):
        waited = stub.WaitExecution(
            executions_pb2.WaitExecutionRequest(name=started.name), timeout=TIMEOUT
        )
    assert waited.reached and waited.execution.sub_state == executions_pb2.SUB_STATE_FAILED, waited
    assert waited.execution.reason == executions_pb2.REASON_ROLLED_BACK, waited
    events = stub.ListEvents(
        executions_pb2.ListEventsRequest(parent=started.name), timeout=TIMEOUT
    ).events
    phases = [event.phase for event in events]
    assert phases.count(executions_pb2.ATTEMPT_PHASE_SUCCEEDED) == 2, events
    assert phases.count(executions_pb2.ATTEMPT_PHASE_COMPENSATION_SUCCEEDED) == 2, events


def test_the_tour_of_the_readme_scripted_executions(address):
    """The section "Scripted executions": states, explanations, filters, signals, waits and watches."""
    from stateway.v1 import executions_pb2, executions_pb2_grpc

    stub = executions_pb2_grpc.ExecutionsStub(grpc.insecure_channel(address))
    scripts = {"order-17": "flaky", "doc-1": "approval", "trip-3": "doomed", "import-9": "stuck"}
    for identity, script in scripts.items():
        stub.StartExecution(
            executions_pb2.StartExecutionRequest(
                definition=f"providers/memory/definitions/{script}", execution_id=identity
            ),
            timeout=TIMEOUT,
        )
    name = "providers/memory/executions/"
    wait = executions_pb2.WaitExecutionRequest(
        name=name + "order-17", sub_states=[executions_pb2.SUB_STATE_BACKING_OFF]
    )
    backing_off = stub.WaitExecution(wait, timeout=TIMEOUT).execution
    assert backing_off.native_state == "ACTIVE", backing_off
    assert backing_off.mapping_basis == executions_pb2.MAPPING_BASIS_DERIVED, backing_off
    assert backing_off.retry.attempt >= 1 and backing_off.retry.HasField("next_attempt_time")
    explained = stub.ExplainExecution(
        executions_pb2.ExplainExecutionRequest(name=name + "order-17"), timeout=TIMEOUT
    )
    assert explained.row.scope == executions_pb2.TableRow.EXECUTION, explained
    assert explained.row.native_state == "ACTIVE", explained

    def listed(text):
        request = executions_pb2.ListExecutionsRequest(parent="providers/-", filter=text)
        answer = stub.ListExecutions(request, timeout=TIMEOUT)
        return {execution.name.removeprefix(name) for execution in answer.executions}

    assert set(scripts) <= listed("")
    assert "doc-1" in listed("waits.kind:SIGNAL")
    assert "doc-1" not in listed("retry.attempt < 100 AND NOT sub_state = WAITING")
    until(lambda: "order-17" in listed("sub_state = BACKING_OFF AND retry.attempt >= 2"))
    stub.SignalExecution(
        executions_pb2.SignalExecutionRequest(name=name + "doc-1", signal="approve"), timeout=TIMEOUT
    )
    ended = stub.WaitExecution(
        executions_pb2.WaitExecutionRequest(name=name + "doc-1"), timeout=TIMEOUT
    ).execution
    assert ended.sub_state == executions_pb2.SUB_STATE_SUCCEEDED, ended
    ended = stub.WaitExecution(
        executions_pb2.WaitExecutionRequest(name=name + "trip-3"), timeout=TIMEOUT
    ).execution
    assert ended.sub_state == executions_pb2.SUB_STATE_FAILED, ended
    assert ended.reason == executions_pb2.REASON_ROLLED_BACK, ended
    stuck = stub.WaitExecution(
        executions_pb2.WaitExecutionRequest(
            name=name + "import-9", sub_states=[executions_pb2.SUB_STATE_ERROR]
        ),
        timeout=TIMEOUT,
    ).execution
    assert stuck.sub_state == executions_pb2.SUB_STATE_ERROR, stuck
    watch = stub.WatchExecutions(
        executions_pb2.WatchExecutionsRequest(names=[name + "order-17"]), timeout=TIMEOUT
    )
    first = next(watch)
    watch.cancel()
    assert first.execution.name == name + "order-17", first


def until(holds):
    """Waits until the condition holds."""
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, "the condition does not hold in time"
        time.sleep(0.02)


class Worker:
    """A worker that does every task in a thread of its own."""

    def __init__(self, channel, roles, handler):
        from stateway.v1 import workers_pb2, workers_pb2_grpc

        self.pb, self.handler, self.send = workers_pb2, handler, queue.SimpleQueue()
        offer = workers_pb2.Offer(roles=roles, capacity=4)
        self.send.put(workers_pb2.StreamTasksRequest(offer=offer))
        self.stream = workers_pb2_grpc.WorkersStub(channel).StreamTasks(iter(self.send.get, None))
        self.thread = threading.Thread(target=self.work, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.send.put(None)
        self.stream.cancel()
        self.thread.join(timeout=TIMEOUT)

    def work(self):
        try:
            for message in self.stream:
                if message.WhichOneof("message") == "task":
                    self.send.put(self.answer(message.task))
        except grpc.RpcError:
            pass  # The stream was cancelled: the test is over.

    def answer(self, task):
        try:
            done = self.pb.TaskCompleted(task_token=task.task_token)
            done.output.data = json.dumps(self.handler(task)).encode()
            return self.pb.StreamTasksRequest(completed=done)
        except ValueError as error:
            failed = self.pb.TaskFailed(
                task_token=task.task_token, message=str(error), no_retry=True
            )
            return self.pb.StreamTasksRequest(failed=failed)


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    tests = [
        (name, test)
        for name, test in globals().items()
        if name.startswith("test_") and wanted in name
    ]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        generate_client(folder)
        for name, test in tests:
            try:
                with Gateway() as gateway:
                    test(gateway.address)
                print(f"test python::{name} ... ok", flush=True)
            except Exception:
                failed += 1
                print(f"test python::{name} ... FAILED", flush=True)
                traceback.print_exc()
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
