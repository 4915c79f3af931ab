"""Causes of the rows of where, select, with_columns and drop: the row that each was made of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History, match_equal_rows
from rxtemporal.operators.causes.lost_row import Fate, LostRow, write_expression, write_values
from rxtemporal.operators.where.plan import Where, WhereRow


def find_same_rows(inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
    """Return for each row the input row of the same number: every row passes, in order."""
    return Causes.of_pairs(rows, rows)


def find_kept_rows(inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
    """Return for each row the equal input row; of several the first is the first's, and so on."""
    of, row = match_equal_rows(output, inputs[0])
    wanted = np.isin(of, rows)
    return Causes.of_pairs(of[wanted], row[wanted])


def explain_unsatisfied(operator: Where, lost: LostRow) -> Fate:
    """Return the values of a row that do not satisfy the predicate."""
    names = operator.predicate.meta.root_names()
    values = {name: value for name, value in lost.payload.items() if name in names}
    return lost.tell(
        "dropped",
        f"dropped by {lost.place}: {write_values(values)} does not satisfy "
        f"{write_expression(operator.predicate)}",
        values=values,
    )


def explain_refused(operator: WhereRow, lost: LostRow) -> Fate:
    """Return the row of which a function is not true."""
    name = getattr(operator.predicate, "__name__", "the function")
    values = lost.payload
    return lost.tell(
        "dropped", f"dropped by {lost.place}: {name} is not true of {write_values(values)}",
        values=values,
    )  # fmt: skip
