"""Causes of the rows of scan: the rows of the key up to then, which its function has seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.causes import HISTORY, ROW, Causes
from rxtemporal.operators.causes.history import History, code_fields
from rxtemporal.operators.scan.plan import Scan


def find_rows_up_to_then(
    operator: Scan, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row all rows of its key that start no later.

    The row with its lifetime is the one that the function got last; the rows before it are its
    history, since the state may depend on each of them.
    """
    (given,) = inputs
    keys, key = code_fields(given, output, given.keys)
    order = np.lexsort((given.start, keys))
    place = {code: np.flatnonzero(keys[order] == code) for code in np.unique(key[rows]).tolist()}
    parts = []
    for number in rows.tolist():
        mine = order[place[int(key[number])]]
        upto = int(np.searchsorted(given.start[mine], output.start[number], side="right"))
        seen = mine[:upto]
        own = (given.start[seen] == output.start[number]) & (given.end[seen] == output.end[number])
        of = np.full(len(seen), number)
        parts.append(Causes.of_pairs(of, seen, role=np.where(own, ROW, HISTORY)))
    return Causes.concat(parts)
