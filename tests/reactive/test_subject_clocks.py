"""Subjects and the wall clock: guards, jumps without one, offsets, and the largest lateness."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import physical
import polars as pl
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventBatch, LateReason, PointEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICKS_PER_SECOND
from rxtemporal.errors import ArgumentError

BOTH = (rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate)
both = pytest.mark.parametrize("kind", BOTH)
KEEP, LATE, REJECT = rxt.WhenAhead.KEEP, rxt.WhenAhead.LATE, rxt.WhenAhead.REJECT
SECOND = TICKS_PER_SECOND
YEAR_2036 = 2_082_758_400


class Guarded:
    """A subject at second 100 of virtual time, what came out of it, and what was late."""

    def __init__(self, kind: Any, shape: str = "point", **options: Any) -> None:
        self.clock = TestScheduler()
        self.clock.advance_to(100)
        options = {"ahead": timedelta(seconds=10)} | options
        self.subject = getattr(kind, f"create_{shape}")(0, scheduler=self.clock, **options)
        self.out: list[Any] = []
        self.late: list[Any] = []
        self.subject.subscribe(self.out.append)
        self.subject.late.subscribe(self.late.append)

    def source(self, name: str) -> Any:
        """The counters of a source."""
        return self.subject.stats().sources[name]


def point(second: int, n: int = 0) -> PointEvent:
    """A point at a second."""
    return PointEvent(second * SECOND, {"n": n})


def cti(second: int) -> Cti:
    """A CTI at a second."""
    return Cti(second * SECOND)


def batch_of(seconds: list[int], cti: int = MIN_TIME) -> EventBatch:
    """Points at seconds, as one batch."""
    starts = np.array(seconds, np.int64) * SECOND
    return EventBatch.of_rows(starts, starts + 1, pl.DataFrame({"n": range(len(seconds))}), cti)


# Guards -----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("when", [KEEP, LATE])
def test_one_wrong_clock_makes_nobody_late(kind: Any, when: rxt.WhenAhead) -> None:
    """A source of 2036 advances neither time nor the lag of the others."""
    it = Guarded(kind, when_ahead=when)
    with it.subject.input("wrong") as wrong, it.subject.input("good") as good:
        wrong.on_next(point(YEAR_2036))
        wrong.on_next(cti(YEAR_2036))
        for second in range(50, 100):
            good.on_next(point(second))
            good.on_next(cti(second))
    stats = it.subject.stats()
    assert stats.cti == 99 * SECOND
    assert (it.source("good").late, it.source("good").lag) == (0, 0)
    assert (it.source("wrong").ahead, it.source("wrong").lag) == (2, None)
    assert stats.late == (0 if when is KEEP else 1)
    assert [each.reason for each in it.late] == [LateReason.AHEAD] * stats.late
    assert (point(YEAR_2036) in it.out) is (when is KEEP)
    assert [each for each in it.out if isinstance(each, Cti)] == [cti(s) for s in range(50, 100)]


@both
def test_without_a_guard_one_wrong_clock_makes_all_late(kind: Any) -> None:
    """The same without ``ahead=``: each reading of the other source is lost."""
    it = Guarded(kind, ahead=None)
    it.subject.input("wrong").on_next(cti(YEAR_2036))
    for second in range(50, 100):
        it.subject.input("good").on_next(point(second))
    assert it.source("good").late == 50


@both
@pytest.mark.parametrize("when", [KEEP, LATE])
def test_batches_pass_the_guard_as_their_rows_do(kind: Any, when: rxt.WhenAhead) -> None:
    """Rows, late events, counters and time are those of the rows one by one."""
    seconds = [90, 500, 95, YEAR_2036, 92]
    single, columns = Guarded(kind, when_ahead=when), Guarded(kind, when_ahead=when)
    for each in single, columns:
        each.subject.input("other").on_next(cti(91))
    for n, second in enumerate(seconds):
        single.subject.on_next(point(second, n))
    single.subject.on_next(cti(YEAR_2036))
    columns.subject.on_next(batch_of(seconds, YEAR_2036 * SECOND))
    assert columns.subject.stats() == single.subject.stats()
    assert columns.source("other").lag == 4 * SECOND
    assert columns.source("subject").clock_offset == single.source("subject").clock_offset
    told = [[(e.event, e.reason, e.cti, e.by) for e in each.late] for each in (single, columns)]
    assert told[0] == told[1]
    (first, batch) = columns.out
    assert first == cti(91)
    assert batch.start.tolist() == [each.start for each in single.out[1:]]


@both
@pytest.mark.parametrize("when", [KEEP, LATE])
def test_a_start_edge_ahead_keeps_its_row_or_loses_it(kind: Any, when: rxt.WhenAhead) -> None:
    """Its end edge is not compared with the clock: it ends the row, or finds none."""
    it = Guarded(kind, "edge", when_ahead=when)
    start = EdgeEvent.create_start(500 * SECOND, "a")
    end = EdgeEvent.create_end(500 * SECOND, 900 * SECOND, "a")
    it.subject.on_next(start)
    assert it.subject.stats().open_rows == (when is KEEP)
    it.subject.on_next(end)
    assert it.out == ([start, end] if when is KEEP else [])
    reasons = [each.reason for each in it.late]
    assert reasons == ([] if when is KEEP else [LateReason.AHEAD, LateReason.NO_OPEN_ROW])


@both
def test_the_end_of_time_is_not_compared_with_the_clock(kind: Any) -> None:
    """A guarded subject can be completed."""
    it = Guarded(kind)
    it.subject.on_completed()
    assert it.out == [Cti(MAX_TIME)]


@both
def test_what_was_ahead_is_so_no_more_when_the_clock_has_come_there(kind: Any) -> None:
    """The guard compares with the clock of the moment."""
    it = Guarded(kind)
    it.subject.on_next(cti(120))
    it.clock.advance_to(110)
    it.subject.on_next(cti(120))
    assert it.out == [cti(120)]
    assert it.source("subject").ahead == 1


@both
@pytest.mark.parametrize(
    "options", [{"ahead": -1}, {"ahead": 5, "when_ahead": REJECT}, {"when_ahead": LATE}]
)
def test_a_guard_that_cannot_be_is_refused(kind: Any, options: Any) -> None:
    """As in the settings of a stream."""
    with pytest.raises(ArgumentError, match=r"ahead"):
        kind.create_point(0, **options)


@both
def test_a_run_behind_a_guarded_subject_saves_no_damage(kind: Any, tmp_path: Path) -> None:
    """After a restart a new subject knows what was ahead, and stands where the good clocks were."""

    def run(subject: Any) -> Any:
        stream = rxt.from_observable(subject, schema={"n": int}, name="s")
        return stream.run(rxt.Collect(), resume=tmp_path)

    before = Guarded(kind)
    process = run(before.subject)
    device = before.subject.input("device")
    device.on_next(point(90))
    device.on_next(point(YEAR_2036))
    before.subject.on_next(batch_of([91, YEAR_2036]))
    device.on_next(cti(95))
    (stream,) = process.diagnostics().streams
    assert {name: each.ahead for name, each in stream.inputs.items()} == {
        "subject": 1,
        "device": 1,
    }
    process.stop()
    after = Guarded(kind)
    process = run(after.subject)
    stats, was = after.subject.stats(), before.subject.stats()
    assert stats.cti == 95 * SECOND
    closed = {name: dataclasses.replace(each, open=False) for name, each in was.sources.items()}
    assert {n: dataclasses.replace(e, open=False) for n, e in stats.sources.items()} == closed
    after.subject.input("device").on_next(point(96))
    assert after.subject.stats().late == 0
    process.stop()


# Jumps and offsets ------------------------------------------------------------------------------


@both
def test_a_jump_is_logged_once_for_each_source(kind: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Each source that moves the CTI beyond the wall clock by more than a day is named once."""
    it = Guarded(kind, ahead=None)
    seconds = {"a": [95, 86_400 + 90, YEAR_2036, YEAR_2036 + 1], "b": [96, YEAR_2036 + 2]}
    for name, second in [(n, s) for n in ("a", "b", "a") for s in seconds[n]]:
        it.subject.input(name).on_next(cti(second))
    it.subject.input("a").on_next(cti(YEAR_2036 + 3))
    told = [each.getMessage() for each in caplog.records]
    assert len(told) == 2
    assert "input='a'" in told[0]
    assert "input='b'" in told[1]


@both
def test_the_offset_of_a_clock_is_estimated_by_source(kind: Any) -> None:
    """In ticks, positive if the source's clock is ahead; None before it has told a time."""
    it = Guarded(kind)
    a, b = it.subject.input("a"), it.subject.input("b")
    b.on_next(point(90))
    assert (it.source("a").clock_offset, it.source("b").clock_offset) == (None, None)
    a.on_next(cti(105))
    it.clock.advance_to(130)
    a.on_next(cti(107))
    b.on_next(point(100))
    b.on_next(cti(95))
    assert it.source("a").clock_offset == 5 * SECOND
    assert it.source("b").clock_offset == -30 * SECOND
    b.on_next(point(YEAR_2036))
    assert it.source("b").clock_offset == (YEAR_2036 - 130) * SECOND


# Largest lateness -------------------------------------------------------------------------------


@given(data=st.data())
def test_the_largest_lateness_is_the_delay_that_would_have_lost_nothing(
    data: st.DataObject,
) -> None:
    """With it as the delay nothing is late, with a tick less something is; also by source."""
    kind = data.draw(st.sampled_from(BOTH))
    shape = data.draw(st.sampled_from(strategies.SHAPES))
    drawn = data.draw(strategies.named_arrivals(shapes=[shape], extremes=False))
    items = [(name, physical.event(item)) for name, item in drawn]

    def stats(delay: int) -> Any:
        subject = getattr(kind, f"create_{shape}")(delay)
        for name, event in items:
            (subject if name is None else subject.input(name)).on_next(event)
        return subject.stats()

    now = stats(data.draw(st.integers(0, 30)))
    assert stats(now.largest_lateness).largest_lateness == now.largest_lateness
    for name, source in now.sources.items():
        # an end edge that closes no row stays late with any delay
        late = stats(source.largest_lateness).sources[name].late_by_reason
        assert set(late) <= {LateReason.NO_OPEN_ROW}
        if source.largest_lateness > 0 and shape != "edge":
            assert stats(source.largest_lateness - 1).sources[name].late > 0
