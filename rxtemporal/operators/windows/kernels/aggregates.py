"""Running aggregates over rows that come and go, sampled once for each window.

Every kernel here takes the changes that the sweep for windows takes (``what`` ``int64[n]``: row
``what >> 3`` begins, or where ``what & 1`` ends), the rows' ``key`` ``int64[rows]``, ``value`` and
``valid`` ``bool[rows]`` (nulls are ignored), and the samples (``at`` ``int64[r]`` rising, ``of``
``int64[r]`` keys). It returns for each sample the aggregate over the rows of that key that are
alive before change number ``at``. State arrays are updated in place.

Sums and counts also take rows that ``span`` windows hold and whose only change is that they begin
(``what & 4``). So their state arrays are ``[1 + span, keys]``: the running sums, and a ring of sums
over such rows, one place for each first window. A sum joins the running one at the first window
that holds its rows, and leaves it after the last one. ``window`` ``int64[r]``: another number for
each window; a key with rows has a sample in each window. Cost O(n + r).
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
    zero = np.uint64(0)
    s = i = 0
    while True:
        until = at[s] if s < len(at) else len(what)
        now = np.uint64(turn[0])
        while i < until:
            change = what[np.uint64(i)]
            row = np.uint64(change >> 3)
            # no branch: which values count is unpredictable
            step = int(valid[row]) * (1 - 2 * (change & 1))
            n[now if change & 4 else zero, np.uint64(key[row])] += step
            i += 1
        if s == len(at):
            return out
        if span > 0 and (s == 0 or window[s] != window[s - 1]):
            join, leave = find_places(span, turn[0])
            turn[0] = leave
        k = np.uint64(of[s])
        out[s] = _join(n, join, k, span)
        _leave(n, leave, k, span)
        s += 1


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
    zero = np.uint64(0)
    s = i = 0
    while True:
        until = at[s] if s < len(at) else len(what)
        now = np.uint64(turn[0])
        while i < until:
            change = what[np.uint64(i)]
            i += 1
            row = np.uint64(change >> 3)
            if valid[row]:
                k = np.uint64(key[row])
                place = now if change & 4 else zero
                sign = 1 - 2 * (change & 1)
                total[place, k] += sign * value[row]
                rough[place, k] += np.float64(sign) * np.float64(value[row])
        if s == len(at):
            return out, -1
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
