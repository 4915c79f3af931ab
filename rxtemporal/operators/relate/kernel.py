"""Relations between pairs of lifetimes, some of whose ends are not known yet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.operators.join.kernel import forget_pair
from rxtemporal.operators.relate.relations import AFTER, BEFORE, MEETS, MET_BY, SHARING

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# verdicts on a pair
NEVER, RELATED, WAITS = range(3)


@jit
def find_relation(start: int, end: int, other_start: int, other_end: int) -> int:
    """Return the number of the relation of ``[start, end)`` to ``[other_start, other_end)``."""
    if end < other_start:
        return BEFORE
    if end == other_start:
        return MEETS
    if start == other_end:
        return MET_BY
    if start > other_end:
        return AFTER
    return _find_row(start, other_start) + 1 + int(end > other_end) - int(end < other_end)


@jit
def _find_row(start: int, other_start: int) -> int:
    """Return the first of the three relations of rows that share time and start like this."""
    return SHARING + 3 * (1 + int(start > other_start) - int(start < other_start))


@jit
def is_related(
    start: int, end: int, other_start: int, other_end: int, wanted: Bools, within: int
) -> bool:
    """Return True if the relation is one of the ``wanted``, and a gap is below ``within``."""
    relation = find_relation(start, end, other_start, other_end)
    gap = max(other_start - end, start - other_end)
    return bool(wanted[relation]) and gap < within


@jit
def _may_relate(
    start: int, end: int, other_start: int, other_end: int, cti: int, wanted: Bools, within: int,
    is_open: bool, is_other_open: bool,
) -> bool:  # fmt: skip
    """Return True if a pair may be related once the ends of both rows are known.

    Both have begun before the CTI, and an open one ends at the CTI or after it.
    """
    if end <= other_start or other_end <= start:  # whatever the end that is not known
        return is_related(start, end, other_start, other_end, wanted, within)
    row = _find_row(start, other_start)
    if is_open and is_other_open:
        return bool(wanted[row] or wanted[row + 1] or wanted[row + 2])
    known = other_end if is_open else end
    earlier, later = (row, row + 2) if is_other_open else (row + 2, row)
    return bool(
        (wanted[earlier] and known < MAX_TIME)  # the known end is the earlier one
        or (wanted[row + 1] and known >= cti)
        or (wanted[later] and known > cti)
    )


@jit
def _judge(
    left: int,
    right: int,
    start: tuple[Ints, Ints],
    end: tuple[Ints, Ints],
    opened: tuple[Bools, Bools],
    cti: int,
    wanted: Bools,
    within: int,
) -> int:
    """Return the verdict on a left and a right row, by their numbers."""
    begin, until, is_open = start[0][left], end[0][left], opened[0][left]
    other_begin, other_until, is_other_open = start[1][right], end[1][right], opened[1][right]
    if not is_open and not is_other_open:
        related = is_related(begin, until, other_begin, other_until, wanted, within)
        return RELATED if related else NEVER
    may = _may_relate(
        begin, until, other_begin, other_until, cti, wanted, within, is_open, is_other_open
    )
    return WAITS if may else NEVER


@jit
def judge_pairs(
    left: Ints,
    right: Ints,
    start: tuple[Ints, Ints],
    end: tuple[Ints, Ints],
    opened: tuple[Bools, Bools],
    cti: int,
    wanted: Bools,
    within: int,
) -> npt.NDArray[np.int8]:
    """Return for each pair whether its rows are ``RELATED``, ``NEVER`` are, or it ``WAITS``.

    ``left``, ``right`` ``int64[p]``: row numbers. ``start``, ``end``, ``opened``: for each side
    ``int64[rows]``, ``int64[rows]`` and ``bool[rows]``, the end being ``MAX_TIME`` while the row is
    open. ``wanted`` ``bool[13]``: the relations of the left row to the right one. Returns
    ``int8[p]``. Definition: a pair waits if an end is not known, and at least one end that is
    possible at the CTI makes the rows related. O(p).
    """
    verdicts = np.empty(len(left), np.int8)
    for i in range(len(left)):
        verdicts[i] = _judge(left[i], right[i], start, end, opened, cti, wanted, within)
    return verdicts


@jit
def settle_pairs(
    rows: Ints,
    side: int,
    start: tuple[Ints, Ints],
    end: tuple[Ints, Ints],
    opened: tuple[Bools, Bools],
    cti: int,
    wanted: Bools,
    within: int,
    first: tuple[Ints, Ints],
    pairs: Ints,
) -> tuple[Ints, Ints]:
    """Forget the pairs of these rows that do not wait any more; return those that are related.

    ``rows`` ``int64[n]``: rows of ``side``. ``first`` and ``pairs`` are those of
    ``remember_pairs``, the others those of ``judge_pairs``. Returns left and right row numbers,
    ``int64[c]`` each. O(pairs of these rows).
    """
    room = 64
    out = np.empty((2, room), np.int64)
    c = 0
    for i in range(len(rows)):
        place = first[side][rows[i]]
        while place >= 0:
            following = pairs[3 + 2 * side, place]
            left, right = pairs[0, place], pairs[1, place]
            verdict = _judge(left, right, start, end, opened, cti, wanted, within)
            if verdict == RELATED:
                if c == room:
                    longer = np.empty((2, 2 * room), np.int64)
                    longer[:, :room] = out
                    out = longer
                    room *= 2
                out[0, c], out[1, c] = left, right
                c += 1
            if verdict != WAITS:
                forget_pair(place, first, pairs)
            place = following
    return out[0, :c], out[1, :c]
