"""A Stateway worker in Python: `pip install ./sdk/python`, then `python worker.py 127.0.0.1:7380`."""

import sys

from stateway import Task, Worker

worker = Worker(sys.argv[1], capacity=4)


@worker.role("shipping")
async def deliver(task: Task) -> dict[str, str]:
    return {"parcel": f"to {task.input['address']}", "by": task.role}


worker.run()
