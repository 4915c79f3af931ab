"""Least and greatest values of types other than numbers: strings, bytes, decimals."""

from __future__ import annotations

import heapq
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

    Each key has two heaps, of the values added and of those removed; equal tops cancel out, and the
    heaps are rebuilt when more values are removed than alive. Python objects cost some microseconds
    for each change; ``Extreme`` needs a tenth of one for numbers.
    """

    once, objects = False, True
    dtypes = (object,)
    held = MappingProxyType({"values": BY_KEY})

    def __init__(self, *, greatest: bool) -> None:
        self._wrap = _ReverseOrder if greatest else (lambda value: value)
        self._living: defaultdict[int, list[Any]] = defaultdict(list)
        self._removed: defaultdict[int, list[Any]] = defaultdict(list)

    @property
    def values(self) -> dict[int, list[list[Any]]]:
        """The values added and those removed, by key, to be saved."""
        return {
            key: [[_unwrap(value) for value in heap] for heap in (heaps, self._removed[key])]
            for key, heaps in self._living.items()
        }

    @values.setter
    def values(self, saved: dict[int, list[list[Any]]]) -> None:
        self._living.clear()
        self._removed.clear()
        for key, heaps in saved.items():
            living, removed = ([self._wrap(value) for value in heap] for heap in heaps)
            self._living[key], self._removed[key] = living, removed

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values as objects, null as None."""
        return [read_objects(field)]

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the extremes."""
        results: list[Any] = []
        wanted = samples.at.tolist()
        of = samples.of.tolist()
        rows, ends = (changes.what >> 3), (changes.what & 1).tolist()
        keys, values = changes.key[rows].tolist(), own[0][rows]
        for i in range(len(changes) + 1):
            while len(results) < len(wanted) and wanted[len(results)] == i:
                results.append(self._find_top(of[len(results)]))
            if i < len(changes) and values[i] is not None:
                heap = self._removed if ends[i] else self._living
                heapq.heappush(heap[keys[i]], self._wrap(values[i]))
                self._clean(keys[i])
        return SeriesColumn(pl.Series(results))

    def _find_top(self, key: int) -> Any:
        living, removed = self._living[key], self._removed[key]
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


class AppendOnlyObjectExtreme(Stateful):
    """Least or greatest value of any ordered type, of rows that only begin; null without values.

    One value is held for each key.
    """

    once, objects = False, True
    dtypes = (object,)
    held = MappingProxyType({"_best": BY_KEY})

    def __init__(self, *, greatest: bool) -> None:
        self._choose = max if greatest else min
        self._best: dict[int, Any] = {}

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values as objects, null as None."""
        return [read_objects(field)]

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the extremes."""
        best, choose = self._best, self._choose
        results: list[Any] = []
        wanted, of = samples.at.tolist(), samples.of.tolist()
        rows = changes.what >> 3
        keys, values = changes.key[rows].tolist(), own[0][rows].tolist()
        for i in range(len(changes) + 1):
            while len(results) < len(wanted) and wanted[len(results)] == i:
                results.append(best.get(of[len(results)]))
            if i < len(changes) and values[i] is not None:
                best[keys[i]] = choose(best.get(keys[i], values[i]), values[i])
        return SeriesColumn(pl.Series(results))
