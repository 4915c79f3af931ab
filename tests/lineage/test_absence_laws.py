"""Laws of absences: a row that a change of the query has deleted is missed where it was changed."""

from __future__ import annotations

from typing import Any

import law_table_windows
import oracle
import physical
import polars as pl
import pytest
import strategies
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import Event, Row

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.operators.causes.lost_row import Candidate
from rxtemporal.view.lineage.absence import Absence, Wanted, find_absence
from rxtemporal.view.lineage.capture import capture
from rxtemporal.view.lineage.flow import Flow

few = settings(max_examples=max(3, settings().max_examples // 8))
NEAR = {"extremes": False, "payload": strategies.matching_payloads()}

QUERIES: dict[str, Any] = {
    "rows": lambda s: s,
    "select": lambda s: s.select("x", key="k"),
    "shift": lambda s: s.shift_event_time(3),
    "snapshots": lambda s: s.group_by("k").snapshot_window().aggregate(n=agg.count()),
    "hops": lambda s: s.clip_event_duration(9).hopping_window(6, 3).aggregate(n=agg.count()),
    "sessions": lambda s: s.group_by("k").session_window(5).aggregate(n=agg.count()),
    "ranks": lambda s: s.clip_event_duration(9).tumbling_window(10).top_k(1, "x"),
    "signal": lambda s: s.to_signal("k"),
    "stretches": lambda s: s.distinct("k"),
}


def make_stream(items: list[Event], name: str, **options: Any) -> rxt.Streamable:
    """Return a stream of the oracle's events."""
    events = [physical.event(item) for item in items]
    return rxt.from_events(events, schema=physical.SCHEMA, name=name, **options)


def miss(query: rxt.Streamable, at: int, where: dict[str, Any] | None = None) -> Absence:
    """Return why a row is missing, with all events as candidates."""
    flow = capture(query._node)
    assert flow.error is None
    return find_absence(flow, Wanted(at, where, "ticks"), most=1_000)


def find(absence: Absence, stream: str, start: int, payload: dict[str, Any]) -> list[Candidate]:
    """Return the candidates with a start and a payload."""
    wanted = oracle.freeze(payload)
    return [
        each
        for each in absence.candidates[stream]
        if each.start == start and oracle.freeze(dict(each.payload)) == wanted
    ]


def list_sources(flow: Flow, row: int) -> list[tuple[int, dict[str, Any]]]:
    """Return start and payload of the events on which a result stands."""
    source = flow.histories[0]
    rows = flow.trace(flow.output, [row])[0].tolist()
    return [(int(source.start[i]), source.payload.row(i, named=True)) for i in rows]


@pytest.mark.parametrize("name", QUERIES)
@few
@given(items=strategies.streams(**NEAR), data=st.data())
def test_a_stricter_where(name: str, items: list[Event], data: st.DataObject) -> None:
    """If a where drops a result, the events of this result are said to be dropped there."""
    query = QUERIES[name](make_stream(items, "left"))
    flow = capture(query._node)
    result = flow.result
    assume(len(result))
    row = data.draw(st.integers(0, len(result) - 1))
    start, payload = int(result.start[row]), result.payload.row(row, named=True)
    same = pl.all_horizontal(pl.col(n).eq_missing(pl.lit(v)) for n, v in payload.items())
    absence = miss(query.where(~same), start, payload)
    assert not absence.exists
    found = [each for source in list_sources(flow, row) for each in find(absence, "left", *source)]
    fates = {each.fate.kind for each in found}
    assert "dropped" in fates, found
    for each in found:
        if each.fate.kind == "dropped":
            assert each.fate.operator == "where"
            assert each.fate.values.keys() == payload.keys()


def draw_pair(left: list[Event], right: list[Event], data: st.DataObject) -> tuple[Row, int]:
    """Return a left row and a time at which it is alive and no right row of its key is."""
    lefts, rights = oracle.canonical(left), oracle.canonical(right)
    alone = [
        (row, at)
        for row in lefts
        for at in (row.start, min(row.end - 1, row.start + 3))
        if not any(matches(row, other, at) for other in rights)
    ]
    assume(alone)
    return data.draw(st.sampled_from(alone))


def matches(row: Row, other: Row, at: int) -> bool:
    """Return True if another row with the same key is alive at a time."""
    return row.payload["k"] is not None and (
        row.payload["k"] == other.payload["k"] and other.start <= at < other.end
    )


@few
@given(strategies.streams(**NEAR), strategies.streams(**NEAR), st.data())
def test_a_join_without_partner(left: list[Event], right: list[Event], data: st.DataObject) -> None:
    """A row that nothing joins at a time is said to have no partner in the join."""
    row, at = draw_pair(left, right, data)
    joined = make_stream(left, "left").join(make_stream(right, "right"), on="k", suffix="_right")
    absence = miss(joined, at, row.payload)
    assume(not absence.exists)  # an equal row may have a partner
    for each in find(absence, "left", row.start, row.payload):
        if each.start <= at < each.end:
            assert (each.fate.kind, each.fate.operator) == ("no partner", "join"), each.fate


@few
@given(strategies.streams(**NEAR), strategies.streams(**NEAR), st.data())
def test_an_anti_join(left: list[Event], right: list[Event], data: st.DataObject) -> None:
    """A row that is removed at a time has the row that removed it."""
    lefts, rights = oracle.canonical(left), oracle.canonical(right)
    removed = [
        (row, at)
        for row in lefts
        for at in (row.start, min(row.end - 1, row.start + 3))
        if any(matches(row, other, at) for other in rights)
    ]
    assume(removed)
    row, at = data.draw(st.sampled_from(removed))
    alone = make_stream(left, "left").left_anti_join(make_stream(right, "right"), on="k")
    absence = miss(alone, at, row.payload)
    assert not absence.exists
    found = find(absence, "left", row.start, row.payload)
    assert found
    for each in found:
        if each.start <= at < each.end:
            assert (each.fate.kind, each.fate.operator) == ("removed", "left_anti_join")
            assert each.fate.others is not None
            assert each.fate.others["k"][0] == row.payload["k"]


@few
@given(
    strategies.arrivals(("point", "interval"), extremes=False, payload=strategies.few_payloads()),
    st.integers(0, 8),
    st.data(),
)
def test_a_late_event(items: list[Event], delay: int, data: st.DataObject) -> None:
    """A late event is said to be late, and the delay that is named would have kept it."""
    items = [(*item[:-1], {**item[-1], "x": i}) for i, item in enumerate(items) if item[0] != "cti"]
    arrivals = capture(make_stream(items, "left", advance_time=delay)._node).arrivals["left"]
    late = [i for i, by in enumerate(arrivals.by.tolist()) if by]
    assume(late)
    number = data.draw(st.sampled_from(late))
    at, wanted = int(arrivals.start[number]), {"x": arrivals.payload["x"][number]}
    absence = miss(make_stream(items, "left", advance_time=delay), at, wanted)
    (first, *_) = absence.candidates["left"]
    assert (first.fate.kind, first.position) == ("late", arrivals.position[number])
    assert first.fate.late_by == arrivals.by[number]
    kept = make_stream(items, "left", advance_time=first.fate.delay)
    assert miss(kept, at, wanted).exists
    if first.fate.late_by > 1:
        less = make_stream(items, "left", advance_time=first.fate.delay - 1)
        assert not miss(less, at, wanted).exists


@few
@given(strategies.streams(**NEAR), st.data())
def test_every_fate_is_told(items: list[Event], data: st.DataObject) -> None:
    """Each operator of the table of windows gives every event a fate, and the texts are there."""
    names = [n for n in law_table_windows.CASES if "hopping_window, of" not in n]
    case = law_table_windows.CASES[data.draw(st.sampled_from(names))]
    if not case.endless:
        items = [item for item in items if item[0] in ("point", "cti")]
    flow = capture(case.query(make_stream(items, "left"))._node)
    absence = find_absence(flow, Wanted(data.draw(st.integers(0, 40)), None, "ticks"), most=50)
    for each in absence.candidates.get("left", ()):
        assert each.fate.message
    assert str(absence)
    assert absence._repr_html_()
