"""Lifetimes shifted, cut, and snapped to the windows that they touch.

Source of the snapping: *Taming Hopping Windows*.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.compiled import freeze, jit

Times = TypeVar("Times", int, npt.NDArray[np.int64])

_MIN, _MAX = MIN_TIME, MAX_TIME


def snap(time: Times, alignment: int, period: int) -> Times:
    """Return the greatest ``alignment + n * period`` that is not above ``time``.

    ``int64[n]`` ticks or one int; O(n). The document's ``SnapToBoundary`` is written for a ``%``
    that keeps the sign and gives ``alignment - period`` for ``time == alignment``; floor-modulo
    gives what its prose says, without a special case.
    """
    return time - (time - alignment) % period


def snap_start(start: npt.NDArray[np.int64], d: int, p: int, a: int) -> npt.NDArray[np.int64]:
    """Return the start of the interval assigned to the earliest window that ends after ``start``.

    It is that window's end. ``int64[n]`` ticks; ``MIN_TIME`` stays.
    """
    return saturate(snap(start, a + d, p) + p, start)


def snap_end(end: npt.NDArray[np.int64], d: int, p: int, a: int) -> npt.NDArray[np.int64]:
    """Return the end of the interval assigned to the latest window that begins before ``end``.

    ``int64[n]`` ticks; ``MAX_TIME`` stays.
    """
    return saturate(snap(end - 1, a, p) + p + d, end)


@jit
def saturate(times: npt.NDArray[np.int64], before: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return ``times`` limited to the range of time; an end of time in ``before`` stays.

    ``int64[n]`` each. O(n); compiled, since a dozen calls of numpy cost more than few rows do.
    """
    out = np.empty(len(times), np.int64)
    for i in range(len(times)):
        if before[i] == _MIN or before[i] == _MAX:
            out[i] = before[i]
        else:
            out[i] = min(max(times[i], _MIN), _MAX)
    return out


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
