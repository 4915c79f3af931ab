"""Numbers of rows in a store, and their renumbering once most rows are released."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import freeze, jit

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


# of fewer rows numpy takes the values as fast
FEW = 512
# values are moved as unsigned ints of their size, so that a kernel is compiled once for each size
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def gather(values: npt.NDArray[Any], numbers: Ints) -> npt.NDArray[Any]:
    """Return the values ``[m]`` of the rows with these numbers, ``int64[n]``, from 0 to m - 1.

    O(n), and faster than ``values.take``. ``IndexError``: there is no such row.
    """
    if len(numbers) < FEW:
        return values.take(numbers)
    out = np.empty(len(numbers), values.dtype)
    _copy(values, numbers, out)
    return out


def move_rows(values: npt.NDArray[Any], numbers: Ints) -> None:
    """Move the values of the rows with these numbers, which rise, to the front. O(n)."""
    if len(numbers) < FEW:
        values[: len(numbers)] = values.take(numbers)
        return
    _copy(values, numbers, values)


def _copy(values: npt.NDArray[Any], numbers: Ints, out: npt.NDArray[Any]) -> None:
    """Copy the values of the rows with these numbers to the front of ``out``."""
    word, size = _WORDS[values.itemsize], len(values)
    highest = _gather(values.view(word), freeze(numbers), out.view(word)) if size else size
    if highest >= size:
        raise IndexError(f"there is no row {highest} among {size}")


@jit
def _gather(values: npt.NDArray[Any], numbers: Ints, out: npt.NDArray[Any]) -> int:
    """Return the highest number, by which the caller learns if one is not that of a row."""
    last, highest = np.uint64(len(values) - 1), np.uint64(0)
    for i in range(len(numbers)):
        place = np.uint64(i)
        number = np.uint64(numbers[place])
        highest = max(highest, number)
        out[place] = values[min(number, last)]
    return highest  # type: ignore[return-value] # as an int it would be negative


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
def number_repeated(rows: Ints, seen: Ints, numbers: Ints, few: Ints) -> int:
    """Number the distinct rows among ``rows`` ``int64[n]``, in order of first appearance.

    Writes each one's number into ``numbers`` ``int64[n]``, and the distinct rows into ``few``
    ``int64[m]``; returns how many these are, or -1 once there are more than m. ``seen``
    ``int64[rows of the store]`` is -1 before and after. O(n).
    """
    count, room = 0, len(few)
    for i in range(len(rows)):
        row = np.uint64(rows[np.uint64(i)])
        number = seen[row]
        if number < 0:
            if count == room:
                count = -1
                break
            number = seen[row] = count
            few[np.uint64(count)] = rows[np.uint64(i)]
            count += 1
        numbers[np.uint64(i)] = number
    for i in range(room if count < 0 else count):
        seen[np.uint64(few[np.uint64(i)])] = -1
    return count


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
