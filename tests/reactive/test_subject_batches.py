"""Batches through the subjects: the same verdicts as for their rows one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracle
import physical
import polars as pl
import pytest
import strategies
import subject_batches
from hypothesis import given
from hypothesis import strategies as st
from input_ways import BOTH_SUBJECTS, both_subjects

import rxtemporal as rxt
from rxtemporal import AdvanceTimePolicy, Cti, EdgeEvent, EventBatch, LateReason, PointEvent
from rxtemporal.errors import EventError


@pytest.mark.parametrize("policy", list(AdvanceTimePolicy))
@given(data=st.data())
def test_a_batch_is_its_rows(policy: AdvanceTimePolicy, data: st.DataObject) -> None:
    """Events, late events and counters are those of the same rows one by one, in both subjects.

    Batches and events are mixed at random, of all shapes, through the subject and its inputs.
    """
    shape = data.draw(st.sampled_from(strategies.SHAPES))
    items = data.draw(strategies.named_arrivals(shapes=[shape]))
    delay = data.draw(st.integers(0, 8))
    pushes = data.draw(subject_batches.mix(items))
    alone = subject_batches.events(items)
    expected = play(rxt.CtiSynchronizingSubject, shape, delay, policy, alone)
    for kind in BOTH_SUBJECTS:
        assert play(kind, shape, delay, policy, pushes) == expected


def play(
    kind: Any, shape: str, delay: int, policy: AdvanceTimePolicy, pushes: list[tuple[Any, Any]]
) -> tuple[Any, ...]:
    """What comes out event by event, what is late, and the counters."""
    subject = getattr(kind, f"create_{shape}")(delay, policy=policy)
    out: list[Any] = []
    late: list[Any] = []
    subject.subscribe(out.append)
    subject.late.subscribe(late.append)
    for name, item in pushes:
        (subject if name is None else subject.input(name)).on_next(item)
    told = [
        (physical.tuples([each.event])[0], each.source, each.reason, each.cti, each.by)
        for each in late
    ]
    return (
        oracle.freeze(subject_batches.flatten(out, shape)),
        oracle.freeze(told),
        subject_batches.counters(subject),
    )


@given(data=st.data())
def test_a_query_over_a_subject_takes_events_and_batches(data: st.DataObject) -> None:
    """A query gives the same rows and the same time, however its subject was pushed into."""
    shape = data.draw(st.sampled_from(strategies.SHAPES))
    items = data.draw(strategies.named_arrivals(shapes=[shape]))
    hand_off = data.draw(st.sampled_from([None, rxt.HandOff(3)]))
    results = []
    for together in False, True:
        subject = data.draw(st.sampled_from(BOTH_SUBJECTS))
        subject = getattr(subject, f"create_{shape}")(3)
        pushes = subject_batches.mix(items) if together else st.just(subject_batches.events(items))
        # drawn before the run begins: an example that is given up would leave it running
        drawn = data.draw(pushes)
        stream = rxt.from_observable(subject, schema=physical.SCHEMA, hand_off=hand_off)
        sink = rxt.Collect(rxt.EventShape.EDGE)
        process = stream.run(sink)
        for name, item in drawn:
            (subject if name is None else subject.input(name)).on_next(item)
        subject.on_completed()
        assert process.wait(60)
        results.append(sink.batches)
    alone, mixed = results
    assert sorted(map(repr, physical.rows(mixed))) == sorted(map(repr, physical.rows(alone)))
    assert mixed[-1].cti == alone[-1].cti == rxt.MAX_TIME


def points(*starts: int, cti: int = rxt.MIN_TIME) -> EventBatch:
    """A batch of points."""
    start = np.array(starts, np.int64)
    return EventBatch.of_rows(start, start + 1, pl.DataFrame({"n": range(len(starts))}), cti)


@both_subjects
def test_subscribers_get_the_batch(kind: Any) -> None:
    """A batch that keeps the CTI passes with its own columns; time is less the delay."""
    subject = kind.create_point(5)
    out: list[Any] = []
    subject.subscribe(out.append)
    sent = points(1, 7, 3, cti=20)
    subject.on_next(sent)
    assert len(out) == 1
    assert out[0].payload is sent.payload
    assert out[0].start is sent.start
    assert out[0].cti == 15


@both_subjects
@pytest.mark.parametrize("hears", [False, True])
@pytest.mark.parametrize(
    ("policy", "late", "starts"),
    [
        (AdvanceTimePolicy.DROP, {LateReason.DROPPED: 2}, [6]),
        (AdvanceTimePolicy.ADJUST, {LateReason.DROPPED: 1, LateReason.ADJUSTED: 1}, [5, 6]),
    ],
)
def test_late_rows_are_counted(
    kind: Any, hears: bool, policy: AdvanceTimePolicy, late: Any, starts: list[int]
) -> None:
    """The counters of late rows and what passes are the same if nobody gets the late events."""
    subject = kind.create_interval(0, policy=policy)
    out: list[Any] = []
    subject.subscribe(out.append)
    if hears:
        subject.late.subscribe(lambda _: None)
    subject.on_next(Cti(5))
    start, end = np.array([1, 2, 6], np.int64), np.array([3, 9, 8], np.int64)
    subject.on_next(EventBatch.of_rows(start, end, pl.DataFrame({"n": [0, 1, 2]}), rxt.MIN_TIME))
    assert subject.stats().sources["subject"].late_by_reason == late
    assert out[1].start.tolist() == starts
    assert out[1].end.tolist() == [9, 8][-len(starts) :]
    assert out[1].payload["n"].to_list() == [1, 2][-len(starts) :]


@both_subjects
def test_late_rows_are_left_out_and_reported(kind: Any) -> None:
    """A row before the CTI is dropped, and a batch without other rows passes its CTI alone."""
    subject = kind.create_point(0)
    out: list[Any] = []
    late: list[Any] = []
    subject.subscribe(out.append)
    subject.late.subscribe(late.append)
    door = subject.input("door")
    door.on_next(Cti(5))
    door.on_next(points(1, 5, 9, cti=7))
    door.on_next(points(2, 3, cti=8))
    door.on_next(points(2, cti=6))
    assert out[0] == Cti(5)
    assert (out[1].start.tolist(), out[1].payload["n"].to_list(), out[1].cti) == ([5, 9], [1, 2], 7)
    assert out[2:] == [Cti(8)]
    assert late[0] == rxt.LateEvent(PointEvent(1, {"n": 0}), "door", LateReason.DROPPED, 5, 4)
    stats = subject.stats()
    assert (stats.events, stats.late, stats.largest_lateness) == (6, 4, 6)


@both_subjects
def test_the_beginning_of_time_is_no_cti_in_a_batch(kind: Any) -> None:
    """As an event it passes once, though it says nothing; behind the rows of a batch it is none."""
    for delay, cti in (0, rxt.MIN_TIME), (5, rxt.MIN_TIME + 3):
        alone, together = kind.create_point(delay), kind.create_point(delay)
        out: list[Any] = []
        for subject in alone, together:
            subject.subscribe(out.append)
        row = PointEvent(0, {"n": 0})
        for item in (row, Cti(cti), Cti(cti)):
            alone.on_next(item)
        together.on_next(points(0, cti=cti))
        assert out[:-1] == [row, Cti(rxt.MIN_TIME)]
        assert (out[-1].start.tolist(), out[-1].cti) == ([0], rxt.MIN_TIME)


@both_subjects
def test_the_end_of_time_in_a_batch_closes_its_input(kind: Any) -> None:
    """Its rows pass; the handle closes, and the subject's time does not move."""
    subject = kind.create_point(0)
    out: list[Any] = []
    subject.subscribe(out.append)
    door = subject.input("door")
    door.on_next(points(1, cti=rxt.MAX_TIME))
    assert (len(out), len(out[0]), out[0].cti) == (1, 1, rxt.MIN_TIME)
    assert door.closed
    assert subject.stats().cti is None


@both_subjects
@pytest.mark.parametrize(
    ("shape", "batch"),
    [
        ("point", EventBatch.from_dicts([{"start_time": 1, "end_time": 9, "x": 1}])),
        ("edge", points(1)),
        ("interval", points(1).replace(edge=np.array([1]))),
        ("interval", points(1).replace(end=np.array([1]))),
    ],
)
def test_a_batch_of_another_shape_is_refused_whole(kind: Any, shape: str, batch: Any) -> None:
    """Its sender gets the error that names the row; nobody else notices."""
    subject = getattr(kind, f"create_{shape}")(0)
    out: list[Any] = []
    subject.subscribe(out.append)
    with pytest.raises(EventError, match="row 0"):
        subject.input("door").on_next(batch)
    assert out == []
    assert subject.stats().events == 0


@both_subjects
def test_a_batch_from_inside_a_subscriber_waits(kind: Any) -> None:
    """It follows when all have the current event, its edges one after the other."""
    subject = kind.create_edge(0)
    edges = EventBatch(
        np.array([3, 3]), np.array([rxt.MAX_TIME, 8]), np.array([1, 1]),
        pl.DataFrame({"x": [1, 1]}), 8,
    )  # fmt: skip
    seen: list[Any] = []

    def first(event: Any) -> None:
        seen.append(("first", event))
        if event == Cti(1):
            subject.on_next(edges)
            subject.on_next(Cti(9))

    subject.subscribe(first)
    subject.subscribe(lambda event: seen.append(("second", event)))
    subject.on_next(Cti(1))
    start, end = EdgeEvent.create_start(3, {"x": 1}), EdgeEvent.create_end(3, 8, {"x": 1})
    events = [Cti(1), start, end, Cti(8), Cti(9)]
    assert seen == [(who, event) for event in events for who in ("first", "second")]


@both_subjects
@pytest.mark.parametrize("policy", list(AdvanceTimePolicy))
def test_late_rows_are_counted_if_nobody_asks_for_them(
    kind: Any, policy: AdvanceTimePolicy
) -> None:
    """The counters do not depend on who subscribes to ``late``."""
    start = np.arange(40)
    rows = EventBatch.of_rows(start, start + 9, pl.DataFrame({"x": start}), 50)
    counts = []
    for is_asked in False, True:
        subject = kind.create_interval(0, policy=policy)
        if is_asked:
            subject.late.subscribe(lambda late: None)
        subject.on_next(Cti(20))
        subject.input("a").on_next(rows)
        counts.append(subject_batches.counters(subject))
    assert counts[0] == counts[1]
    adjusts = policy is AdvanceTimePolicy.ADJUST
    expected = (
        {LateReason.DROPPED: 12, LateReason.ADJUSTED: 8} if adjusts else {LateReason.DROPPED: 20}
    )
    assert counts[0].sources["a"].late_by_reason == expected


@both_subjects
@pytest.mark.parametrize("times", [(-(2**63), 2**63 - 1), (5, 5), (rxt.MAX_TIME, rxt.MAX_TIME + 1)])
def test_a_batch_with_an_impossible_lifetime_is_refused(kind: Any, times: tuple[int, int]) -> None:
    """A lifetime that is empty, or longer than time, is an error, and the subject goes on."""
    start, end = (np.array([1, each]) for each in times)
    end[0] = 2
    subject = kind.create_interval(0)
    out: list[Any] = []
    subject.subscribe(out.append)
    payload = pl.DataFrame({"x": [1, 2]})
    with pytest.raises(EventError):
        subject.on_next(EventBatch.of_rows(start, end, payload, 9))
    subject.on_next(Cti(3))
    assert out == [Cti(3)]
    assert subject.stats().events == 0
