"""A small workflow engine: jobs with steps, in one SQLite file.

A step calls a function or listens for a signal. A call that fails is repeated with growing pauses; after the last
attempt the job is jammed until someone releases it. The engine knows nothing of Stateway.
"""

import hashlib
import json
import sqlite3
import threading
import time
import uuid

LIMIT = 4  # Attempts of a call.
FINISHED = ("done", "broken", "stopped")
RECIPES = {
    "parcel": [{"name": "pack", "call": "pack"}, {"name": "pick-up", "listen": "picked-up"}],
    "letter": [{"name": "sign", "listen": "signed"}],
    "fragile": [{"name": "wrap", "call": "wrap"}],
}


def pack(job):
    job["output"] = {"packed": job["input"]}


def wrap(job):
    raise RuntimeError("the paper is torn")


class Fatal(Exception):
    """Raised by a function whose call no other attempt can repair."""


class Refused(Exception):
    """The engine refuses a request; `args[0]` is the reason in one word."""


class Engine:
    def __init__(self, path, functions=(pack, wrap), recipes=RECIPES):
        self.functions = {function.__name__: function for function in functions}
        self.recipes, self.lock, self.closed = recipes, threading.RLock(), threading.Event()
        self.db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT, id UNIQUE, body)")
        self.db.execute("CREATE TABLE IF NOT EXISTS requests (id PRIMARY KEY, body, job)")
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self):
        self.closed.set()
        self.thread.join()
        self.db.close()

    def get(self, id):
        with self.lock:
            row = self.db.execute("SELECT body FROM jobs WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise Refused("unknown")
        return json.loads(row[0])

    def page(self, before, size):
        """Jobs from the newest to the oldest, each with its number."""
        with self.lock:
            query = "SELECT seq, body FROM jobs WHERE seq < ? ORDER BY seq DESC LIMIT ?"
            return [(seq, json.loads(body)) for seq, body in self.db.execute(query, (before, size)).fetchall()]

    def all(self):
        """Every job, from the newest to the oldest."""
        jobs, before = [], 2**62
        while page := self.page(before, 1000):
            jobs += [job for _, job in page]
            before = page[-1][0]
        return jobs

    def put(self, job):
        job["version"] = job.get("version", 0) + 1
        insert = "INSERT INTO jobs (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body"
        with self.lock:
            self.db.execute(insert, (job["id"], json.dumps(job)))
        return job

    def once(self, request, body, act):
        """Carries a request out once; the same request again returns the same job."""
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        with self.lock:
            seen = self.db.execute("SELECT body, job FROM requests WHERE id = ?", (request,)).fetchone()
            if seen is not None:
                if seen[0] != digest:
                    raise Refused("reused")
                return self.get(seen[1])
            self.db.execute("BEGIN IMMEDIATE")
            try:
                job = act()
                self.db.execute("INSERT INTO requests VALUES (?, ?, ?)", (request, digest, job["id"]))
                self.db.execute("COMMIT")
                return job
            except BaseException:
                self.db.execute("ROLLBACK")
                raise

    def start(self, recipe, input, id="", labels=None):
        if recipe not in self.recipes:
            raise Refused("no-recipe")
        if id and self.db.execute("SELECT 1 FROM jobs WHERE id = ?", (id,)).fetchone():
            raise Refused("taken")
        steps = [{**step, "state": "todo", "attempt": 0} for step in self.recipes[recipe]]
        job = {"id": id or uuid.uuid4().hex, "recipe": recipe, "state": "open", "steps": steps, "input": input}
        return self.put(self._listen({**job, "labels": labels or {}, "mailbox": [], "created": time.time()}))

    def change(self, id, act, needs=("open", "held", "jammed")):
        """Changes a job that is in one of these states."""
        with self.lock:
            job = self.get(id)
            if job["state"] not in needs:
                raise Refused("finished" if job["state"] in FINISHED else "wrong-state")
            act(job)
            return self.put(self._listen(job))

    def signal(self, id, name, payload=None):
        return self.change(id, lambda job: job["mailbox"].append({"name": name, "payload": payload}))

    def stop(self, id):
        with self.lock:
            if self.get(id)["state"] == "stopped":
                return self.get(id)
            return self.change(id, lambda job: job.update(state="stopped", ended=time.time()))

    def hold(self, id):
        return self.change(id, lambda job: job.update(state="held"))

    def release(self, id):
        def act(job):
            job["state"] = "open"
            for step in job["steps"]:
                if step["state"] == "jammed":
                    step.update(state="todo", attempt=0)

        return self.change(id, act, ("held", "jammed"))

    def hurry(self, id, name=""):
        def act(job):
            steps = [step for step in job["steps"] if name in ("", step["name"])]
            resting = [step for step in steps if step["state"] == "resting"]
            if not resting:
                raise Refused("wrong-state")
            for step in resting:
                step.update(state="todo", next=None)

        return self.change(id, act)

    def forget(self, id):
        with self.lock:
            if self.get(id)["state"] not in FINISHED:
                raise Refused("open")
            self.db.execute("DELETE FROM jobs WHERE id = ?", (id,))

    def _listen(self, job):
        """Passes signals on to the step that listens, and ends the job after its last step."""
        for step in job["steps"] if job["state"] == "open" else ():
            if step["state"] in ("todo", "listening") and "listen" in step:
                step["state"] = "listening"
                letter = next((one for one in job["mailbox"] if one["name"] == step["listen"]), None)
                if letter is None:
                    return job
                job["mailbox"].remove(letter)
                step["state"] = "done"
            if step["state"] != "done":
                return job
        if job["state"] == "open" and job["steps"]:
            job.update(state="done", ended=time.time())
        return job

    def _run(self):
        while not self.closed.wait(0.02):
            with self.lock:
                query = "SELECT body FROM jobs WHERE json_extract(body, '$.state') = 'open'"
                for (body,) in self.db.execute(query).fetchall():
                    job = json.loads(body)
                    if self._call(job):
                        self.put(self._listen(job))

    def _call(self, job):
        """Makes the next call of a job, if one is due."""
        step = next((step for step in job["steps"] if step["state"] != "done"), {})
        is_due = step.get("state") == "todo" or (step.get("state") == "resting" and step["next"] <= time.time())
        if not is_due or step.get("call") not in self.functions:
            return False
        step["attempt"] += 1
        try:
            self.functions[step["call"]](job)
            step["state"] = "done"
        except Fatal as error:
            step.update(state="broken", error=str(error))
            job.update(state="broken", ended=time.time())
        except Exception as error:
            step["error"] = str(error)
            step.update(state="resting", next=time.time() + 2 ** step["attempt"])
            if step["attempt"] >= LIMIT:
                step["state"] = job["state"] = "jammed"
        return True
