"""No run is deaf: each row is in the result or rejected, or the run ends and says so."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from faults import ERRORS, Fault, NotedSink, Trial, Way, count_up, reading
from products import draw_product
from run_settings import save_at_once, save_often
from statements import Write, is_checkpoint, is_entry, watch_file

from rxtemporal import PointEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.errors import RxTemporalError
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.packer import Packer
from rxtemporal.run.hand_off import BoundedQueue
from rxtemporal.run.hand_off.buffer import SpillBuffer
from rxtemporal.storage.event_log.log import StreamLog

WAYS = [
    "push", "push log", "push resume", "push hand-off", "push resume hand-off", "push spill",
    "async", "async resume", "async hand-off",
    "subject", "subject log", "subject resume", "subject hand-off", "subject log hand-off",
    "plain", "plain log",
]  # fmt: skip
# the methods that fail; or None for a user's function, a sink, or the file of the run
HOPS: dict[str, Any] = {
    "door": (Door, "accept", "pass_cti", "note_row", "accept_batch", "judge_columns"),
    "packer": (Packer, "take", "keep", "keep_row", "take_verdicts", "judge_run"),
    "pack": (Packer, "pack"),
    "columns": (PayloadReader, "columns"),
    "log": (StreamLog, "note_event", "note_batch"),
    "entry": None,
    "checkpoint": None,
    "writer": None,
    "queue": (BoundedQueue, "_put"),
    "deliver": (BoundedQueue, "deliver"),
    "buffer": (SpillBuffer, "put"),
    "query": None,
    "sink": None,
    "late": None,
    "rejects": None,
}


def is_case(name: str, hop: str, error: str, many: bool) -> bool:
    """Return True if this error can be raised at this hop."""
    if many and error != "RuntimeError":
        return False
    # a hand-off without a log judges the rows that it has gathered together, in the packer
    if many and name == "subject hand-off" and hop == "door":
        return False
    # the thread that writes a checkpoint gets no Ctrl-C
    return can_strike(name, hop) and (hop != "writer" or isinstance(ERRORS[error](), Exception))


def can_strike(name: str, hop: str) -> bool:
    """Return True if what is pushed in this way passes this hop."""
    kind, *words = name.split()
    if hop in ("log", "entry"):
        return "log" in words or "resume" in words
    if hop in ("checkpoint", "writer"):
        return "resume" in words
    if hop in ("queue", "deliver", "buffer"):
        return "hand-off" in words or "spill" in words
    if hop in ("late", "rejects"):
        return kind in ("push", "async")
    return True


def put_into(hop: str, fault: Fault, trial: Trial) -> None:
    """Let a subscriber of the run fail."""
    if hop == "late":
        trial.process.late.subscribe(fault.strike)
        trial.way.source.late.subscribe(fault.strike)
    elif hop == "rejects":
        trial.way.source.rejects.subscribe(fault.strike)


@pytest.mark.parametrize(
    ("name", "hop", "error", "many"),
    draw_product(WAYS, HOPS, ERRORS, [False, True], together=2, allowed=is_case),
)
def test_every_exception_at_every_hop(name, hop, error, many, tmp_path: Path, monkeypatch):
    """The row is in the result, or the run has ended and both sides are told."""
    way, fault = Way(name, tmp_path), Fault(ERRORS[error]())

    def keep(row: dict[str, Any]) -> bool:
        if hop == "query":
            fault.strike()
        return row["temp"] > 0

    if HOPS[hop] is not None:
        fault.put_into(monkeypatch, *HOPS[hop])
    if hop == "checkpoint":
        save_at_once(monkeypatch)
    elif hop == "writer":  # whenever no other one is being written
        save_often(monkeypatch)
    sink = NotedSink(fault if hop == "sink" else None, fault if hop == "checkpoint" else None)

    def write(statement: Write) -> None:
        if is_entry(statement) if hop == "entry" else is_checkpoint(statement, piece=True):
            fault.strike()

    with watch_file(before=write) if hop in ("entry", "writer") else nullcontext():
        trial = Trial(way, sink, way.stream.where(keep))
    put_into(hop, fault, trial)
    count_up(trial, 1, 3)
    fault.is_armed = True
    if hop in ("late", "rejects"):
        trial.push_aside(reading(1, 20.5 if hop == "late" else "hot"))
    elif many:
        trial.push([reading(n) for n in range(4, 54)])
    else:
        count_up(trial, 4, 3)
    count_up(trial, 60, 3)
    outcome = trial.judge()
    assert fault.has_struck
    if hop in ("late", "rejects") and isinstance(fault.error, Exception):
        assert outcome == "alive"


def boom(*_: Any) -> Any:
    """Raise an exception."""
    raise RuntimeError("boom")


def nest(levels: int) -> list[Any]:
    """Return a list nested so deep."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


PAYLOADS = {
    "decimal": Decimal("1e40"),
    "nested": nest(990),
    "digits": 10**5000,
    "surrogate": "\ud800",
    "repr": type("Mute", (), {"__repr__": boom})(),
    "class": type("Hidden", (), {"__class__": property(boom)})(),
    "bool": True,
}


@pytest.mark.parametrize(("name", "value"), draw_product(WAYS, PAYLOADS))
def test_every_payload(name, value, tmp_path: Path, monkeypatch):
    """A payload that does not fit is rejected; where nobody can be told of it, the run ends."""
    # polars fails to write out an int of 5,000 digits, and reports that beside its error
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    way = Way(name, tmp_path)
    trial = Trial(way, NotedSink())
    count_up(trial, 1, 3)
    trial.push(reading(4, PAYLOADS[value]))
    count_up(trial, 5, 3)
    outcome = trial.judge()
    if way.has_verdicts:
        assert (outcome, trial.rejected, trial.raised) == ("alive", 1, [])
        assert trial.sink.starts[:6] == [1, 2, 3, 5, 6, 7][: len(trial.sink.starts)]
    else:
        assert outcome == "ended"
        assert isinstance(trial.process.error, RxTemporalError)


@pytest.mark.parametrize("name", [name for name in WAYS if not name.startswith(("push", "async"))])
def test_a_payload_whose_own_code_raises(name, tmp_path: Path):
    """A mapping whose methods raise ends the run of a subject, and the run says so."""
    hostile = type("Hostile", (dict,), dict.fromkeys(("__getitem__", "__len__", "items"), boom))
    trial = Trial(Way(name, tmp_path), NotedSink())
    count_up(trial, 1, 3)
    trial.push(PointEvent(4, hostile()))
    count_up(trial, 5, 3)
    assert trial.judge() == "ended"
