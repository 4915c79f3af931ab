"""Hopping windows as intervals: the stretch of time assigned to the windows that a row touches.

Source: *Taming Hopping Windows*.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.compiled import jit

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
