"""The event log: everything acknowledged is there when the next run begins."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial, reduce
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject
from runs import SOON, Log
from statements import Write, is_entry, watch_file
from time_settings import settings

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventShape, PointEvent
from rxtemporal.core.files import WriterLock
from rxtemporal.errors import (
    ArgumentError,
    BindingError,
    CheckpointError,
    CtiViolationError,
    SchemaError,
    SpoolError,
)
from rxtemporal.storage.event_log import store as stores
from rxtemporal.storage.event_log.database import WAL_SIZE
from rxtemporal.storage.event_log.reader import Recording
from rxtemporal.storage.event_log.store import RunStore
from rxtemporal.storage.event_log.verification import read_wal
from rxtemporal.testing import assert_same_history


@pytest.mark.parametrize("clock", [None, "device"])
@pytest.mark.parametrize(
    "pushed",
    [
        [Cti(14)],
        [[Cti(14)]],
        [rxt.EventBatch.from_dicts([{"start_time": 2, "end_time": 3, "device": "a"}], cti=14)],
    ],
    ids=["one", "list", "batch"],
)
def test_a_replay_subtracts_the_delay_from_ctis_as_the_run_did(
    tmp_path: Path, clock: str | None, pushed: list[Any]
) -> None:
    """So the same rows are late."""
    source = rxt.PushSource("s", schema={"device": str}, start="t", delay=5, clock=clock)
    sink = rxt.Collect()
    with source.stream.run(sink, log=tmp_path / "log"):
        for each in pushed:
            source.push(each)
        for t in (8, 10, 13, 15):
            source.push({"t": t, "device": "a"})
        source.close()
    lived = sink.to_polars(time="ticks")["start_time"].to_list()
    assert lived[-3:] == [10, 13, 15]
    replayed = rxt.replay(tmp_path / "log")["s"].to_polars(time="ticks")
    assert replayed["start_time"].to_list() == lived


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A place for a log."""
    return tmp_path / "log"


class Run:
    """A run of one pushed stream with a log."""

    def __init__(self, folder: Path, *, shape: Any = EventShape.EDGE, **options: Any) -> None:
        self.subject: Subject[Any] = Subject()
        self.sink = Log(shape)
        self.folder = folder
        stream = rxt.from_observable(self.subject, name="live", **options)
        self.process = stream.run(self.sink, log=folder)

    def push(self, *events: Any) -> Run:
        """Push events."""
        for event in events:
            self.subject.on_next(event)
        return self

    def killed(self, there: str) -> Path:
        """Return what a kill would have left, in another folder; the run itself is stopped."""
        copy = self.folder.parent / there
        shutil.copytree(self.folder, copy)
        self.process.dispose()
        return copy

    def ended(self) -> Log:
        """Complete the source and return the sink."""
        self.subject.on_completed()
        self.process.wait(SOON)
        return self.sink


def starts(folder: Path) -> list[int]:
    """The starts of the points that a log has of its first stream."""
    frames = Recording(folder).streams[0].segments()
    return [t for frame in frames for t in frame.filter(pl.col("kind") == "point")["start_time"]]


# What has been acknowledged is there --------------------------------------------------------------


def test_what_on_next_has_returned_for_is_on_disk(folder: Path) -> None:
    """After each push it is in the log, though nothing has come out and nobody has closed it."""
    run = Run(folder, schema={"payload": pl.Int64})
    for time in range(3):
        run.push(PointEvent(time, time))
        left = folder.parent / f"left {time}"
        shutil.copytree(folder, left)
        assert starts(left) == list(range(time + 1))
    run.process.dispose()


def test_a_kind_of_records_that_is_new_is_in_the_header(folder: Path) -> None:
    """It says how records are read again, so it is on disk before the first of its kind."""
    run = Run(folder, schema={"x": pl.Int64})
    rows = [{"start_time": 5, "x": 1}]
    for event in PointEvent(1, {"x": 1}), Cti(2), rxt.EventBatch.from_dicts(rows, cti=6):
        run.push(event)
    left = run.killed("left")
    assert Recording(left).streams[0].facts.kinds == ["point", "cti", "row"]
    assert Run(left, schema={"x": pl.Int64}).ended().batches[-1].cti == rxt.MAX_TIME


def test_nothing_leaves_before_it_is_on_disk(folder: Path) -> None:
    """When the sink is given a row, the log has had the event that it came from."""
    seen: list[list[int]] = []
    # a copy of files that change meanwhile is none that a kill would leave
    lock = threading.Lock()

    class Looking(Log):
        def write(self, batch: rxt.EventBatch) -> None:
            left = folder.parent / f"at {len(seen)}"
            with lock:
                shutil.copytree(folder, left)
            seen.append(starts(left))

    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(
        subject, advance_time=settings(1), hand_off=rxt.HandOff(), schema={"payload": pl.Int64}
    )
    process = stream.run(Looking(EventShape.POINT), log=folder)
    for time in range(5):
        with lock:
            subject.on_next(PointEvent(time, time))
    subject.on_completed()
    process.wait(SOON)
    assert seen[-1] == [0, 1, 2, 3, 4]
    assert all(seen)


def test_behind_a_hand_off_it_is_on_disk_while_the_query_is_busy(folder: Path) -> None:
    """A producer is acknowledged at the door, whatever waits behind it; all of it comes again."""
    go_on = threading.Event()
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(
        subject, advance_time=settings(1, -1), hand_off=rxt.HandOff(), name="live"
    )
    sink = Log(during={"write": lambda: go_on.wait(SOON)})
    process = stream.run(sink, log=folder)
    for time in range(4):
        subject.on_next(PointEvent(time, time))
    left = shutil.copytree(folder, folder.parent / "left")
    go_on.set()
    process.dispose()
    assert starts(left) == [0, 1, 2, 3]


def count_commits(folder: Path) -> int:
    """Return the number of commits in the write-ahead log."""
    wal = read_wal(folder / "run.sqlite-wal")
    return 0 if wal is None else int((wal.sizes[wal.current] > 0).sum())


def test_a_batch_is_one_commit(folder: Path) -> None:
    """However many rows are pushed at once; and so is one event."""
    run = Run(folder, schema={"x": pl.Int64})
    batches = [
        rxt.EventBatch.from_dicts([{"start_time": t, "x": t} for t in range(n, n + 9)], cti=n)
        for n in (0, 10, 20)
    ]
    log = run.process._log
    assert log is not None
    assert log.store._connection.row("PRAGMA synchronous") == (2,)  # FULL: each commit is synced
    # the first one begins the write-ahead log anew
    for number, item in enumerate([*batches, PointEvent(30, {"x": 30}), rxt.Cti(31)]):
        run.push(item)
        assert count_commits(folder) == number + 1
    run.process.dispose()


def test_a_log_of_many_entries_has_room_for_the_next(folder: Path) -> None:
    """No commit makes the WAL longer; what was acknowledged is read from it after a crash."""
    run = Run(folder, schema=SCHEMA)
    for time in range(stores.LASTING_ENTRIES + 1):
        run.push(PointEvent(time, time))
    wal = folder / "run.sqlite-wal"
    size = wal.stat().st_size
    run.push(*(PointEvent(time, time) for time in range(65, 80)))
    assert wal.stat().st_size == size == WAL_SIZE
    left = run.killed("left")
    assert (left / wal.name).stat().st_size == size
    assert starts(left) == [*range(80)]


def test_a_full_disk_has_no_room_for_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The WAL stays as long as it is."""
    run = Run(folder, schema=SCHEMA).push(PointEvent(0, 0))
    wal = folder / "run.sqlite-wal"
    size = wal.stat().st_size
    log = run.process._log
    assert log is not None
    write = os.pwrite
    for written in -1, 5_000:

        def fill(handle: int, content: bytes, place: int, most: int = written) -> int:
            if most < 0:
                raise OSError(errno.ENOSPC, "full")
            return write(handle, content[:most], place)

        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", fill)
            log.store._connection.extend_wal()
        assert wal.stat().st_size == size
    assert run.push(PointEvent(1, 1)).ended().rows == [0, 1]


def test_producers_that_push_at_the_same_time_share_a_commit(folder: Path) -> None:
    """What the others bring while one waits for the disk goes with the next commit, all of it."""
    appended, go_on = list[Write](), threading.Event()

    def wait(write: Write) -> None:
        if is_entry(write):
            appended.append(write)
            if len(appended) == 1:
                go_on.wait(SOON)

    subjects = [Subject[Any]() for _ in range(8)]
    streams = [
        rxt.from_observable(each, name=f"s{n}", schema={"payload": pl.Int64})
        for n, each in enumerate(subjects)
    ]
    with watch_file(before=wait):
        process = reduce(rxt.Streamable.union, streams).run(Log(), log=folder)
    threads = [
        threading.Thread(target=each.on_next, args=(PointEvent(n, n),))
        for n, each in enumerate(subjects)
    ]
    for thread in threads:
        thread.start()
    log = process._log
    assert log is not None
    while log.noted < 8:
        threads[0].join(0.01)
    go_on.set()
    for thread in threads:
        thread.join(SOON)
    assert len(appended) == 2
    left = shutil.copytree(folder, folder.parent / "left")
    process.dispose()
    assert rxt.replay(left).keys() == {f"s{n}" for n in range(8)}
    assert Recording(left).count() == 8


class Asked:
    """Events one by one; what the log has when the next one is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.had: list[list[int]] = []

    def look(self, number: int) -> PointEvent:
        """Note what is on disk, and return the next event."""
        left = shutil.copytree(self.folder, self.folder.parent / f"asked {number}")
        self.had.append(starts(left) if number else [])
        return PointEvent(number, number)

    def events(self) -> Iterator[Any]:
        """The events as an iterator."""
        for number in range(4):
            yield self.look(number)

    async def events_of_a_loop(self) -> AsyncIterator[Any]:
        """The same from an event loop."""
        for number in range(4):
            await asyncio.sleep(0)
            yield self.look(number)


@pytest.mark.parametrize("way", ["iterator", "async", "async that may be silent", "adapter"])
def test_who_is_asked_for_the_next_event_knows_the_one_before_is_safe(
    folder: Path, way: str
) -> None:
    """An iterator, or an async one, is asked for more when what it gave is on disk."""
    asked = Asked(folder)
    if way == "iterator":
        stream = rxt.from_events(asked.events(), name="asked")
    elif way == "adapter":

        class Factory:
            def create(self, config: Any, shape: Any) -> Any:
                return asked.events_of_a_loop()

        app = rxt.Application("adapted")
        stream = app.create_stream("asked", Factory(), None, EventShape.POINT)
    else:
        more = {} if way == "async" else {"idle_after": 10**9, "advance_time": settings(1)}
        stream = rxt.from_async(asked.events_of_a_loop(), name="asked", **more)
    with stream.run(Log(), log=folder):
        pass
    assert asked.had == [[], [0], [0, 1], [0, 1, 2]]


# A run that is begun again -----------------------------------------------------------------------


def test_a_run_goes_on_behind_its_log(folder: Path) -> None:
    """What was there comes first; what comes now is judged by the CTI that was reached."""
    options = {"advance_time": settings(1, 2)}
    left = Run(folder, **options).push(PointEvent(5, 5), PointEvent(9, 9)).killed("left")
    again = Run(left, **options).push(PointEvent(3, 3), PointEvent(8, 8))
    assert again.process.diagnostics().late == {rxt.LateReason.DROPPED: 1}
    assert_same_history(again.ended().batches, [(5, 6, 5), (8, 9, 8), (9, 10, 9)])


def test_a_log_grows_from_run_to_run(folder: Path) -> None:
    """Runs that were stopped leave it whole, one after the other; records are counted over all."""
    for time in range(3):
        Run(folder).push(PointEvent(time, time)).process.dispose()
        assert Recording(folder).complete
        assert Recording(folder).count() == time + 1
    assert Run(folder).ended().rows == [0, 1, 2]


def test_ctis_alone_show_no_fields(folder: Path) -> None:
    """Segments of CTIs, before any row and after one, come again with those that have fields."""
    for events in [Cti(1)], [PointEvent(2, {"x": None})], [Cti(4)], [PointEvent(5, {"x": 1.5})]:
        Run(folder).push(*events).process.dispose()
    assert_same_history(Run(folder).ended().batches, [(2, 3, {"x": None}), (5, 6, {"x": 1.5})])


def test_a_batch_of_which_a_part_is_accepted_is_not_acknowledged(folder: Path) -> None:
    """A hand-off takes a large batch in parts; where the run ends in between it is told."""
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(
        subject, hand_off=rxt.HandOff(2), schema={"x": pl.Int64}, name="live"
    )
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        go_on.wait(SOON)

    process = stream.run(Log(EventShape.POINT, during={"write": hold}), log=folder)
    rows = [{"start_time": t, "x": t} for t in range(9)]
    batch = rxt.EventBatch.from_dicts(rows, cti=20)
    raised: list[Exception] = []

    def push() -> None:
        try:
            subject.on_next(rxt.EventBatch.from_dicts(rows[:1], cti=0))
            subject.on_next(batch)
        except Exception as error:
            raised.append(error)

    producer = threading.Thread(target=push)
    producer.start()
    held.wait(SOON)
    while process.diagnostics().streams[0].hand_off.times_blocked < 1:
        producer.join(0.01)
    stopping = threading.Thread(target=process.dispose)
    stopping.start()
    producer.join(SOON)
    go_on.set()
    stopping.join(SOON)
    assert "has not accepted" in str(raised)


def test_a_stream_that_had_completed_is_not_read_again(folder: Path) -> None:
    """The run goes to its end with what is in the log; a push into the live source is refused."""
    assert Run(folder).push(PointEvent(1, 1)).ended().rows == [1]
    again = Run(folder)
    assert again.process.wait(SOON)
    with pytest.raises(rxt.ProcessEndedError, match="live"):
        again.push(PointEvent(2, 2))
    assert again.sink.rows == [1]


def test_a_source_that_failed_may_be_there_again(folder: Path) -> None:
    """An error of the source ends its run; the next one goes on with the source."""
    run = Run(folder).push(PointEvent(1, 1))
    run.subject.on_error(OSError("the line is dead"))
    with pytest.raises(OSError, match="the line is dead"):
        run.process.wait(SOON)
    assert Run(folder).push(PointEvent(2, 2)).ended().rows == [1, 2]


def test_what_is_refused_is_not_in_the_log(folder: Path) -> None:
    """A broken promise ends its run and not the next one; its producer is told, too."""
    run = Run(folder).push(Cti(5))
    with pytest.raises(BindingError, match=r"'live' has not accepted this event.*Hint"):
        run.push(PointEvent(3, 3))
    with pytest.raises(CtiViolationError, match="breaks CTI"):
        run.process.wait(SOON)
    assert Run(folder).push(PointEvent(7, 7)).ended().rows == [7]


@pytest.mark.parametrize("hand_off", [None, rxt.HandOff()])
def test_a_payload_that_does_not_fit_is_not_in_the_log(folder: Path, hand_off: Any) -> None:
    """Its producer is told what is wrong with it, before any CTI has come; the next run goes on."""
    run = Run(folder, hand_off=hand_off).push(PointEvent(1, 1))
    with pytest.raises(SchemaError, match=r"stream 'live': field 'payload' is Int64"):
        run.push(PointEvent(2, "two"))
    with pytest.raises(SchemaError, match="field 'payload' is Int64"):
        run.process.wait(SOON)
    assert Run(folder).push(PointEvent(3, 3)).ended().rows == [1, 3]


@dataclasses.dataclass
class Reading:
    """A payload with a field that is stored narrower."""

    temp: float


@pytest.mark.parametrize("schema", [None, {"temp": pl.Float32}])
def test_a_row_that_was_open_is_closed_by_its_payload(folder: Path, schema: Any) -> None:
    """A dataclass, before the crash and after it, names its row as it does without a crash."""
    left = Run(folder, schema=schema).push(EdgeEvent.create_start(1, Reading(0.1))).killed("left")
    again = Run(left, schema=schema, shape=EventShape.INTERVAL)
    again.push(EdgeEvent.create_end(1, 7, Reading(0.1)))
    (batch,) = [batch for batch in again.ended().batches if len(batch)]
    assert (batch.start.tolist(), batch.end.tolist()) == ([1], [7])


def test_time_from_outside_comes_again(folder: Path) -> None:
    """What an idle stream followed to is in the log, and makes late what it had made late."""

    def both(folder: Path) -> tuple[rxt.Process, Subject[Any], Subject[Any]]:
        quiet, busy = Subject[Any](), Subject[Any]()
        app = rxt.Application("both")
        for name, subject in ("quiet", quiet), ("busy", busy):
            app.define_stream(name, rxt.from_observable(subject, advance_time=settings(1)))
        app.query("q", app.stream("quiet").union(app.stream("busy")))
        return app.run("q", Log(), log=folder), quiet, busy

    process, quiet, busy = both(folder)
    quiet.on_next(PointEvent(1, 1))
    process.declare_idle("quiet")
    busy.on_next(PointEvent(9, 9))
    left = shutil.copytree(folder, folder.parent / "left")
    process.dispose()
    process, quiet, _ = both(left)
    quiet.on_next(PointEvent(4, 4))
    assert process.diagnostics().late == {rxt.LateReason.DROPPED: 1}
    process.dispose()


def test_a_recording_beside_a_log_has_both(folder: Path) -> None:
    """``record=`` and ``log=`` in one run: the recording has what came out of the log, too."""
    Run(folder).push(PointEvent(1, 1)).process.dispose()
    subject: Subject[Any] = Subject()
    recorded = folder.parent / "recorded"
    stream = rxt.from_observable(subject, name="live")
    process = stream.run(Log(), log=folder, record=recorded)
    subject.on_next(PointEvent(2, 2))
    process.dispose()
    assert starts(recorded) == starts(folder) == [1, 2]


def test_a_list_that_is_shorter_than_its_log_has_changed(folder: Path) -> None:
    """Lists and frames begin anew, and what the log has of them is left out: they must have it."""

    class Full(Log):
        def write(self, batch: rxt.EventBatch) -> None:
            raise OSError("the disk is full")

    events = [PointEvent(t, t) for t in range(2_000)]
    frame = pl.DataFrame({"time": range(2_000), "x": range(2_000)})

    def of(events: Any, frame: pl.DataFrame, sink: Log, at: str) -> rxt.Process:
        made = {
            "list": rxt.from_events(events, advance_time=settings(1), name="given"),
            "frame": rxt.from_polars(frame, start="time", advance_time=settings(1), name="given"),
        }
        return made[at].run(sink, log=folder / at)

    for at in "list", "frame":
        with pytest.raises(OSError, match="is full"):
            of(events, frame, Full(), at).wait(SOON)
        with pytest.raises(CheckpointError, match=r"given.* has 2 .*, but .* read 2,000.*Hint"):
            of(events[:2], frame.head(2), Log(), at).wait(SOON)
        sink = Log()
        of(events, frame, sink, at).wait(SOON)
        assert sum(map(len, sink.batches)) == 2_000


# What is refused ---------------------------------------------------------------------------------


def another(name: str = "live", **options: Any) -> Callable[[], rxt.Streamable]:
    """How to make a stream."""
    return lambda: rxt.from_observable(Subject[Any](), name=name, **options)


FRAME = pl.DataFrame({"time": [1], "payload": [1]})


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (another("alive"), r"is of 'live', but this run reads 'alive'\. Hint: a log can"),
        (
            lambda: another()().union(another()()),
            r"is of 'live', but this run reads 'live', 'live'",
        ),
        (another(advance_time=settings(2)), r"stream 'live' of .* has settings: \{.*'events': 1"),
        (another(), r"stream 'live' of .* has settings: .*in this run None"),
        (
            another(advance_time=settings(1), schema={"payload": float}),
            r"has the fields \{'payload': Int64\}, but in this run \{'payload': Float64\}",
        ),
        (
            lambda: rxt.from_polars(FRAME, start="time", advance_time=settings(1), name="live"),
            r"has rows in frames: False, but in this run True",
        ),
    ],
)
def test_a_log_of_something_else_is_refused(
    folder: Path, stream: Callable[[], rxt.Streamable], says: str
) -> None:
    """Other streams, settings, fields, another way in: no sink is opened, the log stays."""
    Run(folder, advance_time=settings(1)).push(PointEvent(1, 1)).process.dispose()
    sink = Log()
    with pytest.raises(CheckpointError, match=says) as refused:
        stream().run(sink, log=folder)
    assert "Hint" in str(refused.value)
    assert sink.told == []
    assert Recording(folder).complete
    assert starts(folder) == [1]
    assert Run(folder, advance_time=settings(1)).ended().rows == [1]


def test_a_log_has_a_folder_of_its_own(folder: Path) -> None:
    """A value, a file, another folder and one in use are refused; the sink stays closed."""
    sink = Log()
    with pytest.raises(ArgumentError, match="log= is the path of a folder, got 7"):
        another()().run(sink, log=7)  # type: ignore[arg-type]
    folder.mkdir()
    (folder / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(SpoolError, match=r"has other files, notes\.txt.*its own folder"):
        another()().run(sink, log=folder)
    with pytest.raises(SpoolError, match=r"cannot open the event log .*Hint"):
        another()().run(sink, log=folder / "notes.txt")
    process = another()().run(Log(), record=folder / "recording")
    process.dispose()
    with pytest.raises(SpoolError, match=r"is a recording, to which no run can append\. Hint"):
        another()().run(sink, log=folder / "recording")
    with pytest.raises(BindingError, match=r"'live' is a recording.* needs no event log\. Hint"):
        rxt.replay(folder / "recording")["live"].run(sink, log=folder / "log")
    with pytest.raises(ArgumentError, match=r"log= and resume= cannot be combined.*Hint"):
        another()().run(sink, log=folder / "log", resume=folder / "kept")
    run = Run(folder / "used")
    with pytest.raises(SpoolError, match="is being written by the process with pid"):
        another()().run(sink, log=folder / "used")
    run.process.dispose()
    assert sink.told == []


def test_a_replay_that_ends_early_keeps_no_file_open(folder: Path) -> None:
    """Not even while somebody still has the process that was stopped by an error."""

    def refuse(batch: Any) -> None:
        raise OSError("the disk is full")

    Run(folder, schema=SCHEMA).push(*(PointEvent(t, t) for t in range(4)), Cti(9)).process.dispose()
    process = rxt.replay(folder)["live"].run(refuse)
    with pytest.raises(OSError, match="is full"):
        process.wait(SOON)
    links = [place / each for place in [Path("/proc/self/fd")] for each in os.listdir(place)]
    targets = [os.readlink(each) for each in links if each.is_symlink()]
    assert not [each for each in targets if each.startswith(str(folder))]


# What a crash leaves, and what a disk does -------------------------------------------------------


SCHEMA = {"payload": pl.Int64}
DB, WAL, RECORDS = "run.sqlite", "run.sqlite-wal", "run.sqlite-records"


def killed(folder: Path) -> Path:
    """A log of four events as a kill leaves it: they are in the WAL."""
    return Run(folder, schema=SCHEMA).push(*(PointEvent(t, t) for t in range(4))).killed("left")


def closed(folder: Path) -> Path:
    """A log of four events that was closed: they are in the file itself."""
    Run(folder, schema=SCHEMA).push(*(PointEvent(t, t) for t in range(4))).process.dispose()
    assert not (folder / WAL).exists()
    return folder


def taken(place: Path) -> list[int] | None:
    """What a run takes from a log; None where it is refused, and then the sink is never opened."""
    sink = Log()
    try:
        process = another(schema=SCHEMA)().run(sink, log=place)
    except SpoolError:
        assert sink.told == []
        return None
    process.dispose()
    return starts(place)


@pytest.mark.parametrize("left", [killed, closed])
@pytest.mark.parametrize("name", [DB, WAL])
def test_a_bit_that_has_flipped_is_no_shorter_history(
    folder: Path, left: Callable[[Path], Path], name: str
) -> None:
    """Wherever it is, the run is refused or nothing is lost."""
    whole = left(folder)
    if not (whole / name).exists():
        return
    content = (whole / name).read_bytes()
    refused = 0
    for place in range(0, len(content), 211):
        flipped = shutil.copytree(whole, folder.parent / "flipped")
        changed = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
        (flipped / name).write_bytes(changed)
        there = taken(flipped)
        refused += there is None
        assert there in (None, [0, 1, 2, 3]), place
        if there is None:
            assert taken(flipped) is None  # and not only the first time
        shutil.rmtree(flipped)
    assert refused > 5 or (name == DB and left is killed)


@pytest.mark.parametrize("left", [killed, closed])
def test_a_file_that_was_cut_off_is_refused(folder: Path, left: Callable[[Path], Path]) -> None:
    """Where the WAL has not all of what is missing; an empty file is not a new one."""
    whole = left(folder)
    content = (whole / DB).read_bytes()
    for size in 0, 100, 4_096, 5_000, len(content) - 4_096, len(content) - 1:
        cut = shutil.copytree(whole, folder.parent / "cut")
        (cut / DB).write_bytes(content[:size])
        there = taken(cut)
        # the last pages of a closed file are not in use
        assert there in ((None,) if size < 6_000 and left is closed else (None, [0, 1, 2, 3]))
        assert size or there is None
        shutil.rmtree(cut)


def test_a_wal_whose_end_was_cut_off_is_refused(folder: Path) -> None:
    """However much is missing: fewer records are there than were acknowledged."""
    left = killed(folder)
    content = (left / WAL).read_bytes()
    for short in 1, 300, 4_120, 5_000, 9_000, 16_000:
        torn = shutil.copytree(left, folder.parent / f"torn {short}")
        (torn / WAL).write_bytes(content[:-short])
        for _ in range(2):
            with pytest.raises(SpoolError, match=r"of 4 records that were acknowledged it has \d"):
                another(schema=SCHEMA)().run(Log(), log=torn)


@pytest.mark.parametrize("made", [bytes, os.urandom])
def test_a_wal_whose_end_was_overwritten_is_refused(
    folder: Path, made: Callable[[int], bytes]
) -> None:
    """A page of zeros, or of anything, in its last transactions is not a torn end."""
    left = killed(folder)
    content = (left / WAL).read_bytes()
    for end in range(4_096, 5 * 4_096, 1_024):
        spoilt = shutil.copytree(left, folder.parent / f"spoilt {end}")
        place = len(content) - end
        changed = content[:place] + made(4_096) + content[place + 4_096 :]
        (spoilt / WAL).write_bytes(changed)
        assert taken(spoilt) is None


def test_the_unfinished_end_of_a_wal_is_left_out(folder: Path) -> None:
    """Nobody was told of it; what stood before it is there, and what comes stands behind.

    After a crash of the machine the number of records, which is not synced, may be missing.
    """
    left = killed(folder)
    (left / RECORDS).unlink()
    content = (left / WAL).read_bytes()
    for short in 1, 300, 4_120, 5_000, 9_000:
        torn = shutil.copytree(left, folder.parent / f"torn {short}")
        (torn / WAL).write_bytes(content[:-short])
        there = starts(torn)
        assert there == list(range(len(there)))
        assert len(there) < 4
        Run(torn, schema=SCHEMA).push(PointEvent(9, 9)).process.dispose()
        assert starts(torn) == [*there, 9]


@pytest.mark.parametrize("content", [b"", b"\0" * 44, b"torn"])
def test_a_torn_number_of_records_says_nothing(folder: Path, content: bytes) -> None:
    """It is only ever a second witness."""
    left = killed(folder)
    (left / RECORDS).write_bytes(content)
    assert taken(left) == [0, 1, 2, 3]


def test_a_file_of_another_run_is_refused(folder: Path) -> None:
    """As is none at all, where there was one: an older folder's, or another stream's."""
    left = closed(folder)
    Run(folder.parent / "other", schema=SCHEMA).push(PointEvent(5, 5)).process.dispose()
    whole = (left / DB).read_bytes()
    shutil.copyfile(folder.parent / "other" / DB, left / DB)
    with pytest.raises(SpoolError, match=r"it belongs to another run.*Hint"):
        another(schema=SCHEMA)().run(Log(), log=left)
    (left / DB).unlink()
    with pytest.raises(SpoolError, match=r"it is missing, but it had 4 records.*Hint"):
        another(schema=SCHEMA)().run(Log(), log=left)
    (left / DB).write_bytes(whole)
    assert taken(left) == [0, 1, 2, 3]


def test_a_wal_is_kept_without_room_and_without_links(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, too, a file is left as after a crash; a crash in between does no harm."""
    left = killed(folder)

    def refuse(*paths: Any, **more: Any) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refuse)
        patched.setattr(shutil, "copyfile", refuse)
        store = RunStore(left, "live")
        store.open()
        store.release()
    assert starts(shutil.copytree(left, folder.parent / "copy")) == [0, 1, 2, 3]
    (left / WAL).rename(left / f".{WAL}.part")
    assert starts(left) == [0, 1, 2, 3]


def test_a_file_that_cannot_be_left_is_no_longer_locked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails while it is released, or repaired: the next one in this process may try."""
    left = killed(folder)

    def refuse(*paths: Any) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    store = RunStore(left, "live")
    store.open()
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        with pytest.raises(OSError, match="is broken"):
            store.release()
    WriterLock(left / "lock").release()
    assert (left / WAL).exists()
    left = killed(folder / "second" / "log")
    with watch_file(before=refuse), pytest.raises(SpoolError, match="is broken"):
        Recording(left)
    assert starts(left) == [0, 1, 2, 3]


def test_a_file_without_its_wal_is_refused(folder: Path) -> None:
    """The newest records are in the WAL: without it, or with an empty one, they are missing."""
    left = killed(folder)
    wal = (left / WAL).read_bytes()
    (left / WAL).unlink()
    for _ in range(2):
        with pytest.raises(SpoolError, match=r"damaged: run.sqlite-wal beside it is missing.*Hint"):
            another(schema=SCHEMA)().run(Log(), log=left)
        with pytest.raises(SpoolError, match=r"damaged: run.sqlite-wal beside it is missing.*Hint"):
            rxt.replay(left)
    (left / WAL).write_bytes(b"")
    assert taken(left) is None
    (left / WAL).write_bytes(wal)
    file = (left / DB).read_bytes()
    (left / DB).unlink()
    with pytest.raises(SpoolError, match=r"is damaged: it is missing, but its WAL exists"):
        another(schema=SCHEMA)().run(Log(), log=left)
    (left / DB).write_bytes(file)
    assert starts(left) == [0, 1, 2, 3]


@pytest.mark.parametrize("after", range(12))
def test_what_is_done_at_the_beginning_is_done_wholly_or_not_at_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Cut off anywhere while a file is made, and entries are merged, nothing is lost or twice."""
    count = [0]

    def cut(statement: str) -> None:
        count[0] += 1
        if count[0] > after:
            raise sqlite3.OperationalError("cut off")

    class Cut(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> Any:
            if not sql.startswith(("PRAGMA", "SELECT", "ROLLBACK")):
                cut(sql)
            return super().execute(sql, *values)

        def executemany(self, sql: str, *values: Any) -> Any:
            cut(sql)
            return super().executemany(sql, *values)

    connect = sqlite3.connect
    for place in folder, killed(folder.parent / "log 2"):
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", partial(connect, factory=Cut))
            with contextlib.suppress(SpoolError):
                another(schema=SCHEMA)().run(Log(), log=place).dispose()
        there = [] if place == folder else [0, 1, 2, 3]
        run = Run(place, schema=SCHEMA).push(PointEvent(4, 4))
        assert run.ended().rows == [*there, 4]
        count[0] = 0


def test_whatever_statement_a_crash_comes_after_nothing_acknowledged_is_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a file is made, written, merged and closed: what is on disk then can be taken up."""
    monkeypatch.setattr(stores, "MOST_ENTRIES", 4)
    left: list[tuple[Path, int]] = []
    acknowledged = [0]

    def leave(statement: str) -> None:
        there = folder.parent / f"left {len(left)}"
        left.append((shutil.copytree(folder, there), acknowledged[0]))

    class Noting(sqlite3.Connection):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self.set_trace_callback(leave)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Noting))
        run = Run(folder, schema=SCHEMA)
        for time in range(24):
            run.push(PointEvent(time, time))
            acknowledged[0] = time + 1
        run.process.dispose()
    assert len(left) > 60
    for place, count in left[:: max(1, len(left) // 60)]:
        there = taken(place)
        assert there is not None
        assert there in ([*range(count)], [*range(count + 1)])


def test_a_full_disk_is_told_to_the_producer(folder: Path) -> None:
    """The push raises, the run ends, its sink is told; what was acknowledged before is there."""
    run = Run(folder, schema={"payload": pl.String}).push(PointEvent(1, "one"))
    log = run.process._log
    assert log is not None
    (pages,) = log.store._connection.row("PRAGMA page_count")
    log.store._connection.row(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(SpoolError, match=r"No space left on device.*Hint: free some space"):
        run.push(PointEvent(2, "two" * 9_999))
    with pytest.raises(SpoolError, match="No space left"):
        run.process.wait(SOON)
    assert isinstance(run.sink.ended_by, SpoolError)
    again = Run(folder, schema={"payload": pl.String})
    assert again.push(PointEvent(3, "three")).ended().rows == ["one", "three"]


@pytest.mark.parametrize(("bound", "most"), [("MOST_BYTES", 300), ("MOST_ENTRIES", 5)])
def test_small_entries_are_merged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """While they are written and when a run begins; each event comes again once, in its order."""
    monkeypatch.setattr(stores, bound, most)
    run = Run(folder, schema=SCHEMA).push(*(PointEvent(t, t) for t in range(20)))
    log = run.process._log
    assert log is not None
    assert log.store._connection.row("SELECT count(*) < 25 FROM parts") == (1,)
    left = run.killed("left")
    assert starts(left) == [*range(20)]
    assert Run(left, schema=SCHEMA).push(PointEvent(20, 20)).ended().rows == [*range(21)]


def test_large_entries_are_left_and_compressed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of thousands of rows are not written a second time, and each row comes again once."""
    monkeypatch.setattr(stores, "MOST_BYTES", 20_000)
    monkeypatch.setattr(stores, "LARGE_ENTRY", 2_000)
    source = rxt.PushSource("rows", schema={"x": int})
    process = source.stream.run(Log(), log=folder)
    for begin in range(0, 40_000, 4_000):
        source.push([{"time": begin + n, "x": 7} for n in range(4_000)])
    log = process._log
    assert log is not None
    assert log.store._connection.row("SELECT count(*) FROM parts") == (20,)
    (content,) = log.store._connection.row("SELECT max(length(content)) FROM parts")
    assert content < 4_000 * 10
    process.dispose()
    again = rxt.PushSource("rows", schema={"x": int})
    process = again.stream.run(Log(), log=folder)
    assert process.diagnostics().events_in == 40_000
    process.dispose()


def test_a_merged_entry_takes_no_more_room_than_those_that_it_replaces(folder: Path) -> None:
    """Entries of thousands of rows are compressed, and so is one of many of them."""
    sizes = []
    for begins in (range(0, 40_000, 2_000), ()):
        source = rxt.PushSource("rows", schema={"x": int})
        process = source.stream.run(Log(), log=folder)
        for begin in begins:
            source.push([{"time": begin + n, "x": 7} for n in range(2_000)])
        log = process._log
        assert log is not None
        found = log.store._connection.row("SELECT count(*), sum(length(content)) FROM parts")
        sizes.append(found)
        process.dispose()
    (many, before), (few, after) = sizes
    assert (many, few) == (40, 2)
    assert after < before


def test_a_folder_of_an_earlier_version_is_refused(folder: Path) -> None:
    """One with a journal and segments: it is said what to do, and nothing of it is changed."""
    folder.mkdir()
    header = {"format": 1, "id": "x", "name": "query", "complete": True, "log": True, "streams": []}
    (folder / "recording.json").write_text(json.dumps(header), "utf-8")
    (folder / "journal").write_bytes(b"")
    for begin in lambda: another()().run(Log(), log=folder), lambda: rxt.replay(folder):
        with pytest.raises(SpoolError, match=r"written by an earlier version.*Hint"):
            begin()
    assert sorted(os.listdir(folder)) == ["journal", "recording.json"]
    kept = folder / "kept"
    (kept / "log").mkdir(parents=True)
    (kept / "state").write_bytes(b"RXTK")
    with pytest.raises(CheckpointError, match=r"written by an earlier version.*Hint"):
        another()().run(Log(), resume=kept)


def test_log_and_resume_have_folders_of_their_own(folder: Path) -> None:
    """A checkpoint would delete what a log keeps."""
    Run(folder).push(PointEvent(1, 1)).process.dispose()
    with pytest.raises(CheckpointError, match=r"run with log=, but this one has resume=.*Hint"):
        another()().run(Log(), resume=folder)
    another()().run(Log(), resume=folder / "kept").dispose()
    with pytest.raises(CheckpointError, match=r"run with resume=, but this one has log=.*Hint"):
        another()().run(Log(), log=folder / "kept")
    with pytest.raises(SpoolError, match=r"is of a run with resume=.*Hint: run\(…, log=folder\)"):
        rxt.replay(folder / "kept")
    assert starts(folder) == [1]


FORKED = """
import os, sys
import rxtemporal as rxt
from reactivex.subject import Subject

subject = Subject()
process = rxt.from_observable(subject, name="live").run(lambda batch: None, log=sys.argv[1])
subject.on_next(rxt.PointEvent(0, 0))
child = os.fork()
if not child:
    process.dispose()
    del process, subject
    sys.exit()
os.waitpid(child, 0)
subject.on_next(rxt.PointEvent(1, 1))
os.kill(os.getpid(), 9)
"""


def test_a_forked_process_leaves_the_log_to_its_parent(folder: Path) -> None:
    """Whatever it does at its end, the WAL stays, and what its parent logs then is there."""
    subprocess.run([sys.executable, "-P", "-c", FORKED, str(folder)], timeout=SOON, check=False)
    assert starts(folder) == [0, 1]


CHILD = """
import os, sys
import rxtemporal as rxt
from reactivex.subject import Subject

folder, way = sys.argv[1:]
subject, seen = Subject(), []
process = rxt.from_observable(
    subject, name="live", schema={"payload": int}, hand_off=rxt.HandOff()
).run(lambda batch: None, **{way: folder})
subject.on_next(rxt.PointEvent(0, 0))
child = os.fork()
if not child:
    try:
        subject.on_next(rxt.PointEvent(7, 7))
    except rxt.RxTemporalError as error:
        print("forked" in f"{error} {error.__cause__}", flush=True)
    os._exit(0)
os.waitpid(child, 0)
subject.on_next(rxt.PointEvent(1, 1))
process.dispose()
"""


PUSHED_CHILD = """
import asyncio, os, sys
import rxtemporal as rxt

source = rxt.PushSource("readings", schema={"x": int}, start="time")
process = source.stream.run(rxt.Collect(), **{sys.argv[2]: sys.argv[1]})
asyncio.run(source.push_async({"time": 0, "x": 0}))
child = os.fork()
if not child:
    for push in source.push, lambda row: asyncio.run(source.push_async(row)):
        try:
            push({"time": 7, "x": 7})
        except rxt.ProcessEndedError as error:
            print("forked" in str(error), flush=True)
    os._exit(0)
os.waitpid(child, 0)
source.push({"time": 1, "x": 1})
process.stop()
"""


@pytest.mark.parametrize("way", ["log", "record"])
def test_a_forked_process_cannot_push_into_its_parents_source(folder: Path, way: str) -> None:
    """Not from an event loop either, where no thread would ever answer."""
    command = [sys.executable, "-P", "-c", PUSHED_CHILD, str(folder), way]
    ran = subprocess.run(command, timeout=SOON, check=True, stdout=subprocess.PIPE, text=True)
    assert ran.stdout == "True\nTrue\n"
    assert starts(folder) == [0, 1]


@pytest.mark.parametrize("way", ["log", "resume"])
def test_a_forked_process_cannot_write_into_its_parents_log(folder: Path, way: str) -> None:
    """Its push is refused and told why; what its parent pushes then is there, and nothing else."""
    command = [sys.executable, "-P", "-c", CHILD, str(folder), way]
    ran = subprocess.run(command, timeout=SOON, check=True, stdout=subprocess.PIPE, text=True)
    assert ran.stdout == "True\n"
    store = RunStore(folder, "live")
    store.open()
    assert store.records == (2 if way == "log" else store.records)
    store.close(complete=True)
    if way == "log":
        assert starts(folder) == [0, 1]


KILLED = """
import sys
import rxtemporal as rxt
from rxtemporal.storage.event_log import store as stores
from reactivex.subject import Subject

def write(batch):
    with open(sys.argv[2], "a") as file:
        for row in batch.to_dicts(time="ticks"):
            print(row["start_time"], row["n"], file=file)

stores.MOST_BYTES = 20_000
subject = Subject()
behind = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(1, 3), policy=rxt.AdvanceTimePolicy.DROP
)
stream = rxt.from_observable(subject, name="live", advance_time=behind)
counted = stream.tumbling_window(10).aggregate(n=rxt.agg.count())
process = counted.run(write, log=sys.argv[1])
print("begun", flush=True)
for line in sys.stdin:
    subject.on_next(rxt.PointEvent(int(line), int(line)))
    print(line, end="", flush=True)
subject.on_completed()
process.wait()
"""


def test_a_killed_process_loses_nothing_that_it_has_acknowledged(tmp_path: Path) -> None:
    """Killed twice, and begun again, its windows count each event just once.

    One event is under way when it is killed, which nobody has heard of: the log has it, or it is
    pushed again.
    """
    log, sent, kills = tmp_path / "log", 0, [37, 61]
    for until in [*kills, 90]:
        out = tmp_path / f"rows {until}"
        with subprocess.Popen(
            [sys.executable, "-P", "-c", KILLED, str(log), str(out)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as running:  # fmt: skip
            assert running.stdin is not None
            assert running.stdout is not None
            assert running.stdout.readline() == "begun\n"
            for number in range(sent, until):
                print(number, file=running.stdin, flush=True)
                assert running.stdout.readline() == f"{number}\n"
            if until in kills:
                print(until, file=running.stdin, flush=True)
                running.kill()
            running.stdin.close()
        if until in kills:
            sent = len(starts(log))
            assert sent in (until, until + 1)
    assert out.read_text("utf-8") == "".join(f"{start} 10\n" for start in range(0, 90, 10))
