"""Hopping sweep: for each key, the windows of a regular grid that hold any row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.operators.windows.kernels.changes import write_changes
from rxtemporal.operators.windows.kernels.float_sums import (
    Tally,
    Weight,
    add_values,
    write_sums,
)

_MIN, _MAX, _TICK = MIN_TIME, MAX_TIME, TICK

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


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
def lie_in_units(start: Ints, end: Ints, period: int, origin: int) -> bool:
    """Return True if each row lies in one unit of time, none earlier than that of the row before.

    Units are ``[origin + n * period, … + period)``. ``end`` is empty where all rows are points.
    False if a row never ends. O(n); it ends with the first row that does not fit.
    """
    low = high = _MIN
    for i in range(len(start)):
        row = np.uint64(i)
        begin = start[row]
        if not low <= begin < high:
            if begin < low:
                return False
            low = begin - (begin - origin) % period
            high = low + period
        if len(end) and (end[row] > high or end[row] == _MAX):
            return False
    return True


@jit
def find_windows(
    i: int,
    r: int,
    window: int,
    at: Ints,
    what: Ints,
    key: Ints,
    origin: int,
    spacing: int,
    state: Ints,
    roster: Ints,
    limit: int,
    most: int,
    duration: int,
    period: int,
    alignment: int,
    value: Floats,
    weight: Weight,
    sums: Floats,
    tally: Tally,
    rest: Ints,
    counts: Ints,
    mean: bool,
    found: Ints,
    out: Floats,
    there: Bools,
) -> tuple[int, int, int, int, bool, int]:
    """Write the windows before number ``limit`` that hold any row, one result for each key.

    ``at``, ``what`` ``int64[n]``: changes in order of window number, none below ``window``, since
    all earlier windows are known already. ``(at - origin) // spacing`` is the number of the first
    window to hold row ``what >> 3``; or where ``what & 1``, the first not to hold it; or where
    ``what & 4``, the first of ``span`` to hold it. ``key`` ``int64[rows]``. Updated in place:
    ``state`` ``int64[keys, 2 + span]``, the number of a key's rows alive, 1 if the key is in the
    ``roster`` of keys with rows (``int64[keys + 2]``, its length first), and by their first window,
    modulo ``span``, the numbers of rows that ``span`` windows hold. ``value`` to ``mean`` are as in
    ``float_sums``, for a sum that is computed in the same pass, which is cheaper; with ``counts``
    ``int64[0]`` there is none. It may stop, which ``counts`` says, while the windows go on.

    Writes, window by window, to ``found`` ``int64[5, r]``: key, ``alive`` and the number of the
    change before which the rows of a result are counted, start and end of its window; and to
    ``out`` and ``there`` the sums.

    Begins at change ``i``, result ``r`` and number ``window``. Returns these three where it stops;
    the room needed to continue, which is 0 if all is done, and above ``most`` if there are more
    results; True if all windows written lie within time; and the number of results without values.
    Cost O(n + r): each key in the roster has a result in the window.
    """
    span = state.shape[1] - 2
    # an index of one number is faster
    by_place, weights = sums.reshape((-1, 4)), tally.reshape((-1, 4))
    changed = window
    within, empty = True, 0
    while i < len(at) or window < limit:
        upto = (at[i] - origin) // spacing if i < len(at) else limit
        while window < upto and roster[0] > 0:
            if r + roster[0] > found.shape[1]:
                return i, r, window, r + roster[0], within, empty
            first, r = r, _list_keys(r, window, state, roster, found)
            if r > first:
                start = alignment + window * period
                found[2, first:r], found[3, first:r], found[4, first:r] = i, start, start + duration
                within = within and start >= _MIN and start + duration < _MAX
                if len(counts):
                    of = found[0]
                    empty += write_sums(
                        first, r, of, sums, by_place, weights, rest, counts, mean, out, there
                    )  # fmt: skip
            window += 1
            # each key that is left then has a result in every window until the next change
            more = np.float64(upto - window) * np.float64(roster[0])
            if window - changed >= span and more + np.float64(r) > most:
                return i, r, window, most + 1, within, empty
        window = changed = max(window, upto)
        before = origin + (window + 1) * spacing
        first, i = i, _apply(i, window, before, at, what, key, state, roster)
        if len(counts):
            add_values(
                first, i, what, key, value, weight, sums, by_place, weights, rest, counts
            )  # fmt: skip
    return i, r, window, 0, within, empty


@jit
def _list_keys(r: int, window: int, state: Ints, roster: Ints, found: Ints) -> int:
    """Write the keys of one window and their numbers of rows from result ``r`` on.

    Returns the number of results then. Keys without rows after this window leave the roster.
    """
    # No branch: it is unpredictable whether a key has a result, and a mispredicted branch costs
    # more than the rest. So the result is always written, and counted only if it is one. Numbers of
    # rows and keys are unsigned: a signed index is tested for being negative each time.
    of, alive = found[0], found[1]
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
def _apply(
    i: int, window: int, before: int, at: Ints, what: Ints, key: Ints, state: Ints, roster: Ints
) -> int:
    """Apply the changes from number ``i`` on that are below ``before``; return the next number."""
    listed = roster[0]
    place = np.uint64(2 + window % (state.shape[1] - 2))
    while i < len(at) and at[i] < before:
        k = np.uint64(key[np.uint64(what[i] >> 3)])
        state[k, 0] += 1 - 2 * (what[i] & 1)
        state[k, place] += (what[i] >> 2) & 1
        roster[np.uint64(listed + 1)] = k
        listed += 1 - state[k, 1]
        state[k, 1] = 1
        i += 1
    roster[0] = listed
    return i
