"""Overlaps of rows with the windows that hold them, as pairs of a window and a row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]


@jit
def measure_cover(window: Ints, start: Ints, end: Ints) -> Ints:
    """Return for how many ticks each row is alive in its window while no row before it is.

    ``int64[n]`` each: the number of the window, and the part of the row's lifetime that lies in it,
    in order of window and start. The sum over a window is the time in which any row is alive. O(n).
    """
    n = len(window)
    cover = np.empty(n, np.int64)
    upto = 0
    for i in range(n):
        if i == 0 or window[i] != window[i - 1]:
            upto = start[i]
        cover[i] = max(end[i] - max(start[i], upto), 0)
        upto = max(upto, end[i])
    return cover
