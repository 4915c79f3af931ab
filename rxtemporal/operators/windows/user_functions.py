"""Users' own aggregates and operators, run over the rows of windows."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns, make_column
from rxtemporal.core.events import IntervalEvent
from rxtemporal.core.record_classes import find_record
from rxtemporal.core.schema import can_hold
from rxtemporal.engine.holdings import BY_KEY
from rxtemporal.engine.rows import Column
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import SchemaError
from rxtemporal.operators.row_times import TIME_FIELDS
from rxtemporal.operators.windows.aggregates import Changes, Own, Samples
from rxtemporal.operators.windows.field_values import read_objects
from rxtemporal.operators.windows.results import ListedResults, ResultRows, Swept
from rxtemporal.operators.windows.rows import (
    ROW_END,
    ROW_START,
    WINDOW,
    Contents,
    ListedAggregate,
)


@dataclasses.dataclass(frozen=True, slots=True)
class TimeWindow:
    """A window ``[start, end)`` in ticks, as passed to a user's time-sensitive code."""

    start: int
    end: int


def _make_series(
    name: str,
    values: Sequence[Any],
    dtype: pl.DataType,
    hint: str = "name the type with dtype= or the return annotation",
) -> pl.Series:
    """Return a user's results as a column of the promised type."""
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not can_hold(dtype, values):
        wrong = next(value for value in values if not can_hold(dtype, [value]))
        raise SchemaError(
            f"{name!r} is {dtype}, and its function returned {wrong!r} ({type(wrong).__name__}). "
            f"Hint: {hint}."
        )
    try:
        return pl.Series(name, values, dtype=dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:  # a number too large
        wrong = next(value for value in values if not _fits(value, dtype))
        raise SchemaError(
            f"{name!r} is {dtype}, and its function returned {wrong!r}, which does not fit in it"
        ) from error


def _fits(value: Any, dtype: pl.DataType) -> bool:
    try:
        pl.Series([value], dtype=dtype)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        return False
    return True


# so many rows are read at once, if no window has more
READ_ROWS = 16_384


def _list_payloads(rows: pl.DataFrame) -> list[dict[str, Any]]:
    return rows.drop(WINDOW, ROW_START, ROW_END, *TIME_FIELDS, strict=False).to_dicts()


def _read_windows(
    contents: Contents, rows: pl.DataFrame, read: Callable[[pl.DataFrame], list[Any]]
) -> Iterator[tuple[int, list[Any], slice]]:
    """Yield each window with what ``read`` returns of its ``rows``, and their places.

    Rows of many small windows are read together: it costs as much as those of one.
    """
    values: list[Any] = []
    since = until = 0
    for window, begin, end in contents.find_bounds(rows):
        if end > until:
            since, until = begin, max(end, begin + READ_ROWS)
            values = read(rows.slice(since, until - since))
        yield window, values[begin - since : end - since], slice(begin, end)


def _make_events(
    starts: Int64s, ends: Int64s, window: TimeWindow, payloads: list[Any]
) -> list[IntervalEvent]:
    """Return a window's rows as events, their lifetimes clipped to the window."""
    return [
        IntervalEvent(max(start, window.start), min(end, window.end), payload)
        for start, end, payload in zip(starts.tolist(), ends.tolist(), payloads, strict=True)
    ]


class WindowAggregate(ListedAggregate):
    """Aggregate that a user's function computes from the values or events of each window."""

    def __init__(
        self,
        compute: Callable[..., Any],
        reads: pl.Expr | None,
        where: pl.Expr | None,
        dtype: pl.DataType,
        *,
        sensitive: bool,
    ) -> None:
        self._compute = compute
        self._reads = reads
        self._where = where
        self._dtype = dtype
        self.finished = sensitive  # type: ignore[misc]

    def values(self, name: str, contents: Contents) -> core.Column:
        """Call the user's function for each window."""
        rows = contents.rows if self._where is None else contents.rows.filter(self._where)
        starts, ends = rows[ROW_START].to_numpy(), rows[ROW_END].to_numpy()
        results = []
        for w, values, places in _read_windows(contents, rows, self._read):
            if self.finished:
                window = TimeWindow(int(contents.starts[w]), int(contents.ends[w]))
                events = _make_events(starts[places], ends[places], window, values)
                results.append(self._compute(events, window))
            else:
                results.append(self._compute([x for x in values if x is not None]))
        return make_column(_make_series(name, results, self._dtype))

    def _read(self, rows: pl.DataFrame) -> list[Any]:
        if self._reads is None:
            return _list_payloads(rows)
        # a constant has one value for each row, too
        return rows.with_columns(self._reads.alias(WINDOW))[WINDOW].to_list()


class IncrementalAggregate(Stateful):
    """Aggregate with a state for each key; the user's code adds and removes rows."""

    once, objects, chooses = False, True, False
    dtypes = (object,)
    held = MappingProxyType({"states": BY_KEY})

    def __init__(self, user: Any, name: str, dtype: pl.DataType) -> None:
        self._user = user
        self._name = name
        self._dtype = dtype
        self._states: defaultdict[int, Any] = defaultdict(user.init)

    @property
    def states(self) -> dict[int, Any]:
        """The user's state of each key."""
        return dict(self._states)

    @states.setter
    def states(self, states: dict[int, Any]) -> None:
        self._states.clear()
        self._states.update(states)

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values as objects; null as None."""
        return [read_objects(field)]

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the user's results."""
        user, states = self._user, self._states
        rows, ends = changes.what >> 3, (changes.what & 1).tolist()
        keys, values = changes.key[rows].tolist(), own[0][rows]
        wanted, of = samples.at.tolist(), samples.of.tolist()
        results: list[Any] = []
        for i in range(len(changes) + 1):
            while len(results) < len(wanted) and wanted[len(results)] == i:
                results.append(user.result(states[of[len(results)]]))
            if i < len(changes) and values[i] is not None:
                change = user.remove if ends[i] else user.add
                states[keys[i]] = change(states[keys[i]], values[i])
        return make_column(_make_series(self._name, results, self._dtype))


class ApplyResults(ListedResults):
    """Results of a user-defined operator: rows of a window in, rows out."""

    def __init__(
        self,
        function: Callable[..., Iterable[Any]],
        schema: pl.Schema,
        *,
        sensitive: bool,
    ) -> None:
        self._function = function
        self._schema = schema
        self.finished = sensitive

    def compute(self, swept: Swept, contents: Contents | None) -> ResultRows:
        """Call the user's function for each window and gather what it returns."""
        assert contents is not None
        payloads: list[dict[str, Any]] = []
        of: list[int] = []
        lifetimes: list[tuple[int, int]] = []
        rows = contents.rows
        starts, ends = rows[ROW_START].to_numpy(), rows[ROW_END].to_numpy()
        for w, read, places in _read_windows(contents, rows, _list_payloads):
            window = TimeWindow(int(contents.starts[w]), int(contents.ends[w]))
            given: tuple[Any, ...] = (read,)
            if self.finished:
                given = _make_events(starts[places], ends[places], window, read), window
            for result in self._call(*given):
                payload, lifetime = self._check_result(result, window)
                payloads.append(payload)
                lifetimes.append(lifetime)
                of.append(w)
        made = pl.DataFrame(
            [
                _make_series(name, [p[name] for p in payloads], t, "schema= says what type it has")
                for name, t in self._schema.items()
            ]
        )
        times = np.array(lifetimes, np.int64).reshape(-1, 2)
        own = (times[:, 0].copy(), times[:, 1].copy()) if self.finished else None
        return ResultRows(Columns.from_frame(made).columns, np.array(of, np.int64), own)

    def _call(self, *given: Any) -> Iterable[Any]:
        results = self._function(*given)
        if isinstance(results, (dict, str)) or not isinstance(results, Iterable):
            raise SchemaError(
                f"a user-defined operator returns an iterable of payloads, got {results!r}"
            )
        return results

    def _check_result(
        self, result: Any, window: TimeWindow
    ) -> tuple[dict[str, Any], tuple[int, int]]:
        """Return the payload and the lifetime of one result."""
        lifetime = window.start, window.end
        if self.finished and isinstance(result, IntervalEvent):
            lifetime = result.start, result.end
            if not window.start <= result.start < result.end <= window.end:
                raise SchemaError(
                    f"{result!r} does not lie in its window [{window.start}, {window.end})"
                )
            result = result.payload
        if (record := find_record(type(result))) is not None:
            result = record.read(result)
        if not isinstance(result, dict) or set(result) != set(self._schema):
            raise SchemaError(
                f"a user-defined operator returned {result!r}; its schema= has the fields "
                f"{list(self._schema)}"
            )
        return result, lifetime
