"""What the tests of `stateway conformance` need from the small engine. Only for tests: it deletes every job."""

import itertools
import time

from engine import Engine

from stateway.provider import CannotStage, Staging, SubState, Workload

STEPS = {
    SubState.RUNNING: {"state": "todo", "call": "nobody"},
    SubState.WAITING: {"state": "listening", "listen": "kit"},
    SubState.BACKING_OFF: {"state": "resting", "attempt": 1, "next": time.time() + 3600, "error": "staged"},
    SubState.ERROR: {"state": "jammed", "attempt": 4, "error": "staged"},
}


class ParcelStaging(Staging):
    restartable = True

    def __init__(self, path="parcels.db"):
        self.engine = Engine(path, functions=())  # This engine only writes; the provider's engine makes the calls.
        self.numbers = itertools.count()

    def reset(self):
        with self.engine.lock:
            self.engine.db.execute("DELETE FROM jobs")
            self.engine.db.execute("DELETE FROM requests")
        return Workload("letter", {"to": "Oslo"}, {"to": "Rome"})

    def put(self, state, *steps):
        named = [{"name": f"step-{number}", "attempt": 0, **step} for number, step in enumerate(steps)]
        job = {"id": f"staged-{next(self.numbers)}", "recipe": "parcel", "state": state, "steps": named, "mailbox": []}
        return self.engine.put({**job, "created": time.time()})["id"]

    def execution_state(self, state, qualifiers):
        return self.put(state)

    def step_state(self, state, qualifiers):
        extra = {"listening": {"listen": "kit"}, "resting": {"next": time.time() + 3600}}.get(state, {})
        return self.put("open", {"state": state, "call": "nobody", **extra}, {"state": "todo", "call": "nobody"})

    def open_steps(self, states):
        if len(states) > 1:
            raise CannotStage("the steps of a job run one after the other")
        return self.put("open", *(STEPS[state] for state in states))

    def no_metadata(self):
        return self.put("open", {"state": "todo", "call": "nobody"})

    def backing_off(self, attempt):
        return self.put("open", {**STEPS[SubState.BACKING_OFF], "attempt": attempt, "call": "nobody"})

    def awaiting_signal(self, signal):
        listen = {"state": "todo", "listen": signal}
        return self.put("open", {**listen, "state": "listening"}, listen)

    def stuck(self):
        return self.put("jammed", {**STEPS[SubState.ERROR], "call": "nobody"})

    def succeeded(self):
        return self.put("done", {"state": "done"})

    def failed(self):
        return self.put("broken", {"state": "done", "name": "first"}, {"state": "broken", "name": "second"})
