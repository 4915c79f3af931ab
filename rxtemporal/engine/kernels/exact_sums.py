"""Exact numbers in digits: what a few floats do not hold of a sum.

A number is an array of ``int64`` digits to the base 2**30. The digit at ``FIRST`` counts units of
2**-1080, which is below the least float64; in a sum of squares, units of 2**-2160. Below ``FIRST``
are the numbers of values that are NaN, +inf and -inf, and two zeros. Digits may be large or
negative until ``_normalize``.

A running sum is a few floats, whose exact sum it is, and the *rest* that they do not hold. Rests
are lists of digits that are not 0: ``rest`` ``int64[nodes, 3]`` has for each node the place of its
digit, the digit, and the next node (0: none). Its row 0 has the first of the nodes that were
released, the highest number in use, and how many nodes are in use. Adding is exact, so that values
leave no trace once they are removed, and their order does not matter. A change of digits costs
about a hundred times what one of floats does.

A kernel stops where ``rest`` has no room, and continues from there when called again: its
``progress`` has the numbers of changes applied and of results written, and 1 if it has stopped.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Number = int | np.uint64

# places in ``progress``
APPLIED, WRITTEN, STOPPED = range(3)

# places in a number
NAN, HIGH, LOW, FIRST = 0, 1, 2, 5
# digits of a sum of so many float64 as there may ever be, and of their squares
SIZE, SQUARES = FIRST + 74, FIRST + 147
BITS = 30
LEAST = -36 * BITS
_BASE = 1 << BITS


@jit
def add_exactly(x: float, y: float) -> tuple[float, float]:
    """Return the sum of two floats, and its rounding error (Knuth); NaN if it overflows."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@jit
def is_full(rest: Ints) -> bool:
    """Return True if there may be too few nodes for one more change of a sum, or of two."""
    return bool(len(rest) - 1 - rest[0, 2] < SIZE + SQUARES)


@jit
def add_float(digits: Ints, x: float, sign: int, least: int) -> None:
    """Add a float to a number whose unit is 2**``least``, or with ``sign`` -1 subtract it."""
    if not abs(x) < np.inf:
        digits[NAN if np.isnan(x) else HIGH if x > 0 else LOW] += sign
        return
    x *= sign
    exponent = (math.frexp(x)[1] - 1) // BITS * BITS
    while x != 0.0:
        # at most 30 bits, and those below
        digit = int(math.ldexp(x, -exponent))
        digits[FIRST + (exponent - least) // BITS] += digit
        x -= math.ldexp(float(digit), exponent)
        exponent -= BITS


@jit
def add_product(digits: Ints, x: Ints, y: Ints, sign: int) -> None:
    """Add the product of two numbers, with digits from 0 to 2**30 - 1, or subtract it."""
    for i in range(FIRST, len(x)):
        if x[i] == 0:
            continue
        for j in range(FIRST, len(y)):
            if y[j] != 0:
                product = x[i] * y[j]
                digits[i + j - FIRST] += sign * (product & (_BASE - 1))
                digits[i + j - FIRST + 1] += sign * (product >> BITS)


@jit
def normalize(digits: Ints) -> int:
    """Replace a number by its absolute value with digits from 0 to 2**30 - 1; return the sign."""
    sign = 1
    if _carry(digits) < 0:
        sign = -1
        for d in range(FIRST, len(digits)):
            digits[d] = -digits[d]
        _carry(digits)
    return sign


@jit
def _carry(digits: Ints) -> int:
    """Make all digits but the highest at least 0 and less than 2**30; return the highest."""
    carry = 0
    last = len(digits) - 1
    for d in range(FIRST, last):
        digit = digits[d] + carry
        carry = digit >> BITS
        digits[d] = digit & (_BASE - 1)
    digits[last] += carry
    return int(digits[last])


@jit
def round_number(digits: Ints, least: int) -> tuple[float, int]:
    """Return f and e of the nearest f * 2**e, with 1 <= f <= 2; f is 0 for 0.

    The number is not negative and is normalized; its unit is 2**``least``.
    """
    top = len(digits) - 1
    while top >= FIRST and digits[top] == 0:
        top -= 1
    if top < FIRST:
        return 0.0, 0
    # the highest 61 bits, the last of which stands for all that are lost
    room = BITS + 1 - math.frexp(float(digits[top]))[1]
    third = digits[top - 2]
    bits = (((digits[top] << BITS) | digits[top - 1]) << room) | (third >> (BITS - room))
    lost = third & ((1 << (BITS - room)) - 1)
    for d in range(FIRST, top - 2):
        lost |= digits[d]
    if lost != 0:
        bits |= 1
    return math.ldexp(float(bits), -2 * BITS), least + BITS * (top - FIRST) + BITS - room


@jit
def scale(f: float, e: int) -> float:
    """Return f * 2**e, infinite if it overflows."""
    return np.inf if e > 1023 else f * math.ldexp(1.0, e)


@jit
def load(
    digits: Ints, sums: Floats, k: Number, floats: int, rest: Ints, sign: int, least: int
) -> None:
    """Add the running sum ``sums[k]`` to a number, or with ``sign`` -1 subtract it.

    It has so many floats, and in the last column its first node.
    """
    for part in range(floats):
        add_float(digits, float(sums[k, part]), sign, least)
    node = int(sums[k, -1])
    while node != 0:
        digits[rest[node, 0]] += sign * rest[node, 1]
        node = rest[node, 2]


@jit
def clear(sums: Floats, k: Number, floats: int, rest: Ints) -> None:
    """Make the running sum ``sums[k]`` 0, and release its nodes."""
    for part in range(floats):
        sums[k, part] = 0.0
    node = int(sums[k, -1])
    sums[k, -1] = 0.0
    while node != 0:
        after = rest[node, 2]
        rest[node, 2] = rest[0, 0]
        rest[0, 0] = node
        rest[0, 2] -= 1
        node = after


@jit
def store(digits: Ints, sums: Floats, k: Number, floats: int, rest: Ints, least: int) -> float:
    """Make a number the running sum ``sums[k]``; return it rounded.

    Each float is the nearest one to what those before it do not hold. The digits are used up.
    """
    clear(sums, k, floats, rest)
    rounded = 0.0
    for part in range(floats):
        sign = normalize(digits)
        nearest = sign * scale(*round_number(digits, least))
        if part == 0:
            rounded = nearest
        if abs(nearest) < np.inf:
            add_float(digits, nearest, -sign, least)
            sums[k, part] = nearest
        if sign < 0:
            for d in range(FIRST, len(digits)):
                digits[d] = -digits[d]
    if digits[NAN] > 0 or (digits[HIGH] > 0 and digits[LOW] > 0):
        rounded = np.nan
    elif digits[HIGH] > 0 or digits[LOW] > 0:
        rounded = np.inf if digits[HIGH] > 0 else -np.inf
    for d in range(len(digits)):
        if digits[d] != 0:
            node = rest[0, 0]
            if node != 0:
                rest[0, 0] = rest[node, 2]
            else:
                rest[0, 1] += 1
                node = rest[0, 1]
            rest[0, 2] += 1
            rest[node, 0], rest[node, 1], rest[node, 2] = d, digits[d], int(sums[k, -1])
            sums[k, -1] = node
    return rounded


@jit
def clear_all(places: Ints, sums: Floats, floats: int, rest: Ints) -> None:
    """Make the running sums at these places 0, and release their nodes."""
    for i in range(len(places)):
        clear(sums, places[i], floats, rest)


@jit
def move_rests(
    begin: int,
    places: Ints,
    sums: Floats,
    rest: Ints,
    others: Ints,
    other: Floats,
    other_rest: Ints,
    floats: int,
    size: int,
    least: int,
) -> int:
    """Make running sums equal to others, which have rests in another array of nodes.

    ``places``, ``others`` ``int64[n]``: the places of the sums, and of those to which they become
    equal. ``size`` digits, of units of 2**``least``, hold each. Begins at number ``begin`` and
    returns the number at which it stopped: n, or one for which ``rest`` may have no room.
    """
    for i in range(begin, len(places)):
        if is_full(rest):
            return i
        digits = np.zeros(size, np.int64)
        load(digits, other, others[i], floats, other_rest, 1, least)
        store(digits, sums, places[i], floats, rest, least)
    return len(places)
