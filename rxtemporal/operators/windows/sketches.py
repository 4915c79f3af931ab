"""Approximate numbers of distinct values: a sketch in place of the values of a window."""

from __future__ import annotations

import math
from collections import defaultdict
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import SeriesColumn
from rxtemporal.engine.holdings import BY_KEY
from rxtemporal.engine.rows import Column
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.windows.aggregates import Changes, Own, Samples

# 2**12 registers: a relative standard error of 1.04 / 2**6
LOG_REGISTERS = 12


def load_sketches() -> Any:
    """Return the module with the sketches; ``ArgumentError`` if it is not installed."""
    try:
        import datasketches
    except ImportError:
        raise ArgumentError(
            "agg.approx_count_distinct needs the package datasketches. Hint: "
            'pip install "rxtemporal[sketches]"; agg.count_distinct counts exactly without it.'
        ) from None
    return datasketches


class SketchedCount(Stateful):
    """Approximate number of distinct values, by HyperLogLog sketches.

    Values are added and never removed. Rows that ``span`` windows hold have a sketch for each first
    window, which are united in each window; so do rows that never end. The sketch of other rows
    begins anew once none of them is left.
    """

    once, objects, chooses = True, True, False
    dtypes = (object,)
    held = MappingProxyType({"sketches": BY_KEY})

    def __init__(self) -> None:
        self._module = load_sketches()
        # by key and first window, the next of which has the number ``_now``: the sketch, how many
        # rows are left, and True if one has left
        self._sketches: defaultdict[int, dict[float, list[Any]]] = defaultdict(dict)
        self._now = 0

    @property
    def sketches(self) -> dict[int, list[Any]]:
        """The sketches as bytes, by key, to be saved."""
        return {
            key: [
                [window - self._now, sketch.serialize_compact(), left, lost]
                for window, (sketch, left, lost) in of.items()
            ]
            for key, of in self._sketches.items()
        }

    @sketches.setter
    def sketches(self, saved: dict[int, list[Any]]) -> None:
        self._sketches.clear()
        self._now = 0
        for key, of in saved.items():
            self._sketches[key] = {
                window: [self._module.hll_sketch.deserialize(data), left, lost]
                for window, data, left, lost in of
            }

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values as numbers and texts, null as None."""
        assert isinstance(field, SeriesColumn)
        values = np.empty(len(field), object)
        values[:] = _read_values(field.series)
        return [values]

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> Int64s:
        """Return the numbers, Int64."""
        out, at, of = np.empty(len(samples.at), np.int64), samples.at.tolist(), samples.of.tolist()
        rows, what = changes.what >> 3, (changes.what & 7).tolist()
        keys, values = changes.key[rows].tolist(), own[0][rows]
        windows, s = samples.windows.tolist(), 0
        for i in range(len(changes) + 1):
            while s < len(at) and at[s] == i:
                if changes.span and (not s or windows[s] != windows[s - 1]):
                    self._now += 1
                out[s] = self._sample(of[s], changes.span)
                s += 1
            if i == len(changes) or (value := values[i]) is None:
                continue
            # rows that may end are together, below all windows
            window = self._now if what[i] & 4 else math.inf if what[i] & 2 else -math.inf
            if what[i] & 1:
                self._remove(keys[i])
            else:
                self._add(self._sketches[keys[i]], window, value)
        return out

    def _add(self, of: dict[float, list[Any]], window: float, value: Any) -> None:
        if window not in of:
            of[window] = [self._module.hll_sketch(LOG_REGISTERS), 0, False]
        of[window][0].update(value)
        of[window][1] += 1

    def _remove(self, key: int) -> None:
        entry = self._sketches[key][-math.inf]
        entry[1], entry[2] = entry[1] - 1, True
        if not entry[1]:
            del self._sketches[key][-math.inf]

    def _sample(self, key: int, span: int) -> int:
        """Return the number of a key; drop the sketch that the next window does not hold."""
        of = self._sketches.get(key)
        if not of:
            return 0
        union = self._module.hll_union(LOG_REGISTERS)
        for sketch, _, has_lost in of.values():
            if has_lost:
                raise ArgumentError(
                    "agg.approx_count_distinct cannot take back a value, and rows leave a window "
                    "here that goes on. Hint: it counts points in tumbling_window, hopping_window, "
                    "session_window and whole_window, beside count, sum, mean, min and max; "
                    "agg.count_distinct counts exactly, in all windows."
                )
            union.update(sketch)
        if span:
            of.pop(self._now - span, None)
        if not of:
            del self._sketches[key]
        estimate: float = union.get_estimate()
        return round(estimate)


def _read_values(series: pl.Series) -> list[Any]:
    """Return values of a series as numbers or texts that are equal where the values are."""
    dtype = series.dtype
    if dtype.is_float():
        values = (series.cast(pl.Float64) + 0.0).to_list()  # -0.0 as 0.0
        return ["NaN" if value is not None and value != value else value for value in values]
    if dtype == pl.Binary:
        return [None if value is None else value.decode("latin-1") for value in series.to_list()]
    if dtype in (pl.String, pl.Decimal):
        return series.cast(pl.String).to_list()
    return series.to_physical().cast(pl.Int64).to_list()
