"""A query that changes over its folder: what is kept, what begins, and what is refused."""

from __future__ import annotations

import functools
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from runs import SOON

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.errors import ArgumentError, CheckpointError, EventError

Query = Callable[[rxt.Streamable], rxt.Streamable]
ROWS = {"room": str, "temp": float}


def count(stream: rxt.Streamable) -> rxt.Streamable:
    """The rows of each ten ticks."""
    return stream.tumbling_window(10).aggregate(n=agg.count())


def mean(stream: rxt.Streamable) -> rxt.Streamable:
    """The mean of each ten ticks."""
    return stream.tumbling_window(10).aggregate(mean=agg.mean("temp"))


class Kept(rxt.Sink):
    """A sink that cuts off what a crash has left after its state."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep the rows."""
        self.rows += batch.to_polars("ticks").rows()

    def save(self) -> bytes:
        """Return how many rows there are."""
        return str(len(self.rows)).encode()

    def load(self, state: bytes) -> None:
        """Forget later ones."""
        del self.rows[int(state) :]


class Full(Kept):
    """A sink that cannot save its state."""

    def save(self) -> bytes:
        """Raise ``OSError``."""
        raise OSError("the disk is full")


class House:
    """Queries over rows that are pushed, in one folder, with the same sinks in each run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "run"
        self.has_room = True
        self.rows: dict[str, list[Any]] = {}

    def run(
        self,
        queries: dict[str, Query],
        times: Iterable[int],
        schema: Any = ROWS,
        *,
        delay: int = 2,
        extra: dict[str, Any] | None = None,
        **how: Any,
    ) -> rxt.Process:
        """Push a row for each time, its temperature, and stop."""
        source = rxt.PushSource("rows", schema=schema, start="t", delay=delay)
        app = rxt.Application("house")
        stream = app.define_stream("rows", source.stream)
        for name, query in queries.items():
            app.query(name, query(stream))
        sinks = {name: self.keep(name) for name in queries}
        process = app.run(sinks=sinks, resume=self.folder, **how)
        for time in times:
            source.push({"t": time, "room": "hall", "temp": float(time), **(extra or {})})
        process.stop()
        process.wait(SOON)
        return process

    def keep(self, name: str) -> rxt.Sink:
        """Return a sink for the rows of a query."""
        return (Kept if self.has_room else Full)(self.rows.setdefault(name, []))


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A house in an empty folder."""
    return House(tmp_path)


def test_a_query_is_added_without_a_flag(house: House) -> None:
    """The one before goes on with its open window; the new one begins with a complete one."""
    house.run({"count": count}, range(1, 38))
    house.run({"count": count, "mean": mean}, range(38, 65))
    assert house.rows["count"] == [(t, t + 10, 9 if t == 0 else 10) for t in range(0, 60, 10)]
    assert house.rows["mean"] == [(40, 50, 44.5), (50, 60, 54.5)]


# each composes steps of its own, which are equal
BY_ROOM: dict[str, Query] = {
    "windows": lambda stream: count(stream.group_by("room").where(pl.col("temp") >= 0)),
    "sessions": lambda stream: stream.group_by("room").session_window(7).aggregate(n=agg.count()),
    "numbers": lambda stream: stream.group_by("room").scan(
        0, lambda n, _, row: (n + 1, {"n": n + 1}), schema={"n": int}
    ),
    "firsts": lambda stream: count(stream.distinct()),
    "once": lambda stream: stream.distinct().extend_lifetime(3),
}


@pytest.mark.parametrize(
    ("before", "after", "flag"),
    [
        (["sessions", "windows", "numbers"], ["windows", "numbers"], True),
        (["sessions", "windows", "numbers"], ["numbers", "windows", "sessions"], False),
        (["windows", "numbers"], ["sessions", "windows", "numbers"], False),
        (["firsts", "once"], ["once"], True),
        (["firsts", "once"], ["once", "firsts"], False),
    ],
)
def test_queries_with_equal_steps_keep_their_own_states(
    house: House, tmp_path: Path, before: list[str], after: list[str], flag: bool
) -> None:
    """Whichever comes first, and whatever is added before it or removed."""
    times = [*range(1, 15), *range(30, 42), *range(50, 65), 80]
    house.run({name: BY_ROOM[name] for name in before}, times[:24])
    house.run({name: BY_ROOM[name] for name in after}, times[24:], evolve=flag)
    unchanged = House(tmp_path / "other")
    unchanged.run({name: BY_ROOM[name] for name in before}, times)
    for name in {*before} & {*after}:
        assert house.rows[name] == unchanged.rows[name]
        assert len(house.rows[name]) > 1


def test_a_changed_query_is_refused_with_the_command_that_shows_the_change(house: House) -> None:
    """Without the flag nothing is changed: the query as it was goes on."""
    house.run({"out": count}, range(1, 38))
    with pytest.raises(CheckpointError, match=r"Hint: .*rxtemporal plan .*run"):
        house.run({"out": mean}, range(38, 39))
    with pytest.raises(CheckpointError, match=r"outputs have changed.*Hint"):
        house.run({"other": count}, range(38, 39))
    house.run({"out": count}, range(38, 45))
    assert house.rows["out"][-1] == (30, 40, 10)


def test_a_changed_query_goes_on_in_its_sink(house: House) -> None:
    """Of the new query the sink gets no row that starts before what it has of the one before."""
    house.run({"out": lambda s: s.where(pl.col("temp") > 3)}, range(1, 8), delay=4)
    house.run({"out": lambda s: s.where(pl.col("temp") > 5)}, range(8, 14), delay=4, evolve=True)
    # at the cut the CTI is 3, and rows from there on are open
    assert [row[0] for row in house.rows["out"]] == [6, 7, 8]
    # a later run is the changed one
    house.run({"out": lambda s: s.where(pl.col("temp") > 5)}, range(14, 16), delay=4)
    assert [row[0] for row in house.rows["out"]] == [6, 7, 8, 9, 10]


@pytest.mark.parametrize(("partial", "first"), [(False, (40, 50, 44.5)), (True, (30, 40, 37.0))])
def test_windows_that_contain_the_cut(house: House, partial: bool, first: Any) -> None:
    """They lack the rows that had ended, and are given only on request."""
    house.run({"out": count}, range(1, 38))
    house.run({"new": mean}, range(38, 65), evolve=True, partial=partial)
    assert house.rows["new"][0] == first


def add_up(windows: rxt.WindowedStreamable) -> rxt.Streamable:
    """The number of rows of a window, and their sum."""
    return windows.aggregate(n=agg.count(), s=agg.sum("temp"))


def split_by_time(events: Any, window: Any) -> list[Any]:
    """Return a row for the first and one for the last event of a window, which know all of it."""
    total = {"n": len(events)}
    return [rxt.IntervalEvent(events[at].start, window.end, total) for at in (0, -1)]


@functools.cache
def make_long(stream: rxt.Streamable) -> rxt.Streamable:
    """Some rows that live longer than the others; one operator, whoever asks."""
    return stream.alter_event_duration(pl.when(pl.col("temp") % 3 == 0).then(20).otherwise(1))


AT_END = rxt.WindowOutput.POINT_AT_END
# queries that begin in the middle; each gives windows of rows that may be missing, some directly
BEGUN: dict[str, Query] = {
    "session, point": lambda s: add_up(s.session_window(4, output=AT_END)),
    "count, point": lambda s: add_up(make_long(s).count_window(3)),
    "user function": lambda s: s.hopping_window(12, 5).apply(
        split_by_time, schema={"n": int}, time_sensitive=True
    ),
    "session, user function": lambda s: s.session_window(4).apply(
        split_by_time, schema={"n": int}, time_sensitive=True
    ),
    "tumbling, point_at_end": lambda s: add_up(
        s.tumbling_window(10).aggregate(temp=agg.sum("temp")).point_at_end().tumbling_window(20)
    ),
    "hopping, shift": lambda s: add_up(
        s.hopping_window(12, 5)
        .aggregate(temp=agg.sum("temp"))
        .shift_event_time(5)
        .tumbling_window(10)
    ),
    "tumbling, extend": lambda s: add_up(
        s.tumbling_window(10).aggregate(temp=agg.sum("temp")).extend_lifetime(7).tumbling_window(10)
    ),
    "session, extend": lambda s: add_up(
        s.session_window(4).aggregate(temp=agg.sum("temp")).extend_lifetime(6).snapshot_window()
    ),
    "session, session": lambda s: add_up(
        s.session_window(4, output=AT_END)
        .aggregate(temp=agg.sum("temp"))
        .session_window(8, output=AT_END)
    ),
    "duration": lambda s: add_up(s.alter_event_duration(6).tumbling_window(10)),
    "session_lifetimes": lambda s: add_up(s.session_lifetimes(4).tumbling_window(10)),
}
# with gaps that end a session, and some that do not
SPARSE = [0, 1, 2, 4, 7, 9, 11, 12, 14, 16, 17, 19, 24, 26, 27, 33, 34, 41, 44, 46, 48, 52, 61, 65]


@pytest.mark.parametrize("name", BEGUN)
def test_what_a_new_query_gives_is_in_the_run_of_all_rows(tmp_path: Path, name: str) -> None:
    """Wherever it begins; and it gives all that lies far enough behind the cut."""
    query = BEGUN[name]
    rows = [rxt.PointEvent(t, {"room": "hall", "temp": float(t)}) for t in SPARSE]
    whole = query(rxt.from_events(rows, schema=ROWS, advance_time=0)).to_polars(time="ticks").rows()
    for cut in range(2, 20, 3):
        house = House(tmp_path / str(cut))
        house.run({"all": make_long}, SPARSE[:cut], delay=0)
        house.run({"all": make_long, "new": query}, [*SPARSE[cut:], 200], delay=0)
        given = sorted(house.rows["new"])
        assert not {row for row in given if row[0] < 100} - {*whole}, cut
        far = range(SPARSE[cut] + 50, 80)
        assert [row for row in sorted(whole) if row[0] in far] == [
            row for row in given if row[0] in far
        ]


def test_a_query_with_a_clock_for_each_device_says_that_it_cannot_change(tmp_path: Path) -> None:
    """With the flag, too; and what the change is."""

    def run(*queries: str) -> None:
        source = rxt.PushSource("rows", schema=ROWS, start="t", delay=2, clock="room")
        app = rxt.Application("house")
        stream = app.define_stream("rows", source.stream)
        made: dict[str, Query] = {"all": lambda s: s, "count": lambda s: count(s.group_by("room"))}
        for name in queries:
            app.query(name, made[name](stream))
        sinks = {name: rxt.Collect() for name in queries}
        process = app.run(sinks=sinks, resume=tmp_path / "run", evolve=True)
        source.push({"t": 1, "room": "hall", "temp": 1.0})
        process.stop()

    run("all")
    with pytest.raises(CheckpointError, match=r"\(clock=\) cannot change.*Now: group_by.*Hint: "):
        run("all", "count")


def test_what_is_given_up_begins_anew_if_it_comes_back(house: House) -> None:
    """Nothing is left of a query that has gone."""
    house.run({"count": count, "mean": mean}, range(1, 8))
    house.run({"count": count}, range(8, 38), evolve=True)
    house.run({"count": count, "mean": mean}, range(38, 65))
    assert house.rows["count"][:2] == [(0, 10, 9), (10, 20, 10)]
    assert house.rows["mean"] == [(40, 50, 44.5), (50, 60, 54.5)]


def test_a_named_operator_that_has_moved_keeps_its_state(house: House) -> None:
    """Rows are filtered from the change on, and the window goes on."""
    house.run({"out": lambda s: count(s).named("hot")}, range(1, 38))
    house.run(
        {"out": lambda s: count(s.where(pl.col("temp") != 38)).named("hot")},
        range(38, 55),
        evolve=True,
    )
    assert house.rows["out"] == [(0, 10, 9), (10, 20, 10), (20, 30, 10), (30, 40, 9), (40, 50, 10)]


def test_the_delay_of_a_source_may_change(house: House) -> None:
    """The time does not go back, and moves on by the new delay."""
    house.run({"out": lambda s: s}, range(1, 11))
    assert house.rows["out"][-1][0] == 7
    with pytest.raises(CheckpointError, match="Hint"):
        house.run({"out": lambda s: s}, range(11, 12), delay=5)
    house.run({"out": lambda s: s}, range(11, 15), delay=5, evolve=True)
    assert [row[0] for row in house.rows["out"]] == [*range(1, 9)]
    house.run({"out": lambda s: s}, range(15, 17), delay=0, evolve=True)
    assert [row[0] for row in house.rows["out"]] == [*range(1, 16)]


def crash(house: House, queries: dict[str, Query], times: range, **how: Any) -> None:
    """Run queries, and leave the folder as a process would that is killed after its pushes."""
    place, left = house.folder, house.folder.with_name("left")
    source = rxt.PushSource("rows", schema=ROWS, start="t", delay=2)
    app = rxt.Application("house")
    stream = app.define_stream("rows", source.stream)
    for name, query in queries.items():
        app.query(name, query(stream))
    sinks = {name: house.keep(name) for name in queries}
    process = app.run(sinks=sinks, resume=place, **how)
    for time in times:
        source.push({"t": time, "room": "hall", "temp": float(time)})
    shutil.copytree(place, left)
    process.stop()
    shutil.rmtree(place)
    left.rename(place)


class Windows:
    """Windows over rows whose delay differs from run to run, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.accepted: list[int] = []

    def run(self, delay: int, times: Iterable[int], *, crashes: bool = False, **how: Any) -> Any:
        """Push rows, note which are accepted, and return the rows of all results."""
        sink, left = rxt.Collect(), self.folder.with_name("left")
        source = rxt.PushSource("rows", schema={"n": int}, start="t", delay=delay)
        windows = source.stream.tumbling_window(10).aggregate(n=agg.count())
        process = windows.run(sink, resume=self.folder, evolve=True, name="windows", **how)
        for time in times:
            self.accepted += [time] * source.push({"t": time, "n": 1}).accepted
        if crashes:
            shutil.copytree(self.folder, left)
        else:
            source.close()
        process.stop()
        process.wait(SOON)
        if crashes:
            shutil.rmtree(self.folder)
            left.rename(self.folder)
        return sink.to_polars(time="ticks").rows()

    def count(self) -> list[tuple[int, int, int]]:
        """Return the windows of all accepted rows."""
        starts = Counter(time // 10 * 10 for time in self.accepted)
        return [(start, start + 10, starts[start]) for start in sorted(starts)]


@pytest.mark.parametrize("delays", [(8, 0), (0, 8), (8, 0, 8), (0, 8, 0)])
def test_a_row_keeps_its_verdict_when_the_delay_changes(
    tmp_path: Path, delays: tuple[int, ...]
) -> None:
    """Those since the last checkpoint are judged again by the delay that they came with."""
    windows = Windows(tmp_path / "run")
    for number, delay in enumerate(delays):
        first = 30 * number
        windows.run(delay, [first + 21, first + 15, first + 17, first + 22], crashes=True)
    found = windows.run(delays[0], [30 * len(delays) + 50])
    assert found == windows.count()


@pytest.mark.parametrize("delays", [(8, 0), (0, 8), (8, 0, 8), (0, 8, 0)])
def test_a_replay_judges_each_row_by_the_delay_that_it_came_with(
    tmp_path: Path, delays: tuple[int, ...]
) -> None:
    """The new query has what the old one would have had from the first row on."""
    house = House(tmp_path)
    accepted: list[int] = []
    how: dict[str, Any] = {"evolve": True, "keep_history": 1_000}
    for number, delay in enumerate(delays):
        times = [30 * number + each for each in (21, 15, 17, 22)]
        house.run({"count": count}, times, delay=delay, **how)
        accepted += times if delay else [times[0], times[3]]
    how["replay_from"] = 0
    house.run({"count": count, "again": count}, [200], delay=delays[-1], **how)
    starts = Counter(time // 10 * 10 for time in accepted)
    assert house.rows["again"] == [(start, start + 10, starts[start]) for start in sorted(starts)]
    assert house.rows["count"] == house.rows["again"]


def test_a_clock_for_each_device_keeps_its_delay_before_the_first_checkpoint(
    tmp_path: Path,
) -> None:
    """The rows in the log would get other verdicts than those that were told."""

    def start(delay: int) -> tuple[rxt.PushSource, rxt.Process]:
        source = rxt.PushSource(
            "rows", schema={"k": str}, start="t", delay=delay, clock="k", unit="ticks"
        )
        windows = source.stream.group_by("k").tumbling_window(10).aggregate(n=agg.count())
        return source, windows.run(rxt.Collect(), resume=tmp_path / "run", evolve=True)

    source, process = start(8)
    source.push({"t": 21, "k": "a"})
    shutil.copytree(tmp_path / "run", tmp_path / "left")
    process.stop()
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "left").rename(tmp_path / "run")
    with pytest.raises(CheckpointError, match="with clock= they cannot change"):
        start(0)
    start(8)[1].stop()


def test_long_chains_of_named_steps_are_compared_soon(tmp_path: Path) -> None:
    """Where all of them have changed, and where none has; each pair is compared once."""

    def run(least: float) -> rxt.Process:
        source = rxt.PushSource("rows", schema=ROWS, start="t", delay=2)
        stream = source.stream.where(pl.col("temp") > least).distinct()
        for number in range(40):
            stream = stream.extend_lifetime(1).named(f"step {number}")
        return stream.run(rxt.Collect(), resume=tmp_path, evolve=True, name="chain")

    for least in (0.0, 1.0, 1.0):
        run(least).stop()


def test_the_log_after_the_cut_goes_to_the_new_query(house: House) -> None:
    """After a crash the cut is the last checkpoint, and each row is in each result once."""
    house.run({"count": count}, range(1, 38))
    crash(house, {"count": count}, range(38, 54))
    house.run({"count": count, "mean": mean}, range(54, 65))
    assert house.rows["count"] == [(t, t + 10, 9 if t == 0 else 10) for t in range(0, 60, 10)]
    assert house.rows["mean"] == [(40, 50, 44.5), (50, 60, 54.5)]


def test_a_crash_after_the_change_leaves_the_new_folder(house: House) -> None:
    """The change is saved before anything new is read: the new query resumes without a flag."""
    house.run({"out": count}, range(1, 38))
    crash(house, {"new": mean}, range(38, 53), evolve=True)
    house.run({"new": mean}, range(53, 65))
    assert house.rows["new"] == [(40, 50, 44.5), (50, 60, 54.5)]


def test_a_change_that_cannot_be_saved_leaves_the_old_folder(house: House) -> None:
    """The old query goes on as if nothing had happened, and the change can be made later."""
    house.run({"out": count}, range(1, 38))
    house.has_room = False
    with pytest.raises(OSError, match="the disk is full"):
        house.run({"new": mean}, range(38, 53), evolve=True)
    house.has_room = True
    house.run({"out": count}, range(38, 53))
    house.run({"new": mean}, range(53, 75), evolve=True)
    assert house.rows["out"] == [(t, t + 10, 9 if t == 0 else 10) for t in range(0, 50, 10)]
    assert house.rows["new"] == [(50, 60, 54.5), (60, 70, 64.5)]


WIDE: dict[str, Query] = {
    "all": lambda s: s,
    "count": count,
    "latest": lambda s: s.group_by("room").to_signal().ungroup(),
    "pairs": lambda s: s.extend_lifetime(3).join(s.extend_lifetime(5), on="room", suffix="_right"),
    "alone": lambda s: s.extend_lifetime(3).left_anti_join(s.where(pl.col("temp") > 30), on="room"),
    "best": lambda s: s.group_by("room").tumbling_window(10).top_k(2, "temp"),
    "waiting": lambda s: s.shift_event_time(-1),
    "sessions": lambda s: s.session_window(3).aggregate(n=agg.count()),
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("crashed", [False, True])
def test_fields_that_are_added_are_null_in_what_was_there(
    house: House, name: str, crashed: bool
) -> None:
    """The query goes on with its rows, which lack the new field; also with those of the log."""
    queries = {name: WIDE[name]}
    house.run(queries, range(1, 18))
    if crashed:
        crash(house, queries, range(18, 22))
    else:
        house.run(queries, range(18, 22))
    wide = {**ROWS, "unit": str}
    with pytest.raises(CheckpointError, match="Hint"):
        house.run(queries, range(22, 23), wide, extra={"unit": "C"})
    house.run(queries, range(22, 45), wide, extra={"unit": "C"}, evolve=True)
    other = House(house.folder.parent / "other")
    other.run(queries, range(1, 22), wide, extra={"unit": None})
    other.run(queries, range(22, 45), wide, extra={"unit": "C"})
    for got, wanted in zip(house.rows[name], other.rows[name], strict=True):
        # what the sink had before has no such field
        missing = [each for each in wanted if each not in got]
        assert missing in ([], [None], [None, None])
        assert [each for each in wanted if each in got] == [*got]


def test_other_changes_of_fields_are_refused(house: House) -> None:
    """A field keeps its type, and stays."""
    house.run({"count": count}, range(1, 18))
    for other in ({"room": str, "temp": int, "unit": str}, {"room": str, "unit": str}):
        with pytest.raises(CheckpointError, match="Hint: give the source another name"):
            house.run({"count": count}, range(0), other, evolve=True)


def test_evolve_needs_a_folder() -> None:
    """Without a folder there is nothing to continue."""
    with pytest.raises(ArgumentError, match="Hint"):
        rxt.from_events([]).run(rxt.Collect(), evolve=True)
    with pytest.raises(ArgumentError, match="Hint"):
        rxt.from_events([]).run(rxt.Collect(), resume="run", partial=True)


# Replay from an earlier checkpoint ----------------------------------------------------------------

COUNT: dict[str, Query] = {"count": count}
BOTH: dict[str, Query] = {"count": count, "mean": mean}
KEPT: dict[str, Any] = {"keep_history": 80}


def count_rows(until: int) -> list[Any]:
    """The rows of ``count``; there is none at 0."""
    return [(t, t + 10, 9 if t == 0 else 10) for t in range(0, until, 10)]


def mean_rows(begin: int, until: int) -> list[Any]:
    """The rows of ``mean``."""
    return [(t, t + 10, 5.0 if t == 0 else t + 4.5) for t in range(begin, until, 10)]


def list_facts(house: House) -> tuple[int, int]:
    """Return how many states the folder has, and its oldest record."""
    with closing(sqlite3.connect(house.folder / "run.sqlite")) as database:
        names = database.execute("SELECT name FROM facts WHERE name LIKE 'checkpoint %'")
        states = len({name.split(".")[0] for (name,) in names})
        (oldest,) = database.execute("SELECT min(first) FROM parts").fetchone()
    return states, oldest


def run_thrice(house: House, queries: dict[str, Query] = COUNT, **how: Any) -> None:
    """Run queries over the times up to 59, with checkpoints after 17, 37 and 59."""
    for times in (range(1, 18), range(18, 38), range(38, 60)):
        house.run(queries, times, **KEPT | how)


@pytest.mark.parametrize(("at", "begin"), [(0, 0), (15, 20), (34, 20), (35, 40), (57, 60)])
def test_a_new_query_begins_at_the_last_checkpoint_before(
    house: House, at: int, begin: int
) -> None:
    """Its windows from there on are given; the other query gets no row twice."""
    run_thrice(house)
    house.run(BOTH, range(60, 75), replay_from=at, **KEPT)
    assert house.rows["count"] == count_rows(70)
    assert house.rows["mean"] == mean_rows(begin, 70)
    # the flag has no effect once the change is made
    house.run(BOTH, range(75, 85), replay_from=at, **KEPT)
    assert house.rows["count"] == count_rows(80)
    assert house.rows["mean"] == mean_rows(begin, 80)


@pytest.mark.parametrize("at", [0, 20, 40])
def test_a_changed_query_has_no_gap(house: House, at: int) -> None:
    """Its sink gets the window that contains the change, and nothing twice."""
    run_thrice(house, {"out": count})
    house.run({"out": mean}, range(60, 75), evolve=True, replay_from=at, **KEPT)
    assert house.rows["out"] == [*count_rows(50), *mean_rows(50, 70)]


@pytest.mark.parametrize("shape", [*rxt.EventShape])
@pytest.mark.parametrize("at", [0, 16])
def test_points_and_edges_are_refused(house: House, shape: rxt.EventShape, at: int) -> None:
    """They leave before the time has passed them; intervals are given once."""

    class Rows(rxt.Sink):
        def __init__(self) -> None:
            self.shape = shape
            self.starts: list[int] = []

        def write(self, batch: rxt.EventBatch) -> None:
            self.starts += batch.to_polars("ticks")["start_time"].to_list()

    kinds = {"all": Rows(), "odd": Rows()}

    def run(queries: list[str], times: range, **how: Any) -> None:
        source = rxt.PushSource("rows", schema={"n": int}, start="t", delay=5)
        app = rxt.Application("house")
        stream = app.define_stream("rows", source.stream).alter_event_duration(3)
        app.query("all", stream)
        app.query("odd", stream.where(pl.col("n") % 2 == 1))
        sinks = {name: kinds[name] for name in queries}
        process = app.run(sinks=sinks, resume=house.folder, **KEPT, **how)
        for n in times:
            source.push({"t": n, "n": n})
        process.stop()
        process.wait(SOON)

    for begin in (0, 20, 40):
        run(["all"], range(begin, begin + 20))
    if shape is not rxt.EventShape.INTERVAL:
        with pytest.raises(CheckpointError, match=rf"'all' goes into a sink of {shape.value}s"):
            run(["all", "odd"], range(60, 80), replay_from=at)
        return
    run(["all", "odd"], range(60, 80), replay_from=at)
    run(["all", "odd"], range(80, 100), replay_from=at)
    assert kinds["all"].starts == [*range(94)]
    # it begins with the row that is open at the checkpoint
    begin = 13 if at else 0
    assert kinds["odd"].starts == [n for n in range(begin, 94) if n % 2]


@pytest.mark.parametrize("delays", [(2, 25), (25, 2), (2, 2)])
@pytest.mark.parametrize("rows", [1, 25])
def test_the_replay_may_have_other_times_and_batches(
    house: House, delays: tuple[int, int], rows: int
) -> None:
    """Results that the sink has are not given again, and none is lost."""

    def run(queries: dict[str, Query], times: range, delay: int, **how: Any) -> None:
        source = rxt.PushSource("rows", schema=ROWS, start="t", delay=delay, batch_rows=rows)
        app = rxt.Application("house")
        stream = app.define_stream("rows", source.stream)
        for name, query in queries.items():
            app.query(name, query(stream))
        sinks = {name: house.keep(name) for name in queries}
        process = app.run(sinks=sinks, resume=house.folder, **KEPT, **how)
        source.push([{"t": time, "room": "hall", "temp": float(time)} for time in times])
        process.stop()
        process.wait(SOON)

    for times in (range(1, 18), range(18, 38), range(38, 60)):
        run(COUNT, times, delays[0])
    run(BOTH, range(60, 75), delays[1], evolve=True, replay_from=16)
    run(BOTH, range(75, 120), delays[1])
    until = (119 - delays[1]) // 10 * 10
    assert house.rows["count"] == count_rows(until)
    # rows that wait for others of their batch have not advanced the time of a checkpoint
    assert house.rows["mean"] in (mean_rows(0, until), mean_rows(20, until))


def test_a_source_that_comes_back_begins(tmp_path: Path) -> None:
    """It gets no record of the one that was removed, and no replay goes back before it."""
    counts: dict[str, list[Any]] = {"a": [], "b": [], "new": []}

    def run(names: str, begin: int, *, new: bool = False, **how: Any) -> None:
        app = rxt.Application("house")
        sources = {
            name: rxt.PushSource(name, schema={"n": int}, start="t", delay=2) for name in names
        }
        for name, source in sources.items():
            app.query(name, count(app.define_stream(f"of {name}", source.stream)))
        if new:
            app.query("new", count(sources["a"].stream))
        sinks = {name: Kept(counts[name]) for name in app.queries}
        process = app.run(sinks=sinks, resume=tmp_path / "run", evolve=True, **KEPT, **how)
        for n in range(begin, begin + 20):
            for source in sources.values():
                source.push({"t": n, "n": n})
        process.stop()
        process.wait(SOON)

    run("ab", 0)
    run("a", 20)
    run("ab", 40)
    for at in (0, 30):
        with pytest.raises(CheckpointError, match=r"stream 'of b' was removed after .*Hint"):
            run("ab", 60, new=True, replay_from=at)
    run("ab", 60, new=True, replay_from=58)
    assert counts["a"] == [(t, t + 10, 10) for t in range(0, 70, 10)]
    assert counts["b"][0] == (0, 10, 10)
    # its windows lack nothing: the first one begins with its first row
    assert counts["b"][1:] == [(t, t + 10, 10) for t in range(40, 70, 10)]


def test_rejected_rows_are_in_no_log(house: House) -> None:
    """A replay would lose those that a query holds, and is refused."""

    def run(**how: Any) -> None:
        source = rxt.PushSource("rows", schema={"n": int}, start="t", delay=2)
        app = rxt.Application("house")
        stream = app.define_stream("rows", source.stream)
        app.query("wrong", source.rejects.stream.tumbling_window(50).aggregate(n=agg.count()))
        for name in how.pop("more", ()):
            app.query(name, count(stream))
        sinks = {name: house.keep(name) for name in app.queries}
        process = app.run(sinks=sinks, resume=house.folder, **KEPT, **how)
        source.push([{"t": 11, "n": 1}, {"t": 12, "n": "two"}])
        process.stop()
        process.wait(SOON)

    run()
    run()
    with pytest.raises(CheckpointError, match=r"rejected rows .*Hint"):
        run(more=["count"], replay_from=0)


def test_a_missing_part_of_the_history_is_found_at_once(house: House) -> None:
    """A run does not open the folder, also if it would not replay."""
    run_thrice(house)
    with closing(sqlite3.connect(house.folder / "run.sqlite")) as database:
        database.execute("DELETE FROM facts WHERE name LIKE 'checkpoint 1.%'")
        database.commit()
    with pytest.raises(CheckpointError, match="a part of the checkpoint is missing"):
        house.run(COUNT, range(60, 61), **KEPT)


def test_a_query_that_began_between_goes_on_in_its_sink(house: House) -> None:
    """Its sink has the rows from its beginning, and is given none twice."""
    house.run(COUNT, range(1, 38), **KEPT)
    house.run(BOTH, range(38, 60), **KEPT)
    more = {**BOTH, "low": lambda s: s.tumbling_window(10).aggregate(low=agg.min("temp"))}
    house.run(more, range(60, 75), replay_from=0, **KEPT)
    assert house.rows["count"] == count_rows(70)
    assert house.rows["mean"] == mean_rows(40, 70)
    assert house.rows["low"] == [(t, t + 10, max(t, 1)) for t in range(0, 70, 10)]


def test_events_after_a_crash_are_read_once(house: House) -> None:
    """The change is made over the log that no checkpoint has; a later crash repeats nothing."""
    house.run(COUNT, range(1, 38), **KEPT)
    crash(house, COUNT, range(38, 54), **KEPT)
    crash(house, BOTH, range(54, 62), replay_from=0, **KEPT)
    house.run(BOTH, range(62, 75), **KEPT)
    assert house.rows["count"] == count_rows(70)
    assert house.rows["mean"] == mean_rows(0, 70)


def test_the_history_is_as_long_as_asked_for(house: House) -> None:
    """States are thinned out, older events are deleted, and all of them without the argument."""
    for begin in range(0, 1_000, 10):
        house.run(COUNT, range(begin, begin + 10), keep_history=300)
        states, oldest = list_facts(house)
        # a checkpoint every ten ticks, kept every 300 // 8, and the last one
        assert states <= 300 // 40 + 3
        assert oldest <= max(begin + 10 - 300, 0)
    assert oldest > 500
    with pytest.raises(CheckpointError, match=r"its history begins at .*Hint: replay from a later"):
        house.run(BOTH, range(1_000, 1_001), replay_from=100, keep_history=300)
    house.run(COUNT, range(1_000, 1_010))
    assert list_facts(house) == (1, None)
    with pytest.raises(CheckpointError, match=r"its history begins at .*keep_history="):
        house.run(BOTH, range(1_000, 1_001), replay_from=100)


def test_what_is_pushed_row_by_row_is_merged(house: House) -> None:
    """The events of a history are few entries, not one for each push."""
    for begin in range(0, 200, 50):
        house.run(COUNT, range(begin, begin + 50), keep_history=1_000)
    with closing(sqlite3.connect(house.folder / "run.sqlite")) as database:
        entries, records = database.execute(
            "SELECT count(*), sum(records) FROM parts WHERE stream = 0"
        ).fetchone()
    assert (entries, records) == (4, 200)


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ({"replay_from": "yesterday"}, EventError),
        ({"keep_history": "a week"}, ArgumentError),
        ({"keep_history": 0}, ArgumentError),
        ({"resume": None, "replay_from": 3}, ArgumentError),
        ({"resume": None, "keep_history": "7d"}, ArgumentError),
    ],
)
def test_wrong_arguments(tmp_path: Path, how: dict[str, Any], error: type[Exception]) -> None:
    """Nothing is opened."""
    source = rxt.PushSource("rows", schema={"n": int}, start="t")
    with pytest.raises(error, match=r"Hint|must be positive"):
        source.stream.run(rxt.Collect(), **{"resume": tmp_path / "run"} | how)
    assert not (tmp_path / "run").exists()
