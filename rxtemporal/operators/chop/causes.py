"""Causes of the rows of chop: the row that each is a piece of."""

from __future__ import annotations

from collections.abc import Sequence

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.carried_rows import carry, get_cti, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.chop.plan import Chop


def find_chopped_rows(
    operator: Chop, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each piece its row."""
    # a run with rows that never end fails at the end of time, and its pieces have left before
    made = carry(operator, inputs, get_cti(output))
    of, at = match_output(output, made, rows)
    return Causes.of_pairs(of, made.numbers[0][at])
