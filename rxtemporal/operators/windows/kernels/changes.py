"""Changes to the rows that windows hold, one integer each: ``row << BITS`` and some flags.

``ENDS``: later windows do not hold the row. ``LAST``: the row is not needed after this change.
``ONCE``: this is the row's only change, since as many windows hold it as hold nearly every row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit

ENDS, LAST, ONCE, BITS = 1, 2, 4, 3
_MAX = MAX_TIME
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def list_single_rows(n: int) -> Ints:
    """Return the changes of n rows that are numbered from 0, if each is a single change.

    Nobody may write them; they are writable since a kernel is compiled again for other arrays.
    """
    if n > _MOST:
        return _make_rows(n)
    shared = _shared[0]  # another thread may replace it
    if n > len(shared):
        shared = _shared[0] = _make_rows(min(2 * n, _MOST))
    return shared[:n]


def _make_rows(n: int) -> Ints:
    return np.arange(n) << BITS | ONCE | LAST


# shared by all batches of up to so many rows
_MOST = 1 << 18
_shared = [_make_rows(4096)]


@jit
def write_changes(
    i: int,
    r: int,
    number: int,
    begin: int,
    until: int,
    end: int,
    edge: int,
    lists: bool,
    span: int,
    begins: Ints,
    ends: Ints,
) -> int:
    """Write the changes of row ``number``, which windows hold from ``begin`` on up to ``until``.

    ``begins``, ``ends`` ``int64[2, n]``: places on the axis, and the changes there; written at
    ``i``, and at ``r`` if the row's end is a change of its own. Returns the next ``r``. ``end``,
    ``edge``: the row's own. A row that never ends and is not open is not needed once it has begun,
    unless ``lists`` says that rows are read one by one. A row that ``span`` windows hold is a
    single change (0: none is).
    """
    what = number << BITS
    ended = end != _MAX
    begins[0, np.uint64(i)] = begin
    if ended and span > 0 and until - begin == span:
        begins[1, np.uint64(i)] = what | ONCE | LAST
    else:
        gone = not lists and not ended and edge == 0
        begins[1, np.uint64(i)] = what | (LAST if gone else 0)
        ends[0, np.uint64(r)] = until
        ends[1, np.uint64(r)] = what | ENDS | LAST
        r += int(ended)
    return r


@jit
def find_changes(
    first: int, start: Ints, end: Ints, edge: Ints, lists: bool
) -> tuple[Ints, Ints, bool]:
    """Return the changes of rows at their own starts and ends.

    The rows are numbered from ``first`` on. Returns places and changes that begin rows,
    ``int64[2, n]``; those that end rows, ``int64[2, r]``; and True if starts never fall. O(n).
    """
    n = len(start)
    begins = np.empty((2, n), np.int64)
    ends = np.empty((2, n), np.int64)
    r = falls = 0
    for i in range(n):
        row = np.uint64(i)
        r = write_changes(
            i, r, first + i, start[row], end[row], end[row], edge[row], lists, 0, begins, ends
        )
        falls += int(start[row] < start[np.uint64(max(i - 1, 0))])
    return begins, ends[:, :r], falls == 0


@jit
def release_done(what: Ints, alive: Bools) -> int:
    """Mark in ``alive`` ``bool[rows]`` the rows that are not needed after the changes ``what``.

    Returns their number. O(n).
    """
    gone = 0
    for i in range(len(what)):
        row = np.uint64(what[i] >> BITS)
        last = what[i] & LAST != 0
        alive[row] = alive[row] and not last
        gone += int(last)
    return gone


@jit
def link(row: int, k: int, head: Ints, after: Ints, before: Ints) -> None:
    """Put a row at the head of the list of key ``k``; the arrays are as in ``list_rows``."""
    before[row], after[row] = -1, head[k]
    if head[k] >= 0:
        before[head[k]] = row
    head[k] = row


@jit
def unlink(row: int, k: int, head: Ints, after: Ints, before: Ints) -> None:
    """Take a row out of the list of key ``k``; the arrays are as in ``list_rows``."""
    if before[row] >= 0:
        after[before[row]] = after[row]
    else:
        head[k] = after[row]
    if after[row] >= 0:
        before[after[row]] = before[row]


@jit
def list_rows(
    what: Ints,
    key: Ints,
    at: Ints,
    of: Ints,
    head: Ints,
    after: Ints,
    before: Ints,
) -> tuple[Ints, Ints]:
    """Return the rows that each window holds, as pairs (number of the window, number of the row).

    ``what`` ``int64[n]``: the changes; row ``what >> 3`` begins, or where ``what & 1`` ends.
    ``key`` ``int64[rows]``. Windows: ``at`` ``int64[w]`` rising, ``of`` ``int64[w]`` keys.
    Each key's rows alive are a list from ``head`` ``int64[keys]``
    along ``after`` and ``before`` ``int64[rows]`` (-1: none), updated in place. Cost O(n + pairs).
    """
    room = 2 * len(at) + 64
    out_window = np.empty(room, np.int64)
    out_row = np.empty(room, np.int64)
    r = 0
    w = 0
    for i in range(len(what) + 1):
        while w < len(at) and at[w] == i:
            row = head[of[w]]
            while row >= 0:
                if r == room:
                    room *= 2
                    out_window = _lengthen(out_window, room)
                    out_row = _lengthen(out_row, room)
                out_window[r] = w
                out_row[r] = row
                r += 1
                row = after[row]
            w += 1
        if i == len(what):
            continue
        row = what[i] >> 3
        k = key[row]
        if what[i] & 1:
            unlink(row, k, head, after, before)
        else:
            link(row, k, head, after, before)
    return out_window[:r], out_row[:r]


@jit
def _lengthen(array: Ints, size: int) -> Ints:
    longer = np.empty(size, np.int64)
    longer[: len(array)] = array
    return longer
