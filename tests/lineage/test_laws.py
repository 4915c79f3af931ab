"""Laws of causes over the table of operators: a row recomputed from its causes alone is the row."""

from __future__ import annotations

from captured_cases import capture_case, is_among, outcomes, run_alone
from hypothesis import given
from hypothesis import strategies as st
from law_streams import CASES, examples, some_cases

from rxtemporal.lineage.flow import Flow

# what `cut` leaves of a stream, so that rows are open and held at the end
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


@some_cases
@examples
@given(data=st.data())
def test_a_row_follows_from_its_causes_alone(name: str, data: st.DataObject) -> None:
    """The operator makes each of its rows out of the row's causes, without all other rows."""
    sides = data.draw(CASES[name].streams())
    cut = data.draw(CUTS)
    check(capture_case(name, tuple(items[:cut] for items in sides), every=0))
