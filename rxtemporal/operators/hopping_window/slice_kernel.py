"""Lifetimes cut at all bounds of windows that are strictly inside them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]


@jit
def cut_at_bounds(
    begin: Ints, end: Ints, period: int, starts: int, ends: int, endless: int, most: int
) -> tuple[Ints, Ints, Ints, Ints, bool]:
    """Return the pieces of the lifetimes ``[begin, end)``, ``int64[n]``.

    ``starts``, ``ends``: offsets of the grids of the starts and ends of windows. Returns row, start
    and end of each piece, ``int64[p]``; a lifetime that is empty has none. They are in order of the
    stretches between two bounds in which they lie, and then of rows; or only in order of rows, if
    there are more than a few times as many stretches as pieces. And the numbers of the rows that
    are not cut: those that end at ``endless``, or have more than ``most`` pieces. And True if the
    rows are the pieces. O(n + p); only a row that begins in another stretch than the one before it
    costs divisions.
    """
    n = len(begin)
    count, place = np.empty(n, np.int64), np.empty(n, np.int64)
    waits = np.empty(n, np.int64)
    w = pieces = others = first = last = 0
    low = high = after = until = number = 0
    for i in range(n):
        k = np.uint64(i)
        at, upto = begin[k], end[k]
        if not low <= at < high:
            before = number
            low, after, until, number = _find_stretch(at, period, starts, ends)
            high = min(after, until)
            others += int(number < before and i > 0)
        many = int(at < upto)
        if upto == endless:  # also where no bound is above its begin
            many = most + 1
        elif upto > high:
            many = _count(upto, after, until, period, most)
        waits[np.uint64(w)] = i
        w += int(many > most)
        many = many if many <= most else 0
        count[k], place[k] = many, number
        pieces += many
        others += int(many != 1)
        first = min(first, number) if i > 0 else number
        last = max(last, number + many)
    if others == 0:
        return waits[:0], begin, end, waits[:0], True
    row = np.empty(pieces, np.int64)
    out = np.empty((2, pieces), np.int64)
    if last - first > 4 * pieces + 64:
        _write_by_row(begin, end, count, period, starts, ends, row, out)
    else:
        _write_by_stretch(begin, end, count, place, first, last, period, starts, ends, row, out)
    return row, out[0], out[1], waits[:w], False


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
def _count(upto: int, after: int, until: int, period: int, most: int) -> int:
    """Return the number of pieces of a lifetime that begins before two bounds, up to ``most`` + 1.

    ``after``, ``until``: the first start and the first end of a window above its begin.
    """
    count = 1
    bound = min(after, until)
    while bound < upto and count <= most:
        after += period if after == bound else 0
        until += period if until == bound else 0
        bound = min(after, until)
        count += 1
    return count


@jit
def _write_by_stretch(
    begin: Ints, end: Ints, count: Ints, place: Ints, first: int, last: int,
    period: int, starts: int, ends: int, row: Ints, out: Ints,
) -> None:  # fmt: skip
    """Write pieces in order of the stretches, numbered from ``first`` up to ``last``."""
    n = len(begin)
    # the number of pieces in each stretch, and then where the next one is written
    to = np.zeros(last - first + 2, np.int64)
    for i in range(n):
        k = np.uint64(i)
        to[place[k] - first] += int(count[k] > 0)
        to[place[k] - first + count[k]] -= int(count[k] > 0)
    alive = r = 0
    bounds = np.empty(len(to), np.int64)
    after = until = 0
    for j in range(len(to)):
        alive += to[j]
        to[j] = r
        r += alive
    for i in range(n):
        if place[i] == first:
            _, after, until, _ = _find_stretch(begin[i], period, starts, ends)
            break
    for j in range(len(bounds)):
        bounds[j] = bound = min(after, until)
        after += period if after == bound else 0
        until += period if until == bound else 0
    for i in range(n):
        k = np.uint64(i)
        at, s = begin[k], np.uint64(place[k] - first)
        for _ in range(count[k]):
            p, stop = np.uint64(to[s]), min(end[k], bounds[s])
            to[s] += 1
            row[p], out[0, p], out[1, p] = i, at, stop
            at = stop
            s += np.uint64(1)


@jit
def _write_by_row(
    begin: Ints, end: Ints, count: Ints, period: int, starts: int, ends: int, row: Ints, out: Ints
) -> None:
    """Write pieces in order of rows."""
    r = 0
    for i in range(len(begin)):
        at = begin[i]
        for _ in range(count[i]):
            _, after, until, _ = _find_stretch(at, period, starts, ends)
            stop = min(after, until, end[i])
            row[r], out[0, r], out[1, r] = i, at, stop
            at = stop
            r += 1
