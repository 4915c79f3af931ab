"""Hopping windows as intervals: the stretch of time assigned to the windows that a row touches.

Source: *Taming Hopping Windows*. Each function is a line of numpy, so nothing is compiled.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME

Times = TypeVar("Times", int, npt.NDArray[np.int64])


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


def saturate(times: npt.NDArray[np.int64], before: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return ``times`` limited to the range of time; an end of time in ``before`` stays."""
    times = np.clip(times, MIN_TIME, MAX_TIME)
    ends = (before == MIN_TIME) | (before == MAX_TIME)
    return np.where(ends, before, times) if ends.any() else times
