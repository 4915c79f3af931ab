"""Numbers for the distinct values of a stream of integers, in order of first appearance.

``counts`` ``int64[3]``, updated in place: the number of slots in use, the next code that is given,
and the code of null (-1 while there is none).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import borrow, freeze, jit
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

# values are looked up by themselves if their range is less than this, or than so many times their
# number
NEAR, DENSE = 1 << 16, 4
NEXT, NULL = 1, 2
# codes have at most so many bits, so that two of them make one integer
HALF = 32
_LOWEST = -(1 << 63)

_ALL_VALID, _NO_CODES = freeze(np.empty(0, np.bool_)), freeze(np.empty(0, np.int64))


@borrow
def look_up(key: int | np.int64, slots: Ints, counts: Ints) -> int:
    """Return the code of a value by its hash, or the next one; -1 if the table is half full."""
    # unsigned: a signed index is tested for being negative each time
    mask, one = np.uint64(len(slots) - 1), np.uint64(1)
    at = np.uint64(find_home(key, len(slots) - 1))  # type: ignore[arg-type]
    code = slots[at, 1]
    while code >= 0 and slots[at, 0] != key:
        at = (at + one) & mask
        code = slots[at, 1]
    if code < 0 and 2 * counts[USED] < len(slots):
        code = counts[NEXT]
        slots[at, 0] = key
        slots[at, 1] = code
        counts[USED] += 1
        counts[NEXT] += 1
    return int(code)


@jit
def number(
    values: Ints | Int32s,
    valid: Bools,
    near: Ints,
    low: int,
    slots: Ints,
    counts: Ints,
    begin: int,
    codes: Ints,
) -> int:
    """Give each distinct value the next code, in order of first appearance.

    ``values`` ``int64[n]`` or ``int32[n]``; ``valid`` ``bool[n]``, false where null, or
    ``bool[0]``: no nulls. ``near`` ``int64[m]``: the codes of the values from ``low`` on, or -1;
    other values are in ``slots``. Writes ``codes`` ``int64[n]`` from row ``begin`` on and returns
    the row at which it stopped: n, or one whose value is new to slots that are half full. O(n)
    expected; near values cost a fraction of the others.
    """
    size, nulls = np.uint64(len(near)), len(valid) > 0
    for i in range(begin, len(values)):
        row = np.uint64(i)
        if nulls and not valid[row]:
            if counts[NULL] < 0:
                counts[NULL] = counts[NEXT]
                counts[NEXT] += 1
            codes[row] = counts[NULL]
            continue
        key = np.int64(values[row])
        place = np.uint64(key - low)  # of a lower value it is large
        if place < size:
            code = near[place]
            if code < 0:
                code = near[place] = counts[NEXT]
                counts[NEXT] += 1
        else:
            code = look_up(key, slots, counts)
            if code < 0:
                return i
        codes[row] = code
    return len(values)


@jit
def number_pairs(
    codes: Ints,
    partners: Ints | Int32s,
    valid: Bools,
    second: Ints,
    front: Ints,
    slots: Ints,
    counts: Ints,
    begin: int,
) -> int:
    """Replace codes by those of the pairs that they make with their ``partners``, ``int64[n]``.

    ``partners`` may be ``int32[n]``; ``valid`` as in ``number``. ``front`` ``int64[m, 2]``: the
    first partner of each code, and the code of that pair, or -1. Pairs with other partners, or with
    null, are in ``slots`` by the partner's code, which ``second`` has for the last rows, as many as
    are in it. Returns the row at which it stopped: n, one whose pair is new to slots that are
    half full, or one that needs a code that ``second`` does not have. O(n) expected; codes that
    have one partner need no hash.
    """
    nulls, offset = len(valid) > 0, len(codes) - len(second)
    for i in range(begin, len(codes)):
        row = np.uint64(i)
        a, b = np.uint64(codes[row]), np.int64(partners[row])
        there = not nulls or valid[row]
        code = front[a, 1]
        if there and code >= 0 and front[a, 0] == b:
            codes[row] = code
            continue
        if there and code < 0:
            front[a, 0], front[a, 1] = b, counts[NEXT]
            codes[row] = counts[NEXT]
            counts[NEXT] += 1
            continue
        if i < offset:
            return i
        code = look_up((codes[row] << HALF) | second[np.uint64(i - offset)], slots, counts)
        if code < 0:
            return i
        codes[row] = code
    return len(codes)


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


class ValueCodes:
    """Codes of int64 values, 0, 1, 2 … in order of first appearance, for whole arrays at once.

    Values that are near each other, as ids that are given in turn, are looked up by themselves,
    others by hash.

    >>> codes = ValueCodes()
    >>> codes.number(np.array([7, -1, 7])).tolist()
    [0, 1, 0]
    """

    __slots__ = ("_counts", "_falls", "_low", "_near", "_range", "_rises", "_slots", "next_code")

    def __init__(self) -> None:
        self._slots = make_slots(SMALLEST)
        self._counts = np.array([0, 0, FREE], np.int64)
        # the codes of the values from the lowest one on
        self._near, self._low = np.empty(0, np.int64), 0
        # the values' range is this at least; True if some have come below the others, or above
        self._range = 0
        self._falls = self._rises = False
        # the number of codes that have been given
        self.next_code = 0

    def number(self, values: Ints | Int32s, valid: Bools | None = None) -> Ints:
        """Return each value's code; those that are new get the next ones in order of appearance.

        Where ``valid`` is False the value is null, which has a code of its own.
        """
        values, valid = freeze(values), _ALL_VALID if valid is None else freeze(valid)
        codes, done = np.empty(len(values), np.int64), 0
        while True:
            done = number(
                values, valid, self._near, self._low, self._slots, self._counts, done, codes
            )
            if done == len(values):
                break
            if not self._find_near(values[done:]):
                self._slots = enlarge(self._slots)
        if not self.next_code:
            self._find_near(values)
        self.next_code = int(self._counts[NEXT])
        return codes

    def _find_near(self, coming: Ints | Int32s) -> bool:
        """Have values looked up by themselves if all are near each other; return True if so.

        If they are also near those that are ``coming``, there is room for these.
        """
        most = max(NEAR, DENSE * int(self._counts[NEXT]))
        if not self._counts[USED] or self._range >= most:
            return False
        used, near = self._slots[self._slots[:, 1] >= 0], np.flatnonzero(self._near >= 0)
        values, low, high = used[:, 0], int(used[:, 0].min()), int(used[:, 0].max())
        if len(near):
            self._falls |= low < self._low
            self._rises |= high > self._low + int(near[-1])
            low = min(low, self._low + int(near[0]))
            high = max(high, self._low + int(near[-1]))
        self._range = high - low
        if self._range >= most:
            return False
        lower, higher = min(low, int(coming.min())), max(high, int(coming.max()))
        if higher - lower < most:
            low, high = lower, higher
        size = max(SMALLEST, 1 << (high - low).bit_length()) * (1 + self._rises)
        if self._falls:  # more of them may come, and others above
            low -= (size - (high - low + 1)) // (1 + self._rises)
            low = max(low, _LOWEST)
        codes = np.full(size, FREE, np.int64)
        codes[values - low] = used[:, 1]
        if len(near):
            codes[near + (self._low - low)] = self._near[near]
        self._near, self._low = codes, low
        self._slots, self._counts[USED] = make_slots(SMALLEST), 0
        return True


class PairCodes:
    """Codes of pairs of a code and a value, 0, 1, 2 … in order of first appearance.

    A partner that depends on the first code, as a name on an id, costs no hash.
    """

    __slots__ = ("_counts", "_front", "_slots")

    def __init__(self) -> None:
        self._slots = make_slots(SMALLEST)
        self._counts = np.zeros(3, np.int64)
        # the first partner of each code, and the code of that pair
        self._front = np.empty((0, 2), np.int64)

    @property
    def next_code(self) -> int:
        """The number of codes that have been given."""
        return int(self._counts[NEXT])

    def number(
        self,
        codes: Ints,
        partners: Ints | Int32s,
        count: int,
        valid: Bools | None = None,
        find_codes: Callable[[int], Ints] | None = None,
    ) -> None:
        """Replace codes, of which there are ``count``, by those of their pairs with ``partners``.

        Where ``valid`` is False the partner is null. ``find_codes(begin)`` returns codes of the
        partners from row ``begin`` on, which are needed where a code has several partners; without
        it the partners are their codes.
        """
        have = len(self._front)
        if count > have:
            larger = np.full((max(count, 2 * have, SMALLEST), 2), FREE, np.int64)
            larger[:have] = self._front
            self._front = larger
        partners, valid = freeze(partners), _ALL_VALID if valid is None else freeze(valid)
        second, done = _NO_CODES, 0
        while True:
            done = number_pairs(
                codes, partners, valid, second, self._front, self._slots, self._counts, done
            )
            if done == len(codes):
                return
            if done < len(codes) - len(second):
                rest = partners[done:] if find_codes is None else find_codes(done)
                second = freeze(np.asarray(rest, np.int64))
            else:
                self._slots = enlarge(self._slots)
