"""Micro-batches without Spark, for writers that only read their rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl
import pytest

from rxtemporal.core.batch import END, EventBatch
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.spark.targets.target import EDGE, STATE
from rxtemporal.storage.segments import rows_frame


class Above:
    """Stands for a column of Spark's that is compared with a number."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __gt__(self, number: int) -> pl.Expr:  # type: ignore[misc]
        return pl.col(self.name) > number


class Frame:
    """Stands for Spark's DataFrame of a micro-batch."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows = rows

    def where(self, wanted: pl.Expr) -> Frame:
        """Filter."""
        return Frame(self.rows.filter(wanted))

    def toArrow(self) -> Any:  # noqa: N802
        """Fetch."""
        return self.rows.to_arrow()


@dataclasses.dataclass(frozen=True)
class FrameBatch:
    """A micro-batch for a writer that only looks at its DataFrame."""

    frame: Any
    last: int
    number: int = 0


def micro_batch(batch: EventBatch, segment: int) -> Any:
    """A batch of settled rows as a writer gets it, as one segment."""
    ends, instant = pl.col(END) < MAX_TIME, pl.Datetime("us", "UTC")
    times = [pl.col("start_time").cast(instant), pl.when(ends).then(pl.col(END)).cast(instant)]
    if EDGE in batch.schema:
        times.append(pl.when(ends).then(pl.lit("closed")).otherwise(pl.lit("open")).alias(STATE))
    return FrameBatch(Frame(rows_frame(batch, segment).with_columns(times)), segment)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let writers use such frames: Spark's own columns need a Java process."""
    monkeypatch.setattr("pyspark.sql.functions.col", Above)
