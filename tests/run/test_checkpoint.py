"""Runs that are kept in a folder: where they stop, however they stop, the next one goes on."""

from __future__ import annotations

import random
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from resumed_runs import SOON, Table
from run_settings import save_at_once, save_never
from runs import Log

import rxtemporal as rxt
from rxtemporal import EventShape, agg
from rxtemporal.errors import ArgumentError, CheckpointError, SpoolError
from rxtemporal.testing import assert_same_history

ROWS = 400
FRAME = pl.DataFrame(
    {
        "t": [n + (n * 7) % 5 for n in range(ROWS)],
        "room": [("hall", "lab", "attic")[n % 3] for n in range(ROWS)],
        "temp": [n * 31 % 17 for n in range(ROWS)],
    }
)
DROP = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(3, 1), policy=rxt.AdvanceTimePolicy.DROP
)


@pytest.fixture(autouse=True)
def each_batch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Save after each batch: what may happen after a while happens soon."""
    save_at_once(monkeypatch)
    return


def readings(size: int = 7, frame: pl.DataFrame = FRAME, **options: Any) -> rxt.Streamable:
    """The readings, some of them late."""
    options = {"advance_time": DROP, "name": "readings", **options}
    return rxt.from_polars(frame, start="t", batch_rows=size, **options)


def query(stream: rxt.Streamable) -> rxt.Streamable:
    """Each room's readings, in windows and joined with the whole house."""
    counted = stream.group_by("room").tumbling_window(9).aggregate(n=agg.count())
    return counted.cross_join(stream.tumbling_window(9).aggregate(warmest=agg.max("temp")))


@pytest.mark.parametrize("how", ["stopped", "breaks"])
@pytest.mark.parametrize("shape", EventShape)
def test_any_number_of_runs_make_one(tmp_path: Path, shape: EventShape, how: str) -> None:
    """However often a run is stopped or breaks, what all have written is what one would have."""
    numbers = random.Random(f"{shape} {how}")
    whole = Log(shape)
    query(readings()).run(whole).wait(SOON)
    got: list[rxt.EventBatch] = []
    runs, done = 0, False
    while not done:
        runs += 1
        sink = Table(shape, got, numbers.randrange(4, 30), how)
        process = query(readings(numbers.randrange(4, 20))).run(sink, resume=tmp_path / "kept")
        done = _stopped(process, sink) if how == "stopped" else _ended_well(process)
    assert runs > 1
    assert_same_history(whole.batches, got, tolerance=0)
    before = len(got)
    query(readings()).run(Table(shape, got, 99, ""), resume=tmp_path / "kept").wait(SOON)
    assert len(got) == before


def _ended_well(process: rxt.Process) -> bool:
    try:
        assert process.wait(SOON)
    except OSError:
        return False
    return True


def _stopped(process: rxt.Process, sink: Table) -> bool:
    """Stop a run when its sink has come far enough; return whether it had ended before."""
    while not sink.reached.wait(0.01):
        if process.wait(0):
            return True
    process.dispose()
    return process.diagnostics().queries[0].cti == rxt.MAX_TIME


def test_two_frames_and_two_queries_go_on(tmp_path: Path) -> None:
    """What an application shares is saved once, and each sink goes on with its own."""

    def started(sinks: dict[str, Any], resume: Path | None) -> rxt.Process:
        app = rxt.Application("house")
        one = app.define_stream("one", readings(5))
        two = app.define_stream("two", readings(11, FRAME.with_columns(pl.col("t") + 3)))
        app.query("warmest", query(one))
        app.query("both", one.join(two, on="room", suffix="_right"))
        return app.run(sinks=sinks, resume=resume)

    whole = {name: Log(EventShape.EDGE) for name in ("warmest", "both")}
    started(whole, None).wait(SOON)
    got: dict[str, list[rxt.EventBatch]] = {"warmest": [], "both": []}
    done = False
    while not done:
        sinks = {name: Table(EventShape.EDGE, got[name], 15, "stopped") for name in got}
        done = _stopped(started(sinks, tmp_path), sinks["both"])
    for name, log in whole.items():
        assert_same_history(log.batches, got[name], tolerance=0)


def unstopped() -> Table:
    """A sink that takes all."""
    return Table(EventShape.EDGE, [], 10**6, "")


def kept(path: Path) -> None:
    """Leave the state of a run that has been stopped."""
    sink = Table(EventShape.EDGE, [], 5, "stopped")
    assert not _stopped(query(readings()).run(sink, resume=path), sink)


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        (lambda: readings().tumbling_window(9).aggregate(n=agg.count()), CheckpointError,
         r"has changed since .*kept was begun. Saved: .*. Now:"),
        (lambda: query(readings(advance_time=None)), CheckpointError, "input 'readings'"),
        (lambda: query(readings(name="others")), CheckpointError,
         "Saved: input 'readings'. Now: input 'others'"),
        (lambda: query(readings(frame=FRAME.head(3))), CheckpointError, "has 3 rows, but"),
        (lambda: rxt.from_events([rxt.PointEvent(1, 2)]), CheckpointError, "has changed since"),
    ],
)  # fmt: skip
def test_what_cannot_go_on_is_refused(
    tmp_path: Path, changed: Any, error: type[Exception], says: str
) -> None:
    """Another query, other settings, other rows, a source that gives them once: it is said."""
    kept(tmp_path / "kept")
    with pytest.raises(error, match=f"(?s){says}"):
        changed().run(unstopped(), resume=tmp_path / "kept").wait(SOON)
    # and what is there is as it was
    sink = unstopped()
    query(readings()).run(sink, resume=tmp_path / "kept").wait(SOON)
    assert sink.batches


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    """A flipped bit is noticed wherever it is, and the message says which file."""
    kept(tmp_path)
    file = tmp_path / "run.sqlite"
    whole = file.read_bytes()
    with closing(sqlite3.connect(file)) as database:
        ((state,),) = database.execute("SELECT content FROM facts WHERE name LIKE 'checkpoint %'")
    # a part that is as it was in a state before is also in pages that are free again
    begins = {state[found.start() :][:41] for found in re.finditer(b"RXTS", state)}
    places = [[found.start() for found in re.finditer(re.escape(b), whole)] for b in begins]
    assert sum(map(bool, places)) > 5
    for same in filter(None, places):
        changed = bytearray(whole)
        for place in same:
            changed[place + 40] ^= 4
        file.write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"run.sqlite is damaged.*Hint"):
            query(readings()).run(unstopped(), resume=tmp_path)
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SpoolError, match=r"run.sqlite is damaged.*Hint"):
        query(readings()).run(unstopped(), resume=tmp_path)


class Appender(rxt.Sink):
    """A sink that appends to a list which has rows of before; it breaks at some batch."""

    def __init__(self, rows: list[int], breaks_at: int = -1) -> None:
        self.rows, self._left = rows, breaks_at

    def write(self, batch: rxt.EventBatch) -> None:
        """Append the starts of the rows."""
        self._left -= 1
        if self._left == 0:
            raise OSError("the line is dead")
        self.rows += batch.start.tolist()

    def save(self) -> bytes:
        """Return how many rows there are."""
        return str(len(self.rows)).encode()

    def load(self, state: bytes) -> None:
        """Cut off what was written after the state."""
        del self.rows[int(state) :]


def test_a_sink_knows_where_a_run_without_a_checkpoint_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that breaks before its first checkpoint is as if it had not written a row."""
    save_never(monkeypatch)
    rows = [-2, -1]
    for breaks_at in (9, 3):
        broken = readings().run(Appender(rows, breaks_at), resume=tmp_path / "kept")
        with pytest.raises(OSError, match="the line is dead"):
            broken.wait(SOON)
        assert len(rows) > 2
    readings().run(Appender(rows), resume=tmp_path / "kept").wait(SOON)
    whole = rxt.Collect()
    readings().run(whole).wait(SOON)
    assert rows == [-2, -1, *whole.batch.start.tolist()]


def test_another_sink_is_refused(tmp_path: Path) -> None:
    """What a sink has kept no other kind of sink can take."""
    kept(tmp_path)
    with pytest.raises(CheckpointError, match=r"state of the run's sink.*cannot load one.*Hint"):
        query(readings()).run(Log(EventShape.EDGE), resume=tmp_path)


def test_two_runs_on_one_folder_are_refused(tmp_path: Path) -> None:
    """The second is told who has it, and the first one goes on."""
    sink = Table(EventShape.EDGE, [], 3, "stopped")
    entered, go = threading.Event(), threading.Event()

    def wait(batch: rxt.EventBatch) -> None:
        entered.set()
        go.wait(SOON)

    sink.write = wait  # type: ignore[method-assign]
    first = query(readings()).run(sink, resume=tmp_path)
    entered.wait(SOON)
    with pytest.raises(SpoolError, match="is being written by the process with pid"):
        query(readings()).run(Log(EventShape.EDGE), resume=tmp_path)
    go.set()
    assert first.wait(SOON)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"resume": 3}, "resume= is the path of a folder, got 3"),
        ({"resume": "a", "record": "b"}, "record= and resume= cannot be combined.*Hint"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], says: str) -> None:
    """What is not a folder, and a recording of a run that begins in the middle."""
    with pytest.raises(ArgumentError, match=says):
        readings().run(Log(), **options)


def test_streams_of_one_name_are_refused(tmp_path: Path) -> None:
    """Each stream is kept by its name."""
    with pytest.raises(CheckpointError, match="are called 'readings'"):
        readings().union(readings()).run(Log(), resume=tmp_path)


def test_a_sink_that_stops_its_own_run(tmp_path: Path) -> None:
    """Stopped from inside a write nothing is saved that was under way: it comes again."""
    got: list[rxt.EventBatch] = []
    whole, runs = Log(EventShape.EDGE), list[rxt.Process]()
    query(readings()).run(whole).wait(SOON)
    ready = threading.Event()

    class Stops(Table):
        """Stops its run at a batch."""

        def write(self, batch: rxt.EventBatch) -> None:
            """Keep the batch, and stop."""
            ready.wait(SOON)
            super().write(batch)
            if self.reached.is_set():
                runs[-1].dispose()

    for _ in range(3):
        ready.clear()
        runs.append(query(readings()).run(Stops(EventShape.EDGE, got, 9, "stops"), resume=tmp_path))
        ready.set()
        assert runs[-1].wait(SOON)
    sink = Table(EventShape.EDGE, got, 10**6, "")
    query(readings()).run(sink, resume=tmp_path).wait(SOON)
    assert_same_history(whole.batches, got, tolerance=0)


# operators over one time; the lanes of the join behind them compute them for each device
OVER_ONE_TIME = {
    "select": lambda stream: stream.select("room", n="temp"),
    "where": lambda stream: stream.where(lambda row: row["temp"] >= 0).select("room", n="temp"),
    "window": lambda s: s.group_by("room").tumbling_window(9).aggregate(n=agg.count()),
}


@pytest.mark.parametrize("name", OVER_ONE_TIME)
def test_clocks_that_are_joined_with_an_operator_over_one_time_go_on(
    tmp_path: Path, name: str
) -> None:
    """Its state is that of the lanes."""
    fields = {"room": str, "temp": int}
    rows = FRAME.select(pl.col("t").alias("time"), "room", "temp").to_dicts()[:60]

    def make() -> tuple[rxt.PushSource, rxt.PushSource, rxt.Streamable]:
        clocks = rxt.PushSource("clocks", schema=fields, delay=5, clock="room", behind=50)
        others = rxt.PushSource("others", schema=fields, delay=5)
        return clocks, others, clocks.stream.join(OVER_ONE_TIME[name](others.stream), on="room")

    def push(folder: Path, cuts: int) -> list[Any]:
        for part in range(cuts):
            clocks, others, joined = make()
            process = joined.run(rxt.AppendFile(folder / "rows.jsonl"), resume=folder / "run")
            for row in rows[part * len(rows) // cuts : (part + 1) * len(rows) // cuts]:
                others.push(row)
                clocks.push(row)
            process.stop()
        clocks, others, joined = make()
        process = joined.run(rxt.AppendFile(folder / "rows.jsonl"), resume=folder / "run")
        clocks.close()
        others.close()
        process.wait(SOON)
        return sorted(pl.read_ndjson(folder / "rows.jsonl").rows())

    for each in ("whole", "cut"):
        (tmp_path / each).mkdir()
    whole = push(tmp_path / "whole", 1)
    assert len(whole) > 10
    assert push(tmp_path / "cut", 4) == whole


@pytest.mark.parametrize("name", OVER_ONE_TIME)
def test_clocks_that_are_joined_cannot_be_taken_away(tmp_path: Path, name: str) -> None:
    """The lanes have the state of the join and of the operator before it, and nobody reads it."""

    def make(**clock: Any) -> tuple[rxt.PushSource, rxt.PushSource, rxt.Streamable]:
        fields = {"room": str, "temp": int}
        rows = rxt.PushSource("rows", schema=fields, delay=5, **clock)
        others = rxt.PushSource("others", schema=fields, delay=5)
        return rows, others, rows.stream.join(OVER_ONE_TIME[name](others.stream), on="room")

    rows, others, joined = make(clock="room", behind=50)
    process = joined.run(rxt.Collect(), resume=tmp_path)
    for source in rows, others:
        source.push({"time": 1, "room": "hall", "temp": 20})
    process.stop()
    for evolve in (False, True):
        *_, joined = make()
        with pytest.raises(CheckpointError, match="device had its own time"):
            joined.run(rxt.Collect(), resume=tmp_path, evolve=evolve)
