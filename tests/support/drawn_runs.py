"""Drawn streams, drawn incidents, and a run over them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import strategies
from hypothesis import strategies as st
from physical import SCHEMA
from reactivex.subject import Subject
from reactivex.testing import TestScheduler
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import EventShape

NAMES = ("a", "b", "c")


TICK_SECONDS = 1e-6


beats = st.builds(rxt.Heartbeat, st.integers(10, 30), st.integers(0, 20))


hand_offs = st.builds(
    rxt.HandOff, st.sampled_from([1, 3, 8, 1_000]), st.sampled_from([*rxt.WhenFull])
)


# how time advances on a stream, and whether its fields are told
ADVANCING: dict[str, st.SearchStrategy[Any]] = {
    "every": st.sampled_from([1, 2, 3]),
    "delay": st.integers(-2, 8),
    "policy": st.sampled_from([*rxt.AdvanceTimePolicy]),
    "imports": st.sampled_from([None, None, *NAMES]),
    "schema": st.sampled_from([SCHEMA, None]),
}


options = st.fixed_dictionaries(
    {
        **ADVANCING,
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
def happenings(draw: st.DrawFn, others: st.SearchStrategy[Any] = others) -> list[tuple[str, Any]]:
    """Draw named events in any order, with other incidents of a run between them."""
    happened: list[tuple[str, Any]] = list(
        draw(strategies.named_arrivals(NAMES, max_size=30))  # type: ignore[arg-type]
    )
    for other in draw(st.lists(others, max_size=6)):
        happened.insert(draw(st.integers(0, len(happened))), other)
    return happened


class Ran:
    """A run of a query for each stream and one for its late events, and their results."""

    def __init__(
        self,
        streams: dict[str, rxt.Streamable],
        drive: Callable[[rxt.Process], object] = lambda process: None,
        *,
        late: Collection[str] = (),
        record: Path | None = None,
        log: Path | None = None,
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
        process = app.run(
            sinks=self.sinks, record=record, log=log, scheduler=clock, warn_after=None
        )
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


def made(name: str, drawn: dict[str, Any], subject: Subject[Any]) -> rxt.Streamable:
    """A stream with drawn options."""
    more = {each: drawn[each] for each in ("schema", "heartbeat", "hand_off", "batch_rows")}
    return rxt.from_observable(subject, advance_time=settings(name, drawn), **more)


def settings(name: str, drawn: dict[str, Any]) -> rxt.AdvanceTimeSettings:
    """The drawn settings; no stream imports from itself."""
    imports = None if drawn["imports"] in (None, name) else drawn["imports"]
    return rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(drawn["every"], drawn["delay"]),
        None if imports is None else rxt.AdvanceTimeImportSettings(imports),
        policy=drawn["policy"],
    )
