"""The line in the log that says why nothing comes out: one for each stall, on a test's clock."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Any

import pytest
from joined_rooms import House, row
from reactivex.scheduler import TimeoutScheduler
from reactivex.subject import Subject
from reactivex.testing import TestScheduler
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventShape, PointEvent
from rxtemporal.errors import ArgumentError


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings about stalls."""
    return [each.getMessage() for each in caplog.records if "nothing has come" in each.getMessage()]


def test_the_line_names_the_input_the_time_and_the_remedies(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After thirty seconds: the stream that has to advance, beyond what, and what usually helps."""
    house = House()
    house.readings.on_next(PointEvent(12, row(1)))
    house.readings.on_next(Cti(20))
    house.clock.advance_by(29.9)
    assert lines(caplog) == []
    house.clock.advance_by(0.1)
    (line,) = lines(caplog)
    assert caplog.records[-1].levelno == logging.WARNING
    assert line.startswith("event='nothing has come out for a while' process='placed' query='pl")
    assert "seconds=30 input='rooms' has_to_pass='12'" in line
    assert (
        "waits for its right input, which comes from stream 'rooms', which has had no CTI" in line
    )
    for remedy in ("advance_time= settings with a delay on 'rooms'",
                   "imports=AdvanceTimeImportSettings('readings')",
                   "heartbeat= or idle_after= where 'rooms' is made"):  # fmt: skip
        assert remedy in line
    house.process.dispose()


@pytest.mark.parametrize(
    ("rows", "where"), [([], "without a CTI"), ([PointEvent(3, row(1)), Cti(4)], "at CTI 4")]
)
def test_an_import_from_a_stream_that_has_ended(rows: list[Any], where: str) -> None:
    """The end of time is not imported, so a list that is empty holds its importer for ever."""
    house = rxt.Application("house")
    imports = rxt.AdvanceTimeImportSettings("rooms")
    settings = rxt.AdvanceTimeSettings(imports=imports, policy=rxt.AdvanceTimePolicy.DROP)
    schema = {"k": str, "x": int}
    readings = Subject[Any]()
    source = rxt.from_observable(readings, schema=schema, advance_time=settings)
    stream = house.define_stream("readings", source)
    house.define_stream("rooms", rows, schema=schema)
    house.query("all", stream)
    process = house.run("all", Log())
    readings.on_next(PointEvent(12, row(1)))
    (stall,) = process.diagnostics().holding_back()
    assert str(stall) == (
        "query 'all' waits for stream 'readings', which imports the CTIs of stream 'rooms', which "
        f"has ended {where}, and the end of time is not imported; 1 row waits, the first for a "
        "CTI above 12"
    )
    assert "generation" in stall.remedies[0]
    process.dispose()


def test_there_is_one_line_for_each_stall(caplog: pytest.LogCaptureFixture) -> None:
    """It is not repeated while the stall lasts; what comes out, if only time, ends the stall."""
    house = House(warn_after=timedelta(seconds=10))
    for expected in (1, 1, 1):
        house.clock.advance_by(10)
        assert len(lines(caplog)) == expected
    house.readings.on_next(Cti(5))
    house.rooms.on_next(Cti(4))
    house.clock.advance_by(9.5)
    assert len(lines(caplog)) == 1
    house.clock.advance_by(10.5)
    assert len(lines(caplog)) == 2
    assert "'rooms', whose CTI has been at 4 for 10 s" in lines(caplog)[-1]
    house.process.dispose()


def test_what_comes_out_in_time_is_no_stall(caplog: pytest.LogCaptureFixture) -> None:
    """A query that says something every nine seconds is left alone, and one that has ended."""
    source, clock = Subject[Any](), TestScheduler()
    stream = rxt.from_observable(source)
    process = stream.run(Log(), warn_after=timedelta(seconds=10), scheduler=clock)
    for time in range(5):
        clock.advance_by(9)
        source.on_next(Cti(time))
    source.on_completed()
    assert process.wait(SOON)
    clock.start()  # comes to an end only because no timer is left
    assert lines(caplog) == []


def test_each_query_stalls_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    """Of two queries the one that goes on does not hide the other one's silence."""
    fast, slow, clock = Subject[Any](), Subject[Any](), TestScheduler()
    app = rxt.Application("two")
    one = app.define_stream("fast", rxt.from_observable(fast, schema={"payload": int}))
    two = app.define_stream("slow", rxt.from_observable(slow, schema={"payload": int}))
    app.query("alone", one)
    app.query("both", one.union(two))
    process = app.run(
        sinks={"alone": Log(), "both": Log()}, warn_after=timedelta(seconds=10), scheduler=clock
    )
    for time in range(4):
        fast.on_next(Cti(time))
        clock.advance_by(5)
    (line,) = lines(caplog)
    assert "query='both' seconds=10 input='slow'" in line
    process.dispose()


def test_an_open_row_has_remedies_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """In interval shape no stream has to advance: the row has to end, or use the edge shape."""
    source, clock = Subject[Any](), TestScheduler()
    process = rxt.from_observable(source).run(Log(EventShape.INTERVAL), scheduler=clock)
    source.on_next(EdgeEvent.create_start(4, "open"))
    source.on_next(Cti(9))
    clock.advance_by(31)
    (line,) = lines(caplog)
    assert "input=None" in line
    assert "EventShape.EDGE" in line
    process.dispose()


def test_it_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    """With None nothing is logged, and no timer runs."""
    house = House(warn_after=None)
    house.clock.start()
    house.clock.advance_by(100)
    assert lines(caplog) == []
    house.process.dispose()


@pytest.mark.parametrize("end", ["dispose", "complete", "fail"])
def test_no_timer_outlives_its_process(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the machine's own clock: the thread that waits for the stall ends with the process."""
    waiting: list[threading.Thread] = []
    start = threading.Timer.start

    def noted(timer: threading.Timer) -> None:
        if threading.current_thread() is threading.main_thread():  # not one of an earlier test
            waiting.append(timer)
        start(timer)

    monkeypatch.setattr(threading.Timer, "start", noted)
    assert TimeoutScheduler.singleton()
    source = Subject[Any]()
    process = rxt.from_observable(source).run(Log())
    assert [thread.is_alive() for thread in waiting] == [True]
    if end == "dispose":
        process.dispose()
    elif end == "complete":
        source.on_completed()
        process.wait(SOON)
    else:
        source.on_error(OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            process.wait(SOON)
    waiting[0].join(SOON)
    assert not waiting[0].is_alive()


@pytest.mark.parametrize("bad", [0, timedelta(seconds=-1), "soon", True])
def test_a_time_that_is_none_is_refused(bad: Any) -> None:
    """warn_after is a span that is positive, or None; nothing has been started by then."""
    sink = Log()
    with pytest.raises(ArgumentError, match="warn_after"):
        rxt.from_events([]).run(sink, warn_after=bad)
    assert sink.calls == []
