"""Sinks for a first look at results: in memory, and printed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import Event, EventShape
from rxtemporal.ingress.unpacker import Unpacker
from rxtemporal.sinks.sink import ReadySink

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Collect(ReadySink):
    """Sink that keeps all results in memory, as batches.

    ``time=`` of its methods is the form of times, by default that of the query's sources.

    >>> import rxtemporal as rxt
    >>> results = rxt.Collect()
    >>> with rxt.from_events([rxt.PointEvent(4, {"x": 1})]).run(results):
    ...     pass
    >>> results.to_events()
    [IntervalEvent(4, 5, {'x': 1})]
    """

    def __init__(self, shape: EventShape = EventShape.INTERVAL) -> None:
        super().__init__(None, shape)
        self.batches: list[EventBatch] = []
        self._schema = pl.Schema()

    def __repr__(self) -> str:
        return f"Collect({self.shape.value} shape, {sum(map(len, self.batches)):,} rows)"

    def open(self, query: str, schema: pl.Schema) -> None:
        """Keep the schema, for a query without results."""
        self._schema = schema

    def write(self, batch: EventBatch) -> None:
        """Keep the batch."""
        self.batches.append(batch)

    @property
    def batch(self) -> EventBatch:
        """All results so far as one batch; in edge shape it has start edges and end edges."""
        return EventBatch.concat(self.batches or [EventBatch.empty(self._schema, 0)])

    def to_polars(self, *, time: TimeForm | None = None) -> pl.DataFrame:
        """Return the results so far as a frame, in order of arrival."""
        return self.batch.to_polars(self._form(time))

    def to_arrow(self, *, time: TimeForm | None = None) -> pa.Table:
        """Return the results so far as a pyarrow table, with the columns of ``to_polars``."""
        return self.batch.to_arrow(self._form(time))

    def to_pandas(self, *, time: TimeForm | None = None) -> pd.DataFrame:
        """Return the results so far as a pandas frame, with the columns of ``to_polars``."""
        return self.batch.to_pandas(self._form(time))

    def to_dicts(self, *, time: TimeForm | None = None) -> list[dict[str, Any]]:
        """Return the results so far as dicts with start_time, end_time and the fields."""
        return self.batch.to_dicts(self._form(time))

    def to_events(self, *, time: TimeForm | None = None) -> list[Event]:
        """Return the results so far as events."""
        return Unpacker(self.shape, False, lambda: self._form(time)).list_events(self.batch)


class Print(ReadySink):
    """Sink that prints rows as they come, in columns: their lifetimes, then their fields.

    ``time`` is the form of times, by default that of the query's sources. The output goes to
    ``file``, by default standard output.

    >>> import rxtemporal as rxt
    >>> with rxt.from_events([rxt.PointEvent(4, {"x": 1})]).run(rxt.Print()):
    ...     pass
    start_time  end_time  x
    4           5         1
    """

    def __init__(
        self,
        *,
        shape: EventShape = EventShape.INTERVAL,
        time: TimeForm | None = None,
        file: TextIO | None = None,
    ) -> None:
        super().__init__(time, shape)
        self._file = file
        self._widths: list[int] = []
        self._error: BaseException | None = None

    def write(self, batch: EventBatch) -> None:
        """Print the rows, before the first ones a heading; columns grow wider as needed."""
        for frame in batch.to_polars(self._form()).iter_slices(1_000):
            if self._error is not None:
                raise self._error
            self._print(frame)

    def cancel(self, error: BaseException) -> None:
        """Let a ``write`` stop after the rows that it is printing."""
        self._error = error

    def _print(self, frame: pl.DataFrame) -> None:
        from rxtemporal.text.plain_text import align, format_value, make_visible, measure_columns

        lines = [self._cells(row, format_value) for row in frame.iter_rows()]
        if not self._widths:
            lines.insert(0, [*map(make_visible, frame.columns)])
        self._widths = measure_columns(lines, self._widths)
        print("\n".join(align(lines, widths=self._widths)), file=self._file)

    def close(self, error: BaseException | None) -> None:
        """Flush the output."""
        super().close(error)
        (self._file or sys.stdout).flush()

    def _cells(self, row: tuple[Any, ...], format_value: Callable[[Any], str]) -> list[str]:
        start, end, *fields = map(format_value, row)
        if row[1] is None:
            end = "open" if self.shape is EventShape.EDGE else "never ends"
        return [start, end, *fields]
