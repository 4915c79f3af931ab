"""Least values over rows that come and go, sampled once for each window.

Changes, samples and results are those of ``aggregates`` beside this module. The values of rows that
``span`` windows hold are in a ring of the least value for each first window, and beside it is that
of rows that never end: O(1) for each row, and O(span) for each sample. The others are in heaps:
O(log n) amortised for each change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.operators.windows.kernels.aggregates import find_places

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


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
def _pop(heaps: Ints, k: int, value: npt.NDArray, left: Ints, right: Ints, free: Ints) -> None:  # type: ignore[type-arg]
    """Remove the top of key ``k``'s heap and mark its node as unused."""
    node = heaps[k]
    heaps[k] = _meld(left[node], right[node], value, left, right)
    free[0] += 1
    free[free[0]] = node


@jit
def drop_heaps(
    keys: Ints,
    living: Ints,
    removed: Ints,
    value: npt.NDArray,  # type: ignore[type-arg]
    left: Ints,
    right: Ints,
    free: Ints,
) -> None:
    """Mark all nodes of both heaps of these keys as unused; keys without heaps are passed over."""
    for k in keys:
        while k < len(living) and living[k] >= 0:
            _pop(living, k, value, left, right, free)
        while k < len(removed) and removed[k] >= 0:
            _pop(removed, k, value, left, right, free)


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
    living: Ints,
    removed: Ints,
    sizes: Ints,
    value: npt.NDArray,  # type: ignore[type-arg]
    left: Ints,
    right: Ints,
    free: Ints,
) -> tuple[npt.NDArray, Bools, int]:  # type: ignore[type-arg]
    """Return the least value alive, True where there is one, and how many samples have none.

    Each key has two skew heaps, of the values added (``living``) and of the values removed
    (``removed``), as node numbers into ``value``, ``left``, ``right``; equal tops cancel out.
    ``sizes[2, keys]``: their sizes. When more values are removed than alive, the heaps are cleaned,
    so memory stays within a constant factor of what is alive. ``free``: a stack of unused nodes,
    its height in ``free[0]``; it has to hold at least n.

    ``ring``, ``there_in`` ``[1 + span, keys]``: the least value of the rows of each place, and True
    where there is one; the first place is for rows that never end. ``window`` and ``turn`` are as
    in ``aggregates``.
    """
    out = np.empty(len(at), value.dtype)
    there = np.empty(len(at), np.bool_)
    span = len(ring) - 1
    leave = find_places(span, turn[0])[1]
    s = empty = 0
    for i in range(len(what) + 1):
        while s < len(at) and at[s] == i:
            k = of[s]
            while removed[k] >= 0 and value[removed[k]] == value[living[k]]:
                _pop(living, k, value, left, right, free)
                _pop(removed, k, value, left, right, free)
                sizes[0, k] -= 1
                sizes[1, k] -= 1
            there[s] = living[k] >= 0
            out[s] = value[living[k]] if there[s] else 0
            if span > 0 and (s == 0 or window[s] != window[s - 1]):
                leave = find_places(span, turn[0])[1]
                turn[0] = leave
            for place in range(span + 1):
                if there_in[place, k] and (not there[s] or ring[place, k] < out[s]):
                    there[s], out[s] = True, ring[place, k]
            if span > 0:
                there_in[leave, k] = False
            empty += int(not there[s])
            s += 1
        if i == len(what) or not valid[what[i] >> 3]:
            continue
        k = key[what[i] >> 3]
        if what[i] & 6 and not what[i] & 1:
            least, place = new[what[i] >> 3], turn[0] if what[i] & 4 else 0
            if not there_in[place, k] or least < ring[place, k]:
                there_in[place, k], ring[place, k] = True, least
            continue
        node = free[free[0]]
        free[0] -= 1
        value[node] = new[what[i] >> 3]
        left[node] = -1
        right[node] = -1
        if not what[i] & 1:
            living[k] = _meld(living[k], node, value, left, right)
            sizes[0, k] += 1
        else:
            removed[k] = _meld(removed[k], node, value, left, right)
            sizes[1, k] += 1
            if 2 * sizes[1, k] > sizes[0, k] + 16:
                _clean(living, removed, sizes, k, value, left, right, free)
    return out, there, empty


@jit
def _clean(
    living: Ints,
    removed: Ints,
    sizes: Ints,
    k: int,
    value: npt.NDArray,  # type: ignore[type-arg]
    left: Ints,
    right: Ints,
    free: Ints,
) -> None:
    """Remove every removed value of key ``k`` from both heaps.

    The remaining values are found in order and linked as a chain, which is a heap.
    """
    first = last = -1
    while removed[k] >= 0:
        if value[removed[k]] == value[living[k]]:
            _pop(living, k, value, left, right, free)
            _pop(removed, k, value, left, right, free)
            sizes[0, k] -= 1
            sizes[1, k] -= 1
            continue
        node = living[k]
        living[k] = _meld(left[node], right[node], value, left, right)
        left[node] = -1
        right[node] = -1
        if last < 0:
            first = node
        else:
            left[last] = node
        last = node
    if last >= 0:
        left[last] = living[k]
        living[k] = first
