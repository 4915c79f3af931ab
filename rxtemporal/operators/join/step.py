"""Temporal joins: each pair of rows that meet becomes a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.expressions.evaluator import Predicate
from rxtemporal.engine.rows import RowStore
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.join.keys import KeyMatcher
from rxtemporal.operators.join.pairs import NewPairs, Pairs
from rxtemporal.operators.join.side import START


class JoinedPayload:
    """Payloads of pairs: the fields of one side, then the other's under their new names.

    ``taken`` maps the names in the result to the other side's fields that are kept; ``first`` is
    the number of the side whose fields come first.
    """

    def __init__(self, taken: dict[str, str], schema: pl.Schema, first: int = 0) -> None:
        self._own = list(schema)[: len(schema) - len(taken)]
        self._first = first
        names = [self._own, list(taken.values())]
        # the names of the fields of each side
        self._names = names[::-1] if first else names
        self.schema = schema

    def store_as(self, schemas: tuple[pl.Schema, pl.Schema]) -> tuple[pl.Schema, pl.Schema]:
        """Return the types in which each side's rows are held: keys of two types as the wider."""
        left, right = schemas
        first = pl.Schema({name: self.schema[name] for name in self._own})
        return (left, first) if self._first else (first, right)

    def __call__(self, sides: tuple[RowStore, RowStore], left: Int64s, right: Int64s) -> Columns:
        """Return the joined payload of pairs of rows of both sides, by their numbers."""
        lefts, rights = self._names
        columns, others = sides[0].fields(left, lefts), sides[1].fields(right, rights)
        made = others + columns if self._first else columns + others
        return Columns(self.schema, made, len(left))


class JoinStep(Stateful):
    """Joins rows that match and overlap: a row with both payloads, alive while both are.

    Holds rows until they have ended before both CTIs, and one entry for each pair that has left as
    a start edge.
    """

    held = ("_keying", "_pairs", "_next_edge")

    def __init__(
        self,
        keying: KeyMatcher,
        schemas: tuple[pl.Schema, pl.Schema],
        merged: JoinedPayload,
        where: pl.Expr | None,
        keys: Sequence[str],
    ) -> None:
        self._keying = keying
        self._pairs = Pairs(merged.store_as(schemas))
        self._merged = merged
        self._where = None if where is None else Predicate(where, merged.schema)
        # what a batch gives that only advances time
        self._nothing = EventBatch.empty(merged.schema, MIN_TIME, tuple(keys))
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of rows held of both inputs."""
        return len(self._pairs)

    def on_left(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the left input."""
        return self._on(0, batch)

    def on_right(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the right input."""
        return self._on(1, batch)

    def _on(self, side: int, batch: EventBatch) -> EventBatch:
        pairs = self._pairs
        before = pairs.cti
        key, able = self._keying.match(side, batch.columns)
        if able is not None:
            batch, key = batch.take(able), key[able]
        pairs.take(side, batch, key)
        if pairs.cti == before and not pairs.has_ended:
            return self._nothing.replace(cti=pairs.cti)
        out = self._begin(pairs.find(len(self._keying)))
        ends = self._ends()
        pairs.forget()
        if self._keying.is_full:
            self._forget_keys()
        return out if ends is None else EventBatch.concat([out, ends])

    def _forget_keys(self) -> None:
        """Forget keys of which no row is held."""
        held = np.zeros(len(self._keying), np.bool_)
        self._pairs.mark_keys(held)
        kept = self._keying.forget(held)
        if kept is not None:
            self._pairs.keep_keys(kept)

    def _begin(self, found: NewPairs) -> EventBatch:
        """Return the pairs that begin to meet."""
        cti = self._pairs.cti
        if not len(found.left):
            return self._nothing.replace(cti=cti)
        payload = self._merged(self._pairs.rows, found.left, found.right)
        if self._where is not None:
            keep = self._where(payload)
            found, payload = found.take(keep), payload.take(keep)
        keys = self._nothing.keys
        if found.certain is None:
            return EventBatch(found.start, found.end, None, payload, cti, keys)
        ids = self._remember(found, ~found.certain)
        return EventBatch(found.start, found.end, ids, payload, cti, keys)

    def _remember(self, found: NewPairs, unsure: Bools) -> Int64s:
        """Remember the pairs whose end is not certain; return each pair's id, 0 for the others."""
        ids = np.where(unsure, self._next_edge + np.cumsum(unsure) - 1, 0)
        self._next_edge += int(unsure.sum())
        self._pairs.remember(found.take(unsure), ids[unsure])
        return ids

    def _ends(self) -> EventBatch | None:
        closed = self._pairs.close_ended()
        if closed is None or not len(closed.edge):
            return None
        pairs = self._pairs
        starts = pairs.column(0, START)[closed.left], pairs.column(1, START)[closed.right]
        never = closed.end == MAX_TIME  # a pair that never ends keeps its start edge
        made = EventBatch(
            np.maximum(*starts), closed.end, closed.edge,
            self._merged(pairs.rows, closed.left, closed.right), pairs.cti, self._nothing.keys,
        )  # fmt: skip
        return made.take(~never)
