"""A client in another language: generated from the API's image, it trusts nothing but the wire.

Each function named test_* is one test. The gateway is the real binary, started on a free loopback
port and ended by its process id.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
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
            ("Executions", "Definitions", "Approvals", "Providers", "Workers", "Recovery")}
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
        executions_pb2.WatchExecutionsRequest(parent=started.name), timeout=TIMEOUT
    )
    for answer in watch:
        seen.append(answer.execution.sub_state)
        if answer.execution.sub_state == executions_pb2.WAITING:
            break
    watch.cancel()
    assert executions_pb2.RUNNING in seen, seen
    stub.SignalExecution(
        executions_pb2.SignalExecutionRequest(name=started.name, signal="approve"), timeout=TIMEOUT
    )
    waited = stub.WaitExecution(
        executions_pb2.WaitExecutionRequest(name=started.name), timeout=TIMEOUT
    )
    assert waited.reached
    assert waited.execution.sub_state == executions_pb2.SUCCEEDED


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
    else:
        raise AssertionError("a bad filter was accepted")


SHIPMENT = """
name: shipment
steps:
  - {name: ship, agent: shipping, action: Ship it, timeout: 5m}
output: {parcel: "${steps.ship.output.parcel}", by: "${steps.ship.output.by}"}
"""


def test_the_worker_example_does_tasks(address):
    from stateway.v1 import definitions_pb2, definitions_pb2_grpc
    from stateway.v1 import executions_pb2, executions_pb2_grpc

    channel = grpc.insecure_channel(address)
    definitions_pb2_grpc.DefinitionsStub(channel).ApplyDefinition(
        definitions_pb2.ApplyDefinitionRequest(source=SHIPMENT), timeout=TIMEOUT
    )
    stub = executions_pb2_grpc.ExecutionsStub(channel)
    start = executions_pb2.StartExecutionRequest(
        parent="providers/builtin", definition="definitions/shipment"
    )
    start.input.data = json.dumps({"address": "Oslo"}).encode()
    script = ROOT / "examples/python/worker.py"
    own = [line for line in script.read_text().splitlines() if line.strip()]
    assert len(own) - len([line for line in own if "import" in line or line.startswith('"""')]) < 40
    worker = subprocess.Popen([sys.executable, script, address, "shipping"])
    try:
        for _ in range(3):
            name = stub.StartExecution(start, timeout=TIMEOUT).name
            waited = stub.WaitExecution(
                executions_pb2.WaitExecutionRequest(name=name), timeout=TIMEOUT
            )
            assert waited.execution.sub_state == executions_pb2.SUCCEEDED, waited
            got = stub.GetExecution(
                executions_pb2.GetExecutionRequest(name=name, view=executions_pb2.FULL),
                timeout=TIMEOUT,
            )
            assert json.loads(got.output.data) == {"parcel": "to Oslo", "by": "shipping"}, got
        start.input.data = json.dumps({"address": "Oslo", "seconds": 600}).encode()
        name = stub.StartExecution(start, timeout=TIMEOUT).name
        events = executions_pb2.ListEventsRequest(parent=name)
        taken = lambda event: event.native_type == "TaskAssigned"
        while not any(map(taken, stub.ListEvents(events, timeout=TIMEOUT).events)):
            pass
        stub.CancelExecution(executions_pb2.CancelExecutionRequest(name=name), timeout=TIMEOUT)
        waited = stub.WaitExecution(
            executions_pb2.WaitExecutionRequest(name=name), timeout=TIMEOUT
        )
        assert waited.execution.sub_state == executions_pb2.FAILED, waited
        assert waited.execution.reason == "CANCELLED", waited
        told = [event.summary for event in stub.ListEvents(events, timeout=TIMEOUT).events]
        assert any("stopped before the parcel left" in summary for summary in told), told
    finally:
        worker.terminate()
        worker.wait(timeout=TIMEOUT)


def main():
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
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
