"""Inspection of logs, checkpoints, recordings and spools, and copies of what is whole in them.

Nothing is changed in the folder that is inspected. Readers elsewhere refuse a damaged folder; these
leave out what is damaged, and say what it was.
"""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil
import sqlite3
import struct
import tempfile
import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.files import make_folder, publish, report_errors, sync_folder
from rxtemporal.core.ticks import describe
from rxtemporal.errors import CheckpointError, RxTemporalError, SpoolError
from rxtemporal.storage.event_log.database import (
    Database,
    aside_wal,
    count_path,
    damage_error,
    has_wal,
    load_count,
    wal_path,
)
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
from rxtemporal.storage.event_log.recorder import RecordedSegments
from rxtemporal.storage.event_log.store import Part, RunStore
from rxtemporal.storage.event_log.stored_log import (
    FILE,
    ORDER_PART,
    PARTS,
    TABLES,
    Checkpoint,
    StoredLog,
    load_runs,
)
from rxtemporal.storage.event_log.verification import Wal, is_damaged, read_wal, verify
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


_WAL_HEAD = 32


def copy_pages(file: Path, out: Path, *, all_frames: bool) -> None:
    """Write the file with its WAL to ``out``; without ``all_frames`` as SQLite sees both.

    With ``all_frames`` those behind a damaged one are taken, too, and a first page that is damaged
    is that of an empty file with the same tables.
    """
    if file.exists():
        shutil.copyfile(file, out)
    else:
        out.write_bytes(b"")
    wal = _find_wal(file, repair=all_frames)
    if wal is not None:
        _put_pages(wal, out, all_frames=all_frames)
    if all_frames:
        _repair_first_page(out)


def _find_wal(file: Path, *, repair: bool) -> Wal | None:
    places = [place for place in (aside_wal(file), wal_path(file)) if place.exists()]
    if not places:
        return None
    wal, content = read_wal(places[0]), places[0].read_bytes()
    if wal is not None or not repair or len(content) < _WAL_HEAD + 24:
        return wal
    # the page size of new files, and the salts of the first frame
    head = struct.pack(">4I", 0x377F0682, 3_007_000, 4_096, 0) + content[40:48] + bytes(8)
    return Wal(head + content[_WAL_HEAD:])


def _put_pages(wal: Wal, out: Path, *, all_frames: bool) -> None:
    frames = np.flatnonzero(wal.current) if all_frames else np.arange(wal.accepted)
    commits = np.flatnonzero(wal.sizes[frames])
    if not len(commits):
        return
    most = int(wal.sizes[frames].max())
    with open(out, "r+b") as file:
        for frame in frames[: commits[-1] + 1].tolist():
            number = int(wal.numbers[frame])
            if 0 < number <= most:
                file.seek((number - 1) * wal.page_size)
                file.write(wal.page(frame))


def _repair_first_page(out: Path) -> None:
    try:
        with closing(sqlite3.connect(f"{out.as_uri()}?mode=ro&immutable=1", uri=True)) as reader:
            found = reader.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
            if {sql for (sql,) in found} == {*TABLES}:
                return
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # its messages quote what is damaged
        pass
    empty = out.with_name(f"{out.name}.empty")
    with closing(sqlite3.connect(empty)) as connection:
        for table in TABLES:
            connection.execute(table)
        connection.commit()
    page = bytearray(empty.read_bytes()[:4_096])
    empty.unlink()
    # the number of pages, and no free ones
    page[28:40] = struct.pack(">3I", out.stat().st_size // 4_096, 0, 0)
    with open(out, "r+b") as file:
        file.write(page)


# so many rows in sequence that cannot be read are taken for the end
MOST_DAMAGED = 20_000


class LogEntry(NamedTuple):
    """The records of an entry that are whole, and the order of all its records, if that is."""

    first: int
    records: int
    runs: pl.DataFrame | None
    parts: dict[int, Part]


class LogSalvage(StoredLog):
    """Reader of a copy of a run's file, ``copy``; ``lost`` is filled while entries are read.

    ``SpoolError``: nothing can be had.
    """

    def __init__(self, path: Path, copy: Path) -> None:
        super().__init__(path)
        self.lost: list[str] = []
        self._database = Database(copy, "read")
        try:
            self.facts = self.header()
        except (CheckpointError, SpoolError, ValueError, KeyError) as error:
            self.close()
            raise damage_error(
                self.file,
                "nothing can be had, since the names and settings of its streams are lost",
            ) from error
        self.streams: list[StreamFacts] = self.facts["streams"]
        self.state = self._read_state()
        self.schemas = {
            stream: schema
            for stream in range(len(self.streams))
            if (schema := self._read_schema(stream)) is not None
        }

    def close(self) -> None:
        """Close the copy."""
        self._database.close()

    def connect(self) -> AbstractContextManager[Database]:
        """Return a context of the connection to the copy."""
        return nullcontext(self._database)

    def fact(self, name: str) -> bytes | None:
        """Return the content stored under a name, without the index of names."""
        query = "SELECT crc, content FROM facts NOT INDEXED WHERE name = ?"
        row = self._database.row(query, name)
        if row is not None and row[0] != self.sum_fact(name, row[1]):
            raise damage_error(self.file, f"the checksum of the {name} does not fit")
        return None if row is None else row[1]

    def _read_state(self) -> tuple[Checkpoint, bytes] | None:
        """Return the checkpoint and its state; None if there is none, or it is lost."""
        try:
            checkpoint = self.find_checkpoint()
            pieces = [self.fact(name) for name in checkpoint.pieces]
        except (SpoolError, ValueError, KeyError):
            pieces = [None]
        if None in pieces:
            self.lost.append("the checkpoint: the state of the run")
            return None
        state = b"".join(each for each in pieces if each is not None)
        if checkpoint.kept:
            self.lost.append("the history before the checkpoint, which keep_history= has kept")
        return (checkpoint, state) if pieces else None

    def _read_schema(self, stream: int) -> pl.Schema | None:
        try:
            return self.schema(stream)
        except SpoolError:
            self.lost.append(f"the declared fields of stream {self.streams[stream].name!r}")
            return None

    # Entries --------------------------------------------------------------------------------------

    def entries(self) -> Iterator[LogEntry]:
        """Yield the entries with what is whole of them, in order."""
        losses: list[Loss] = []
        start = reached = self._find_start()
        for parts in self._group_parts():
            entry = self._read_entry(parts)
            if entry.first < start:
                continue  # covered by the checkpoint
            if entry.first > reached:
                losses.append(Loss("all streams", reached, entry.first))
            reached = max(reached, entry.first + entry.records)
            losses += self._find_losses(entry)
            if entry.parts:
                yield entry
        end = max(load_count(self.file).records, self.facts["records"])
        if end > reached:
            losses.append(Loss("all streams", reached, end))
        self.lost += map(str, merge_losses(losses))

    def _find_start(self) -> int:
        return 0 if self.state is None else self.state[0].records

    def _group_parts(self) -> Iterator[list[Any]]:
        """Yield the rows of each entry: those with the same first record."""
        group: list[Any] = []
        for row in self._read_rows():
            if group and row[2] != group[0][2]:
                yield group
                group = []
            group.append(row)
        if group:
            yield group

    def _read_rows(self) -> Iterator[Any]:
        at = damaged = 0
        while damaged < MOST_DAMAGED:
            try:
                row = self._database.row(f"{PARTS} WHERE id > ? LIMIT 1", at)
            except SpoolError:
                at, damaged = at + 1, damaged + 1
                continue
            if row is None:
                return
            at, damaged = row[0], 0
            try:
                self.content(row)
            except (SpoolError, TypeError):
                continue
            yield row

    def _read_entry(self, parts: list[Any]) -> LogEntry:
        runs, found = None, {}
        for row in parts:
            if row[1] == ORDER_PART:
                runs = load_runs(self.content(row))
            else:
                found[row[1]] = Part(row[3], self.content(row))
        records = sum(part.records for part in found.values())
        if runs is not None:
            records = int(runs.get_column("records").sum())
        return LogEntry(parts[0][2], records, runs, found)

    def _find_losses(self, entry: LogEntry) -> Iterator[Loss]:
        """Yield what is missing in an entry; its records are numbered over all streams."""
        first, end = entry.first, entry.first + entry.records
        if entry.runs is None:
            yield Loss("the order of streams", first, end)
            return
        for stream, records in entry.runs.group_by("stream", maintain_order=True).sum().iter_rows():
            if stream not in entry.parts:
                name = self.streams[stream].name
                yield Loss(f"stream {name!r} ({records:,} records among them)", first, end)


def copy_log(log: LogSalvage, out: Path) -> int:
    """Write what is whole into a new folder, and return its number of records.

    With the checkpoint it is one for ``resume=``, without it one for ``log=``.
    """
    store = RunStore(out, log.facts["name"], resume=log.state is not None)
    store.open()
    try:
        store.begin(log.streams, log.schemas)
        if log.state is not None:
            checkpoint, state = log.state
            store.records = checkpoint.records
            store.save([state], checkpoint.records, time=checkpoint.time)
        start = store.records
        places = []
        for entry in log.entries():
            places.append((entry.first, store.records))
            store.append(_order(entry), entry.parts)
        records = store.records - start
        for facts in log.streams:
            facts.renumber(partial(_find_number, [*places, (2**62, store.records)]))
        store.close(complete=False)
    finally:
        store.release()
    return records


def _find_number(places: Sequence[tuple[int, int]], record: int) -> int:
    """Return the new number of a record, or of the next one that there is.

    ``places`` have the numbers that the first record of each entry had and has, and last the end.
    """
    place = bisect_left(places, record, key=itemgetter(0))
    if not place:
        return places[0][1]
    first, number = places[place - 1]
    return min(number + record - first, places[place][1])


def _order(entry: LogEntry) -> list[list[int]]:
    """Return the runs of the streams that are whole; without an order one stream after another."""
    if entry.runs is None:
        return [[stream, part.records] for stream, part in entry.parts.items()]
    return [[stream, count] for stream, count in entry.runs.iter_rows() if stream in entry.parts]


def describe_log(log: LogSalvage) -> list[str]:
    """Return the facts of a log in words."""
    facts = [
        f"stream {each.name!r}: {', '.join(each.kinds) or 'no records'}" for each in log.streams
    ]
    if log.state is not None:
        checkpoint, state = log.state
        facts.append(f"checkpoint of {checkpoint.records:,} records, {len(state):,} bytes")
    return facts


def make_title(facts: dict[str, Any]) -> str:
    """Return what a run's file is, in words."""
    way = "resume=" if facts["resume"] else "log="
    state = "closed" if not facts["open"] else "not closed: its run was killed, or still runs"
    return f"folder of {way}, run {facts['name']!r}, {state}"


@dataclasses.dataclass(frozen=True, slots=True)
class Inspection:
    """Facts about a folder, its damage, what of it is lost, and how many records are whole.

    ``damage`` is the reason why a run or a replay refuses the folder; empty if they take it.
    """

    title: str
    facts: list[str]
    damage: str
    lost: list[str]
    records: int


@dataclasses.dataclass(frozen=True, slots=True)
class Loss:
    """Records that are lost: their numbers, and of which stream; ``end`` is that after the last."""

    whose: str
    first: int
    end: int

    def __str__(self) -> str:
        """Return the loss in words."""
        return f"records {self.first:,} to {self.end - 1:,} of {self.whose}"


def merge_losses(losses: Iterable[Loss]) -> list[Loss]:
    """Return the losses with those that follow one another as one.

    >>> [str(each) for each in merge_losses([Loss("'a'", 0, 5), Loss("'a'", 5, 9)])]
    ["records 0 to 8 of 'a'"]
    """
    merged: list[Loss] = []
    for loss in losses:
        if merged and (merged[-1].whose, merged[-1].end) == (loss.whose, loss.first):
            merged[-1] = dataclasses.replace(merged[-1], end=loss.end)
        else:
            merged.append(loss)
    return merged


SPOOL_HEADER = "spool.json"


def find_spool(path: Path) -> Path | None:
    """Return the folder of the spool at a path or in the folder of a ``SparkSink``; else None."""
    places = (path, path / "spool")
    return next((place for place in places if (place / SPOOL_HEADER).exists()), None)


def inspect_spool(path: Path) -> Inspection:
    """Read the segments of a spool that have not been discarded, and return what was found.

    ``records`` counts their rows.
    """
    folder = SegmentFolder(path)
    try:
        header = folder.header()
        mark, last = folder.bounds()
        cti = describe(folder.describe(last).cti) if last else "none yet"
    except SpoolError as error:
        return Inspection(f"spool {path}", [], str(error), ["all of it"], 0)
    rows, damage, lost = 0, "", []
    for number in range(mark + 1, last + 1):
        try:
            folder.content(number)
            rows += folder.describe(number).rows
        except SpoolError as error:
            damage = damage or str(error)
            lost.append(f"segment {number}")
    facts = [
        f"fields: {', '.join(folder.read(last).columns)}" if last > mark and not lost else "",
        f"segments: {last - mark:,} wait to be read, {mark:,} were read and are discarded",
        f"CTI: {cti}",
    ]
    title = f"spool of query {header['query']!r}"
    return Inspection(title, [fact for fact in facts if fact], damage, lost, rows)


def inspect(path: Path) -> Inspection:
    """Return the facts of an event log, a checkpoint or a recording, and its damage.

    Reads all of it and changes nothing. ``SpoolError``: it is none of these, a run is writing it,
    or nothing of it can be read.
    """
    return _examine(path, None)


def salvage(path: Path, out: Path) -> Inspection:
    """Write what is whole in a folder into a new one, ``out``, and return the facts of the old.

    Costs the size of the folder. ``SpoolError``: as ``inspect``, or ``out`` exists.
    """
    if out.exists() and any(out.iterdir()):
        raise SpoolError(f"{out} has files. Hint: give the copy a folder of its own.")
    return _examine(path, out)


def _examine(path: Path, out: Path | None) -> Inspection:
    _refuse_writer(path)
    if (path / HEADER).exists():
        return _examine_recording(path, out)
    if any(
        place.exists() for place in (path / FILE, wal_path(path / FILE), count_path(path / FILE))
    ):
        return _examine_log(path, out)
    raise SpoolError(
        f"{path} is not a folder of log=, resume= or record=. Hint: rxtemporal doctor {path} "
        "checks the folder of a SparkSink."
    )


def _refuse_writer(path: Path) -> None:
    if not (path / "lock").exists():
        return
    with report_errors(f"cannot read {path}"):
        handle = os.open(path / "lock", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.read(handle, 32).decode(errors="replace").strip()
        raise SpoolError(
            f"{path} is being written by the process with pid {holder}. Hint: end that one first."
        ) from error
    finally:
        os.close(handle)


# A recording --------------------------------------------------------------------------------------


def _examine_recording(path: Path, out: Path | None) -> Inspection:
    damage = _find_recording_damage(path)
    recording = RecordingSalvage(path)
    records = recording.records if out is None else copy_recording(recording, out)
    state = "complete" if recording.header["complete"] else "cut off: its run was killed"
    title = f"recording of run {recording.header['name']!r}, {state}"
    lost = recording.lost
    if lost and not damage:
        damage = str(damage_error(path, "not all of it is whole"))
    return Inspection(title, describe_recording(recording), damage, lost, records)


def _find_recording_damage(path: Path) -> str:
    """Return why a replay would refuse the folder; empty if it would not."""
    try:
        RecordedSegments(path).verify()
    except SpoolError as error:
        return str(error)
    return ""


# An event log -------------------------------------------------------------------------------------


def _examine_log(path: Path, out: Path | None) -> Inspection:
    damage = _find_log_damage(path)
    with _make_copy(path, all_frames=True) as copy, closing(LogSalvage(path, copy)) as log:
        if out is None:
            records = sum(part.records for entry in log.entries() for part in entry.parts.values())
        else:
            records = copy_log(log, out)
        title, facts = make_title(log.facts), describe_log(log)
        return Inspection(title, facts, damage, log.lost, records)


@contextmanager
def _make_copy(path: Path, *, all_frames: bool) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rxtemporal-") as folder:
        copy = Path(folder) / FILE
        with report_errors(f"cannot copy {path / FILE}"):
            copy_pages(path / FILE, copy, all_frames=all_frames)
        yield copy


def _find_log_damage(path: Path) -> str:
    """Return why a run would refuse the folder; empty if it would not."""
    file = path / FILE
    try:
        if not file.exists():
            raise damage_error(file, "it is missing")
        with _make_copy(path, all_frames=False) as copy:
            _verify_copy(file, StoredLog(copy.parent))
    except RxTemporalError as error:
        return str(error)
    return ""


def _verify_copy(file: Path, log: StoredLog) -> None:
    """Verify the copy of a file as a run verifies the file."""
    try:
        if log.header()["open"]:
            if not has_wal(file) and not aside_wal(file).exists():
                raise damage_error(file, f"{wal_path(file).name} beside it is missing")
            if has_wal(file) and is_damaged(wal_path(file)):
                raise damage_error(wal_path(file), "records in it have changed")
        verify(log, load_count(file))
    except RxTemporalError as error:
        raise SpoolError(str(error).replace(str(log.path), str(file.parent))) from error
