"""Least and greatest values of types other than numbers: strings, bytes, decimals."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from types import MappingProxyType
from typing import Any

import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.columns import SeriesColumn
from rxtemporal.engine.holdings import BY_KEY
from rxtemporal.engine.rows import Column
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.windows.aggregates import Changes, Own, Samples
from rxtemporal.operators.windows.field_values import read_objects


class _ReverseOrder:
    """Value in reverse order, since ``heapq`` finds the least."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _ReverseOrder) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ReverseOrder) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]


def _unwrap(value: Any) -> Any:
    return value.value if isinstance(value, _ReverseOrder) else value


class ObjectExtreme(Stateful):
    """Least or greatest value of any ordered type; null if there are no values.

    Rows that ``span`` windows hold are as in ``Extreme``: for each key the best value of those with
    the same first window. For others each key has two heaps, of the values added and of those
    removed; equal tops cancel out, and the heaps are rebuilt when more values are removed than
    alive. Python objects cost a fraction of a microsecond for each row, in heaps some.
    """

    once, objects, chooses = True, True, False
    dtypes = (object,)
    held = MappingProxyType({"values": BY_KEY})

    def __init__(self, *, greatest: bool) -> None:
        self._greatest = greatest
        self._wrap = _ReverseOrder if greatest else (lambda value: value)
        self._living: defaultdict[int, list[Any]] = defaultdict(list)
        self._removed: defaultdict[int, list[Any]] = defaultdict(list)
        # by key, the best value for each first window, which is numbered; the next one is ``_now``;
        # and that of rows that never end, at infinity
        self._best: defaultdict[int, dict[float, Any]] = defaultdict(dict)
        self._now = 0

    @property
    def values(self) -> dict[int, list[Any]]:
        """The values added and those removed, and the best ones, by key, to be saved."""
        best = {key: [[w - self._now, v] for w, v in of.items()] for key, of in self._best.items()}
        return {
            key: [
                *([_unwrap(value) for value in heaps.get(key, ())]
                  for heaps in (self._living, self._removed)),
                best.get(key, []),
            ]
            for key in {**self._living, **best}
        }  # fmt: skip

    @values.setter
    def values(self, saved: dict[int, list[Any]]) -> None:
        for held in (self._living, self._removed, self._best):
            held.clear()
        self._now = 0
        for key, (living, removed, best) in saved.items():
            for heaps, values in ((self._living, living), (self._removed, removed)):
                if values:
                    heaps[key] = [self._wrap(value) for value in values]
            if best:
                self._best[key] = dict(best)

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values as objects, null as None."""
        return [read_objects(field)]

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the extremes."""
        results: list[Any] = []
        wanted, of, windows = samples.at.tolist(), samples.of.tolist(), samples.windows.tolist()
        rows, what = (changes.what >> 3), (changes.what & 7).tolist()
        keys, values = changes.key[rows].tolist(), own[0][rows]
        count = len(wanted)
        for i in range(len(changes) + 1):
            while len(results) < count and wanted[len(results)] == i:
                at = len(results)
                if changes.span and (not at or windows[at] != windows[at - 1]):
                    self._now += 1
                results.append(self._sample(of[at], changes.span))
            if i == len(changes) or (value := values[i]) is None:
                continue
            if what[i] & 6 and not what[i] & 1:
                self._note(keys[i], value, self._now if what[i] & 4 else math.inf)
                continue
            heap = self._removed if what[i] & 1 else self._living
            heapq.heappush(heap[keys[i]], self._wrap(value))
            self._clean(keys[i])
        return SeriesColumn(pl.Series(results))

    def _note(self, key: int, value: Any, window: float) -> None:
        """Note a value that the next windows hold, or for ever."""
        best = self._best[key]
        if (known := best.get(window)) is None or self._beats(value, known):
            best[window] = value

    def _beats(self, value: Any, other: Any) -> bool:
        return bool(other < value if self._greatest else value < other)

    def _sample(self, key: int, span: int) -> Any:
        """Return the extreme of a key; drop what the next window does not hold."""
        found = self._find_top(key)
        if not (best := self._best.get(key)):
            return found
        for value in best.values():
            if found is None or self._beats(value, found):
                found = value
        # the window just sampled has the number before ``_now``
        if span:
            best.pop(self._now - span, None)
        if not best:
            del self._best[key]
        return found

    def _find_top(self, key: int) -> Any:
        living, removed = self._living.get(key, []), self._removed.get(key, [])
        while removed and removed[0] == living[0]:
            heapq.heappop(removed)
            heapq.heappop(living)
        return _unwrap(living[0]) if living else None

    def _clean(self, key: int) -> None:
        living, removed = self._living[key], self._removed[key]
        if 2 * len(removed) <= len(living) + 16:
            return
        living.sort()
        removed.sort(reverse=True)
        kept = []
        for value in living:
            if removed and removed[-1] == value:
                removed.pop()
            else:
                kept.append(value)
        living[:] = kept  # sorted, and so a heap
