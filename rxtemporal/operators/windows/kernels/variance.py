"""Exact running variance of rows that come and go: removed rows leave no trace.

It is computed from the sums of the values and of their squares, which are exact: four floats hold
the squares of ordinary values, and ``exact_sums`` what they do not. Where the values are so far
from 0, for their spread, that two floats of precision do not suffice, digits are subtracted.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.engine.kernels.exact_sums import (
    APPLIED,
    BITS,
    FIRST,
    HIGH,
    LEAST,
    LOW,
    NAN,
    SIZE,
    SQUARES,
    STOPPED,
    WRITTEN,
    add_exactly,
    add_float,
    add_product,
    clear,
    is_full,
    load,
    normalize,
    round_number,
    scale,
    store,
)

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_SPLIT = 134217729.0  # 2**27 + 1: splits a float64 into two halves of 26 bits
# the square of a number between these, its rounding error, and their sums are float64
_SMALL, _LARGE = 2.0**-400, 2.0**400
# two floats hold a difference to 1e-12 if it is not smaller in proportion
_PRECISE = 2.0**-60


@jit
def compute_variance(
    what: Ints,
    key: Ints,
    value: Floats,
    valid: Bools,
    at: Ints,
    of: Ints,
    root: bool,
    sums: Floats,
    squares: Floats,
    rest: Ints | None,
    progress: Ints,
    out: Floats,
    there: Bools,
) -> None:
    """Write the variances (of the sample: ddof 1), or their roots, and which samples have one.

    Changes and samples are those of ``kernels.aggregates``. A variance needs two values that are
    not null, and is NaN if one is NaN or infinite. State: the exact sums of the values, ``sums``
    ``float64[keys, 4]``, two floats, the number of values, and the first node in ``rest``, which is
    None until there is room for one, as in ``float_sums``; and those of the squares, ``squares``
    ``float64[keys, 5]``, four floats and the first node.
    """
    i, s = progress[APPLIED], progress[WRITTEN]
    fits = True
    while fits:
        upto = at[s] if s < len(at) else len(what)
        while i < upto:
            row = np.uint64(what[i] >> 3)
            if valid[row]:
                k = np.uint64(key[row])
                sign = 1 - 2 * (what[i] & 1)
                if not _add(sums, squares, k, sign, float(value[row])):
                    if rest is None or is_full(rest):
                        fits = False
                        break
                    _add_rest(sums, squares, k, sign, float(value[row]), rest)
            i += 1
        if not fits or s == len(at):
            break
        k = np.uint64(of[s])
        there[s] = sums[k, 2] > 1.0
        if there[s]:
            distances = -1.0
            if sums[k, 3] == 0.0 and squares[k, 4] == 0.0:
                distances = _sum_distances(sums, squares, k)
            if distances >= 0.0:
                variance = distances / (sums[k, 2] - 1.0)
                out[s] = math.sqrt(variance) if root else variance
            elif rest is None:
                fits = False
                break
            else:
                out[s] = _subtract_digits(sums, squares, k, rest, root)
        s += 1
    progress[APPLIED], progress[WRITTEN], progress[STOPPED] = i, s, int(not fits)


@jit
def _add(sums: Floats, squares: Floats, k: int | np.uint64, sign: int, value: float) -> bool:
    """Add a value, or take it away; if that is not all, do nothing and return False."""
    values = sums[k, 2] + float(sign)
    size = abs(value)
    if values == 0.0 and sums[k, 3] == 0.0 and squares[k, 4] == 0.0:
        sums[k] = squares[k] = 0.0
        return True
    if values == 0.0 or not (_SMALL <= size < _LARGE or size == 0.0):
        return False
    x = value * float(sign)
    square = value * x
    total, error = add_exactly(sums[k, 0], x)
    error, lost = add_exactly(sums[k, 1], error)
    first, part = add_exactly(squares[k, 0], square)
    second, part = add_exactly(squares[k, 1], part)
    third, part = add_exactly(squares[k, 2], part)
    fourth, loses = add_exactly(squares[k, 3], part)
    second, part = add_exactly(second, _find_error(value, x, square))
    third, part = add_exactly(third, part)
    fourth, part = add_exactly(fourth, part)
    if lost != 0.0 or loses != 0.0 or part != 0.0:
        return False
    sums[k, 0], sums[k, 1], sums[k, 2] = total, error, values
    squares[k, 0], squares[k, 1], squares[k, 2], squares[k, 3] = first, second, third, fourth
    return True


@jit
def _find_error(x: float, y: float, product: float) -> float:
    """Return the rounding error of ``x * y`` (Dekker)."""
    high = _SPLIT * x - (_SPLIT * x - x)
    low = x - high
    high2 = _SPLIT * y - (_SPLIT * y - y)
    low2 = y - high2
    return ((high * high2 - product) + high * low2 + low * high2) + low * low2


@jit
def _sum_distances(sums: Floats, squares: Floats, k: int | np.uint64) -> float:
    """Return the sum of the squares of the distances from the mean; -1 if it is not precise."""
    n = float(sums[k, 2])
    high, low = add_exactly(float(sums[k, 0]), float(sums[k, 1]))
    first, second = float(squares[k, 0]), float(squares[k, 1])
    third, fourth = float(squares[k, 2]), float(squares[k, 3])
    bound = abs(first) + abs(second) + abs(third) + abs(fourth)
    if bound == 0.0:
        return 0.0
    third, fourth = add_exactly(third, fourth)
    second, third = add_exactly(second, third)
    first, second = add_exactly(first, second)
    mean = high / n
    part = mean * n
    mean_low = ((high - part) - _find_error(mean, n, part) + low) / n
    product = mean * high
    rest_low = _find_error(mean, high, product) + mean * low + mean_low * high
    distances = (first - product) + (second + (third + fourth) - rest_low)
    precise = bound >= _SMALL * _SMALL and distances >= bound * _PRECISE
    return distances if precise else -1.0


@jit
def _add_rest(
    sums: Floats, squares: Floats, k: int | np.uint64, sign: int, value: float, rest: Ints
) -> None:
    """Do what ``_add`` does not."""
    sums[k, 2] += float(sign)
    if sums[k, 2] == 0.0:
        clear(sums, k, 2, rest)
        clear(squares, k, 4, rest)
        return
    digits = np.zeros(SIZE, np.int64)
    load(digits, sums, k, 2, rest, 1, LEAST)
    add_float(digits, value, sign, LEAST)
    store(digits, sums, k, 2, rest, LEAST)
    if abs(value) < np.inf:
        own, digits = np.zeros(SIZE, np.int64), np.zeros(SQUARES, np.int64)
        add_float(own, abs(value), 1, LEAST)
        load(digits, squares, k, 4, rest, 1, 2 * LEAST)
        add_product(digits, own, own, sign)
        store(digits, squares, k, 4, rest, 2 * LEAST)


@jit
def _subtract_digits(
    sums: Floats, squares: Floats, k: int | np.uint64, rest: Ints, root: bool
) -> float:
    """Return the variance, or its root, from the sums in digits: n * squares - sum * sum."""
    total, both = np.zeros(SIZE, np.int64), np.zeros(SQUARES, np.int64)
    load(total, sums, k, 2, rest, 1, LEAST)
    if total[NAN] > 0 or total[HIGH] > 0 or total[LOW] > 0:
        return np.nan
    load(both, squares, k, 4, rest, 1, 2 * LEAST)
    normalize(total)
    normalize(both)
    n = int(sums[k, 2])
    count, distances = np.zeros(FIRST + 2, np.int64), np.zeros(SQUARES, np.int64)
    count[FIRST], count[FIRST + 1] = n & ((1 << BITS) - 1), n >> BITS
    add_product(distances, both, count, 1)
    add_product(distances, total, total, -1)
    normalize(distances)
    f, e = round_number(distances, 2 * LEAST)
    f /= float(n) * float(n - 1)
    if root:
        f, e = math.sqrt(f * 2.0 if e & 1 else f), e >> 1
    f, more = math.frexp(f)
    return scale(f * 2.0, e + more - 1)
