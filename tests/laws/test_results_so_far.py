"""peek: the results so far are those of the query over all that has come, less those given."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import physical
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_streams import CASES, Sides, drawn, some_cases
from oracle import MAX_TIME
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal.core.ticks import TICK

Rows = Counter[tuple[int, int | None, str]]


def count_rows(rows: Any) -> Rows:
    """Return complete rows with their payloads as texts, floats rounded."""
    found: Rows = Counter()
    for start, end, *payload in rows:
        # adding zero makes 0.0 of -0.0, which is equal to it
        shown = [f"{each + 0:.9g}" if isinstance(each, float) else repr(each) for each in payload]
        found[start, end, ";".join(shown)] += 1
    return found


def test_zeros_are_equal() -> None:
    """Rows that differ in the sign of a zero are the same."""
    assert count_rows([(0, 2, "a", -0.0)]) == count_rows([(0, 2, "a", 0.0)])


def leave_out(rows: Rows, given: Rows) -> Rows:
    """Return the rows without those that have been given, by start and payload."""
    left = Counter((start, payload) for start, _, payload in given.elements())
    kept: Rows = Counter()
    for row in rows.elements():
        if left[row[0], row[2]]:
            left[row[0], row[2]] -= 1
        else:
            kept[row] += 1
    return kept


def make_source(name: str, events: Any, side: str) -> rxt.Streamable:
    """Return events, or a subject, as an input of a case."""
    unit: Any = "us" if CASES[name].real else "ticks"
    if isinstance(events, Subject):
        return rxt.from_observable(events, schema=physical.SCHEMA, name=side, unit=unit)
    return rxt.from_events(events, schema=physical.SCHEMA, name=side, unit=unit)


def close_rows(events: list[Any], cut: int) -> list[Any]:
    """Return events with an end edge at the cut for each row that is open."""
    open_rows: list[Any] = []
    for event in events:
        if not isinstance(event, rxt.EdgeEvent):
            continue
        if event.edge_type is rxt.EdgeType.START:
            open_rows.append(event)
        else:
            mine = [
                each for each in open_rows
                if each.start == event.start and repr(each.payload) == repr(event.payload)
            ]  # fmt: skip
            open_rows.remove(mine[0])
    ctis = [event.start for event in events if isinstance(event, rxt.Cti)]
    least = max([cut, *ctis])  # no end edge may be below a CTI
    ends = [
        rxt.EdgeEvent.create_end(each.start, max(least, each.start + TICK), each.payload)
        for each in open_rows
    ]
    return [*events, *ends]


def find_cut(sides: list[list[Any]]) -> int:
    """Return one tick above the highest start of a row."""
    starts = [event.start for events in sides for event in events if not isinstance(event, rxt.Cti)]
    return min(max(starts) + TICK, MAX_TIME - TICK) if starts else -MAX_TIME


def push_some(name: str, sides: Sides, random: Random) -> tuple[Any, Any, list[list[Any]]]:
    """Run a case and push some of its events; return process, sink, and what was pushed."""
    events = [[physical.event(item) for item in items] for items in sides]
    subjects = [Subject() for _ in sides]
    streams = [
        make_source(name, subject, side)
        for subject, side in zip(subjects, physical.SIDES, strict=False)
    ]
    sink = rxt.Collect()
    process = CASES[name].query(*streams).run(sink, warn_after=None)
    pushed: list[list[Any]] = [[] for _ in sides]
    total = sum(map(len, events))
    for _ in range(random.randint(0, total)):
        side = random.choice([n for n, each in enumerate(events) if len(each) > len(pushed[n])])
        event = events[side][len(pushed[side])]
        if isinstance(event, rxt.Cti) and event.start == MAX_TIME:
            break
        subjects[side].on_next(event)
        pushed[side].append(event)
    return process, sink, pushed


@some_cases
@given(data=st.data())
def test_results_so_far(name: str, data: st.DataObject) -> None:
    """At any cut they are those that the query gives if all ends there, and none at the end."""
    if CASES[name].last < MAX_TIME:
        pytest.skip("its rows never end, and it has no results at the end of time")
    sides, random = drawn(name, data)
    process, sink, pushed = push_some(name, sides, random)
    try:
        cut = find_cut(pushed)
        so_far = [
            make_source(name, close_rows(events, cut), side)
            for events, side in zip(pushed, physical.SIDES, strict=False)
        ]
        whole = CASES[name].query(*so_far).to_polars(time="ticks").rows()
        expected = count_rows(row for row in whole if row[0] <= cut)
        made = count_rows(process.peek(time="ticks").rows())
        assert made == leave_out(expected, count_rows(sink.to_polars(time="ticks").rows()))
    finally:
        process.stop()
    assert process.peek().is_empty()
