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
from rxtemporal.engine.rows import Column
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.windows.aggregates import Changes, Own, Samples, grow_sums
from rxtemporal.operators.windows.field_values import (
    read_floats,
    read_integers,
    read_objects,
    read_valid,
)
from rxtemporal.operators.windows.kernels.distinct import (
    COUNT,
    KEY,
    LATEST,
    NEVER,
    NOW,
    SMALLEST,
    USED,
    count_all,
    count_distinct,
    fill,
)

# more than the windows that hold a row by a single change
SPANS = 1 << 10


def make_distinct_count(dtype: pl.DataType) -> DistinctNumbers | DistinctObjects:
    """Return a new count of the distinct values of a type."""
    if dtype in (pl.String, pl.Binary, pl.Decimal):
        return DistinctObjects()
    return DistinctNumbers(is_float=dtype.is_float())


class DistinctNumbers(Stateful):
    """Number of distinct numbers, bools or times: NaN equals NaN, and -0.0 equals 0.0."""

    once, objects = True, False
    dtypes = (np.int64, np.bool_)
    held = MappingProxyType({"_slots": OWNED, "_now": OWNED})

    def __init__(self, *, is_float: bool) -> None:
        self._is_float = is_float
        self._slots = _make_slots(SMALLEST)
        # the number of the next window
        self._now = 0
        # not held: the numbers so far, and the table for which they hold
        self._ring = np.zeros((1, 0), np.int64)
        self._counted: Int64s | None = None
        self._used = 0

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
        used = self._list_used()
        used[:, KEY] = selection.kept["key"].renumber(used[:, KEY])
        self._fill(used[used[:, KEY] >= 0])

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the values of other keys."""
        used = other._list_used()
        used[:, KEY] = moves.move("key", used[:, KEY])
        there = used[:, LATEST] > NEVER
        used[there, LATEST] += self._now - other._now
        self._fill(np.concatenate([self._list_used(), used[used[:, KEY] >= 0]]))

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> Int64s:
        """Return the numbers, Int64."""
        if self._slots is not self._counted or len(self._ring) != 1 + changes.span:
            self._count_anew(changes.span, samples.keys)
        self._ring = grow_sums(self._ring, changes.span, samples.keys)
        out = np.empty(len(samples.at), np.int64)
        progress = np.array([0, 0, self._used, self._now])
        while not count_distinct(
            changes.what, changes.key, own[0], own[1], samples.at, samples.of, samples.windows,
            self._slots, self._ring, progress, out,
        ):  # fmt: skip
            used = self._list_used(int(progress[NOW]), changes.span)
            self._fill(used)
            self._counted = self._slots  # the numbers are as before
            progress[USED] = len(used)
        self._used, self._now = int(progress[USED]), int(progress[NOW])
        return out

    def _count_anew(self, span: int, keys: int) -> None:
        """Count the values of a table that was loaded or made anew."""
        self._ring = np.zeros((1 + span, keys), np.int64)
        self._used = count_all(self._slots, self._now, self._ring)
        self._counted = self._slots

    def _list_used(self, now: int | None = None, span: int = SPANS) -> Int64s:
        """Return the slots of the values that rows have, or may have; ``span`` at most."""
        count, latest = self._slots[:, COUNT], self._slots[:, LATEST]
        stays = latest > (self._now if now is None else now) - span
        used: Int64s = self._slots[(count > 0) | ((count == 0) & stays)]
        return used

    def _fill(self, used: Int64s) -> None:
        """Make the table anew, with room for as many values again."""
        size = SMALLEST
        while size < 4 * len(used) + 4:
            size *= 2
        self._slots = _make_slots(size)
        fill(self._slots, np.ascontiguousarray(used))


def _make_slots(size: int) -> Int64s:
    slots: Int64s = np.full((size, 4), -1)
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
