"""Causes over the table of operators: a row computed from its causes alone is the row."""

from __future__ import annotations

import law_table
import law_table_joins
import pytest
from captured_cases import capture_case, is_among, outcomes, run_alone
from hypothesis import given, settings
from hypothesis import strategies as st
from law_streams import OPERATORS

from rxtemporal.lineage.flow import Flow

CASES = {
    name: case
    for name, case in (law_table.CASES | law_table_joins.CASES).items()
    if not name.startswith("session_lifetimes")
}
few = settings(max_examples=max(3, settings().max_examples // 30))
# what is left of a stream, so that rows are open and held at the end
CUTS = st.sampled_from((100, 100, 20, 12, 7))


def check(flow: Flow) -> None:
    """Fail unless each row of each operator follows from its causes alone."""
    for history in flow.histories:
        if history.kind == "source" or not len(history):
            continue
        made = outcomes(history)
        causes = flow.causes(history.number, range(len(history)))
        for row, wanted in enumerate(made):
            mine = causes.of == row
            assert mine.any(), (history.name, wanted)
            sides = [
                causes.row[mine & (causes.side == side)].tolist()
                for side in range(len(history.inputs))
            ]
            again = run_alone(flow, history.number, sides)
            assert is_among(wanted, again), (history.name, wanted, sides, again)


def check_drawn(name: str, data: st.DataObject) -> None:
    """Check a case of the table over drawn streams, cut off somewhere."""
    sides = data.draw(CASES[name].streams())
    cut = data.draw(CUTS)
    check(capture_case(name, tuple(items[:cut] for items in sides), every=0))


@pytest.mark.parametrize("name", [name for name in OPERATORS.values() if name in CASES])
@few
@given(data=st.data())
def test_a_row_follows_from_its_causes_alone(name: str, data: st.DataObject) -> None:
    """The operator makes each of its rows out of the row's causes, without all other rows."""
    check_drawn(name, data)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_a_row_follows_from_its_causes_alone_in_many_streams(
    name: str, data: st.DataObject
) -> None:
    """The operator makes each of its rows out of the row's causes, without all other rows."""
    check_drawn(name, data)
