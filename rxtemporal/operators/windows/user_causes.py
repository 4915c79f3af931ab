"""Windows of results whose lifetimes user code has chosen within their windows."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import make_series
from rxtemporal.operators.causes.time_index import Pairs
from rxtemporal.operators.windows.members import Asked, number_equal
from rxtemporal.operators.windows.results import ResultRows
from rxtemporal.operators.windows.results_plan import Apply, ResultSpec
from rxtemporal.operators.windows.rows import Contents


@dataclasses.dataclass(frozen=True, eq=False)
class Candidates:
    """Windows that may have given the results asked about, in order of the result.

    ``of`` is the number of the result; ``start`` and ``end`` are the window's.
    """

    of: Int64s
    start: Int64s
    end: Int64s


def list_members(asked: Asked, result: ResultSpec, windows: Candidates, members: Pairs) -> Pairs:
    """Return pairs (number of the result, row of the input) of the windows that gave the results.

    ``members`` are pairs (number of the candidate, row of the input). A user's function is called
    again for each candidate. All candidates of a result stay if none of them returns it again.
    """
    of, row = members
    if isinstance(result, Apply):
        kept = _choose_windows(asked, result, windows, members)
        of, row = of[kept[of]], row[kept[of]]
    return windows.of[of], row


def _choose_windows(
    asked: Asked, result: Apply, windows: Candidates, members: Pairs
) -> npt.NDArray[np.bool_]:
    """Return the mask of the candidates that gave the results."""
    if len(np.unique(windows.of)) == len(windows.of):
        return np.ones(len(windows.of), np.bool_)
    try:
        made = _call(asked, result, windows, members)
    except Exception:  # the user's function fails when called again
        return np.ones(len(windows.of), np.bool_)
    assert made.of is not None
    assert made.lifetimes is not None
    matches = np.flatnonzero(_is_repeated(asked, result, windows.of[made.of], made))
    found = windows.of[made.of[matches]]
    results, first, count = np.unique(found, return_index=True, return_counts=True)
    number = number_equal(asked.output)[asked.rows[results]]
    chosen = made.of[matches[first + np.minimum(number, count - 1)]]
    mask = ~np.isin(windows.of, results)
    mask[chosen] = True
    return np.asarray(mask)


def _call(asked: Asked, result: Apply, windows: Candidates, members: Pairs) -> ResultRows:
    """Call the user's function for each candidate, in order."""
    of, row = members
    source = asked.source
    contents = Contents.from_pairs(
        of, source.payload[row], source.start[row], source.end[row], windows.start, windows.end
    )
    return result.make(source.payload.schema, source.keys).compute([], contents)


def _is_repeated(
    asked: Asked, result: Apply, of: Int64s, made: ResultRows
) -> npt.NDArray[np.bool_]:
    """Return the mask of the results that are equal to the one asked about."""
    assert made.lifetimes is not None
    start, end = made.lifetimes
    equal = (asked.start[of] == start) & (asked.end[of] == end)
    known = asked.output.payload[asked.rows[of]]
    for (name, dtype), column in zip(result.schema.items(), made.columns, strict=True):
        again: pl.Series = make_series(name, column, dtype)
        equal &= known[name].eq_missing(again).to_numpy()
    return np.asarray(equal)
