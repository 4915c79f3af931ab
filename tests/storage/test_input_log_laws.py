"""What holds of every input log: a run that is begun again is the run that was never cut off."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import physical
import polars as pl
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from physical import SCHEMA
from reactivex.subject import Subject
from reactivex.testing import TestScheduler
from test_process import SOON, Log
from test_recording_laws import (
    NAMES,
    TICK_SECONDS,
    Ran,
    happenings,
    made,
    options,
    settings,
)

import rxtemporal as rxt
from rxtemporal import EventShape
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.storage.event_log import LogStore, Recording, logstore, settled
from rxtemporal.testing import assert_same_history


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> Iterator[None]:
    """Nothing here is about what a dead machine leaves: waiting for its disk takes most time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


others = st.one_of(
    st.tuples(st.just("wall"), st.integers(1, 40)),
    st.tuples(st.sampled_from(["idle", "idle", "completes"]), st.sampled_from(NAMES)),
)


class Life:
    """What drives runs: subjects, a clock, and what the happenings so far have left."""

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
    """What one run makes of it all; time on the wall passes until so much has happened."""
    life = Life()
    streams = {name: made(name, drawn[name], each) for name, each in life.begun().items()}

    def drive(process: rxt.Process) -> None:
        life.push(process, happened[:wall], beats=True)
        life.push(process, happened[wall:], beats=False)
        life.end(process, completes)

    return Ran(streams, drive, late=late, clock=life.clock)


class Logged:
    """A run with a log, abandoned somewhere: as a killed process leaves it, it is never closed."""

    def __init__(self, drawn: dict[str, Any], place: Path, late: list[str], life: Life) -> None:
        subjects = life.begun()
        app = rxt.Application("cut off")
        for name in NAMES:
            stream = app.define_stream(name, made(name, drawn[name], subjects[name]))
            app.query(f"out {name}", stream)
            if name in late:
                app.query(f"late {name}", stream.late_events())
        sinks = {each: Log(EventShape.EDGE) for each in app._queries}
        self.process = app.run(sinks=sinks, log=place, scheduler=life.clock, warn_after=None)

    def left(self, place: Path, there: Path) -> None:
        """Copy what is on disk now to another place: a killed process holds no lock."""
        log = self.process._log
        assert log is not None
        log.flush()  # what time on the wall has brought nobody waits for
        shutil.copytree(place, there)
        self.process.dispose()
        assert self.process.wait(SOON)


def assert_same(live: Ran, again: Ran, *, whole: bool) -> None:
    """The same rows, CTIs and late events; of runs that were stopped what was final in both."""
    assert (live.failed, again.failed) == (None, None)
    assert again.doors == live.doors
    for name, sink in live.sinks.items():
        until = None if whole else min(live.ctis[name], again.ctis[name])
        assert_same_history(sink.batches, again.sinks[name].batches, until, tolerance=0)
    if whole:
        assert again.ctis == live.ctis


@given(
    st.fixed_dictionaries(dict.fromkeys(NAMES, options)),
    happenings(others),
    st.lists(st.integers(0, 36), max_size=2).map(sorted),
    st.booleans(),
    st.sampled_from([1, 600, 2**20]),
)
def test_a_run_begun_again_is_as_never_cut_off(
    drawn: dict[str, Any], happened: list[Any], cuts: list[int], completes: bool, most: int
) -> None:
    """Rows, CTIs, late events and what the doors have counted are those of an undisturbed run.

    Up to three streams with imports in loops, hand-offs, heartbeats, idle ones and completed ones;
    cut off never, once or twice, with segments of any size. Time on the wall passes before the
    first cut only: what a silent source is watched by begins anew.
    """
    cuts = [min(cut, len(happened)) for cut in cuts]
    late = [name for name in NAMES if drawn[name]["schema"] is not None]
    wall = cuts[0] if cuts else len(happened)
    bounds = [0, *cuts, len(happened)]

    live = undisturbed(drawn, happened, wall, late, completes=completes)

    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(logstore, "MOST_BYTES", most)
        life = Life()
        for n, (begin, end) in enumerate(pairwise(bounds[:-1])):
            run = Logged(drawn, Path(place) / str(n), late, life)
            life.push(run.process, happened[begin:end], beats=not n)
            run.left(Path(place) / str(n), Path(place) / str(n + 1))
        subjects = life.begun()

        def go_on(process: rxt.Process) -> None:
            life.push(process, happened[bounds[-2] :], beats=not cuts)
            life.end(process, completes)

        again = Ran(
            {name: made(name, drawn[name], subjects[name]) for name in NAMES},
            go_on, late=late, clock=life.clock, log=Path(place) / str(len(cuts)),
        )  # fmt: skip
        assert_same(live, again, whole=completes)
        replayed = Ran(rxt.replay(Path(place) / str(len(cuts))), late=late)
        assert_same(live, replayed, whole=completes)


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
    """How many records an item is."""
    return len(item) + (item.cti > MIN_TIME) if isinstance(item, rxt.EventBatch) else 1


def known(place: Path) -> dict[str, int]:
    """How many records of each stream a log has."""
    if not (place / "recording.json").exists():
        return dict.fromkeys(NAMES, 0)
    settled(place)
    own = ~pl.col("kind").is_in(["outside", "completed"])
    return {
        each.facts.name: sum(frame.filter(own).height for frame in each.segments())
        for each in Recording(place).streams
    }


@given(
    st.fixed_dictionaries(dict.fromkeys(NAMES, asked())),
    st.integers(1, 20),
    st.sampled_from([1, 600, 2**20]),
)
def test_sources_that_are_asked_go_on_where_the_log_ends(
    drawn: dict[str, Any], last: int, most: int
) -> None:
    """Frames and lists begin anew and are skipped, iterators go on; the order stays as it was."""
    late = [name for name, (way, _, each) in drawn.items() if way == "frame" or each["schema"]]
    live = Ran({name: entering(name, each, 0) for name, each in drawn.items()}, late=late)
    append, seen = LogStore.append, []

    def cut_off(store: LogStore, *arguments: Any) -> None:
        append(store, *arguments)
        seen.append(arguments)
        if len(seen) == last:
            shutil.copytree(store.path, store.path.parent / "cut")

    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(logstore, "MOST_BYTES", most)
        patch.setattr(LogStore, "append", cut_off)
        whole, cut = Path(place) / "whole", Path(place) / "cut"
        streams = {name: entering(name, each, 0) for name, each in drawn.items()}
        assert_same(live, Ran(streams, late=late, log=whole), whole=True)
        there = known(cut if cut.exists() else whole)
        streams = {name: entering(name, each, there[name]) for name, each in drawn.items()}
        again = Ran(streams, late=late, log=cut if cut.exists() else whole)
        assert_same(live, again, whole=True)
