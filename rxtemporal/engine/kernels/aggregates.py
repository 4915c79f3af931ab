"""Running aggregates over rows that come and go, sampled once for each window.

Every kernel here takes the changes that the sweep for windows takes (``what`` ``int64[n]``: row
``what >> 3`` begins, or where ``what & 1`` ends), the rows' ``key`` ``int64[rows]``, ``value`` and
``valid`` ``bool[rows]`` (nulls are ignored), and the samples (``at`` ``int64[r]`` rising, ``of``
``int64[r]`` keys). It returns for each sample the aggregate over the rows of that key that are
alive before change number ``at``. State arrays are ``[keys]`` and updated in place.

``count``, ``sum_integers`` and ``sum_floats`` also take rows that only one window holds
(``what & 4``): they count in the next sample of their key and in no later one. The state arrays of
the first two are ``[2 * keys]``: lasting rows at ``2 * key``, rows of one window beside it.
Cost O(n + r); ``find_extremes`` O(log n) amortised for each change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Number = int | np.uint64


@jit
def count(what: Ints, key: Ints, valid: Bools, at: Ints, of: Ints, n: Ints) -> Ints:
    """Return the number of values that are not null. ``n``: the counts so far, by key."""
    out = np.empty(len(at), np.int64)
    s = 0
    for i in range(len(what) + 1):
        while s < len(at) and at[s] == i:
            k = np.uint64(2 * of[s])
            once = np.uint64(2 * of[s] + 1)
            out[s] = n[k] + n[once]
            n[once] = 0
            s += 1
        if i < len(what):
            row = np.uint64(what[i] >> 3)
            if valid[row]:
                k = np.uint64(2 * key[row] + ((what[i] >> 2) & 1))
                n[k] += 1 - 2 * (what[i] & 1)
    return out


@jit
def sum_integers(
    what: Ints, key: Ints, value: Ints, valid: Bools, at: Ints, of: Ints, total: Ints, rough: Floats
) -> tuple[Ints, int]:
    """Return the exact sums, and the number of the first sample whose sum overflows int64, or -1.

    ``total`` may wrap, and is right again once the rows that made it wrap are removed; ``rough`` is
    the same sum in float64, by which a wrapped sum is recognised.
    """
    out = np.empty(len(at), np.int64)
    s = 0
    for i in range(len(what) + 1):
        while s < len(at) and at[s] == i:
            k = np.uint64(2 * of[s])
            once = np.uint64(2 * of[s] + 1)
            out[s] = total[k] + total[once]
            if abs(rough[k] + rough[once] - np.float64(out[s])) > 4.0e18:
                return out, s
            total[once] = 0
            rough[once] = 0.0
            s += 1
        if i == len(what):
            continue
        row = np.uint64(what[i] >> 3)
        if valid[row]:
            k = np.uint64(2 * key[row] + ((what[i] >> 2) & 1))
            sign = 1 - 2 * (what[i] & 1)
            total[k] += sign * value[row]
            rough[k] += np.float64(sign) * np.float64(value[row])
    return out, -1


@jit
def sum_floats(
    what: Ints,
    key: Ints,
    value: Floats,
    valid: Bools,
    at: Ints,
    of: Ints,
    sums: Floats,
    alone: Floats,
    odd: Ints,
    counts: Ints,
    mean: bool,
) -> tuple[Floats, Bools, int]:
    """Return the sums (or the means), where there is one, and how many samples have none.

    The sum of nothing is 0. ``sums`` ``float64[keys, 4]``: for lasting rows the sum, its rounding
    error (Knuth's exact sum of two), so that removal does not make it drift, and the number of
    values; sum and error are reset when no value is left. ``alone``: the same for rows of one
    window. ``odd``
    ``int64[2 * keys, 3]``: how many values are NaN, +inf and -inf; they never enter the sum and so
    leave no trace. ``counts`` ``int64[3]``, over all keys: the number of lasting values, of values
    of one window, and of odd ones; where one is 0, nothing is looked up.
    """
    out = np.empty(len(at), np.float64)
    there = np.empty(len(at), np.bool_)
    lasting = counts[0]
    single = counts[1]
    i = empty = 0
    for s in range(len(at) + 1):
        upto = at[s] if s < len(at) else len(what)
        while i < upto:
            row = np.uint64(what[i] >> 3)
            if valid[row]:
                k = np.uint64(key[row])
                if what[i] & 4:
                    _add(alone, k, 1, value[row])
                    single += 1
                else:
                    sign = 1 - 2 * (what[i] & 1)
                    _add(sums, k, sign, value[row])
                    lasting += sign
                if not abs(value[row]) < np.inf:
                    _add_odd(what[i], k, value[row], odd, counts)
            i += 1
        if s < len(at):
            k = np.uint64(of[s])
            total = rest = values = 0.0
            if lasting > 0:
                total, rest, values = sums[k, 0], sums[k, 1], sums[k, 2]
            if single > 0 and alone[k, 2] > 0:
                total += alone[k, 0]
                rest += alone[k, 1]
                values += alone[k, 2]
                single -= np.int64(alone[k, 2])
                alone[k, 0], alone[k, 1], alone[k, 2] = 0.0, 0.0, 0.0
            total += rest
            if counts[2] > 0:
                total = _apply_odd(total, k, odd, counts)
            out[s] = total / max(values, 1.0) if mean else total
            there[s] = values > 0
            empty += int(not values > 0)
    counts[0] = lasting
    counts[1] = single
    return out, there, empty


@jit
def _add(sums: Floats, k: Number, sign: int, x: float) -> None:
    """Add a value to a key's sum, or take it away."""
    values = sums[k, 2] + np.float64(sign)
    sums[k, 2] = values
    if abs(x) < np.inf:
        x *= np.float64(sign)
        before = sums[k, 0]
        total = before + x
        part = total - before
        sums[k, 1] += (before - (total - part)) + (x - part)
        sums[k, 0] = total
    if values == 0.0:
        sums[k, 0] = 0.0
        sums[k, 1] = 0.0


@jit
def _add_odd(what: int, k: Number, x: float, odd: Ints, counts: Ints) -> None:
    """Count a NaN or an infinity that comes or goes."""
    sign = 1 - 2 * (what & 1)
    place = np.int64(2) * np.int64(k) + ((what >> 2) & 1)
    odd[place, 0 if np.isnan(x) else 1 if x > 0 else 2] += sign
    counts[2] += sign


@jit
def _apply_odd(total: float, k: Number, odd: Ints, counts: Ints) -> float:
    """Return the sum with NaN and infinities applied; drop those of one window."""
    place = 2 * np.int64(k)
    nans = odd[place, 0] + odd[place + 1, 0]
    highs = odd[place, 1] + odd[place + 1, 1]
    lows = odd[place, 2] + odd[place + 1, 2]
    for part in range(3):
        counts[2] -= odd[place + 1, part]
        odd[place + 1, part] = 0
    if nans > 0 or (highs > 0 and lows > 0):
        return np.nan
    return np.inf if highs > 0 else -np.inf if lows > 0 else total


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
