"""Number of distinct values over rows that come and go, sampled once for each window.

Changes, samples and results are those of ``aggregates`` beside this module. The values are counted
in a hash table of open addressing with linear probing: ``slots`` ``int64[capacity, 3]``, the
capacity a power of two, each with a key, a value and how many rows of the key have it; -1 rows: the
slot is free. A value that no row has any more stays in its slot until the table is made anew. At
most half of the slots are in use. Cost O(1) expected for each change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SMALLEST = 64
# places in ``progress``: the next change, the next sample, the slots in use
CHANGE, SAMPLE, USED = 0, 1, 2
_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(29)


@jit
def _find(key: int, value: int, slots: Ints) -> int:
    """Return the slot of a value of a key, or the free one where it belongs."""
    mixed = (np.uint64(value) * _A) ^ (np.uint64(key) * _B)
    mixed = (mixed ^ (mixed >> _C)) * _A
    mask = np.uint64(len(slots) - 1)
    at = (mixed ^ (mixed >> _C)) & mask
    while slots[at, 2] >= 0 and (slots[at, 0] != key or slots[at, 1] != value):
        at = (at + np.uint64(1)) & mask
    return at  # type: ignore[return-value]


@jit
def count_distinct(
    what: Ints,
    key: Ints,
    value: Ints,
    valid: Bools,
    at: Ints,
    of: Ints,
    slots: Ints,
    distinct: Ints,
    progress: Ints,
    out: Ints,
) -> bool:
    """Write the number of distinct values that are not null into ``out`` ``int64[r]``.

    ``distinct`` ``int64[keys]``: the numbers so far. Returns False where the table is half full; it
    then goes on from ``progress`` with a larger one.
    """
    s = progress[SAMPLE]
    for i in range(progress[CHANGE], len(what) + 1):
        while s < len(at) and at[s] == i:
            out[s] = distinct[np.uint64(of[s])]
            s += 1
        if i == len(what):
            break
        row = np.uint64(what[i] >> 3)
        if not valid[row]:
            continue
        k = key[row]
        place = _find(k, value[row], slots)
        count = slots[place, 2]
        if count < 0:
            if 2 * progress[USED] >= len(slots):
                progress[CHANGE], progress[SAMPLE] = i, s
                return False
            progress[USED] += 1
            slots[place, 0], slots[place, 1], count = k, value[row], 0
        ends = what[i] & 1
        slots[place, 2] = count + 1 - 2 * ends
        distinct[np.uint64(k)] += int(count == 0 and not ends) - int(count == 1 and ends)
    progress[CHANGE] = progress[SAMPLE] = 0
    return True


@jit
def fill(slots: Ints, key: Ints, value: Ints, count: Ints) -> None:
    """Put values of keys into free slots; there is room for all, and each comes once."""
    for i in range(len(key)):
        place = _find(key[i], value[i], slots)
        slots[place, 0], slots[place, 1], slots[place, 2] = key[i], value[i], count[i]
