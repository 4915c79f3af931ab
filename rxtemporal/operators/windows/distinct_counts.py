"""Numbers of distinct values, updated as rows begin and end."""

from __future__ import annotations

from collections import Counter, defaultdict
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.batch import Int64s
from rxtemporal.engine.holdings import BY_KEY, OWNED, Moves, Selection
from rxtemporal.engine.rows import Column, grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.windows.aggregates import Changes, Own, Samples
from rxtemporal.operators.windows.field_values import (
    read_floats,
    read_integers,
    read_objects,
    read_valid,
)
from rxtemporal.operators.windows.kernels.distinct import SMALLEST, USED, count_distinct, fill

_KEY, _VALUE, _COUNT = 0, 1, 2


def make_distinct_count(dtype: pl.DataType) -> DistinctNumbers | DistinctObjects:
    """Return a new count of the distinct values of a type."""
    if dtype in (pl.String, pl.Binary, pl.Decimal):
        return DistinctObjects()
    return DistinctNumbers(is_float=dtype.is_float())


class DistinctNumbers(Stateful):
    """Number of distinct numbers, bools or times: NaN equals NaN, and -0.0 equals 0.0."""

    once, objects = False, False
    dtypes = (np.int64, np.bool_)
    held = MappingProxyType({"_slots": OWNED, "_distinct": OWNED})

    def __init__(self, *, is_float: bool) -> None:
        self._is_float = is_float
        self._slots = _make_slots(SMALLEST)
        self._distinct = np.zeros(0, np.int64)

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values as int64, those of floats by their bits, and which are not null."""
        valid = read_valid(field)
        if not self._is_float:
            return [np.asarray(read_integers(field), np.int64), valid]
        values = read_floats(field) + 0.0  # -0.0 as 0.0
        values[np.isnan(values)] = np.nan
        return [values.view(np.int64), valid]

    def keep_selected(self, selection: Selection) -> None:
        """Drop the values of all keys that are not selected."""
        kept = selection.kept["key"]
        self._distinct = kept.pick(self._distinct)
        used = self._list_used()
        used[:, _KEY] = kept.renumber(used[:, _KEY])
        self._fill(used[used[:, _KEY] >= 0])

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the values of other keys."""
        used = other._list_used()
        used[:, _KEY] = moves.move("key", used[:, _KEY])
        moved = moves.moved["key"][: len(other._distinct)]
        self._distinct = grow(self._distinct, moves.counts["key"])
        there = moved >= 0
        self._distinct[moved[there]] = other._distinct[: len(moved)][there]
        self._fill(np.concatenate([self._list_used(), used[used[:, _KEY] >= 0]]))

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> Int64s:
        """Return the numbers, Int64."""
        self._distinct = grow(self._distinct, samples.keys)
        out = np.empty(len(samples.at), np.int64)
        progress = np.array([0, 0, np.count_nonzero(self._slots[:, _COUNT] >= 0)])
        while not count_distinct(
            changes.what, changes.key, own[0], own[1], samples.at, samples.of,
            self._slots, self._distinct, progress, out,
        ):  # fmt: skip
            used = self._list_used()
            self._fill(used)
            progress[USED] = len(used)
        return out

    def _list_used(self) -> Int64s:
        """Return key, value and count of the values that rows have."""
        return self._slots[self._slots[:, _COUNT] > 0]

    def _fill(self, used: Int64s) -> None:
        """Make the table anew, with room for as many values again."""
        size = SMALLEST
        while size < 4 * len(used) + 4:
            size *= 2
        self._slots = _make_slots(size)
        fill(self._slots, *(np.ascontiguousarray(column) for column in used.T))


def _make_slots(size: int) -> Int64s:
    slots: Int64s = np.full((size, 3), -1)
    return slots


class DistinctObjects(Stateful):
    """Number of distinct values of a type without a kernel: a count for each value of a key."""

    once, objects = False, True
    dtypes = (object,)
    held = MappingProxyType({"counts": BY_KEY})

    def __init__(self) -> None:
        self._counts: defaultdict[int, Counter[Any]] = defaultdict(Counter)

    @property
    def counts(self) -> dict[int, dict[Any, int]]:
        """The number of rows that have each value, by key, to be saved."""
        return {key: dict(values) for key, values in self._counts.items()}

    @counts.setter
    def counts(self, saved: dict[int, dict[Any, int]]) -> None:
        self._counts.clear()
        self._counts.update((key, Counter(values)) for key, values in saved.items())

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values as objects, null as None."""
        return [read_objects(field)]

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> Int64s:
        """Return the numbers, Int64."""
        counts, out = self._counts, np.empty(len(samples.at), np.int64)
        rows, ends = changes.what >> 3, (changes.what & 1).tolist()
        keys, values = changes.key[rows].tolist(), own[0][rows]
        at, of, s = samples.at.tolist(), samples.of.tolist(), 0
        for i in range(len(changes) + 1):
            while s < len(at) and at[s] == i:
                out[s] = len(counts[of[s]])
                s += 1
            if i == len(changes) or (value := values[i]) is None:
                continue
            of_key = counts[keys[i]]
            of_key[value] += -1 if ends[i] else 1
            if not of_key[value]:
                del of_key[value]
        return out
