"""distinct: one row while a value is alive, however often it occurs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.schema import check_field
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.causes.carried_rows import get_cti
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History, code_fields
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step


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


def find_rows_of_value(
    operator: Distinct, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each stretch all rows with its value that begin in it."""
    (given,) = inputs
    values, value = code_fields(given, output, output.payload.columns)
    begun = given.start < get_cti(given)
    found = [_find_in_stretches(values, given.start, begun, value, output, rows)]
    return Causes.concat(found)


def _find_in_stretches(
    values: Int64s, start: Int64s, begun: object, value: Int64s, output: History, rows: Int64s
) -> Causes:
    """Return the rows of each stretch: of its value, the last one that begins at or before them."""
    stretches = np.lexsort((output.start, value))
    order = np.lexsort((start, values))
    # one ascending number for (value, time), so that one search finds the stretch of each row
    times = np.unique(np.concatenate([start, output.start]))
    size = len(times) + 1
    keys = value[stretches] * size + np.searchsorted(times, output.start[stretches])
    wanted = values[order] * size + np.searchsorted(times, start[order])
    place = np.searchsorted(keys, wanted, side="right") - 1
    of = stretches[np.maximum(place, 0)] if len(stretches) else np.zeros(len(order), np.int64)
    there = (
        (place >= 0) & np.asarray(begun)[order] if len(stretches) else np.zeros(len(order), bool)
    )
    if len(stretches):
        there &= (value[of] == values[order]) & (start[order] < output.end[of])
        there &= np.isin(of, rows)
    return Causes.of_pairs(of[there], order[there])
