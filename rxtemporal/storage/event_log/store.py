"""Writer of a run's file: entries of its event log, and its checkpoint."""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.engine.codec import dump_frame, load_frame
from rxtemporal.errors import CheckpointError, SpoolError
from rxtemporal.storage.event_log.database import (
    Database,
    aside_wal,
    damage_error,
    explain_errors,
    has_wal,
    restore_wal,
    wal_path,
)
from rxtemporal.storage.event_log.layout import StreamFacts
from rxtemporal.storage.event_log.record_count import RecordCount
from rxtemporal.storage.event_log.stored_log import (
    FILE,
    FORMAT,
    ORDER_PART,
    PARTS,
    StoredLog,
    checksum,
    dump_runs,
    load_runs,
    part_values,
)
from rxtemporal.storage.files import (
    WriterLock,
    make_folder,
    remove,
    report_errors,
    sync,
    sync_folder,
)

# bytes of small entries that are merged into a large one
MOST_BYTES = 8 * 2**20
# SQLite takes no content beyond a gigabyte
MOST_PIECE = 2**28

_TABLES = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, crc INTEGER NOT NULL, content BLOB NOT NULL)",
    "CREATE TABLE parts (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, first INTEGER NOT NULL,"
    " records INTEGER NOT NULL, crc INTEGER NOT NULL, content BLOB NOT NULL)",
)
_PUT_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)"
_PUT_PART = "INSERT INTO parts (stream, first, records, crc, content) VALUES (?, ?, ?, ?, ?)"


class RunStore(StoredLog):
    """The file, held by one run: ``open`` opens or makes it, ``close`` releases it.

    ``records`` is the number of the next record, ``streams`` are those that the log knows.

    Threads: one at a time.
    """

    def __init__(self, path: Path, name: str, *, resume: bool | None = None) -> None:
        super().__init__(path)
        self.name = name
        # True if checkpoints delete entries; None: as the existing file
        self._resume = resume
        self.records = 0
        self.streams: list[StreamFacts] = []
        self._lock: WriterLock | None = None
        self._database: Database | None = None
        self._acknowledged: RecordCount | None = None
        self._header: dict[str, Any] = {}
        self._written: list[StreamFacts] = []
        # bytes of the entries that have not been merged
        self._small = 0

    @property
    def _connection(self) -> Database:
        assert self._database is not None
        return self._database

    def _get_database(self) -> AbstractContextManager[Database]:
        return nullcontext(self._connection)

    @property
    def is_open(self) -> bool:
        """True while this run holds the file."""
        return self._database is not None

    # Opening and closing --------------------------------------------------------------------------

    def open(self) -> None:
        """Open the file, or make it. ``SpoolError``: it is in use, damaged or not writable.

        Call ``begin`` before anything is written.
        """
        with report_errors(f"cannot open {self.path}"):
            make_folder(self.path)
            self._lock = WriterLock(self.path / "lock")
        try:
            with explain_errors(f"cannot open {self.file}", self.file):
                restore_wal(self.file)
                self._acknowledged = RecordCount(self.file)
                if not self.file.exists():
                    self._create()
                self._connect()
            self._verify()
            self._acknowledged.check(self._header["id"], self.records)
        except BaseException:
            self.release()
            raise

    def _create(self) -> None:
        if has_wal(self.file):
            raise damage_error(self.file, "it is missing, but its WAL exists")
        if self._acknowledged is not None and self._acknowledged.records:
            raise damage_error(self.file, "it is missing, but it had records")
        aside = self.path / f".{FILE}.part"
        remove(aside)
        header = {"format": FORMAT, "id": uuid.uuid4().hex, "name": self.name}
        header |= {
            "resume": self._resume,
            "open": False,
            "complete": False,
            "merged": 0,
            "records": 0,
        }
        with closing(sqlite3.connect(aside)) as connection:
            # the file is invisible until it is complete, so it needs no journal
            connection.execute("PRAGMA journal_mode = OFF")
            for table in _TABLES:
                connection.execute(table)
            connection.execute(_PUT_FACT, _fact("header", _json({**header, "streams": []})))
            connection.commit()
        with open(aside, "rb") as file:
            sync(file.fileno())
        os.replace(aside, self.file)
        sync_folder(self.path)

    def _connect(self) -> None:
        if not self.file.stat().st_size:  # SQLite would begin anew, and delete the WAL
            raise damage_error(self.file, "it is empty")
        had_wal = has_wal(self.file)
        self._database = Database(self.file, writes=True)
        self._header = self.header()
        self.streams = self._header.pop("streams")
        if self._resume not in (None, self._header["resume"]):
            ways = ("log=", "resume=") if self._resume else ("resume=", "log=")
            raise SpoolError(
                f"{self.file} is of a run with {ways[0]}, but this one has {ways[1]}. "
                "Hint: give each its own folder."
            )
        if self._header["open"] and not had_wal:
            raise damage_error(self.file, f"{wal_path(self.file).name} beside it is missing")

    def _verify(self) -> None:
        """Check that nothing is missing, and that all checksums match."""
        self._connection.verify(wal=self._header["open"])
        tables = self._connection.rows("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
        if {sql for (sql,) in tables} != {*_TABLES}:
            raise damage_error(self.file, "its tables have changed")
        self.records, missing, at = self._find_checkpoint()[0], 0, 0
        while (row := self._connection.row(f"{PARTS} WHERE id > ? LIMIT 1", at)) is not None:
            at, stream, first, records, *_ = row
            self._content(row)
            if stream == ORDER_PART:
                if missing or first != self.records:
                    raise self._gap()
                missing, self.records = records, first + records
            else:
                missing -= records
        if missing or self.records < self._header["records"]:
            raise self._gap()

    def _gap(self) -> SpoolError:
        return damage_error(self.file, f"some records before {self.records:,} are missing")

    def begin(
        self, streams: Sequence[StreamFacts] = (), schemas: Mapping[int, pl.Schema] | None = None
    ) -> None:
        """Begin writing; ``schemas`` are the declared fields of some of the log's streams."""
        self.streams = [*streams]
        with self._connection.transaction() as connection:
            self._merge(connection)
            self._put_header(connection, open=True, complete=False)
            for stream, schema in (schemas or {}).items():
                content = dump_frame(pl.DataFrame(schema=schema))
                connection.execute(_PUT_FACT, _fact(f"schema {stream}", content))
        self._connection.copy_wal()

    def close(self, *, complete: bool) -> None:
        """Release the file for another run; ``complete``: the run has ended without an error.

        Does nothing if it is not open.
        """
        if self._database is None:
            return
        try:
            with self._connection.transaction() as connection:
                self._merge(connection)
                self._put_header(connection, open=False, complete=complete)
            self._connection.close()
        finally:
            self.release()

    def release(self) -> None:
        """Leave the file as after a crash, for another run; idempotent."""
        database, self._database = self._database, None
        try:
            if database is not None:
                database.close(keep_wal=True)
        finally:
            if self._acknowledged is not None:
                self._acknowledged.close()
                self._acknowledged = None
            if self._lock is not None:
                self._lock.release()

    def _put_header(self, connection: sqlite3.Connection, **changed: Any) -> None:
        """Write the header if it has changed."""
        if self._header | changed == self._header and self.streams == self._written:
            return
        self._header |= changed
        self._written = [each.copy() for each in self.streams]
        streams = [each.to_dict() for each in self.streams]
        connection.execute(_PUT_FACT, _fact("header", _json({**self._header, "streams": streams})))

    # Entries --------------------------------------------------------------------------------------

    def append(self, runs: Sequence[Sequence[int]], frames: Mapping[int, pl.DataFrame]) -> None:
        """Write the records of each stream and their order; they are durable afterwards.

        Costs one sync. ``SpoolError`` if they cannot be written: the file is unchanged.
        """
        with self._connection.transaction() as connection:
            if self._small >= MOST_BYTES:
                self._merge(connection)
            self._put_header(connection)  # the facts of streams may have changed
            records = self._put_entry(connection, self.records, runs, frames)
        self.records += records
        if self._acknowledged is not None:
            self._acknowledged.raise_to(self.records)

    def _put_entry(
        self,
        connection: sqlite3.Connection,
        first: int,
        runs: Any,
        frames: Mapping[int, pl.DataFrame],
    ) -> int:
        order, records = dump_runs(runs), int(sum(run[1] for run in runs))
        parts = [part_values(ORDER_PART, first, records, order)]
        for stream, frame in frames.items():
            parts.append(part_values(stream, first, frame.height, dump_frame(frame)))
        connection.executemany(_PUT_PART, parts)
        self._small += sum(len(part[-1]) for part in parts)
        return records

    def _merge(self, connection: sqlite3.Connection) -> None:
        """Merge the small entries into one: it is a twentieth of their size, and faster to read."""
        rows = self._connection.rows(f"{PARTS} WHERE id > ? ORDER BY id", self._header["merged"])
        if sum(row[1] == ORDER_PART for row in rows) > 1:
            runs: list[pl.DataFrame] = []
            frames: dict[int, list[pl.DataFrame]] = {}
            for row in rows:
                if row[1] == ORDER_PART:
                    runs.append(load_runs(self._content(row)))
                else:
                    frames.setdefault(row[1], []).append(load_frame(self._content(row)))
            connection.execute("DELETE FROM parts WHERE id > ?", (self._header["merged"],))
            # CTIs alone show no fields, and a field that was always null no type
            merged = {each: pl.concat(of, how="diagonal_relaxed") for each, of in frames.items()}
            self._put_entry(connection, rows[0][2], pl.concat(runs).to_numpy(), merged)
        (last,) = self._connection.row("SELECT ifnull(max(id), 0) FROM parts")
        self._put_header(connection, merged=last, records=self.records)
        self._small = 0

    # Checkpoint -----------------------------------------------------------------------------------

    def save(self, state: bytes) -> None:
        """Replace the state of the run, and delete the entries, in one transaction.

        The state covers all records so far. ``SpoolError`` if it cannot be written: state and
        entries are unchanged.
        """
        pieces = range(0, len(state), MOST_PIECE)
        facts = {"checkpoint": _json({"records": self.records, "pieces": len(pieces)})}
        for number, at in enumerate(pieces):
            facts[f"checkpoint {number}"] = state[at : at + MOST_PIECE]
        with self._connection.transaction() as connection:
            connection.execute("DELETE FROM facts WHERE name LIKE 'checkpoint%'")
            connection.executemany(_PUT_FACT, [_fact(*each) for each in facts.items()])
            connection.execute("DELETE FROM parts")
            self._put_header(connection, merged=0, records=self.records)
        self._small = 0

    def load(self) -> bytes | None:
        """Return the saved state; None if there is none. ``CheckpointError``: it is damaged."""
        try:
            pieces = [self.fact(f"checkpoint {each}") for each in range(self._find_checkpoint()[1])]
        except SpoolError as error:
            raise CheckpointError(str(error)) from error
        if None in pieces:
            raise CheckpointError(
                str(damage_error(self.file, "a part of the checkpoint is missing"))
            )
        return b"".join(each for each in pieces if each is not None) if pieces else None

    def _find_checkpoint(self) -> tuple[int, int]:
        """Return how many records the checkpoint covers, and the number of its pieces."""
        facts = json.loads(self.fact("checkpoint") or b'{"records": 0, "pieces": 0}')
        return facts["records"], facts["pieces"]


def recover(path: Path) -> None:
    """Repair a file after a crash, so that it can be read; ``SpoolError`` if that fails."""
    if wal_path(path / FILE).exists() or aside_wal(path / FILE).exists():
        store = RunStore(path, "")
        store.open()
        try:
            store.begin(store.streams)
            store.close(complete=False)
        finally:
            store.release()


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _fact(name: str, content: bytes) -> tuple[str, int, bytes]:
    return name, checksum(content, name.encode()), content
