"""Edges of a second run over a spool that was emptied, without any Spark: numbers stay unique."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from no_spark import Nothing, use_no_spark
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import CheckpointError
from rxtemporal.spark import SparkSink
from rxtemporal.storage.segments import SegmentFolder

SCHEMA = {"x": pl.Int64}
Records = dict[int, tuple[int, int, int]]


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no Spark, and let the spool stay as it is when a run ends."""
    use_no_spark(monkeypatch, Nothing, keeps_spool=True)


def begins(start: int) -> rxt.EdgeEvent:
    """A row that begins; ``x`` is its start, too."""
    return rxt.EdgeEvent.create_start(start, {"x": start})


def ends(start: int, end: int) -> rxt.EdgeEvent:
    """The end of a row."""
    return rxt.EdgeEvent.create_end(start, end, {"x": start})


def run(path: Path, *events: rxt.EdgeEvent, **options: Any) -> Records:
    """Push events into a run that breaks off, take what is spooled, and empty the spool.

    Returns start, end and ``x`` by number.
    """
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(
        subject, schema=SCHEMA, advance_time=rxt.INCREASING_START_TIME, name="s"
    )
    sink = SparkSink(print, path=path / "sink", shape=rxt.EventShape.EDGE)
    process = stream.run(sink, name="q", **options)
    for event in events:
        subject.on_next(event)
    process.dispose()
    process.wait()  # raises what had ended it before
    folder = SegmentFolder(path / "sink" / "spool")
    mark, last = folder.bounds()
    taken = [folder.read(number) for number in range(mark + 1, last + 1)]
    folder.discard(last)
    rows = [row for frame in taken for row in frame.rows(named=True)]
    return {row["_edge"]: (row["start_time"], row["end_time"], row["x"]) for row in rows}


def test_a_source_that_gives_nothing_twice_gets_new_numbers(tmp_path: Path) -> None:
    """No row that is in the target has its number given to another one."""
    assert run(tmp_path, begins(1), begins(5), begins(9)) == {
        1: (1, MAX_TIME, 1),
        2: (5, MAX_TIME, 5),
    }
    assert run(tmp_path, ends(1, 12), begins(15), begins(20)) == {3: (15, MAX_TIME, 15)}
    assert run(tmp_path, begins(30), begins(40)) == {4: (30, MAX_TIME, 30)}


def test_an_input_log_keeps_the_numbers(tmp_path: Path) -> None:
    """A row that comes again from the log has its old number, and is closed by it."""
    options = {"log": tmp_path / "log"}
    first = run(tmp_path, begins(1), begins(5), begins(9), **options)
    assert first == {1: (1, MAX_TIME, 1), 2: (5, MAX_TIME, 5)}
    second = run(tmp_path, ends(1, 12), begins(15), begins(20), **options)
    assert second == {3: (9, MAX_TIME, 9), 1: (1, 12, 1), 4: (15, MAX_TIME, 15)}


def test_a_source_that_gives_a_part_again_is_refused(tmp_path: Path) -> None:
    """It cannot be told which rows these are, and none is overwritten."""
    run(tmp_path, begins(1), begins(5), begins(9))
    with pytest.raises(CheckpointError, match=r"2 rows that begin before .* has given 1"):
        run(tmp_path, begins(5), begins(9), begins(12))
