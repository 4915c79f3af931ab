"""Causes of the rows of explode: the row whose list has the element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.causes import Causes, find_causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.explode.plan import Explode


@find_causes.register
def find_lists(
    operator: Explode, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each element its row: elements leave in the order of rows."""
    lengths = inputs[0].payload.get_column(operator.field).list.len().fill_null(0)
    row = np.repeat(np.arange(len(inputs[0])), lengths.cast(pl.Int64).to_numpy())
    return Causes.of_pairs(rows, row[rows])
