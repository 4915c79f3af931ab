"""A state is continued over the same sources alone; any other is a ``CheckpointError``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal.errors import CheckpointError

ROOM, TEMP = {"room": str}, {"temp": int}
EVENTS = [rxt.PointEvent(t, {"room": "hall"}) for t in range(3)]
FRAME = pl.DataFrame({"t": [0, 1, 2], "room": ["hall", "lab", "hall"]})
SETTINGS = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(1, 2), policy=rxt.AdvanceTimePolicy.DROP
)


def push_source(schema: Any = ROOM, name: str = "rows", **options: Any) -> rxt.Streamable:
    """A stream into which rows are pushed."""
    return rxt.PushSource(name, schema=schema, start="t", **options).stream


def observable() -> rxt.Streamable:
    """A stream into which a subject pushes its events."""
    return rxt.from_observable(Subject[Any](), name="rows", schema=ROOM, advance_time=SETTINGS)


SOURCES: dict[str, Callable[[], rxt.Streamable]] = {
    "a push source": push_source,
    "of another name": lambda: push_source(name="others"),
    "of another field": lambda: push_source(TEMP),
    "of another type": lambda: push_source({"room": int}),
    "of more fields": lambda: push_source({**ROOM, **TEMP}),
    "of another delay": lambda: push_source(delay=5),
    "a subject": observable,
    "an iterable": lambda: rxt.from_events((each for each in EVENTS), name="rows"),
    "a frame": lambda: rxt.from_polars(FRAME, start="t", name="rows"),
    "two": lambda: push_source().union(push_source(name="others")),
}


def refuse(now: str, place: Any) -> None:
    """Run a query over other sources, which has to be refused before anything is written."""
    sink = Log()
    with pytest.raises(CheckpointError, match="Hint"):
        SOURCES[now]().run(sink, **place).wait(SOON)
    assert "write" not in sink.told


@pytest.mark.parametrize("way", ["resume", "log"])
@pytest.mark.parametrize(("before", "now"), [*itertools.permutations(SOURCES, 2)])
def test_changed_sources_are_refused(tmp_path: Path, before: str, now: str, way: str) -> None:
    """Whatever the folder is of, no other source takes it."""
    if way == "log" and "a frame" in (before, now):
        pytest.skip("a frame needs no log")
    place = {way: tmp_path / "run"}
    SOURCES[before]().run(Log(), **place).stop()  # type: ignore[arg-type]
    refuse(now, place)


@pytest.mark.parametrize("now", [each for each in SOURCES if each != "a push source"])
def test_a_checkpoint_is_refused_too(tmp_path: Path, now: str) -> None:
    """A run that has a checkpoint refuses other sources; its own goes on with its rows."""
    place = tmp_path / "run"
    for time in 1, 2:
        source = rxt.PushSource("rows", schema=ROOM, start="t")
        process = source.stream.run(Log(), resume=place)
        source.push({"t": time, "room": "hall"})
        assert process.diagnostics().streams[0].events_in == time
        process.stop()
        refuse(now, {"resume": place})
