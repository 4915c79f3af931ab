"""First rows of a query: a run that stops as soon as they are known."""

from __future__ import annotations

import contextlib

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import EventShape
from rxtemporal.core.row_text import format_frame, get_width
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.stream import Stream
from rxtemporal.query.runs import execute, iterate


def collect_head(stream: Stream, n: int, time: TimeForm | None) -> pl.DataFrame:
    """Run a query until its first ``n`` rows are known, stop it, and return them as a frame."""
    _check_count(n)
    run = execute(stream, EventShape.INTERVAL)
    batches: list[EventBatch] = []
    missing = n
    with contextlib.closing(iterate(run, "head()")) as results:
        while missing and (batch := next(results, None)) is not None:
            batches.append(batch.slice(0, missing))
            missing -= len(batches[-1])
    if not batches:
        batches = [EventBatch.empty(stream.schema or pl.Schema(), MIN_TIME)]
    return EventBatch.concat(batches).to_polars(time or run.time)


def print_head(stream: Stream, n: int, time: TimeForm | None) -> None:
    """Print the first ``n`` rows of a query as a table that says if there are more."""
    _check_count(n)
    print(format_frame(collect_head(stream, n + 1, time), n, get_width()))


def _check_count(n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ArgumentError(
            f"n is a number of rows, 0 or more, got {n!r}. Hint: select(…) chooses fields."
        )
