"""Pairs of rows of two streams with equal keys and overlapping lifetimes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

NOT_LISTED = -2

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Number = int | np.uint64


@jit
def link(row: Number, k: Number, after: Ints, before: Ints, head: Ints) -> None:
    """Put a row at the head of its key's list."""
    first = head[k]
    before[row] = -1
    after[row] = first
    if first >= 0:
        before[np.uint64(first)] = row
    head[k] = row


@jit
def take_off(row: Number, k: Number, after: Ints, before: Ints, head: Ints) -> None:
    """Remove a row from its key's list, if it is listed."""
    last = before[row]
    if last != NOT_LISTED:
        following = after[row]
        if last >= 0:
            after[np.uint64(last)] = following
        else:
            head[k] = following
        if following >= 0:
            before[np.uint64(following)] = last
        before[row] = NOT_LISTED


@jit
def unlink_all(rows: Ints, key: Ints, after: Ints, before: Ints, head: Ints) -> None:
    """Remove rows from the lists of rows alive. O(1) each."""
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        if before[row] != NOT_LISTED:
            take_off(row, np.uint64(key[row]), after, before, head)


@jit
def find_pairs(
    left_time: Ints,
    left: Ints,
    right_time: Ints,
    right: Ints,
    cti: int,
    key: Ints,
    end: Ints,
    after: Ints,
    before: Ints,
    head: Ints,
    other_key: Ints,
    other_end: Ints,
    other_after: Ints,
    other_before: Ints,
    other_head: Ints,
) -> tuple[Ints, int]:
    """Find the pairs that rows form when they begin; return them and their number p.

    ``left_time``, ``left`` and ``right_time``, ``right`` ``int64[n]``: the rows of each side that
    begin, in order of start; of two that start together the left one begins first. For the left
    side, then for the other, ``key, end, after, before`` ``int64[rows]`` and ``head``
    ``int64[keys]``: for each key a list of its rows alive, updated in place. (As tuples they would
    take a microsecond each to pass.) The pairs are ``int64[4, room]``: left row, right row, start
    and end.

    Definition: a row that begins meets every row of the other side that has begun and ends after
    this row's start. Rows found ended are removed from their list, so that each is passed once; a
    row that ends before the next row of the other side begins is never listed. Rows of later calls
    begin at ``cti`` or after it. A pair's end is the earlier of its rows' ends. O(n + p).
    """
    out = np.empty((4, len(left) + len(right) + 64), np.int64)
    i = j = p = 0
    met = -1
    while i < len(left) or j < len(right):
        i, j, p, met = _begin_rows(
            i, j, p, met, left_time, left, right_time, right, cti,
            key, end, after, before, head,
            other_key, other_end, other_after, other_before, other_head,
            out[0], out[1], out[2], out[3],
        )  # fmt: skip
        if met >= 0:
            longer = np.empty((4, 2 * out.shape[1]), np.int64)
            longer[:, : out.shape[1]] = out
            out = longer
    return out, p


@jit
def _begin_rows(
    i: int,
    j: int,
    p: int,
    met: int,
    time: Ints,
    rows: Ints,
    other_time: Ints,
    other_rows: Ints,
    cti: int,
    key: Ints,
    end: Ints,
    after: Ints,
    before: Ints,
    head: Ints,
    other_key: Ints,
    other_end: Ints,
    other_after: Ints,
    other_before: Ints,
    other_head: Ints,
    left: Ints,
    right: Ints,
    start: Ints,
    until: Ints,
) -> tuple[int, int, int, int]:
    """Begin the left rows from number ``i`` on and the right ones from ``j`` on.

    Takes the columns of the left side, those of the right side, and those of the pairs to write.
    ``met``: the row that the next one meets next, or -1 if the search for it has not begun. Returns
    ``i``, ``j``, the number of pairs, and the row for whose pair there was no room (-1: there was).
    """
    # The loop is written out for each side: choosing arrays by side would count their references,
    # and a call for each row would pass all of them. Numbers are unsigned: a signed index is tested
    # for being negative each time.
    n, m = len(rows), len(other_rows)
    while i < n or j < m:
        if j == m or (i < n and time[i] <= other_time[j]):
            row = np.uint64(rows[i])
            t = time[i]
            k = np.uint64(key[row])
            if met < 0:
                met = other_head[k]
            while met >= 0:
                other = np.uint64(met)
                later = other_after[other]
                if other_end[other] > t:
                    if p == len(start):
                        return i, j, p, met
                    place = np.uint64(p)
                    left[place], right[place], start[place] = row, met, t
                    until[place] = min(end[row], other_end[other])
                    p += 1
                else:
                    take_off(other, k, other_after, other_before, other_head)
                met = later
            if end[row] > (other_time[j] if j < m else cti):
                link(row, k, after, before, head)
            i += 1
        else:
            row = np.uint64(other_rows[j])
            t = other_time[j]
            k = np.uint64(other_key[row])
            if met < 0:
                met = head[k]
            while met >= 0:
                other = np.uint64(met)
                later = after[other]
                if end[other] > t:
                    if p == len(start):
                        return i, j, p, met
                    place = np.uint64(p)
                    left[place], right[place], start[place] = met, row, t
                    until[place] = min(end[other], other_end[row])
                    p += 1
                else:
                    take_off(other, k, after, before, head)
                met = later
            if other_end[row] > (time[i] if i < n else cti):
                link(row, k, other_after, other_before, other_head)
            j += 1
    return i, j, p, -1


@jit
def remember_pairs(
    left: Ints,
    right: Ints,
    edges: Ints,
    first: tuple[Ints, Ints],
    pairs: Ints,
) -> None:
    """Remember pairs whose end is not known, each in the lists of both of its rows.

    ``left``, ``right``, ``edges`` ``int64[p]``: row numbers, and the id of the pair's start edge.
    ``first``, for each side ``int64[rows]``: a row's latest pair, -1 if none. ``pairs``
    ``int64[8, room]``: a pair's rows (0, 1), its id (2), the links of the left row's list (3, 4)
    and of the right row's (5, 6), and a stack of unused places (7, its height in ``pairs[7, 0]``),
    which has to hold p.
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


@jit
def close_pairs(
    rows: Ints,
    side: int,
    cti: int,
    end: tuple[Ints, Ints],
    opened: tuple[Bools, Bools],
    first: tuple[Ints, Ints],
    pairs: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Forget and return the pairs of these rows whose end is certain: ``left, right, edge``.

    ``int64[c]`` each. ``rows`` ``int64[n]``: rows of ``side`` whose end is known. A pair's end is
    certain if both rows' ends are known (``opened``, for each side ``bool[rows]``, is False), or if
    the known end is not after the CTI. O(pairs of these rows).
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
                _forget_pair(place, first, pairs)
            place = following
    return out[0, :c], out[1, :c], out[2, :c]


@jit
def _forget_pair(place: int, first: tuple[Ints, Ints], pairs: Ints) -> None:
    """Remove a pair from the lists of both of its rows."""
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
