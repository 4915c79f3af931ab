"""Senders of records: who sent an event, under which number, is read back with it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, IntervalEvent, PointEvent
from rxtemporal.ingress.built_in_sources import ObservableSource
from rxtemporal.ingress.source import Sent, SentRows
from rxtemporal.storage.event_log.cursors import RecordedCursor
from rxtemporal.storage.event_log.event_log import EventLog, LoggedStream
from rxtemporal.storage.event_log.log import Log, StreamLog, count_pushed
from rxtemporal.storage.event_log.reader import Recording
from rxtemporal.storage.event_log.recorder import RunRecorder
from rxtemporal.storage.event_log.store import RunStore

SCHEMA = pl.Schema({"x": pl.Int64()})


def begun_log(folder: Path) -> tuple[EventLog, StreamLog]:
    """An event log of one stream, and the log of the stream."""
    log = EventLog(RunStore(folder, "run", resume=False))
    log.open()
    log.match([LoggedStream("live", False, None, SCHEMA)])
    log.begin()
    return log, log.streams[0]


def begun_recording(folder: Path) -> tuple[RunRecorder, StreamLog]:
    """A recording of one stream, and the log of the stream."""
    recorder = RunRecorder(folder, "run")
    stream = recorder.add_stream("live", ObservableSource(Subject(), SCHEMA, None, "live", 1))
    recorder.begin()
    return recorder, stream


def note(stream: StreamLog, item: Any) -> None:
    """Note an item, as a stream does."""
    if isinstance(item, (rxt.EventBatch, SentRows)):
        stream.note_batch(item)
    else:
        stream.note_event(item)


def written(
    folder: Path, items: Sequence[Any], way: str = "log", *, together: bool = True
) -> Recording:
    """Return the records of items, written in one commit or each in its own."""
    log: Log
    log, stream = begun_log(folder) if way == "log" else begun_recording(folder)
    for item in items:
        note(stream, item)
        if not together:
            log.flush()
    log.close()
    if isinstance(log, EventLog):
        log.store.close(complete=True)
    return Recording(folder)


def read(recording: Recording, *, as_rows: bool = False) -> list[Any]:
    """Return the items that a cursor over the stream gives."""
    records = recording.streams[0]
    return list(RecordedCursor(records, records.schema, as_rows=as_rows))


def plain(item: Any) -> Any:
    """Return an item as values that can be compared."""
    if isinstance(item, SentRows):
        batch, name, seq, ahead, _ = item
        return plain(batch), name, seq is not None and seq.tolist(), plain_flags(ahead)
    if isinstance(item, rxt.EventBatch):
        return item.start.tolist(), item.end.tolist(), item.payload.rows()
    return item


def plain_flags(ahead: Any) -> Any:
    """Return a column of flags as a list."""
    return ahead is not None and ahead.tolist()


def rows(*starts: int, cti: int = rxt.MIN_TIME) -> rxt.EventBatch:
    """A batch of points."""
    return rxt.EventBatch.from_dicts([{"start_time": t, "x": t} for t in starts], cti=cti)


def point(start: int) -> PointEvent:
    """A point with its start as payload."""
    return PointEvent(start, {"x": start})


WAYS = pytest.mark.parametrize("way", ["log", "recording"])
TOGETHER = pytest.mark.parametrize("together", [True, False])


@WAYS
@TOGETHER
def test_an_event_is_read_back_with_its_sender(tmp_path: Path, way: str, together: bool) -> None:
    """Events of each kind, from several inputs, with and without a number, and from nobody."""
    start = EdgeEvent.create_start(3, {"x": 3})
    items = [
        Sent(point(1), "a", 7),
        Sent(IntervalEvent(2, 9, {"x": 2}), "b", None, ahead=True),
        point(2),
        Sent(start, None, 2**62),
        Sent(Cti(4), "a", None, ahead=True),
        Sent(Cti(5), "b"),
        Sent(EdgeEvent.create_end(3, 8, {"x": 3}), "", 0),
        Cti(6),
        Sent(point(7), "a", -1, ahead=True),
        Sent(EdgeEvent.create_start(9, {"x": 9}), "a", named_start=4),
    ]
    assert read(written(tmp_path / "log", items, way, together=together)) == items


@WAYS
def test_a_sender_that_says_nothing_is_not_stored(tmp_path: Path, way: str) -> None:
    """Such an event comes back as it is, and the records have no columns for it."""
    recording = written(tmp_path / "log", [Sent(point(1)), SentRows(rows(2)), point(3)], way)
    frames = list(recording.streams[0].segments())
    assert not {"input", "seq", "ahead", "named_start"} & {
        name for frame in frames for name in frame.columns
    }
    assert list(map(plain, read(recording))) == [point(1), plain(rows(2)), point(3)]


@WAYS
@TOGETHER
def test_rows_are_read_back_with_their_sender(tmp_path: Path, way: str, together: bool) -> None:
    """Each batch has its own again, and the CTI after it is from the same input."""
    items = [
        SentRows(rows(1, 2, cti=3), "a", np.array([7, 8]), np.array([False, True])),
        SentRows(rows(4, 5), "b"),
        rows(6),
        SentRows(rows(7, cti=8), None, np.array([9]), cti_ahead=True),
        SentRows(rows(9), "b", None, np.array([True])),
    ]
    there = read(written(tmp_path / "log", items, way, together=together))
    want = [
        items[0], Sent(Cti(3), "a"), items[1], items[2], items[3], Sent(Cti(8), ahead=True),
        items[4],
    ]  # fmt: skip
    assert list(map(plain, there)) == list(map(plain, want))


def test_batches_of_one_sender_may_come_back_as_one(tmp_path: Path) -> None:
    """Those of two inputs do not, nor those with numbers and without."""
    items = [
        SentRows(rows(1), "a"),
        SentRows(rows(2), "a"),
        SentRows(rows(3), "b", np.array([1])),
        SentRows(rows(4), "b", np.array([2]), np.array([True])),
        SentRows(rows(5), "b"),
    ]
    there = read(written(tmp_path / "log", items))
    assert list(map(plain, there)) == [
        plain(SentRows(rows(1, 2), "a")),
        plain(SentRows(rows(3, 4), "b", np.array([1, 2]), np.array([False, True]))),
        plain(SentRows(rows(5), "b")),
    ]


def test_events_are_read_as_rows_with_their_senders(tmp_path: Path) -> None:
    """Where a stream's rows come in columns, its points are rows of ``SentRows``, too."""
    items = [Sent(point(1), "a", 1), Sent(point(2), "a", 2), point(3), Sent(point(4), "b")]
    there = read(written(tmp_path / "log", items), as_rows=True)
    assert list(map(plain, there)) == [
        plain(SentRows(rows(1, 2), "a", np.array([1, 2]))),
        plain(rows(3)),
        plain(SentRows(rows(4), "b")),
    ]


def test_a_log_without_senders_is_continued_with_them(tmp_path: Path) -> None:
    """Records of an earlier version have no such columns, and come back as before."""
    written(tmp_path / "log", [point(1), Cti(2)])
    later = [Sent(point(3), "a", 1), Sent(Cti(4), "a"), point(5)]
    recording = written(tmp_path / "log", later)
    assert read(recording) == [point(1), Cti(2), *later]
    assert recording.count() == 5


def test_sent_events_are_counted_and_typed_as_plain_ones(tmp_path: Path) -> None:
    """A log counts them, knows the form of their times, their kinds, a payload that misfits."""
    log, stream = begun_log(tmp_path / "log")
    time = datetime(2026, 1, 1, tzinfo=UTC)
    stream.note_event(Sent(PointEvent(time, {"x": 1}), "a"))
    stream.note_batch(SentRows(rows(1, 2, cti=3), "a"))
    assert (stream.accepted, stream.brought, stream.facts.time) == (3, 4, "datetime")
    assert count_pushed(SentRows(rows(1, 2, cti=3), "a")) == 2
    assert count_pushed(Sent(point(1))) == 1
    log.flush()
    assert stream.facts.kinds == ["cti", "point", "row"]
    stream.note_events(
        [Sent(Cti(4), "a"), Sent(point(5), "a", 1), Sent(PointEvent(6, {"x": "six"}), "a")]
    )
    with pytest.raises(rxt.SchemaError, match="'live': field 'x' is Int64"):
        log.flush()
    log.store.release()
    numbers = [each["seq"] for each in Recording(tmp_path / "log").streams[0].segments()]
    assert pl.concat(numbers).to_list()[-1] == 1
