"""An exception in a subscriber of a query ends its run, and is told."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from reactivex import operators as rx_ops
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, PointEvent
from rxtemporal.errors import ProcessEndedError

EVENTS = [PointEvent(time, {"n": time}) for time in (1, 2, 3)]


class MistakeError(Exception):
    """The error of a subscriber."""


class Failing:
    """A subscriber that fails with its second event, and what it has been told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def on_next(self, event: Any) -> None:
        """Take an event."""
        self.told.append(event.start)
        if len(self.told) == 2:
            raise MistakeError("the subscriber's own")

    def on_error(self, error: Exception) -> None:
        """Take the end by an error."""
        self.told.append(error)

    def on_completed(self) -> None:
        """Take the end."""
        self.told.append("completed")

    def check(self) -> None:
        """Check that nothing came after the failure but the failure."""
        *starts, error = self.told
        assert starts == [1, 2]
        assert isinstance(error, MistakeError)


@pytest.mark.parametrize("way", ["functions", "observer"])
def test_the_error_handler_gets_it_where_the_source_is_read(way: str) -> None:
    """Nothing is read or delivered after it, and ``subscribe`` returns."""
    failing = Failing()
    read: list[int] = []
    stream = rxt.from_events(event for event in EVENTS if not read.append(event.start))
    if way == "observer":
        stream.subscribe(failing)
    else:
        stream.subscribe(failing.on_next, failing.on_error, failing.on_completed)
    failing.check()


def test_without_a_handler_it_is_raised_where_the_source_is_read() -> None:
    """``subscribe`` raises it as it is, with its traceback."""
    failing = Failing()
    with pytest.raises(MistakeError) as caught:
        rxt.from_events(EVENTS).subscribe(failing.on_next)
    assert failing.told == [1, 2]
    assert caught.traceback[-1].name == "on_next"


def push_until_refused(source: rxt.PushSource, in_batches: bool) -> ProcessEndedError:
    """Push rows until the source refuses them, and return its error."""
    for time in range(1, 1_000):
        row = {"time": time, "n": 1}
        try:
            source.push([row] if in_batches else row)
        except ProcessEndedError as error:
            return error
    raise AssertionError("the source goes on")


@pytest.mark.parametrize("hand_off", [None, rxt.HandOff(max_rows=10)])
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("in_batches", [False, True])
def test_the_next_push_says_so(hand_off: Any, windowed: bool, in_batches: bool) -> None:
    """The run of a pushed source ends, and its pushes are refused with the error as their cause."""
    failing, told = Failing(), threading.Event()
    source = rxt.PushSource("s", schema={"n": int}, hand_off=hand_off)
    stream = source.stream
    if windowed:
        stream = stream.tumbling_window(1).aggregate(n=rxt.agg.count())

    def on_error(error: Exception) -> None:
        failing.on_error(error)
        told.set()

    stream.subscribe(failing.on_next, on_error)
    assert isinstance(push_until_refused(source, in_batches).__cause__, MistakeError)
    assert told.wait(10)
    failing.check()


@pytest.mark.parametrize("in_batches", [False, True])
def test_without_a_handler_the_push_and_the_log_say_so(in_batches: bool, caplog: Any) -> None:
    """The log has the error with its traceback."""
    source = rxt.PushSource("s", schema={"n": int})
    source.stream.subscribe(Failing().on_next)
    assert isinstance(push_until_refused(source, in_batches).__cause__, MistakeError)
    (record,) = (each for each in caplog.records if each.levelname == "ERROR")
    assert "nobody handles it" in record.getMessage()
    assert record.exc_info[0] is MistakeError


def test_an_observable_is_left() -> None:
    """The run of an observable unsubscribes, and its other subscribers go on."""
    subject, failing, others = Subject[Any](), Failing(), []
    rxt.from_observable(subject, schema={"n": int}).subscribe(failing)
    subject.subscribe(others.append)
    for event in EVENTS:
        subject.on_next(event)
        subject.on_next(Cti(event.start + 1))
    failing.check()
    assert len(others) == 6
    assert len(subject.observers) == 1


def test_the_subscribers_of_a_subject_go_on() -> None:
    """Of two queries on one subject one fails; the other and the producer notice nothing."""
    subject = rxt.CtiSynchronizingSubjectAlternate.create_point(0)
    stream = rxt.from_observable(subject, schema={"n": int})
    failing, other = Failing(), []
    stream.subscribe(failing)
    stream.subscribe(lambda event: other.append(event.start))
    for event in EVENTS:
        subject.on_next(event)
        subject.on_next(Cti(event.start + 1))
    failing.check()
    assert other == [1, 2, 3]


def test_operators_of_rx_pass_it_on() -> None:
    """A subscriber behind operators of Rx gets it, too, and the run ends."""
    failing, seen = Failing(), []
    events = rxt.from_events(EVENTS).to_observable(ctis=False)
    events.pipe(rx_ops.do_action(lambda event: seen.append(event.start))).subscribe(
        failing.on_next, failing.on_error
    )
    failing.check()
    assert seen == [1, 2]
