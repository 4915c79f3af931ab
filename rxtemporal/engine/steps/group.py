"""Grouping: every row gets the code of its key."""

from __future__ import annotations

import polars as pl

from rxtemporal.core.batch import EventBatch, Groups
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.steps.state import Stateful
from rxtemporal.engine.steps.step import Stateless


class GroupStep(Stateful):
    """Adds key codes to the batch, for the operators that follow.

    Holds every key seen, and no rows.
    """

    rows = 0
    held = ("_coder",)

    def __init__(self, schema: pl.Schema, keys: tuple[str, ...]) -> None:
        self._coder = KeyCoder({key: schema[key] for key in keys})

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the same rows, grouped."""
        return batch.replace(groups=Groups(self._coder.encode(batch.payload), self._coder))


class UngroupStep(Stateless):
    """Removes the key codes from the batch. Holds nothing."""

    def __init__(self, fields: list[str]) -> None:
        self._fields = fields

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the same rows, ungrouped."""
        payload = batch.payload
        if payload.columns != self._fields:
            payload = payload.select(self._fields)
        return batch.replace(payload=payload, groups=None)
