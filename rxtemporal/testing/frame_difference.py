"""Difference of two frames of rows with lifetimes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.spans import UNITS, span
from rxtemporal.operators.causes.equal_rows import code_rows, match_codes

START, END = "start_time", "end_time"
# lengths of spans that people choose
_NICE = [
    size * unit for unit, sizes in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (UNITS["ms"], (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (UNITS["s"], (1, 2, 5, 10, 15, 30)),
        (UNITS["m"], (1, 2, 5, 10, 15, 30)),
        (UNITS["h"], (1, 2, 3, 6, 12)),
        (UNITS["d"], (1, 2, 7, 14, 30, 90, 365, 3_650, 36_500)),
    ) for size in sizes
]  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The rows of two frames: those of both, and those of one alone, in order of time."""

    both: pl.DataFrame
    only_old: pl.DataFrame
    only_new: pl.DataFrame
    fields_only_old: tuple[str, ...]
    fields_only_new: tuple[str, ...]

    def count_by_time(self, every: Any, most: int) -> pl.DataFrame:
        """Return the numbers of rows by span of time of their starts."""
        frames = {"both": self.both, "only old": self.only_old, "only new": self.only_new}
        starts = pl.concat(
            [frame.select(START, pl.lit(name).alias("rows")) for name, frame in frames.items()],
            how="vertical_relaxed",
        )
        length = _choose_span(starts.get_column(START), most) if every is None else span(
            every, "every", least=1
        )  # fmt: skip
        is_time = starts.schema[START].is_temporal()
        start = pl.col(START)
        begin = start.dt.truncate(f"{length}us") if is_time else start // length * length
        counts = [(pl.col("rows") == name).sum().alias(name) for name in frames]
        return starts.group_by(begin.alias("time")).agg(counts).sort("time")


def _choose_span(starts: pl.Series, most: int) -> int:
    if not len(starts):
        return 1
    ticks = starts.to_physical()
    extent = int(ticks.max()) - int(ticks.min())  # type: ignore[arg-type]
    return next((each for each in _NICE if extent // each < most), _NICE[-1])


def compare_frames(old: pl.DataFrame, new: pl.DataFrame, tolerance: float) -> Difference:
    """Compare two frames by their times and the fields that both have with types that fit."""
    shared = [name for name in old.columns if name in new.columns and _fit(old, new, name)]
    left, right = _match(old.select(shared), new.select(shared), tolerance)
    rows = [_others(old.height, left), _others(new.height, right)]
    return Difference(
        old[np.sort(left)],
        old[rows[0]],
        new[rows[1]],
        tuple(name for name in old.columns if name not in shared),
        tuple(name for name in new.columns if name not in shared),
    )


def _fit(old: pl.DataFrame, new: pl.DataFrame, name: str) -> bool:
    """Return True if the values of a field can be compared."""
    one, other = old.schema[name], new.schema[name]
    return one == other or (one.is_numeric() and other.is_numeric()) or pl.Null in (one, other)


def _others(height: int, rows: Int64s) -> Int64s:
    return np.setdiff1d(np.arange(height), rows)


def _match(old: pl.DataFrame, new: pl.DataFrame, tolerance: float) -> tuple[Int64s, Int64s]:
    """Return pairs of equal rows, then pairs of rows whose floats are close."""
    left, right = match_codes(*code_rows(old, new))
    floats = [
        name for name in old.columns if old.schema[name].is_float() or new.schema[name].is_float()
    ]
    if not floats or not tolerance:
        return left, right
    rest = _others(old.height, left), _others(new.height, right)
    near = _match_near(old[rest[0]], new[rest[1]], floats, tolerance)
    return np.append(left, rest[0][near[0]]), np.append(right, rest[1][near[1]])


def _match_near(
    old: pl.DataFrame, new: pl.DataFrame, floats: list[str], tolerance: float
) -> tuple[Int64s, Int64s]:
    """Return pairs of rows that are equal but for floats, which are within the tolerance.

    Each old row, in order of the float that has most values, takes the first new row that is free
    and close to it in all floats.
    """
    exact = [_mark_special(frame, floats) for frame in (old, new)]
    codes = code_rows(*exact)
    values = [
        frame.select(pl.col(floats).cast(pl.Float64).fill_null(0.0).replace(_SPECIAL, 0.0))
        for frame in (old, new)
    ]
    floats = sorted(floats, key=lambda name: -values[0].get_column(name).n_unique())
    rows = [frame.select(floats).rows() for frame in values]
    waiting = _group(codes[1], rows[1])
    left, right = [], []
    for code, members in _group(codes[0], rows[0]).items():
        for one, other in _pair_close(members, waiting.get(code, []), tolerance):
            left.append(one)
            right.append(other)
    return np.array(left, np.int64), np.array(right, np.int64)


# the values of a float that equal nothing but themselves; null is another
_SPECIAL = [float("nan"), float("inf"), float("-inf")]


def _mark_special(frame: pl.DataFrame, floats: list[str]) -> pl.DataFrame:
    """Return the rows with floats that are null, NaN or infinite as they are, and others as 0."""
    value = pl.col(floats).cast(pl.Float64)
    return frame.with_columns(pl.when(value.is_finite()).then(0.0).otherwise(value).name.keep())


_Member = tuple[tuple[float, ...], int]


def _group(codes: Int64s, rows: Sequence[tuple[float, ...]]) -> dict[int, list[_Member]]:
    """Return the values and numbers of rows by their codes, in order of the values."""
    groups: dict[int, list[_Member]] = {}
    for number, (code, values) in enumerate(zip(codes.tolist(), rows, strict=True)):
        groups.setdefault(code, []).append((values, number))
    for members in groups.values():
        members.sort()
    return groups


def _pair_close(
    old: list[_Member], new: list[_Member], tolerance: float
) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the rows of each pair."""
    free, first = new, 0
    for values, number in old:
        # what lies below this row lies below all that follow
        while first < len(free) and free[first][0][0] < values[0]:
            if _is_close(free[first][0][:1], values[:1], tolerance):
                break
            first += 1
        for place in range(first, len(free)):
            other, partner = free[place]
            if other[0] > values[0] and not _is_close(other[:1], values[:1], tolerance):
                break
            if _is_close(other, values, tolerance):
                del free[place]
                yield number, partner
                break


def _is_close(one: tuple[float, ...], other: tuple[float, ...], tolerance: float) -> bool:
    return all(
        abs(a - b) <= tolerance * max(abs(a), abs(b)) for a, b in zip(one, other, strict=True)
    )
