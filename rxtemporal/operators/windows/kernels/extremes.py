"""Least values over rows that come and go, in heaps, or that only come; sampled for each window.

Changes, samples and results are those of ``aggregates`` beside this module. In heaps a change costs
O(log n) amortised.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

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
    """
    out = np.empty(len(at), value.dtype)
    there = np.empty(len(at), np.bool_)
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
            empty += int(not there[s])
            s += 1
        if i == len(what) or not valid[what[i] >> 3]:
            continue
        k = key[what[i] >> 3]
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
def keep_least(
    what: Ints,
    key: Ints,
    new: npt.NDArray,  # type: ignore[type-arg]
    valid: Bools,
    at: Ints,
    of: Ints,
    value: npt.NDArray,  # type: ignore[type-arg]
    known: Bools,
) -> tuple[npt.NDArray, Bools, int]:  # type: ignore[type-arg]
    """Return the results of ``find_extremes``, of rows that only begin.

    ``value``, ``known`` ``bool[keys]``: the least value of each key, and True if it has one. O(n).
    """
    out = np.empty(len(at), value.dtype)
    there = np.empty(len(at), np.bool_)
    s = empty = 0
    for i in range(len(what) + 1):
        while s < len(at) and at[s] == i:
            k = of[s]
            there[s] = known[k]
            out[s] = value[k] if known[k] else 0
            empty += int(not known[k])
            s += 1
        if i == len(what) or not valid[what[i] >> 3]:
            continue
        k = key[what[i] >> 3]
        x = new[what[i] >> 3]
        if not known[k] or x < value[k]:
            known[k], value[k] = True, x
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
