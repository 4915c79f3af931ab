"""A process is stopped while its sink is slow, or by the sink's own function: it ends."""

from __future__ import annotations

import threading
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import EventBatch, EventShape, PointEvent

SCHEMA = {"payload": pl.Int64}
SOON = 60


class Slow(rxt.Sink):
    """A sink whose write or close waits, until it is cancelled."""

    shape = EventShape.INTERVAL

    def __init__(self, slow: str) -> None:
        self._slow = slow
        self.waits, self._cancelled = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self.closed_by: list[BaseException | None] = []

    def open(self, name: str, schema: pl.Schema) -> None:
        """Nothing to do."""

    def write(self, batch: EventBatch) -> None:
        """Wait, if that is what is slow."""
        self._wait("write")

    def close(self, error: BaseException | None) -> None:
        """Wait for what has been accepted, unless there was an error."""
        self.closed_by.append(error)
        if error is None:
            self._wait("close")

    def cancel(self, error: BaseException) -> None:
        """End the waiting."""
        self._error = error
        self._cancelled.set()

    def _wait(self, what: str) -> None:
        if what == self._slow:
            self.waits.set()
            assert self._cancelled.wait(SOON)
            assert self._error is not None
            raise self._error


@pytest.mark.parametrize("slow", ["write", "close"])
@pytest.mark.parametrize("pulled", [True, False])
def test_what_a_sink_waits_for_does_not_hold_up_the_end(slow: str, pulled: bool) -> None:
    """Disposing with an interrupt ends a process whose sink waits, with that interrupt."""
    sink, subject = Slow(slow), Subject[Any]()
    interrupt = KeyboardInterrupt()
    events = [PointEvent(1, 1), rxt.Cti(4)]
    if pulled:
        process = rxt.from_events(events, schema=SCHEMA).run(sink)
    else:
        process = rxt.from_observable(subject, schema=SCHEMA).run(sink)
        pushing = threading.Thread(target=lambda: push(subject, events), daemon=True)
        pushing.start()
    assert sink.waits.wait(SOON)
    stopping = threading.Thread(target=process.dispose, args=(interrupt,), daemon=True)
    stopping.start()
    stopping.join(SOON)
    assert not stopping.is_alive()
    with pytest.raises(KeyboardInterrupt):
        process.wait(SOON)
    assert len(sink.closed_by) == 1


def push(subject: Subject[Any], events: list[Any]) -> None:
    """Push events, and complete; an interrupt that comes back is the pushing thread's, too."""
    try:
        for event in events:
            subject.on_next(event)
        subject.on_completed()
    except KeyboardInterrupt:
        pass


class Calling(rxt.Sink):
    """A sink that calls a function in a thread of its own, and waits for it when it is closed."""

    shape = EventShape.INTERVAL

    def __init__(self) -> None:
        self.function: Any = None
        self._thread = threading.Thread(target=lambda: self.function(), daemon=True)

    def open(self, name: str, schema: pl.Schema) -> None:
        """Nothing to do."""

    def write(self, batch: EventBatch) -> None:
        """Begin to call the function."""
        if not self._thread.ident:
            self._thread.start()

    def close(self, error: BaseException | None) -> None:
        """Wait for the function."""
        self._thread.join(SOON)
        assert not self._thread.is_alive()

    def in_callback(self) -> bool:
        """Return True in the function's thread."""
        return threading.current_thread() is self._thread


@pytest.mark.parametrize("pulled", [True, False])
def test_a_sinks_function_may_stop_the_process(pulled: bool) -> None:
    """``dispose`` in a function that the sink calls returns at once, and the process ends."""
    sink, subject, returned = Calling(), Subject[Any](), threading.Event()
    go_on, there = threading.Event(), threading.Event()

    def endless() -> Any:
        yield from [PointEvent(1, 1), rxt.Cti(4)]
        go_on.wait(SOON)

    def function() -> None:
        assert there.wait(SOON)
        process.dispose()
        returned.set()
        go_on.set()

    sink.function = function
    if pulled:
        process = rxt.from_events(endless(), schema=SCHEMA).run(sink)
    else:
        process = rxt.from_observable(subject, schema=SCHEMA).run(sink)
        push(subject, [PointEvent(1, 1), rxt.Cti(4)])
    there.set()
    assert returned.wait(SOON)
    assert process.wait(SOON)
