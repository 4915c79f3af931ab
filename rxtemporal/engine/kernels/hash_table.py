"""Hash table of integers: open addressing with linear probing, in plain numpy arrays.

``slots`` ``int64[capacity, 2]``, the capacity a power of two: a key and its value side by side, so
that a look-up touches one cache line. Values are not negative; a slot whose value is -1 is free, so
any int64 can be a key. At most half of the slots are in use.

``counts`` ``int64[3]``, updated in place: the number of slots in use; the rest has no meaning, but
is in saved states.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import freeze, jit

Ints = npt.NDArray[np.int64]

FREE = -1
SMALLEST = 64
CACHED = 16_384
USED = 0
# odd, and below 2**32, so that no product of two 32-bit halves exceeds uint64
_A, _B, _C = np.uint64(0x9E3779B1), np.uint64(0x85EBCA77), np.uint64(0xC2B2AE3D)
_LOW, _HALF, _QUARTER = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(16)


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

    >>> table = IntTable()
    >>> table.insert(np.array([7, -1]), np.array([0, 1]))
    >>> table.find(np.array([-1, 5])).tolist()
    [1, -1]
    """

    __slots__ = ("_counts", "_slots")

    def __init__(self) -> None:
        self._slots = make_slots(SMALLEST)
        self._counts = np.array([0, 0, FREE], np.int64)

    def __len__(self) -> int:
        """Return the number of entries."""
        return int(self._counts[USED])

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
        table._counts[1:] = counts[1:]
        return table

    def _grow(self) -> None:
        self._slots = enlarge(self._slots)


def enlarge(slots: Ints) -> Ints:
    """Return a larger table with the same entries."""
    # a table that fits into the cache may be sparse: there only collisions cost
    larger = make_slots((4 if len(slots) < CACHED else 2) * len(slots))
    refill(slots, larger)
    return larger


def make_slots(capacity: int) -> Ints:
    """Return slots that are free."""
    slots = np.empty((capacity, 2), np.int64)
    slots[:, 1] = FREE
    return slots
