"""Hopping sweep: for each key, the windows of a regular grid that hold any row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.engine.kernels.window_changes import write_changes

_MIN, _MAX, _TICK = MIN_TIME, MAX_TIME, TICK

Ints = npt.NDArray[np.int64]


@jit
def find_changes(
    first: int,
    start: Ints,
    end: Ints,
    edge: Ints,
    duration: int,
    period: int,
    alignment: int,
    lists: bool,
    span: int,
) -> tuple[Ints, Ints, bool]:
    """Return the changes of rows at the numbers of windows, as ``window_changes.find_changes``.

    Window n is ``[alignment + n * period, … + duration)``. It holds rows from the earliest window
    that ends after their start up to the latest that begins before their end. ``end`` is empty
    where all rows are points. O(n); neighbours in one window cost no division.
    """
    n = len(start)
    begins = np.empty((2, n), np.int64)
    ends = np.empty((2, n), np.int64)
    # starts in [low, high) begin with window ``begin``; ends in (least, most] end before ``after``
    low = least = 1
    high = most = begin = after = r = falls = 0
    for i in range(n):
        row = np.uint64(i)
        before = begin
        if not low <= start[row] < high:
            begin = (start[row] - alignment - duration) // period + 1
            high = alignment + duration + begin * period
            low = high - period
            falls += int(begin < before and i > 0)
        until = end[row] if len(end) else start[row] + _TICK
        if not least < until <= most:
            after = -((alignment - until) // period)
            most = alignment + after * period
            least = most - period
        r = write_changes(
            i, r, first + i, begin, max(after, begin), until, edge[row], lists, span,
            begins, ends,
        )  # fmt: skip
    return begins, ends[:, :r], falls == 0


@jit
def find_windows(
    at: Ints,
    what: Ints,
    key: Ints,
    state: Ints,
    roster: Ints,
    known: int,
    limit: int,
    most: int,
    duration: int,
    period: int,
    alignment: int,
) -> tuple[Ints, Ints, bool, bool]:
    """Return the results of ``sweep_windows``, then those of ``repeat_bounds`` for them.

    The former are key, ``alive`` and the number of the change, ``int64[3, r]``: each array that is
    returned costs half a microsecond. At last True if there are more than ``most`` results.
    """
    found, windows, too_many = sweep_windows(at, what, key, state, roster, known, limit, most)
    times, within = repeat_bounds(windows, found[2], duration, period, alignment)
    return found, times, within, too_many


@jit
def sweep_windows(
    at: Ints,
    what: Ints,
    key: Ints,
    state: Ints,
    roster: Ints,
    known: int,
    limit: int,
    most: int,
) -> tuple[Ints, Ints, bool]:
    """Return the windows before number ``limit`` that hold any row, one result for each key.

    ``at``, ``what`` ``int64[n]``: changes in order of window number, none below ``known``, since
    all earlier windows are known already. Window ``at`` is the first to hold row ``what >> 3``; or
    where ``what & 1``, the first not to hold it; or where ``what & 4``, the first of ``span`` to
    hold it. ``key`` ``int64[rows]``. Updated in place: ``state`` ``int64[keys, 2 + span]``, the
    number of a key's rows alive, 1 if the key is in the ``roster`` of keys with rows
    (``int64[keys + 2]``, its length first), and by their first window, modulo ``span``, the numbers
    of rows that ``span`` windows hold.

    Returns ``int64[3, r]``, window by window: key, ``alive`` and room for the change of a result;
    for each window ``int64[w, 3]``: its number, its first result, and the number of the change
    before which its rows are counted; and True if it has stopped, since there are more than
    ``most`` results. Cost O(n + r): each key in the roster has a result in the window.
    """
    out = np.empty((3, len(at) + 64), np.int64)
    windows = np.empty((64, 3), np.int64)
    i = r = w = 0
    lacking = 1
    while lacking:
        i, r, w, known, lacking = _sweep_until_full(
            i, r, w, known, at, what, key, state, roster, limit, most, out, windows
        )
        if lacking > most:
            break
        if lacking:
            out = _lengthen(out, lacking)
        if w == len(windows):
            windows = _add_rows(windows)
            lacking = 1
    return out[:, :r], windows[:w], lacking > most


@jit
def _sweep_until_full(
    i: int,
    r: int,
    w: int,
    window: int,
    at: Ints,
    what: Ints,
    key: Ints,
    state: Ints,
    roster: Ints,
    limit: int,
    most: int,
    out: Ints,
    windows: Ints,
) -> tuple[int, int, int, int, int]:
    """Write windows and apply changes while there is room.

    Continues at change ``i``, result ``r``, place ``w`` for a window, and window number ``window``;
    returns these four, and the room needed to continue (0: there is enough).
    """
    span = state.shape[1] - 2
    changed = window
    while i < len(at) or window < limit:
        upto = at[i] if i < len(at) else limit
        while window < upto and roster[0] > 0:
            if w == len(windows):
                return i, r, w, window, 0
            if r + roster[0] > out.shape[1]:
                return i, r, w, window, r + roster[0]
            windows[w, 0], windows[w, 1], windows[w, 2] = window, r, i
            first, r = r, _write_window(r, window, state, roster, out)
            w += int(r > first)
            window += 1
            # each key that is left then has a result in every window until the next change
            more = np.float64(upto - window) * np.float64(roster[0])
            if window - changed >= span and more + np.float64(r) > most:
                return i, r, w, window, most + 1
        window = changed = max(window, upto)
        i = _apply(i, window, at, what, key, state, roster)
    return i, r, w, window, 0


@jit
def _write_window(r: int, window: int, state: Ints, roster: Ints, out: Ints) -> int:
    """Write the results of one window from result ``r`` on; return the number of results then.

    Keys without rows after this window are removed from the roster.
    """
    # No branch: it is unpredictable whether a key has a result, and a mispredicted branch costs
    # more than the rest. So the result is always written, and counted only if it is one. Numbers of
    # rows and keys are unsigned: a signed index is tested for being negative each time.
    of, alive = out[0], out[1]
    # this window is the last for the rows that entered so many windows ago
    leave = np.uint64(2 + (window + 1) % (state.shape[1] - 2))
    stay = 0
    for j in range(1, 1 + roster[0]):
        k = np.uint64(roster[np.uint64(j)])
        held = state[k, 0]
        row = np.uint64(r)
        of[row], alive[row] = k, held
        r += int(held > 0)
        lasting = held - state[k, leave]
        state[k, leave] = 0
        state[k, 0] = lasting
        state[k, 1] = int(lasting > 0)
        roster[np.uint64(stay + 1)] = k
        stay += int(lasting > 0)
    roster[0] = stay
    return r


@jit
def _apply(i: int, window: int, at: Ints, what: Ints, key: Ints, state: Ints, roster: Ints) -> int:
    """Apply the changes from number ``i`` on, up to this window's; return the next number."""
    listed = roster[0]
    place = np.uint64(2 + window % (state.shape[1] - 2))
    while i < len(at) and at[i] <= window:
        k = np.uint64(key[np.uint64(what[i] >> 3)])
        state[k, 0] += 1 - 2 * (what[i] & 1)
        state[k, place] += (what[i] >> 2) & 1
        roster[np.uint64(listed + 1)] = k
        listed += 1 - state[k, 1]
        state[k, 1] = 1
        i += 1
    roster[0] = listed
    return i


@jit
def repeat_bounds(
    windows: Ints, at: Ints, duration: int, period: int, alignment: int
) -> tuple[Ints, bool]:
    """Return start and end of each of the r results of ``sweep_windows``.

    ``int64[2, r]``, and True if all windows lie within time. Writes into ``at`` ``int64[r]`` the
    change of each result. O(r).
    """
    times = np.empty((2, len(at)), np.int64)
    beyond = 0
    for w in range(len(windows)):
        first = alignment + windows[w, 0] * period
        last = first + duration
        upto = windows[w + 1, 1] if w + 1 < len(windows) else len(at)
        times[0, windows[w, 1] : upto] = first
        times[1, windows[w, 1] : upto] = last
        at[windows[w, 1] : upto] = windows[w, 2]
        beyond += int(first < _MIN) + int(last >= _MAX)
    return times, beyond == 0


@jit
def _lengthen(out: Ints, size: int) -> Ints:
    longer = np.empty((3, 2 * size), np.int64)
    longer[:, : out.shape[1]] = out
    return longer


@jit
def _add_rows(windows: Ints) -> Ints:
    taller = np.empty((2 * len(windows), 3), np.int64)
    taller[: len(windows)] = windows
    return taller
