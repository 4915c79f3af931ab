"""Pairs of rows of two streams with equal keys and overlapping lifetimes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import borrow, jit

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
def release_ended(
    end: Ints, alive: Bools, cti: int, key: Ints, after: Ints, before: Ints, head: Ints
) -> int:
    """Remove the rows that have ended by the CTI from the lists of rows alive; return their number.

    ``end, key, after, before`` ``int64[rows]``; in ``alive`` ``bool[rows]`` they are set to False.
    O(rows).
    """
    count = 0
    for i in range(len(end)):
        row = np.uint64(i)
        if alive[row] and end[row] <= cti:
            alive[row] = False
            count += 1
            if before[row] != NOT_LISTED:
                take_off(row, np.uint64(key[row]), after, before, head)
    return count


@jit
def renumber_lists(new: Ints, key: Ints, after: Ints, before: Ints, head: Ints) -> None:
    """Give the lists of rows alive the new numbers of their rows.

    ``new`` ``int64[former rows]``; ``key, after, before`` ``int64[rows]``, as the rows are numbered
    now, with former numbers. O(rows); of the heads only those of listed rows are visited.
    """
    for i in range(len(key)):
        row = np.uint64(i)
        last = before[row]
        if last == NOT_LISTED:
            continue
        if last >= 0:
            before[row] = new[np.uint64(last)]
        else:
            head[np.uint64(key[row])] = i
        if after[row] >= 0:
            after[row] = new[np.uint64(after[row])]


@jit
def _count_before(time: Ints, begin: int, end: int, limit: int) -> int:
    """Return the first number from ``begin`` up to ``end`` whose time is not before ``limit``.

    ``time`` ``int64[n]``, in order between these numbers. O(log n).
    """
    if begin < end and time[end - 1] < limit:
        return end
    while begin < end:
        middle = (begin + end) // 2
        if time[middle] < limit:
            begin = middle + 1
        else:
            end = middle
    return begin


@borrow
def _meet(
    row: Number,
    t: int,
    e: int,
    met: int,
    k: Number,
    end: Ints,
    after: Ints,
    before: Ints,
    head: Ints,
    mine: Ints,
    others: Ints,
    start: Ints,
    until: Ints,
    p: int,
) -> tuple[int, int]:
    """Write the pairs of a row ``[t, e)`` with key ``k`` from pair ``p`` on; return the new ``p``.

    ``end, after, before, head`` are of the other side, of which there is room for one row at least;
    ``mine, others, start, until`` are the pairs. ``met`` is the row to go on with, -1 to begin; the
    new one is returned, too: -1 unless there is no room.
    """
    room = len(start)
    if met < 0:
        met = head[k]
        first = np.uint64(max(met, 0))
        # Most often one row is alive, or none. A processor cannot predict which of the two, and a
        # wrong guess costs more than to write a pair that does not count.
        is_simple = (met < 0) | ((after[first] < 0) & (end[first] > t))
        if is_simple and p < room:
            place = np.uint64(p)
            mine[place], others[place], start[place] = row, met, t
            until[place] = min(e, end[first])
            return p + int(met >= 0), -1
    while met >= 0:
        other = np.uint64(met)
        later, o = after[other], end[other]
        if o > t:
            if p == room:
                return p, met
            place = np.uint64(p)
            mine[place], others[place], start[place] = row, met, t
            until[place] = min(e, o)
            p += 1
        else:
            take_off(other, k, after, before, head)
        met = later
    return p, -1


@jit
def find_pairs(
    left_time: Ints,
    left: Ints,
    i: int,
    n: int,
    right_time: Ints,
    right: Ints,
    j: int,
    m: int,
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
    pairs: Ints,
    times: Ints,
    p: int,
    met: int,
) -> tuple[int, int, int, int]:
    """Find the pairs that rows form when they begin before ``cti``.

    ``left_time[i:n]`` and ``right_time[j:m]``: the starts of the rows that have not begun, in
    order; of two that start together the left one begins first. ``left[i:n]`` and ``right[j:m]``:
    the numbers of these rows; ``int64[0]`` if they are ``i`` to ``n``, or ``j`` to ``m``.
    For the left side, then for the other, ``key, end, after, before`` ``int64[rows]`` and ``head``
    ``int64[keys]``: for each key a list of its rows alive, updated in place. (As tuples they would
    take a microsecond each to pass.) Writes left row and right row of each pair into ``pairs``
    ``int64[2, room]``, start and end into ``times`` ``int64[2, room]``.

    Writes from pair ``p`` on; ``met`` is the row that the next one meets next, or -1 if the search
    for it has not begun. Returns new values of ``i, j, p, met``; the last one is -1 unless it
    stopped for want of room.

    Definition: a row that begins meets every row of the other side that has begun and ends after
    this row's start. Rows found ended are removed from their list, so that each is passed once; a
    row that ends before the next row of the other side begins is never listed. Rows of later calls
    begin at ``cti`` or after it. A pair's end is the earlier of its rows' ends. O(n + p).
    """
    # Each side has its own loop: choosing arrays by side would count their references. Numbers are
    # unsigned: a signed index is tested for being negative each time.
    time, rows, other_time, other_rows = left_time, left, right_time, right
    mine, others, start, until = pairs[0], pairs[1], times[0], times[1]
    n, m = _count_before(time, i, n, cti), _count_before(other_time, j, m, cti)
    is_listed, is_other_listed = len(rows) > 0, len(other_rows) > 0
    while i < n or j < m:
        # the rows up to the next one of the other side; those that end before it are not listed
        limit = other_time[j] if j < m else cti
        while i < n and time[np.uint64(i)] <= limit:
            at = np.uint64(i)
            row = np.uint64(rows[at]) if is_listed else at
            t, k, e = time[at], np.uint64(key[row]), end[row]
            p, met = _meet(
                row, t, e, met, k, other_end, other_after, other_before, other_head,
                mine, others, start, until, p,
            )  # fmt: skip
            if met >= 0:
                return i, j, p, met
            if e > limit:
                link(row, k, after, before, head)
            i += 1
        limit = time[i] if i < n else cti
        while j < m and other_time[np.uint64(j)] < limit:
            at = np.uint64(j)
            row = np.uint64(other_rows[at]) if is_other_listed else at
            t, k, e = other_time[at], np.uint64(other_key[row]), other_end[row]
            p, met = _meet(
                row, t, e, met, k, end, after, before, head, others, mine, start, until, p
            )
            if met >= 0:
                return i, j, p, met
            if e > limit:
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
                forget_pair(place, first, pairs)
            place = following
    return out[0, :c], out[1, :c], out[2, :c]


@jit
def forget_pair(place: int, first: tuple[Ints, Ints], pairs: Ints) -> None:
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
