"""The event log and the checkpoint of one run, in one SQLite file of the run's folder.

::

    run.sqlite   the file; while a run writes it, with a write-ahead log (WAL), ``run.sqlite-wal``
    run.sqlite-records   how many records have been acknowledged, see ``database``
    lock         held by the process that writes

    facts        name, content: ``header`` (JSON: format, id, name, ``open``, ``complete``,
                 ``saves``, the number of checkpoints so far, its streams), ``schema 1`` (the
                 declared fields of stream 1), ``checkpoint`` (JSON: its number, how many records
                 it covers, how many pieces it has, its time, and the same of those that are kept
                 before it), ``checkpoint 7.0`` (the first piece of the run's state at checkpoint
                 7), ``sink query`` (the state of that query's sink before its first row)
    parts        stream, first, records, content: an entry is a part for the order (stream -1) and
                 one for each stream with records

1. Records are numbered in the order in which they were accepted, over all streams. ``first`` is the
   number of an entry's first record. Entries are contiguous from the first record that the
   checkpoint does not cover, or the oldest that is kept.
2. An entry is one transaction. A checkpoint is many: its pieces are written, then the fact
   ``checkpoint`` makes them valid, then the pieces of the state before and the entries that it
   covers are deleted, unless they are kept. It covers an entry whole or not at all. What an
   interrupted one leaves is deleted when the next run begins.
3. Each content has a CRC-32 that includes the file's id and its name or its numbers, so a page of
   another file, or an older page, does not fit. All of them are checked when a run opens the file,
   and again when they are read.
4. ``open`` in the header is true from before the first entry until the file is closed. If it is
   true and there is no WAL, the WAL was lost.

5. The content of a stream's part is a frame, as an Arrow IPC stream; one of a few events is JSON,
   see ``plain_records``.

Formats 1 and 2 are read as well, and continued as they are: they have no JSON, and the checksums of
format 1 are without the id.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import load_frame
from rxtemporal.errors import CheckpointError
from rxtemporal.storage.event_log.columns import load_records
from rxtemporal.storage.event_log.database import Database, damage_error
from rxtemporal.storage.event_log.layout import ORDER_FIELDS, StreamFacts

FILE = "run.sqlite"
FORMAT = 3
FORMATS = (1, 2, 3)
# the first one whose entries may be JSON
PLAIN_FORMAT = 3
TABLES = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, crc INTEGER NOT NULL, content BLOB NOT NULL)",
    "CREATE TABLE parts (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, first INTEGER NOT NULL,"
    " records INTEGER NOT NULL, crc INTEGER NOT NULL, content BLOB NOT NULL)",
)
# the part with the order of records: pairs of a stream and a number of records
ORDER_PART = -1
PARTS = "SELECT id, stream, first, records, crc, content FROM parts"

_NUMBERS = struct.Struct("<qqq")
_RUN = np.dtype("<i4")


class Checkpoint(NamedTuple):
    """Number of the records that a checkpoint covers, and of its pieces, its number and its time.

    ``time`` is None in the file of an earlier release. ``kept`` are checkpoints before this one,
    with the entries after the oldest of them. One of no pieces is the beginning of a run.
    """

    records: int
    size: int
    save: int | None = None
    time: int | None = None
    kept: tuple[Checkpoint, ...] = ()

    @property
    def pieces(self) -> list[str]:
        """The names of the pieces."""
        mark = "" if self.save is None else f"{self.save}."
        return [f"checkpoint {mark}{number}" for number in range(self.size)]

    @property
    def oldest(self) -> int:
        """The number of the first record that is kept."""
        return min((each.records for each in self.kept), default=self.records)

    def to_dict(self) -> dict[str, Any]:
        """Return what the fact ``checkpoint`` says of it."""
        facts = {"records": self.records, "pieces": self.size, "save": self.save}
        return {**facts, "time": self.time}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Checkpoint:
        """Return the checkpoint that the fact describes."""
        kept = tuple(cls.from_dict(each) for each in facts.get("kept", ()))
        return cls(facts["records"], facts["pieces"], facts.get("save"), facts.get("time"), kept)


BEGINNING = Checkpoint(0, 0, None, MIN_TIME)


class StoredLog:
    """Reader of the file, for its writer or while no process writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / FILE
        # what all checksums but that of the header begin with
        self._seed: bytes | None = None

    def header(self) -> dict[str, Any]:
        """Return the header of the file; ``streams`` as ``StreamFacts``.

        ``CheckpointError``: the file is of another version.
        """
        header = json.loads(self.fact("header") or b"{}")
        if header.get("format") not in FORMATS:
            raise CheckpointError(
                f"{self.file} has the format {header.get('format')!r}, but this version reads "
                f"{FORMAT}. Hint: use the version that wrote it, or begin with a new folder."
            )
        self._seed = b"" if header["format"] == 1 else header["id"].encode()
        return {**header, "streams": [StreamFacts.from_dict(each) for each in header["streams"]]}

    def schema(self, stream: int) -> pl.Schema | None:
        """Return the declared fields of a stream; None if its events define them."""
        content = self.fact(f"schema {stream}")
        return None if content is None else load_frame(content).schema

    def runs(self) -> Iterator[pl.DataFrame]:
        """Yield the runs of records (``stream``, ``records``) in order, an entry at a time.

        Like ``frames``, without those that the checkpoint covers.
        """
        return map(load_runs, self._contents(ORDER_PART))

    def frames(self, stream: int, *, newest: bool = False) -> Iterator[pl.DataFrame]:
        """Yield the records of a stream, an entry at a time; ``newest``: the last one first."""
        return (load_records([each]) for each in self._contents(stream, newest=newest))

    def fact(self, name: str) -> bytes | None:
        """Return the content stored under a name; None if there is none."""
        with self.connect() as database:
            row = database.row("SELECT crc, content FROM facts WHERE name = ?", name)
        if row is not None and row[0] != self.sum_fact(name, row[1]):
            raise damage_error(self.file, f"the checksum of the {name} does not fit")
        return None if row is None else row[1]

    def _contents(self, stream: int, *, newest: bool = False) -> Iterator[bytes]:
        at, step = (2**62, "< ? ORDER BY id DESC") if newest else (0, "> ? ORDER BY id")
        query = f"{PARTS} WHERE stream = ? AND first >= ? AND id {step} LIMIT 1"
        covered = self.find_checkpoint().records
        while True:
            # one at a time: a statement that stays open keeps the WAL from being emptied, and a
            # connection the file from being closed by a run that has ended
            with self.connect() as database:
                row = database.row(query, stream, covered, at)
            if row is None:
                return
            at = row[0]
            yield self.content(row)

    def find_checkpoint(self) -> Checkpoint:
        """Return the checkpoint; one of no records and no pieces if there is none."""
        content = self.fact("checkpoint")
        return BEGINNING if content is None else Checkpoint.from_dict(json.loads(content))

    def content(self, row: Sequence[Any]) -> bytes:
        """Return the content of a part, its checksum verified."""
        _, stream, first, records, crc, content = row
        if crc != self.sum_part(stream, first, records, content):
            whose = "the order" if stream == ORDER_PART else f"stream {stream}"
            raise damage_error(
                self.file, f"the checksum of the records from {first:,} of {whose} does not fit"
            )
        return bytes(content)

    def sum_part(self, stream: int, first: int, records: int, content: Any) -> int:
        """Return the checksum of a part."""
        return checksum(content, self._get_seed() + _NUMBERS.pack(stream, first, records))

    def sum_fact(self, name: str, content: Any) -> int:
        """Return the checksum of a fact."""
        return checksum(content, (b"" if name == "header" else self._get_seed()) + name.encode())

    def _get_seed(self) -> bytes:
        if self._seed is None:
            self.header()
        assert self._seed is not None
        return self._seed

    def connect(self) -> AbstractContextManager[Database]:
        """Return a context of a connection to the file."""
        return closing(Database(self.file, "read"))


def checksum(content: Any, name: bytes) -> int:
    """Return the CRC-32 of a content and its name; -1 if the content is not bytes."""
    return zlib.crc32(content, zlib.crc32(name)) if isinstance(content, bytes) else -1


def dump_runs(runs: Any) -> bytes:
    """Return runs of records, pairs of a stream and a number of records, as bytes.

    >>> load_runs(dump_runs([[0, 2], [1, 7]])).rows()
    [(0, 2), (1, 7)]
    """
    return np.asarray(runs, _RUN).tobytes()


def load_runs(content: bytes) -> pl.DataFrame:
    """Return the runs from the result of ``dump_runs``, as a frame."""
    runs = np.frombuffer(content, _RUN).astype(np.int32).reshape(-1, 2)
    return pl.DataFrame(runs, schema=ORDER_FIELDS)
