"""Hash table of integers: open addressing with linear probing, in plain numpy arrays.

``slots`` ``int64[capacity, 2]``, the capacity a power of two: a key and its value side by side, so
that a look-up touches one cache line. Values are not negative; a slot whose value is -1 is free, so
any int64 can be a key. At most half of the slots are in use.

``counts`` ``int64[3]``, updated in place: the number of slots in use, the next code that ``number``
gives, and the code of null (-1 while there is none).
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import freeze, jit

Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

FREE = -1
SMALLEST = 64
CACHED = 16_384
# the codes of values below this are looked up by the value itself
NEAR = 1 << 16
USED, NEXT, NULL = 0, 1, 2
# odd, and below 2**32, so that no product of two 32-bit halves exceeds uint64
_A, _B, _C = np.uint64(0x9E3779B1), np.uint64(0x85EBCA77), np.uint64(0xC2B2AE3D)
_LOW, _HALF, _QUARTER = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(16)

_ALL_VALID = freeze(np.empty(0, np.bool_))


@jit
def find_home(key: int, mask: int) -> int:
    """Return the slot at which the search for a key begins; with a mask of -1 a hash of 48 bits.

    Two rounds: one multiplication alone puts keys at some regular distances next to each other.
    """
    bits = np.uint64(key)
    mixed = ((bits & _LOW) * _A) ^ ((bits >> _HALF) * _B)
    mixed = (mixed ^ (mixed >> _HALF)) & _LOW
    return np.int64((mixed * _C) >> _QUARTER) & mask  # type: ignore[return-value]


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


@jit
def find(keys: Ints, slots: Ints) -> Ints:
    """Return each key's value, or -1. ``int64[n]``; O(n) expected."""
    mask = len(slots) - 1
    out = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        at = find_home(keys[i], mask)
        while slots[at, 1] >= 0 and slots[at, 0] != keys[i]:
            at = (at + 1) & mask
        out[i] = slots[at, 1]
    return out


@jit
def insert(keys: Ints, values: Ints, slots: Ints, counts: Ints, begin: int) -> int:
    """Give each key its value, in place of any that it had.

    ``keys``, ``values`` ``int64[n]``. Begins at row ``begin`` and returns the row at which it
    stopped: n, or one whose key is new to a table that is half full. O(n) expected.
    """
    mask = len(slots) - 1
    for i in range(begin, len(keys)):
        at = find_home(keys[i], mask)
        while slots[at, 1] >= 0 and slots[at, 0] != keys[i]:
            at = (at + 1) & mask
        if slots[at, 1] < 0:
            if 2 * counts[USED] >= len(slots):
                return i
            slots[at, 0] = keys[i]
            counts[USED] += 1
        slots[at, 1] = values[i]
    return len(keys)


@jit
def remove(keys: Ints, slots: Ints, counts: Ints) -> Ints:
    """Remove each key and return the value that it had, or -1. ``int64[n]``; O(n) expected.

    Entries behind a removed key move up to where they are found. So no slot has to be marked as
    once used, and a table whose keys come and go does not fill up.
    """
    mask = len(slots) - 1
    out = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        hole = find_home(keys[i], mask)
        while slots[hole, 1] >= 0 and slots[hole, 0] != keys[i]:
            hole = (hole + 1) & mask
        out[i] = slots[hole, 1]
        if out[i] < 0:
            continue
        counts[USED] -= 1
        at = (hole + 1) & mask
        while slots[at, 1] >= 0:
            # it may fill the hole unless its home is behind the hole
            if ((at - find_home(slots[at, 0], mask)) & mask) >= ((at - hole) & mask):
                slots[hole, 0] = slots[at, 0]
                slots[hole, 1] = slots[at, 1]
                hole = at
            at = (at + 1) & mask
        slots[hole, 1] = FREE
    return out


@jit
def refill(old: Ints, slots: Ints) -> None:
    """Put every entry of ``old`` into the free ``slots``; O(capacity of old)."""
    mask = len(slots) - 1
    for i in range(len(old)):
        if old[i, 1] >= 0:
            at = find_home(old[i, 0], mask)
            while slots[at, 1] >= 0:
                at = (at + 1) & mask
            slots[at, 0] = old[i, 0]
            slots[at, 1] = old[i, 1]


class IntTable:
    """A mapping of int64 keys to int64 values that are not negative, for whole arrays at once.

    Use it either to ``number`` values, or to ``insert``, ``find`` and ``pop`` entries.

    >>> table = IntTable()
    >>> table.number(np.array([7, -1, 7])).tolist()
    [0, 1, 0]
    >>> table.find(np.array([-1, 5])).tolist()
    [1, -1]
    """

    __slots__ = ("_counts", "_near", "_slots", "next_code")

    def __init__(self) -> None:
        self._slots = _free_slots(SMALLEST)
        self._counts = np.array([0, 0, FREE], np.int64)
        # codes of keys that are small numbers, indexed by the key
        self._near = np.empty(0, np.int64)
        # the number of codes that ``number`` has given
        self.next_code = 0

    def __len__(self) -> int:
        """Return the number of entries; null has a code but no entry."""
        return int(self._counts[USED])

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
            self._grow()
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

    def find(self, keys: Ints) -> Ints:
        """Return each key's value, or -1."""
        return find(freeze(keys), self._slots)

    def insert(self, keys: Ints, values: Ints) -> None:
        """Give each key its value, in place of any that it had; of equal keys the last one wins."""
        if len(values) and values.min() < 0:
            raise ValueError(f"a value of the table must not be negative, got {values.min()}")
        keys, values = freeze(keys), freeze(values)
        done = insert(keys, values, self._slots, self._counts, 0)
        while done < len(keys):
            self._grow()
            done = insert(keys, values, self._slots, self._counts, done)

    def pop(self, keys: Ints) -> Ints:
        """Remove each key and return the value that it had, or -1."""
        return remove(freeze(keys), self._slots, self._counts)

    def state(self) -> tuple[Ints, Ints, Ints]:
        """Return keys, their values, and the counts, for ``restore``."""
        used = self._slots[self._slots[:, 1] >= 0]
        return used[:, 0].copy(), used[:, 1].copy(), self._counts.copy()

    @classmethod
    def restore(cls, keys: Ints, values: Ints, counts: Ints) -> Self:
        """Return the table that had this state."""
        table = cls()
        table.insert(keys, values)
        table._counts[NEXT], table._counts[NULL] = counts[NEXT], counts[NULL]
        table.next_code = int(counts[NEXT])
        return table

    def _grow(self) -> None:
        # a table that fits into the cache may be sparse: there only collisions cost
        old = self._slots
        self._slots = _free_slots((4 if len(old) < CACHED else 2) * len(old))
        refill(old, self._slots)


def _free_slots(capacity: int) -> Ints:
    slots = np.empty((capacity, 2), np.int64)
    slots[:, 1] = FREE
    return slots
