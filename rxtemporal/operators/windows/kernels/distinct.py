"""Number of distinct values over rows that come and go, sampled once for each window.

Changes, samples and results are those of ``aggregates`` beside this module. The values are in a
hash table of open addressing with linear probing: ``slots`` ``int64[capacity, 4]``, the capacity a
power of two. A slot has a key, a value, how many rows of the key have it that end by a change of
their own, and the latest first window of the others, which ``span`` windows hold. -1 rows: the slot
is free. A value that no row has any more stays in its slot until the table is made anew. At most
half of the slots are in use. Cost O(1) expected for each change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SMALLEST = 64
# columns of a slot
KEY, VALUE, COUNT, LATEST = range(4)
# below the number of any window
NEVER = -(1 << 62)
# places in ``progress``: the next change, the next sample, the slots in use, the next window
CHANGE, SAMPLE, USED, NOW = range(4)
_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(29)


@jit
def _find(key: int, value: int, slots: Ints) -> int:
    """Return the slot of a value of a key, or the free one where it belongs."""
    mixed = (np.uint64(value) * _A) ^ (np.uint64(key) * _B)
    mixed = (mixed ^ (mixed >> _C)) * _A
    mask = np.uint64(len(slots) - 1)
    at = (mixed ^ (mixed >> _C)) & mask
    while slots[at, COUNT] >= 0 and (slots[at, KEY] != key or slots[at, VALUE] != value):
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
    window: Ints,
    slots: Ints,
    ring: Ints,
    progress: Ints,
    out: Ints,
) -> bool:
    """Write the number of distinct values that are not null into ``out`` ``int64[r]``.

    ``ring`` ``int64[1 + span, keys]``: the numbers so far, and how many of these values leave with
    each of the last windows, since only rows have them that ``span`` windows hold. Returns False
    where the table is half full; it then goes on from ``progress`` with a larger one.
    """
    span = len(ring) - 1
    s = progress[SAMPLE]
    for i in range(progress[CHANGE], len(what) + 1):
        while s < len(at) and at[s] == i:
            k = np.uint64(of[s])
            out[s] = ring[0, k]
            if span > 0:
                if s == 0 or window[s] != window[s - 1]:
                    progress[NOW] += 1
                # the values whose last window this is
                place = 1 + (progress[NOW] - span) % span
                ring[0, k] -= ring[place, k]
                ring[place, k] = 0
            s += 1
        if i == len(what):
            break
        row = np.uint64(what[i] >> 3)
        if not valid[row]:
            continue
        k = np.uint64(key[row])
        slot = _find(key[row], value[row], slots)
        if slots[slot, COUNT] < 0:
            if 2 * progress[USED] >= len(slots):
                progress[CHANGE], progress[SAMPLE] = i, s
                return False
            progress[USED] += 1
            slots[slot, KEY], slots[slot, VALUE] = key[row], value[row]
            slots[slot, COUNT], slots[slot, LATEST] = 0, NEVER
        count, latest, now = slots[slot, COUNT], slots[slot, LATEST], progress[NOW]
        stays = latest > now - span
        if what[i] & 4:
            slots[slot, LATEST] = now
            if count == 0:
                ring[0, k] += int(not stays)
                if stays:
                    ring[1 + latest % span, k] -= 1
                ring[1 + now % span, k] += 1
            continue
        ends = what[i] & 1
        slots[slot, COUNT] = count + 1 - 2 * ends
        change = int(count == 0 and not ends) - int(count == 1 and ends)
        if stays:
            ring[1 + latest % span, k] -= change
        else:
            ring[0, k] += change
    progress[CHANGE] = progress[SAMPLE] = 0
    return True


@jit
def fill(slots: Ints, used: Ints) -> None:
    """Put values of keys into free slots; there is room for all, and each comes once."""
    for i in range(len(used)):
        slot = _find(used[i, KEY], used[i, VALUE], slots)
        for column in range(4):
            slots[slot, column] = used[i, column]


@jit
def count_all(slots: Ints, now: int, ring: Ints) -> int:
    """Count the values in a table into an empty ``ring``; return how many slots are in use."""
    span, found = len(ring) - 1, 0
    for i in range(len(slots)):
        count, latest = slots[i, COUNT], slots[i, LATEST]
        found += int(count >= 0)
        stays = span > 0 and latest > now - span
        if count > 0 or (count == 0 and stays):
            ring[0, np.uint64(slots[i, KEY])] += 1
            if count == 0:
                ring[1 + latest % span, np.uint64(slots[i, KEY])] += 1
    return found
