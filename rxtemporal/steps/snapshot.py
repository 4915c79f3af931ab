"""Aggregates over snapshot windows: bounds by one sweep, each aggregate by its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.batch import EventBatch, Int64s
from rxtemporal.kernels.snapshot import sweep
from rxtemporal.steps.pending import Changes, Column, Pending
from rxtemporal.steps.running import Running, Samples, grown
from rxtemporal.ticks import MAX_TIME

__all__ = ["Output", "SnapshotStep"]


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """One field of the result: what it reads, and how; ``running`` None counts the rows."""

    name: str
    reads: pl.Expr
    running: Running | None

    def field(self, payload: pl.DataFrame) -> pl.Series:
        """Return what is read of each row."""
        if self.reads.meta.is_column():  # most are, and a select costs ten times as much
            return payload.get_column(self.reads.meta.output_name())
        field = payload.select(self.reads.alias(self.name)).to_series()
        # a literal reads the same of every row
        return field if len(field) == payload.height else field.new_from_index(0, payload.height)


class SnapshotStep:
    """Snapshot windows with running aggregates, for every key at once.

    A row's start and its end are two changes; those before the CTI are swept in order of time. A
    snapshot that has begun and not ended by then leaves as a start edge, and the change that ends
    it closes that edge.

    Holds: the changes at or after the CTI (``rows``), and for each key seen its running aggregates
    and open snapshot. Cost: of what is due, not of what is alive.
    """

    def __init__(self, outputs: Sequence[Output], schema: pl.Schema) -> None:
        self._outputs = outputs
        self._schema = schema
        self._pending = Pending()
        self._alive = np.zeros(0, np.int64)
        self._last = np.zeros(0, np.int64)
        self._edge = np.zeros(0, np.int64)
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """How many changes wait for the CTI."""
        return len(self._pending)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take rows that begin, end, or both; return the snapshots that are known."""
        self._pending.push(self._changes(batch))
        due = self._pending.due(batch.cti)
        if not due:
            return EventBatch.empty(self._schema, batch.cti)
        return self._results(Changes.concat(due).in_order(), batch)

    def _changes(self, batch: EventBatch) -> Changes:
        """Return what begins and what ends; an end edge only ends, a start edge only begins."""
        begins = np.flatnonzero((batch.edge == 0) | (batch.end == MAX_TIME))
        ends = np.flatnonzero(batch.end != MAX_TIME)
        rows = np.concatenate([begins, ends])
        key = batch.groups.codes if batch.groups is not None else np.zeros(len(batch), np.int64)
        sign = np.ones(len(rows), np.int64)
        sign[len(begins) :] = -1
        return Changes(
            np.concatenate([batch.start[begins], batch.end[ends]]),
            key[rows],
            sign,
            tuple(column[rows] for column in self._columns(batch.payload)),
        )

    def _columns(self, payload: pl.DataFrame) -> list[Column]:
        columns: list[Column] = []
        for output in self._outputs:
            if output.running is not None:
                columns += output.running.columns(output.field(payload))
        return columns

    def _results(self, changes: Changes, batch: EventBatch) -> EventBatch:
        keys = len(batch.groups.coder) if batch.groups is not None else 1
        self._alive, self._last = grown(self._alive, keys), grown(self._last, keys)
        self._edge = grown(self._edge, keys)
        start, end, edge, key, at, alive, self._next_edge = sweep(
            changes.time, changes.key, changes.sign,
            self._alive, self._last, self._edge, self._next_edge,
        )  # fmt: skip
        fields = [] if batch.groups is None else batch.groups.coder.decode(key).get_columns()
        fields += self._aggregates(changes, Samples(at, key, keys), alive)
        payload = pl.DataFrame(fields).cast(self._schema)
        return EventBatch(start, end, edge, payload, batch.cti)

    def _aggregates(self, changes: Changes, samples: Samples, alive: Int64s) -> list[pl.Series]:
        series, used = [], 0
        for output in self._outputs:
            if output.running is None:
                series.append(pl.Series(output.name, alive))
                continue
            own = changes.columns[used : used + output.running.width]
            used += output.running.width
            series.append(output.running.sweep(changes, own, samples).alias(output.name))
        return series
