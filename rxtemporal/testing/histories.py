"""Canonical histories: the rows of a stream once end edges are applied."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import polars as pl

from rxtemporal.core.batch import END, EventBatch
from rxtemporal.core.events import Cti, EdgeEvent, RowEvent, ends_row
from rxtemporal.core.schema import to_fields
from rxtemporal.core.ticks import MAX_TIME, TimeLike, time_ticks
from rxtemporal.errors import ArgumentError, EventError
from rxtemporal.ingress.open_rows import OpenRows, make_hashable
from rxtemporal.query.streamable import Streamable
from rxtemporal.testing.tables import format_lifetime, format_payload, format_times, table
from rxtemporal.text.plain_text import align


class Row(NamedTuple):
    """Row of a canonical history: alive during ``[start, end)``, in ticks."""

    start: int
    end: int
    payload: dict[str, Any]


def history(x: Any) -> list[Row]:
    """Return the canonical history of a stream, in order of start, end and payload.

    ``x`` is a ``Streamable`` (which is run to its end), a list of events, of event batches or of
    (start, end, payload), a batch, a frame with start_time and end_time (null: never ends), or the
    text of a table. End edges are applied; of identical open rows the oldest is closed first. A
    row that never ends has ``end == MAX_TIME``.

    >>> history("start 3 x=1\\nend 3..8 x=1\\n0..10 x=2")
    [Row(start=0, end=10, payload={'x': 2}), Row(start=3, end=8, payload={'x': 1})]
    """
    return sort_rows(_read_rows(x))


def _read_rows(x: Any) -> list[Row]:
    if isinstance(x, str):
        x = table(x)
    elif isinstance(x, Streamable):
        x = x.to_batches()
    elif isinstance(x, pl.DataFrame):
        x = EventBatch.from_polars(x, end=END if END in x.columns else None)
    items = [x] if isinstance(x, EventBatch) else list(x)
    for kinds, read in _READERS:
        if all(isinstance(item, kinds) for item in items):
            return read(items)
    raise ArgumentError(
        "a history is made of a Streamable, events, batches, rows (start, end, payload), a frame "
        f"or a table, got a list of {sorted({type(item).__name__ for item in items})}"
    )


def _read_events(events: Iterable[Any]) -> list[Row]:
    rows: list[Row] = []
    open_rows: OpenRows[int] = OpenRows()
    for event in events:
        if isinstance(event, Cti):
            continue
        if ends_row(event):
            row = open_rows.close(event.start, event.payload)
            if row is None:
                raise EventError(f"{event!r} ends a row that is not open")
            rows[row] = rows[row]._replace(end=event.end)
            continue
        if isinstance(event, EdgeEvent):
            open_rows.open(event.start, event.payload, len(rows))
        rows.append(Row(event.start, event.end, dict(to_fields(event.payload))))
    return rows


def _read_batches(batches: Iterable[EventBatch]) -> list[Row]:
    rows: list[Row] = []
    open_rows: dict[int, int] = {}
    for batch in batches:
        payloads = batch.payload.to_dicts() if batch.payload.width else [{}] * len(batch)
        columns = (column.tolist() for column in (batch.start, batch.end, batch.edge))
        for start, end, edge, payload in zip(*columns, payloads, strict=True):
            if not edge or end == MAX_TIME:
                if edge and open_rows.setdefault(edge, len(rows)) < len(rows):
                    raise EventError(f"a start edge at {start} has the id {edge} of an open row")
                rows.append(Row(start, end, payload))
                continue
            row = open_rows.pop(edge, None)
            if row is None or not _is_end_of(rows[row], start, payload):
                raise EventError(
                    f"an end edge closes no open row: id {edge}, [{start}, {end}) {payload}"
                )
            rows[row] = rows[row]._replace(end=end)
    return rows


def _is_end_of(row: Row, start: int, payload: dict[str, Any]) -> bool:
    return row.start == start and make_hashable(row.payload) == make_hashable(payload)


def _read_tuples(rows: Iterable[Any]) -> list[Row]:
    return [
        Row(time_ticks(start), MAX_TIME if end is None else time_ticks(end), to_fields(payload))
        for start, end, payload in rows
    ]


_READERS: tuple[tuple[Any, Callable[[Iterable[Any]], list[Row]]], ...] = (
    ((RowEvent, Cti), _read_events),
    (EventBatch, _read_batches),
    (tuple, _read_tuples),
)


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Return rows in order of start, end and payload."""
    return sorted(rows, key=_sort_key)


def _sort_key(row: Row) -> tuple[Any, ...]:
    return (row.start, row.end, [(name, _rank(value)) for name, value in row.payload.items()])


def _rank(value: Any) -> tuple[int, Any]:
    """Return a sort key for a value of any type: null, numbers, NaN, text, anything else."""
    if value is None:
        return (0, 0)
    if isinstance(value, (int, float)):
        return (2, 0) if value != value else (1, value)
    return (3, value) if isinstance(value, str) else (4, (type(value).__name__, repr(value)))


def show(x: Any) -> str:
    """Return the canonical history of ``x`` as a table; ``x`` is as in ``history``.

    Times are ticks, or ISO 8601 if some are beyond the first day of 1970.

    >>> print(show("start 3 x=1\\nend 3..8 x=1\\n0.. x=12 k=a"))
    0..   x=12  k=a
    3..8  x=1
    """
    return "\n".join(format_rows(history(x)))


def format_rows(rows: Sequence[Row]) -> list[str]:
    """Return rows as the lines of a table."""
    times = iter(format_times([t for row in rows for t in row[:2]]))
    lifetimes = [format_lifetime(next(times), next(times)) for _ in rows]
    return align(
        [[when, *format_payload(row.payload)] for when, row in zip(lifetimes, rows, strict=True)]
    )


# largest difference between equal floats, relative to the larger one
TOLERANCE = 1e-9
# share of the tolerance that counts relative to the field's largest value: sums may cancel out
_CANCELLED = 1e-3
# number of rows shown of a difference
_MOST_SHOWN = 12


def _cut_off(rows: Iterable[Row], time: int) -> list[Row]:
    """Return the part of a history before ``time``."""
    return [row._replace(end=min(row.end, time)) for row in rows if row.start < time]


def assert_same_history(
    a: Any, b: Any, up_to: TimeLike | None = None, *, tolerance: float = TOLERANCE
) -> None:
    """Raise an ``AssertionError`` that lists the rows in which two histories differ, if they do.

    ``a`` and ``b`` are as in ``history``; order and batches do not matter. With ``up_to`` only rows
    with ``start < up_to`` count, up to ``min(end, up_to)``. NaN equals NaN; -0.0 equals 0.0. Two
    floats are equal if they differ by at most ``tolerance`` times the larger one, or by a
    thousandth of ``tolerance`` times the largest value of their field (a sum that cancels out is
    not exactly 0). With ``tolerance=0`` they have to be equal.

    >>> assert_same_history("start 3 x=1\\nend 3..8 x=1", [(3, 8, {"x": 1})])
    >>> assert_same_history("0..10 x=1\\n4..6 x=2", "0..10 x=1\\n4..7 x=2", up_to=6)
    >>> assert_same_history("0..10 x=1\\n4..6 x=2", "0..10 x=1\\n4..7 x=2")
    Traceback (most recent call last):
    AssertionError: the histories differ; of 2 and 2 rows 1 is in both
    only in the first:
      4..6  x=2
    only in the second:
      4..7  x=2
    """
    __tracebackhide__ = True  # pytest shows the line of the test, not this one
    time = MAX_TIME if up_to is None else time_ticks(up_to)
    differs = describe_difference(history(a), history(b), time, tolerance)
    if differs:
        until = "" if up_to is None else f" up to {format_times([time])[0]}"
        raise AssertionError(f"the histories differ{until}; {differs}")


def describe_difference(
    first: Iterable[Row],
    second: Iterable[Row],
    time: int,
    tolerance: float,
    names: tuple[str, str] = ("the first", "the second"),
) -> str:
    """Return the rows in which two histories differ up to a time, as text; empty if none do."""
    rows = _cut_off(first, time), _cut_off(second, time)
    only = _remove_close(*_remove_equal(*rows), _find_scales(*rows), tolerance)
    if not any(only):
        return ""
    both = len(rows[0]) - len(only[0])
    text = [
        f"of {len(rows[0])} and {len(rows[1])} rows {both} {'is' if both == 1 else 'are'} in both"
    ]
    for name, left in zip(names, only, strict=True):
        if left:
            text += [f"only in {name}:", *_format_some(left)]
    return "\n".join(text)


def _format_some(rows: list[Row]) -> list[str]:
    lines = [f"  {line}" for line in format_rows(sort_rows(rows)[:_MOST_SHOWN])]
    if len(rows) > _MOST_SHOWN:
        lines.append(f"  … and {len(rows) - _MOST_SHOWN:,} more")
    return lines


def _remove_equal(first: list[Row], second: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows of each list that have no equal row in the other."""
    waiting: dict[Hashable, list[Row]] = {}
    for row in second:
        waiting.setdefault(make_hashable(row), []).append(row)
    left = []
    for row in first:
        equal = waiting.get(make_hashable(row))
        if equal:
            equal.pop()
        else:
            left.append(row)
    return left, [row for rows in waiting.values() for row in rows]


def _find_scales(*histories: list[Row]) -> dict[str, float]:
    """Return the largest absolute value of each float field."""
    scales: dict[str, float] = {}
    for row in (row for rows in histories for row in rows):
        for name, value in row.payload.items():
            if isinstance(value, float) and math.isfinite(value):
                scales[name] = max(scales.get(name, 0.0), abs(value))
    return scales


def _remove_close(
    first: list[Row], second: list[Row], scales: dict[str, float], tolerance: float
) -> tuple[list[Row], list[Row]]:
    """Return the rows of each list that have no row in the other within the tolerance."""
    waiting: dict[Hashable, list[Row]] = {}
    for row in second:
        waiting.setdefault(_without_floats(row), []).append(row)
    left = []
    for row in first:
        others = waiting.get(_without_floats(row), [])
        found = next(
            (i for i, o in enumerate(others) if _is_close(row, o, scales, tolerance)), None
        )
        if found is None:
            left.append(row)
        else:
            others.pop(found)
    return left, [row for rows in waiting.values() for row in rows]


def _without_floats(row: Row) -> Hashable:
    payload = {n: float if isinstance(v, float) else v for n, v in row.payload.items()}
    return make_hashable((row.start, row.end, payload))


def _is_close(first: Row, second: Row, scales: dict[str, float], tolerance: float) -> bool:
    for name, a in first.payload.items():
        b = second.payload[name]
        if not isinstance(a, float) or a == b or (a != a and b != b):
            continue
        floor = tolerance * _CANCELLED * scales.get(name, 0.0)
        if not math.isclose(a, b, rel_tol=tolerance, abs_tol=floor):
            return False
    return True
