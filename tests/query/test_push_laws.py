"""Laws of sources that programs push into: verdicts add up, and nothing accepted is lost."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_settings import save_often, skip_sync
from runs import SOON

import rxtemporal as rxt
from rxtemporal.testing import assert_same_history

SCHEMA = {"id": int, "who": str}
DELAY = 6


@pytest.fixture(scope="module", autouse=True)
def _no_disk() -> Iterator[None]:
    """Wait for no disk."""
    with pytest.MonkeyPatch.context() as patch:
        skip_sync(patch)
        # a checkpoint is due after each push
        save_often(patch)
        yield


def make_source(**options: Any) -> rxt.PushSource:
    """Return a source of points."""
    return rxt.PushSource("s", schema=SCHEMA, start="t", delay=DELAY, **options)


# One stream -------------------------------------------------------------------------------------

times = st.lists(st.integers(0, 40), max_size=90)

misfits = st.sampled_from(
    [{}, {"t": "no time", "id": 1, "who": "a"}, {"t": 3, "id": "1", "who": "a"}, 7, None]
)


@given(times, st.lists(st.tuples(st.integers(0, 90), misfits), max_size=60))
@settings(max_examples=40)
def test_rows_that_do_not_fit_change_nothing_for_the_others(
    starts: list[int], bad: list[tuple[int, Any]]
) -> None:
    """The others have the verdicts and the history that they have alone, as numbers and times."""
    rows = [{"t": t, "id": n, "who": "ab"[n % 2], "n": n // 2} for n, t in enumerate(starts)]
    mixed: list[Any] = [*rows]
    for place, misfit in bad:
        mixed.insert(place, misfit)
    verdicts, results = [], []
    for pushed in (rows, mixed):
        source, result = make_source(seq="n"), rxt.Collect()
        with source.stream.run(result):
            verdicts.append(source.push(pushed))
            source.close()
        results.append(result.to_events())
    alone, among = verdicts
    assert_same_history(*results)
    assert (among.accepted, among.duplicates, among.cti) == (
        alone.accepted, alone.duplicates, alone.cti,
    )  # fmt: skip
    told = [
        [(rows_[each.index]["id"], each.reason, each.by) for each in verdict.late]
        for rows_, verdict in ((rows, alone), (mixed, among))
    ]
    assert told[0] == told[1]
    assert [mixed[each.index] for each in among.rejected] == [
        each for each in mixed if not any(each is row for row in rows)
    ]


# Many pushers -------------------------------------------------------------------------------------


class Pusher:
    """A pusher that pushes rows of its own until its work is done or the run has ended."""

    def __init__(self, name: str, plan: list[tuple[str, int]]) -> None:
        self.name, self.plan = name, plan
        self.pushed = self.accepted = self.duplicates = self.late = self.rejected = 0
        # the numbers that were accepted, and those of pushes that raised
        self.sure: set[int] = set()
        self.unsure: set[int] = set()
        self._next = 0

    def rows(self, kind: str, size: int) -> tuple[list[dict[str, Any]], list[int]]:
        """Return the rows of a push, and their numbers: some come again, some cannot be read."""
        first = max(0, self._next - 2) if kind == "again" else self._next
        numbers = list(range(first, first + size))
        self._next = max(self._next, first + size)
        rows: list[dict[str, Any]] = [
            {"t": n - 3 * DELAY if n % 7 == 3 else n, "id": n, "who": self.name} for n in numbers
        ]
        if kind == "bad":
            rows[-1] = {"t": "no time"}
        return rows, numbers

    def note(self, verdict: rxt.Verdict, numbers: list[int]) -> None:
        """Count a verdict."""
        assert verdict.rows == len(numbers)
        self.pushed += len(numbers)
        self.accepted += verdict.accepted
        self.duplicates += verdict.duplicates
        self.late += len(verdict.late)
        self.rejected += len(verdict.rejected)
        if verdict.accepted == len(numbers):
            self.sure.update(numbers)

    def run(self, source: rxt.PushSource) -> None:
        """Push with calls that wait."""
        for kind, size in self.plan:
            rows, numbers = self.rows(kind, size)
            one = size == 1
            try:
                item, seq = (rows[0], numbers[0]) if one else (rows, numbers)
                verdict = source.push(item, input=self.name, seq=seq)
            except rxt.ProcessEndedError:
                self.unsure.update(numbers)
                return
            self.note(verdict, numbers)

    def run_async(self, source: rxt.PushSource) -> None:
        """Push from an event loop of its own, all at once."""

        async def push(kind: str, size: int) -> None:
            rows, numbers = self.rows(kind, size)
            try:
                verdict = await source.push_async(rows, input=self.name, seq=numbers)
            except rxt.ProcessEndedError:
                self.unsure.update(numbers)
                return
            self.note(verdict, numbers)

        async def push_all() -> None:
            await asyncio.gather(*(push(*each) for each in self.plan))

        asyncio.run(push_all())


plans = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["new", "new", "again", "bad"]), st.sampled_from([1, 1, 1, 3, 40])
        ),
        min_size=1,
        max_size=12,
    ),
    min_size=1,
    max_size=4,
)
ends = st.sampled_from(["close", "stop", "fail"])
hand_offs = st.sampled_from(
    [None, rxt.HandOff(3), rxt.HandOff(3, rxt.WhenFull.SPILL), rxt.HandOff(1_000)]
)


class Kept(rxt.Sink):
    """A sink that a checkpoint saves, and that may fail after some batches."""

    def __init__(self, rows: list[tuple[str, int]], fails_after: int) -> None:
        super().__init__()
        self.shape = rxt.EventShape.POINT
        self.rows = rows
        self._left = fails_after
        self._kept = 0

    def open(self, name: str, schema: pl.Schema) -> None:
        """Forget what came after the checkpoint."""
        del self.rows[self._kept :]

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep the rows."""
        self._left -= 1
        if self._left == 0:
            raise OSError("the disk is full")
        self.rows += batch.payload.select("who", "id").rows()

    def close(self, error: BaseException | None) -> None:
        """Do nothing."""

    def save(self) -> bytes:
        """Return the number of rows."""
        return str(len(self.rows)).encode()

    def load(self, state: bytes) -> None:
        """Take the number of rows that belong to the checkpoint."""
        self._kept = int(state)


def _push_all(source: rxt.PushSource, pushers: list[Pusher]) -> list[threading.Thread]:
    threads = [
        threading.Thread(target=each.run_async if n % 3 == 2 else each.run, args=(source,))
        for n, each in enumerate(pushers)
    ]
    for thread in threads:
        thread.start()
    return threads


@given(plans, hand_offs)
@settings(max_examples=25, deadline=None)
def test_verdicts_add_up(plan: list[list[tuple[str, int]]], hand_off: rxt.HandOff | None) -> None:
    """With any number of pushers, each row has one verdict, and the accepted ones come out once."""
    source = make_source(hand_off=hand_off)
    rows: list[tuple[str, int]] = []
    pushers = [Pusher(f"p{n}", each) for n, each in enumerate(plan)]
    process = source.stream.run(Kept(rows, -1))
    for thread in _push_all(source, pushers):
        thread.join(SOON)
    stats = source.stats()
    source.close()
    assert process.wait(SOON)
    for each in pushers:
        assert each.accepted + each.duplicates + each.late + each.rejected == each.pushed
        counts = stats.inputs[each.name]
        assert counts.events == each.accepted + each.late
        assert (counts.duplicates, counts.rejected) == (each.duplicates, each.rejected)
        assert each.accepted == sum(who == each.name for who, _ in rows)
        assert each.sure <= {n for who, n in rows if who == each.name}
    assert set(Counter(rows).values()) <= {1}


@given(plans, st.lists(st.tuples(ends, st.integers(1, 30)), max_size=3), hand_offs)
@settings(max_examples=25, deadline=None)
def test_what_was_accepted_outlives_any_end(
    plan: list[list[tuple[str, int]]],
    lives: list[tuple[str, int]],
    hand_off: rxt.HandOff | None,
) -> None:
    """In a run with resume=, what a verdict accepted comes out once, whenever its lives end."""
    rows: list[tuple[str, int]] = []
    pushers = [Pusher(f"p{n}", each) for n, each in enumerate(plan)]
    with tempfile.TemporaryDirectory() as folder:
        for how, moment in [*(each for each in lives if each[0] != "close"), ("close", 0)]:
            source = make_source(hand_off=hand_off)
            process = source.stream.run(
                Kept(rows, moment if how == "fail" else -1), resume=Path(folder) / "run"
            )
            threads = _push_all(source, pushers)
            if how == "stop":
                process.stop()
            for thread in threads:
                thread.join(SOON)
                assert not thread.is_alive()
            if how == "fail":
                process.stop()
            if how == "close":
                source.close()
                process.wait(SOON)
    for each in pushers:
        out = [n for who, n in rows if who == each.name]
        assert each.sure <= set(out)
        assert len(out) == len(set(out))


@given(plans, plans, st.sampled_from([None, "log", "resume"]))
@settings(max_examples=15, deadline=None)
def test_two_sources_of_one_run(
    one: list[list[tuple[str, int]]], two: list[list[tuple[str, int]]], how: str | None
) -> None:
    """Threads and event loops push into two sources of one run; each row comes out of its own."""
    sources = [rxt.PushSource(f"s{n}", schema=SCHEMA, start="t", delay=DELAY) for n in range(2)]
    app, rows = rxt.Application("both"), [[], []]  # type: ignore[var-annotated]
    for n, source in enumerate(sources):
        app.query(f"q{n}", app.define_stream(f"s{n}", source.stream))
    pushers = [[Pusher(f"p{n}", each) for n, each in enumerate(plan)] for plan in (one, two)]
    with tempfile.TemporaryDirectory() as folder:
        place: Any = {} if how is None else {how: Path(folder) / "run"}
        sinks = {f"q{n}": Kept(each, -1) for n, each in enumerate(rows)}
        process = app.run(sinks=sinks, **place)
        threads = _push_all(sources[0], pushers[0]) + _push_all(sources[1], pushers[1])
        for thread in threads:
            thread.join(SOON)
            assert not thread.is_alive()
        for source in sources:
            source.close()
        assert process.wait(SOON)
    for own, out in zip(pushers, rows, strict=True):
        assert len(out) == sum(each.accepted for each in own)
        for each in own:
            assert each.sure <= {n for who, n in out if who == each.name}
