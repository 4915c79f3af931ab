"""deadband: readings that differ from the last one that passed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.schema import check_field
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.causes.carried_rows import carry
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History, code_fields
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Deadband(Operator):
    """The rows whose ``field`` differs by more than ``by`` from the last row that passed."""

    name = "deadband"
    field: str
    by: float
    holds = "rows not yet committed, passed rows that are open, and a value for each key"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema; raise if the field is missing, or not a number."""
        check_field(self.field, schema, "deadband")
        dtype = schema[self.field]
        if not (dtype.is_float() or dtype.is_integer()):
            raise SchemaError(
                f"deadband compares numbers, and {self.field!r} is {dtype}. Hint: convert it first "
                "with with_columns()."
            )
        return schema

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys(keys, schemas[0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.deadband.step import DeadbandStep

        return DeadbandStep(self.field, self.by, schema, keys)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the row that each one is."""
        from rxtemporal.operators.scan.ordered_rows import OrderedRows

        of, _, own = OrderedRows.of(inputs[0]).match_output(output, rows)
        return Causes.of_pairs(of, own)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return the row from which a row differs too little."""
        return explain_small_difference(self, lost)


def deadband(field: str, by: float) -> Deadband:
    """Keep the rows whose field differs by more than a limit from the last row that passed.

    The first row of each key passes. Later ones are compared with the last row of the key that has
    passed, not with the one before; so a slow drift passes, too, in steps. Null and NaN differ from
    every number, and not from themselves. Rows pass unchanged, in order of (start, payload), and of
    their ends if equal in both, when the CTI has passed their start. The CTI passes unchanged.
    Held: rows whose start the CTI has not passed, passed rows that are open, and the last value of
    each key.

    ``by`` is a number, not negative; with 0 each change passes. Differences are computed as
    Float64. ``SchemaError``: the field is not a number.

    >>> import rxtemporal as rxt
    >>> temps = [(0, 20.0), (1, 20.4), (2, 20.8), (3, 20.6), (4, 21.5)]
    >>> readings = rxt.from_events([rxt.PointEvent(t, {"temp": temp}) for t, temp in temps])
    >>> readings.deadband("temp", by=0.5).to_polars()["temp"].to_list()
    [20.0, 20.8, 21.5]
    """
    if not isinstance(field, str):
        raise ArgumentError(f"deadband takes the name of a field, got {field!r}")
    if isinstance(by, bool) or not isinstance(by, (int, float)) or not 0 <= by < math.inf:
        raise ArgumentError(
            f"by is the difference up to which a reading does not pass, a number that is not "
            f"negative, got {by!r}"
        )
    return Deadband(field=field, by=by)


def explain_small_difference(operator: Deadband, lost: LostRow) -> Fate:
    """Return the last row of the key that has passed before a row."""
    if lost.start >= lost.cti:
        return lost.wait(lost.start + 1)
    codes, _ = code_fields(lost.source, lost.source, lost.source.keys)
    (passed,) = carry(operator, lost.inputs).numbers
    start = lost.source.start[passed]
    before = passed[(codes[passed] == codes[lost.row]) & (start <= lost.start)]
    if not len(before):
        return lost.tell_end()
    last = before[np.argsort(lost.source.start[before], kind="stable")[-1]]
    return lost.tell(
        "dropped",
        f"dropped by {lost.place}: {operator.field!r} differs by no more than {operator.by} from "
        f"the last row that passed, {lost.write_row(lost.source, int(last))}",
    )
