"""A service behind HTTP for crash tests.

    python crash_service.py CONFIG POINT NTH

It is ``rxtemporal serve`` over ``app``, with results in the working folder. With ``POINT`` the
process kills itself when it comes to that point for the ``NTH`` time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ingest_service import STEPS as PUSH_STEPS
from kill_points import Steps, kill_at, list_points

import rxtemporal as rxt
from rxtemporal import serve
from rxtemporal.cli.main import main as run_command
from rxtemporal.query.push_source import PushSource
from rxtemporal.run import checkpoint
from rxtemporal.run.push_entry import PushEntry
from rxtemporal.serve import ingest
from rxtemporal.serve.dead_letters import DeadLetters
from rxtemporal.serve.ingest_routes import IngestSocket

# each step from the arrival of a request to its receipt, and to the checkpoint
STEPS: Steps = {
    "read a body": (ingest, "read_body"),
    "parse the rows": (ingest, "read_rows"),
    "push the rows": (PushSource, "push_async"),
    "judge single rows": (PushEntry, "judge_each"),
    **PUSH_STEPS,
    "write dead letters": (DeadLetters, "write"),
    "make a receipt": (ingest, "make_receipt"),
    "send a receipt": (ingest, "send_json"),
    "answer a message": (IngestSocket, "_answer"),
}
POINTS = list_points(STEPS)
# the rows of a stream come no further out of order
DELAY = 1_000


def app() -> serve.ServiceApp:
    """Return a service with two streams: rows with sequence numbers, and rows without."""
    house = rxt.Application("house")
    fields = {"device": str, "n": int, "temp": float}
    for name, seq in (("rows", "n"), ("plain", None)):
        source = rxt.PushSource(name, schema=fields, delay=DELAY, seq=seq)
        house.query(name, source.stream)
    return serve.app(house, sinks={name: rxt.File(f"{name}.jsonl") for name in ("rows", "plain")})


if __name__ == "__main__":
    config, point, nth = sys.argv[1:]
    # a checkpoint after almost every push
    checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
    if point:
        kill_at(point, int(nth), STEPS)
    sys.exit(run_command(["serve", f"{Path(__file__)}:app", "--config", config]))
