"""The doors of several streams at once: rows accepted merged by time, CTIs handed on in between."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import compiled
from rxtemporal.engine.kernels.door_rules import ADJUSTED, DROPPED, NOWHERE, is_due, landing, made

# the same rules as for one stream, compiled
_landing, _is_due, _made = compiled(landing), compiled(is_due), compiled(made)

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]


@compiled
def admit_merged(
    order: Ints,
    stream: Ints,
    start: Ints,
    end: Ints,
    settings: Ints,
    first: Ints,
    importer: Ints,
    state: Ints,
) -> tuple[Ints, Bytes, Ints]:
    """Return the starts that go on, what became of each row, and its stream's CTI before it.

    ``order`` ``int64[n]``: the rows' numbers in the order in which they are accepted; ``stream``
    the number of each row's stream, ``start``, ``end`` ticks of complete rows. For each of m
    streams ``settings`` ``int64[m, 4]`` has N or 0, T, the delay and whether late rows are
    adjusted, ``state`` ``int64[m, 5]`` what ``kernels.door.admit`` keeps, updated in place. The
    importers of stream s are ``importer[first[s]:first[s + 1]]``.

    A CTI that advances a stream goes on to its importers before the next row is accepted, and so on
    from them, the end of time excepted. That ends in loops of any size: a stream hands on only what
    has advanced it, so one CTI at most once. O(n + CTIs * m), one pass.
    """
    n = len(order)
    starts = start.copy()
    reason = np.zeros(n, np.int8)
    before = np.empty(n, np.int64)
    waiting = np.empty(len(state), np.int64)
    for at in range(n):
        i = order[at]
        s = stream[i]
        cti, time = state[s, 0], start[i]
        before[i] = cti
        if time < cti:
            starts[i] = _landing(time, end[i], cti, settings[s, 3] != 0)
            reason[i] = DROPPED if starts[i] == NOWHERE else ADJUSTED
            state[s, 4] += time >= state[s, 1]
        state[s, 2] += 1
        if not _is_due(time, state[s, 2], settings[s, 0], settings[s, 1], state[s, 3]):
            continue
        state[s, 3] = time
        reached = _made(time, settings[s, 2])
        state[s, 1] = max(state[s, 1], reached)
        if reached <= cti:
            continue
        state[s, 0] = reached
        waiting[0] = s
        left = 1 if reached < MAX_TIME else 0
        while left:
            left -= 1
            told = waiting[left]
            for k in range(first[told], first[told + 1]):
                each = importer[k]
                if state[each, 0] < reached:
                    state[each, 0] = reached
                    waiting[left] = each
                    left += 1
    return starts, reason, before
