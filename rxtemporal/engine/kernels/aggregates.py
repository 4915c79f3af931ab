"""Running aggregates over rows that come and go, sampled once for each window.

Every kernel here takes the changes that the sweep for windows takes (``what`` ``int64[n]``: row
``what >> 3`` begins, or where ``what & 1`` ends), the rows' ``key`` ``int64[rows]``, ``value`` and
``valid`` ``bool[rows]`` (nulls are ignored), and the samples (``at`` ``int64[r]`` rising, ``of``
``int64[r]`` keys). It returns for each sample the aggregate over the rows of that key that are
alive before change number ``at``. State arrays are ``[keys]`` and updated in place.

``count``, ``sum_integers`` and ``sum_floats`` also take rows that ``span`` windows hold and whose
only change is that they begin (``what & 4``). So their state arrays are ``[1 + span, keys]``: the
running sums, and a ring of sums over such rows, one place for each first window. A sum joins the
running one at the first window that holds its rows, and leaves it after the last one. ``window``
``int64[r]``: another number for each window; a key with rows has a sample in each window.
Cost O(n + r).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Number = int | np.uint64


@jit
def count(
    what: Ints, key: Ints, valid: Bools, at: Ints, of: Ints, window: Ints, n: Ints, turn: Ints
) -> Ints:
    """Return the number of values that are not null.

    ``n`` ``int64[1 + span, keys]``: the counts so far; ``turn`` ``int64[1]``: the place in the ring
    of rows that begin now.
    """
    out = np.empty(len(at), np.int64)
    span = len(n) - 1
    join, leave = find_places(span, turn[0])
    s = 0
    for i in range(len(what) + 1):
        while s < len(at) and at[s] == i:
            if span > 0 and (s == 0 or window[s] != window[s - 1]):
                join, leave = find_places(span, turn[0])
                turn[0] = leave
            k = np.uint64(of[s])
            out[s] = _join(n, join, k, span)
            _leave(n, leave, k, span)
            s += 1
        if i < len(what):
            row = np.uint64(what[i] >> 3)
            if valid[row]:
                n[turn[0] if what[i] & 4 else 0, np.uint64(key[row])] += 1 - 2 * (what[i] & 1)
    return out


@jit
def sum_integers(
    what: Ints,
    key: Ints,
    value: Ints,
    valid: Bools,
    at: Ints,
    of: Ints,
    window: Ints,
    total: Ints,
    rough: Floats,
    turn: Ints,
) -> tuple[Ints, int]:
    """Return the exact sums, and the number of the first sample whose sum overflows int64, or -1.

    ``total``, ``rough`` ``[1 + span, keys]`` and ``turn`` are as in ``count``. ``total`` may wrap,
    and is right again once the rows that made it wrap are removed; ``rough`` is the same sum in
    float64, by which a wrapped sum is recognised.
    """
    out = np.empty(len(at), np.int64)
    span = len(total) - 1
    join, leave = find_places(span, turn[0])
    s = 0
    for i in range(len(what) + 1):
        while s < len(at) and at[s] == i:
            if span > 0 and (s == 0 or window[s] != window[s - 1]):
                join, leave = find_places(span, turn[0])
                turn[0] = leave
            k = np.uint64(of[s])
            out[s] = _join(total, join, k, span)
            if abs(_join(rough, join, k, span) - np.float64(out[s])) > 4.0e18:
                return out, s
            _leave(total, leave, k, span)
            _leave(rough, leave, k, span)
            s += 1
        if i == len(what):
            continue
        row = np.uint64(what[i] >> 3)
        if valid[row]:
            k = np.uint64(key[row])
            place = turn[0] if what[i] & 4 else 0
            sign = 1 - 2 * (what[i] & 1)
            total[place, k] += sign * value[row]
            rough[place, k] += np.float64(sign) * np.float64(value[row])
    return out, -1


@jit
def find_places(span: int, turn: int) -> tuple[int, int]:
    """Return the places of a ring whose sums join at the next window and leave after it."""
    return turn, turn + 1 if turn < span else 1


@jit
def _join(n: npt.NDArray, place: int, k: Number, span: int) -> Any:  # type: ignore[type-arg]
    """Add a key's sum at this place of the ring to the running one, and return that."""
    if span > 0:
        n[0, k] += n[place, k]
    return n[0, k]


@jit
def _leave(n: npt.NDArray, place: int, k: Number, span: int) -> None:  # type: ignore[type-arg]
    """Subtract a key's sum at this place of the ring from the running one, and drop it."""
    if span > 0:
        n[0, k] -= n[place, k]
        n[place, k] = 0


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
