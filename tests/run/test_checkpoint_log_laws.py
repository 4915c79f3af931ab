"""What holds of a kept run of sources that push: its states and the logs between them make one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from drawn_runs import NAMES, Ran, happenings, made, options
from hypothesis import given
from hypothesis import strategies as st
from logged_runs import Life, asked, entering, others, undisturbed
from run_settings import save_never, skip_sync
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import EventShape
from rxtemporal.run import checkpoint as resuming
from rxtemporal.storage.event_log import store as stores
from rxtemporal.storage.event_log.store import RunStore
from rxtemporal.testing import assert_same_history


@pytest.fixture(scope="module", autouse=True)
def on_demand() -> Iterator[None]:
    """Wait for no disk, and save only where a test says so."""
    with pytest.MonkeyPatch.context() as patch:
        skip_sync(patch)
        save_never(patch)
        yield


saves = st.tuples(st.just("saves"), st.none())


class Kept(Log):
    """A sink that goes on with what it had at the state: what came later is forgotten."""

    def __init__(self, batches: list[rxt.EventBatch]) -> None:
        super().__init__(EventShape.EDGE)
        self.batches = batches
        self._goes_on = False

    def open(self, name: str, schema: pl.Schema) -> None:
        """Forget what a run has left that has saved nothing."""
        if not self._goes_on:
            self.batches.clear()

    def save(self) -> bytes:
        """Return how many batches there are."""
        return str(len(self.batches)).encode()

    def load(self, state: bytes) -> None:
        """Forget later ones."""
        self._goes_on = True
        del self.batches[int(state) :]


class Run:
    """A kept run of a query for each stream and one for what is late on some; it may be killed."""

    def __init__(
        self,
        streams: dict[str, rxt.Streamable],
        late: list[str],
        place: Path,
        got: dict[str, list[rxt.EventBatch]],
        life: Life,
    ) -> None:
        app = rxt.Application("kept")
        for name, stream in streams.items():
            named = app.define_stream(name, stream)
            app.query(f"out {name}", named)
            if name in late:
                app.query(f"late {name}", named.late_events())
        sinks = {each: Kept(got.setdefault(each, [])) for each in app._queries}
        clock = getattr(life, "clock", None)
        self.process = app.run(sinks=sinks, resume=place, scheduler=clock, warn_after=None)

    def save(self) -> None:
        """Save, as is done after some seconds."""
        checkpointer = self.process._checkpointer
        assert checkpointer is not None
        with checkpointer.gate:
            checkpointer._save_piece()

    def left(self, place: Path, there: Path, *, killed: bool) -> None:
        """Copy what is on disk now, or once it was stopped, to another place."""
        if killed:
            log = self.process._log
            assert log is not None
            log.flush()  # what time on the wall has brought nobody waits for
            shutil.copytree(place, there)
        self.process.dispose()
        assert self.process.wait(SOON)
        if not killed:
            shutil.copytree(place, there)


def assert_same(
    live: Ran, process: rxt.Process, got: dict[str, list[rxt.EventBatch]], *, whole: bool
) -> None:
    """The same rows, CTIs, late events and counts as those of one run."""
    told = process.diagnostics()
    doors = {
        each.name: (each.events_in, each.late, each.largest_lateness, each.late_by_import)
        for each in told.streams
    }
    assert doors == live.doors
    ctis = {each.name: each.cti for each in told.queries}
    for name, sink in live.sinks.items():
        until = None if whole else min(live.ctis[name], ctis[name])
        assert_same_history(sink.batches, got[name], until, tolerance=0)
    if whole:
        assert ctis == live.ctis


@given(
    st.fixed_dictionaries(dict.fromkeys(NAMES, options)),
    happenings(st.one_of(others, saves, saves, saves)),
    st.lists(st.tuples(st.integers(0, 36), st.booleans()), max_size=3).map(sorted),
    st.booleans(),
    st.sampled_from([1, 600, 2**20]),
)
def test_kept_runs_make_one(
    drawn: dict[str, Any],
    happened: list[Any],
    cuts: list[tuple[int, bool]],
    completes: bool,
    most: int,
) -> None:
    """Rows, CTIs, late events and what the doors have counted are those of an undisturbed run.

    Up to three streams with imports in loops, heartbeats, idle ones and completed ones; states
    saved anywhere; killed or stopped never or up to three times, with segments of any size. What
    the sinks got after a state they forget when it is gone on from.
    """
    cuts = [(min(cut, len(happened)), killed) for cut, killed in cuts]
    late = [name for name in NAMES if drawn[name]["schema"] is not None]
    wall = cuts[0][0] if cuts else len(happened)
    bounds = [0, *(cut for cut, _ in cuts), len(happened)]

    live = undisturbed(drawn, happened, wall, late, completes=completes)

    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stores, "MOST_BYTES", most)
        life, got = Life(), dict[str, list[rxt.EventBatch]]()
        for n, (begin, end) in enumerate(pairwise(bounds)):
            subjects = life.begun()
            streams = {name: made(name, drawn[name], subjects[name]) for name in NAMES}
            run = Run(streams, late, Path(place) / str(n), got, life)
            life.save = run.save
            life.push(run.process, happened[begin:end], beats=not n)
            if n < len(cuts):
                run.left(Path(place) / str(n), Path(place) / str(n + 1), killed=cuts[n][1])
        life.end(run.process, completes)
        assert run.process.wait(SOON)
        assert_same(live, run.process, got, whole=completes)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, asked())), st.integers(1, 20), st.integers(1, 6))
def test_sources_that_are_asked_go_on_behind_the_log_of_a_state(
    drawn: dict[str, Any], last: int, every: int
) -> None:
    """Frames and lists begin anew and are skipped, iterators go on; the order stays as it was."""
    late = [name for name, (way, _, each) in drawn.items() if way == "frame" or each["schema"]]
    live = Ran({name: entering(name, each, 0) for name, each in drawn.items()}, late=late)
    append, seen = RunStore.append, []
    advance = resuming.Checkpointer.advance
    taken: dict[str, int] = dict.fromkeys(NAMES, 0)

    def cut_off(store: RunStore, *arguments: Any) -> None:
        append(store, *arguments)
        seen.append(arguments)
        if len(seen) == last:
            shutil.copytree(store.path, place / "cut")
            log = process_log(store)
            taken.update(log)

    def saving(checkpointer: resuming.Checkpointer) -> bool:
        more = advance(checkpointer)
        asked_for.append(None)
        if more and len(asked_for) % every == 0:
            with checkpointer.gate:
                checkpointer._save_piece()
        return more

    def process_log(store: RunStore) -> dict[str, int]:
        (log,) = [each for each in logs if each.store is store]
        return {
            stream.facts.name: reader.replayed + stream.brought
            for stream, reader in zip(log.streams, checkpointers[-1]._execution.logged, strict=True)
        }

    checkpointers, logs, asked_for = list[Any](), list[Any](), list[None]()
    begin = resuming.Checkpointer.begin

    def noticed(checkpointer: resuming.Checkpointer, *given: Any) -> Any:
        checkpointers.append(checkpointer)
        logs.append(begin(checkpointer, *given))
        return logs[-1]

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        place = Path(folder)
        patch.setattr(RunStore, "append", cut_off)
        patch.setattr(resuming.Checkpointer, "advance", saving)
        patch.setattr(resuming.Checkpointer, "begin", noticed)
        got: dict[str, list[rxt.EventBatch]] = {}
        streams = {name: entering(name, each, 0) for name, each in drawn.items()}
        first = Run(streams, late, place / "whole", got, Life())
        assert first.process.wait(SOON)
        assert_same(live, first.process, got, whole=True)
        cut = place / "cut"
        if not cut.exists():
            return
        streams = {name: entering(name, each, taken[name]) for name, each in drawn.items()}
        again = Run(streams, late, cut, got, Life())
        assert again.process.wait(SOON)
        assert_same(live, again.process, got, whole=True)
