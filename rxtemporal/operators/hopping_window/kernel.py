"""Hopping windows: a sweep over those that hold any row, and lifetimes cut at their bounds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.operators.windows.kernels.changes import write_changes
from rxtemporal.operators.windows.kernels.float_sums import (
    Rest,
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
    rest: Rest,
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


@jit
def find_stops(begin: Ints, end: Ints, high: int, most: int) -> tuple[Ints, Ints, Ints, int]:
    """Return up to when lifetimes ``[begin, end)`` are cut now, ``int64[n]``.

    ``high`` is the first bound above the CTI. A lifetime that begins before it is cut up to there,
    and one that begins later is cut whole. But one that never ends is not cut, nor one that begins
    later and is longer than ``most``. Also returns the numbers of lifetimes with a rest, the
    numbers of those that are not cut, and the greatest length that is cut of one. O(n).
    """
    n = len(begin)
    stop, rest, waiting = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    r = w = longest = 0
    # no branches: they would be unpredictable, and a number is counted only if it is one
    for i in range(n):
        row = np.uint64(i)
        at, until = begin[row], end[row]
        upto = until if at >= high else min(until, high)
        waits = until == _MAX or (at >= high and until - at > most)
        upto = at if waits else upto
        stop[row], rest[np.uint64(r)], waiting[np.uint64(w)] = upto, i, i
        r += int(upto < until and not waits)
        w += int(waits)
        longest = max(longest, upto - at)
    return stop, rest[:r], waiting[:w], longest


@jit
def cut_at_bounds(
    begin: Ints, end: Ints, period: int, starts: int, ends: int
) -> tuple[Ints, Ints, Ints, bool]:
    """Return the pieces of the lifetimes ``[begin, end)``, ``int64[n]``.

    ``starts``, ``ends``: offsets of the grids of the starts and ends of windows. Returns row, start
    and end of each piece, ``int64[p]``; a lifetime that is empty has none. They are in order of the
    stretches between two bounds in which they lie, and then of rows; or only in order of rows, if
    there are more than a few times as many stretches as pieces. And True if the rows are the
    pieces. O(n + p); only a row that begins in another stretch than the one before it costs
    divisions.
    """
    n = len(begin)
    if n == 0:
        return np.empty(0, np.int64), begin, end, True
    least, most = begin[0], end[0]
    for i in range(n):
        least, most = min(least, begin[i]), max(most, end[i])
    _, after, until, first = _find_stretch(least, period, starts, ends)
    stretches = _find_stretch(most, period, starts, ends)[3] - first + 1
    if stretches > 64 + 4 * n and stretches > 64 + 4 * (n + _add_lengths(begin, end) / period):
        return _cut_by_row(begin, end, period, starts, ends)
    # one more than there are, since a row is looked at in the stretch after its first one
    bounds = np.empty(stretches + 1, np.int64)
    for j in range(len(bounds)):
        bounds[j] = bound = min(after, until)
        after += period if after == bound else 0
        until += period if until == bound else 0
    return _cut_by_stretch(begin, end, bounds, first, period, starts, ends)


@jit
def _find_stretch(time: int, period: int, starts: int, ends: int) -> tuple[int, int, int, int]:
    """Return the stretch between two bounds in which a time lies.

    The last bound that is not above it, the first start and the first end of a window above it, and
    the number of the stretch. The next stretch has the next number.
    """
    opened, closed = (time - starts) // period, (time - ends) // period
    after, until = starts + (opened + 1) * period, ends + (closed + 1) * period
    number = opened if (starts - ends) % period == 0 else opened + closed
    return max(after, until) - period, after, until, number


@jit
def _add_lengths(begin: Ints, end: Ints) -> float:
    """Return the sum of the lengths of lifetimes, which may be above any integer."""
    length = 0.0
    for i in range(len(begin)):
        length += np.float64(end[i] - begin[i])
    return length


@jit
def _cut_by_stretch(
    begin: Ints, end: Ints, bounds: Ints, first: int, period: int, starts: int, ends: int
) -> tuple[Ints, Ints, Ints, bool]:
    """Return pieces in order of the stretches, of which ``bounds`` has the ends.

    ``first`` is the number of the first stretch.
    """
    n = len(begin)
    place = np.empty(n, np.int64)
    # the number of pieces in each stretch, and then where the next one is written
    to = np.zeros(len(bounds), np.int64)
    one = np.uint64(1)
    others = s = low = high = 0
    # No branch for the second piece: it is unpredictable whether a row has one, and a mispredicted
    # branch costs more than the rest. Few rows have a third one.
    for i in range(n):
        k = np.uint64(i)
        at, upto = begin[k], end[k]
        if not low <= at < high:
            before = s
            low, after, until, number = _find_stretch(at, period, starts, ends)
            high, s = min(after, until), number - first
            others += int(s < before)
        place[k] = s
        t = np.uint64(s)
        to[t] += int(at < upto)
        others += int(at >= upto) + int(upto > high)
        t += one
        to[t] += int(upto > high)
        while upto > bounds[t]:
            t += one
            to[t] += 1
    if others == 0:
        return place[:0], begin, end, True
    pieces = 0
    for j in range(len(to)):
        to[j], pieces = pieces, pieces + to[j]
    # a piece that a row does not have is written behind all others
    row, out = np.empty(pieces + 1, np.int64), np.empty((2, pieces + 1), np.int64)
    none = np.uint64(pieces)
    for i in range(n):
        k = np.uint64(i)
        at, upto, t = begin[k], end[k], np.uint64(place[k])
        stop = bounds[t]
        p = np.uint64(to[t]) if at < upto else none
        row[p], out[0, p], out[1, p] = i, at, min(upto, stop)
        to[t] += int(at < upto)
        t += one
        p = np.uint64(to[t]) if upto > stop else none
        row[p], out[0, p], out[1, p] = i, stop, min(upto, bounds[t])
        to[t] += int(upto > stop)
        while upto > bounds[t]:
            at = bounds[t]
            t += one
            p = np.uint64(to[t])
            row[p], out[0, p], out[1, p] = i, at, min(upto, bounds[t])
            to[t] += 1
    return row[:-1], out[0, :-1], out[1, :-1], False


@jit
def _cut_by_row(
    begin: Ints, end: Ints, period: int, starts: int, ends: int
) -> tuple[Ints, Ints, Ints, bool]:
    """Return pieces in order of rows."""
    pieces = 0
    for i in range(len(begin)):
        at = begin[i]
        while at < end[i]:
            _, after, until, _ = _find_stretch(at, period, starts, ends)
            at = min(after, until)
            pieces += 1
    row, out = np.empty(pieces, np.int64), np.empty((2, pieces), np.int64)
    r = 0
    for i in range(len(begin)):
        at = begin[i]
        while at < end[i]:
            _, after, until, _ = _find_stretch(at, period, starts, ends)
            stop = min(after, until, end[i])
            row[r], out[0, r], out[1, r] = i, at, stop
            at = stop
            r += 1
    return row, out[0], out[1], False
