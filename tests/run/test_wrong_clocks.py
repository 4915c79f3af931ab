"""Streams with a clock guard: virtual time, logs, recordings, and CTIs that jump without one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal import Cti, EventBatch, LateReason, PointEvent
from rxtemporal.core.ticks import MIN_TIME, TICKS_PER_SECOND

DROP = rxt.AdvanceTimePolicy.DROP
KEEP, LATE = rxt.WhenAhead.KEEP, rxt.WhenAhead.LATE
SECOND = TICKS_PER_SECOND
FAR = 10**9 * SECOND
SCHEMA = {"n": int}


def settings(when: rxt.WhenAhead = KEEP, ahead: Any = timedelta(seconds=10)) -> Any:
    """A CTI at each event, and a guard."""
    return rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0), policy=DROP, ahead=ahead, when_ahead=when
    )


def point(second: int, n: int) -> PointEvent:
    """A point at a second."""
    return PointEvent(second * SECOND, {"n": n})


def batch_of(seconds: list[int], cti: int = MIN_TIME) -> EventBatch:
    """Points at seconds, as one batch."""
    starts = np.array(seconds, np.int64) * SECOND
    return EventBatch.of_rows(starts, starts + 1, pl.DataFrame({"n": range(len(seconds))}), cti)


class Pushed:
    """A pushed stream, run at a second of virtual time; ``rows`` are the starts that came out."""

    def __init__(
        self, advance_time: Any, name: str = "s", second: int = 100, **options: Any
    ) -> None:
        self.subject = Subject[Any]()
        self.clock = TestScheduler()
        self.clock.advance_to(second)
        self.sink = rxt.Collect(rxt.EventShape.POINT)
        stream = rxt.from_observable(
            self.subject, schema=SCHEMA, advance_time=advance_time, name=name
        )
        self.process = stream.run(self.sink, scheduler=self.clock, **options)

    def push(self, *items: Any) -> None:
        """Let the source push items."""
        for item in items:
            self.subject.on_next(item)

    def end(self) -> None:
        """Let the source end, and the run with it."""
        self.subject.on_completed()
        self.process.wait(10)

    @property
    def stream(self) -> Any:
        """The stream's diagnostics."""
        (stream,) = self.process.diagnostics().streams
        return stream

    @property
    def rows(self) -> list[int]:
        """The seconds at which rows start that came out."""
        return [event.start // SECOND for event in self.sink.to_events()]


YEAR_2036 = 2_082_758_400


@pytest.mark.parametrize("when", [KEEP, LATE])
@pytest.mark.parametrize("in_batches", [False, True])
def test_one_wrong_clock_makes_nobody_late(when: rxt.WhenAhead, in_batches: bool) -> None:
    """One reading of 2036 among a thousand: none of the others is lost."""
    pushed = Pushed(settings(when))
    seconds = [YEAR_2036, *[50 + n // 20 for n in range(1_000)]]
    if in_batches:
        pushed.push(batch_of(seconds[:1]), batch_of(seconds[1:]))
    else:
        pushed.push(*(point(second, n) for n, second in enumerate(seconds)))
    assert pushed.stream.cti == 99 * SECOND
    pushed.end()
    assert pushed.stream.late == ({} if when is KEEP else {LateReason.AHEAD: 1})
    assert pushed.stream.ahead == 1
    kept = seconds[1:] + ([YEAR_2036] if when is KEEP else [])
    assert sorted(pushed.rows) == sorted(kept)


def test_without_a_guard_one_wrong_clock_makes_all_late() -> None:
    """The same readings without ``ahead=``: a thousand of a thousand are lost."""
    pushed = Pushed(settings(ahead=None))
    pushed.push(point(YEAR_2036, 0), *(point(50 + n // 20, n) for n in range(1_000)))
    pushed.end()
    assert pushed.stream.late == {LateReason.DROPPED: 1_000}


@pytest.mark.parametrize("way", ["log", "resume"])
def test_a_wrong_clock_is_not_saved(tmp_path: Path, way: str) -> None:
    """After a restart, much later, time stands where the good clocks left it."""
    before = Pushed(settings(), **{way: tmp_path})
    before.push(point(90, 1), point(YEAR_2036, 2), Cti(YEAR_2036 * SECOND), point(95, 3))
    before.process.dispose()
    after = Pushed(settings(), **{way: tmp_path})
    assert (after.stream.cti, after.stream.ahead) == (95 * SECOND, 2)
    after.push(*(point(100, n) for n in range(100)))
    assert after.stream.late == {}
    after.process.dispose()


def test_a_replay_of_the_log_does_not_ask_the_clock(tmp_path: Path) -> None:
    """What was ahead when it came stays ahead, though it no longer is; late stays late."""
    before = Pushed(settings(LATE), log=tmp_path)
    before.push(point(90, 1), point(200, 2), batch_of([91, 300]), point(95, 3))
    found = before.stream
    before.process.dispose()
    again = Pushed(settings(LATE), second=1_000, log=tmp_path)
    assert (again.stream.cti, again.stream.late) == (found.cti, found.late)
    assert again.stream.late == {LateReason.AHEAD: 2}
    assert again.stream.ahead == 2
    again.push(point(300, 4))
    assert again.stream.cti == 300 * SECOND
    again.process.dispose()


def test_a_clock_that_was_set_back_does_not_undo_a_log(tmp_path: Path) -> None:
    """What was in time when it came stays so, though it is ahead of the clock of the replay."""
    before = Pushed(settings(LATE), second=1_000, log=tmp_path)
    before.push(point(500, 1), batch_of([600]), Cti(700 * SECOND))
    before.process.dispose()
    again = Pushed(settings(LATE), log=tmp_path)
    assert (again.stream.cti, again.stream.late) == (700 * SECOND, {})
    again.push(point(800, 2))
    assert again.stream.late == {LateReason.AHEAD: 1}
    again.process.dispose()


@pytest.mark.parametrize("clock", [None, TestScheduler()], ids=["later", "earlier"])
@pytest.mark.parametrize("when", [KEEP, LATE])
def test_a_recording_repeats_the_verdicts(
    tmp_path: Path, when: rxt.WhenAhead, clock: TestScheduler | None
) -> None:
    """Rows, late events and CTIs of a replay are those of the run, whatever the clock says."""
    live = Pushed(settings(when), record=tmp_path / "recording")
    live.push(point(90, 1), point(200, 2), Cti(300 * SECOND), point(95, 3), point(92, 4))
    live.push(Cti(97 * SECOND), point(96, 5))
    live.end()
    sink = rxt.Collect(rxt.EventShape.POINT)
    with rxt.replay(tmp_path / "recording")["s"].run(sink, scheduler=clock) as process:
        process.wait(10)
    (stream,) = process.diagnostics().streams
    assert sink.to_events() == live.sink.to_events()
    assert (stream.late, stream.largest_lateness) == (
        live.stream.late,
        live.stream.largest_lateness,
    )
    assert stream.late == {LateReason.DROPPED: 2} | ({LateReason.AHEAD: 1} if when is LATE else {})


def test_late_events_ahead_are_data() -> None:
    """They are rows of ``late_events()`` at the CTI of that moment, and go to ``process.late``."""
    subject, clock = Subject[Any](), TestScheduler()
    stream = rxt.from_observable(subject, schema=SCHEMA, advance_time=settings(LATE))
    sink = rxt.Collect(rxt.EventShape.POINT)
    seen: list[rxt.LateEvent] = []
    with stream.late_events().run(sink, scheduler=clock) as process:
        process.late.subscribe(seen.append)
        for event in point(5, 0), point(50, 1), point(6, 2):
            subject.on_next(event)
        subject.on_completed()
        process.wait(10)
    ((late),) = sink.to_events()
    assert (late.start, late.payload["reason"], late.payload["n"]) == (5 * SECOND, "ahead", 1)
    assert [(each.reason, each.event) for each in seen] == [(LateReason.AHEAD, point(50, 1))]


def test_a_batch_that_brings_a_cti_ahead_loses_that_alone() -> None:
    """Its rows are taken; time stays with those of them that are not ahead."""
    pushed = Pushed(settings())
    pushed.push(batch_of([90, 500, 95], cti=YEAR_2036 * SECOND))
    assert (pushed.stream.cti, pushed.stream.ahead) == (95 * SECOND, 2)
    pushed.end()
    assert sorted(pushed.rows) == [90, 95, 500]


TIMES = [5 * SECOND, FAR, 7 * SECOND, 6 * SECOND, 9 * SECOND]
WAYS: dict[str, Any] = {
    "list": lambda **o: rxt.from_events([PointEvent(t, {"n": 1}) for t in TIMES], **o),
    "iterator": lambda **o: rxt.from_events(iter([PointEvent(t, {"n": 1}) for t in TIMES]), **o),
    "long list": lambda **o: rxt.from_events(
        [PointEvent(t, {"n": 1}) for t in [*[5 * SECOND] * 2_000, *TIMES]], **o
    ),
    "frame": lambda **o: rxt.from_polars(pl.DataFrame({"t": TIMES, "n": 1}), start="t", **o),
    "batches": lambda **o: rxt.from_events([batch_of([t // SECOND for t in TIMES])], **o),
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an importer"])
@pytest.mark.parametrize("when", [KEEP, LATE])
@pytest.mark.parametrize("way", WAYS)
def test_sources_that_are_read_are_guarded(way: str, when: rxt.WhenAhead, beside: bool) -> None:
    """One by one, in columns or merged by time with another stream, by the run's clock."""
    app = rxt.Application("guarded")
    app.query("q", app.define_stream("s", WAYS[way](advance_time=settings(when))))
    sinks = {"q": rxt.Collect()}
    if beside:
        imports = rxt.AdvanceTimeSettings(imports=rxt.AdvanceTimeImportSettings("s"), policy=DROP)
        frame = pl.DataFrame({"t": [6 * SECOND, 8 * SECOND], "n": 1})
        other = rxt.from_polars(frame, start="t", advance_time=imports)
        app.query("other", app.define_stream("o", other))
        sinks["other"] = rxt.Collect()
    clock = TestScheduler()
    with app.run(sinks=sinks, scheduler=clock) as process:
        process.wait(10)
    stream = process.diagnostics().streams[0]
    assert stream.late == {LateReason.DROPPED: 1} | ({LateReason.AHEAD: 1} if when is LATE else {})
    assert stream.largest_lateness == SECOND
    found = sorted({*sinks["q"].to_polars()["start_time"].dt.epoch("us")})
    assert found == sorted({*TIMES} - {6 * SECOND} - ({FAR} if when is LATE else set()))


@pytest.mark.parametrize("when_full", rxt.WhenFull)
def test_a_guard_stands_before_a_hand_off(when_full: rxt.WhenFull) -> None:
    """Events and batches that go through a hand-off are compared with the clock before it."""
    subject, clock = Subject[Any](), TestScheduler()
    stream = rxt.from_observable(
        subject,
        schema=SCHEMA,
        advance_time=settings(LATE),
        hand_off=rxt.HandOff(max_rows=2, when_full=when_full),
    )
    with stream.run(rxt.Collect(), scheduler=clock) as process:
        for item in point(5, 0), point(YEAR_2036, 1), batch_of([6, YEAR_2036, 7]), point(8, 2):
            subject.on_next(item)
        subject.on_completed()
        process.wait(10)
    (found,) = process.diagnostics().streams
    assert found.late == {LateReason.AHEAD: 2}
    assert found.rows_out == 4


def test_a_plan_says_that_a_stream_is_guarded() -> None:
    """``explain()`` tells of the guard where it tells how time advances."""
    stream = rxt.from_events([], schema=SCHEMA, advance_time=settings(LATE))
    assert "events more than 10 s ahead of the wall clock are dropped" in stream.explain()


# Without a guard --------------------------------------------------------------------------------


def jumps(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings of CTIs that jump."""
    return [each.getMessage() for each in caplog.records if "more than a day" in each.getMessage()]


def test_a_jump_beyond_the_wall_clock_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Only by more than a day, and once for an input, however far it goes on."""
    pushed = Pushed(settings(ahead=None), name="readings")
    day = 86_400
    pushed.push(point(90, 0), point(day + 100, 1))
    assert jumps(caplog) == []
    pushed.push(point(day + 101, 2), point(2 * day, 3), point(YEAR_2036, 4))
    (warning,) = jumps(caplog)
    assert "input='readings'" in warning
    assert "cti='1970-01-02T00:01:41Z'" in warning
    pushed.process.dispose()


def test_no_jump_is_logged_of_a_guarded_stream_or_a_list(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A guard lets no CTI jump, and what is read at once has a time of its own."""
    pushed = Pushed(settings())
    pushed.push(point(YEAR_2036, 4))
    pushed.process.dispose()
    far = [PointEvent(rxt.MAX_TIME - 5, {"n": 1})]
    rxt.from_events(far, advance_time=settings(ahead=None)).to_polars()
    assert jumps(caplog) == []
