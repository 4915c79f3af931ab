"""union: the rows of two streams with the same fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.holdings import BY_EDGE, LATEST, NextEdge
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import SchemaError
from rxtemporal.operators.causes.carried_rows import CarriedRows, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.operator import Keys, PartialOperator, TwoInputs
from rxtemporal.operators.partition_keys import PartitionRule
from rxtemporal.operators.stream import Other

if TYPE_CHECKING:
    from rxtemporal.engine.step import TwoInputStep


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Union(TwoInputs):
    """The rows of both inputs."""

    keeps_lifetimes = True
    name = "union"

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the left fields; raise if the right input has others. Order does not matter."""
        if dict(left) != dict(right):
            differ = [name for name in {**left, **right} if left.get(name) != right.get(name)]
            differences = "; ".join(
                f"{name!r}: {left.get(name, 'missing')} and {right.get(name, 'missing')}"
                for name in differ
            )
            raise SchemaError(
                f"union takes two streams of the same fields, and these differ in {differences}. "
                "Hint: select() the same fields with the same types first."
            )
        return left

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: each row is seen alone, and fields are kept from both inputs."""
        return PartitionRule(None, tuple((name, (name, name)) for name in schemas[0]))

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step."""
        return UnionStep(left)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_united_rows(self, inputs, output, rows)


def union(other: Other) -> PartialOperator:
    """Unite the rows of two streams with the same fields.

    Rows and lifetimes pass unchanged and at once; the output CTI is the lower of the two. Nothing
    is held.
    """
    return PartialOperator(Union(), other)


def find_united_rows(
    operator: Union, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the equal one of an input; equal ones in the order in which they came."""
    sizes = [len(each) for each in inputs]
    side = np.repeat([0, 1], sizes)
    number = np.concatenate([np.arange(size) for size in sizes])
    order = np.argsort(np.concatenate([each.known for each in inputs]), kind="stable")
    names = output.payload.columns
    both = CarriedRows(
        np.concatenate([each.start for each in inputs]),
        np.concatenate([each.end for each in inputs]),
        pl.concat([each.payload.select(names) for each in inputs]),
        (side, number),
    ).take(order)
    of, at = match_output(output, both, rows)
    return Causes.of_pairs(of, both.numbers[1][at], side=both.numbers[0][at])


# twice a larger id does not fit into 64 bits
_LARGEST = 2**62 - 1


class UnionStep(Stateful):
    """Passes on the rows of both inputs; edge ids of the left become even, of the right odd.

    Holds no rows. After many unions an id is too large to be doubled; such an open row gets a
    negative id until it ends.
    """

    rows = 0
    held = MappingProxyType({"_ctis": LATEST, "_numbers": BY_EDGE, "_last": NextEdge(falls=True)})

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
