"""Numbers of distinct values over rows that come and go, sampled once for each window.

Changes and samples are those of ``aggregates`` beside this module. Several *counts* of the same
values differ in the rows that count: bit ``c`` of ``bits`` ``uint8[rows]`` says that the row counts
for number ``c``, and 0 that its value is null.

``entries`` ``int64[room, 2 + counts]``: each value of a key, and for each count the latest first
window of the rows that ``span`` windows hold. ``held`` ``int64[room, counts]``: how many other rows
have it, which end by a change of their own; without elements where there are none. Entries are in
order of first appearance; a value that no row has any more stays until the entries are made anew.
``index`` ``int64[capacity]``, the capacity a power of two: a hash table of open addressing with
linear probing, of which at most half is in use. A slot has an entry's number in its lower half, and
31 bits of its hash above, so that nearly every entry that is read is the wanted one; -1 is free.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]

# columns of an entry; from the last one on there is one for each count
KEY, VALUE, LATEST = range(3)
# below the number of any window
NEVER = -(1 << 62)
# places in ``progress``: the next change, the next sample, the entries in use, the next window
CHANGE, SAMPLE, USED, NOW = range(4)
_A, _B, _C = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(29)
_LOW, _TAG = np.uint64(0xFFFFFFFF), np.uint64(0x7FFFFFFF00000000)
_ONE = np.uint64(1)


@jit
def _mix(key: int, value: int) -> np.uint64:
    """Return the hash of a value of a key."""
    mixed = (np.uint64(value) * _A) ^ (np.uint64(key) * _B)
    mixed = (mixed ^ (mixed >> _C)) * _A
    return mixed ^ (mixed >> _C)


@jit
def count_distinct(
    what: Ints,
    key: Ints,
    value: Ints,
    bits: Bits,
    at: Ints,
    of: Ints,
    window: Ints,
    index: Ints,
    entries: Ints,
    held: Ints,
    ring: Ints,
    progress: Ints,
    out: Ints,
) -> bool:
    """Write the numbers of distinct values into ``out`` ``int64[counts, r]``.

    ``ring`` ``int64[1 + span, keys, counts]``: the numbers so far, and how many of these values
    leave with each of the last windows, since only rows have them that ``span`` windows hold.
    Returns False where there is no room for another entry; it then goes on from ``progress`` with
    more. Cost O(1) expected for each change.
    """
    span, counts = len(ring) - 1, ring.shape[2]
    mask = np.uint64(len(index) - 1)
    holds = len(held) > 0
    s = progress[SAMPLE]
    for i in range(progress[CHANGE], len(what) + 1):
        while s < len(at) and at[s] == i:
            k = np.uint64(of[s])
            if span > 0 and (s == 0 or window[s] != window[s - 1]):
                progress[NOW] += 1
            # the values whose last window this is
            place = 1 + (progress[NOW] - span) % span if span > 0 else 0
            for c in range(counts):
                out[c, s] = ring[0, k, c]
                if span > 0:
                    ring[0, k, c] -= ring[place, k, c]
                    ring[place, k, c] = 0
            s += 1
        if i == len(what):
            break
        row = np.uint64(what[i] >> 3)
        wanted = np.int64(bits[row])
        if wanted == 0:
            continue
        k, v = key[row], value[row]
        mixed = _mix(k, v)
        tag, slot = mixed & _TAG, mixed & mask
        while True:
            e = np.uint64(index[slot]) & _LOW
            if index[slot] < 0:
                e = np.uint64(progress[USED])
                if e >= np.uint64(len(entries)):
                    progress[CHANGE], progress[SAMPLE] = i, s
                    return False
                progress[USED] += 1
                index[slot] = np.int64(tag | e)
                entries[e, KEY], entries[e, VALUE] = k, v
                for c in range(counts):
                    entries[e, LATEST + c] = NEVER
                    if holds:
                        held[e, c] = 0
                break
            is_same = (np.uint64(index[slot]) & _TAG) == tag
            if is_same and entries[e, KEY] == k and entries[e, VALUE] == v:
                break
            slot = (slot + _ONE) & mask
        u, now, ends = np.uint64(k), progress[NOW], what[i] & 1
        for c in range(counts):
            if not wanted >> c & 1:
                continue
            count, latest = held[e, c] if holds else 0, entries[e, LATEST + c]
            stays = latest > now - span
            if what[i] & 4:
                entries[e, LATEST + c] = now
                if count == 0 and latest != now:
                    ring[0, u, c] += int(not stays)
                    if stays:
                        ring[1 + latest % span, u, c] -= 1
                    ring[1 + now % span, u, c] += 1
                continue
            held[e, c] = count + 1 - 2 * ends
            change = int(count == 0 and not ends) - int(count == 1 and ends)
            if stays:
                ring[1 + latest % span, u, c] -= change
            else:
                ring[0, u, c] += change
    progress[CHANGE] = progress[SAMPLE] = 0
    return True


@jit
def list_used(entries: Ints, held: Ints, now: int, span: int) -> Ints:
    """Return the numbers of the entries of values that rows have, or may have. O(n)."""
    used = np.empty(len(entries), np.int64)
    r = 0
    for e in range(len(entries)):
        is_used = False
        for c in range(entries.shape[1] - LATEST):
            is_used |= entries[e, LATEST + c] > now - span
            is_used |= len(held) > 0 and held[e, c] > 0
        used[r] = e
        r += int(is_used)
    return used[:r]


@jit
def fill(index: Ints, entries: Ints) -> None:
    """Put entries into an empty index, which has room for all. O(n) expected."""
    mask = np.uint64(len(index) - 1)
    for e in range(len(entries)):
        mixed = _mix(entries[e, KEY], entries[e, VALUE])
        slot = mixed & mask
        while index[slot] >= 0:
            slot = (slot + _ONE) & mask
        index[slot] = np.int64((mixed & _TAG) | np.uint64(e))


@jit
def count_all(entries: Ints, held: Ints, now: int, ring: Ints) -> None:
    """Count the values of entries into an empty ``ring``. O(n)."""
    span = len(ring) - 1
    for e in range(len(entries)):
        for c in range(ring.shape[2]):
            latest, count = entries[e, LATEST + c], held[e, c] if len(held) else 0
            stays = span > 0 and latest > now - span
            k = np.uint64(entries[e, KEY])
            ring[0, k, c] += int(count > 0 or stays)
            if count == 0 and stays:
                ring[1 + latest % span, k, c] += 1
