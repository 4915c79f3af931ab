"""Results computed over each window, for every kind of window."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from itertools import accumulate
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns, SeriesColumn
from rxtemporal.engine.expressions.evaluator import Evaluator
from rxtemporal.engine.holdings import PART, Selection
from rxtemporal.engine.rows import Column
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.windows.aggregates import (
    Changes,
    FloatSum,
    RunningAggregate,
    Samples,
    SumInput,
)
from rxtemporal.operators.windows.bounds import Windows
from rxtemporal.operators.windows.rows import WINDOW, Contents, ListedAggregate

# the results of running aggregates; None for what is computed from the rows of each window
Swept: TypeAlias = list[core.Column | None]


@dataclasses.dataclass(slots=True, eq=False)
class ResultRows:
    """Result rows: their fields without the keys, and the number of each row's window.

    ``of``: None if there is one row for each window. ``lifetimes``: starts and ends if they differ
    from the windows'.
    """

    columns: Sequence[core.Column]
    of: Int64s | None = None
    lifetimes: tuple[Int64s, Int64s] | None = None


class WindowResults(Protocol):
    """Computation of result rows from windows."""

    lists: bool
    """True if it needs the individual rows of a window."""

    finished: bool
    """True if it needs the end of a window."""

    once: bool
    """True if it takes rows that ``span`` windows hold as a single change."""

    @property
    def dtypes(self) -> Sequence[Any]:
        """The types of the arrays kept for each row."""

    def columns(self, payload: Columns) -> list[Column | bool]:
        """Return the arrays to keep for each row: the values that are read.

        True stands for an array filled with it.
        """

    def prepare_sum(self, own: Sequence[Column], span: int, keys: int) -> SumInput | None:
        """Return the input of a sum of floats that may be computed with the windows, if any."""

    def sweep(self, windows: Windows, changes: Changes, own: Sequence[Column], keys: int) -> Swept:
        """Apply the changes to running aggregates; return a column for each of their fields."""

    def keep_selected(self, selection: Selection) -> None:
        """Drop all keys that are not selected."""

    def compute(self, swept: Swept, contents: Contents | None) -> ResultRows:
        """Return the result rows."""


@dataclasses.dataclass(slots=True)
class Output(Stateful):
    """One field of the result: the aggregate (None: count rows), and what it reads of each row."""

    name: str
    reads: Evaluator | None
    by: RunningAggregate | ListedAggregate | None
    held = MappingProxyType({"by": PART})

    @property
    def running(self) -> RunningAggregate | None:
        """The running aggregate, if it has one."""
        return None if isinstance(self.by, ListedAggregate) else self.by

    def field(self, payload: Columns) -> core.Column:
        """Return the value that the running aggregate reads, for each row."""
        by: Any = self.by
        reads: Any = self.reads
        return SeriesColumn(reads.make_series(payload)) if by.objects else reads(payload)


class AggregateResults(Stateful):
    """One row for each window: the aggregates over its rows.

    ``hidden`` are fields of the rows that users' code does not see.
    """

    held = MappingProxyType({"_outputs": PART})

    def __init__(self, outputs: list[Output], hidden: Collection[str] = ()) -> None:
        self._outputs = outputs
        self._hidden = [*hidden]
        listed = [output.by for output in outputs if isinstance(output.by, ListedAggregate)]
        self.lists = bool(listed)
        self.finished = any(each.finished for each in listed)
        self._runs = [(output, output.running) for output in outputs if output.running is not None]
        self.once = not self.lists and all(running.once for _, running in self._runs)
        self.dtypes = [np.dtype(dtype) for _, running in self._runs for dtype in running.dtypes]
        # the sum of floats that may be computed with the windows, and its place in the values
        places = accumulate((len(running.dtypes) for _, running in self._runs), initial=0)
        each = zip((running for _, running in self._runs), places, strict=False)
        sums = [(running, place) for running, place in each if isinstance(running, FloatSum)]
        self._sum: FloatSum | None = None
        self._sum_at = 0
        if sums:
            self._sum, self._sum_at = sums[0]

    def columns(self, payload: Columns) -> list[Column | bool]:
        """Return the values that the running aggregates read."""
        columns: list[Column | bool] = []
        for output, running in self._runs:
            columns += running.columns(output.field(payload))
        return columns

    def prepare_sum(self, own: Sequence[Column], span: int, keys: int) -> SumInput | None:
        """Return the input of the first sum of floats, if there is one."""
        return None if self._sum is None else self._sum.prepare(own[self._sum_at :], span, keys)

    def sweep(self, windows: Windows, changes: Changes, own: Sequence[Column], keys: int) -> Swept:
        """Return a column for each output; None for one that reads the rows one by one."""
        samples = Samples(windows.at, windows.key, keys, windows.window)
        swept: Swept = []
        used = 0
        for output in self._outputs:
            running = output.running
            if output.by is None:
                swept.append(windows.alive.copy())  # results that are kept would hold all columns
            elif running is None:
                swept.append(None)
            else:
                mine = own[used : used + len(running.dtypes)]
                used += len(running.dtypes)
                if running is self._sum and windows.sums is not None:
                    swept.append(self._sum.complete(changes, mine, samples, *windows.sums))
                else:
                    swept.append(running.sweep(changes, mine, samples))
        return swept

    def compute(self, swept: Swept, contents: Contents | None) -> ResultRows:
        """Return one row for each window."""
        columns = []
        if contents is not None and self._hidden:
            contents = dataclasses.replace(contents, rows=contents.rows.drop(self._hidden))
        for output, column in zip(self._outputs, swept, strict=True):
            if column is None:
                assert contents is not None
                assert isinstance(output.by, ListedAggregate)
                column = output.by.values(output.name, contents)
            columns.append(column)
        return ResultRows(columns)


class ListedResults(Stateful):
    """Base of results computed from the rows of each window; keeps no columns, holds nothing."""

    lists = True
    finished = False
    once = False
    dtypes: ClassVar[Sequence[Any]] = ()

    def columns(self, payload: Columns) -> list[Column | bool]:
        """Return nothing."""
        return []

    def prepare_sum(self, own: Sequence[Column], span: int, keys: int) -> None:
        """Return nothing: nothing is summed."""

    def sweep(self, windows: Windows, changes: Changes, own: Sequence[Column], keys: int) -> Swept:
        """Return nothing."""
        return []


RANK = "rank"


class TopKResults(ListedResults):
    """Rows of rank ``k`` or better: ties share a rank, and nulls come last."""

    def __init__(self, k: int, by: pl.Expr, fields: list[str], *, descending: bool) -> None:
        value = pl.col(RANK)
        rank = value.rank("min", descending=descending).over(WINDOW)
        last = value.count().over(WINDOW) + 1
        self._by = by.alias(RANK)
        self._rank = pl.coalesce(rank, last).cast(pl.Int64).alias(RANK)
        self._k = k
        self._fields = fields

    def compute(self, swept: Swept, contents: Contents | None) -> ResultRows:
        """Return the rows of the best ranks, in order of window and rank."""
        assert contents is not None
        by = contents.rows.select(self._by).to_series()
        if by.dtype.is_float():
            by = by + 0.0  # -0.0 ties with 0.0
        ranked = contents.rows.with_columns(by.alias(RANK)).with_columns(self._rank)
        best = ranked.filter(pl.col(RANK) <= self._k).sort(WINDOW, RANK, maintain_order=True)
        of: Int64s = best[WINDOW].to_numpy()
        return ResultRows(Columns.from_frame(best.select(*self._fields, RANK)).columns, of)
