"""Causes of the rows of union: the row of one of the two inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.carried_rows import CarriedRows, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.union.plan import Union


def find_united_rows(
    operator: Union, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the equal one of an input; equal ones in the order in which they came."""
    sizes = [len(each) for each in inputs]
    side = np.repeat([0, 1], sizes)
    number = np.concatenate([np.arange(size) for size in sizes])
    order = np.argsort(np.concatenate([each.known for each in inputs]), kind="stable")
    names = output.payload.columns
    both = CarriedRows(
        np.concatenate([each.start for each in inputs]),
        np.concatenate([each.end for each in inputs]),
        pl.concat([each.payload.select(names) for each in inputs]),
        (side, number),
    ).take(order)
    of, at = match_output(output, both, rows)
    return Causes.of_pairs(of, both.numbers[1][at], side=both.numbers[0][at])
