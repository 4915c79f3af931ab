"""Causes of the rows of distinct: the rows with the value that are alive in the stretch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.carried_rows import get_cti
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History, code_fields
from rxtemporal.operators.distinct.plan import Distinct


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
