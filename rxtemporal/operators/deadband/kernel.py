"""Values that differ from the last one that passed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

# what the last value of a key that passed was
NONE, NUMBER, NULL, NAN = range(4)


@jit
def find_differing(
    key: Ints,
    values: npt.NDArray[Any],
    valid: Bools,
    by: float,
    last: npt.NDArray[Any],
    what: Bytes,
) -> Bools:
    """Return the mask of the values that differ by more than ``by`` from the last that passed.

    ``values`` ``int64[n]`` or ``float64[n]`` in order, of which those with ``valid`` are not null;
    ``key`` ``int64[n]``. ``last`` of the same type and ``what`` ``int8[keys]`` are the last value
    of each key that passed, and its kind; both are updated in place. O(n).
    """
    passes = np.zeros(len(key), np.bool_)
    for i in range(len(key)):
        k, value = key[i], values[i]
        kind = NULL
        if valid[i]:
            kind = NUMBER if value == value else NAN
        if kind == NUMBER and what[k] == NUMBER:
            passes[i] = abs(float(value) - float(last[k])) > by
        else:
            passes[i] = kind != what[k]
        if passes[i]:
            last[k], what[k] = value, kind
    return passes
