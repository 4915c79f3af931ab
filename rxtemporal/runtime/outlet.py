"""Outlet of a query: its sink, and counters of the results."""

from __future__ import annotations

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.sinks import Sink


class Outlet:
    """The end of one query of a process: opens its sink, writes into it and counts."""

    def __init__(self, name: str, sink: Sink, schema: pl.Schema | None) -> None:
        self.name = name
        self.sink = sink
        self.schema = schema
        self.opened = False
        self.rows = self.batches = 0
        self.cti = MIN_TIME
        # seconds of the wall clock at the last result
        self.wrote = 0.0

    def open(self, schema: pl.Schema) -> None:
        """Open the sink."""
        self.sink.open(self.name, schema)
        self.opened = True

    def write(self, batch: EventBatch) -> None:
        """Write one batch to the sink; open it first if the fields were not known before.

        A CTI that comes before the fields are known is not written: the sink is opened with the
        fields of its first rows.
        """
        if not self.opened:
            if not len(batch) and not batch.schema and batch.cti < MAX_TIME:
                self.cti = batch.cti
                return
            self.open(batch.schema)
        self.sink.write(batch)
        self.rows += len(batch)
        self.batches += 1
        self.cti = batch.cti
