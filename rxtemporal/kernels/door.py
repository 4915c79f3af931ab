"""The door for columns: what the per-event door decides, for a whole batch in arrival order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.kernels.compiled import compiled
from rxtemporal.ticks import MAX_TIME, MIN_TIME

__all__ = ["admit"]

_MIN, _MAX = MIN_TIME, MAX_TIME

Ints = npt.NDArray[np.int64]


@compiled
def admit(
    start: Ints, end: Ints, every: int, span: int, delay: int, adjust: bool, state: Ints
) -> tuple[Ints, npt.NDArray[np.int8], int]:
    """Return the starts that go on, what became of each row, and the largest lateness.

    ``start``, ``end`` ``int64[n]`` ticks in arrival order. ``every`` N or, where that is 0,
    ``span`` T ticks; both 0: no CTI is ever due. ``state`` ``int64[4]``, updated in place: the CTI,
    the count of events, the start that last made one due, whether one has been. Verdicts: 0 kept,
    1 adjusted (the start is the CTI), 2 dropped. O(n), one pass.
    """
    n = len(start)
    starts = start.copy()
    verdict = np.zeros(n, np.int8)
    largest = 0
    cti, count, last, seen = state[0], state[1], state[2], state[3]
    for i in range(n):
        s = start[i]
        if s < cti:
            largest = max(largest, cti - s)
            if adjust and end[i] > cti:
                starts[i] = cti
                verdict[i] = 1
            else:
                verdict[i] = 2
        if every > 0:
            count += 1
            due = count % every == 0
        else:
            next_due = last if last == _MIN else min(last + span, _MAX)
            due = span > 0 and (seen == 0 or s >= next_due)
            if due:
                last = s
                seen = 1
        if due:
            made = s if s == _MIN else min(max(s - delay, _MIN), _MAX)
            cti = max(cti, made)
    state[0], state[1], state[2], state[3] = cti, count, last, seen
    return starts, verdict, largest
