"""A DBOS application to try the provider with: `python app.py sqlite:///shop.sqlite`."""

import sys
import threading

from dbos import DBOS

DBOS(config={"name": "shop", "system_database_url": sys.argv[1], "application_version": "1"})


@DBOS.step(retries_allowed=True, max_attempts=3, interval_seconds=0.1)
def pack(order):
    if order.get("fragile"):
        raise ValueError("the paper is torn")
    return {"packed": order["item"]}


@DBOS.workflow()
def parcel(order):
    """Packs an order, waits until it has dried, and then until someone picks it up."""
    packed = pack(order)
    DBOS.sleep(order.get("dries", 0))
    by = DBOS.recv("picked-up", timeout_seconds=3600)
    return {**packed, "by": by}


DBOS.launch()
DBOS.register_queue("stateway")
print("ready", flush=True)
threading.Event().wait()
