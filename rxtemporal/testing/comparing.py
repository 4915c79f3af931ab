"""How two canonical histories compare."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

from rxtemporal.core.ticks import MAX_TIME, Time, time_ticks
from rxtemporal.ingress.open_rows import identity
from rxtemporal.testing.histories import Row, history, in_order, row_lines
from rxtemporal.testing.tables import time_texts

# how far a float that comes from arithmetic may be from another, relative to the larger one
TOLERANCE = 1e-9
# and the part of it that counts relative to the largest value of the field, where sums cancel out
_CANCELLED = 1e-3
# so many rows are shown where two histories differ
_MOST_SHOWN = 12


def _known(rows: Iterable[Row], time: int) -> list[Row]:
    """Return what is known of a history when nothing before ``time`` changes any more."""
    return [row._replace(end=min(row.end, time)) for row in rows if row.start < time]


def assert_same_history(
    a: Any, b: Any, up_to: Time | None = None, *, tolerance: float = TOLERANCE
) -> None:
    """Raise an ``AssertionError`` that lists the rows in which two histories differ, if they do.

    ``a`` and ``b`` are as ``history`` takes them; order and cuts mean nothing. With ``up_to`` rows
    count with ``start < up_to``, up to ``min(end, up_to)``. NaN equals NaN, and -0.0 equals 0.0.
    Two floats are equal when they are apart by ``tolerance`` times the larger one, or by a
    thousandth of that times the largest value of their field (a sum that cancels out is not
    exactly 0); 0 asks for equality.

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
    time = MAX_TIME if up_to is None else time_ticks(up_to)
    differs = difference(history(a), history(b), time, tolerance)
    if differs:
        until = "" if up_to is None else f" up to {time_texts([time])[0]}"
        raise AssertionError(f"the histories differ{until}; {differs}")


def difference(
    first: Iterable[Row],
    second: Iterable[Row],
    time: int,
    tolerance: float,
    names: tuple[str, str] = ("the first", "the second"),
) -> str:
    """Return as text in which rows two histories differ up to a time; empty if in none."""
    rows = _known(first, time), _known(second, time)
    only = _close_removed(*_equal_removed(*rows), _scales(*rows), tolerance)
    if not any(only):
        return ""
    both = len(rows[0]) - len(only[0])
    text = [
        f"of {len(rows[0])} and {len(rows[1])} rows {both} {'is' if both == 1 else 'are'} in both"
    ]
    for name, left in zip(names, only, strict=True):
        if left:
            text += [f"only in {name}:", *_some(left)]
    return "\n".join(text)


def _some(rows: list[Row]) -> list[str]:
    lines = [f"  {line}" for line in row_lines(in_order(rows)[:_MOST_SHOWN])]
    if len(rows) > _MOST_SHOWN:
        lines.append(f"  … and {len(rows) - _MOST_SHOWN:,} more")
    return lines


def _equal_removed(first: list[Row], second: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return what is left of both when rows that are exactly equal are taken out in pairs."""
    waiting: dict[Hashable, list[Row]] = {}
    for row in second:
        waiting.setdefault(identity(row), []).append(row)
    left = []
    for row in first:
        equal = waiting.get(identity(row))
        if equal:
            equal.pop()
        else:
            left.append(row)
    return left, [row for rows in waiting.values() for row in rows]


def _scales(*histories: list[Row]) -> dict[str, float]:
    """The largest float of each field, its sign aside."""
    scales: dict[str, float] = {}
    for row in (row for rows in histories for row in rows):
        for name, value in row.payload.items():
            if isinstance(value, float) and math.isfinite(value):
                scales[name] = max(scales.get(name, 0.0), abs(value))
    return scales


def _close_removed(
    first: list[Row], second: list[Row], scales: dict[str, float], tolerance: float
) -> tuple[list[Row], list[Row]]:
    """Return what is left when rows are taken out in pairs whose floats are within tolerance."""
    waiting: dict[Hashable, list[Row]] = {}
    for row in second:
        waiting.setdefault(_without_floats(row), []).append(row)
    left = []
    for row in first:
        others = waiting.get(_without_floats(row), [])
        found = next((i for i, o in enumerate(others) if _close(row, o, scales, tolerance)), None)
        if found is None:
            left.append(row)
        else:
            others.pop(found)
    return left, [row for rows in waiting.values() for row in rows]


def _without_floats(row: Row) -> Hashable:
    payload = {n: float if isinstance(v, float) else v for n, v in row.payload.items()}
    return identity((row.start, row.end, payload))


def _close(first: Row, second: Row, scales: dict[str, float], tolerance: float) -> bool:
    for name, a in first.payload.items():
        b = second.payload[name]
        if not isinstance(a, float) or a == b or (a != a and b != b):
            continue
        floor = tolerance * _CANCELLED * scales.get(name, 0.0)
        if not math.isclose(a, b, rel_tol=tolerance, abs_tol=floor):
            return False
    return True
