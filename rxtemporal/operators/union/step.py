"""union: the rows of both inputs."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.state import Stateful

# twice a larger id does not fit into 64 bits
_LARGEST = 2**62 - 1


class UnionStep(Stateful):
    """Passes on the rows of both inputs; edge ids of the left become even, of the right odd.

    Holds no rows. After many unions an id is too large to be doubled; such an open row gets a
    negative id until it ends.
    """

    rows = 0
    held = ("_ctis", "_numbers", "_last")

    def __init__(self, schema: pl.Schema) -> None:
        self._ctis = [MIN_TIME, MIN_TIME]
        # for each side the negative ids of rows whose ids cannot be doubled; the last such id
        self._numbers: list[dict[int, int]] = [{}, {}]
        self._last = 0
        self._schema = schema

    def on_left(self, batch: EventBatch) -> EventBatch:
        """Return the left input's rows."""
        return self._on(0, batch)

    def on_right(self, batch: EventBatch) -> EventBatch:
        """Return the right input's rows, their fields in the left one's order."""
        return self._on(1, batch)

    def _on(self, side: int, batch: EventBatch) -> EventBatch:
        self._ctis[side] = batch.cti
        payload = batch.columns.select(self._schema)
        if batch.has_edges:
            batch = batch.replace(edge=self._separate_ids(side, batch))
        return batch.replace(payload=payload, cti=min(self._ctis))

    def _separate_ids(self, side: int, batch: EventBatch) -> Int64s:
        ids = batch.edge
        doubled: Int64s = ids * 2 + side * (ids != 0)
        large = np.flatnonzero((ids < 0) | (ids > _LARGEST))
        for row in large.tolist():
            doubled[row] = self._number(side, int(ids[row]), batch.end[row] == MAX_TIME)
        return doubled

    def _number(self, side: int, edge: int, opens: bool) -> int:
        if not opens:
            return self._numbers[side].pop(edge)
        self._last -= 1
        self._numbers[side][edge] = self._last
        return self._last
