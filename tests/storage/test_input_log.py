"""An input log: what has been acknowledged is there when the run is begun again."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject
from runs import SOON, Log
from time_settings import settings

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventShape, PointEvent
from rxtemporal.errors import (
    ArgumentError,
    BindingError,
    CheckpointError,
    CtiViolationError,
    SchemaError,
    SpoolError,
)
from rxtemporal.storage.event_log import LogStore, Recording, logstore, settled
from rxtemporal.testing import assert_same_history


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
    settled(folder)
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

    class Looking(Log):
        def write(self, batch: rxt.EventBatch) -> None:
            left = folder.parent / f"at {len(seen)}"
            shutil.copytree(folder, left)
            seen.append(starts(left))

    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(
        subject, advance_time=settings(1), hand_off=rxt.HandOff(), schema={"payload": pl.Int64}
    )
    process = stream.run(Looking(EventShape.POINT), log=folder)
    for time in range(5):
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


def test_a_batch_is_one_sync(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rows are pushed at once; and so is one event."""
    run = Run(folder, schema={"x": pl.Int64})
    batches = [
        rxt.EventBatch.from_dicts([{"start_time": t, "x": t} for t in range(n, n + 9)], cti=n)
        for n in (0, 10, 20)
    ]
    run.push(batches[0])  # the header is told of a kind of records that is new
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    run.push(batches[1])
    assert len(synced) == 1
    run.push(batches[2])
    assert len(synced) == 2
    run.process.dispose()


def test_producers_that_push_at_the_same_time_share_a_sync(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the others bring while one waits for the disk goes with the next sync, all of it."""
    subjects = [Subject[Any]() for _ in range(8)]
    streams = [
        rxt.from_observable(each, name=f"s{n}", schema={"payload": pl.Int64})
        for n, each in enumerate(subjects)
    ]
    process = reduce(rxt.Streamable.union, streams).run(Log(), log=folder)
    append, appended, go_on = LogStore.append, [], threading.Event()

    def slow(store: LogStore, *arguments: Any) -> None:
        appended.append(arguments)
        if len(appended) == 1:
            go_on.wait(SOON)
        append(store, *arguments)

    monkeypatch.setattr(LogStore, "append", slow)
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
    left = shutil.copytree(folder, folder.parent / "left")
    process.dispose()
    assert len(appended) == 2
    assert Recording(left).count() == 0  # all of it is in the journal yet
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
    """The run goes to its end with what is in the log; nobody subscribes to the live source."""
    assert Run(folder).push(PointEvent(1, 1)).ended().rows == [1]
    again = Run(folder)
    assert again.process.wait(SOON)
    assert not again.subject.observers
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
    with pytest.raises(BindingError, match=r"'live' has not accepted what was pushed.*Hint"):
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
        with pytest.raises(CheckpointError, match=r"given.* has 2 .*, and 2,000 of .*Hint"):
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
        (another("alive"), r"is of 'live', and this run reads 'alive'\. Hint: the same query"),
        (
            lambda: another()().union(another()()),
            r"is of 'live', and this run reads 'live', 'live'",
        ),
        (another(advance_time=settings(2)), r"stream 'live' of .* has settings: \{.*'events': 1"),
        (another(), r"stream 'live' of .* has settings: .*in this run None"),
        (
            another(advance_time=settings(1), schema={"payload": float}),
            r"has the fields \{'payload': Int64\}, and in this run \{'payload': Float64\}",
        ),
        (
            lambda: rxt.from_polars(FRAME, start="time", advance_time=settings(1), name="live"),
            r"has rows in frames: False, and in this run True",
        ),
    ],
)
def test_a_log_of_something_else_is_refused(
    folder: Path, stream: Callable[[], rxt.Streamable], says: str
) -> None:
    """Other streams, settings, fields, another way in: no sink is opened, the log is as it was."""
    Run(folder, advance_time=settings(1)).push(PointEvent(1, 1)).process.dispose()
    before = {each: each.read_bytes() for each in folder.rglob("*.arrow")}
    sink = Log()
    with pytest.raises(SpoolError, match=says) as refused:
        stream().run(sink, log=folder)
    assert "Hint" in str(refused.value)
    assert sink.told == []
    assert {each: each.read_bytes() for each in folder.rglob("*.arrow")} == before
    assert Run(folder, advance_time=settings(1)).ended().rows == [1]


def test_a_log_has_a_folder_of_its_own(folder: Path) -> None:
    """What is no path, no folder, no log, and what is in use, is refused; the sink stays closed."""
    sink = Log()
    with pytest.raises(ArgumentError, match="log= is the path of a folder, got 7"):
        another()().run(sink, log=7)  # type: ignore[arg-type]
    folder.mkdir()
    (folder / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(SpoolError, match=r"holds something already, notes\.txt.*folder of its own"):
        another()().run(sink, log=folder)
    with pytest.raises(SpoolError, match=r"cannot open the input log .*Hint"):
        another()().run(sink, log=folder / "notes.txt")
    process = another()().run(Log(), record=folder / "recording")
    process.dispose()
    with pytest.raises(SpoolError, match=r"is a recording, and no run adds to one\. Hint"):
        another()().run(sink, log=folder / "recording")
    with pytest.raises(BindingError, match=r"'live' is recorded.* needs no input log\. Hint"):
        rxt.replay(folder / "recording")["live"].run(sink, log=folder / "log")
    with pytest.raises(ArgumentError, match=r"log= and resume= do not go together.*Hint"):
        another()().run(sink, log=folder / "log", resume=folder / "kept")
    run = Run(folder / "used")
    with pytest.raises(SpoolError, match="is being written by the process with pid"):
        another()().run(sink, log=folder / "used")
    run.process.dispose()
    assert sink.told == []


# What a crash leaves, and what a disk does -------------------------------------------------------


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> Path:
    """A log of four events as a kill leaves it; of ``most`` bytes a journal becomes segments."""
    monkeypatch.setattr(logstore, "MOST_BYTES", most)
    run = Run(folder, schema={"payload": pl.Int64})
    return run.push(*(PointEvent(t, t) for t in range(4))).killed("left")


def test_half_an_entry_was_never_acknowledged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever the end is torn off, what stood before it is there, and what comes stands behind."""
    left = written(folder, monkeypatch, 2**20)
    whole = (left / "journal").read_bytes()
    for short in (1, 300, len(whole) // 2 + 7):
        torn = shutil.copytree(left, folder.parent / f"torn {short}")
        (torn / "journal").write_bytes(whole[:-short])
        caplog.clear()
        there = starts(torn)
        assert there == list(range(len(there)))
        assert len(there) < 4
        assert "cut off by a crash" in caplog.text
        run = Run(torn, schema={"payload": pl.Int64}).push(PointEvent(9, 9))
        run.process.dispose()
        assert starts(torn) == [*there, 9]
    (left / "journal").write_bytes(whole + bytes(100))  # as some file systems do
    assert starts(left) == [0, 1, 2, 3]


@pytest.mark.parametrize("most", [1, 2**20], ids=["segments", "journal"])
def test_a_bit_that_has_flipped_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Wherever in a journal or a segment: the run is refused, and nothing of it is taken."""
    left = written(folder, monkeypatch, most)
    files = [left / "journal"] if most > 1 else sorted(left.rglob("0*.arrow"))
    for file in files:
        whole = file.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 12)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            sink = Log()
            with pytest.raises(SpoolError, match=r"damaged.*Hint"):
                another(schema={"payload": pl.Int64})().run(sink, log=left)
            assert sink.told == []
        file.write_bytes(whole)
    assert starts(left) == [0, 1, 2, 3]


@pytest.mark.parametrize("after", range(12))
def test_segments_are_made_wholly_or_not_at_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Cut off at any file while the journal becomes segments, nothing is lost and nothing twice."""
    left = written(folder, monkeypatch, 2**20)
    count = [0]

    def cut(real: Callable[..., Any]) -> Callable[..., Any]:
        def dies(*arguments: Any) -> Any:
            count[0] += 1
            if count[0] > after:
                raise OSError(errno.EIO, "cut off")
            return real(*arguments)

        return dies

    with monkeypatch.context() as patch:
        for name in "replace", "ftruncate":
            patch.setattr(os, name, cut(getattr(os, name)))
        with contextlib.suppress(SpoolError):
            another(schema={"payload": pl.Int64})().run(Log(), log=left).dispose()
    assert starts(left) == [0, 1, 2, 3]
    run = Run(left, schema={"payload": pl.Int64}).push(PointEvent(4, 4))
    assert run.ended().rows == [0, 1, 2, 3, 4]


def test_a_full_disk_is_told_to_the_producer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The push raises, the run ends, its sink is told; what was acknowledged before is there."""
    run = Run(folder, schema={"payload": pl.Int64}).push(PointEvent(1, 1))

    def full(handle: int, data: Any, place: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(SpoolError, match=r"No space left on device.*Hint: free some space"):
            run.push(PointEvent(2, 2))
        with pytest.raises(SpoolError, match="No space left"):
            run.process.wait(SOON)
    assert isinstance(run.sink.ended_by, SpoolError)
    again = Run(folder, schema={"payload": pl.Int64})
    assert again.push(PointEvent(3, 3)).ended().rows == [1, 3]


def test_what_is_in_the_journal_is_acknowledged_where_segments_cannot_be_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who pushed what is safe hears of no error; the next one does, and is not in the log."""
    monkeypatch.setattr(logstore, "MOST_BYTES", 1)
    run = Run(folder, schema={"payload": pl.Int64}).push(PointEvent(1, 1))

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("rxtemporal.storage.segments.writer.publish", full)
        run.push(PointEvent(2, 2))
        with pytest.raises(SpoolError, match=r"No space left on device.*Hint: free some space"):
            run.push(PointEvent(3, 3))
        with pytest.raises(SpoolError, match="No space left"):
            run.process.wait(SOON)
    again = Run(folder, schema={"payload": pl.Int64})
    assert again.push(PointEvent(4, 4)).ended().rows == [1, 2, 4]


KILLED = """
import sys
import rxtemporal as rxt
from rxtemporal.storage.event_log import logstore
from reactivex.subject import Subject

def write(batch):
    with open(sys.argv[2], "a") as file:
        for row in batch.to_dicts(time="ticks"):
            print(row["start_time"], row["n"], file=file)

logstore.MOST_BYTES = 20_000
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
