"""Rules of causes: each operator has one; and what they say of rows that only bound others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal.operators.anti_join.plan import SwappedAntiJoin
from rxtemporal.operators.causes.causes import BOUNDARY, HISTORY, ROW
from rxtemporal.operators.operator import Operator, TwoInputs, _Description
from rxtemporal.view.lineage.capture import capture

# parts of other operators, which are in no plan
PARTS = {"_Same", SwappedAntiJoin.__name__}


def list_descriptions(base: type) -> Iterator[type]:
    """Yield the classes of operators from which no other one is derived."""
    for each in base.__subclasses__():
        yield from list_descriptions(each) if each.__subclasses__() else [each]


def test_each_operator_has_a_rule() -> None:
    """An operator without a rule would end every question of why."""
    described = {*list_descriptions(Operator), *list_descriptions(TwoInputs)}
    without = [
        each.__name__
        for each in described
        if each.__module__.startswith("rxtemporal.operators.")
        and each.__name__ not in PARTS
        and each.find_causes is _Description.find_causes  # type: ignore[attr-defined]
    ]
    assert without == []


def row(start: int, end: int, **payload: object) -> rxt.IntervalEvent:
    """An event of some rows of one key."""
    return rxt.IntervalEvent(start, end, {"k": 1, **payload})


def find(query: rxt.Streamable) -> list[list[tuple[int, int, int]]]:
    """Return for each row of a result its causes: side, row and role."""
    flow = capture(query._node)
    causes = flow.causes(flow.output, range(len(flow.result)))
    triples = zip(*(each.tolist() for each in (causes.side, causes.row, causes.role)), strict=True)
    found: list[list[tuple[int, int, int]]] = [[] for _ in range(len(flow.result))]
    for of, triple in zip(causes.of.tolist(), triples, strict=True):
        found[of].append(triple)
    return found


LEFT = rxt.from_events([row(0, 10, v=1)], name="left")
RIGHT = rxt.from_events([row(2, 4, w=1), row(3, 6, w=2), row(8, 9, w=3)], name="right")


@pytest.mark.parametrize(
    ("query", "causes"),
    [
        (
            LEFT.left_anti_join(RIGHT, on="k"),  # [0, 2), [6, 8) and [9, 10)
            [
                [(0, 0, ROW), (1, 0, BOUNDARY), (1, 1, BOUNDARY)],
                [(0, 0, ROW), (1, 0, BOUNDARY), (1, 1, BOUNDARY), (1, 2, BOUNDARY)],
                [(0, 0, ROW), (1, 2, BOUNDARY)],
            ],
        ),
        (LEFT.clip_event_duration(RIGHT, on="k"), [[(0, 0, ROW), (1, 0, BOUNDARY)]]),
        (
            RIGHT.to_signal("k").where(pl.col("w") == 1),
            [[(0, 0, ROW)]],
        ),
        (
            RIGHT.group_by("k").scan(0, lambda s, t, p: (s + 1, {"n": s}), schema={"n": int}),
            [
                [(0, 0, ROW)],
                [(0, 0, HISTORY), (0, 1, ROW)],
                [(0, 0, HISTORY), (0, 1, HISTORY), (0, 2, ROW)],
            ],
        ),
        (RIGHT.drop("w").distinct(), [[(0, 0, ROW), (0, 1, ROW)], [(0, 2, ROW)]]),
    ],
)
def test_roles(query: rxt.Streamable, causes: list[list[tuple[int, int, int]]]) -> None:
    """A row that only makes an end is a boundary, and rows seen before are history."""
    assert find(query) == causes


def test_effects_are_the_other_way_round() -> None:
    """A row has an effect on each row that it is a cause of, and on no other."""
    joined = LEFT.join(RIGHT, on="k")
    flow = capture(joined.union(joined.where(pl.col("w") > 1))._node)
    numbers = {history.name: history.number for history in flow.histories}
    right, join = numbers["right"], numbers["join"]
    assert {n: r.tolist() for n, r in flow.effects(right, [1]).items()} == {join: [1]}
    for number in (join, numbers["where"]):
        for each in range(len(flow.histories[number])):
            for above, rows in flow.effects(number, [each]).items():
                for one in rows.tolist():
                    causes = flow.causes(above, [one])
                    sides = [
                        side for side, below in enumerate(flow.histories[above].inputs)
                        if below == number
                    ]  # fmt: skip
                    assert each in causes.row[[side in sides for side in causes.side]].tolist()


def test_equal_rows_have_different_causes() -> None:
    """Of equal rows the first stands on the first, whichever stream it comes from."""
    twice = [row(1, 5), row(1, 5), row(2, 3)]
    left, right = (rxt.from_events(twice, name=name) for name in ("left", "right"))
    assert sorted(cause for (cause,) in find(left.union(right))) == [
        (side, number, ROW) for side in (0, 1) for number in range(3)
    ]
    assert find(left.where(pl.col("k") == 1)) == [[(0, n, ROW)] for n in range(3)]
    pairs = [tuple(number for _, number, _ in each) for each in find(left.join(right, on="k"))]
    assert len(set(pairs)) == len(pairs) == 9


def test_a_predicate_over_all_fields_does_not_see_the_numbers_of_rows() -> None:
    """``pl.all()`` in the condition of a join has the fields of the join alone."""
    joined = LEFT.join(RIGHT, on="k", where=pl.all_horizontal(pl.all() < 3))
    assert find(joined) == [[(0, 0, ROW), (1, 0, ROW)], [(0, 0, ROW), (1, 1, ROW)]]


def test_a_late_row_of_reference_data_ends_the_one_before() -> None:
    """The version that was told late stands on its late event."""
    places = ((0, 7, "Berlin"), (20, 8, "Rome"), (10, 7, "Paris"))
    told = [rxt.PointEvent(time, {"id": key, "city": city}) for time, key, city in places]
    stream = rxt.from_events(told, name="places", advance_time=rxt.INCREASING_START_TIME)
    why = rxt.why(rxt.reference(stream, on="id"), {"city": "Paris"})
    assert why.arrivals["late events of places"]["position"].to_list() == [2]
    why = rxt.why(rxt.reference(stream, on="id"), {"city": "Berlin"})
    assert why.bounds["late events of places"]["city"].to_list() == ["Paris"]


@pytest.mark.parametrize(
    "compose",
    [
        lambda a, b: a.left_outer_join(b, on="k"),
        lambda a, b: a.full_outer_join(b, on="k"),
        lambda a, b: b.full_outer_join(a, on="k"),
        lambda a, b: a.left_anti_join(b, on="k"),
        lambda a, b: a.clip_event_duration(b, on="k"),
        lambda a, b: a.union(b),
    ],
)
def test_a_stream_without_events_and_fields_causes_nothing(compose: Any) -> None:
    """Nothing is known of a stream that ends before its first event."""
    query = compose(LEFT, rxt.from_events([], name="empty"))
    side = [each.name for each in capture(query._node).histories].index("left")
    assert find(query) == [[(side, 0, ROW)]]
