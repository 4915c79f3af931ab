"""Writer of a run's file: entries of its event log, and its checkpoint."""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import polars as pl

from rxtemporal.core.files import (
    WriterLock,
    make_folder,
    open_private,
    remove,
    report_errors,
    sync,
    sync_folder,
)
from rxtemporal.core.turns import FairLock
from rxtemporal.engine.codec import Chunk, dump_frame
from rxtemporal.errors import CheckpointError, SpoolError
from rxtemporal.storage.event_log.columns import load_records
from rxtemporal.storage.event_log.database import (
    CountFile,
    Database,
    RecordCount,
    aside_wal,
    damage_error,
    explain_errors,
    has_wal,
    load_count,
    restore_wal,
    shm_path,
    wal_path,
)
from rxtemporal.storage.event_log.layout import StreamFacts
from rxtemporal.storage.event_log.stored_log import (
    FILE,
    FORMAT,
    ORDER_PART,
    PARTS,
    PLAIN_FORMAT,
    TABLES,
    Checkpoint,
    StoredLog,
    dump_runs,
    load_runs,
)
from rxtemporal.storage.event_log.verification import (
    SavedState,
    StorageDiagnostics,
    diagnose_storage,
    is_damaged,
    verify,
)

# bytes of small entries that are merged into a large one, and their number; entries of so many
# bytes on average are left as they are
MOST_BYTES = 8 * 2**20
MOST_ENTRIES = 16_384
LARGE_ENTRY = 2**16
# a run with so many entries is worth a WAL of its full size
LASTING_ENTRIES = 64
# bytes of a piece of a state, and how many of them, or of entries, are deleted at once: a new entry
# may have to wait for one such transaction
MOST_PIECE = 2**20
PIECES_DELETED, ENTRIES_DELETED = 8, 32

_PUT_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)"
_DELETE_FACT = "DELETE FROM facts WHERE name = ?"
_OLDEST_PARTS = "SELECT id, first FROM parts ORDER BY id LIMIT ?"
_LAST_PART = "SELECT ifnull(max(id), 0) FROM parts"
_PLACE_PART = "INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?)"
_PUT_PART = "INSERT INTO parts (stream, first, records, crc, content) VALUES (?, ?, ?, ?, ?)"
# an entry of so many parts is one statement, and needs no other to begin or commit it
MOST_ROWS = 32
_PUT_PARTS = [_PUT_PART + ", (?, ?, ?, ?, ?)" * (rows - 1) for rows in range(MOST_ROWS + 1)]


class Part(NamedTuple):
    """A stream's part of an entry: the number of its records, and their content."""

    records: int
    content: bytes


class RunStore(StoredLog):
    """The file, held by one run: ``open`` opens or makes it, ``close`` releases it.

    ``records`` is the number of the next record, ``streams`` are those that the log knows. Entries
    are not merged over ``cut``, the number of records that the next checkpoint covers.

    Threads: one may ``append`` while another one calls ``save``, which is many short transactions;
    otherwise one at a time.
    """

    def __init__(
        self, path: Path, name: str, *, resume: bool | None = None, keeps_history: bool = False
    ) -> None:
        super().__init__(path)
        self.name = name
        # True if checkpoints delete entries; None: as the existing file
        self._resume = resume
        # True if checkpoints leave what they cover for some time
        self.keeps_history = keeps_history
        self.records = self.cut = 0
        self.streams: list[StreamFacts] = []
        # held during a transaction
        self._turns = FairLock()
        self._lock: WriterLock | None = None
        self._database: Database | None = None
        self._count: CountFile | None = None
        self._header: dict[str, Any] = {}
        # the versions of the streams' facts that the file has
        self._written: list[int] = []
        # bytes of the entries that have not been merged, and their number
        self._small = self._entries = 0
        # how many entries this run has written
        self._appended = 0
        self._saved = SavedState(monotonic())

    @property
    def _connection(self) -> Database:
        assert self._database is not None
        return self._database

    def connect(self) -> AbstractContextManager[Database]:
        """Return a context of the connection to the file, which stays open."""
        return nullcontext(self._connection)

    @property
    def is_open(self) -> bool:
        """True while this run holds the file."""
        return self._database is not None

    @property
    def takes_plain(self) -> bool:
        """True if entries may be JSON."""
        return bool(self._header["format"] >= PLAIN_FORMAT)

    # Opening and closing --------------------------------------------------------------------------

    def open(self) -> None:
        """Open the file, or make it.

        ``SpoolError``: it is in use, damaged or not writable. ``CheckpointError``: it is of a run
        with the other of ``log=`` and ``resume=``, or of another version.

        Call ``begin`` before anything is written.
        """
        with report_errors(f"cannot open {self.path}"):
            make_folder(self.path)
            self._lock = WriterLock(self.path / "lock")
        try:
            with explain_errors(f"cannot open {self.file}", self.file):
                restore_wal(self.file)
                count = load_count(self.file)
                if not self.file.exists():
                    self._create(count)
                self._verify(count)
                self._database = Database(self.file, "write")
                self._count = CountFile(self.file, self._header["id"])
                self._count.write(self._header["saves"], self.records)
        except BaseException:
            self.release()
            raise

    def _create(self, count: RecordCount) -> None:
        if has_wal(self.file):
            raise damage_error(self.file, "it is missing, but its WAL exists")
        if count.id:
            had = f"{count.records:,} records and {count.saves:,} checkpoints"
            raise damage_error(self.file, f"it is missing, but it had {had}")
        aside = self.path / f".{FILE}.part"
        remove(aside)
        header = {"format": FORMAT, "id": uuid.uuid4().hex, "name": self.name}
        header |= {"resume": self._resume, "open": False, "complete": False}
        header |= {"merged": 0, "records": 0, "saves": 0}
        # SQLite gives the WAL and its index the rights of the file
        os.close(open_private(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        with closing(sqlite3.connect(aside)) as connection:
            # the file is invisible until it is complete, so it needs no journal
            connection.execute("PRAGMA journal_mode = OFF")
            for table in TABLES:
                connection.execute(table)
            content = _json({**header, "streams": []})
            connection.execute(_PUT_FACT, self._fact("header", content))
            connection.commit()
        with open(aside, "rb") as file:
            sync(file.fileno())
        os.replace(aside, self.file)
        sync_folder(self.path)

    def _verify(self, count: RecordCount) -> None:
        """Verify the file and its WAL, without changing them, and read the header."""
        if not self.file.stat().st_size:  # SQLite would begin anew, and delete the WAL
            raise damage_error(self.file, "it is empty")
        had_wal, index = has_wal(self.file), shm_path(self.file)
        # made again; the one of a killed process is of no use
        remove(index)
        # a connection that knows of a WAL makes an empty one where there is none
        self._database = Database(self.file, "check" if had_wal else "read")
        try:
            self._read_header()
            if self._header["open"] and not had_wal:
                raise damage_error(self.file, f"{wal_path(self.file).name} beside it is missing")
            if self._header["open"] and is_damaged(wal_path(self.file)):
                raise damage_error(wal_path(self.file), "records in it have changed")
            self.records = verify(self, count)
        finally:
            self._database.close()
            self._database = None
            remove(index)

    def _read_header(self) -> None:
        self._header = {"saves": 0, **self.header()}
        self.streams = self._header.pop("streams")
        if self._resume not in (None, self._header["resume"]):
            ways = ("log=", "resume=") if self._resume else ("resume=", "log=")
            raise CheckpointError(
                f"{self.file} is of a run with {ways[0]}, but this one has {ways[1]}. "
                "Hint: give each its own folder."
            )

    def cut_at(self, records: int) -> int:
        """Let a state cover so many records; return their number."""
        self.cut = records
        return records

    def begin(
        self, streams: Sequence[StreamFacts] = (), schemas: Mapping[int, pl.Schema] | None = None
    ) -> None:
        """Begin writing; ``schemas`` are the declared fields of some of the log's streams."""
        self.streams = [*streams]
        checkpoint = self.find_checkpoint()
        self.cut = checkpoint.records
        with self._connection.transaction() as connection:
            # what a save has left that was not finished, or had not deleted all
            connection.execute("DELETE FROM parts WHERE first < ?", (checkpoint.oldest,))
            connection.executemany(_DELETE_FACT, self._list_superfluous(checkpoint))
            self._merge(connection)
            self._put_header(connection, open=True, complete=False)
            for stream, schema in (schemas or {}).items():
                content = dump_frame(pl.DataFrame(schema=schema))
                connection.execute(_PUT_FACT, self._fact(f"schema {stream}", content))
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
            if self._count is not None:
                self._count.close()
                self._count = None
            if self._lock is not None:
                self._lock.release()

    def _put_header(self, connection: sqlite3.Connection, **changed: Any) -> None:
        """Write the header if it has changed."""
        if self._is_written(changed):
            return
        self._header |= changed
        self._written = [each.version for each in self.streams]
        streams = [each.to_dict() for each in self.streams]
        content = _json({**self._header, "streams": streams})
        connection.execute(_PUT_FACT, self._fact("header", content))

    def _is_written(self, changed: dict[str, Any]) -> bool:
        """Return True if the file has the header with these changes."""
        versions = [each.version for each in self.streams]
        return self._header | changed == self._header and versions == self._written

    def _fact(self, name: str, content: bytes) -> tuple[str, int, bytes]:
        return name, self.sum_fact(name, content), content

    def _part(self, stream: int, first: int, records: int, content: bytes) -> tuple[Any, ...]:
        return stream, first, records, self.sum_part(stream, first, records, content), content

    # Entries --------------------------------------------------------------------------------------

    def append(self, runs: Sequence[Sequence[int]], parts: Mapping[int, Part]) -> None:
        """Write the records of each stream and their order; they are durable afterwards.

        Costs one sync. ``SpoolError`` if they cannot be written: the file is unchanged.
        """
        with self._turns:
            self._append(runs, parts)

    def _append(self, runs: Sequence[Sequence[int]], parts: Mapping[int, Part]) -> None:
        records = sum(run[1] for run in runs)
        rows = self._make_rows(self.records, records, runs, parts)
        merges = self._small >= MOST_BYTES or self._entries >= MOST_ENTRIES
        # the facts of streams may have changed
        if merges or len(rows) > MOST_ROWS or not self._is_written({}):
            with self._connection.transaction() as connection:
                if merges:
                    self._merge(connection)
                self._put_header(connection)
                connection.executemany(_PUT_PART, rows)
        else:
            self._connection.write(_PUT_PARTS[len(rows)], [each for row in rows for each in row])
        self._small += sum(len(row[-1]) for row in rows)
        self._entries += 1
        self.records += records
        self._appended += 1
        if self._appended == LASTING_ENTRIES:
            self._connection.extend_wal()
        self._write_count()

    def _write_count(self) -> None:
        if self._count is not None:
            self._count.write(self._header["saves"], self.records)

    def _make_rows(
        self, first: int, records: int, runs: Any, parts: Mapping[int, Part]
    ) -> list[tuple[Any, ...]]:
        """Return the rows of an entry: its order and the records of each stream."""
        return [
            self._part(ORDER_PART, first, records, dump_runs(runs)),
            *(self._part(stream, first, *part) for stream, part in parts.items()),
        ]

    def _merge(self, connection: sqlite3.Connection) -> None:
        """Merge the small entries into one: it is a twentieth of their size, and faster to read.

        Those before the cut are left, since they are deleted soon; or, if they are kept, merged
        into one of their own.
        """
        are_large = self._entries > 0 and self._small > self._entries * LARGE_ENTRY
        if not are_large:
            self._merge_rows(connection, self._list_small("first >= ?"))
            if self.keeps_history:
                self._merge_rows(connection, self._list_small("first < ?"))
        (last,) = self._connection.row(_LAST_PART)
        self._put_header(connection, merged=last, records=self.records)
        self._small = self._entries = 0

    def _list_small(self, condition: str) -> list[Any]:
        """Return the small entries before, or after, the cut."""
        return self._connection.rows(
            f"{PARTS} WHERE id > ? AND {condition} ORDER BY id", self._header["merged"], self.cut
        )

    def _merge_rows(self, connection: sqlite3.Connection, rows: Sequence[Any]) -> None:
        """Replace entries that follow each other by one, in the place of the first."""
        if sum(row[1] == ORDER_PART for row in rows) < 2:
            return
        runs: list[pl.DataFrame] = []
        contents: dict[int, list[bytes]] = {}
        for row in rows:
            if row[1] == ORDER_PART:
                runs.append(load_runs(self.content(row)))
            else:
                contents.setdefault(row[1], []).append(self.content(row))
        first, last = rows[0][0], rows[-1][0]
        connection.execute("DELETE FROM parts WHERE id BETWEEN ? AND ?", (first, last))
        frames = {stream: load_records(each) for stream, each in contents.items()}
        merged = {
            each: Part(of.height, dump_frame(of, compress=True)) for each, of in frames.items()
        }
        order = pl.concat(runs)
        records = int(order.get_column("records").sum())
        entry = self._make_rows(rows[0][2], records, order.to_numpy(), merged)
        connection.executemany(_PLACE_PART, [(first + n, *part) for n, part in enumerate(entry)])

    # Checkpoint -----------------------------------------------------------------------------------

    def save(
        self,
        state: Sequence[Chunk],
        records: int,
        *,
        time: int | None,
        forget: Sequence[str] = (),
        kept: Sequence[Checkpoint] = (),
    ) -> None:
        """Replace the state of the run, and delete the entries that it covers.

        The states that the sinks of the queries ``forget`` had before their first rows are deleted
        in the transaction in which the new state becomes valid. The states of the checkpoints
        ``kept``, in order, stay, and the entries since the first of them.

        ``state`` is given in chunks, and covers ``records`` records, up to a cut. It is written in
        pieces, becomes valid in one transaction, and then the entries and the states that are not
        kept are deleted, some at a time. ``SpoolError`` if it cannot be written: the previous state
        is valid, and no entry is deleted.
        """
        number, count, size = self._header["saves"] + 1, 0, 0
        for piece in cut_pieces(state, MOST_PIECE):
            fact = self._fact(f"checkpoint {number}.{count}", piece)
            with self._turns:
                self._connection.write(_PUT_FACT, fact)
            count, size = count + 1, size + len(piece)
        facts = Checkpoint(records, count, number, time).to_dict()
        content = _json({**facts, "kept": [each.to_dict() for each in kept]})
        fact = self._fact("checkpoint", content)
        with self._turns:
            with self._connection.transaction() as connection:
                connection.execute(_PUT_FACT, fact)
                connection.executemany(_DELETE_FACT, [(f"sink {each}",) for each in forget])
                self._put_header(connection, records=self.records, saves=number)
                if kept:
                    self._merge(connection)
            self._saved = SavedState(monotonic(), size, records)
            self._write_count()
        self._delete_covered()

    def _delete_covered(self) -> None:
        """Delete what the checkpoint has made superfluous, in short transactions."""
        checkpoint = self.find_checkpoint()
        pieces = self._list_superfluous(checkpoint)
        for begin in range(0, len(pieces), PIECES_DELETED):
            with self._turns, self._connection.transaction() as connection:
                connection.executemany(_DELETE_FACT, pieces[begin : begin + PIECES_DELETED])
        while self._delete_entries(checkpoint.oldest):
            pass

    def _delete_entries(self, covered: int) -> bool:
        """Delete the oldest of the entries that are covered; return True if there may be more."""
        with self._turns, self._connection.transaction() as connection:
            oldest = connection.execute(_OLDEST_PARTS, (ENTRIES_DELETED,)).fetchall()
            gone = [number for number, first in oldest if first < covered]
            if gone:
                connection.execute("DELETE FROM parts WHERE id <= ?", (gone[-1],))
            if len(gone) == len(oldest):
                # ids begin anew in an empty table
                (last,) = connection.execute(_LAST_PART).fetchone()
                self._put_header(connection, merged=min(last, self._header["merged"]))
        return len(gone) == ENTRIES_DELETED

    def _list_superfluous(self, checkpoint: Checkpoint) -> list[tuple[str]]:
        """Return the names of the pieces of states that are neither valid nor kept."""
        found = self._connection.rows("SELECT name FROM facts WHERE name LIKE 'checkpoint %'")
        valid = {name for each in (checkpoint, *checkpoint.kept) for name in each.pieces}
        return [(name,) for (name,) in found if name not in valid]

    def save_sink(self, name: str, state: bytes) -> None:
        """Write the state of a query's sink before its first row, until there is a checkpoint."""
        with self._turns, self._connection.transaction() as connection:
            connection.execute(_PUT_FACT, self._fact(f"sink {name}", state))

    def load_sink(self, name: str) -> bytes | None:
        """Return what ``save_sink`` wrote; None if it was not called for this query."""
        return self.fact(f"sink {name}")

    def put_outputs(self, name: str, contents: Mapping[int, bytes]) -> None:
        """Write results of a query by their numbers, before its sink gets them."""
        facts = [self._fact(f"output {number} {name}", each) for number, each in contents.items()]
        with self._turns, self._connection.transaction() as connection:
            connection.executemany(_PUT_FACT, facts)

    def list_outputs(self, name: str, number: int) -> Iterator[bytes]:
        """Yield the results of a query from a number on, in order."""
        for each in sorted(self._find_outputs(name)):
            if each >= number and (content := self.fact(f"output {each} {name}")) is not None:
                yield content

    def delete_outputs(self, name: str, number: int) -> None:
        """Delete the results of a query before a number: a checkpoint covers them."""
        gone = [(f"output {each} {name}",) for each in self._find_outputs(name) if each < number]
        for begin in range(0, len(gone), PIECES_DELETED):
            with self._turns, self._connection.transaction() as connection:
                connection.executemany(_DELETE_FACT, gone[begin : begin + PIECES_DELETED])

    def _find_outputs(self, name: str) -> list[int]:
        with self._turns:
            found = self._connection.rows("SELECT name FROM facts WHERE name LIKE 'output %'")
        names = [each.split(" ", 2) for (each,) in found]
        return [int(number) for _, number, of in names if of == name]

    def load(self, checkpoint: Checkpoint | None = None) -> bytes | None:
        """Return a saved state, by default the last one; None if there is none.

        ``CheckpointError``: it is damaged.
        """
        checkpoint = checkpoint or self.find_checkpoint()
        try:
            pieces = [self.fact(name) for name in checkpoint.pieces]
        except SpoolError as error:
            raise CheckpointError(str(error)) from error
        if not pieces:
            return None
        state = b"".join(each for each in pieces if each is not None)
        self._saved = SavedState(self._saved.time, len(state), checkpoint.records)
        return state

    def diagnostics(self) -> StorageDiagnostics:
        """Return the current figures; asks the system for the size of the file."""
        saves = self._header.get("saves", 0)
        return diagnose_storage(
            self.file, self.records, self._saved, saves, resume=bool(self._header.get("resume"))
        )


def cut_pieces(chunks: Sequence[Chunk], size: int) -> Iterator[bytes]:
    """Yield the bytes of all chunks in pieces of this size; the last one may be smaller.

    >>> list(cut_pieces([b"abc", b"", b"defgh"], 4))
    [b'abcd', b'efgh']
    """
    waiting: list[Chunk] = []
    room = size
    for chunk in chunks:
        for begin in range(0, len(chunk), size):
            part = memoryview(chunk)[begin : begin + size]
            while len(part) >= room:
                yield b"".join([*waiting, part[:room]])
                part, waiting, room = part[room:], [], size
            waiting.append(part)
            room -= len(part)
    if room < size:
        yield b"".join(waiting)


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
