"""A kept run into a sink's spool, without any Spark: however it breaks, each row is there once."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from no_spark import Nothing, table, use_no_spark
from resumed_runs import SOON
from run_settings import save_at_once
from statements import PowerError, Write, is_checkpoint, watch_file

import rxtemporal as rxt
from rxtemporal import EventShape, agg
from rxtemporal.errors import CheckpointError
from rxtemporal.spark import SparkSink

ROWS = 120
FRAME = pl.DataFrame(
    {
        "start": [n + (n * 7) % 5 for n in range(ROWS)],
        "end": [n + (n * 7) % 5 + 1 + n * 13 % 23 for n in range(ROWS)],
        "k": [n * 5 % 3 for n in range(ROWS)],
    }
)
# time is made far behind the rows: many have begun that no CTI has passed
BEHIND = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(4, 11), policy=rxt.AdvanceTimePolicy.DROP
)
QUERIES: dict[str, Any] = {
    "rows": lambda s: s.where(pl.col("k") > 0),
    "counts": lambda s: s.group_by("k").snapshot_window().aggregate(n=agg.count()),
}


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no Spark, and save after each batch."""
    use_no_spark(monkeypatch, Nothing, keeps_spool=True)
    save_at_once(monkeypatch)


def run(path: Path, shape: EventShape, query: str, size: int) -> rxt.Process:
    """Run a query into a sink, kept beside the sink's own folder."""
    stream = rxt.from_polars(
        FRAME, start="start", end="end", advance_time=BEHIND, batch_rows=size, name="rows"
    )
    sink = SparkSink(print, path=path / "sink", shape=shape)
    return QUERIES[query](stream).run(sink, resume=path / "kept")


def breaking(at: int, *, saved: bool) -> AbstractContextManager[None]:
    """Let a run break off when it saves for so many times, before or after that."""
    left = [at]

    def break_off(write: Write) -> None:
        left[0] -= is_checkpoint(write)
        if not left[0]:
            raise PowerError

    if not saved:
        return watch_file(before=break_off)
    return watch_file(after=lambda writes: [break_off(each) for each in writes])


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("shape", EventShape)
@pytest.mark.parametrize("saved", [False, True])
def test_each_row_is_there_once(tmp_path: Path, shape: EventShape, query: str, saved: bool) -> None:
    """Between what has left and the state, and after it: neither skipped nor doubled, any shape."""
    run(tmp_path / "whole", shape, query, 9).wait(SOON)
    expected = table(tmp_path / "whole", shape)
    numbers = random.Random(f"{shape} {query} {saved}")
    breaks, runs = 0, 0
    while True:
        runs += 1
        with breaking(numbers.randrange(1, 7), saved=saved):
            try:
                run(tmp_path / "broken", shape, query, numbers.randrange(3, 12)).wait(SOON)
                break
            except PowerError:
                breaks += 1
        assert runs < 200
        if breaks > 12:  # it has been broken often enough
            run(tmp_path / "broken", shape, query, 5).wait(SOON)
            break
    assert breaks > 2
    assert table(tmp_path / "broken", shape) == expected


def test_a_sink_that_lacks_what_the_state_says_is_refused(tmp_path: Path) -> None:
    """A spool that was lost, or another one: rows would be missing in silence."""
    with breaking(9, saved=True), pytest.raises(PowerError):
        run(tmp_path, EventShape.EDGE, "rows", 5).wait(SOON)
    (tmp_path / "sink").rename(tmp_path / "lost")
    with pytest.raises(CheckpointError, match=r"has all rows before .*Hint: give the sink"):
        run(tmp_path, EventShape.EDGE, "rows", 5)
