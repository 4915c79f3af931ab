"""Rows that wait in an operator: the earliest time that the CTI has to reach."""

from __future__ import annotations

from random import Random
from typing import Any

import physical
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from law_streams import SOME, drawn, in_runs, plan
from law_table import CASES as PLAIN
from law_table_joins import CASES as JOINS
from law_table_windows import CASES as WINDOWS
from oracle import MAX_TIME, MIN_TIME
from products import draw_cases

from rxtemporal.engine.step import find_earliest_due
from rxtemporal.testing import Stepper

# cases of one operator alone, whose step is asked
CASES = {
    name: case
    for name, case in (PLAIN | WINDOWS | JOINS).items()
    if all(node.source is not None for node in plan(name)._node.inputs)
}


def test_most_operators_have_a_case() -> None:
    """The table has a case for most operators."""
    assert len({plan(name)._node.operator.name for name in CASES}) > 20  # type: ignore[union-attr]


def check_due(name: str, sides: tuple[list[Any], ...], random: Random) -> None:
    """If a CTI alone makes rows leave, it has reached the time at which rows were due."""
    stepper = Stepper(plan(name))
    step = stepper._steps[-1]
    ctis = [MIN_TIME] * CASES[name].inputs
    for side, batch in in_runs(sides, random):
        stepper.push(physical.SIDES[side], batch.replace(cti=ctis[side]))
        ctis[side] = batch.cti
        due = find_earliest_due(step)
        left = sum(map(len, stepper.push(physical.SIDES[side], batch.none(batch.cti))))
        if left and min(ctis) < MAX_TIME:
            assert due is not None
            assert due <= min(ctis)


@pytest.mark.parametrize("name", draw_cases(CASES, SOME))
@settings(max_examples=max(5, settings().max_examples // 10))
@given(data=st.data())
def test_nothing_leaves_before_it_is_due(name: str, data: st.DataObject) -> None:
    """If a CTI alone makes rows leave, it has reached the time at which rows were due."""
    check_due(name, *drawn(name, data))


ROW = {"k": None, "x": 1, "y": None}


@pytest.mark.parametrize(
    "stream",
    [
        [("point", 0, ROW), ("start", 0, ROW)],
        [*[("point", 0, ROW)] * 9, ("interval", 0, 3, ROW)],
    ],
)
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("snapshot_window")])
def test_a_window_that_begins_at_the_cti_is_due_with_the_next(name: str, stream: list[Any]) -> None:
    """The rows that end at the CTI begin a window, which leaves with the next CTI."""
    sides = ([*stream, ("cti", 1), ("cti", 2), ("cti", MAX_TIME)],)
    check_due(name, sides, Random(0))
