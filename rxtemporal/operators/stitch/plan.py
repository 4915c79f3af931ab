"""stitch: adjacent rows of equal payload joined into one."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.errors import SchemaError
from rxtemporal.operators.causes.carried_rows import get_cti
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import NEVER, History, code_fields
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Stitch(Operator):
    """Adjacent lifetimes of equal payload, joined."""

    name = "stitch"
    holds = "rows that have not ended, and of each the start of what it continues"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema; raise if payloads cannot be compared."""
        for name, dtype in schema.items():
            if isinstance(dtype, pl.List):
                raise SchemaError(
                    f"stitch: {name!r} is {dtype}, which cannot be compared. "
                    "Hint: explode() it, or select() the other fields first."
                )
        return schema

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of equal payload are seen together."""
        return partition_by_keys(schemas[0], schemas[0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.stitch.step import StitchStep

        return StitchStep(schema)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_joined_lifetimes(self, inputs, output, rows)


def stitch() -> Stitch:
    """Join rows of equal payload where one ends at the tick at which the other starts.

    Null equals null and NaN equals NaN. Rows that overlap are not joined. If more rows end at a
    tick than begin there, the chains that began first are continued; of equal rows that begin
    together, the one that ends first continues the chain that began last; if more begin than chains
    end, those that end first begin new ones. A chain is emitted as a start edge when the CTI has
    passed its start, and its end follows when the CTI has passed the end, since a row may still
    begin there. The CTI passes unchanged. Held: the rows that have not ended.

    >>> import rxtemporal as rxt
    >>> on = [rxt.IntervalEvent(s, e, {"lamp": "on"}) for s, e in ((0, 5), (5, 9), (12, 13))]
    >>> rxt.from_events(on).stitch().to_polars(time="ticks").rows()
    [(0, 9, 'on'), (12, 13, 'on')]
    """
    return Stitch()


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
