"""stitch: adjacent rows of equal payload joined into one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.errors import SchemaError
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Stitch(Operator):
    """Adjacent lifetimes of equal payload, joined."""

    name = "stitch"
    holds = "rows that have not ended, and of each the start of what it continues"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema; raise if payloads cannot be compared."""
        for name, dtype in schema.items():
            if isinstance(dtype, pl.List):
                raise SchemaError(
                    f"stitch: {name!r} is {dtype}, which cannot be compared. "
                    "Hint: explode() it, or select() the other fields first."
                )
        return schema

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of equal payload are seen together."""
        return partition_by_keys(schemas[0], schemas[0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.stitch.step import StitchStep

        return StitchStep(schema)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.stitch.causes import find_joined_lifetimes

        return find_joined_lifetimes(self, inputs, output, rows)


def stitch() -> Stitch:
    """Join rows of equal payload where one ends at the tick at which the other starts.

    Null equals null and NaN equals NaN. Rows that overlap are not joined. If more rows end at a
    tick than begin there, the chains that began first are continued; of equal rows that begin
    together, the one that ends first continues the chain that began last. A chain is emitted as a
    start edge when the CTI has passed its start, and its end follows when the CTI has passed the
    end, since a row may still begin there. The CTI passes unchanged. Held: the rows that have not
    ended.

    >>> import rxtemporal as rxt
    >>> on = [rxt.IntervalEvent(s, e, {"lamp": "on"}) for s, e in ((0, 5), (5, 9), (12, 13))]
    >>> rxt.from_events(on).stitch().to_polars(time="ticks").rows()
    [(0, 9, 'on'), (12, 13, 'on')]
    """
    return Stitch()
