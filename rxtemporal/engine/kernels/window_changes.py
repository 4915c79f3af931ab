"""Changes to the rows that windows hold, one integer each: ``row << BITS`` and some flags.

``ENDS``: later windows do not hold the row. ``LAST``: the row is not needed after this change.
``ONCE``: only one window holds the row, and this is its only change.
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


@jit
def make_changes(
    first: int, begins: Ints, ends: Ints, end: Ints, edge: Ints, lists: bool, once: bool
) -> tuple[Ints, Ints, Ints]:
    """Return the changes that begin new rows, and the places and changes that end them.

    ``begins``, ``ends`` ``int64[n]``: the places on the axis at which windows begin and cease to
    hold the rows, which are numbered from ``first`` on; ``end``, ``edge``: the rows' own. A row
    that never ends and is not open is not needed once it has begun, unless ``lists`` says that rows
    are read one by one. With ``once`` a row that only one window holds is a single change. O(n).
    """
    n = len(begins)
    what = np.empty(n, np.int64)
    at = np.empty(n, np.int64)
    leaves = np.empty(n, np.int64)
    r = 0
    for i in range(n):
        row = np.uint64(i)
        number = (first + i) << BITS
        ended = end[row] != _MAX
        alone = once and ended and ends[row] - begins[row] == 1
        gone = not lists and not ended and edge[row] == 0
        what[row] = number | (ONCE | LAST if alone else LAST if gone else 0)
        at[r] = ends[row]
        leaves[r] = number | ENDS | LAST
        r += int(ended and not alone)
    return what, at[:r], leaves[:r]


@jit
def find_changes(
    first: int, start: Ints, end: Ints, edge: Ints, lists: bool
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the rows' starts, and the result of ``make_changes`` for the rows' own lifetimes."""
    begins = start.copy()
    what, at, leaves = make_changes(first, start, end, end, edge, lists, False)
    return begins, what, at, leaves


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
