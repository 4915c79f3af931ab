"""Causes of the rows of stitch: the rows that were joined, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.carried_rows import get_cti
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import NEVER, History, code_fields
from rxtemporal.operators.stitch.plan import Stitch


class _Chain:
    """Rows joined so far, with the start of the first."""

    __slots__ = ("end", "rows", "start")

    def __init__(self, start: int) -> None:
        self.start, self.end = start, MAX_TIME
        self.rows: list[int] = []


def find_joined_lifetimes(
    operator: Stitch, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the rows of its payload that it is joined of."""
    (given,) = inputs
    values, value = code_fields(given, output, given.payload.columns)
    of: list[int] = []
    row: list[int] = []
    for each in np.unique(value[rows]).tolist():
        chains = defaultdict(list)
        for chain in _join(given, np.flatnonzero(values == each)):
            chains[chain.start, chain.end].append(chain)
        for number in np.flatnonzero(value == each).tolist():
            same = chains[int(output.start[number]), int(output.end[number])]
            if same:
                joined = same.pop(0).rows
                of += [number] * len(joined)
                row += joined
    pairs, causes = np.array(of, np.int64), np.array(row, np.int64)
    wanted = np.isin(pairs, rows)
    return Causes.of_pairs(pairs[wanted], causes[wanted])


def _join(given: History, rows: Int64s) -> list[_Chain]:
    """Join rows of one payload where one ends as another starts; return the chains.

    Where more rows end than start, the chains that began first continue. Of rows that start
    together the one that ends first takes the chain that began last.
    """
    starts, ends = _list_changes(given, rows)
    chains: list[_Chain] = []
    # the chains not yet taken of the rows that start at a time, oldest first
    free: dict[int, list[_Chain]] = {}
    for time in sorted({*starts, *ends}):
        ended = []
        for row in ends[time]:
            ended.append(free[int(given.start[row])].pop())
            ended[-1].rows.append(row)
        ended.sort(key=lambda chain: chain.start)
        begun = starts[time]
        stays = [row for row in begun if given.end[row] == MAX_TIME and given.closed[row] != NEVER]
        new = [_Chain(time) for _ in range(len(begun) - len(ended))]
        chains += new
        for chain in ended[len(begun) :]:
            chain.end = time
        going = [*ended[: len(begun)], *new]
        for row, chain in zip(stays, going, strict=False):
            chain.rows.append(row)
        if begun:
            free[time] = going[len(stays) :]
    taken = {row for chain in chains for row in chain.rows}
    for time, left in free.items():  # rows that have not ended yet take the chains that are left
        waiting = sorted(set(starts[time]) - taken, key=lambda row: int(given.end[row]))
        for row, chain in zip(waiting, reversed(left), strict=True):
            chain.rows.append(row)
    return chains


def _list_changes(
    given: History, rows: Int64s
) -> tuple[defaultdict[int, list[int]], defaultdict[int, list[int]]]:
    """Return the rows that start, and those that end, at each time before the CTI."""
    cti = get_cti(given)
    starts: defaultdict[int, list[int]] = defaultdict(list)
    ends: defaultdict[int, list[int]] = defaultdict(list)
    for row in rows.tolist():
        start, end = int(given.start[row]), int(given.end[row])
        if start < cti:
            starts[start].append(row)
        if end < min(cti, MAX_TIME):
            ends[end].append(row)
    return starts, ends
