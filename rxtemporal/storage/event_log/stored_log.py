"""The event log and the checkpoint of one run, in one SQLite file of the run's folder.

::

    run.sqlite   the file; while a run writes it, with a write-ahead log (WAL), ``run.sqlite-wal``
    run.sqlite-records   how many records have been acknowledged, see ``RecordCount``
    lock         held by the process that writes

    facts        name, content: ``header`` (JSON: format, id, name, ``open``, ``complete``, its
                 streams), ``schema 1`` (the declared fields of stream 1), ``checkpoint`` (JSON:
                 the number of records it covers, and of its pieces), ``checkpoint 0`` (the first
                 piece of the run's state)
    parts        stream, first, records, content: an entry is a part for the order (stream -1) and
                 one for each stream with records

1. Records are numbered in the order in which they were accepted, over all streams. ``first`` is the
   number of an entry's first record. Entries are contiguous from the first record that the
   checkpoint does not cover.
2. An entry is one transaction. So is a checkpoint, which deletes the entries that it covers.
3. Each content has a CRC-32 that includes its name or its numbers. All of them are checked when a
   run opens the file, and again when they are read.
4. ``open`` in the header is true from before the first entry until the file is closed. If it is
   true and there is no WAL, the WAL was lost.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.engine.codec import load_frame
from rxtemporal.errors import SpoolError
from rxtemporal.storage.event_log.database import Database, damage_error
from rxtemporal.storage.event_log.layout import ORDER_FIELDS, StreamFacts

FILE = "run.sqlite"
FORMAT = 1
# the part with the order of records: pairs of a stream and a number of records
ORDER_PART = -1
PARTS = "SELECT id, stream, first, records, crc, content FROM parts"

_NUMBERS = struct.Struct("<qqq")
_RUN = np.dtype("<i4")


class StoredLog:
    """Reader of the file, for its writer or while no process writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / FILE

    def header(self) -> dict[str, Any]:
        """Return the header of the file; ``streams`` as ``StreamFacts``."""
        header = json.loads(self.fact("header") or b"{}")
        if header.get("format") != FORMAT:
            raise SpoolError(
                f"{self.file} has the format {header.get('format')!r}, but this version reads "
                f"{FORMAT}. Hint: use the version that wrote it, or begin with a new folder."
            )
        return {**header, "streams": [StreamFacts.from_dict(each) for each in header["streams"]]}

    def schema(self, stream: int) -> pl.Schema | None:
        """Return the declared fields of a stream; None if its events define them."""
        content = self.fact(f"schema {stream}")
        return None if content is None else load_frame(content).schema

    def runs(self) -> Iterator[pl.DataFrame]:
        """Yield the runs of records (``stream``, ``records``) in order, an entry at a time."""
        return map(load_runs, self._contents(ORDER_PART))

    def frames(self, stream: int, *, newest: bool = False) -> Iterator[pl.DataFrame]:
        """Yield the records of a stream, an entry at a time; ``newest``: the last one first."""
        return map(load_frame, self._contents(stream, newest=newest))

    def fact(self, name: str) -> bytes | None:
        """Return the content stored under a name; None if there is none."""
        with self._get_database() as database:
            row = database.row("SELECT crc, content FROM facts WHERE name = ?", name)
        if row is not None and row[0] != checksum(row[1], name.encode()):
            raise damage_error(self.file, f"the checksum of the {name} does not fit")
        return None if row is None else row[1]

    def _contents(self, stream: int, *, newest: bool = False) -> Iterator[bytes]:
        at, step = (2**62, "< ? ORDER BY id DESC") if newest else (0, "> ? ORDER BY id")
        query = f"{PARTS} WHERE stream = ? AND id {step} LIMIT 1"
        while True:
            # one at a time: a statement that stays open keeps the WAL from being emptied, and a
            # connection the file from being closed by a run that has ended
            with self._get_database() as database:
                row = database.row(query, stream, at)
            if row is None:
                return
            at = row[0]
            yield self._content(row)

    def _content(self, row: Sequence[Any]) -> bytes:
        """Return the content of a part, its checksum verified."""
        _, stream, first, records, crc, content = row
        if crc != checksum(content, _NUMBERS.pack(stream, first, records)):
            raise damage_error(
                self.file, f"the checksum of the records from {first:,} does not fit"
            )
        return bytes(content)

    def _get_database(self) -> AbstractContextManager[Database]:
        return closing(Database(self.file, writes=False))


def checksum(content: Any, name: bytes) -> int:
    """Return the CRC-32 of a content and its name; -1 if the content is not bytes."""
    return zlib.crc32(content, zlib.crc32(name)) if isinstance(content, bytes) else -1


def part_values(stream: int, first: int, records: int, content: bytes) -> tuple[Any, ...]:
    """Return the columns of a part."""
    crc = checksum(content, _NUMBERS.pack(stream, first, records))
    return stream, first, records, crc, content


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
