"""Cells: rows of one key that the same windows hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.engine.kernels.hash_table import find_home

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@jit
def number_cells(key: Ints, begin: Ints, until: Ints) -> tuple[Ints, int]:
    """Return the number of each row's cell, ``int64[n]``, and the number of cells.

    Rows of a cell have the same key and the same places. O(n) expected; a row in the cell of its
    key's row before it costs no search.
    """
    n = len(key)
    size, highest = 64, np.int64(0)
    while size < 2 * n:
        size *= 2
    for i in range(n):
        highest = max(highest, key[i])
    mask, one = np.uint64(size - 1), np.uint64(1)
    slots = np.full(size, -1, np.int32)
    first, cell = np.empty(n, np.int64), np.empty(n, np.int64)
    # the latest cell of each key; any number for one that has not come, since keys may be many
    latest = np.empty(highest + 1, np.int64)
    count = 0
    for i in range(n):
        row = np.uint64(i)
        k = np.uint64(key[row])
        c = latest[k]
        if 0 <= c < count:
            j = np.uint64(first[np.uint64(c)])
            if key[row] == key[j] and begin[row] == begin[j] and until[row] == until[j]:
                cell[row] = c
                continue
        mixed = find_home(find_home(key[row], -1) ^ begin[row], -1) ^ until[row]
        at = np.uint64(find_home(mixed, size - 1))
        c = slots[at]
        while c >= 0:
            j = np.uint64(first[np.uint64(c)])
            if key[row] == key[j] and begin[row] == begin[j] and until[row] == until[j]:
                break
            at = (at + one) & mask
            c = slots[at]
        if c < 0:
            c = slots[at] = count
            first[np.uint64(c)] = i
            count += 1
        cell[row] = latest[k] = c
    return cell, count


@jit
def find_least(
    cell: Ints,
    cells: int,
    value: npt.NDArray,  # type: ignore[type-arg]
    valid: Bools,
    second: Bools,
    stays: Bools,
) -> None:
    """Set ``stays`` ``bool[n]`` to True for the first row of each cell that has its least value.

    ``cell`` ``int64[n]``, from 0 to ``cells - 1``; ``value`` ``[n]``, of which those that are not
    ``valid`` are greater than all others, and least of these the ``second`` ones. O(n).
    """
    best = np.full(cells, -1, np.int64)
    for i in range(len(cell)):
        row = np.uint64(i)
        c = np.uint64(cell[row])
        if best[c] < 0:
            best[c] = i
            continue
        other = np.uint64(best[c])
        if valid[row] and valid[other]:
            is_less = value[row] < value[other]
        else:
            is_less = not valid[other] and (valid[row] or (second[row] and not second[other]))
        if is_less:
            best[c] = i
    for i in range(cells):
        stays[np.uint64(best[np.uint64(i)])] = True
