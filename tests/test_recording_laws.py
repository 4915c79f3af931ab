"""What holds of every recording: its replay gives what was live, late events included."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import physical
import strategies
from hypothesis import given
from hypothesis import strategies as st
from physical import SCHEMA
from reactivex.subject import Subject
from reactivex.testing import TestScheduler
from test_process import SOON, Log

import rxtemporal as rxt
from rxtemporal import EventShape
from rxtemporal.testing import assert_same_history

NAMES = ("a", "b", "c")
TICK_SECONDS = 1e-6

beats = st.builds(rxt.Heartbeat, st.integers(10, 30), st.integers(0, 20))
hand_offs = st.builds(
    rxt.HandOff, st.sampled_from([1, 3, 8, 1_000]), st.sampled_from([*rxt.WhenFull])
)
options = st.fixed_dictionaries(
    {
        "every": st.sampled_from([1, 2, 3]),
        "delay": st.integers(-2, 8),
        "policy": st.sampled_from([*rxt.AdvanceTimePolicy]),
        "imports": st.sampled_from([None, None, *NAMES]),
        "schema": st.sampled_from([SCHEMA, None]),
        "heartbeat": st.one_of(st.none(), beats),
        "hand_off": st.one_of(st.none(), hand_offs),
        "batch_rows": st.sampled_from([1, 4]),
    }
)
# beside events: time that passes on the wall, streams that are idle, that complete, that fail
others = st.one_of(
    st.tuples(st.just("wall"), st.integers(1, 40)),
    st.tuples(st.sampled_from(["idle", "idle", "idle", "completes", "fails"]),
              st.sampled_from(NAMES)),
)  # fmt: skip


@st.composite
def happenings(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Named events in any order, and in between what else may happen to a run."""
    happened: list[tuple[str, Any]] = list(
        draw(strategies.named_arrivals(NAMES, max_size=30))  # type: ignore[arg-type]
    )
    for other in draw(st.lists(others, max_size=6)):
        happened.insert(draw(st.integers(0, len(happened))), other)
    return happened


class Ran:
    """One run of a query for each stream, and one for what is late on it; and what came of it."""

    def __init__(
        self,
        streams: dict[str, rxt.Streamable],
        drive: Callable[[rxt.Process], object] = lambda process: None,
        *,
        late: Collection[str] = (),
        record: Path | None = None,
        clock: TestScheduler | None = None,
    ) -> None:
        app = rxt.Application("recorded")
        self.sinks: dict[str, Log] = {}
        for name, stream in streams.items():
            named = app.define_stream(name, stream)
            app.query(f"out {name}", named)
            self.sinks[f"out {name}"] = Log(EventShape.EDGE)
            if name in late:
                app.query(f"late {name}", named.late_events())
                self.sinks[f"late {name}"] = Log(EventShape.EDGE)
        process = app.run(sinks=self.sinks, record=record, scheduler=clock, warn_after=None)
        drive(process)
        self.failed: Exception | None = None
        try:
            process.wait(SOON)
        except Exception as error:
            self.failed = error
        told = process.diagnostics()
        self.doors = {
            each.name: (each.events_in, each.late, each.largest_lateness, each.late_by_import)
            for each in told.streams
        }
        self.ctis = {each.name: each.cti for each in told.queries}


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


def made(name: str, drawn: dict[str, Any], subject: Subject[Any]) -> rxt.Streamable:
    """A stream with drawn options."""
    imports = None if drawn["imports"] in (None, name) else drawn["imports"]
    advance = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(drawn["every"], drawn["delay"]),
        None if imports is None else rxt.AdvanceTimeImportSettings(imports),
        policy=drawn["policy"],
    )
    more = {each: drawn[each] for each in ("schema", "heartbeat", "hand_off", "batch_rows")}
    return rxt.from_observable(subject, advance_time=advance, **more)


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
