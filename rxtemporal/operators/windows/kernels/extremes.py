"""Least values over rows that come and go, sampled once for each window.

Changes, samples and results are those of ``aggregates`` beside this module. The values of rows that
``span`` windows hold are in a ring of the least value for each first window, and beside it is that
of rows that never end: O(1) for each row, and O(span) for each sample.

Of the others each key has a record, ``lists[k]``, and its least value, ``least[k]``. A value that
comes or goes is put on a list as it is, O(1). Only where the least value has gone, and others are
there when a sample is taken, are both lists sorted into heaps: O(log n) amortised for each change.
So rows that come and go together, or of which the least goes last, cost no order. Once a key has no
value, all its nodes are unused again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.operators.windows.kernels.aggregates import find_places

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# columns of a key's record: the first nodes of the list and of the heap of the values that came,
# and of those that went; the numbers of values there, and of those that went and have nodes; and
# how many values are known to equal the least one (0: it is not known)
CAME, LIVING, WENT, REMOVED, ALIVE, GONE, SURE = range(7)
# the number of columns that are nodes, and a new record
NODES, NEW_RECORD = 4, (-1, -1, -1, -1, 0, 0, 0)
# so many more values than are there may have gone and have nodes, between two calls
MOST_GONE = 16


@jit
def _meld(a: int, b: int, value: npt.NDArray, left: Ints, right: Ints) -> int:  # type: ignore[type-arg]
    """Merge two skew heaps and return the root (least value on top; -1 is the empty heap)."""
    if a < 0:
        return b
    if b < 0:
        return a
    if value[b] < value[a]:
        a, b = b, a
    root = a
    while True:
        child = right[a]
        right[a] = left[a]
        if child < 0:
            left[a] = b
            return root
        if value[b] < value[child]:
            child, b = b, child
        left[a] = child
        a = child


@jit
def _pop(of_key: Ints, heap: int, value: npt.NDArray, left: Ints, right: Ints, free: Ints) -> None:  # type: ignore[type-arg]
    """Remove the top of a heap and mark its node as unused."""
    node = of_key[heap]
    of_key[heap] = _meld(left[node], right[node], value, left, right)
    right[node] = free[0]
    free[0] = node
    free[1] += 1


@jit
def _sort(of_key: Ints, unsorted: int, value: npt.NDArray, left: Ints, right: Ints) -> None:  # type: ignore[type-arg]
    """Put the values of a list into the heap beside it."""
    node = of_key[unsorted]
    while node >= 0:
        after = right[node]
        right[node] = -1
        of_key[unsorted + 1] = _meld(of_key[unsorted + 1], node, value, left, right)
        node = after
    of_key[unsorted] = -1


@jit
def _settle(of_key: Ints, value: npt.NDArray, left: Ints, right: Ints, free: Ints) -> None:  # type: ignore[type-arg]
    """Sort a key's values, until the top of those that came is there; equal tops cancel out."""
    _sort(of_key, CAME, value, left, right)
    _sort(of_key, WENT, value, left, right)
    while of_key[REMOVED] >= 0 and value[of_key[REMOVED]] == value[of_key[LIVING]]:
        _pop(of_key, LIVING, value, left, right, free)
        _pop(of_key, REMOVED, value, left, right, free)
        of_key[GONE] -= 1


@jit
def _clean(of_key: Ints, value: npt.NDArray, left: Ints, right: Ints, free: Ints) -> None:  # type: ignore[type-arg]
    """Remove every value of a key that went.

    The remaining values are found in order and linked as a chain, which is a heap.
    """
    first = last = -1
    _settle(of_key, value, left, right, free)
    while of_key[REMOVED] >= 0:
        node = of_key[LIVING]
        of_key[LIVING] = _meld(left[node], right[node], value, left, right)
        left[node] = right[node] = -1
        if last < 0:
            first = node
        else:
            left[last] = node
        last = node
        _settle(of_key, value, left, right, free)
    if last >= 0:
        left[last] = of_key[LIVING]
        of_key[LIVING] = first


@jit
def _release(of_key: Ints, left: Ints, right: Ints, free: Ints) -> None:
    """Mark all nodes of a key as unused. O(n), for lists and heaps."""
    for column in range(NODES):
        node = of_key[column]
        while node >= 0:
            child = left[node]
            if child >= 0:  # turned, so that it comes first
                left[node] = right[child]
                right[child] = node
                node = child
                continue
            after = right[node]
            right[node] = free[0]
            free[0] = node
            free[1] += 1
            node = after
        of_key[column] = -1
    of_key[GONE] = of_key[SURE] = 0


@jit
def add_unused(first: int, right: Ints, free: Ints) -> None:
    """Add unused nodes, which are linked from the first one on, to the others. O(n)."""
    node = first
    while node >= 0:
        after = right[node]
        right[node] = free[0]
        free[0] = node
        free[1] += 1
        node = after


@jit
def find_used(right: Ints, free: Ints) -> Bools:
    """Return which nodes are in use. O(n)."""
    used = np.ones(len(right), np.bool_)
    node = free[0]
    while node >= 0:
        used[node] = False
        node = right[node]
    return used


@jit
def drop_lists(keys: Ints, lists: Ints, left: Ints, right: Ints, free: Ints) -> None:
    """Mark all nodes of these keys as unused; keys without a record are passed over."""
    for k in keys:
        if k < len(lists):
            _release(lists[k], left, right, free)


@jit
def find_extremes(
    what: Ints,
    key: Ints,
    new: npt.NDArray,  # type: ignore[type-arg]
    valid: Bools,
    at: Ints,
    of: Ints,
    window: Ints,
    ring: npt.NDArray,  # type: ignore[type-arg]
    there_in: npt.NDArray[np.bool_],
    turn: Ints,
    lists: Ints,
    least: npt.NDArray,  # type: ignore[type-arg]
    value: npt.NDArray,  # type: ignore[type-arg]
    left: Ints,
    right: Ints,
    free: Ints,
) -> tuple[npt.NDArray, Bools, int]:  # type: ignore[type-arg]
    """Return the least value alive, True where there is one, and how many samples have none.

    ``lists`` ``int64[keys, 7]``, ``least`` ``[keys]``: the keys' records and least values. The
    former have numbers of nodes, in ``value``, ``left``, ``right``: lists are linked along
    ``right``, heaps are skew heaps. ``free``: the first unused node, from which they are linked
    along ``right``, and their number, which has to be n at least. A key of which more values went
    than are there is cleaned in the end, so as many nodes are in use, up to a constant factor.

    ``ring``, ``there_in`` ``[1 + span, keys]``: the least value of the rows of each place, and True
    where there is one; the first place is for rows that never end. ``window`` and ``turn`` are as
    in ``aggregates``.
    """
    out = np.empty(len(at), value.dtype)
    there = np.empty(len(at), np.bool_)
    crowded = np.empty(len(what), np.int64)
    span = len(ring) - 1
    leave = find_places(span, turn[0])[1]
    zero = np.uint64(0)
    s = i = empty = c = 0
    while True:
        until = at[s] if s < len(at) else len(what)
        now = np.uint64(turn[0])
        while i < until:
            change = what[np.uint64(i)]
            i += 1
            row = np.uint64(change >> 3)
            if not valid[row]:
                continue
            k, v = np.uint64(key[row]), new[row]
            if change & 6 and not change & 1:
                place = now if change & 4 else zero
                if not there_in[place, k] or v < ring[place, k]:
                    there_in[place, k], ring[place, k] = True, v
                continue
            ends = change & 1
            alive = lists[k, ALIVE] + 1 - 2 * ends
            lists[k, ALIVE] = alive
            if alive == 0:
                _release(lists[k], left, right, free)
                continue
            node = np.uint64(free[0])
            free[0] = right[node]
            free[1] -= 1
            unsorted = WENT if ends else CAME
            value[node], left[node], right[node] = v, -1, lists[k, unsorted]
            lists[k, unsorted] = node
            if ends:
                lists[k, GONE] += 1
                lists[k, SURE] -= int(lists[k, SURE] > 0 and v == least[k])
                if lists[k, GONE] > alive + MOST_GONE:
                    crowded[c] = k
                    c += 1
            elif alive == 1 or (lists[k, SURE] > 0 and v < least[k]):
                lists[k, SURE], least[k] = 1, v
            else:
                lists[k, SURE] += int(lists[k, SURE] > 0 and v == least[k])
        if s == len(at):
            break
        k = np.uint64(of[s])
        there[s] = lists[k, ALIVE] > 0
        if there[s] and lists[k, SURE] == 0:
            _settle(lists[k], value, left, right, free)
            lists[k, SURE], least[k] = 1, value[lists[k, LIVING]]
        out[s] = least[k] if there[s] else 0
        if span > 0 and (s == 0 or window[s] != window[s - 1]):
            leave = find_places(span, turn[0])[1]
            turn[0] = leave
        for each in range(span + 1):
            if there_in[each, k] and (not there[s] or ring[each, k] < out[s]):
                there[s], out[s] = True, ring[each, k]
        if span > 0:
            there_in[leave, k] = False
        empty += int(not there[s])
        s += 1
    for j in range(c):
        k = np.uint64(crowded[j])
        if lists[k, GONE] > lists[k, ALIVE] + MOST_GONE:
            _clean(lists[k], value, left, right, free)
            lists[k, SURE], least[k] = 1, value[lists[k, LIVING]]
    return out, there, empty
