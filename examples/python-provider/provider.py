"""A Stateway provider for the small engine in `engine.py`: `python provider.py unix:/tmp/parcels.sock`."""

import asyncio
import json
import pathlib
import sys
from datetime import datetime, timezone

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from engine import LIMIT, Engine, Refused
from staging import ParcelStaging

from stateway.provider import Health, Observation, Provider, decode_cursor, encode_cursor, errors, main
from stateway.provider import payload, watch_by_polling
from stateway.provider.v1 import observation_pb2 as pb
from stateway.provider.v1.provider_pb2 import ListExecutionsResponse

HERE = pathlib.Path(__file__).parent


class Parcels(Provider):
    """Connects the small engine to a gateway."""

    name, version, table = "parcels", "1.0", HERE / "table.toml"
    declares = frozenset(
        {"start_idempotent", "signal_idempotent", "retry_now_idempotent", "steps", "retries", "payloads", "labels"}
    )

    def __init__(self, path="parcels.db"):
        self.engine = Engine(path)

    async def close(self):
        await asyncio.to_thread(self.engine.close)

    def health(self):
        self.engine.page(2**62, 1)
        return Health("1.0", "one SQLite file")

    def get(self, id, full):
        return self.ask(id, lambda: self.engine.get(id), full)

    def start(self, request):
        body = [request.definition, request.execution_id, request.input.data.decode(), dict(request.labels)]
        input = json.loads(request.input.data or b"null")
        act = lambda: self.engine.start(request.definition, input, request.execution_id, dict(request.labels))
        return self.ask(request.execution_id, lambda: self.engine.once(request.request_id, body, act), about=request)

    def list(self, request):
        before = int(decode_cursor("list", request.cursor) or 2**62)
        page = self.engine.page(before, request.page_size + 1)
        shown = page[: request.page_size]
        more = encode_cursor("list", str(shown[-1][0])) if len(page) > len(shown) else ""
        return ListExecutionsResponse(observations=[observe(job) for _, job in shown], next_cursor=more)

    def watch_all(self):
        def read():
            # A job that is left out here would be reported as removed.
            return [observe(job) for job in self.engine.all()]

        return watch_by_polling(lambda: asyncio.to_thread(read), 0.1)

    def signal(self, request):
        body = [request.id, request.signal, request.payload.data.decode()]
        act = lambda: self.engine.signal(request.id, request.signal, json.loads(request.payload.data or b"null"))
        return self.ask(request.id, lambda: self.engine.once(request.request_id, body, act), about=request)

    def cancel(self, request):
        return self.ask(request.id, lambda: self.engine.stop(request.id))

    kill = cancel

    def pause(self, request):
        return self.ask(request.id, lambda: self.engine.hold(request.id))

    def resume(self, request):
        return self.ask(request.id, lambda: self.engine.release(request.id))

    def retry_now(self, request):
        body, act = [request.id, request.step], lambda: self.engine.hurry(request.id, request.step)
        return self.ask(request.id, lambda: self.engine.once(request.request_id, body, act), about=request)

    def purge(self, request):
        self.ask(request.id, lambda: self.engine.forget(request.id) or {"id": request.id, "state": "done"})

    def ask(self, id, act, full=False, about=None):
        """Asks the engine; what it refuses becomes an error of the contract."""
        try:
            return observe(act(), full)
        except Refused as refused:
            why = refused.args[0]
            raise {
                "unknown": lambda: errors.not_found(id),
                "taken": lambda: errors.already_exists(id),
                "no-recipe": lambda: errors.definition_not_found(about.definition),
                "reused": lambda: errors.request_id_reused(about.request_id),
                "finished": lambda: errors.already_finished(id),
                "open": lambda: errors.not_finished(id),
                "wrong-state": lambda: errors.failed_precondition(f"job `{id}` is not in a state for this"),
            }[why]() from None


def observe(job, full=False):
    """A job as the engine shows it. The gateway decides what it means, by the table."""
    seen = Observation(
        id=job["id"],
        version=pb.Version(parts=[job.get("version", 0)]),
        definition=job.get("recipe", ""),
        native_state=pb.NativeState(state=job["state"]),
        steps=[observe_step(step) for step in job.get("steps", ())],
        labels=job.get("labels", {}),
    )
    times = {"create_time": job.get("created"), "start_time": job.get("created"), "end_time": job.get("ended")}
    for field, at in times.items():
        if at is not None:
            getattr(seen, field).FromDatetime(datetime.fromtimestamp(at, timezone.utc))
    if full:
        seen.input.CopyFrom(payload(job.get("input")))
        if job["state"] == "done":
            seen.output.CopyFrom(payload(job.get("output")))
    return seen


def observe_step(step):
    seen = pb.StepObservation(name=step["name"], native_state=pb.NativeState(state=step["state"]))
    if step["state"] == "listening":
        seen.waits.add(kind=pb.Wait.SIGNAL, name=step["listen"])
    if step["attempt"]:
        phases = {"resting": pb.RetryEvidence.BETWEEN_ATTEMPTS, "jammed": pb.RetryEvidence.EXHAUSTED}
        phase = phases.get(step["state"], pb.RetryEvidence.UNDER_WAY)
        seen.retry.CopyFrom(pb.RetryEvidence(attempt=step["attempt"], max_attempt_count=LIMIT, phase=phase))
        if step.get("error"):
            seen.retry.last_error.message = seen.last_error.message = step["error"]
        if step["state"] == "resting":
            seen.retry.next_attempt_time.FromDatetime(datetime.fromtimestamp(step["next"], timezone.utc))
    return seen


if __name__ == "__main__":
    main(Parcels, ParcelStaging)
