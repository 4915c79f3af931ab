"""The cases of the laws, their drawn streams, and the comparison with the model."""

from __future__ import annotations

from functools import cache
from random import Random

import arrangements
import law_table
import law_table_joins
import law_table_windows
import oracle
import physical
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from law_cases import Case
from oracle import Event, Row
from products import draw_cases

import rxtemporal as rxt

# there are many cases, and one stream of some thirty events shows much
examples = settings(max_examples=max(5, settings().max_examples // 3))


CASES: dict[str, Case] = law_table.CASES | law_table_windows.CASES | law_table_joins.CASES


every_case = pytest.mark.parametrize("name", CASES)
# a case of each operator, and each kind of result over one kind of window; the others in full
OPERATORS = {name.split(",")[0]: name for name in reversed(CASES)}
SOME = {*OPERATORS.values(), *(name for name in CASES if name.startswith("snapshot_window"))}
some_cases = pytest.mark.parametrize("name", draw_cases(CASES, SOME))
each_operator = pytest.mark.parametrize("name", draw_cases(CASES, OPERATORS.values()))


Sides = tuple[list[Event], ...]


@cache
def plan(name: str) -> rxt.Streamable:
    """A case's plan, one for all examples: state is in steps alone."""
    return physical.planned(CASES[name].query, CASES[name].inputs)


@cache
def arranged(name: str) -> st.SearchStrategy[tuple[Sides, int]]:
    """Draw streams for a case, and a seed for their arrangement."""
    return st.tuples(CASES[name].streams(), st.integers(0, 2**20))


def drawn(name: str, data: st.DataObject) -> tuple[Sides, Random]:
    """Return streams for a case, and the random numbers that arrange them."""
    sides, number = data.draw(arranged(name))
    return sides, Random(number)


def in_runs(sides: Sides, random: Random) -> list[tuple[int, rxt.EventBatch]]:
    """Return the streams cut into batches and interleaved at random."""
    made = [physical.batches(items, arrangements.cut(items, random)) for items in sides]
    return arrangements.interleave(made, random)


class Expected:
    """Return the model's history for drawn streams."""

    def __init__(self, case: Case, sides: Sides) -> None:
        canonical = [oracle.canonical(items) for items in sides]
        self._rows = case.model(*canonical)
        self._tolerance = case.tolerance(canonical[0])

    def check(self, out: list[rxt.EventBatch], cti: int) -> None:
        """Fail unless the batches are the model's history up to a CTI."""
        self.check_rows(physical.rows(out), cti)

    def check_rows(self, made: list[Row], cti: int) -> None:
        """Fail unless the rows are the model's history up to a CTI."""
        if not oracle.equal_up_to(self._rows, made, cti, tolerance=self._tolerance):
            wanted = oracle.history(oracle.clip(self._rows, cti))
            assert oracle.history(oracle.clip(made, cti)) == wanted


def final_cti(case: Case, sides: Sides) -> int:
    """Return the output CTI at the end of all streams."""
    events = [[item for item in items if item[0] != "cti"] for items in sides]
    return case.find_cti(case.last, events)
