"""What two reference documents print and define, to the line.

*CTI Synchronizing Subject* and *Taming Hopping Windows*.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.engine.kernels.lifetimes import snap

SUBJECTS = (rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate)
both_subjects = pytest.mark.parametrize("subject_type", SUBJECTS)

# CTI Synchronizing Subject ------------------------------------------------------------------------

PRINTED = """\
INPUT Insert: input A, time 5, payload 1
OUTPUT Insert: time 5, payload 1
INPUT Insert: input B, time 0, payload 2
OUTPUT Insert: time 0, payload 2
INPUT CTI: input A, time 5
OUTPUT CTI: time 0
INPUT CTI: input B, time 0
INPUT Insert: input A, time 7, payload 3
OUTPUT Insert: time 7, payload 3
INPUT CTI: input A, time 8
OUTPUT CTI: time 3
INPUT Insert: input B, time 1, payload 4
"""


class Printed:
    """The document's program: a subject with a delay of five minutes, and what it would print."""

    def __init__(self, subject_type: Any) -> None:
        self.start = datetime(2012, 6, 28, tzinfo=UTC)
        self.subject = subject_type.create_point(timedelta(minutes=5))
        self.subject.subscribe(self.show)
        self.lines: list[str] = []

    def show(self, event: Any) -> None:
        """Print an event that came out."""
        minute = (event.start_time - self.start) // timedelta(minutes=1)
        if event.event_kind is rxt.EventKind.CTI:
            self.lines.append(f"OUTPUT CTI: time {minute}")
        else:
            self.lines.append(f"OUTPUT Insert: time {minute}, payload {event.payload:g}")

    def insert(self, source: str, minute: int, payload: float) -> None:
        """Push a point in."""
        self.lines.append(f"INPUT Insert: input {source}, time {minute}, payload {payload:g}")
        time = self.start + timedelta(minutes=minute)
        self.subject.on_next(rxt.PointEvent.create_insert(time, payload))

    def cti(self, source: str, minute: int) -> None:
        """Push a CTI in."""
        self.lines.append(f"INPUT CTI: input {source}, time {minute}")
        time = self.start + timedelta(minutes=minute)
        self.subject.on_next(rxt.PointEvent.create_cti(time))


@both_subjects
def test_the_printed_run(subject_type: Any) -> None:
    """Both subjects print what the document prints, line for line."""
    run = Printed(subject_type)
    run.insert("A", 5, 1.0)
    run.insert("B", 0, 2.0)
    run.cti("A", 5)
    run.cti("B", 0)
    run.insert("A", 7, 3.0)
    run.cti("A", 8)
    run.insert("B", 1, 4.0)
    assert run.lines == PRINTED.splitlines()


def passed(subject_type: Any, delay: int, *times: int) -> list[int]:
    """The CTIs that go through a subject."""
    subject = subject_type.create_point(delay)
    seen: list[int] = []
    subject.subscribe(lambda cti: seen.append(cti.start))
    for time in times:
        subject.on_next(rxt.Cti(time))
    return seen


@both_subjects
def test_an_equal_cti_is_not_passed_on(subject_type: Any) -> None:
    """A CTI has to be higher than any before: the prose and round 2 say so, round 1 does not."""
    assert passed(subject_type, 5, 10, 10, 9, 11) == [5, 6]


@both_subjects
def test_an_event_at_the_cti_is_in_time(subject_type: Any) -> None:
    """An event that starts at the CTI keeps its promise, and one a tick earlier does not."""
    subject = subject_type.create_point(5)
    seen: list[Any] = []
    subject.subscribe(seen.append)
    for event in rxt.Cti(10), rxt.PointEvent(5, "at"), rxt.PointEvent(4, "before"):
        subject.on_next(event)
    assert seen == [rxt.Cti(5), rxt.PointEvent(5, "at")]


@both_subjects
def test_subtracting_the_delay_saturates(subject_type: Any) -> None:
    """A CTI less than the delay after the beginning of time becomes the beginning of time."""
    first = rxt.MIN_TIME
    assert passed(subject_type, 5, first + 3, first + 4, first + 9) == [first, first + 4]
    assert passed(subject_type, 5, first) == [first]


@both_subjects
def test_a_negative_delay_is_refused(subject_type: Any) -> None:
    """The delay must be non-negative, as the document's constructor demands."""
    with pytest.raises(rxt.ArgumentError, match="delay must not be negative, got -1"):
        subject_type.create_point(-1)


# Taming Hopping Windows ---------------------------------------------------------------------------

WINDOWS = (
    timedelta(seconds=5),
    timedelta(seconds=2),
    datetime(2012, 3, 15, 12, tzinfo=UTC),
)
# seconds after midnight; None is the end of time
ADJUSTED = [(1, None, "e0"), (3, 7, "e1"), (5, 15, "e2"), (11, 15, "e3")]
QUERY = [(1, 3, 1), (3, 5, 2), (5, 7, 3), (7, 11, 2), (11, 15, 3), (15, None, 1)]


def second(number: int | None) -> datetime:
    """A time of the example; None is the end of time."""
    if number is None:
        return rxt.to_datetime(rxt.MAX_TIME)
    return datetime(2012, 6, 28, tzinfo=UTC) + timedelta(seconds=number)


def example() -> rxt.Streamable:
    """The document's seven edge events."""
    start, end = rxt.EdgeEvent.create_start, rxt.EdgeEvent.create_end
    events = [
        start(second(0), "e0"),
        start(second(1), "e1"),
        end(second(1), second(2), "e1"),
        start(second(3), "e2"),
        start(second(9), "e3"),
        end(second(3), second(10), "e2"),
        end(second(9), second(10), "e3"),
    ]
    return rxt.from_events(events, advance_time=rxt.INCREASING_START_TIME)


def adjusted() -> rxt.Streamable:
    """The document's table "Adjusted Events"."""
    return example().snap_to_window_intervals(*WINDOWS)


def counted() -> rxt.Streamable:
    """The document's table "Query"; the count is the whole payload."""
    counts = example().hopping_window2(*WINDOWS).aggregate(n=agg.count())
    return counts.select(payload="n")


def adjusted_as_printed() -> rxt.Streamable:
    """The document's ``SnapToWindowIntervals``, line by line: both ends altered by functions."""
    d, p, a = (rxt.ticks(each) for each in WINDOWS)
    a %= p
    e = a + d % p

    def adjust_start_time(t: int) -> int:
        return snap(t, e, p) + p

    def duration(event: rxt.IntervalEvent) -> int:
        return snap(event.end - 1, a, p) + p + d - adjust_start_time(event.start)

    return example().alter_event_lifetime(start=adjust_start_time, duration=duration)


def counted_as_printed() -> rxt.Streamable:
    """The document's ``HoppingWindow2``: the altered events, then snapshot windows."""
    counts = adjusted_as_printed().snapshot_window().aggregate(n=agg.count())
    return counts.select(payload="n")


tables = pytest.mark.parametrize(
    ("query", "table"),
    [
        (adjusted, ADJUSTED),
        (adjusted_as_printed, ADJUSTED),
        (counted, QUERY),
        (counted_as_printed, QUERY),
    ],
)


@tables
def test_the_printed_tables(query: Any, table: list[Any]) -> None:
    """Both tables are the printed ones; the end of time is null in a frame."""
    wanted = [(second(s), None if e is None else second(e), value) for s, e, value in table]
    assert query().to_polars().rows() == wanted


@tables
def test_the_printed_tables_as_intervals(query: Any, table: list[Any]) -> None:
    """In interval shape each row of the tables is one event."""
    wanted = [rxt.IntervalEvent(second(s), second(e), value) for s, e, value in table]
    assert query().to_events() == wanted


@tables
def test_the_printed_tables_as_edges(query: Any, table: list[Any]) -> None:
    """In edge shape each row is a start edge and, unless it never ends, its end edge."""
    starts = [rxt.EdgeEvent.create_start(second(s), value) for s, _, value in table]
    ends = [
        rxt.EdgeEvent.create_end(second(s), second(e), value)
        for s, e, value in table
        if e is not None
    ]
    events = query().to_events(rxt.EventShape.EDGE)
    assert sorted(events, key=repr) == sorted(starts + ends, key=repr)
    for end in ends:
        opened = rxt.EdgeEvent.create_start(end.start_time, end.payload)
        assert events.index(opened) < events.index(end)


def test_a_row_that_never_ends_has_no_end_of_hopping_windows() -> None:
    """Classic hopping windows fail on the document's example, and the error names the way out."""
    counts = example().hopping_window(*WINDOWS).aggregate(n=agg.count())
    with pytest.raises(rxt.UnboundedWindowError, match="hopping_window2"):
        counts.to_polars()


def test_there_are_no_empty_windows() -> None:
    """No output for empty windows: there are infinitely many of them."""
    counts = rxt.from_events([], schema={"x": pl.Int64}).hopping_window(*WINDOWS)
    assert counts.aggregate(n=agg.count()).to_events() == []


@given(
    st.lists(st.tuples(st.integers(-40, 40), st.integers(1, 30)), min_size=1, max_size=6),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(-9, 9),
)
def test_a_window_is_assigned_an_interval(
    lifetimes: list[tuple[int, int]], d: int, p: int, a: int
) -> None:
    """``HoppingWindow2``, cut at the ends of windows, is the hopping windows, each assigned one.

    The interval assigned to a window begins at its end and is a period long.
    """
    intervals = [rxt.IntervalEvent(start, start + length, "x") for start, length in lifetimes]
    events = rxt.from_events(intervals)
    windows = events.hopping_window(d, p, a).aggregate(n=agg.count())
    assigned = windows.alter_event_lifetime(start=lambda t: t + d, duration=p)
    tamed = events.hopping_window2(d, p, a).aggregate(n=agg.count()).chop(p, a + d)
    assert tamed.to_polars().rows() == assigned.to_polars().rows()


@given(st.integers(-60, 60), st.integers(-30, 30), st.integers(1, 12))
def test_snap_to_boundary(time: int, alignment: int, period: int) -> None:
    """A time is rounded down to the greatest ``a + n * p`` that is not above it."""
    boundaries = [alignment + n * period for n in range(-100, 101)]
    wanted = max(boundary for boundary in boundaries if boundary <= time)
    assert snap(time, alignment, period) == wanted
    assert snap(np.array([time]), alignment, period).tolist() == [wanted]


@pytest.mark.parametrize(
    ("time", "alignment", "period", "wanted"),
    [
        (5, 5, 2, 5),  # the document's formula gives 3
        (-5, -5, 2, -5),
        (-6, -5, 2, -7),
        (-1, 0, 4, -4),
        (0, 7, 4, -1),
        (8, 1, 3, 7),
    ],
)
def test_snap_to_boundary_by_example(time: int, alignment: int, period: int, wanted: int) -> None:
    """A time on a boundary stays there, below the alignment and at it too."""
    assert snap(time, alignment, period) == wanted


def touched(start: int, end: int, d: int, p: int, a: int) -> tuple[int, int] | None:
    """The stretch assigned to the windows that ``[start, end)`` touches, window by window."""
    windows = [(a + n * p, a + n * p + d) for n in range(-80, 81)]
    ends = [e for s, e in windows if start < e and end > s]
    return (min(ends), max(ends) + p) if ends else None


@given(st.integers(-40, 40), st.integers(1, 30), st.data())
def test_snapped_lifetimes_by_definition(start: int, length: int, data: st.DataObject) -> None:
    """An altered lifetime covers just the intervals assigned to the windows that it touched."""
    d, p = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    a = data.draw(st.integers(-9, 9))
    events = rxt.from_events([rxt.IntervalEvent(start, start + length, "x")])
    rows = events.snap_to_window_intervals(d, p, a).to_polars(time="ticks").rows()
    wanted = touched(start, start + length, d, p, a)
    assert [row[:2] for row in rows] == ([] if wanted is None else [wanted])
