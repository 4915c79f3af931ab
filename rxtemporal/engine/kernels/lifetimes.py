"""Shifting and cutting of lifetimes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.compiled import freeze, jit
from rxtemporal.engine.kernels.snap import saturate

Ints = npt.NDArray[np.int64]

# all of time: a longer span means the same, and sums with this one stay far inside int64
LONGEST = MAX_TIME - MIN_TIME


def shift(times: Ints, by: int) -> Ints:
    """Shift times ``int64[n]`` by ticks of either sign; the ends of time stay. O(n)."""
    return saturate(times + max(-LONGEST, min(by, LONGEST)), times)


def add_length(times: Ints, length: Ints | int) -> Ints:
    """Return ``times + length``: the ends of lifetimes of a positive length.

    ``int64[n]``, at most the end of time. O(n). Unlike ``shift`` this moves the beginning of time
    too, since a lifetime that begins there may be short.
    """
    if not isinstance(length, np.ndarray):
        return np.minimum(times + min(length, LONGEST), MAX_TIME)
    return _add_lengths(freeze(times), freeze(length))


@jit
def _add_lengths(times: Ints, length: Ints) -> Ints:
    ends = np.empty(len(times), np.int64)
    for i in range(len(times)):
        ends[i] = min(times[i] + min(length[i], LONGEST), MAX_TIME)
    return ends


def reduce_grid(period: int, offset: int) -> tuple[int, int]:
    """Return a period and offset with the same boundaries ``offset + n * period`` within time.

    Takes Python ints of any size; sums of the results with times fit into int64.
    """
    if period <= LONGEST:
        return period, offset % period
    # at most one boundary lies within time; the others cut nothing
    only = offset - (offset - MIN_TIME) // period * period
    return LONGEST + 1, min(only, MAX_TIME)


def find_boundary_after(times: Ints, period: int, offset: int) -> Ints:
    """Return for each time ``int64[n]`` the least boundary above it. O(n)."""
    return times + period - (times - offset) % period


def count_pieces(start: Ints, end: Ints, period: int, offset: int) -> Ints:
    """Count the pieces of each ``[start, end)``, cut at boundaries strictly inside. O(n)."""
    first = find_boundary_after(start, period, offset)
    return np.where(first < end, (end - 1 - first) // period + 2, 1)


def cut(start: Ints, end: Ints, period: int, offset: int) -> tuple[Ints, Ints, Ints]:
    """Return the row, start and end of each piece of ``[start, end)``, cut at each boundary.

    ``int64[n]`` in, ``int64[p]`` out, by row and then in order of time. O(n + p).
    """
    first = find_boundary_after(start, period, offset)
    count = count_pieces(start, end, period, offset)
    row = np.repeat(np.arange(len(start)), count)
    number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    begins = first[row] + (number - 1) * period
    return (
        row,
        np.where(number == 0, start[row], begins),
        np.where(number == count[row] - 1, end[row], begins + period),
    )
