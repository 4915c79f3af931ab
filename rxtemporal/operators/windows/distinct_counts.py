"""Numbers of distinct values, updated as rows begin and end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.engine.holdings import BY_KEY, OWNED, Moves, Selection
from rxtemporal.engine.rows import Column
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.windows.aggregates import Changes, Own, Samples, grow_sums
from rxtemporal.operators.windows.combinations import hide_rows
from rxtemporal.operators.windows.field_values import (
    read_floats,
    read_integers,
    read_objects,
    read_valid,
)
from rxtemporal.operators.windows.kernels.distinct import (
    KEY,
    LATEST,
    NEVER,
    NOW,
    USED,
    count_all,
    count_distinct,
    fill,
    list_used,
)

# more than the windows that hold a row by a single change
SPANS = 1 << 10
# room for so many values at least
SMALLEST = 32


def are_counted_as_numbers(dtype: pl.DataType) -> bool:
    """Return True if the distinct values of a type are counted as numbers, not as objects."""
    return dtype not in (pl.String, pl.Binary, pl.Decimal)


class DistinctNumbers(Stateful):
    """Numbers of distinct numbers, bools or times: NaN equals NaN, and -0.0 equals 0.0.

    Several counts of the same values may differ in the rows that count. Holds an entry for each
    value of a key that counts for any of them.
    """

    once, objects, chooses = True, False, False
    dtypes = (np.int64, np.uint8)
    held = MappingProxyType(dict.fromkeys(("entries", "rows_held", "_now"), OWNED))

    def __init__(self, counts: int, *, is_float: bool) -> None:
        self._is_float = is_float
        self._counts = counts
        # the number of the next window
        self._now = 0
        self._entries = np.empty((0, LATEST + counts), np.int64)
        self._used = 0
        # numbers of rows, by entry; not used as long as no row has an end of its own
        self._held = np.empty((0, counts), np.int64)
        self._holds = False
        # not saved: made from the entries, and None if these are others now
        self._index: Int64s | None = None
        # the numbers so far
        self._ring = np.zeros((1, 0, counts), np.int64)

    @property
    def entries(self) -> Int64s:
        """The values of keys, and the latest windows of each."""
        return self._entries[: self._used]

    @entries.setter
    def entries(self, entries: Int64s) -> None:
        self._entries, self._used, self._index = entries, len(entries), None

    @property
    def rows_held(self) -> Int64s:
        """The number of rows with an end of their own, by value; no elements if all are 0."""
        return self._held[: self._used]

    @rows_held.setter
    def rows_held(self, held: Int64s) -> None:
        self._held, self._holds = held, len(held) > 0

    def columns(
        self, field: core.Column, wheres: Sequence[Bools | None] = (None,)
    ) -> list[Column | bool]:
        """Return the values as int64, those of floats by their bits, and for which counts they are.

        ``wheres``: for each count the mask of the rows that count; None: all.
        """
        bits = _pack(read_valid(field), wheres, len(field))
        if not self._is_float:
            counted = hide_rows(field, bits != 0)  # only in these the values need to fit
            return [np.asarray(read_integers(counted), np.int64), bits]
        values = read_floats(field) + 0.0  # -0.0 as 0.0
        values[np.isnan(values)] = np.nan
        return [values.view(np.int64), bits]

    def keep_selected(self, selection: Selection) -> None:
        """Drop the values of all keys that are not selected."""
        self._keep_used(self._now, SPANS)
        key = selection.kept["key"].renumber(self._entries[:, KEY])
        self._entries[:, KEY] = key
        self._keep(np.flatnonzero(key >= 0))

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the values of other keys."""
        for each in self, other:
            each._keep_used(each._now, SPANS)
        other._entries[:, KEY] = moves.move("key", other._entries[:, KEY])
        latest = other._entries[:, LATEST:]
        latest[latest > NEVER] += self._now - other._now
        other._keep(np.flatnonzero(other._entries[:, KEY] >= 0))
        if self._holds or other._holds:
            for each in self, other:
                each._hold_rows()
            self._held = np.concatenate([self._held, other._held])
        self.entries = np.concatenate([self._entries, other._entries])

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> list[core.Column]:
        """Return the numbers for each count, Int64."""
        if self._index is None or len(self._ring) != 1 + changes.span:
            self._count_anew(changes.span, samples.keys)
        if (changes.what & 4 == 0).any():
            self._hold_rows()
        self._ring = grow_sums(self._ring, changes.span, samples.keys)
        out = np.empty((self._counts, len(samples.at)), np.int64)
        progress = np.array([0, 0, self._used, self._now])
        assert self._index is not None
        while not count_distinct(
            changes.what, changes.key, own[0], own[1], samples.at, samples.of, samples.windows,
            self._index, self._entries, self._held, self._ring, progress, out,
        ):  # fmt: skip
            self._used = int(progress[USED])
            self._keep_used(int(progress[NOW]), changes.span)
            self._make_room()
            progress[USED] = self._used
        self._used, self._now = int(progress[USED]), int(progress[NOW])
        return [*out]

    def _count_anew(self, span: int, keys: int) -> None:
        """Count the values of entries that were loaded or made anew."""
        self._make_room()
        self._ring = np.zeros((1 + span, keys, self._counts), np.int64)
        count_all(self.entries, self.rows_held, self._now, self._ring)

    def _hold_rows(self) -> None:
        """Count rows with an end of their own from now on."""
        if not self._holds:
            self._held = np.zeros((len(self._entries), self._counts), np.int64)
            self._holds = True

    def _keep_used(self, now: int, span: int) -> None:
        """Drop the values that no row has, nor may have; ``span`` at most."""
        self._keep(list_used(self.entries, self.rows_held, now, span))

    def _keep(self, numbers: Int64s) -> None:
        """Keep these entries alone."""
        self._entries = self._entries[numbers]
        self._held = self._held[numbers] if self._holds else self._held
        self._used, self._index = len(numbers), None

    def _make_room(self) -> None:
        """Make the index anew, and room for as many values again."""
        room = SMALLEST
        while room < 2 * self._used:
            room *= 2
        self._entries = _lengthen(self.entries, room)
        self._held = _lengthen(self.rows_held, room) if self._holds else self._held
        self._index = np.full(2 * room, -1)
        fill(self._index, self.entries)


def _lengthen(entries: Int64s, room: int) -> Int64s:
    """Return entries in an array of this length."""
    longer = np.empty((room, entries.shape[1]), np.int64)
    longer[: len(entries)] = entries
    return longer


def _pack(
    valid: Bools | bool, wheres: Sequence[Bools | None], height: int
) -> npt.NDArray[np.uint8]:
    """Return for each row a bit for each mask, None for one of all rows; 0 for no value."""
    bits = np.zeros(height, np.uint8)
    for number, where in enumerate(wheres):
        bit = np.uint8(1 << number)
        bits |= bit if where is None else where.view(np.uint8) * bit
    return bits if valid is True else bits * valid


class DistinctObjects(Stateful):
    """Number of distinct values of a type without a kernel: a count for each value of a key."""

    once, objects, chooses = False, True, False
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
