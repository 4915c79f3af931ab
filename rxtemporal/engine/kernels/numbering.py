"""Numbers for the distinct values of a stream of integers, in order of first appearance.

``counts`` ``int64[3]``, updated in place: the number of slots in use, the next code that is given,
and the code of null (-1 while there is none).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import freeze, jit
from rxtemporal.engine.kernels.hash_table import (
    FREE,
    SMALLEST,
    USED,
    enlarge,
    find_home,
    make_slots,
)

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

# the codes of values below this are looked up by the value itself
NEAR = 1 << 16
NEXT, NULL = 1, 2

_ALL_VALID = freeze(np.empty(0, np.bool_))


@jit
def number(values: Ints, valid: Bools, slots: Ints, counts: Ints, begin: int, codes: Ints) -> int:
    """Give each distinct value the next code, in order of first appearance.

    ``values`` ``int64[n]``; ``valid`` ``bool[n]``, false where null, or ``bool[0]``: no nulls.
    Writes ``codes`` ``int64[n]`` from row ``begin`` on and returns the row at which it stopped: n,
    or one whose value is new to a table that is half full. O(n) expected.
    """
    # unsigned: a signed index is tested for being negative each time
    mask, one = np.uint64(len(slots) - 1), np.uint64(1)
    nulls = len(valid) > 0
    for i in range(begin, len(values)):
        if nulls and not valid[i]:
            if counts[NULL] < 0:
                counts[NULL] = counts[NEXT]
                counts[NEXT] += 1
            codes[i] = counts[NULL]
            continue
        row = np.uint64(i)
        key = values[row]
        at = np.uint64(find_home(key, len(slots) - 1))
        code = slots[at, 1]
        while code >= 0 and slots[at, 0] != key:
            at = (at + one) & mask
            code = slots[at, 1]
        if code < 0:
            if 2 * counts[USED] >= len(slots):
                return i
            code = counts[NEXT]
            slots[at, 0] = key
            slots[at, 1] = code
            counts[USED] += 1
            counts[NEXT] += 1
        codes[row] = code
    return len(values)


@jit
def number_near(values: Ints | Int32s, near: Ints, codes: Ints) -> int:
    """Look up codes by the values themselves; return how many values were found.

    ``values`` ``int64[n]`` or ``int32[n]``; ``near`` ``int64[m]``: the code of each value below m,
    or -1. Writes ``codes`` ``int64[n]`` up to the first value that has none. O(n), several times as
    fast as by hash.
    """
    size = np.uint64(len(near))
    for i in range(len(values)):
        row = np.uint64(i)
        place = np.uint64(values[row])
        if place >= size or near[place] < 0:
            return i
        codes[row] = near[place]
    return len(values)


@jit
def find_first_rows(codes: Ints, known: int, count: int) -> Ints:
    """Return for each of the codes ``known … count - 1`` the first row that has it.

    ``codes`` ``int64[n]``, in which new codes appear in rising order. ``int64[count - known]``.
    """
    rows = np.empty(count - known, np.int64)
    found = 0
    for i in range(len(codes)):
        if codes[i] == known + found:
            rows[found] = i
            found += 1
            if found == len(rows):
                break
    return rows


class Numbering:
    """Codes of int64 values, 0, 1, 2 … in order of first appearance, for whole arrays at once.

    >>> codes = Numbering()
    >>> codes.number(np.array([7, -1, 7])).tolist()
    [0, 1, 0]
    """

    __slots__ = ("_counts", "_near", "_slots", "next_code")

    def __init__(self) -> None:
        self._slots = make_slots(SMALLEST)
        self._counts = np.array([0, 0, FREE], np.int64)
        # codes of values that are small numbers, indexed by the value
        self._near = np.empty(0, np.int64)
        # the number of codes that have been given
        self.next_code = 0

    def number(self, values: Ints | Int32s, valid: Bools | None = None) -> Ints:
        """Return each value's code; those that are new get the next ones in order of appearance.

        Where ``valid`` is False the value is null, which has a code of its own.
        """
        given = freeze(values)
        codes = np.empty(len(given), np.int64)
        done = number_near(given, self._near, codes) if valid is None and len(self._near) else 0
        if done == len(given):
            return codes
        values = freeze(given.astype(np.int64, copy=False))
        valid = _ALL_VALID if valid is None else freeze(valid)
        done = number(values, valid, self._slots, self._counts, done, codes)
        while done < len(values):
            self._slots = enlarge(self._slots)
            done = number(values, valid, self._slots, self._counts, done, codes)
        if self._counts[NEXT] > self.next_code:
            self.next_code = int(self._counts[NEXT])
            small = (values >= 0) & (values < NEAR)
            small = small & valid if len(valid) else small
            self._keep_near(values[small], codes[small])
        return codes

    def _keep_near(self, values: Ints, codes: Ints) -> None:
        if not len(values):
            return
        size = 1 << int(values.max()).bit_length()
        if size > len(self._near):
            larger = np.full(size, FREE, np.int64)
            larger[: len(self._near)] = self._near
            self._near = larger
        self._near[values] = codes
