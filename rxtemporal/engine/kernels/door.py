"""The door for columns: what the per-event door decides, for a whole run in arrival order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import compiled
from rxtemporal.engine.kernels.door_rules import (
    ADJUSTED,
    CTI,
    DROPPED,
    END_EDGE,
    END_MOVED,
    NO_OPEN_ROW,
    NOWHERE,
    ROW,
    START_EDGE,
    closing,
    is_due,
    landing,
    made,
)

# the same rules as for events, compiled
_landing, _closing = compiled(landing), compiled(closing)
_is_due, _made = compiled(is_due), compiled(made)

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]


@compiled
def admit(
    start: Ints,
    end: Ints,
    kind: Bytes,
    row: Ints,
    moved: Ints,
    every: int,
    span: int,
    delay: int,
    adjust: bool,
    state: Ints,
) -> tuple[Ints, Ints, Bytes, Ints]:
    """Return the starts and ends that go on, what became of each item, and the CTI before it.

    ``start``, ``end`` ``int64[n]`` ticks in arrival order. ``kind`` ``int8[n]``, or empty where
    all items are complete rows; a CTI's time is its start. ``row`` ``int64[n]``: for each edge the
    number of its row, -1 where none is open; empty without edges. ``moved`` ``int64[r]``, updated
    in place: the start that each open row was given, NOWHERE before its start edge and after that
    was dropped. ``every`` N or, where that is 0, ``span`` T ticks. ``state`` ``int64[5]``, updated
    in place: the CTI, what it would be without imports, the count of events, the start that last
    made a CTI due, how many events only an import has made late. O(n), one pass.
    """
    n = len(start)
    starts, ends = start.copy(), end.copy()
    reason = np.zeros(n, np.int8)
    before = np.empty(n, np.int64)
    cti, own, count, last, by_import = state[0], state[1], state[2], state[3], state[4]
    for i in range(n):
        what = kind[i] if len(kind) else ROW
        s = start[i]
        before[i] = cti
        if what == CTI:
            cti, own = max(cti, s), max(own, s)
            continue
        if what == END_EDGE:
            given = moved[row[i]] if row[i] >= 0 else NOWHERE
            if given == NOWHERE:
                reason[i] = NO_OPEN_ROW
                continue
            starts[i] = given
            ends[i] = _closing(end[i], cti, given)
            if ends[i] != end[i]:
                reason[i] = END_MOVED
                by_import += end[i] < cti and end[i] >= own
            continue
        if s < cti:
            starts[i] = _landing(s, end[i], cti, adjust)
            reason[i] = DROPPED if starts[i] == NOWHERE else ADJUSTED
            by_import += s >= own
        if what == START_EDGE:
            moved[row[i]] = starts[i]
        count += 1
        if _is_due(s, count, every, span, last):
            last = s
            time = _made(s, delay)
            cti, own = max(cti, time), max(own, time)
    state[0], state[1], state[2], state[3], state[4] = cti, own, count, last, by_import
    return starts, ends, reason, before


@compiled
def advance(start: Ints, every: int, span: int, delay: int, state: Ints) -> bool:
    """Let complete rows advance the state if they come in order and can none of them be late.

    That is so where the first is in time and no CTI runs ahead of the row that made it. Returns
    whether it is; the state is as before otherwise. Outcome and arguments as of ``admit``, of which
    this is the short way. O(n), one look at each row.
    """
    n = len(start)
    if n == 0 or delay < 0 or start[0] < state[0]:
        return False
    falls = 0
    for i in range(1, n):
        falls += start[i] < start[i - 1]
    if falls > 0:
        return False
    cti, own, count, last = state[0], state[1], state[2], state[3]
    # the row that last made a CTI due: of rows in order its CTI is the latest
    due = n
    if every > 0:
        due = n - 1 - (count + n) % every
    else:
        for i in range(n):
            if _is_due(start[i], count + i + 1, every, span, last):
                due, last = i, start[i]
    if 0 <= due < n:
        last = start[due]
        time = _made(last, delay)
        cti, own = max(cti, time), max(own, time)
    state[0], state[1], state[2], state[3] = cti, own, count + n, last
    return True
