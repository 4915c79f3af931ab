"""Order in time: sorting, and merging of sorted runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
# of so many entries those that are late are sorted alone, if there are so many times more in all
MANY, LATE = 4096, 3


def sort(time: Ints, what: Ints) -> tuple[Ints, Ints]:
    """Return entries in order of time, by a stable sort; the same arrays if they are in order.

    ``int64[n]``, n > 0. Where most of many are in order, as events of which some come late, only
    the others are sorted, and merged with these.
    """
    if is_sorted(time):
        return time, what
    if len(time) >= MANY:
        in_time, in_time_what, late, late_what = _split(time, what)
        if LATE * len(late) <= len(time):
            # of equal times those in time come first: one that came after them would be in time
            return _merge(in_time, in_time_what, *_sort_all(late, late_what))
    return _sort_all(time, what)


def _sort_all(time: Ints, what: Ints) -> tuple[Ints, Ints]:
    """Return entries in order of time, by a stable sort.

    Sorts times packed with their row numbers where both fit into one int64 (a batch of 65,536 rows
    may span four years), several times as fast as a stable argsort.
    """
    packed, least, bits = _pack(time)
    if not bits:
        order = np.argsort(time, kind="stable")
        return time[order], what[order]
    packed.sort()
    return _unpack(packed, least, bits, what)


@jit
def _split(time: Ints, what: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the entries that are not before a preceding one, then the others, the late ones.

    Of each the times and the entries, as they came. O(n).
    """
    n = len(time)
    in_time, in_time_what = np.empty(n, np.int64), np.empty(n, np.int64)
    late, late_what = np.empty(n, np.int64), np.empty(n, np.int64)
    p = q = np.uint64(0)
    latest = time[0]
    for i in range(n):
        row = np.uint64(i)
        t, w = time[row], what[row]
        # always written, and counted only once: a branch would be unpredictable
        in_time[p], in_time_what[p], late[q], late_what[q] = t, w, t, w
        p += np.uint64(t >= latest)
        q += np.uint64(t < latest)
        latest = max(latest, t)
    return in_time[:p], in_time_what[:p], late[:q], late_what[:q]


@jit
def is_sorted(times: Ints) -> bool:
    """Return True if times ``int64[n]`` never fall. O(n)."""
    falls = 0
    for i in range(1, len(times)):
        falls += times[i] < times[i - 1]
    return falls == 0


@jit
def _pack(time: Ints) -> tuple[Ints, int, int]:
    """Return times less the least one with their numbers in the lowest bits.

    Then the least time and the number of those bits: 0 if they do not fit, and nothing is packed.
    O(n).
    """
    least = most = time[0]
    for i in range(1, len(time)):
        least = min(least, time[i])
        most = max(most, time[i])
    bits = 0
    while len(time) >> bits:
        bits += 1
    # as floats: the difference of distant times is not an int64
    if np.float64(most) - np.float64(least) >= np.float64(1 << (62 - bits)):
        return np.empty(0, np.int64), least, 0
    packed = np.empty(len(time), np.int64)
    for i in range(len(time)):
        packed[i] = ((time[i] - least) << bits) | i
    return packed, least, bits


@jit
def _unpack(packed: Ints, least: int, bits: int, what: Ints) -> tuple[Ints, Ints]:
    """Return the times that are packed, and the entries that have their numbers. O(n)."""
    mask = (1 << bits) - 1
    out_time = np.empty(len(packed), np.int64)
    out_what = np.empty(len(packed), np.int64)
    for i in range(len(packed)):
        out_time[i] = (packed[i] >> bits) + least
        out_what[i] = what[np.uint64(packed[i] & mask)]
    return out_time, out_what


def merge(time: Ints, what: Ints, time2: Ints, what2: Ints) -> tuple[Ints, Ints]:
    """Merge two runs, each in order of time; at equal times the first run's entries come first.

    All ``int64``. O(n + m).
    """
    if not len(time):
        return time2, what2
    if not len(time2):
        return time, what
    if time[-1] <= time2[0]:
        return np.concatenate([time, time2]), np.concatenate([what, what2])
    return _merge(time, what, time2, what2)


@jit
def _merge(time: Ints, what: Ints, time2: Ints, what2: Ints) -> tuple[Ints, Ints]:
    n, m = np.uint64(len(time)), np.uint64(len(time2))
    out_time = np.empty(n + m, np.int64)
    out_what = np.empty(n + m, np.int64)
    one = np.uint64(1)
    i = j = np.uint64(0)
    # From both sides at once, since the next step at one side waits for the last one. No branch:
    # which run is next is unpredictable. Unsigned: a signed index is tested each time.
    while min(n - i, m - j) > one:
        for _ in range(min(n - i, m - j) >> one):
            first = time[i] <= time2[j]
            out_time[i + j] = time[i] if first else time2[j]
            out_what[i + j] = what[i] if first else what2[j]
            i += np.uint64(first)
            j += np.uint64(not first)
            r, p, q = n + m - one, n - one, m - one
            second = time[p] <= time2[q]
            out_time[r] = time2[q] if second else time[p]
            out_what[r] = what2[q] if second else what[p]
            n -= np.uint64(not second)
            m -= np.uint64(second)
    while i < n and j < m:
        first = time[i] <= time2[j]
        out_time[i + j] = time[i] if first else time2[j]
        out_what[i + j] = what[i] if first else what2[j]
        i += np.uint64(first)
        j += np.uint64(not first)
    out_time[i + j : n + j] = time[i:n]
    out_what[i + j : n + j] = what[i:n]
    out_time[n + j : n + m] = time2[j:m]
    out_what[n + j : n + m] = what2[j:m]
    return out_time, out_what
