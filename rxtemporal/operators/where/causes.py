"""Causes of the rows of where, select, with_columns and drop: the row that each was made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.causes import Causes, find_causes
from rxtemporal.operators.causes.equal_rows import match_equal_rows
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.where.plan import Select, SelectRow, Where, WhereRow


@find_causes.register(Select)
@find_causes.register(SelectRow)
def find_same_rows(
    operator: object, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the input row of the same number: every row passes, in order."""
    return Causes.of_pairs(rows, rows)


@find_causes.register(Where)
@find_causes.register(WhereRow)
def find_kept_rows(
    operator: object, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the equal input row; of several the first is the first's, and so on."""
    of, row = match_equal_rows(output, inputs[0])
    wanted = np.isin(of, rows)
    return Causes.of_pairs(of[wanted], row[wanted])
