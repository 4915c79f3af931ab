"""Reader of a run's file that leaves out what is damaged, and says what it was."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rxtemporal.errors import CheckpointError, SpoolError
from rxtemporal.storage.event_log.database import Database, aside_wal, damage_error, wal_path
from rxtemporal.storage.event_log.layout import StreamFacts
from rxtemporal.storage.event_log.record_count import load_count
from rxtemporal.storage.event_log.store import Part, RunStore
from rxtemporal.storage.event_log.stored_log import ORDER_PART, PARTS, TABLES, StoredLog, load_runs
from rxtemporal.storage.event_log.verification import Wal, read_wal
from rxtemporal.storage.salvage.inspection import Loss, merge_losses

_WAL_HEAD = 32
_MAGIC = b"SQLite format 3\0"


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

    def _read_state(self) -> tuple[int, bytes] | None:
        """Return the checkpoint and how many records it covers; None if there is none, or lost."""
        try:
            checkpoint = self.find_checkpoint()
            pieces = [self.fact(name) for name in checkpoint.pieces]
        except (SpoolError, ValueError, KeyError):
            pieces = [None]
        if None in pieces:
            self.lost.append("the checkpoint: the state of the run")
            return None
        state = b"".join(each for each in pieces if each is not None)
        return (checkpoint.records, state) if pieces else None

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
        return 0 if self.state is None else self.state[0]

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
            store.records = log.state[0]
            store.save([log.state[1]], log.state[0])
        start = store.records
        for entry in log.entries():
            store.append(_order(entry), entry.parts)
        records = store.records - start
        store.close(complete=False)
    finally:
        store.release()
    return records


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
        covered, state = log.state
        facts.append(f"checkpoint of {covered:,} records, {len(state):,} bytes")
    return facts


def make_title(facts: dict[str, Any]) -> str:
    """Return what a run's file is, in words."""
    way = "resume=" if facts["resume"] else "log="
    state = "closed" if not facts["open"] else "not closed: its run was killed, or still runs"
    return f"folder of {way}, run {facts['name']!r}, {state}"
