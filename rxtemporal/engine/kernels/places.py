"""Places of times among bounds that are not regular."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit

_MAX = MAX_TIME
Ints = npt.NDArray[np.int64]


@jit
def find_places(time: Ints, bounds: Ints, numbers: Ints, step: int) -> tuple[Ints, bool]:
    """Return the place of each time, ``int64[n]``: 2 n of bound number n, 2 n + 1 of times after.

    ``bounds``, ``numbers`` ``int64[m]``: bounds in order, and their numbers; with ``step`` a bound
    follows each such span after one of them, up to the next. The end of time stays as it is. And
    True if all times lie between the second bound and the last but one. Cost O(n) and a search for
    each time whose neighbour lies between other bounds.
    """
    n = len(time)
    places = np.empty(n, np.int64)
    low = high = number = 0
    inside = True
    for i in range(n):
        row = np.uint64(i)
        at = time[row]
        if not low <= at < high:
            if at == _MAX:
                places[row] = at
                continue
            k = min(max(np.searchsorted(bounds, at, side="right") - 1, 0), len(bounds) - 2)
            inside = inside and 0 < k < len(bounds) - 2
            low, high, number = bounds[k], bounds[k + 1], numbers[k]
            if step > 0:
                steps = (at - low) // step
                number += steps
                low += steps * step
                high = min(low + step, high)
        places[row] = 2 * number + int(at != low)
    return places, inside


@jit
def find_end_places(time: Ints, bounds: Ints, numbers: Ints, step: int) -> tuple[Ints, bool]:
    """Return the place of each end: that of a bound is of the first of several at one time.

    Arguments, results and cost are those of ``find_places``. So what ends at a bound does not
    overlap a unit without a length that begins there.
    """
    n = len(time)
    places = np.empty(n, np.int64)
    low = high = number = 0
    inside = True
    for i in range(n):
        row = np.uint64(i)
        at = time[row]
        if not low < at <= high:
            if at == _MAX:
                places[row] = at
                continue
            k = min(max(np.searchsorted(bounds, at) - 1, 0), len(bounds) - 2)
            inside = inside and 0 < k < len(bounds) - 2
            low, high, number = bounds[k], bounds[k + 1], numbers[k]
            if step > 0:
                steps = (at - low - 1) // step
                number += steps
                low += steps * step
                high = min(low + step, high)
        places[row] = 2 * number + 1 + int(at == high)
    return places, inside


@jit
def find_bounds(number: Ints, bounds: Ints, numbers: Ints, step: int) -> tuple[Ints, bool]:
    """Return the bounds of these numbers, ``int64[n]``, and True if the table has all of them.

    The table as for ``find_places``. O(n) for neighbours, and a search for each other one.
    """
    n = len(number)
    found = np.empty(n, np.int64)
    inside = True
    k = 0
    for i in range(n):
        row = np.uint64(i)
        wanted = number[row]
        if not (k < len(bounds) - 1 and numbers[k] <= wanted < numbers[k + 1]):
            k = np.searchsorted(numbers, wanted, side="right") - 1
            if not 0 <= k < len(bounds) - 1:
                k = min(max(k, 0), len(bounds) - 1)
                found[row] = bounds[k]
                inside = False
                continue
        found[row] = bounds[k] + (wanted - numbers[k]) * step
    return found, inside
