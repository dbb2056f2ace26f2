"""A Stateway provider for DBOS Transact: `python provider.py ADDRESS --database URL --workflow NAME …`.

The provider talks to the system database of a DBOS application, which runs in processes of its own. It needs no
code of the application: names of workflows are given on the command line.
"""

import argparse
import asyncio
import hashlib
import json
import pathlib
import sys
import threading
import time
from datetime import datetime, timezone

import sqlalchemy as sa
from dbos import DBOSClient, error

from stateway.provider import Health, Observation, Provider, decode_cursor, encode_cursor, errors, payload, serve
from stateway.provider.v1 import observation_pb2 as pb
from stateway.provider.v1.provider_pb2 import ListExecutionsResponse

OPEN = ("DELAYED", "ENQUEUED", "PENDING", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")


class Dbos(Provider):
    """Connects the workflows of a DBOS application to a gateway."""

    name, version, table = "dbos", "1.0", pathlib.Path(__file__).parent / "table.toml"
    declares = frozenset({"start_idempotent", "start_delayed", "steps", "retries", "payloads", "labels"})
    options = frozenset({"queue", "app_version"})
    retry_from_takes = frozenset({"from_start"})

    def __init__(self, url, workflows, queue="stateway"):
        self.workflows, self.queue = frozenset(workflows), queue
        self.database = sa.create_engine(url)
        # Requests of one id start one after the other, so that the second one sees what the first one started.
        self.starting = [threading.Lock() for _ in range(64)]
        # SQLite has no schemas; DBOS puts its tables into one on PostgreSQL.
        self.schema = "" if self.database.dialect.name == "sqlite" else "dbos."
        # The provider starts, and stays up, while the database cannot be reached.
        self.client = DBOSClient(system_database_engine=self.database, lazy=True, retry_connection_errors=False)

    async def close(self):
        self.client.destroy()
        self.database.dispose()

    def health(self):
        self.query("SELECT 1")
        return Health(detail=f"system database on {self.database.dialect.name}")

    def get(self, id, full):
        found = self.read([id], full)
        if not found:
            raise errors.not_found(id)
        return found[0]

    def start(self, request):
        if request.definition not in self.workflows:
            raise errors.definition_not_found(request.definition)
        input = json.loads(request.input.data or b"null")
        body = [request.definition, request.execution_id, input, dict(request.labels), dict(request.options)]
        body.append(request.delay.ToJsonString())
        digest = digest_of(body)
        with self.starting[hash(request.request_id) % len(self.starting)]:
            return self.start_once(request, input, digest)

    def start_once(self, request, input, digest):
        id = self.started_by(request.request_id) or request.execution_id or f"stateway-{request.request_id}"
        attributes = {"request": request.request_id, "digest": digest, "labels": dict(request.labels)}
        options = {
            "workflow_name": request.definition,
            "queue_name": request.options.get("queue", self.queue),
            "workflow_id": id,
            "workflow_id_reuse_policy": "reject",
            "attributes": {"stateway": attributes},
        }
        if request.HasField("delay"):
            options["delay_seconds"] = request.delay.ToTimedelta().total_seconds()
        if "app_version" in request.options:
            options["app_version"] = request.options["app_version"]
        try:
            self.ask(self.client.enqueue, options, input)
        except error.DBOSWorkflowIDInUseError:
            self.check_repetition(id, request, digest)
        return self.get(id, False)

    def check_repetition(self, id, request, digest):
        """A workflow of this id exists: of the same request, or of another one."""
        status = self.status(id)
        known = ((status.attributes or {}).get("stateway") or {}) if status else {}
        if known.get("request") != request.request_id:
            raise errors.already_exists(id)
        if known.get("digest") != digest:
            raise errors.request_id_reused(request.request_id)

    def started_by(self, request_id):
        """The workflow that this request started. DBOS filters by attributes on PostgreSQL only."""
        if self.schema:
            wanted = {"stateway": {"request": request_id}}
            found = self.ask(self.client.list_workflows, attributes=wanted, is_fork=False, limit=1)
            return found[0].workflow_id if found else None
        where = "json_extract(attributes, '$.stateway.request') = :id AND forked_from IS NULL"
        rows = self.query(f"SELECT workflow_uuid FROM workflow_status WHERE {where} LIMIT 1", id=request_id)
        return rows[0][0] if rows else None

    def list(self, request):
        position = json.loads(decode_cursor("list", request.cursor) or "null") or [2**62, ""]
        rows = self.query(
            f"SELECT workflow_uuid, created_at FROM {self.schema}workflow_status"
            " WHERE created_at < :at OR (created_at = :at AND workflow_uuid < :id)"
            " ORDER BY created_at DESC, workflow_uuid DESC LIMIT :size",
            at=position[0],
            id=position[1],
            size=request.page_size + 1,
        )
        shown = rows[: request.page_size]
        more = encode_cursor("list", json.dumps([shown[-1][1], shown[-1][0]])) if len(rows) > len(shown) else ""
        return ListExecutionsResponse(observations=self.read([row[0] for row in shown]), next_cursor=more)

    def signal(self, request):
        """A message of the topic. DBOS keeps it until the workflow receives it."""
        self.need_open(request.id)
        message = json.loads(request.payload.data or b"null")
        # DBOS drops a message with a known key. With the body in the key, it drops repetitions and nothing else.
        key = digest_of([request.id, request.request_id, request.signal, message])
        self.ask(self.client.send, request.id, message, topic=request.signal, idempotency_key=key)
        return self.get(request.id, False)

    def cancel(self, request):
        """DBOS cancels immediately: the workflow gets no chance to clean up, and stops before its next step."""
        if self.known(request.id).status != "CANCELLED":
            self.need_open(request.id)
            self.ask(self.client.cancel_workflow, request.id)
        return self.get(request.id, False)

    kill = cancel

    def resume(self, request):
        """Runs a workflow again whose recoveries are exhausted."""
        if self.need_open(request.id).status != "MAX_RECOVERY_ATTEMPTS_EXCEEDED":
            raise errors.failed_precondition(f"workflow `{request.id}` is not stuck")
        self.ask(self.client.resume_workflow, request.id, queue_name=self.queue)
        return self.get(request.id, False)

    def retry_from(self, request):
        """Forks the workflow: the steps before the first step to run are copied."""
        if self.known(request.id).status in OPEN:
            raise errors.failed_precondition(f"workflow `{request.id}` has not ended")
        steps = self.steps(request.id)
        start = min((step.function_id for step in steps if step.error), default=None)
        start = start or max((step.function_id for step in steps), default=0) + 1
        if request.step:
            ids = {step_name(step): step.function_id for step in steps}
            if request.step not in ids:
                raise errors.ProviderError(errors.ErrorKind.NOT_FOUND, f"step `{request.step}` does not exist")
            start = ids[request.step]
        start = 1 if request.from_start else start
        forked = self.ask(self.client.fork_workflow, request.id, start, queue_name=self.queue)
        return self.get(forked.workflow_id, False)

    def purge(self, request):
        if self.known(request.id).status in OPEN:
            raise errors.not_finished(request.id)
        self.ask(self.client.delete_workflow, request.id)

    def known(self, id):
        return self.status(id) or raised(errors.not_found(id))

    def need_open(self, id):
        status = self.known(id)
        return status if status.status in OPEN else raised(errors.already_finished(id))

    def status(self, id):
        found = self.ask(self.client.list_workflows, workflow_ids=[id], load_input=False, load_output=False)
        return found[0] if found else None

    def read(self, ids, full=False):
        """The workflows of these ids, in this order; one that does not exist is left out."""
        found = self.ask(self.client.list_workflows, workflow_ids=ids, load_input=full, load_output=full) if ids else []
        known = {status.workflow_id: status for status in found}
        return [observe(known[id], self.steps(id), full) for id in ids if id in known]

    def steps(self, id):
        columns = "function_id, function_name, output, error, started_at_epoch_ms, completed_at_epoch_ms"
        where = f"FROM {self.schema}operation_outputs WHERE workflow_uuid = :id ORDER BY function_id"
        return self.query(f"SELECT {columns} {where}", id=id)

    def query(self, text, **values):
        def run():
            with self.database.connect() as connection:
                return connection.execute(sa.text(text), values).fetchall()

        return self.ask(run)

    def ask(self, method, *arguments, **options):
        """Uses the database; an outage of it becomes an error of the contract."""
        try:
            return method(*arguments, **options)
        except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError) as failure:
            kind = errors.ErrorKind.UNAVAILABLE
            raise errors.ProviderError(kind, "the system database of DBOS cannot be reached") from failure


def digest_of(body):
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def raised(error):
    raise error


def step_name(step):
    """Function names repeat within a workflow; the ids of the steps do not."""
    return f"{step.function_id}-{step.function_name}"


def observe(status, steps, full):
    """A workflow as DBOS shows it. The gateway decides what it means, by the table."""
    attributes = (status.attributes or {}).get("stateway") or {}
    seen = Observation(
        id=status.workflow_id,
        definition=status.name or "",
        revision=status.app_version or "",
        native_state=pb.NativeState(state=status.status),
        steps=[observe_step(step, steps, status.status) for step in steps],
        labels=attributes.get("labels") or {},
        forked_from=status.forked_from or "",
    )
    times = {"create_time": status.created_at, "start_time": status.dequeued_at, "end_time": status.completed_at}
    for field, milliseconds in times.items():
        if milliseconds:
            getattr(seen, field).CopyFrom(timestamp(milliseconds))
    if status.status == "DELAYED" and status.delay_until_epoch_ms:
        seen.waits.add(kind=pb.Wait.TIMER, name="delay", expire_time=timestamp(status.delay_until_epoch_ms))
    if status.status == "ENQUEUED":
        seen.waits.add(kind=pb.Wait.CAPACITY, name=status.queue_name or "", blocker=pb.Wait.PROVIDER)
    # DBOS retries steps in the memory of its process; only recoveries of a workflow are recorded.
    if status.recovery_attempts:
        is_over = status.status == "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
        phase = pb.RetryEvidence.EXHAUSTED if is_over else pb.RetryEvidence.UNDER_WAY
        seen.retry.CopyFrom(pb.RetryEvidence(attempt=status.recovery_attempts, phase=phase))
    if full and status.error is not None:
        seen.last_error.message = str(status.error) or type(status.error).__name__
        seen.last_error.native_code = type(status.error).__name__
    # DBOS returns the text of the database where it cannot restore the Python objects in it.
    if full and isinstance(status.input, dict):
        arguments = list(status.input["args"])
        set_payload(seen.input, arguments[0] if len(arguments) == 1 else arguments)
    if full and status.status == "SUCCESS":
        set_payload(seen.output, status.output)
    return seen


def observe_step(step, steps, status):
    """DBOS records a sleep when it begins, and the timeout of a receive beside the receive itself."""
    seen = pb.StepObservation(name=step_name(step))
    if step.started_at_epoch_ms:
        seen.start_time.CopyFrom(timestamp(step.started_at_epoch_ms))
    is_last = step.function_id == max(other.function_id for other in steps)
    if step.function_name == "DBOS.sleep" and status == "PENDING" and is_last:
        wake = int(float(json.loads(step.output)) * 1000)
        is_timeout = step.function_id > 1 and all(other.function_id != step.function_id - 1 for other in steps)
        if wake > time.time() * 1000:
            seen.native_state.state = "receiving" if is_timeout else "sleeping"
            kind, name = (pb.Wait.CALLBACK, "message") if is_timeout else (pb.Wait.TIMER, "sleep")
            seen.waits.add(kind=kind, name=name, start_time=seen.start_time, expire_time=timestamp(wake))
            return seen
    seen.native_state.state = "recorded"
    seen.native_state.qualifiers["result"] = "error" if step.error else "output"
    if step.completed_at_epoch_ms:
        seen.end_time.CopyFrom(timestamp(step.completed_at_epoch_ms))
    return seen


def timestamp(milliseconds):
    made = Observation().create_time
    made.FromDatetime(datetime.fromtimestamp(milliseconds / 1000, timezone.utc))
    return made


def set_payload(field, value):
    """Payloads that are not JSON stay out: DBOS can keep any Python object."""
    try:
        field.CopyFrom(payload(value))
    except (TypeError, ValueError):
        pass


def main():
    parser = argparse.ArgumentParser(description=Dbos.__doc__)
    parser.add_argument("address", help="unix:/path/of/socket, or host:port")
    parser.add_argument("--database", required=True, help="the system database, for example sqlite:///shop.sqlite")
    parser.add_argument("--workflow", action="append", default=[], help="a workflow that may be started")
    parser.add_argument("--queue", default="stateway", help="the queue of the application (default: stateway)")
    parser.add_argument("--staging", action="store_true", help="serve what `stateway conformance` needs")
    given = parser.parse_args()
    staging = None
    if given.staging:
        sys.path.insert(0, str(pathlib.Path(__file__).parent))
        from staging import DbosStaging

        staging = DbosStaging(given.database, given.workflow[0])
    asyncio.run(serve(lambda: Dbos(given.database, given.workflow, given.queue), given.address, staging=staging))


if __name__ == "__main__":
    main()
