"""Laws of event logs: runs that were cut off give what one undisturbed run gives."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from drawn_runs import NAMES, Ran, happenings, made, options
from hypothesis import given
from hypothesis import strategies as st
from logged_runs import Life, asked, entering, known, others, undisturbed
from run_settings import skip_sync
from runs import SOON, Log
from statements import Write, is_entry, watch_file

import rxtemporal as rxt
from rxtemporal import EventShape
from rxtemporal.storage.event_log import store as stores
from rxtemporal.testing import assert_same_history


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> Iterator[None]:
    """Nothing here is about what a dead machine leaves: waiting for its disk takes most time."""
    with pytest.MonkeyPatch.context() as patch:
        skip_sync(patch)
        yield


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
        patch.setattr(stores, "MOST_BYTES", most)
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
    seen: list[Any] = []

    def cut_off(writes: Sequence[Write]) -> None:
        seen.extend(filter(is_entry, writes[-1:]))
        if len(seen) == last and not cut.exists():
            shutil.copytree(whole, cut)

    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "MOST_BYTES", most)
        whole, cut = Path(place) / "whole", Path(place) / "cut"
        streams = {name: entering(name, each, 0) for name, each in drawn.items()}
        with watch_file(after=cut_off):
            assert_same(live, Ran(streams, late=late, log=whole), whole=True)
        there = known(cut if cut.exists() else whole)
        streams = {name: entering(name, each, there[name]) for name, each in drawn.items()}
        again = Ran(streams, late=late, log=cut if cut.exists() else whole)
        assert_same(live, again, whole=True)
