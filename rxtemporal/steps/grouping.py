"""Grouping: every row gets the code of its key."""

from __future__ import annotations

import polars as pl

from rxtemporal.batch import EventBatch
from rxtemporal.keys import Groups, KeyCoder

__all__ = ["GroupStep"]


class GroupStep:
    """Adds key codes to the batch; what comes after works by code.

    Holds every key seen, and no rows.
    """

    rows = 0

    def __init__(self, schema: pl.Schema, keys: tuple[str, ...]) -> None:
        self._coder = KeyCoder({key: schema[key] for key in keys})

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the same rows, grouped."""
        return batch.replace(groups=Groups(self._coder.encode(batch.payload), self._coder))
