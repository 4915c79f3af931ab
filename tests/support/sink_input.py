"""Input of the sink's tests, and the expected tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.spark.sink.sink import SparkSink

HOUR = 3_600_000_000
SCHEMA = pl.Schema({"k": pl.String(), "v": pl.Int64()})
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = tuple[Any, ...]


def rows(hours: int, each: int = 3) -> list[dict[str, Any]]:
    """Return some rows for each hour; the third one of an hour never ends."""
    return [
        {
            "start_time": hour * HOUR + j,
            "end_time": None if j == 2 else hour * HOUR + j + 90,
            "k": f"k{j}",
            "v": hour,
        }
        for hour in range(hours)
        for j in range(each)
    ]


def batches(hours: int, *, end: int = MAX_TIME, step: int = 1, shift: int = 0) -> list[EventBatch]:
    """Return the rows as a query writes them: a batch for every ``step`` hours, then the last CTI.

    ``shift`` is how many ticks into the next hour a batch goes, whose rows are on its first three.
    """
    given, last, cut = rows(hours), -1, []
    for hour in range(0, hours, step):
        cti = min(hour + step, hours) * HOUR + shift
        part = [row for row in given if last <= row["start_time"] < cti]
        cut.append(EventBatch.from_dicts(part, schema=SCHEMA, cti=cti))
        last = cti
    return [*cut, EventBatch.empty(SCHEMA, end)]


def expected_rows(hours: int) -> list[Row]:
    """Return the expected rows of a table, sorted."""
    return sorted(
        (moment(row["start_time"]), moment(row["end_time"]), row["k"], row["v"])
        for row in rows(hours)
    )


def moment(tick: int | None) -> datetime | None:
    """Return a time in ticks as a datetime."""
    return None if tick is None else EPOCH + timedelta(microseconds=tick)


def read_table(table: Path) -> list[Row]:
    """Return the rows of a table, as polars reads it, sorted."""
    return sorted(pl.read_parquet(table).select("start_time", "end_time", "k", "v").rows())


def feed(sink: SparkSink, given: Sequence[EventBatch], name: str = "q") -> SparkSink:
    """Run a query that ends well."""
    sink.open(name, given[0].schema)
    write(sink, given)
    sink.close(None)
    return sink


def write(sink: SparkSink, given: Iterable[EventBatch]) -> None:
    """Write batches, each into a segment of its own."""
    for batch in given:
        sink.write(batch)
        flush(sink)


def flush(sink: SparkSink) -> None:
    """Wait until all rows are on disk, as a checkpoint of a run does."""
    saved = sink.save()
    assert not isinstance(saved, bytes)
    saved()


def wait_until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
