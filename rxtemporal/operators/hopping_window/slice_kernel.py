"""Lifetimes cut at all bounds of windows that are strictly inside them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit

_MAX = MAX_TIME
Ints = npt.NDArray[np.int64]


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
