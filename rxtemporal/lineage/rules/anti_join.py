"""Causes of the rows of left_anti_join: the left row, and the right rows at the ends of its gap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.lineage.carried_rows import CarriedRows, carry, match_output
from rxtemporal.lineage.causes import BOUNDARY, Causes, find_causes
from rxtemporal.lineage.history import History
from rxtemporal.lineage.rules.join import find_pairs
from rxtemporal.operators.anti_join import LeftAntiJoin


@find_causes.register
def find_lonely_rows(
    operator: LeftAntiJoin, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row its left row, and the right rows at the ends of its gap."""
    made = carry(operator, inputs)
    of, at = match_output(output, made, rows)
    return find_gaps(of, made.take(at), find_pairs(operator, inputs))


def find_gaps(of: Int64s, pieces: CarriedRows, pairs: CarriedRows, *, own: int = 0) -> Causes:
    """Return the causes of pieces of rows of one side, ``own``, that nothing of the other covers.

    ``pairs`` are all pairs that match. The rows of the other side that end where a piece begins,
    or begin where it ends, are boundaries; where several do, each of them is.
    """
    (number,) = pieces.numbers
    begun = _find_partners(of, number, pieces.start, pairs.numbers[own], pairs.end)
    ended = _find_partners(of, number, pieces.end, pairs.numbers[own], pairs.start)
    parts = [Causes.of_pairs(of, number, side=own)]
    for whose, pair in (begun, ended):
        other = pairs.numbers[1 - own][pair]
        parts.append(Causes.of_pairs(whose, other, side=1 - own, role=BOUNDARY))
    return Causes.concat(parts)


def _find_partners(
    of: Int64s, number: Int64s, time: Int64s, numbers: Int64s, times: Int64s
) -> tuple[Int64s, Int64s]:
    wanted = pl.DataFrame({"of": of, "number": number, "time": time})
    pairs = pl.DataFrame({"pair": np.arange(len(numbers)), "number": numbers, "time": times})
    found = wanted.join(pairs, on=["number", "time"], how="inner")
    return found.get_column("of").to_numpy(), found.get_column("pair").to_numpy()
