"""States split by keys: two parts, and what they are merged into, continue as the whole would."""

from __future__ import annotations

from random import Random

import oracle
import physical
import pytest
from compositions import COMPOSITIONS, STREAM, expected
from compositions import plan as composed
from hypothesis import given, settings
from hypothesis import strategies as st
from law_streams import CASES, SOME, Expected, Sides, arranged, in_runs, plan
from split_runs import find_names, run_split

examples = settings(max_examples=max(10, settings().max_examples // 6))
SPLIT = [name for name in CASES if find_names(plan(name)) is not None]
some_split = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SOME else [pytest.mark.full]) for n in SPLIT]
)


@some_split
@examples
@given(data=st.data())
def test_split_states_of_operators(name: str, data: st.DataObject) -> None:
    """Parts that have gone on at different paces give, merged again, what the model says."""
    sides, number = data.draw(arranged(name))
    random = Random(number)
    out, cti = run_split(plan(name), in_runs(sides, random), random)
    Expected(CASES[name], sides).check(out, cti)


@pytest.mark.parametrize(
    "name", [name for name in COMPOSITIONS if find_names(composed(name)) is not None]
)
@examples
@given(sides=st.tuples(STREAM, STREAM), number=st.integers(0, 2**20))
def test_split_states_of_compositions(name: str, sides: Sides, number: int) -> None:
    """The same for queries of several operators."""
    random = Random(number)
    out, cti = run_split(composed(name), in_runs(sides, random), random)
    assert cti == oracle.MAX_TIME
    assert oracle.history(physical.rows(out)) == oracle.history(expected(name, sides))
