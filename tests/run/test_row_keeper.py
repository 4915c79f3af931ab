"""Rows that only have to wait: kept at little cost, and told like all others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from faults import ERRORS, Fault

import rxtemporal as rxt
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.packer import Packer
from rxtemporal.storage.event_log.log import StreamLog

SCHEMA = {"room": str, "temp": float}


def row(time: int) -> dict[str, Any]:
    """Return a row."""
    return {"t": time, "room": "hall", "temp": 0.5}


def make(batch_rows: int = 1_000) -> rxt.PushSource:
    """Return a source whose rows wait."""
    return rxt.PushSource("rows", schema=SCHEMA, start="t", delay=10, batch_rows=batch_rows)


async def push_all(source: rxt.PushSource, times: list[int]) -> list[Any]:
    """Push rows at once, and return their verdicts or errors."""
    pushes = (source.push_async(row(time)) for time in times)
    return await asyncio.gather(*pushes, return_exceptions=True)


TIMES = [5, 30, 31, 29, 12, 30, 60, 50, 49, 61]


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_verdicts_and_counters_are_those_of_rows_that_do_not_wait(is_durable, is_async, tmp_path):
    """Rows that are kept get the verdicts and counters of events that go on at once."""

    def run(source: rxt.PushSource, push: Any) -> Any:
        options: Any = {"resume": tmp_path / str(id(source))} if is_durable else {}
        process = source.stream.run(sink := rxt.Collect(), **options)
        verdicts = push(source)
        stats = source.stats()
        source.close()
        process.wait()
        return verdicts, stats, sorted(sink.batch.start.tolist())

    def push_rows(source: rxt.PushSource) -> list[Any]:
        if is_async:
            return asyncio.run(push_all(source, TIMES))
        return [source.push(row(time)) for time in TIMES]

    def push_events(source: rxt.PushSource) -> list[Any]:
        payload = {"room": "hall", "temp": 0.5}
        return [source.push(rxt.PointEvent(time, payload)) for time in TIMES]

    kept = run(make(), push_rows)
    assert kept == run(make(batch_rows=1), push_events)
    assert [len(each.late) for each in kept[0]] == [0, 0, 0, 0, 1, 0, 0, 0, 1, 0]


def test_rows_that_wait_come_back_from_the_log(tmp_path: Path):
    """The next life of a source has the counters, and the CTI, of rows that were kept."""
    source = make()
    process = source.stream.run(rxt.Collect(), resume=tmp_path)
    asyncio.run(push_all(source, TIMES))
    stats = source.stats()
    process.stop()
    again = make()
    process = again.stream.run(sink := rxt.Collect(), resume=tmp_path)
    assert again.stats() == stats
    again.close()
    process.wait()
    assert stats.accepted == 8
    assert again.stats().accepted == 8
    assert set(sink.batch.start.tolist()) <= set(TIMES)


HOPS = {
    "door": (Door, "note_row"),
    "packer": (Packer, "keep_row"),
    "log": (StreamLog, "note_events"),
}
CASES = [
    (hop, way)
    for hop in HOPS
    for way in ("push", "async", "push resume", "async resume")
    if hop != "log" or "resume" in way
]


@pytest.mark.parametrize("error", ["RuntimeError", "EvilError", "BadPayloadError"])
@pytest.mark.parametrize(("hop", "way"), CASES)
def test_an_error_at_a_row_that_waits_ends_the_run(hop, way, error, tmp_path: Path, monkeypatch):
    """The push that met the error raises, and so do all later ones."""
    kind, *words = way.split()
    fault, source = Fault(ERRORS[error]()), make()
    options: Any = {"resume": tmp_path / "run"} if words else {}
    fault.put_into(monkeypatch, *HOPS[hop])
    process = source.stream.run(rxt.Collect(), **options)
    source.push(row(1))
    fault.is_armed = True
    if kind == "push":
        with pytest.raises(rxt.ProcessEndedError):
            source.push(row(2))
    else:
        answers = asyncio.run(push_all(source, [2, 3, 4]))
        assert all(isinstance(each, rxt.ProcessEndedError) for each in answers)
    assert fault.has_struck
    with pytest.raises(rxt.ProcessEndedError):
        source.push(row(5))
    assert process.error is fault.error
