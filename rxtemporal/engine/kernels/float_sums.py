"""Compensated sums of floats over rows that come and go; the arguments are as in ``aggregates``."""

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
    value: Floats,
    valid: Bools,
    at: Ints,
    of: Ints,
    window: Ints,
    sums: Floats,
    odd: Ints,
    counts: Ints,
    mean: bool,
) -> tuple[Floats, Bools, int]:
    """Return the sums (or the means), where there is one, and how many samples have none.

    The sum of nothing is 0. ``sums`` ``float64[1 + span, keys, 4]``: the running sums and the ring.
    Each is a sum, its rounding error (Knuth's exact sum of two), so that removal does not make it
    drift, and the number of values; sum and error are reset when no value is left. ``odd``
    ``int64[1 + span, keys, 3]``: how many values are NaN, +inf and -inf; they never enter the sum
    and so leave no trace. ``counts`` ``int64[3]``: the place in the ring of rows that begin now,
    and over all keys the numbers of odd values and of others that are running; where one is 0,
    nothing is looked up.
    """
    out = np.empty(len(at), np.float64)
    there = np.empty(len(at), np.bool_)
    span, keys = len(sums) - 1, np.uint64(sums.shape[1])
    by_place = sums.reshape((-1, 4))  # an index of one number is faster
    turn, running = counts[0], counts[2]
    join, leave = find_places(span, turn)
    ring, joins, leaves = np.uint64(turn) * keys, np.uint64(0), np.uint64(0)
    i = empty = 0
    for s in range(len(at) + 1):
        upto = at[s] if s < len(at) else len(what)
        while i < upto:
            row = np.uint64(what[i] >> 3)
            if valid[row]:
                k = np.uint64(key[row])
                sign = 1 - 2 * (what[i] & 1)
                if what[i] & 4:
                    _add(by_place, ring + k, 1, value[row])
                else:
                    _add(by_place, k, sign, value[row])
                    running += sign
                if not abs(value[row]) < np.inf:
                    _add_odd(turn if what[i] & 4 else 0, k, sign, value[row], odd, counts)
            i += 1
        if s == len(at):
            break
        if span > 0 and (s == 0 or window[s] != window[s - 1]):
            join, leave = find_places(span, turn)
            turn = leave
            joins, leaves = np.uint64(join) * keys, np.uint64(leave) * keys
            ring = leaves
        k = np.uint64(of[s])
        total = rest = values = 0.0
        if span > 1:
            _move(by_place, joins + k, k, 1.0)
        if span > 1 or running > 0:
            total, rest, values = by_place[k, 0], by_place[k, 1], by_place[k, 2]
        if span == 1 and by_place[joins + k, 2] > 0:
            total += by_place[joins + k, 0]
            rest += by_place[joins + k, 1]
            values += by_place[joins + k, 2]
        total += rest
        if span > 1:
            _move(by_place, leaves + k, k, -1.0)
        if span > 0:
            for part in range(3):
                by_place[leaves + k, part] = 0.0
        if counts[1] > 0:
            total = _apply_odd(total, join, leave, k, odd, counts)
        out[s] = total / max(values, 1.0) if mean else total
        there[s] = values > 0
        empty += int(not values > 0)
    counts[0], counts[2] = turn, running
    return out, there, empty


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
def _move(sums: Floats, source: Number, k: Number, sign: float) -> None:
    """Add one sum to another, or take it away."""
    values = sums[k, 2] + sign * sums[source, 2]
    x = sign * sums[source, 0]
    before = sums[k, 0]
    total = before + x
    part = total - before
    rest = sums[k, 1] + sign * sums[source, 1] + ((before - (total - part)) + (x - part))
    sums[k, 0] = total if values != 0.0 else 0.0
    sums[k, 1] = rest if values != 0.0 else 0.0
    sums[k, 2] = values


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
