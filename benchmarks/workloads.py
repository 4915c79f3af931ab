"""Workloads of the benchmarks: their data, and the answers, computed by plain numpy.

======== =====================================================================================
W2, W3   points of 1,000 keys, in order, on average one a millisecond; count and mean by key
W4       the same points, and 100 intervals of validity for each key, with gaps between them
W5       points at a fixed pace, of which half satisfy the predicate
W6       intervals of 100 keys, in order of start, about 50 of each key alive at any time
======== =====================================================================================

Times are ticks, keys Int32, the seed is fixed. Point times are even and validity begins and ends at
odd ticks, so that no answer depends on whether an end belongs to an interval.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl

SEED = 7
# ticks between two points, on average
PACE = 1_000
SECOND = 1_000_000
KEYS = 1_000
OVERLAP = 5
THRESHOLD = 0.5

Columns = Mapping[str, Any]


class Answer:
    """Expected answer: the number of rows, and each column's sum with two sets of weights.

    One set is all ones; the other depends on a row's key and start, so that a value with a wrong
    key or time is found. A result need not have all columns.
    """

    def __init__(self, columns: Columns) -> None:
        self._weighing = [name for name in ("key", "start") if name in columns]
        self._rows = len(columns["key"])
        self._sums = {name: self._summed(columns, name) for name in columns}

    def _summed(self, columns: Columns, name: str) -> tuple[float, float]:
        weight = np.zeros(len(columns["key"]), np.int64)
        for factor, each in zip((7_919, 104_729), self._weighing, strict=False):
            weight += factor * np.asarray(columns[each], np.int64)
        values = np.asarray(columns[name]).astype(np.float64)
        return float(values.sum()), float(values @ (weight % 1_009))

    def check(self, columns: Columns, *needed: str) -> None:
        """Raise unless these columns agree and include the ``needed`` ones."""
        rows = len(columns["key"])
        assert rows == self._rows, f"{rows:,} rows, expected {self._rows:,}"
        shared = self._sums.keys() & columns.keys()
        assert shared >= {"key", *needed}, f"the result has only {sorted(columns)}"
        for name in sorted(shared):
            for got, wanted in zip(self._summed(columns, name), self._sums[name], strict=True):
                near = abs(got - wanted) <= 1e-9 * max(1.0, abs(wanted))
                assert near, f"{name} adds up to {got!r}, expected {wanted!r}"


@dataclasses.dataclass(frozen=True, slots=True)
class Workload:
    """Input and expected answer; a result needs the fields ``gives``."""

    name: str
    rows: pl.DataFrame
    answer: Answer
    keys: int
    gives: tuple[str, ...]
    window: int = SECOND
    validity: pl.DataFrame | None = None

    @property
    def rows_in(self) -> int:
        """The number of rows of all inputs."""
        return self.rows.height + (0 if self.validity is None else self.validity.height)

    def check(self, columns: Columns) -> None:
        """Raise unless this is the answer."""
        self.answer.check(columns, *self.gives)


# Data -------------------------------------------------------------------------------------------


def points(count: int, keys: int = KEYS, seed: int = SEED) -> pl.DataFrame:
    """Return points at distinct, even ticks, in order."""
    rng = np.random.default_rng(seed)
    times = np.unique(rng.integers(0, count * PACE // 2, count + count // 400 + 100)) * 2
    start = np.sort(rng.permutation(times)[:count])
    assert len(start) == count
    return _frame(start, rng.integers(0, keys, count), rng.random(count) * 100)


def validity(
    keys: int, each: int, span: int, *, from_the_start: bool = False, seed: int = SEED + 1
) -> pl.DataFrame:
    """Return ``each`` intervals for every key, in order of start; a fifth of the time is gaps."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.random((keys, 2 * each)), axis=1)[:, ::2]
    if from_the_start:
        places[:, 0] = 0.0
    start = (places * span).astype(np.int64) | 1
    following = np.concatenate([start[:, 1:], np.full((keys, 1), span + 1)], axis=1)
    end = start + np.maximum((following - start) * 4 // 10 * 2, 2)
    end = np.minimum(end, following)
    order = np.argsort(start, axis=None, kind="stable")
    frame = pl.DataFrame(
        {
            "start": start.ravel()[order],
            "end": end.ravel()[order],
            "key": np.repeat(np.arange(keys, dtype=np.int32), each)[order],
            "attr": rng.random(keys * each)[order] * 10,
        }
    )
    return frame.filter(pl.col("start") < pl.col("end"))


def intervals(count: int, keys: int, alive: int, seed: int = SEED) -> pl.DataFrame:
    """Return intervals in order of start, of such lengths that about ``alive`` are alive."""
    rng = np.random.default_rng(seed)
    span = 2 * PACE * count
    start = np.sort(rng.integers(0, span, count))
    length = np.maximum(rng.exponential(2 * PACE * alive, count).astype(np.int64), 1)
    frame = _frame(start, rng.integers(0, keys, count), rng.random(count))
    return frame.insert_column(1, pl.Series("end", start + length))


def _frame(start: Any, key: Any, value: Any) -> pl.DataFrame:
    return pl.DataFrame({"start": start, "key": key.astype(np.int32), "value": value})


# Workloads --------------------------------------------------------------------------------------


def w2(events: int = 2_000_000, keys: int = KEYS) -> Workload:
    """Return W2, tumbling windows: count and mean by key.

    A window holds as many points as there are keys, so there are 0.63 results per event for any
    number of keys. With the 1,000 keys of W2 a window is one second.
    """
    frame, window = points(events, keys), keys * PACE
    pane, key, count, total = _panes(frame, keys, window)
    answer = Answer({"start": pane * window, "key": key, "n": count, "avg": total / count})
    return Workload("w2", frame, answer, keys, ("start", "n", "avg"), window)


def w3(events: int = 2_000_000, keys: int = KEYS) -> Workload:
    """Return W3, hopping windows, five at a time: mean by key.

    A window begins after as many points as there are keys, so there is about one result per event
    for any number of keys. With the 1,000 keys of W3 a window begins every second.
    """
    frame, period = points(events, keys), keys * PACE
    pane, key, count, total = _panes(frame, keys, period)
    shape = (int(pane.max()) + 2 * OVERLAP - 1, keys)
    counts, totals = np.zeros(shape, np.int64), np.zeros(shape)
    # the window that starts at pane p holds the panes p to p + 4, and the first starts at pane -4
    for before in range(OVERLAP):
        counts[pane + OVERLAP - 1 - before, key] += count
        totals[pane + OVERLAP - 1 - before, key] += total
    window, at = np.nonzero(counts)
    mean = totals[window, at] / counts[window, at]
    answer = Answer({"start": (window - OVERLAP + 1) * period, "key": at, "avg": mean})
    return Workload("w3", frame, answer, keys, ("start", "avg"), period)


def w4(events: int = 2_000_000, keys: int = KEYS, *, from_the_start: bool = False) -> Workload:
    """Return W4, the temporal join of points with intervals, one interval for 20 points.

    At any time four in five keys have an interval, so more keys have more intervals alive.
    """
    frame = points(events, keys)
    each = max(1, events // 20 // keys)
    valid = validity(keys, each, events * PACE, from_the_start=from_the_start)
    row, match = _matches(frame, valid)
    answer = Answer(
        {
            "start": frame["start"].to_numpy()[row],
            "key": frame["key"].to_numpy()[row],
            "value": frame["value"].to_numpy()[row],
            "attr": valid["attr"].to_numpy()[match],
        }
    )
    return Workload("w4", frame, answer, keys, ("start", "value", "attr"), validity=valid)


def w5(events: int = 5_000_000) -> Workload:
    """Return W5, a predicate that half of the rows satisfy, and a projection."""
    rng = np.random.default_rng(SEED)
    start = np.arange(events, dtype=np.int64) * 400
    frame = _frame(start, rng.integers(0, KEYS, events), rng.random(events))
    value = frame["value"].to_numpy()
    kept = value > THRESHOLD
    answer = Answer({"key": frame["key"].to_numpy()[kept], "value": value[kept] * 2 + 1})
    return Workload("w5", frame, answer, KEYS, ("value",))


def w6(events: int = 500_000, keys: int = 100, alive: int = 5_000) -> Workload:
    """Return W6, snapshot windows: count and sum by key, twice as many results as intervals."""
    frame = intervals(events, keys, alive)
    start, end, key, value = (frame[name].to_numpy() for name in ("start", "end", "key", "value"))
    time, both = np.concatenate([start, end]), np.concatenate([key, key])
    sign = np.repeat([1, -1], len(start))
    order = np.lexsort((time, both))
    time, both, sign = time[order], both[order], sign[order]
    change = sign * np.concatenate([value, value])[order]
    first = np.flatnonzero(np.diff(both, prepend=-1) | np.diff(time, prepend=-1))
    # the changes of each key add up to 0, so the running sums may continue from key to key
    alive_then = np.cumsum(np.add.reduceat(sign, first))
    total = np.cumsum(np.add.reduceat(change, first))
    (at,) = np.nonzero(alive_then)
    columns = {"start": time[first][at], "end": time[first][at + 1], "key": both[first][at]}
    answer = Answer({**columns, "n": alive_then[at], "s": total[at]})
    return Workload("w6", frame, answer, keys, ("start", "n", "s"))


def _panes(frame: pl.DataFrame, keys: int, length: int) -> tuple[Any, Any, Any, Any]:
    """Return pane, key, count and sum of every pane and key that has points."""
    cell = frame["start"].to_numpy() // length * keys + frame["key"].to_numpy()
    count = np.bincount(cell)
    total = np.bincount(cell, weights=frame["value"].to_numpy())
    (full,) = np.nonzero(count)
    return full // keys, full % keys, count[full], total[full]


def _matches(frame: pl.DataFrame, valid: pl.DataFrame) -> tuple[Any, Any]:
    """Return the rows of points and of intervals that match; a key has one interval at a time."""
    start, end, key = (valid[name].to_numpy() for name in ("start", "end", "key"))
    times, keys = frame["start"].to_numpy(), frame["key"].to_numpy()
    width = int(max(times[-1], end.max())) + 1
    order = np.lexsort((start, key))
    place = key[order].astype(np.int64) * width + start[order]
    last = order[np.searchsorted(place, keys.astype(np.int64) * width + times, "right") - 1]
    # if a key has none before, the search finds that of another key, or the last of all
    alive = (key[last] == keys) & (start[last] <= times) & (times < end[last])
    (row,) = np.nonzero(alive)
    return row, last[row]


WORKLOADS: dict[str, Callable[..., Workload]] = {"w2": w2, "w3": w3, "w4": w4, "w5": w5, "w6": w6}
