"""Numbers of rows in a store, and their renumbering once most rows are released."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@jit
def find_numbers(alive: Bools, new: Ints) -> Ints:
    """Return the numbers of the rows alive; write the new number of each row into ``new``.

    ``alive`` ``bool[rows]``, ``new`` ``int64[rows]``. Rows stay in their order; the new number of a
    row that is gone is -1. O(rows).
    """
    numbers = np.empty(len(alive), np.int64)
    count = 0
    for row in range(len(alive)):
        # no branch: which rows are alive is unpredictable
        numbers[np.uint64(count)] = row
        new[row] = count if alive[row] else -1
        count += int(alive[row])
    return numbers[:count]


@jit
def renumber(what: Ints, new: Ints, bits: int) -> tuple[Ints, bool]:
    """Return entries with new row numbers; the lowest ``bits`` of each stay.

    ``what`` ``int64[n]``. ``new`` ``int64[rows]``: -1 for a row that was removed, whose entries
    become negative; then True if there is one. O(n).
    """
    mask = (1 << bits) - 1
    out = np.empty(len(what), np.int64)
    removed = 0
    for i in range(len(what)):
        row = new[np.uint64(what[i] >> bits)]
        out[i] = (row << bits) | (what[i] & mask)
        removed += int(row < 0)
    return out, removed > 0


@jit
def renumber_records(records: Ints, columns: Ints, new: Ints) -> None:
    """Replace the numbers of entries in these columns by the new ones; a negative number stays.

    ``records`` ``int64[n, columns]``; ``new`` ``int64[entries]``. A number above them, in room that
    is not in use, becomes any. O(n).
    """
    last = len(new) - 1
    for i in range(len(records)):
        row = np.uint64(i)
        for j in range(len(columns)):
            column = np.uint64(columns[np.uint64(j)])
            number = records[row, column]
            if number >= 0:
                records[row, column] = new[np.uint64(min(number, last))] if last >= 0 else -1
