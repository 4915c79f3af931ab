"""Rows of a key in order, each with fields of a row before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.engine.holdings import BY_KEY
from rxtemporal.operators.scan.ordered_step import OrderedStep

# no field has these names
_KEY, _TIME = "", "\0time"


class PreviousStep(OrderedStep):
    """Adds to each row fields of the n-th row before of its key, and the start of that row.

    Holds the last n rows of each key, too.
    """

    held = MappingProxyType({**OrderedStep.held, "_last": BY_KEY})

    def __init__(
        self,
        fields: Sequence[str],
        n: int,
        max_gap: int | None,
        output: pl.Schema,
        schema: pl.Schema,
        keys: tuple[str, ...],
    ) -> None:
        super().__init__(output, schema, keys)
        self._fields = pl.Schema({_TIME: pl.Int64(), **{name: schema[name] for name in fields}})
        # the fields of the output, which are those of this step in order: the time comes last
        self._added = [*list(output)[len(schema) :]]
        self._n = n
        self._max_gap = max_gap
        # by key: start and fields of its last rows, the latest one last
        self._last: dict[int, list[tuple[Any, ...]]] = {}

    def compute(
        self, key: Int64s, start: Int64s, payload: pl.DataFrame
    ) -> tuple[Int64s, pl.DataFrame]:
        """Return the rows with the fields of those before."""
        found, of = np.unique(key, return_inverse=True)
        known = [self._last.get(each, []) for each in found.tolist()]
        before = [row for rows in known for row in rows]
        keys = np.repeat(np.arange(len(found)), [len(rows) for rows in known])
        held = pl.DataFrame(before, schema=self._fields, orient="row")
        given = payload.select(pl.Series(_TIME, start), *list(self._fields)[1:])
        frame = pl.concat([held, given], rechunk=False).with_columns(
            pl.Series(_KEY, np.concatenate([keys, of]))
        )
        self._note(found, frame)
        shifted = frame.select(pl.col(*self._fields).shift(self._n).over(_KEY))
        made = shifted.slice(len(before))
        if self._max_gap is not None:
            near = pl.Series(start) - made[_TIME] <= self._max_gap
            made = made.select(pl.when(near).then(pl.all()))
        names = dict(zip(self._fields, [self._added[-1], *self._added[:-1]], strict=True))
        added = made.rename(names).cast({self._added[-1]: self._output[self._added[-1]]})
        return np.arange(len(key)), payload.with_columns(added.select(self._added))

    def _note(self, keys: Int64s, frame: pl.DataFrame) -> None:
        """Note the last rows of each key; ``frame`` has all that are known of these keys."""
        last = frame.group_by(_KEY, maintain_order=True).tail(self._n)
        rows = dict[int, list[tuple[Any, ...]]]()
        for number, row in zip(last[_KEY], last.drop(_KEY).iter_rows(), strict=True):
            rows.setdefault(int(keys[number]), []).append(row)
        self._last |= rows

    def mark_states(self, held: Bools, cti: int) -> None:
        """Set ``held`` to True for the keys whose last row is no longer ago than ``max_gap``."""
        far = -math.inf if self._max_gap is None else cti - self._max_gap
        held[[key for key, rows in self._last.items() if rows[-1][0] >= far]] = True
