"""distinct: one row while a value is alive, however often it occurs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.schema import check_field
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Distinct(Operator):
    """One row for each maximal stretch of time in which a value is alive."""

    name = "distinct"
    fields: Keys

    @property
    def holds(self) -> str:
        """The changes after the CTI, and the values."""
        return "starts and ends at or after t, and the values alive"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys and the named fields, or all fields if none are named."""
        for name in self.fields:
            check_field(name, schema, "distinct")
        names = [*keys, *(name for name in self.fields or schema if name not in keys)]
        for name in names:
            if isinstance(schema[name], pl.List):
                raise SchemaError(f"distinct: {name!r} is a list, which cannot be compared")
        return pl.Schema({name: schema[name] for name in names})

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of equal values are seen together."""
        fields = self.output(schemas[0], keys)
        return partition_by_keys(fields, fields)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.distinct.step import DistinctStep

        return DistinctStep(list(self.output(schema, keys)), schema)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.distinct.causes import find_rows_of_value

        return find_rows_of_value(self, inputs, output, rows)


def distinct(*fields: str) -> Distinct:
    """Return one row for each maximal interval of time in which a value is alive.

    The value is that of the named fields, or of all fields if none are named; null equals null, NaN
    equals NaN and -0.0 equals 0.0. An interval is emitted as a start edge when the CTI passes its
    start, and ended when the CTI passes its end; the CTI passes unchanged. Held: starts and ends
    after the CTI, and the values alive.
    """
    for field in fields:
        if not isinstance(field, str):
            raise ArgumentError(f"distinct takes names of fields, got {field!r}")
    if len(set(fields)) < len(fields):
        raise ArgumentError(f"distinct names a field twice: {list(fields)}")
    return Distinct(fields=fields)
