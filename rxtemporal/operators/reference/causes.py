"""Causes of the rows of reference data: the row that was told, and the one that replaced it."""

from __future__ import annotations

from collections.abc import Sequence

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.carried_rows import carry, match_output
from rxtemporal.operators.causes.causes import BOUNDARY, Causes
from rxtemporal.operators.causes.history import History, code_rows, find_at
from rxtemporal.operators.reference.plan import Reference


def find_valid_rows(
    operator: Reference, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the one that was told, and the valid one of its key that follows."""
    made = carry(operator, inputs)
    of, at = match_output(output, made, rows)
    number = made.numbers[0][at]
    names = list(inputs[0].keys)
    key, valid = code_rows(inputs[0].payload.select(names), made.payload.select(names))
    ends = output.end[of] < MAX_TIME
    # of rows that begin together one alone is valid: the one that left
    whose, by = find_at(of[ends], key[number[ends]], output.end[of[ends]], valid, made.start)
    follow = Causes.of_pairs(whose, made.numbers[0][by], role=BOUNDARY)
    return Causes.concat([Causes.of_pairs(of, number), follow])
