"""Outer joins: a join, and the rows without a partner, their other fields null."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import Columns, cast_column, make_nulls
from rxtemporal.engine.state import Stateful
from rxtemporal.engine.step import TwoInputStep


class NullFields:
    """Payloads of rows without a partner: own fields under their joined names, the others null."""

    def __init__(self, names: dict[str, str], schema: pl.Schema) -> None:
        self._names = names
        self._schema = schema

    def __call__(self, payload: Columns) -> Columns:
        """Return the payload with the joined fields."""
        names, height = self._names, payload.height
        columns = [
            cast_column(payload[names[name]], dtype) if name in names else make_nulls(dtype, height)
            for name, dtype in self._schema.items()
        ]
        return Columns(self._schema, columns, height)


class OuterJoinStep(Stateful):
    """Union of a join with one anti join, or with one for each side.

    Holds what those hold.
    """

    held = ("_join", "_antis")

    def __init__(
        self,
        join: TwoInputStep,
        antis: Sequence[TwoInputStep],
        missing: Sequence[NullFields],
    ) -> None:
        self._join = join
        self._antis = list(antis)
        self._missing = missing

    @property
    def rows(self) -> int:
        """The number of rows that all of them hold."""
        return self._join.rows + sum(anti.rows for anti in self._antis)

    def on_left(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the left input."""
        unmatched = [self._antis[0].on_left(batch), *(a.on_right(batch) for a in self._antis[1:])]
        return self._unite(self._join.on_left(batch), unmatched)

    def on_right(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the right input."""
        unmatched = [self._antis[0].on_right(batch), *(a.on_left(batch) for a in self._antis[1:])]
        return self._unite(self._join.on_right(batch), unmatched)

    def _unite(self, joined: EventBatch, unmatched: list[EventBatch]) -> EventBatch:
        """Return the rows of all parts, with distinct ids."""
        parts = [joined, *(
            batch.replace(payload=missing(batch.columns))
            for batch, missing in zip(unmatched, self._missing, strict=True)
        )]  # fmt: skip
        apart = [
            part.replace(edge=part.edge * len(parts) + number * (part.edge != 0))
            if part.has_edges
            else part
            for number, part in enumerate(parts)
        ]
        return EventBatch.concat(apart)
