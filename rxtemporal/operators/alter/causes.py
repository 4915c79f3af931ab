"""Causes of the rows of alter_event_lifetime and its two halves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.alter.plan import AlterEventLifetime
from rxtemporal.operators.causes.carried_rows import to_batch
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History


def find_altered_rows(
    operator: AlterEventLifetime, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the one it was made of: rows leave in order, but for those that vanish.

    A row vanishes only at the ends of time. If some have, the functions are called once more for
    each row.
    """
    (given,) = inputs
    if len(given) == len(output):
        return Causes.of_pairs(rows, rows)
    kept = np.array([n for n in range(len(given)) if _stays(operator, given, n)], np.int64)
    rows = rows[rows < len(kept)]
    return Causes.of_pairs(rows, kept[rows])


def _stays(operator: AlterEventLifetime, given: History, number: int) -> bool:
    step = operator.make(given.payload.schema, given.keys)
    return len(step.on_batch(to_batch(given).take(np.array([number])))) > 0
