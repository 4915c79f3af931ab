"""Lifetimes cut at all bounds of windows that are strictly inside them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]


@jit
def cut_at_bounds(
    begin: Ints, end: Ints, starts: tuple[int, int], ends: tuple[int, int], endless: int, most: int
) -> tuple[Ints, Ints, Ints, Ints, bool]:
    """Return the pieces of the lifetimes ``[begin, end)``, ``int64[n]``.

    ``starts``, ``ends``: period and offset of the grids of the starts and ends of windows. Returns
    row, start and end of each piece, ``int64[p]``, by row and then in order of time; a lifetime
    that is empty has none. And the numbers of the rows that are not cut: those that end at
    ``endless``, or have more than ``most`` pieces. And True if each row is one piece. O(n + p);
    neighbours between the same two bounds cost no division.
    """
    n = len(begin)
    count = np.empty(n, np.int64)
    waits = np.empty(n, np.int64)
    w = pieces = others = 0
    low = high = 0
    for i in range(n):
        k = np.uint64(i)
        at, upto = begin[k], end[k]
        if not low <= at < high:
            low, high = _find_bounds(at, starts, ends)
        many = 1
        if upto > high:
            many = most + 1 if upto == endless else _count(high, upto, starts, ends, most)
        count[k] = many if at < upto and many <= most else 0
        waits[np.uint64(w)] = i
        w += int(many > most)
        pieces += count[k]
        others += int(count[k] != 1)
    row = np.empty(pieces, np.int64)
    out = np.empty((2, pieces), np.int64)
    r = 0
    for i in range(n):
        k = np.uint64(i)
        at = begin[k]
        for _ in range(count[k] - 1):
            if not low <= at < high:
                low, high = _find_bounds(at, starts, ends)
            row[np.uint64(r)], out[0, np.uint64(r)], out[1, np.uint64(r)] = i, at, high
            at = high
            r += 1
        if count[k] > 0:
            row[np.uint64(r)], out[0, np.uint64(r)], out[1, np.uint64(r)] = i, at, end[k]
            r += 1
    return row, out[0], out[1], waits[:w], others == 0


@jit
def _count(bound: int, upto: int, starts: tuple[int, int], ends: tuple[int, int], most: int) -> int:
    """Return the number of pieces of a lifetime that begins before a bound, up to ``most`` + 1."""
    count = 1
    while bound < upto and count <= most:
        bound = _find_bounds(bound, starts, ends)[1]
        count += 1
    return count


@jit
def _find_bounds(time: int, starts: tuple[int, int], ends: tuple[int, int]) -> tuple[int, int]:
    """Return the last bound that is not above a time, and the first one above it."""
    after = (time - starts[1]) % starts[0]
    until = (time - ends[1]) % ends[0]
    return time - min(after, until), time + min(starts[0] - after, ends[0] - until)
