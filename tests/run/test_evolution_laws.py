"""What holds when a query changes: the kept part continues as if nothing had, the new part begins.

What a new operator gives is what its model makes of the rows that are open at the cut, with their
true starts, and of all that come later.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import oracle
import oracle_lifetimes
import oracle_windows
import physical
import pytest
from compositions import STREAM
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import MIN_TIME, Event, Row
from oracle_lifetimes import UnboundedWindow
from products import draw_cases
from random_queries import PIECES, Chain, Piece, draw_chain, make_window
from reactivex.subject import Subject
from run_settings import save_never, skip_sync
from runs import Log

import rxtemporal as rxt
from rxtemporal import EventShape
from rxtemporal.run.checkpoint import find_cut
from rxtemporal.storage.event_log.stored_log import StoredLog

Sides = tuple[list[Event], list[Event]]
NAMES = ("left", "right")
SNAPSHOTS = PIECES["snapshots"]
EXTENDED = Piece(
    lambda s: SNAPSHOTS.query(s.extend_lifetime(3)),
    lambda rows: SNAPSHOTS.model(oracle_lifetimes.extend_lifetime(rows, 3)),
)
SESSIONS = make_window(
    lambda s: s.session_window(4), lambda rows: oracle_windows.session_windows(rows, 4)
)


@pytest.fixture(scope="module", autouse=True)
def on_demand() -> Iterator[None]:
    """Wait for no disk, and save only where a run is stopped."""
    with pytest.MonkeyPatch.context() as patch:
        skip_sync(patch)
        save_never(patch)
        yield


class Kept(Log):
    """A sink whose batches stay from one run to the next."""

    def __init__(self, batches: list[rxt.EventBatch], shape: EventShape) -> None:
        super().__init__(shape)
        self.batches = batches

    def open(self, name: str, schema: Any) -> None:
        """Keep what is there."""


class Service:
    """Queries over two subjects in a folder, run several times, each time with other queries."""

    def __init__(self, folder: Path, shape: EventShape = EventShape.EDGE) -> None:
        self.folder, self.shape = folder, shape
        self.got: dict[str, list[rxt.EventBatch]] = {}

    def run(self, queries: dict[str, Any], items: Sequence[tuple[str, Event]], **how: Any) -> None:
        """Run queries over both streams, push items, and stop."""
        app = rxt.Application("service")
        subjects = {name: Subject[Any]() for name in NAMES}
        streams = [
            app.define_stream(
                name, rxt.from_observable(subjects[name], schema=physical.SCHEMA, name=name)
            )
            for name in NAMES
        ]
        sinks = {}
        for name, query in queries.items():
            app.query(name, query(*streams))
            sinks[name] = Kept(self.got.setdefault(name, []), self.shape)
        process = app.run(sinks=sinks, resume=self.folder, **how)
        try:
            for side, item in items:
                subjects[side].on_next(physical.event(item))
        finally:
            process.stop()
        if process.error is not None:
            raise process.error

    def history(self, name: str) -> list[Any]:
        """Return what a query has given in all runs."""
        return oracle.history(physical.rows(self.got[name]))


def interleave(sides: Sides, random: Random) -> list[tuple[str, Event]]:
    """Return the items of both streams in one order."""
    left, right = ([*each] for each in sides)
    items = []
    while left or right:
        side = random.choice(
            [name for name, rest in zip(NAMES, (left, right), strict=True) if rest]
        )
        items.append((side, (left if side == "left" else right).pop(0)))
    return items


def find_cti(items: Sequence[tuple[str, Event]], side: str) -> int:
    """Return the highest CTI of a stream."""
    times = [item[1] for name, item in items if name == side and item[0] == "cti"]
    return max(times, default=MIN_TIME)


def find_open(sides: Sides, before: Sequence[tuple[str, Event]]) -> list[list[Row]]:
    """Return the rows of each stream that have not ended before its CTI at the cut.

    Left out: a row that ends at the CTI itself, which is open if its end edge comes later.
    """
    for name, items in zip(NAMES, sides, strict=True):
        cti = find_cti(before, name)
        assume(not any(item[0] == "end" and item[2] == cti for item in items))
    return [
        [row for row in oracle.canonical(items) if row.end > find_cti(before, name)]
        for name, items in zip(NAMES, sides, strict=True)
    ]


def query_of(chain: Chain) -> Any:
    """Return a query over both streams, of which it may read one."""
    return lambda left, right: chain.query(left, right)


def tell_rows(model: Any) -> list[Row]:
    """Return the rows of a model; reject what has no last window."""
    try:
        return list(model())
    except UnboundedWindow:
        assume(False)
        raise


def tell(model: Any) -> list[Any]:
    """Return the history of a model; reject what has no last window."""
    return oracle.history(tell_rows(model))


@pytest.mark.parametrize("name", draw_cases(PIECES, [*PIECES][::2]))
@given(data=st.data())
@settings(max_examples=max(5, settings().max_examples // 8))
def test_what_is_kept_goes_on_and_what_is_new_begins(name: str, data: st.DataObject) -> None:
    """A kept query gives its whole history; a new one that of the rows open at the cut, and later.

    Windows that contain the cut are given here, too. A new query that shares operators with a kept
    one is left out: it gets the rows that those have open.
    """
    old, sides = data.draw(draw_chain(name)), data.draw(st.tuples(STREAM, STREAM))
    new = data.draw(
        st.sampled_from([*PIECES]).filter(lambda each: each != name).flatmap(draw_chain)
    )
    assume(not {*old.right[:1]} & {*new.right[:1], new.left[0]} and old.left[0] != new.left[0])
    ended = tuple([*items, ("cti", oracle.MAX_TIME)] for items in sides)
    items = interleave(ended, Random(data.draw(st.integers(0, 2**20))))
    at = data.draw(st.integers(0, len(items) - 1))
    whole = [oracle.canonical(each) for each in ended]
    kept = tell(partial(old.model, *whole))
    begun = tell(partial(new.model, *find_open(ended, items[:at])))
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "run")
        # a stream that nobody reads has no rows at the cut
        queries = {"old": query_of(old), "both": lambda left, right: left.union(right)}
        service.run(queries, items[:at])
        queries["new"] = query_of(new)
        service.run(queries, items[at:], evolve=True, partial=True)
        assert service.history("old") == kept
        assert service.history("new") == begun


@pytest.mark.parametrize("name", draw_cases(PIECES, [*PIECES][1::2]))
@given(data=st.data())
@settings(max_examples=max(5, settings().max_examples // 8))
def test_a_replay_is_as_if_the_change_had_been_made_then(name: str, data: st.DataObject) -> None:
    """A kept query gives its history; a new one that of the rows open at the earlier cut."""
    old, sides = data.draw(draw_chain(name)), data.draw(st.tuples(STREAM, STREAM))
    new = data.draw(
        st.sampled_from([*PIECES]).filter(lambda each: each != name).flatmap(draw_chain)
    )
    assume(not {*old.right[:1]} & {*new.right[:1], new.left[0]} and old.left[0] != new.left[0])
    ended = tuple([*items, ("cti", oracle.MAX_TIME)] for items in sides)
    items = interleave(ended, Random(data.draw(st.integers(0, 2**20))))
    # a stream that has ended is not read again
    ends = [number for number, (_, item) in enumerate(items) if item == ("cti", oracle.MAX_TIME)]
    cuts = sorted(data.draw(st.lists(st.integers(0, ends[0]), min_size=2, max_size=4)))
    whole = [oracle.canonical(each) for each in ended]
    kept = tell(partial(old.model, *whole))
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "run", EventShape.INTERVAL)
        queries = {"old": query_of(old), "both": lambda left, right: left.union(right)}
        log, read = StoredLog(service.folder), {0: 0}
        for begin, end in zip([0, *cuts], cuts, strict=False):
            service.run(queries, items[begin:end], keep_history=200)
            read.setdefault(log.find_checkpoint().records, end)
        time = data.draw(st.one_of(st.just(oracle.MIN_TIME), st.integers(0, 60)))
        last = log.find_checkpoint()
        # a run that has come further than its history is long has forgotten the beginning
        times = (each.time for each in (*last.kept, last))
        time = max(time, next(each for each in times if each is not None))
        cut = find_cut(log, time)
        begun = tell(partial(new.model, *find_open(ended, items[: read[cut.records]])))
        queries["new"] = query_of(new)
        how = {"evolve": True, "partial": True, "keep_history": 200, "replay_from": time}
        service.run(queries, items[cuts[-1] :], **how)
        assert service.history("old") == kept
        assert service.history("new") == begun


# windows, how long after the cut one may still lack a row from before, and for how much longer a
# row from before may end one: without that row it is part of one that begins earlier
WINDOWS = {
    "snapshots": (SNAPSHOTS, 0, 0),
    "snapshots of extended rows": (EXTENDED, 3, 0),
    "hopping_window2": (PIECES["hopping_window2"], 5, 1),
    "session_window": (SESSIONS, 4, 0),
}


@pytest.mark.parametrize("name", WINDOWS)
@given(sides=st.tuples(STREAM, STREAM), data=st.data())
@settings(max_examples=max(10, settings().max_examples // 4))
def test_a_new_window_is_given_if_it_begins_after_the_cut(
    name: str, sides: Sides, data: st.DataObject
) -> None:
    """Each window that begins after the cut is complete, and none that begins before is given.

    One that begins at the cut is given if a row that is still there says that it begins.
    """
    piece, length, longer = WINDOWS[name]
    left = [*sides[0], ("cti", oracle.MAX_TIME)]
    items = [("left", item) for item in left]
    at = data.draw(st.integers(0, len(items) - 1))
    whole = tell_rows(partial(piece.model, oracle.canonical(left)))
    cti = find_cti(items[:at], "left")
    since = cti if cti == MIN_TIME else min(cti + length, oracle.MAX_TIME)
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "run")
        queries: dict[str, Any] = {"all": lambda left, right: left}
        service.run(queries, items[:at])
        queries["new"] = lambda left, right: piece.query(left)
        service.run(queries, items[at:])
        assert service.history("all") == oracle.history(oracle.canonical(left))
        given = service.history("new")
        known = oracle.history(row for row in whole if row.start >= since)
        assert [each for each in given if each[0] > since + longer] == [
            each for each in known if each[0] > since + longer
        ]
        assert all(each in known for each in given)
