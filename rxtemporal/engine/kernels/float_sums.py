"""Compensated sums of floats over rows that come and go.

A sum is a total, its rounding error (Knuth's exact sum of two), so that removal does not make it
drift, and the number of values; total and error are reset when no value is left. NaN and infinities
are counted: they never enter the total, and so leave no trace.

The state is ``sums`` ``float64[1 + span, keys, 4]``: the running sums and the ring, as in
``aggregates``. ``odd`` ``int64[1 + span, keys, 3]``: how many values are NaN, +inf and -inf.
``counts`` ``int64[3]``: the place in the ring of rows that begin now, and over all keys the numbers
of odd values and of running ones; where one is 0, nothing is looked up. ``by_place`` is ``sums`` as
``float64[…, 4]``, of which an index is faster.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.aggregates import find_places
from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Number = int | np.uint64


@jit
def sum_floats(
    what: Ints,
    key: Ints,
    at: Ints,
    of: Ints,
    value: Floats,
    valid: Bools,
    sums: Floats,
    odd: Ints,
    counts: Ints,
    mean: bool,
) -> tuple[Floats, Bools, int]:
    """Return the sums, or the means; the mask of samples with values; and how many have none.

    The arguments are as in ``aggregates``, and the state has no ring. The sum of nothing is 0.
    """
    out, there = np.empty(len(at), np.float64), np.empty(len(at), np.bool_)
    by_place = sums.reshape((-1, 4))
    i = empty = running = 0
    # one loop: there may be a sample for each change, and a call for each costs more than it does
    for s in range(len(at) + 1):
        upto = at[s] if s < len(at) else len(what)
        while i < upto:
            row = np.uint64(what[i] >> 3)
            if valid[row]:
                k = np.uint64(key[row])
                sign = 1 - 2 * (what[i] & 1)
                _add(by_place, k, sign, value[row])
                running += sign
                if not abs(value[row]) < np.inf:
                    _add_odd(0, k, sign, value[row], odd, counts)
            i += 1
        if s == len(at):
            break
        k = np.uint64(of[s])
        values = by_place[k, 2]
        total = by_place[k, 0] + by_place[k, 1]
        if counts[1] > 0:
            total = _apply_odd(total, 0, 0, k, odd, counts)
        out[s] = total / max(values, 1.0) if mean else total
        there[s] = values > 0
        empty += int(not values > 0)
    counts[2] += running
    return out, there, empty


@jit
def sum_windows(
    what: Ints,
    key: Ints,
    at: Ints,
    of: Ints,
    window: Ints,
    value: Floats,
    valid: Bools,
    sums: Floats,
    odd: Ints,
    counts: Ints,
    mean: bool,
) -> tuple[Floats, Bools, int]:
    """Return the results of ``sum_floats``, for rows that ``span`` windows hold and others.

    ``window`` ``int64[r]``: another number for each window; a key with rows has a sample in each.
    """
    out, there = np.empty(len(at), np.float64), np.empty(len(at), np.bool_)
    by_place = sums.reshape((-1, 4))
    i = s = empty = 0
    while s < len(at):
        add_values(i, at[s], what, key, value, valid, by_place, odd, counts)
        i, first = at[s], s
        while s < len(at) and window[s] == window[first]:
            s += 1
        empty += write_sums(first, s, of, by_place, odd, counts, mean, out, there)
    add_values(i, len(what), what, key, value, valid, by_place, odd, counts)
    return out, there, empty


@jit
def add_values(
    begin: int,
    end: int,
    what: Ints,
    key: Ints,
    value: Floats,
    valid: Bools,
    by_place: Floats,
    odd: Ints,
    counts: Ints,
) -> None:
    """Apply the changes from number ``begin`` up to ``end``."""
    turn, running = counts[0], 0
    ring = np.uint64(turn) * np.uint64(odd.shape[1])
    for i in range(begin, end):
        change = what[np.uint64(i)]
        row = np.uint64(change >> 3)
        if valid[row]:
            k = np.uint64(key[row])
            sign = 1 - 2 * (change & 1)
            if change & 4:
                _add(by_place, ring + k, 1, value[row])
            else:
                _add(by_place, k, sign, value[row])
                running += sign
            if not abs(value[row]) < np.inf:
                _add_odd(turn if change & 4 else 0, k, sign, value[row], odd, counts)
    counts[2] += running


@jit
def write_sums(
    first: int,
    last: int,
    of: Ints,
    by_place: Floats,
    odd: Ints,
    counts: Ints,
    mean: bool,
    out: Floats,
    there: Bools,
) -> int:
    """Write the results of one window, from number ``first`` up to ``last``, and end the window.

    They are those of the keys ``of``, which have to be all keys with rows. Returns how many have no
    values.
    """
    span, keys = len(odd) - 1, np.uint64(odd.shape[1])
    join, leave = find_places(span, counts[0])
    ring, old = np.uint64(join) * keys, np.uint64(leave) * keys
    running, are_odd = span > 1 or counts[2] > 0, counts[1] > 0
    empty = 0
    for s in range(first, last):
        row = np.uint64(s)
        k = np.uint64(of[row])
        joins, leaves = ring + k, old + k
        total = error = values = 0.0
        if running:
            total, error, values = by_place[k, 0], by_place[k, 1], by_place[k, 2]
        x, more, count = by_place[joins, 0], by_place[joins, 1], by_place[joins, 2]
        if span > 1:
            total, error, values = _combine(total, error, values, x, more, count)
            x, more, count = by_place[leaves, 0], by_place[leaves, 1], by_place[leaves, 2]
            lasting = _combine(total, error, values, -x, -more, -count)
            by_place[k, 0], by_place[k, 1], by_place[k, 2] = lasting
        else:
            total, error, values = total + x, error + more, values + count
        total += error
        for part in range(3):
            by_place[leaves, part] = 0.0
        if are_odd:
            total = _apply_odd(total, join, leave, k, odd, counts)
        out[row] = total / max(values, 1.0) if mean else total
        there[row] = values > 0
        empty += int(not values > 0)
    counts[0] = leave
    return empty


@jit
def _add(sums: Floats, k: Number, sign: int, x: float) -> None:
    """Add a value to a sum, or take it away."""
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
def _combine(
    total: float, error: float, values: float, x: float, more: float, count: float
) -> tuple[float, float, float]:
    """Return a sum, its error and its number of values, with those of another sum added."""
    values += count
    after = total + x
    part = after - total
    error = error + more + ((total - (after - part)) + (x - part))
    return after if values != 0.0 else 0.0, error if values != 0.0 else 0.0, values


@jit
def _add_odd(place: int, k: Number, sign: int, x: float, odd: Ints, counts: Ints) -> None:
    """Count a NaN or an infinity that comes or goes."""
    odd[place, k, 0 if np.isnan(x) else 1 if x > 0 else 2] += sign
    counts[1] += sign


@jit
def _apply_odd(total: float, join: int, leave: int, k: Number, odd: Ints, counts: Ints) -> float:
    """Return the sum with NaN and infinities applied; drop those of rows that no window holds."""
    if len(odd) > 1:
        for part in range(3):
            odd[0, k, part] += odd[join, k, part]
    nans, highs, lows = odd[0, k, 0], odd[0, k, 1], odd[0, k, 2]
    if len(odd) > 1:
        for part in range(3):
            odd[0, k, part] -= odd[leave, k, part]
            counts[1] -= odd[leave, k, part]
            odd[leave, k, part] = 0
    if nans > 0 or (highs > 0 and lows > 0):
        return np.nan
    return np.inf if highs > 0 else -np.inf if lows > 0 else total
