"""A Stateway worker in Python: `python worker.py 127.0.0.1:7380 shipping` (grpcio, grpcio-tools)."""

import concurrent.futures, json, os, pathlib, queue, sys, threading, time
import grpc
import grpc_tools

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "proto"))
sys.path.append(str(pathlib.Path(grpc_tools.__file__).parent / "_proto"))
pb, services = grpc.protos_and_services("stateway/v1/workers.proto")


def work(address, role, handler, capacity=4):
    send, stops, pool = queue.SimpleQueue(), {}, concurrent.futures.ThreadPoolExecutor(capacity)
    offer = pb.Offer(worker_id=f"python-{os.getpid()}", roles=[role], capacity=capacity)
    send.put(pb.StreamTasksRequest(offer=offer))
    for told in services.WorkersStub(grpc.insecure_channel(address)).StreamTasks(iter(send.get, None)):
        kind = told.WhichOneof("message")
        message = getattr(told, kind)
        if kind == "task":
            stop = stops[message.task_token] = threading.Event()
            pool.submit(lambda task, stop: send.put(answer(task, handler, stop)), message, stop)
        elif kind == "cancelled":  # The handler may stop early; its answer counts in any case.
            stops.get(message.task_token, threading.Event()).set()
        elif kind in ("accepted", "refused", "withdrawn"):
            stops.pop(message.task_token, threading.Event()).set()
        elif kind == "welcome":
            every = message.lease_duration.ToTimedelta().total_seconds() / 3
            threading.Thread(target=show_life, args=(send, every), daemon=True).start()


def answer(task, handler, stop):
    try:
        done = pb.TaskCompleted(task_token=task.task_token)
        done.output.data = json.dumps(handler(task, json.loads(task.input.data), stop)).encode()
        return pb.StreamTasksRequest(completed=done)
    except Exception as error:
        failed = pb.TaskFailed(message=str(error), task_token=task.task_token)
        return pb.StreamTasksRequest(failed=failed)


def show_life(send, every):
    while True:
        time.sleep(every)
        send.put(pb.StreamTasksRequest(heartbeat=pb.TaskHeartbeat()))


def deliver(task, order, stop):
    if stop.wait(order.get("seconds", 0)):  # Set when the execution is cancelled.
        raise RuntimeError("stopped before the parcel left")
    return {"parcel": f"to {order['address']}", "by": task.role}


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], deliver)
