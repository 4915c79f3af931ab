"""union: the rows of both inputs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rxtemporal.batch import EventBatch
from rxtemporal.steps.keying import Regrouping
from rxtemporal.steps.state import Stateful
from rxtemporal.ticks import MIN_TIME

__all__ = ["UnionStep"]


class UnionStep(Stateful):
    """The rows of both inputs, at once; their ids are told apart, even and odd. Holds nothing."""

    rows = 0
    held = ("_ctis", "_groups")

    def __init__(self, schema: pl.Schema, keys: Sequence[str]) -> None:
        self._ctis = [MIN_TIME, MIN_TIME]
        self._fields = list(schema)
        self._groups = Regrouping(keys, schema)

    def on_left(self, batch: EventBatch) -> EventBatch:
        """Return the left input's rows."""
        return self._on(0, batch)

    def on_right(self, batch: EventBatch) -> EventBatch:
        """Return the right input's rows, their fields in the left one's order."""
        return self._on(1, batch)

    def _on(self, side: int, batch: EventBatch) -> EventBatch:
        self._ctis[side] = batch.cti
        edge = batch.edge * 2 + side * (batch.edge != 0)
        payload = batch.payload
        if payload.columns != self._fields and self._fields:
            payload = payload.select(self._fields)
        return self._groups.grouped(
            batch.replace(edge=edge, payload=payload, cti=min(self._ctis), groups=None)
        )
