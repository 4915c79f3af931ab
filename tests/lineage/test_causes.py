"""Causes of rows: a row computed from its causes alone is the row, and none is left out in vain."""

from __future__ import annotations

import math

import law_table
import law_table_joins
import pytest
from captured_cases import capture_case, capture_query, is_among, outcomes, run_alone
from compositions import COMPOSITIONS, STREAM
from hypothesis import given, settings
from hypothesis import strategies as st
from law_causes import Caused
from law_streams import OPERATORS
from oracle import Event
from products import draw_cases
from random_queries import PIECES, draw_query

from rxtemporal import MAX_TIME
from rxtemporal.operators.causes.causes import BOUNDARY
from rxtemporal.view.lineage.flow import Flow

CASES = {
    name: case
    for name, case in (law_table.CASES | law_table_joins.CASES).items()
    if not name.startswith("session_lifetimes")
}
few = settings(max_examples=max(2, settings().max_examples // 50))
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


def check_by_model(name: str, data: st.DataObject) -> None:
    """Fail unless the model makes each result of a case out of its causes, as the engine does."""
    caused = Caused(CASES[name], data.draw(CASES[name].streams()))
    for number, result in enumerate(caused.results):
        causes = caused.find_causes(number)
        assert caused.recompute(number, causes), (result, causes)


def check_necessity(flow: Flow) -> None:
    """Fail if a join or an anti join makes a row without one of its causes.

    Of rows that bound a gap at the same time each is enough. A partner of which all fields are null
    is left out: an outer join makes an equal row without it.
    """
    history = flow.result
    causes = flow.causes(flow.output, range(len(history)))
    for row, wanted in enumerate(outcomes(history)):
        mine = causes.of == row
        pairs = list(zip(causes.side[mine].tolist(), causes.row[mine].tolist(), strict=True))
        roles = causes.role[mine].tolist()
        for left_out, role in zip(pairs, roles, strict=True):
            rest = [
                [number for side, number in pairs if side == each and (side, number) != left_out]
                for each in range(len(history.inputs))
            ]
            if role != BOUNDARY and not _is_blank_partner(flow, *left_out):
                again = run_alone(flow, flow.output, rest)
                assert not is_among(wanted, again), (wanted, left_out, again)
        if BOUNDARY in roles:
            alone = [[number for side, number in pairs if side == each] for each in range(2)]
            alone[1 - _get_own(pairs, roles)] = []
            again = run_alone(flow, flow.output, alone)
            assert not is_among(wanted, again), (wanted, alone, again)


def _is_blank_partner(flow: Flow, side: int, row: int) -> bool:
    """Return True if a row of an outer join's input says nothing, as does no partner."""
    partner = flow.histories[flow.result.inputs[side]].payload.row(row)
    return "outer" in flow.result.name and all(value is None for value in partner)


def _get_own(pairs: list[tuple[int, int]], roles: list[int]) -> int:
    """Return the side of the row that is in the gap."""
    return next(side for (side, _), role in zip(pairs, roles, strict=True) if role != BOUNDARY)


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


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.real])
def test_a_row_follows_from_its_causes_alone_in_real_time(name: str) -> None:
    """The spans of such a case have units, and the times are those of a calendar."""
    a = {"k": None, "x": 1, "y": None}
    rows: list[Event] = [("point", 0, a), ("interval", 3, 130, a), ("cti", 200)]
    flow = capture_case(name, (rows,), every=0)
    assert len(flow.result)
    check(flow)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_a_row_follows_from_its_causes_alone_in_many_streams(
    name: str, data: st.DataObject
) -> None:
    """The operator makes each of its rows out of the row's causes, without all other rows."""
    check_drawn(name, data)


# a row there ends because an older chain goes on: the row alone, chopped again, goes on itself
OF_MODEL = [name for name in CASES if name != "stitch, of the chopped"]


@pytest.mark.parametrize("name", [name for name in OPERATORS.values() if name in OF_MODEL])
@few
@given(data=st.data())
def test_the_model_makes_a_row_out_of_its_causes(name: str, data: st.DataObject) -> None:
    """The definition of the operator, over the causes in the input streams, has the row."""
    check_by_model(name, data)


@pytest.mark.full
@pytest.mark.parametrize("name", OF_MODEL)
@given(data=st.data())
def test_the_model_makes_a_row_out_of_its_causes_in_many_streams(
    name: str, data: st.DataObject
) -> None:
    """The definition of the operator, over the causes in the input streams, has the row."""
    check_by_model(name, data)


def test_what_removes_a_row_while_a_later_result_lives_is_a_cause() -> None:
    """Without the second point on the right a part of the left interval would end the result."""
    a = {"k": "a", "x": 1, "y": None}
    left: list[Event] = [
        ("start", 34, {**a, "x": 2}), ("interval", 34, 39, a), ("cti", MAX_TIME)
    ]  # fmt: skip
    right: list[Event] = [("point", 37, a), ("point", 38, a), ("cti", MAX_TIME)]
    caused = Caused(CASES["left_anti_join, then windows by group"], (left, right))
    (number,) = [n for n, row in enumerate(caused.results) if row.start == 37]
    causes = caused.find_causes(number)
    assert causes == [[0, 1], [0, 1]]
    assert caused.recompute(number, causes)


JOINS = [
    name
    for name in law_table_joins.TWO_STREAMS | law_table_joins.RELATED
    if ("join" in name or "relate" in name) and not name.endswith("by group")
]


@pytest.mark.parametrize("name", draw_cases(JOINS, OPERATORS.values()))
@few
@given(data=st.data())
def test_a_row_of_a_join_needs_each_of_its_causes(name: str, data: st.DataObject) -> None:
    """Without one of its rows, or all that bound its gap, the join does not make the row."""
    sides = data.draw(CASES[name].streams())
    check_necessity(capture_case(name, sides, every=0))


def test_a_partner_that_says_nothing_is_a_cause_all_the_same() -> None:
    """An outer join would make an equal row without it, but has made this one with it."""
    blank: list[Event] = [("point", 0, {"k": None, "x": None, "y": None}), ("cti", MAX_TIME)]
    row: list[Event] = [("point", 0, {"k": None, "x": 1, "y": None}), ("cti", MAX_TIME)]
    flow = capture_case("left_outer_join, without keys", (row, blank), every=0)
    causes = flow.causes(flow.output, [0])
    assert sorted(causes.side.tolist()) == [0, 1]
    check_necessity(flow)


A, B = {"k": None, "x": 1, "y": None}, {"k": "b", "x": 2, "y": 0.0}
NAN, MINUS = {**A, "y": math.nan}, {**B, "y": -0.0}
END: Event = ("cti", MAX_TIME)
EQUAL_ROWS: dict[str, list[Event]] = {
    "points": [*[("point", 0, A)] * 4, END],
    "points long ago": [*[("point", 0, A)] * 3, ("point", 10**12, A), END],
    "points of two keys": [("point", 0, A), ("point", 0, B)] * 4 + [END],
    "one open": [("start", 0, A), ("interval", 0, 5, A), ("point", 0, A), ("cti", 1)],
    "the first ends last": [
        ("start", 0, A), ("start", 0, A), ("cti", 1), ("end", 0, 5, A), ("end", 0, 3, A), END
    ],
    "one has ended": [
        *[("start", 0, A)] * 3, *[("point", 0, A)] * 3, ("cti", 1), ("point", 1, A),
        ("end", 0, 1, A), ("start", 1, A), ("cti", 2)
    ],
    "one never ends": [
        ("interval", 0, MAX_TIME, A), ("start", 0, A), ("interval", 0, 5, A), ("cti", 1)
    ],
    "not a number": [
        ("point", 0, NAN), *[("start", 1, NAN)] * 2, ("end", 1, 4, NAN), ("start", 4, NAN),
        ("cti", 2)
    ],
    "zeros": [("interval", 0, 5, B), ("start", 0, MINUS), ("interval", 0, 3, B), ("cti", 1)],
}  # fmt: skip
ORDERED = ("previous", "previous, third, grouped", "deadband", "scan", "detect, all rows")
COMPARING = "snapshot_window, differences"


@pytest.mark.parametrize("name", [*ORDERED, COMPARING])
@pytest.mark.parametrize("rows", EQUAL_ROWS)
def test_equal_rows_follow_from_their_causes(name: str, rows: str) -> None:
    """It is clear which rows they look back at, though these differ in nothing but the end."""
    check(capture_case(name, (EQUAL_ROWS[rows],), every=0))


@pytest.mark.parametrize("name", ["previous", "deadband", "scan", COMPARING])
def test_a_row_has_its_cause_before_its_end_has_passed(name: str) -> None:
    """The operator's input has the end already, and its output has not."""
    rows: list[Event] = [("start", 0, A), ("cti", 1), ("end", 0, 5, A), ("cti", 2)]
    flow = capture_case(name, (rows,), every=1)
    assert [history.end.tolist() for history in flow.histories[:2]] == [[5], [MAX_TIME]]
    assert flow.causes(1, [0]).row.tolist() == [0]


@pytest.mark.parametrize("name", COMPOSITIONS)
@few
@given(sides=st.tuples(STREAM, STREAM))
def test_rows_of_compositions_follow_from_their_causes(
    name: str, sides: tuple[list[Event], list[Event]]
) -> None:
    """Each operator of a query makes each of its rows out of the row's causes alone."""
    check(capture_query(COMPOSITIONS[name].query, sides))


def test_an_open_row_that_waits_in_a_gap_is_not_a_cause() -> None:
    """Rows before and in a window get the same lifetime; those before it may still vanish."""
    rows = [("start", start, {"k": None, "x": 1, "y": None}) for start in (0, 3, 3)]
    flow = capture_query(lambda stream: stream.snap_to_window_intervals(2, 5, 3), [rows])
    assert flow.causes(flow.output, [0, 1]).row.tolist() == [1, 2]


@pytest.mark.full
@pytest.mark.parametrize("name", COMPOSITIONS)
@given(sides=st.tuples(STREAM, STREAM), cut=CUTS)
def test_rows_of_compositions_of_many_streams_follow_from_their_causes(
    name: str, sides: tuple[list[Event], list[Event]], cut: int
) -> None:
    """Each operator of a query makes each of its rows out of the row's causes alone."""
    check(capture_query(COMPOSITIONS[name].query, [items[:cut] for items in sides]))


@pytest.mark.full
@pytest.mark.parametrize("first", PIECES)
@given(drawn=st.data(), cut=CUTS)
def test_rows_of_random_queries_follow_from_their_causes(
    first: str, drawn: st.DataObject, cut: int
) -> None:
    """Each operator of a query of several makes each of its rows out of the row's causes alone."""
    chain, sides, _ = drawn.draw(draw_query(first))
    flow = capture_query(chain.query, [items[:cut] for items in sides])
    if flow.error is None:
        check(flow)
