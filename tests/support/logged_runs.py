"""Drivers of runs with an event log, and the undisturbed run to compare with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import physical
import polars as pl
import strategies
from drawn_runs import NAMES, TICK_SECONDS, Ran, made, options, settings
from hypothesis import strategies as st
from physical import SCHEMA
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.storage.event_log.reader import Recording

others = st.one_of(
    st.tuples(st.just("wall"), st.integers(1, 40)),
    st.tuples(st.sampled_from(["idle", "idle", "completes"]), st.sampled_from(NAMES)),
)


class Life:
    """Driver of runs: subjects, a clock, and the state after the incidents so far."""

    def __init__(self) -> None:
        self.alive = set(NAMES)
        self.idle: set[str] = set()
        self.save: Callable[[], None] = lambda: None

    def begun(self) -> dict[str, Subject[Any]]:
        """Return new subjects: those of the next run."""
        self.subjects = {name: Subject[Any]() for name in NAMES}
        self.clock = TestScheduler()
        return self.subjects

    def push(self, process: rxt.Process, happened: list[tuple[str, Any]], *, beats: bool) -> None:
        """Let things happen; ``beats``: time on the wall, too."""
        for name in sorted(self.idle):
            process.declare_idle(name)  # that a stream is idle nobody has written down
        for what, detail in happened:
            if what == "wall":
                if beats:
                    self.clock.advance_by(detail * TICK_SECONDS)
            elif what == "idle":
                process.declare_idle(detail)
                self.idle |= {detail} & self.alive
            elif what == "completes":
                if detail in self.alive:
                    self.subjects[detail].on_completed()
                self.alive.discard(detail)
                self.idle.discard(detail)
            elif what == "saves":
                self.save()
            elif what in self.alive:
                self.subjects[what].on_next(physical.event(detail))
                self.idle.discard(what)

    def end(self, process: rxt.Process, completes: bool) -> None:
        """Complete what has not, or stop the run."""
        for name in NAMES if completes else ():
            if name in self.alive:
                self.subjects[name].on_completed()
        if not completes:
            process.dispose()


def undisturbed(
    drawn: dict[str, Any], happened: list[Any], wall: int, late: list[str], *, completes: bool
) -> Ran:
    """Return the results of one run; the clock moves until so many incidents have happened."""
    life = Life()
    streams = {name: made(name, drawn[name], each) for name, each in life.begun().items()}

    def drive(process: rxt.Process) -> None:
        life.push(process, happened[:wall], beats=True)
        life.push(process, happened[wall:], beats=False)
        life.end(process, completes)

    return Ran(streams, drive, late=late, clock=life.clock)


# a source that has to be asked: how it enters, and what it gives
given_ways = st.sampled_from(["list", "iterator", "frame", "batches", "iterator of batches"])


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, list[Any], dict[str, Any]]:
    """A way in, what comes that way, and options."""
    way = draw(given_ways)
    if way == "frame":
        rows = st.tuples(st.integers(0, 30), st.integers(1, 9))
        return way, draw(st.lists(rows, max_size=12)), draw(options)
    if "batches" in way:
        items = draw(strategies.streams(max_size=10))
        cut = draw(strategies.cuts(len(items))) if items else []
        return way, physical.batches(items, cut), draw(options)
    events = [physical.event(each) for each in draw(strategies.arrivals(max_size=10))]
    return way, events, draw(options)


def entering(name: str, given: tuple[str, list[Any], dict[str, Any]], known: int) -> rxt.Streamable:
    """A stream of what is given; what goes on begins behind so many records."""
    way, items, drawn = given
    advance = settings(name, drawn)
    if way == "frame":
        rows = [(start, start + length, length) for start, length in items]
        schema = {"s": pl.Int64, "e": pl.Int64, "x": pl.Int64}
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        return rxt.from_polars(frame, start="s", end="e", advance_time=advance, batch_rows=4)
    schema = SCHEMA if "batches" in way else drawn["schema"]
    if not way.startswith("iterator"):
        return rxt.from_events(items, schema=schema, advance_time=advance)
    rest = list(items)
    while known > 0:
        known -= records(rest.pop(0))
    return rxt.from_events(iter(rest), schema=schema, advance_time=advance)


def records(item: Any) -> int:
    """Return the number of records of an item."""
    return len(item) + (item.cti > MIN_TIME) if isinstance(item, rxt.EventBatch) else 1


def known(place: Path) -> dict[str, int]:
    """Return the number of records that a log has of each stream."""
    if not (place / "run.sqlite").exists():
        return dict.fromkeys(NAMES, 0)
    own = ~pl.col("kind").is_in(["outside", "completed"])
    return {
        each.facts.name: sum(frame.filter(own).height for frame in each.segments())
        for each in Recording(place).streams
    }
