"""Exact sums of floats over rows that come and go, rounded once for each result.

A sum is two floats, a total and its rounding error (Knuth's exact sum of two), as long as these
hold it exactly. A value with which they would not goes to the digits of ``exact_sums``: one of
another magnitude, one that makes the total overflow, NaN and infinities.

Each value counts with its weight, by which it is multiplied: ``bool``, so that it counts or does
not, or ``int64``, the length of an overlap. A weight of 0 stands for no value.

The state is ``sums`` ``float64[1 + span, keys, 4]``: the running sums and the ring, as in
``aggregates``; of each the total, the error, the sum of weights, and the first node of its rest in
``rest``. That is None until a sum needs one: a kernel then stops where one is needed, and is
compiled without the digits, which would take three times as long as all else. The sum of weights is
in ``tally``, which is ``sums`` itself or its memory as ``int64``, in which those of lengths are
exact. ``counts`` ``int64[5]``: the progress; the place in the ring of rows that begin now; and over
all keys the number of running values, since where it is 0 nothing is looked up.
``by_place``, ``weights``: ``sums`` and ``tally`` as ``[…, 4]``, of which an index is faster.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.engine.kernels.exact_sums import (
    APPLIED,
    LEAST,
    SIZE,
    STOPPED,
    WRITTEN,
    add_exactly,
    add_float,
    clear,
    is_full,
    load,
    store,
)
from rxtemporal.operators.windows.kernels.aggregates import find_places

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Weight = Bools | Ints
Tally = Floats | Ints
Number = int | np.uint64
Rest = Ints | None


# places in ``counts``, after those of the progress
TURN, RUNNING = 3, 4
# stand at ``STOPPED`` for a rest that has no room, and for weights whose sum is no int64
NO_ROOM, TOO_LONG = 1, 2


@jit
def sum_floats(
    what: Ints,
    key: Ints,
    at: Ints,
    of: Ints,
    value: Floats,
    weight: Weight,
    sums: Floats,
    tally: Tally,
    rest: Rest,
    counts: Ints,
    mean: bool,
    out: Floats,
    there: Bools,
) -> int:
    """Write the sums, or the means, and which samples have values; return how many have none.

    The arguments are as in ``aggregates``, and the state has no ring. The sum of nothing is 0.
    """
    by_place, weights = sums.reshape((-1, 4)), tally.reshape((-1, 4))
    i, s = counts[APPLIED], counts[WRITTEN]
    empty = running = stopped = 0
    # one loop: there may be a sample for each change, and a call for each costs more than it does
    while not stopped:
        upto = at[s] if s < len(at) else len(what)
        while i < upto:
            row = np.uint64(what[i] >> 3)
            if weight[row]:
                k = np.uint64(key[row])
                sign = 1 - 2 * (what[i] & 1)
                times = weight[row] * sign
                if not _add(by_place, weights, k, value[row], times):
                    stopped = _add_rest(by_place, weights, k, value[row], times, rest)
                    if stopped:
                        break
                running += sign
            i += 1
        if stopped or s == len(at):
            break
        k = np.uint64(of[s])
        values = weights[k, 2]
        total = by_place[k, 0] + by_place[k, 1]
        if by_place[k, 3] != 0.0:
            if rest is None or is_full(rest):
                stopped = NO_ROOM
                break
            total = _settle(by_place, k, 0.0, 1, rest)
        out[s] = total / max(values, 1.0) if mean else total
        there[s] = values > 0
        empty += int(not values > 0)
        s += 1
    counts[RUNNING] += running
    counts[APPLIED], counts[WRITTEN], counts[STOPPED] = i, s, stopped
    return empty


@jit
def sum_windows(
    what: Ints,
    key: Ints,
    at: Ints,
    of: Ints,
    window: Ints,
    value: Floats,
    weight: Weight,
    sums: Floats,
    tally: Tally,
    rest: Rest,
    counts: Ints,
    mean: bool,
    out: Floats,
    there: Bools,
) -> int:
    """Write the results of ``sum_floats``, for rows that ``span`` windows hold and others.

    ``window`` ``int64[r]``: another number for each window; a key with rows has a sample in each.
    """
    by_place, weights = sums.reshape((-1, 4)), tally.reshape((-1, 4))
    counts[STOPPED] = 0
    s = counts[WRITTEN]
    empty = 0
    while s < len(at) and not counts[STOPPED]:
        add_values(
            counts[APPLIED], at[s], what, key, value, weight, sums, by_place, weights, rest, counts
        )  # fmt: skip
        first = s
        while s < len(at) and window[s] == window[first]:
            s += 1
        empty += write_sums(first, s, of, sums, by_place, weights, rest, counts, mean, out, there)
    add_values(
        counts[APPLIED], len(what), what, key, value, weight, sums, by_place, weights, rest, counts
    )  # fmt: skip
    return empty


@jit
def add_values(
    begin: int,
    end: int,
    what: Ints,
    key: Ints,
    value: Floats,
    weight: Weight,
    sums: Floats,
    by_place: Floats,
    weights: Tally,
    rest: Rest,
    counts: Ints,
) -> None:
    """Apply the changes from number ``begin`` up to ``end``, unless the sum has stopped before."""
    if counts[STOPPED]:
        return
    running = 0
    ring = np.uint64(counts[TURN]) * np.uint64(sums.shape[1])
    for i in range(begin, end):
        change = what[np.uint64(i)]
        row = np.uint64(change >> 3)
        if weight[row]:
            k = np.uint64(key[row])
            once = change & 4
            sign = 1 - 2 * (change & 1)
            times = weight[row] * sign
            place = ring + k if once else k
            if not _add(by_place, weights, place, value[row], times):
                stopped = _add_rest(by_place, weights, place, value[row], times, rest)
                if stopped:
                    counts[STOPPED] = stopped
                    end = i
                    break
            running += 0 if once else sign
    counts[RUNNING] += running
    counts[APPLIED] = end


@jit
def write_sums(
    first: int,
    last: int,
    of: Ints,
    sums: Floats,
    by_place: Floats,
    weights: Tally,
    rest: Rest,
    counts: Ints,
    mean: bool,
    out: Floats,
    there: Bools,
) -> int:
    """Write the results of one window, from number ``first`` up to ``last``, and end the window.

    They are those of the keys ``of``, which have to be all keys with rows. Returns how many have no
    values. Writes nothing if the sum has stopped before.
    """
    if counts[STOPPED]:
        return 0
    span, keys = len(sums) - 1, np.uint64(sums.shape[1])
    join, leave = find_places(span, counts[TURN])
    ring, old = np.uint64(join) * keys, np.uint64(leave) * keys
    running = span > 1 or counts[RUNNING] > 0
    empty = 0
    for s in range(first, last):
        row = np.uint64(s)
        k = np.uint64(of[row])
        joins, leaves = ring + k, old + k
        total = error = rests = 0.0
        x, more, count = by_place[joins, 0], by_place[joins, 1], weights[joins, 2]
        values = count - count
        if running:
            total, error, values, rests = (
                by_place[k, 0], by_place[k, 1], weights[k, 2], by_place[k, 3],
            )  # fmt: skip
        rests += by_place[joins, 3] + by_place[leaves, 3]
        total, error, values, exact = _combine(total, error, values, x, more, count)
        if span > 1:
            x, more, count = by_place[leaves, 0], by_place[leaves, 1], weights[leaves, 2]
            after, low, left, fits = _combine(total, error, values, -x, -more, -count)
            exact = exact and fits
        if values < 0:
            counts[WRITTEN], counts[STOPPED] = s, TOO_LONG
            return empty
        if exact and rests == 0.0:
            if span > 1:
                by_place[k, 0], by_place[k, 1], weights[k, 2] = after, low, left
            total += error
            by_place[leaves, 0] = by_place[leaves, 1] = 0.0
            weights[leaves, 2] = 0
        elif rest is None or is_full(rest):
            counts[WRITTEN], counts[STOPPED] = s, NO_ROOM
            return empty
        else:
            total = _pass(by_place, weights, k, joins, leaves, rest)
        out[row] = total / max(values, 1.0) if mean else total
        there[row] = values > 0
        empty += int(not values > 0)
    counts[TURN], counts[WRITTEN] = leave, last
    return empty


@jit
def _add(sums: Floats, weights: Tally, k: Number, value: float, times: int) -> bool:
    """Add a value so many times to a sum; if that is not all, do nothing and return False.

    It is not if the sum of weights is no int64: it is negative then, as no weight is.
    """
    x = float(value) * float(times)
    before, error = float(sums[k, 0]), float(sums[k, 1])
    values = weights[k, 2] + times
    total, more = add_exactly(before, x)
    after = error + more
    # false if a bit is lost, and also for NaN, to which infinities and an overflow lead
    fits = after - error == more and after - more == error
    if fits and values > 0:
        sums[k, 0], sums[k, 1], weights[k, 2] = total, after, values
        return True
    return False


@jit
def _add_rest(sums: Floats, weights: Tally, k: Number, value: float, times: int, rest: Rest) -> int:
    """Do what ``_add`` does not; return 0, or what stops the kernel."""
    values = weights[k, 2] + times
    if values < 0:
        return TOO_LONG
    if rest is None:
        if values != 0:
            return NO_ROOM
        sums[k, 0] = sums[k, 1] = weights[k, 2] = 0
        return 0
    if is_full(rest):
        return NO_ROOM
    weights[k, 2] = values
    if values == 0:
        clear(sums, k, 2, rest)
    else:
        _settle(sums, k, float(value) * float(abs(times)), 1 if times > 0 else -1, rest)
    return 0


@jit
def _combine(
    total: float, error: float, values: float, x: float, more: float, count: float
) -> tuple[float, float, float, bool]:
    """Return a sum, its error and its sum of weights, with those of another sum added.

    And True if these hold it exactly.
    """
    # floats of Python, if this is not compiled: those of numpy warn of an overflow
    total, error, x, more = float(total), float(error), float(x), float(more)
    values += count
    after, lost = add_exactly(total, x)
    both = error + more
    low = both + lost
    exact = both - error == more and both - more == error
    exact = exact and low - both == lost and low - lost == both
    return after, low, values, exact


@jit
def _settle(sums: Floats, k: Number, value: float, sign: int, rest: Ints) -> float:
    """Add a value to a sum digit by digit, or take it away; return the sum, rounded."""
    digits = np.zeros(SIZE, np.int64)
    load(digits, sums, k, 2, rest, 1, LEAST)
    add_float(digits, float(value), sign, LEAST)
    return store(digits, sums, k, 2, rest, LEAST)


@jit
def _pass(
    sums: Floats, weights: Tally, k: Number, joins: Number, leaves: Number, rest: Ints
) -> float:
    """Return the sum of a window, rounded: that of ``k`` and the one that joins it.

    Leave in ``k`` the sum without the one that leaves, and nothing in that.
    """
    digits = np.zeros(SIZE, np.int64)
    load(digits, sums, k, 2, rest, 1, LEAST)
    load(digits, sums, joins, 2, rest, 1, LEAST)
    total = store(digits, sums, k, 2, rest, LEAST)
    digits = np.zeros(SIZE, np.int64)
    load(digits, sums, k, 2, rest, 1, LEAST)
    load(digits, sums, leaves, 2, rest, -1, LEAST)
    store(digits, sums, k, 2, rest, LEAST)
    weights[k, 2] += weights[joins, 2] - weights[leaves, 2]
    clear(sums, leaves, 2, rest)
    weights[leaves, 2] = 0
    if weights[k, 2] == 0:
        clear(sums, k, 2, rest)
    return total
