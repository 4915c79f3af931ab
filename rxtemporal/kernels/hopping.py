"""The hopping sweep: for each key, the windows of a regular grid that hold anything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.kernels.compiled import compiled
from rxtemporal.ticks import MAX_TIME, MIN_TIME

__all__ = ["first_window", "hops", "last_window", "lifetimes"]

_MIN, _MAX = MIN_TIME, MAX_TIME

Ints = npt.NDArray[np.int64]


@compiled
def first_window(time: Ints, duration: int, period: int, alignment: int) -> Ints:
    """Return the number of the earliest window that ends after each time, ``int64[n]``.

    Window n is ``[alignment + n * period, … + duration)``. O(n); equal neighbours cost no division.
    """
    out = np.empty(len(time), np.int64)
    first = alignment + duration
    low = 1
    high = 0
    number = 0
    for i in range(len(time)):
        t = time[i]
        if not low <= t < high:
            number = (t - first) // period + 1
            high = first + number * period
            low = high - period
        out[i] = number
    return out


@compiled
def last_window(time: Ints, period: int, alignment: int) -> Ints:
    """Return the number of the latest window that begins before each time, ``int64[n]``."""
    out = np.empty(len(time), np.int64)
    low = 1
    high = 0
    number = 0
    for i in range(len(time)):
        t = time[i]
        if not low < t <= high:
            number = -((alignment - t) // period) - 1
            low = alignment + number * period
            high = low + period
        out[i] = number
    return out


@compiled
def lifetimes(number: Ints, duration: int, period: int, alignment: int) -> tuple[Ints, Ints, bool]:
    """Return where windows begin and end, ``int64[n]``, and whether all are within time. O(n)."""
    start = np.empty(len(number), np.int64)
    end = np.empty(len(number), np.int64)
    beyond = 0
    for i in range(len(number)):
        start[i] = alignment + number[i] * period
        end[i] = start[i] + duration
        beyond += int(start[i] < _MIN) + int(end[i] >= _MAX)
    return start, end, beyond == 0


@compiled
def hops(
    at: Ints, what: Ints, key: Ints, state: Ints, roster: Ints, limit: int, most: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the windows before number ``limit`` that hold anything, one row for each key.

    ``at``, ``what`` ``int64[n]``: changes in order of window number: row ``what >> 3`` is first
    held (or, where ``what & 1``, no longer held; where ``what & 4``, held alone) by window ``at``.
    ``key`` ``int64[rows]``. Updated in place: ``state`` ``int64[keys, 4]``: how many rows of a key
    are alive, the next window to tell of, whether the key is in the ``roster`` of those that hold
    something (``int64[keys + 1]``, its length first), and how many rows that window holds alone.

    Returns ``number, key, at, alive`` of the results, ``int64[r]``, in order of ``at``; the
    window's contents are those before change ``at``. Where there are more than ``most`` it stops,
    and returns none and an ``alive`` that is not empty. Cost O(n + r).
    """
    out = np.empty((4, len(at) + 64), np.int64)
    i = r = 0
    while i < len(at):
        i, r, lacking = _until_full(i, r, at, what, key, state, roster, out)
        if lacking > most:
            return out[0, :0], out[1, :0], out[2, :0], out[3]
        if lacking:
            out = _longer(out, lacking)
    listed, roster[0] = roster[0], 0
    for j in range(1, 1 + listed):
        k = roster[j]
        if state[k, 0] == 0 and state[k, 3] == 0:
            state[k, 2] = 0
            continue
        roster[0] += 1
        roster[roster[0]] = k
        more = limit - state[k, 1] if state[k, 0] > 0 else 1
        if r + more > out.shape[1]:
            if r + more > most:
                return out[0, :0], out[1, :0], out[2, :0], out[3]
            out = _longer(out, r + more)
        r = _told(r, state[k, 1], limit, k, len(at), state[k, 0], state[k, 3], out)
        state[k, 1] = max(state[k, 1], limit)
        state[k, 3] = 0
    return out[0, :r], out[1, :r], out[2, :r], out[3, :r]


@compiled
def _until_full(
    i: int, r: int, at: Ints, what: Ints, key: Ints, state: Ints, roster: Ints, out: Ints
) -> tuple[int, int, int]:
    """Apply the changes from number ``i`` on while there is room for what they tell.

    Returns the next change and result, and how much room is needed to go on (0: nothing is left).
    """
    # Whether a change tells of a window is as good as chance, and a wrong guess costs more than the
    # rest: so the row is written in any case, and counted if it is one. Numbers of rows and keys
    # are unsigned: a signed index is tested for being negative each time.
    room = out.shape[1]
    number, of, before, alive = out[0], out[1], out[2], out[3]
    while i < len(at):
        k = np.uint64(key[np.uint64(what[i] >> 3)])
        held = state[k, 0]
        window = state[k, 1]
        alone = state[k, 3]
        upto = at[i]
        if r == room:
            return i, r, r + 1
        place = np.uint64(r)
        number[place], of[place], before[place], alive[place] = window, k, i, held + alone
        tells = int(held + alone > 0) & int(window < upto)
        if held > 0 and window + 1 < upto:
            if r + upto - window > room:
                return i, r, r + upto - window
            r = _told(r + 1, window + 1, upto, k, i, held, 0, out)  # type: ignore[arg-type]
        else:
            r += tells
        once = (what[i] >> 2) & 1
        state[k, 0] = held + (1 - once) * (1 - 2 * (what[i] & 1))
        state[k, 1] = upto
        state[k, 3] = alone * (1 - tells) + once
        if state[k, 2] == 0:
            state[k, 2] = 1
            roster[0] += 1
            roster[roster[0]] = k
        i += 1
    return i, r, 0


@compiled
def _told(
    r: int, window: int, upto: int, k: int, before: int, held: int, alone: int, out: Ints
) -> int:
    """Write a result for each window below ``upto`` that holds anything; return how many there are.

    The first of the windows holds ``alone`` so many rows more.
    """
    if alone > 0 and window < upto:
        out[0, r] = window
        out[1, r] = k
        out[2, r] = before
        out[3, r] = held + alone
        r += 1
        window += 1
    while held > 0 and window < upto:
        out[0, r] = window
        out[1, r] = k
        out[2, r] = before
        out[3, r] = held
        r += 1
        window += 1
    return r


@compiled
def _longer(out: Ints, size: int) -> Ints:
    longer = np.empty((4, 2 * size), np.int64)
    longer[:, : out.shape[1]] = out
    return longer
