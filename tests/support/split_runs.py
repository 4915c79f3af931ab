"""Runs whose state is split by the values of a field, and merged again."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from buckets import split
from compositions import COMPOSITIONS
from compositions import plan as composed
from hypothesis import settings
from law_streams import CASES, OPERATORS, SOME, plan
from physical import SIDES
from products import draw_cases

import rxtemporal as rxt
from rxtemporal import EventBatch
from rxtemporal.core.columns import Column
from rxtemporal.engine.holdings import Moves, Selection
from rxtemporal.operators.partition import TracedFields, trace_fields
from rxtemporal.operators.plan import Node
from rxtemporal.testing import Stepper


@cache
def find_names(query: rxt.Streamable) -> tuple[TracedFields, dict[str, str]] | None:
    """Return the names of a field by which every state of a query can be split.

    And those by which the rows of its sources are split. None if there is no such field.
    """
    partition, sources = split(query)
    if partition.reason is not None:
        return None
    choices = [[*(partition.get_fields(node) or node.schema or ())] for node in sources.values()]
    for chosen in product(*choices):
        by = dict(zip(sources, chosen, strict=True))
        found = trace_fields(query._node, {node: (by[name],) for name, node in sources.items()})
        if isinstance(found, TracedFields):
            return found, by
    return None


examples = settings(max_examples=max(5, settings().max_examples // 3))
SPLIT = [name for name in CASES if find_names(plan(name)) is not None]
some_split = pytest.mark.parametrize("name", draw_cases(SPLIT, SOME))
each_split = pytest.mark.parametrize("name", draw_cases(SPLIT, OPERATORS.values()))
split_compositions = pytest.mark.parametrize(
    "name", [name for name in COMPOSITIONS if find_names(composed(name)) is not None]
)


def choose(values: Sequence[Column], number: int) -> np.ndarray[Any, Any]:
    """Return the mask of the values that are in the part with this number, of two."""
    (column,) = values
    nullable = getattr(column, "valid", None)
    inner = getattr(column, "values", column)
    found = column.series.to_list() if hasattr(column, "series") else inner.tolist()
    if nullable is not None:
        found = [v if there else None for v, there in zip(found, nullable, strict=True)]
    return np.array([find_part(value) == number for value in found], np.bool_)


def find_part(value: Any) -> int:
    """Return the number of the part that a value is in."""
    if isinstance(value, float):
        value = "NaN" if value != value else value + 0.0
    return zlib.crc32(repr(value).encode()) // 7 % 2


def take_part(batch: EventBatch, field: str, number: int) -> EventBatch:
    """Return the rows of one part, and the CTI."""
    return batch.take(choose([batch.columns[field]], number))


class SplitRun:
    """A run of a query that is split into two, which go on apart and are merged."""

    def __init__(self, query: rxt.Streamable) -> None:
        found = find_names(query)
        assert found is not None
        self._query, (self._names, self._by) = query, found
        self._steppers = [Stepper(query)]
        self.ctis = [rxt.MIN_TIME, rxt.MIN_TIME]

    def push(self, side: int, batch: EventBatch, number: int = 0) -> list[EventBatch]:
        """Take a batch, in one part only its rows; return what comes out."""
        if SIDES[side] not in self._by:
            return []
        stepper = self._steppers[number]
        if len(self._steppers) > 1:
            batch = take_part(batch, self._by[SIDES[side]], number)
            for step, other in self._pairs(number):
                for mine, its in zip(step.list_counters(), other.list_counters(), strict=True):
                    mine.go_on(its)
        out = stepper.push(SIDES[side], batch)
        for each in out:
            each.check(self.ctis[number])
            self.ctis[number] = each.cti
        return out

    def split(self) -> None:
        """Split the state into two parts."""
        whole = self._steppers[0]
        other = Stepper(self._query)
        other.load(whole.save())
        self._steppers.append(other)
        self.ctis[1] = self.ctis[0]
        for number, stepper in enumerate(self._steppers):
            for node, step in self._list_steps(stepper):
                fields = self._names.inputs[node]
                step.keep_selected(Selection(lambda v, n=number: choose(v, n), fields))

    @property
    def are_abreast(self) -> bool:
        """True if both parts have the same CTI behind each operator; of some it is that of rows."""
        steppers: Any = self._steppers
        mine, its = ([stage.cti for stage in each._wiring.stages.values()] for each in steppers)
        return bool(mine == its)

    def merge(self) -> None:
        """Put the parts together again."""
        for step, other in self._pairs(0):
            step.merge_from(other, Moves())
        self._steppers.pop()

    def _list_steps(self, stepper: Stepper) -> list[tuple[Node, Any]]:
        steps: Any = stepper
        return list(zip(self._names.inputs, steps._steps, strict=True))

    def _pairs(self, number: int) -> Iterator[tuple[Any, Any]]:
        mine, its = self._steppers[number], self._steppers[1 - number]
        for (_, step), (_, other) in zip(
            self._list_steps(mine), self._list_steps(its), strict=True
        ):
            yield step, other


def run_split(
    query: rxt.Streamable, made: list[tuple[int, EventBatch]], random: Random
) -> tuple[list[EventBatch], int]:
    """Return what comes out of a run that is split and merged at drawn places, and the CTI.

    Between those each part takes its rows at its own pace.
    """
    run = SplitRun(query)
    out: list[EventBatch] = []
    cuts = sorted(random.sample(range(len(made) + 1), min(len(made) + 1, random.choice((1, 2, 4)))))
    begin, parted = 0, False
    for cut in [*cuts, len(made)]:
        piece, begin = made[begin:cut], cut
        if not parted:
            out += [each for side, batch in piece for each in run.push(side, batch)]
            run.split()
            parted = True
            continue
        for number in random.sample((0, 1), 2):
            out += [each for side, batch in piece for each in run.push(side, batch, number)]
        if random.random() < 0.7 and run.are_abreast:
            run.merge()
            parted = False
    return out, min(run.ctis) if parted else run.ctis[0]
