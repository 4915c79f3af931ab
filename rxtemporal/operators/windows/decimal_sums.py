"""Sums and means of Decimals, updated as rows begin and end."""

from __future__ import annotations

from collections import defaultdict
from decimal import Context, Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.columns import SeriesColumn, make_column
from rxtemporal.engine.holdings import BY_KEY
from rxtemporal.engine.rows import Column
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import SchemaError
from rxtemporal.operators.windows.aggregates import Changes, Own, Samples

DIGITS = 38
_EXACT = Context(prec=2 * DIGITS)


class DecimalSum(Stateful):
    """Exact sum of Decimals, or their mean; the sum of no values is 0, and their mean is null.

    Values are integers in units of the last digit.
    """

    once, objects, chooses = False, True, False
    dtypes = (object,)
    held = MappingProxyType({"sums": BY_KEY})

    def __init__(self, dtype: pl.Decimal, name: str, *, mean: bool) -> None:
        self._scale, self._name, self._mean = dtype.scale, name, mean
        self._sums: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0])

    @property
    def sums(self) -> dict[int, list[Any]]:
        """The sum of each key, and the number of its values, to be saved."""
        # integers of any size
        return {key: [str(total), count] for key, (total, count) in self._sums.items()}

    @sums.setter
    def sums(self, saved: dict[int, list[Any]]) -> None:
        self._sums.clear()
        self._sums.update((key, [int(total), count]) for key, (total, count) in saved.items())

    def columns(self, field: core.Column) -> list[Column | bool]:
        """Return the values as integers, null as None."""
        assert isinstance(field, SeriesColumn)
        values = np.empty(len(field), object)
        values[:] = field.series.to_physical().to_list()
        return [values]

    def sweep(self, changes: Changes, own: Own, samples: Samples) -> core.Column:
        """Return the sums as Decimal, or the means as Float64."""
        sums, results = self._sums, list[Any]()
        rows, ends = changes.what >> 3, (changes.what & 1).tolist()
        keys, values = changes.key[rows].tolist(), own[0][rows]
        at, of = samples.at.tolist(), samples.of.tolist()
        for i in range(len(changes) + 1):
            while len(results) < len(at) and at[len(results)] == i:
                results.append(self._finish(*sums[of[len(results)]]))
            if i == len(changes) or (value := values[i]) is None:
                continue
            of_key = sums[keys[i]]
            of_key[0] += -value if ends[i] else value
            of_key[1] += -1 if ends[i] else 1
        dtype = pl.Float64() if self._mean else pl.Decimal(DIGITS, self._scale)
        return make_column(pl.Series(results, dtype=dtype))

    def _finish(self, total: int, count: int) -> float | Decimal | None:
        if self._mean:
            return total / (count * 10**self._scale) if count else None
        if abs(total) >= 10**DIGITS:
            raise SchemaError(
                f"the sum {self._name!r} has more than the {DIGITS} digits that a Decimal holds. "
                "Hint: cast the field to Float64 before summing."
            )
        return _EXACT.scaleb(Decimal(total), -self._scale)
