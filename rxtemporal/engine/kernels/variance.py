"""Running variance of rows that come and go, so exact that removed rows leave no trace."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_SPLIT = 134217729.0  # 2**27 + 1: splits a float64 into two halves of 26 bits
_LARGEST = 1e150  # a larger number has a square that is no float64


@jit
def _add(sums: Floats, at: int, k: int, x: float) -> None:
    """Add ``x`` to the number held by rows ``at`` (high) and ``at + 1`` (low) of ``sums``."""
    high = sums[at, k]
    total = high + x
    part = total - high
    error = (high - (total - part)) + (x - part)
    sums[at, k] = total
    sums[at + 1, k] += error


@jit
def _product_error(x: float, y: float, product: float) -> float:
    """Return the rounding error of ``x * y`` (Dekker)."""
    high = _SPLIT * x - (_SPLIT * x - x)
    low = x - high
    high2 = _SPLIT * y - (_SPLIT * y - y)
    low2 = y - high2
    return ((high * high2 - product) + high * low2 + low * high2) + low * low2


@jit
def _sum_squares(n: int, sums: Floats, k: int) -> float:
    """Return the sum of the squares of the distances from the mean; not below 0.

    Sums and products have a high and a low part: where all values are far from the pivot, their
    high parts cancel out.
    """
    high, low = sums[1, k], sums[2, k]
    mean = high / n
    part = mean * n
    mean_low = ((high - part) - _product_error(mean, float(n), part) + low) / n
    product = mean * high
    rest_low = _product_error(mean, high, product) + mean * low + mean_low * high
    rest: float = (sums[3, k] - product) + (sums[4, k] - rest_low)
    return max(rest, 0.0)


@jit
def compute_variance(
    what: Ints,
    key: Ints,
    value: Floats,
    valid: Bools,
    at: Ints,
    of: Ints,
    n: Ints,
    strange: Ints,
    sums: Floats,
) -> tuple[Floats, Ints]:
    """Return the variances (of the sample: ddof 1) and the counts of values that are not null.

    Changes and samples are those of ``kernels.aggregates``. State ``[keys]``: ``n``, the number of
    values; ``strange``, the number of values that are NaN, infinite or too large to square; and
    ``sums`` ``float64[5, keys]``: a pivot, which is the first value since the key was empty, and
    the sums of the distances from it and of their squares, each as a high and a low part. All are
    reset when no value is left.
    """
    out = np.empty(len(at), np.float64)
    counts = np.empty(len(at), np.int64)
    s = 0
    for i in range(len(what) + 1):
        while s < len(at) and at[s] == i:
            k = of[s]
            counts[s] = n[k]
            out[s] = np.nan
            if n[k] > 1 and strange[k] == 0:
                out[s] = _sum_squares(n[k], sums, k) / (n[k] - 1)
            s += 1
        if i == len(what) or not valid[what[i] >> 3]:
            continue
        k = key[what[i] >> 3]
        sign = 1 - 2 * (what[i] & 1)
        x = value[what[i] >> 3]
        if n[k] == 0:
            sums[0, k] = x if abs(x) < _LARGEST else 0.0
        n[k] += sign
        if not abs(x) < _LARGEST:
            strange[k] += sign
        else:
            x -= sums[0, k]
            square = x * x
            _add(sums, 1, k, sign * x)
            _add(sums, 3, k, sign * square)
            _add(sums, 3, k, sign * _product_error(x, x, square))
        if n[k] == 0:
            sums[:, k] = 0.0
    return out, counts
