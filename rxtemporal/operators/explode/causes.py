"""Causes of the rows of explode: the row whose list has the element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import Fate, LostRow, write_values
from rxtemporal.operators.explode.plan import Explode


def find_lists(
    operator: Explode, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each element its row: elements leave in the order of rows."""
    lengths = inputs[0].payload.get_column(operator.field).list.len().fill_null(0)
    row = np.repeat(np.arange(len(inputs[0])), lengths.cast(pl.Int64).to_numpy())
    return Causes.of_pairs(rows, row[rows])


def explain_empty_list(operator: Explode, lost: LostRow) -> Fate:
    """Return that the list of a row is empty or null."""
    values = {operator.field: lost.payload[operator.field]}
    return lost.tell("dropped", f"{lost.place} gives no row for {write_values(values)}",
                     values=values)  # fmt: skip
