"""Pairs of rows of two streams whose keys are equal and whose lifetimes overlap."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.kernels.compiled import compiled, inlined
from rxtemporal.ticks import MAX_TIME

__all__ = ["NOT_LISTED", "close", "find_pairs", "push", "register", "take_out", "unlink"]

_NEVER = MAX_TIME
NOT_LISTED = -2

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@compiled
def _longer(array: Ints, size: int) -> Ints:
    longer = np.empty(size, np.int64)
    longer[: len(array)] = array
    return longer


@inlined
def push(row: int, k: int, after: Ints, before: Ints, head: Ints) -> None:
    """Put a row at the head of its key's list."""
    before[row] = -1
    after[row] = head[k]
    if head[k] >= 0:
        before[head[k]] = row
    head[k] = row


@inlined
def take_out(row: int, k: int, after: Ints, before: Ints, head: Ints) -> None:
    """Take a row out of its key's list, if it is in it."""
    if before[row] == NOT_LISTED:
        return
    if before[row] >= 0:
        after[before[row]] = after[row]
    else:
        head[k] = after[row]
    if after[row] >= 0:
        before[after[row]] = before[row]
    before[row] = NOT_LISTED


@compiled
def unlink(rows: Ints, key: Ints, after: Ints, before: Ints, head: Ints) -> None:
    """Take rows out of the lists of rows alive. O(1) each."""
    for i in range(len(rows)):
        take_out(rows[i], key[rows[i]], after, before, head)


@compiled
def find_pairs(
    time: Ints,
    what: Ints,
    cti: int,
    key: tuple[Ints, Ints],
    end: tuple[Ints, Ints],
    after: tuple[Ints, Ints],
    before: tuple[Ints, Ints],
    head: tuple[Ints, Ints],
) -> tuple[Ints, Ints, Ints]:
    """Return the pairs that rows make when they begin: ``left, right, start``, ``int64[p]``.

    ``time``, ``what`` ``int64[n]``: rows in order of start; ``what >> 1`` is the row's number and
    ``what & 1`` its side. For each side ``key, end, after, before`` ``int64[rows]`` and ``head``
    ``int64[keys]``: for each key a list of its rows alive, updated in place.

    Definition: a row that begins meets every row of the other side that has begun and that does
    not end before or then. Rows found ended are taken out of their list, so that each is passed
    once; one that ends before anything of the other side begins is never listed. What begins later
    begins at ``cti`` or after it. O(n + p).
    """
    following = _next_of_other_side(time, what, cti)
    out = np.empty((3, len(time) + 64), np.int64)
    i = p = 0
    met = -1
    while i < len(time):
        i, p, met = _until_full(
            i, p, met, time, what, following, key, end, after, before, head, out
        )
        if i < len(time):
            longer = np.empty((3, 2 * out.shape[1]), np.int64)
            longer[:, : out.shape[1]] = out
            out = longer
    return out[0, :p], out[1, :p], out[2, :p]


@compiled
def _until_full(
    i: int,
    p: int,
    met: int,
    time: Ints,
    what: Ints,
    following: Ints,
    key: tuple[Ints, Ints],
    end: tuple[Ints, Ints],
    after: tuple[Ints, Ints],
    before: tuple[Ints, Ints],
    head: tuple[Ints, Ints],
    out: Ints,
) -> tuple[int, int, int]:
    """Let rows begin from number ``i`` on while there is room for their pairs.

    ``met``: the row that row ``i`` meets next, or -1 if it has yet to look for one. Returns where
    to go on.
    """
    while i < len(time):
        row = what[i] >> 1
        t = time[i]
        if what[i] & 1:
            k = key[1][row]
            p, met = _meet(1, t, k, p, met, row, end[0], after[0], before[0], head[0], out)
            if met < 0 and end[1][row] > following[i]:
                push(row, k, after[1], before[1], head[1])
        else:
            k = key[0][row]
            p, met = _meet(0, t, k, p, met, row, end[1], after[1], before[1], head[1], out)
            if met < 0 and end[0][row] > following[i]:
                push(row, k, after[0], before[0], head[0])
        if met >= 0:
            return i, p, met
        i += 1
    return i, p, -1


@compiled
def _next_of_other_side(time: Ints, what: Ints, cti: int) -> Ints:
    """Return for each row when the next one of the other side begins, at the earliest."""
    out = np.empty(len(time), np.int64)
    left = right = cti
    for i in range(len(time) - 1, -1, -1):
        if what[i] & 1:
            out[i] = left
            right = time[i]
        else:
            out[i] = right
            left = time[i]
    return out


@inlined
def _meet(
    side: int,
    t: int,
    k: int,
    p: int,
    met: int,
    row: int,
    end: Ints,
    after: Ints,
    before: Ints,
    head: Ints,
    out: Ints,
) -> tuple[int, int]:
    """Pair a row of ``side`` with those of the other side, from ``met`` on (-1: from the first).

    Returns how many pairs there are now, and the row that there was no room for, or -1.
    """
    if met < 0:
        met = head[k]
    while met >= 0:
        following = after[met]
        if end[met] <= t:
            take_out(met, k, after, before, head)
        else:
            if p == out.shape[1]:
                return p, met
            out[side, p] = row
            out[1 - side, p] = met
            out[2, p] = t
            p += 1
        met = following
    return p, -1


@compiled
def register(
    left: Ints,
    right: Ints,
    edges: Ints,
    first: tuple[Ints, Ints],
    pairs: Ints,
) -> None:
    """Remember pairs whose end is not known, each in the list of both of its rows.

    ``left``, ``right``, ``edges`` ``int64[p]``: row numbers and the id under which a pair left.
    ``first`` of each side ``int64[rows]``: a row's latest pair, -1 if none. ``pairs``
    ``int64[8, room]``: its rows (0, 1), its id (2), the links of the left row's list (3, 4) and of
    the right row's (5, 6), and a stack of unused places (7, its height in ``pairs[7, 0]``), which
    has to hold p.
    """
    for i in range(len(left)):
        place = pairs[7, pairs[7, 0]]
        pairs[7, 0] -= 1
        pairs[0, place] = left[i]
        pairs[1, place] = right[i]
        pairs[2, place] = edges[i]
        for side in range(2):
            row = pairs[side, place]
            begin = first[side][row]
            pairs[3 + 2 * side, place] = begin
            pairs[4 + 2 * side, place] = -1
            if begin >= 0:
                pairs[4 + 2 * side, begin] = place
            first[side][row] = place


@compiled
def close(
    rows: Ints,
    side: int,
    cti: int,
    end: tuple[Ints, Ints],
    opened: tuple[Bools, Bools],
    first: tuple[Ints, Ints],
    pairs: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Return the pairs of these rows whose end is certain now: ``left, right, edge``, ``int64[c]``.

    ``rows`` ``int64[n]`` are rows of ``side`` whose end is known. A pair's end is certain when both
    ends are known (``opened`` ``bool[rows]`` of each side is false), or when the known one is not
    after the CTI. Those pairs are forgotten. O(pairs of these rows).
    """
    room = 64
    out = np.empty((3, room), np.int64)
    c = 0
    for i in range(len(rows)):
        row = rows[i]
        place = first[side][row]
        while place >= 0:
            following = pairs[3 + 2 * side, place]
            other = pairs[1 - side, place]
            if end[side][row] <= cti or not opened[1 - side][other]:
                if c == room:
                    longer = np.empty((3, 2 * room), np.int64)
                    longer[:, :room] = out
                    out = longer
                    room *= 2
                for part in range(3):
                    out[part, c] = pairs[part, place]
                c += 1
                _forget(place, first, pairs)
            place = following
    return out[0, :c], out[1, :c], out[2, :c]


@compiled
def _forget(place: int, first: tuple[Ints, Ints], pairs: Ints) -> None:
    """Take a pair out of the lists of both of its rows."""
    for side in range(2):
        after = pairs[3 + 2 * side, place]
        before = pairs[4 + 2 * side, place]
        if before >= 0:
            pairs[3 + 2 * side, before] = after
        else:
            first[side][pairs[side, place]] = after
        if after >= 0:
            pairs[4 + 2 * side, after] = before
    pairs[7, 0] += 1
    pairs[7, pairs[7, 0]] = place
