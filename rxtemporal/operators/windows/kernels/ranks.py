"""Ranks: the best rows of each window, of rows that are sorted once however many windows hold them.

The rows of a key are in an order of *places*, and a mask says which of them are alive. It has
counts of blocks, so that the next row alive is found in steps of 64 and 4,096 places.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.operators.windows.kernels.cells import number_cells
from rxtemporal.operators.windows.kernels.changes import BITS, ENDS, link, unlink

_MAX = MAX_TIME
# a block has 64 places, and a large block 64 blocks
_BLOCK, _LARGE = 6, 12
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


# fewer rows are sorted by insertion
_FEW = 16
Codes = npt.NDArray[np.int64]


@jit
def _is_before(a: int, b: int, codes: Codes, start: Ints, number: Ints) -> bool:
    """Return True if row ``a`` is before row ``b`` by the codes, then start and number."""
    for j in range(len(codes)):
        if codes[j, a] != codes[j, b]:
            return bool(codes[j, a] < codes[j, b])
    if start[a] != start[b]:
        return bool(start[a] < start[b])
    return bool(number[a] < number[b])


@jit
def sort_groups(
    group: Ints, count: int, codes: Codes, start: Ints, number: Ints
) -> tuple[Ints, Ints, Ints, Bools]:
    """Return rows in order of group, codes, start and number; by merging in each group.

    ``group`` ``int64[n]``, from 0 to ``count - 1``; ``codes`` ``int64[orders, n]``. Returns
    ``base`` ``int64[count + 1]``, the first place of each group; ``order`` ``int64[n]``; ``tie``
    ``int64[n]``, which rises from place to place where group or codes do; and the mask of the
    places whose rows have the same group, codes and start as the row before. Cost O(n log n).
    """
    n = len(group)
    base = np.zeros(count + 1, np.int64)
    for i in range(n):
        base[group[i] + 1] += 1
    for s in range(count):
        base[s + 1] += base[s]
    order, other, free = np.empty(n, np.int64), np.empty(n, np.int64), base.copy()
    for i in range(n):
        order[free[group[i]]] = i
        free[group[i]] += 1
    for s in range(count):
        _sort_group(base[s], base[s + 1], order, other, codes, start, number)
    tie, same = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for p in range(1, n):
        a, b = order[p - 1], order[p]
        equal = group[a] == group[b]
        for j in range(len(codes)):
            equal = equal and codes[j, a] == codes[j, b]
        tie[p] = tie[p - 1] + (not equal)
        same[p] = equal and start[a] == start[b]
    return base, order, tie, same


@jit
def _sort_group(
    low: int, high: int, order: Ints, other: Ints, codes: Codes, start: Ints, number: Ints
) -> None:
    """Sort ``order[low:high]``; ``other`` is room for as many."""
    for begin in range(low, high, _FEW):
        for p in range(begin + 1, min(begin + _FEW, high)):
            row, q = order[p], p
            while q > begin and _is_before(row, order[q - 1], codes, start, number):
                order[q] = order[q - 1]
                q -= 1
            order[q] = row
    width = _FEW
    while width < high - low:
        for begin in range(low, high, 2 * width):
            middle, end = min(begin + width, high), min(begin + 2 * width, high)
            left, right = begin, middle
            for p in range(begin, end):
                takes_right = left == middle or (
                    right < end and _is_before(order[right], order[left], codes, start, number)
                )
                other[p] = order[right] if takes_right else order[left]
                right += takes_right
                left += not takes_right
        order[low:high] = other[low:high]
        width *= 2


@jit
def _is_better(a: int, b: int, codes: Codes) -> bool:
    """Return True if row ``a`` is before row ``b`` by the codes."""
    for j in range(len(codes)):
        if codes[j, a] != codes[j, b]:
            return bool(codes[j, a] < codes[j, b])
    return False


@jit
def _sift_down(at: int, low: int, high: int, rows: Ints, codes: Codes) -> None:
    """Restore the heap ``rows[low:high]``, the worst row first, below place ``at``."""
    row = rows[at]
    while 2 * (at - low) + 1 < high - low:
        child = low + 2 * (at - low) + 1
        if child + 1 < high and _is_better(rows[child], rows[child + 1], codes):
            child += 1
        if not _is_better(row, rows[child], codes):
            break
        rows[at] = rows[child]
        at = child
    rows[at] = row


@jit
def find_contenders(key: Ints, begin: Ints, until: Ints, codes: Codes, k: int) -> Bools:
    """Return the mask of the rows that are among the best ``k`` of their cell.

    ``key``, ``begin``, ``until`` ``int64[n]``: the windows that hold a row depend on nothing else,
    so that rows in which the three are equal, which are a *cell*, are in the same windows.
    ``codes`` ``int64[orders, n]``.

    Definition: a row stays unless ``k`` others of its cell are before it by the codes. Rows that
    are equal stay together. Cost O(n), and O(log k) for a row that is among the best ``k`` so far.
    """
    n = len(key)
    cell, cells = number_cells(key, begin, until)
    base = np.zeros(cells + 1, np.int64)
    for i in range(n):
        base[cell[i] + 1] += 1
    stays = np.ones(n, np.bool_)
    if base.max() <= k:
        return stays
    for c in range(cells):
        base[c + 1] += base[c]
    rows, free = np.empty(n, np.int64), base.copy()
    for i in range(n):
        rows[free[cell[i]]] = i
        free[cell[i]] += 1
    for c in range(cells):
        low, high, end = base[c], base[c] + k, base[c + 1]
        if end <= high:
            continue
        # the first k rows are a heap of the best so far
        for at in range(low + k // 2 - 1, low - 1, -1):
            _sift_down(at, low, high, rows, codes)
        for p in range(high, end):
            if _is_better(rows[p], rows[low], codes):
                rows[p], rows[low] = rows[low], rows[p]
                _sift_down(low, low, high, rows, codes)
        for p in range(high, end):
            if _is_better(rows[low], rows[p], codes):
                stays[rows[p]] = False
    return stays


@jit
def _find_slot(k: int, keys: Ints, slots: Ints, count: int) -> int:
    """Return the number of a key among the first ``count`` of ``keys``; -1 if it is none of them.

    ``slots`` ``int64[all keys]`` may have any value for a key that is none of them.
    """
    s = slots[k]
    return s if 0 <= s < count and keys[s] == k else -1


@jit
def collect_rows(
    what: Ints, key: Ints, of: Ints, head: Ints, after: Ints, before: Ints
) -> tuple[Ints, Ints, Ints, Ints, int]:
    """Return the rows that windows of the keys ``of`` ``int64[w]`` may hold, and apply the changes.

    ``what`` ``int64[n]``, ``key``, ``head``, ``after``, ``before``: as in ``list_rows``; the lists
    are updated in place. Returns ``keys`` ``int64[t]``, each once; ``slots`` for ``_find_slot``;
    ``rows`` ``int64[m]``: those alive before the changes, then those that begin; ``slot``
    ``int64[m]``: the numbers of their keys; and the number of the former. Cost O(w + n + m).
    """
    slots = np.empty(len(head), np.int64)
    keys = np.empty(min(len(of), len(head)), np.int64)
    t = m = 0
    for w in range(len(of)):
        if _find_slot(of[w], keys, slots, t) < 0:
            keys[t], slots[of[w]] = of[w], t
            t += 1
    for s in range(t):
        row = head[keys[s]]
        while row >= 0:
            m += 1
            row = after[row]
    rows = np.empty(m + len(what), np.int64)
    slot = np.empty(m + len(what), np.int64)
    alive = m
    m = 0
    for s in range(t):
        row = head[keys[s]]
        while row >= 0:
            rows[m], slot[m] = row, s
            m += 1
            row = after[row]
    for i in range(len(what)):
        row = what[i] >> BITS
        k = key[row]
        if what[i] & ENDS:
            unlink(row, k, head, after, before)
            continue
        link(row, k, head, after, before)
        s = _find_slot(k, keys, slots, t)
        if s >= 0:
            rows[m], slot[m] = row, s
            m += 1
    return keys[:t], slots, rows[:m], slot[:m], alive


@jit
def _set(p: int, alive: bool, there: Mask, blocks: Ints, large: Ints) -> None:
    """Note that the row at a place is alive, or is not any more."""
    by = 1 if alive else -1
    there[p] = alive
    blocks[p >> _BLOCK] += by
    large[p >> _LARGE] += by


@jit
def _find_next(p: int, end: int, there: Mask, blocks: Ints, large: Ints) -> int:
    """Return the first place from ``p`` on with a row alive, at most ``end``."""
    while p < end and not there[p]:
        if not large[p >> _LARGE]:
            p = ((p >> _LARGE) + 1) << _LARGE
        elif not blocks[p >> _BLOCK]:
            p = ((p >> _BLOCK) + 1) << _BLOCK
        else:
            p += 1
    return min(p, end)


@jit
def rank_rows(
    what: Ints,
    key: Ints,
    at: Ints,
    of: Ints,
    keys: Ints,
    slots: Ints,
    rows: Ints,
    before: int,
    base: Ints,
    tie: Ints,
    place: Ints,
    k: int,
) -> tuple[Ints, Mask]:
    """Return the rows of rank ``k`` or better of each window, and which rows are alive at the end.

    ``what``, ``key``, ``at``, ``of``: changes and windows, as in ``list_rows``. ``keys``,
    ``slots``: those of ``collect_rows``. ``rows`` ``int64[m]``: its rows in order of key and place,
    of which ``place`` ``int64[before]`` has those alive before the changes. ``base``
    ``int64[t + 1]``: the first place of each key. ``tie`` ``int64[m]``: rising, and equal for rows
    that share a rank. Returns ``window, row, rank`` ``int64[3, r]``, in order of window and place,
    and a mask ``uint8[m]``. A window costs O(k), and more only where few of many rows are alive.
    """
    m = len(rows)
    where = np.empty(len(key), np.int64)
    for p in range(m):
        where[rows[p]] = p
    there = np.zeros(m, np.uint8)
    blocks, large = np.zeros((m >> _BLOCK) + 1, np.int64), np.zeros((m >> _LARGE) + 1, np.int64)
    for j in range(before):
        _set(place[j], True, there, blocks, large)
    found = np.empty((3, 2 * len(at) + 64), np.int64)
    r = w = 0
    for i in range(len(what) + 1):
        while w < len(at) and at[w] == i:
            s = slots[of[w]]
            end, count, rank, last = base[s + 1], 0, 0, -1
            p = _find_next(base[s], end, there, blocks, large)
            while p < end:
                count += 1
                if tie[p] != last:
                    last, rank = tie[p], count
                if rank > k:
                    break
                if r == found.shape[1]:
                    longer = np.empty((3, 2 * r), np.int64)
                    longer[:, :r] = found
                    found = longer
                found[0, r], found[1, r], found[2, r] = w, rows[p], rank
                r += 1
                p = _find_next(p + 1, end, there, blocks, large)
            w += 1
        if i < len(what):
            row = what[i] >> BITS
            if _find_slot(key[row], keys, slots, len(keys)) >= 0:
                _set(where[row], not what[i] & ENDS, there, blocks, large)
    return found[:, :r], there


@jit
def drop_beaten(
    keys: Ints,
    rows: Ints,
    base: Ints,
    tie: Ints,
    there: Mask,
    end: Ints,
    k: int,
    head: Ints,
    after: Ints,
    before: Ints,
) -> Ints:
    """Return the rows that are in no later result, and take them out of the lists.

    Those are rows that never end, if ``k`` others that never end are before them. ``end``
    ``int64[all rows]``. The others as in ``rank_rows`` and ``list_rows``. Cost O(m).
    """
    beaten = np.empty(len(rows), np.int64)
    b = 0
    for s in range(len(keys)):
        better = same = 0
        last = -1
        for p in range(base[s], base[s + 1]):
            if not there[p] or end[rows[p]] != _MAX:
                continue
            if tie[p] != last:
                better, same, last = better + same, 0, tie[p]
            if better >= k:
                beaten[b] = rows[p]
                b += 1
                unlink(rows[p], keys[s], head, after, before)
            same += 1
    return beaten[:b]
