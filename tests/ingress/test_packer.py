"""The packer: what it holds while rows wait."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest

from rxtemporal import Cti, EdgeEvent, IntervalEvent, PointEvent
from rxtemporal.core.events import Event
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.ingress.packer import Packer


def test_time_that_passes_while_a_row_waits_is_not_held() -> None:
    """A row waits for more rows; any number of CTIs behind it are held as one."""
    packer = Packer(None, "readings", PayloadReader(pl.Schema({"x": pl.Int64})), 1_024)
    assert packer.take(PointEvent(0, {"x": 1})) is None
    for time in range(1, 1_000):
        assert packer.take(Cti(time)) is None
        assert packer.due() is None
    assert len(packer._ctis) == 2
    batch = packer.pack()
    assert batch is not None
    assert (len(batch), batch.cti) == (1, 999)


@dataclasses.dataclass(frozen=True)
class Reading:
    """A payload that is no dict."""

    x: int


BEFORE: list[Event] = [
    PointEvent(3, {"x": 1}),
    EdgeEvent.create_start(4, {"x": 2}),
    Cti(4),
    IntervalEvent(5, 9, Reading(3)),
    EdgeEvent.create_start(6, {"x": 4}),
    EdgeEvent.create_end(4, 7, {"x": 2}),
]
AFTER: list[Event] = [Cti(7), EdgeEvent.create_end(6, 12, {"x": 4}), PointEvent(8, {"x": 5})]


@pytest.mark.parametrize("is_written", [False, True])
def test_a_packer_that_was_saved_goes_on_with_what_waited(is_written: bool) -> None:
    """What the first one takes after that is not in it, whether the state was written or not."""
    packers = [make_packer() for _ in range(3)]
    first, second, alone = packers
    for event in BEFORE:
        assert first.take(event) is alone.take(event) is None
    captured = Captured("packer", first.save())
    for event in AFTER:
        first.take(event)
    first.pack()
    second.load(loads("packer", captured.dumps() if is_written else captured))
    rows = []
    for packer in (second, alone):
        for event in AFTER:
            packer.take(event)
        batch = packer.pack()
        assert batch is not None
        rows.append((*find_rows(batch), packer.cti, len(packer.open_rows), packer.events))
    assert rows[0] == rows[1]
    assert len(rows[0][0]) == len(BEFORE) + len(AFTER) - 2


def make_packer() -> Packer:
    """Return a packer in which many rows may wait."""
    return Packer(None, "readings", PayloadReader(pl.Schema({"x": pl.Int64})), 1_024)


def find_rows(batch: Any) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return starts, ends, edges and the field of the rows."""
    columns = batch.start, batch.end, batch.edge, batch.payload["x"].to_numpy()
    return tuple(each.tolist() for each in columns)
