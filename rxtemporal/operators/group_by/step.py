"""Grouping: the batches name the fields by which they are grouped."""

from __future__ import annotations

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.engine.step import Stateless


class GroupStep(Stateless):
    """Names the keys in the batch, for the operators that follow. Holds nothing."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the same rows, grouped."""
        return batch.replace(keys=self._keys)


class UngroupStep(Stateless):
    """Removes the keys' names from the batch. Holds nothing."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = schema

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the same rows, ungrouped."""
        return batch.replace(payload=batch.columns.select(self._schema), keys=())
