"""What holds of every recording: its replay gives what was live, late events included."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import physical
import polars as pl
import pytest
import strategies
from drawn_runs import NAMES, TICK_SECONDS, Ran, happenings, made, options, settings
from hypothesis import given
from hypothesis import strategies as st
from physical import SCHEMA
from reactivex.subject import Subject
from reactivex.testing import TestScheduler
from run_settings import skip_sync

import rxtemporal as rxt
from rxtemporal.testing import assert_same_history


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> Iterator[None]:
    """Nothing here is about what a dead machine leaves: waiting for its disk takes most time."""
    with pytest.MonkeyPatch.context() as patch:
        skip_sync(patch)
        yield


def assert_same(live: Ran, again: Ran, *, whole: bool) -> None:
    """The same rows, CTIs and late events; of a run that did not complete what was final then."""
    assert again.doors == live.doors
    for name, sink in live.sinks.items():
        until = None if whole else live.ctis[name]
        assert_same_history(sink.batches, again.sinks[name].batches, until, tolerance=0)
    if whole:
        assert again.ctis == live.ctis
    else:
        assert all(again.ctis[name] >= cti for name, cti in live.ctis.items())


@given(
    st.fixed_dictionaries(dict.fromkeys(NAMES, options)),
    happenings(),
    st.booleans(),
)
def test_a_replay_gives_what_was_live(
    drawn: dict[str, Any], happened: list[Any], completes: bool
) -> None:
    """Hand-offs, imports in loops, heartbeats, idle streams, errors, completion, stopping.

    A recording of the replay is a recording of the run.
    """
    subjects = {name: Subject[Any]() for name in NAMES}
    clock = TestScheduler()
    alive = set(NAMES)

    def push(process: rxt.Process) -> None:
        for what, detail in happened:
            if what == "wall":
                clock.advance_by(detail * TICK_SECONDS)
            elif what == "idle":
                process.declare_idle(detail)
            elif what == "completes":
                subjects[detail].on_completed()
            elif what == "fails" and detail in alive:
                subjects[detail].on_error(OSError("the line is dead"))
                return  # what is pushed now nobody accepts any more
            elif what in alive:
                subjects[what].on_next(physical.event(detail))
            alive.discard(detail if what == "completes" else "")
        for name in NAMES if completes else ():
            subjects[name].on_completed()
        if not completes:
            process.dispose()

    with tempfile.TemporaryDirectory() as place:
        live_streams = {name: made(name, drawn[name], subjects[name]) for name in NAMES}
        # a late payload without a schema may be what shows that the stream's fields do not fit
        late = [name for name in NAMES if drawn[name]["schema"] is not None]
        live = Ran(live_streams, push, late=late, record=Path(place) / "live", clock=clock)
        again = Ran(rxt.replay(Path(place) / "live"), late=late, record=Path(place) / "again")
        assert (live.failed is None) == (again.failed is None)
        if live.failed is not None:
            assert str(live.failed) in str(again.failed)
        whole = live.failed is None and completes
        assert_same(live, again, whole=whole)
        once_more = Ran(rxt.replay(Path(place) / "again"), late=late)
        assert (once_more.failed is None) == (again.failed is None)
        assert_same(again, once_more, whole=whole)


ways = st.sampled_from(["events", "iterator", "frame", "batches"])


@given(
    st.fixed_dictionaries(dict.fromkeys(NAMES, st.tuples(ways, options))),
    st.data(),
)
def test_every_way_in_is_recorded(drawn: dict[str, Any], data: st.DataObject) -> None:
    """Lists, iterators, frames and batches, with and without imports from each other."""
    live = {name: way_in(*each, name, data) for name, each in drawn.items()}
    with tempfile.TemporaryDirectory() as place:
        first = Ran(live, record=Path(place))
        assert first.failed is None
        assert_same(first, Ran(rxt.replay(place)), whole=True)


def way_in(way: str, each: dict[str, Any], name: str, data: st.DataObject) -> rxt.Streamable:
    """A stream of drawn events that enters in a way."""
    made = settings(name, each)
    if way == "batches":
        items = data.draw(strategies.streams(max_size=10))
        cut = data.draw(strategies.cuts(len(items))) if items else []
        own = data.draw(st.booleans())  # all time is the stream's own, or the door judges it, too
        advance = None if own else made
        return rxt.from_events(physical.batches(items, cut), schema=SCHEMA, advance_time=advance)
    if way == "frame":
        rows = data.draw(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=12))
        frame = pl.DataFrame(
            [(start, start + length, length) for start, length in rows],
            schema={"s": pl.Int64, "e": pl.Int64, "x": pl.Int64},
            orient="row",
        )
        return rxt.from_polars(frame, start="s", end="e", advance_time=made, batch_rows=4)
    events = [physical.event(item) for item in data.draw(strategies.arrivals(max_size=10))]
    given = events if way == "events" else iter(events)
    return rxt.from_events(given, schema=each["schema"], advance_time=made)
