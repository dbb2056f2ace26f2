"""What the tests of `stateway conformance` need from a DBOS database. Only for tests: it deletes every workflow.

No process of an application runs during these tests, so workflows stay as they are staged.
"""

import json
import pathlib
import subprocess
import sys
import time
import uuid

import sqlalchemy as sa

from stateway.provider import CannotStage, Staging, SubState, Workload


class DbosStaging(Staging):
    restartable = True

    def __init__(self, url, workflow):
        self.workflow = workflow
        dbos = pathlib.Path(sys.executable).with_name("dbos")
        subprocess.run([dbos, "migrate", "--sys-db-url", url], check=True, capture_output=True)
        self.database = sa.create_engine(url)

    def reset(self):
        self.write("DELETE FROM workflow_status")
        self.write("DELETE FROM operation_outputs")
        return Workload(self.workflow, {"order": 1}, {"order": 2})

    def write(self, text, **values):
        with self.database.begin() as connection:
            connection.execute(sa.text(text), values)

    def put(self, status, attempts=0, steps=()):
        """A workflow in this state. Steps are (name, output, error, completion from now in seconds)."""
        id, now = uuid.uuid4().hex, int(time.time() * 1000)
        self.write(
            "INSERT INTO workflow_status (workflow_uuid, status, name, created_at, updated_at, recovery_attempts,"
            " priority, inputs, queue_name) VALUES (:id, :status, :name, :now, :now, :attempts, 0, '', 'kit')",
            id=id,
            status=status,
            name=self.workflow,
            now=now,
            attempts=attempts,
        )
        for number, (function, output, error, ahead) in steps:
            self.write(
                "INSERT INTO operation_outputs (workflow_uuid, function_id, function_name, output, error,"
                " started_at_epoch_ms, completed_at_epoch_ms, retention_timestamp)"
                " VALUES (:id, :number, :function, :output, :error, :now, :end, 0)",
                id=id,
                number=number,
                function=function,
                output=None if output is None else json.dumps(output),
                error=error,
                now=now,
                end=now + int(ahead * 1000),
            )
        return id

    def execution_state(self, state, qualifiers):
        return self.put(state)

    def step_state(self, state, qualifiers):
        later = time.time() + 3600
        scenes = {
            "sleeping": [(1, ("DBOS.sleep", later, None, 3600))],
            "receiving": [(2, ("DBOS.sleep", later, None, 0))],
            "recorded": [(1, ("pack", "packed", None, 0))],
        }
        if qualifiers.get("result") == "error":
            return self.put("PENDING", steps=[(1, ("pack", None, "torn", 0))])
        if state not in scenes:
            raise CannotStage("DBOS has no native state for a step")
        return self.put("PENDING", steps=scenes[state])

    def open_steps(self, states):
        if list(states) != [SubState.WAITING]:
            raise CannotStage("DBOS shows one open step at most, and only if it waits")
        return self.step_state("sleeping", {})

    def no_metadata(self):
        return self.put("PENDING")

    def backing_off(self, attempt):
        raise CannotStage("DBOS retries steps in the memory of its process, so no attempt is visible")

    def awaiting_signal(self, signal):
        raise CannotStage("DBOS does not record which topic a workflow waits for")

    def stuck(self):
        return self.put("MAX_RECOVERY_ATTEMPTS_EXCEEDED", attempts=101)

    def succeeded(self):
        return self.put("SUCCESS", attempts=1, steps=[(1, ("pack", "packed", None, 0))])

    def failed(self):
        return self.put("ERROR", attempts=1, steps=[(1, ("first", "done", None, 0)), (2, ("second", None, "torn", 0))])
