"""Reader of a recording that leaves out what is damaged, and says what it was."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.errors import SpoolError
from rxtemporal.storage.event_log.layout import (
    FORMAT,
    HEADER,
    NO_FIELDS,
    ORDER,
    ORDER_FIELDS,
    StreamFacts,
    dump_header,
    load_header,
)
from rxtemporal.storage.event_log.record_count import load_count
from rxtemporal.storage.files import make_folder, publish, sync_folder
from rxtemporal.storage.salvage.inspection import Loss, merge_losses
from rxtemporal.storage.segments import SegmentFolder, SegmentWriter


class StreamRest(NamedTuple):
    """Rest of a stream: the numbers of its whole segments, the bounds of its lost records.

    ``end`` is the number of records up to which it is known; ``lost`` has pairs of a first record
    and the one after the last.
    """

    segments: list[int]
    lost: list[tuple[int, int]]
    end: int


class RecordingSalvage:
    """Reader of a recording's folder; ``lost`` says what is missing.

    ``SpoolError``: nothing can be had, since the header is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = load_header(path)
        self.streams: list[StreamFacts] = self.header["streams"]
        self.lost: list[str] = []
        self._rests = [self._find_rest(each) for each in self.streams]
        self.runs = self._read_order()

    @property
    def records(self) -> int:
        """The number of records that are whole."""
        return int(self.runs.get_column("records").sum())

    def _find_rest(self, facts: StreamFacts) -> StreamRest:
        folder = SegmentFolder(self.path / facts.folder)
        segments, lost, reached = list[int](), list[tuple[int, int]](), 0
        for number in range(1, _count_segments(folder) + 1):
            try:
                rows = folder.describe(number).rows
            except SpoolError:
                self.lost.append(f"stream {facts.name!r} from record {reached:,} on")
                break
            try:
                folder.content(number)
                segments.append(number)
            except SpoolError:
                lost.append((reached, reached + rows))
            reached += rows
        if any(first == end for first, end in lost):
            self.lost.append(f"the declared fields of stream {facts.name!r}")
        losses = [Loss(f"stream {facts.name!r}", *each) for each in lost if each[0] < each[1]]
        self.lost += map(str, merge_losses(losses))
        return StreamRest(segments, lost, reached)

    def _read_order(self) -> pl.DataFrame:
        """Return the runs of the records that are whole.

        Behind the last one that is known, one stream follows the other.
        """
        frames = list(self._read_runs())
        runs = pl.concat(frames) if frames else pl.DataFrame(schema=ORDER_FIELDS)
        streams = runs.get_column("stream").to_numpy()
        counts = runs.get_column("records").to_numpy().astype(np.int64)
        stop, kept, reached = len(counts), counts.copy(), list[int]()
        for number, rest in enumerate(self._rests):
            places = np.flatnonzero(streams == number)
            ends = np.cumsum(counts[places])
            kept[places] -= _count_lost(rest, ends) - _count_lost(rest, ends - counts[places])
            stop = min([stop, *places[ends > rest.end][:1].tolist()])
        for number in range(len(self._rests)):
            reached.append(int(counts[:stop][streams[:stop] == number].sum()))
        self._note_end(int(counts.sum()), sum(reached))
        known = pl.DataFrame([streams[:stop], kept[:stop]], schema=ORDER_FIELDS)
        return pl.concat([known, self._list_rest(reached)]).filter(pl.col("records") > 0)

    def _note_end(self, counted: int, reached: int) -> None:
        """Note if fewer records are known than there were."""
        count = load_count(self.path / HEADER).records
        known = max(counted, count, self.header.get("records", 0))
        there = max(reached, sum(rest.end for rest in self._rests))
        if there < known:
            self.lost.append(f"{known - there:,} records at the end of the streams")

    def _list_rest(self, reached: Sequence[int]) -> pl.DataFrame:
        """Return runs of the records behind the order, if a part of the recording is lost."""
        rows = []
        for number, (rest, place) in enumerate(zip(self._rests, reached, strict=True)):
            here, end = np.array([place]), np.array([rest.end])
            lost = int((_count_lost(rest, end) - _count_lost(rest, here))[0])
            if self.lost:
                rows.append((number, max(0, rest.end - place - lost)))
        return pl.DataFrame(rows, schema=ORDER_FIELDS, orient="row")

    def _read_runs(self) -> Iterator[pl.DataFrame]:
        folder = SegmentFolder(self.path / ORDER)
        for number in range(1, _count_segments(folder) + 1):
            try:
                yield folder.read(number)
            except SpoolError:
                self.lost.append(f"the order of the streams from {folder.file(number, 'arrow')} on")
                return

    def frames(self, stream: int) -> Iterator[pl.DataFrame]:
        """Yield the whole segments of a stream."""
        folder = SegmentFolder(self.path / self.streams[stream].folder)
        return map(folder.read, self._rests[stream].segments)


def _count_segments(folder: SegmentFolder) -> int:
    """Return the number of the last segment of which there is any file."""
    try:
        found = folder.numbers()
    except SpoolError:
        return 0
    return max([*found["arrow"], *found["json"]], default=0)


def _count_lost(rest: StreamRest, records: Int64s) -> Int64s:
    """Return how many of a stream's first ``records`` are lost."""
    lost = np.zeros(len(records), np.int64)
    for first, end in rest.lost:
        lost += np.clip(records, first, end) - first
    return lost


def copy_recording(recording: RecordingSalvage, out: Path) -> int:
    """Write what is whole as a recording that was cut off; return its number of records."""
    make_folder(out)
    streams = recording.streams
    header: dict[str, Any] = {"format": FORMAT, "id": uuid.uuid4().hex}
    header |= {"name": recording.header["name"], "complete": False, "number": 1}
    facts = [each.to_dict() for each in streams]
    publish(out / HEADER, dump_header({**header, "streams": facts}))
    sync_folder(out)
    for number, each in enumerate(streams):
        _write(out / each.folder, each.name, NO_FIELDS, recording.frames(number))
    _write(out / ORDER, ORDER, ORDER_FIELDS, iter([recording.runs]))
    return recording.records


def _write(folder: Path, name: str, fields: pl.Schema, frames: Iterator[pl.DataFrame]) -> None:
    with SegmentWriter.open(folder, name, fields, lock=False) as writer:
        for frame in frames:
            writer.append_frame(frame)


def describe_recording(recording: RecordingSalvage) -> list[str]:
    """Return the facts of a recording in words."""
    return [f"stream {each.name!r}: {', '.join(each.kinds)}" for each in recording.streams]
