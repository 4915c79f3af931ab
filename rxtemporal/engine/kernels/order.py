"""Order in time: sorting, and merging of sorted runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]


def find_order(times: Ints) -> Ints | None:
    """Return the row numbers in order of time, by a stable sort; None if rows are in order.

    ``int64[n]`` in and out. Sorts times packed with their row numbers where both fit into one
    int64 (a batch of 65,536 rows may span four years), several times as fast as a stable argsort.
    """
    if len(times) < 2 or is_sorted(times):
        return None
    least, most = _find_range(times)
    bits = len(times).bit_length()
    # as plain Python the kernel returns numpy's integers
    if int(most - least).bit_length() + bits > 62:
        return np.argsort(times, kind="stable")
    packed = _pack(times, least, bits)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


@jit
def is_sorted(times: Ints) -> bool:
    """Return True if times ``int64[n]`` never fall. O(n)."""
    falls = 0
    for i in range(1, len(times)):
        falls += times[i] < times[i - 1]
    return falls == 0


@jit
def _find_range(times: Ints) -> tuple[int, int]:
    """Return the lowest and the highest of times ``int64[n]``, n > 0. O(n)."""
    least = most = times[0]
    for i in range(1, len(times)):
        least = min(least, times[i])
        most = max(most, times[i])
    return least, most


@jit
def _pack(times: Ints, least: int, bits: int) -> Ints:
    """Return times less ``least`` with their row numbers in the lowest ``bits``. O(n)."""
    packed = np.empty(len(times), np.int64)
    for i in range(len(times)):
        packed[i] = ((times[i] - least) << bits) | i
    return packed


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
    n, m = len(time), len(time2)
    out_time = np.empty(n + m, np.int64)
    out_what = np.empty(n + m, np.int64)
    i = j = np.uint64(0)
    # no branch: which run is next is unpredictable. Unsigned: a signed index is tested each time
    while i < np.uint64(n) and j < np.uint64(m):
        r = i + j
        first = time[i] <= time2[j]
        out_time[r] = time[i] if first else time2[j]
        out_what[r] = what[i] if first else what2[j]
        i += np.uint64(first)
        j += np.uint64(not first)
    out_time[i + j : j + np.uint64(n)] = time[i:]
    out_what[i + j : j + np.uint64(n)] = what[i:]
    out_time[np.uint64(n) + j :] = time2[j:]
    out_what[np.uint64(n) + j :] = what2[j:]
    return out_time, out_what


@jit
def renumber(what: Ints, new: Ints, bits: int) -> Ints:
    """Return entries with new row numbers; the lowest ``bits`` of each stay.

    ``what`` ``int64[n]``. ``new`` ``int64[rows]``: -1 for a row that was removed, whose entries
    become negative. O(n).
    """
    mask = (1 << bits) - 1
    out = np.empty(len(what), np.int64)
    for i in range(len(what)):
        out[i] = (new[np.uint64(what[i] >> bits)] << bits) | (what[i] & mask)
    return out
