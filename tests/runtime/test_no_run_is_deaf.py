"""No run is deaf: each row is in the result or rejected, or the run ends and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from faults import ERRORS, Fault, NotedSink, Trial, Way, count_up, reading

from rxtemporal.core.payloads import PayloadReader
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.packer import Packer
from rxtemporal.runtime.hand_off import BoundedQueue
from rxtemporal.runtime.hand_off.buffer import SpillBuffer
from rxtemporal.storage.event_log.log import Tape

WAYS = [
    "push", "push log", "push resume", "push hand-off", "push resume hand-off", "push spill",
    "subject", "subject log", "subject resume", "subject hand-off", "subject log hand-off",
    "plain", "plain log",
]  # fmt: skip
HOPS: dict[str, Any] = {
    "door": (Door, "accept", "judge_columns"),
    "packer": (Packer, "take"),
    "pack": (Packer, "pack"),
    "frame": (PayloadReader, "frame"),
    "tape": (Tape, "event", "batch"),
    "flush": (Tape, "flush"),
    "queue": (BoundedQueue, "on_next"),
    "deliver": (BoundedQueue, "deliver"),
    "buffer": (SpillBuffer, "put"),
    "query": None,
    "sink": None,
    "late": None,
    "rejects": None,
}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("hop", HOPS)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_every_exception_at_every_hop(name, hop, error, many, tmp_path: Path, monkeypatch):
    """The row is in the result, or the run has ended and both sides are told."""
    way, fault = Way(name, tmp_path), Fault(ERRORS[error]())
    stream = way.stream
    if hop == "query":

        def keep(row):
            fault.strike()
            return row["temp"] > 0

        stream = stream.where(keep)
    elif HOPS[hop] is not None:
        fault.put_into(monkeypatch, *HOPS[hop])
    trial = Trial(way, NotedSink(fault if hop == "sink" else None), stream)
    if hop == "late":
        trial.process.late.subscribe(fault.strike)
    elif hop == "rejects":
        if not way.has_verdicts:
            pytest.skip("no rejects")
        way.source.rejects.subscribe(fault.strike)
    count_up(trial, 1, 3)
    fault.is_armed = True
    if hop == "late":
        trial.push(reading(1)) if way.has_verdicts else None
    elif hop == "rejects":
        trial.push(reading(1, "hot"))
    if many:
        trial.push([reading(n) for n in range(4, 54)])
    else:
        count_up(trial, 4, 3)
    count_up(trial, 60, 3)
    outcome = trial.judge()
    print(outcome, fault.has_struck)
