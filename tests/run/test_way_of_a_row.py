"""Way of a pushed row through a run: how few objects it passes before it is in the sink."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import rxtemporal as rxt

# the modules of values, which are not stations of the way
VALUES = ("rxtemporal.core.events", "rxtemporal.core.batch", "rxtemporal.core.columns")


class Way:
    """The objects of the library with a method that runs until the sink is reached."""

    def __init__(self) -> None:
        self.passed: dict[int, Any] = {}
        self._is_over = False

    def note(self, frame: FrameType, kind: str, arg: Any) -> None:
        """Note the object of a call."""
        if kind != "call" or self._is_over:
            return
        module = frame.f_globals.get("__name__", "")
        if module == __name__ and frame.f_code.co_name == "write":
            self._is_over = True
        elif module.startswith(("rxtemporal.", "reactivex.")):
            of = frame.f_locals.get("self")
            if of is not None and type(of).__module__ not in VALUES:
                self.passed.setdefault(id(of), of)

    @property
    def stations(self) -> list[str]:
        """The classes of the objects, in order; the sink's own is not among them."""
        assert self._is_over
        return [type(each).__name__ for each in self.passed.values()]


class Reached(rxt.Sink):
    """A sink that only takes batches."""

    def write(self, batch: rxt.EventBatch) -> None:
        """Take a batch."""


def follow(query: Any, **options: Any) -> list[str]:
    """Return the stations of a row in time, of a stream on whose way all has been made."""
    source = rxt.PushSource("a", schema={"k": str, "v": int}, start="ts", delay=0, unit="ticks")
    process = query(source.stream).run(Reached(), **options)
    for time in range(1, 5):
        source.push({"ts": time, "k": "x", "v": time})
    way = Way()
    sys.setprofile(way.note)
    try:
        source.push({"ts": 100, "k": "x", "v": 1})
    finally:
        sys.setprofile(None)
    process.stop()
    return way.stations


def test_a_row_in_time_passes_few_objects() -> None:
    """Without operators a row passes at most 11 objects to the sink."""
    stations = follow(lambda stream: stream)
    assert len(stations) <= 11, stations
    assert {"PushEntry", "Packer", "Entry", "Stage"} <= set(stations)


def test_a_row_that_is_logged_passes_few_objects(tmp_path: Path) -> None:
    """With a log it passes 7 more at most, which write it, and hold it until it is durable."""
    stations = follow(lambda stream: stream, log=tmp_path / "log")
    assert len(stations) <= 18, stations
    assert {"StreamLog", "RunStore", "Database"} <= set(stations)


def test_a_row_passes_few_objects_into_a_join() -> None:
    """In a join of a stream with itself it enters both sides, which have the same parts."""
    stations = follow(lambda stream: stream.join(stream, on="k", suffix="_other"))
    assert len(stations) <= 25, stations
