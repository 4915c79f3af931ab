"""Number of the records that a run has acknowledged, in a file beside the run's own.

SQLite reads a write-ahead log whose end was cut off, or damaged, as one that ends earlier; and an
older copy of a run's file is whole by itself. The numbers are written after each commit, so they
are never ahead of the run's file, and a run's file with lower ones has lost something. They are not
synced: after a crash of the machine they may be too low, and then they find less.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from rxtemporal.storage.event_log.database import damage_error, raise_explained
from rxtemporal.storage.files import open_private

_CONTENT = struct.Struct("<32sqqI")


class RecordCount(NamedTuple):
    """The id of a run's file, and how many checkpoints and records it has had.

    A recording has one, too; there ``saves`` counts how often its header was written.
    """

    id: bytes = b""
    saves: int = 0
    records: int = 0

    def check_id(self, file: Path, name: str) -> None:
        """Raise if a run's file has another id."""
        if self.id not in (b"", name.encode()):
            raise damage_error(file, f"it belongs to another run than {count_path(file).name}")

    def check_records(self, file: Path, records: int) -> None:
        """Raise if a file has fewer records."""
        if records < self.records:
            lost = f"of {self.records:,} records that were acknowledged it has {records:,}"
            raise damage_error(file, lost)

    def check_saves(self, file: Path, saves: int) -> None:
        """Raise if a file was saved less often, and so is older."""
        if saves < self.saves:
            beside = f"by {count_path(file).name} it was saved {self.saves:,} times"
            raise damage_error(file, f"it is an older copy, saved {saves:,} times; {beside}")


def count_path(file: Path) -> Path:
    """Return the path of the count beside a run's file."""
    return file.with_name(f"{file.name}-records")


def load_count(file: Path) -> RecordCount:
    """Return the count beside a run's file; zeros, which any file has, if it is missing or torn."""
    try:
        content = count_path(file).read_bytes()
    except FileNotFoundError:
        return RecordCount()
    if len(content) == _CONTENT.size:
        *values, crc = _CONTENT.unpack(content)
        if crc == zlib.crc32(content[:-4]):
            return RecordCount(*values)
    return RecordCount()


class CountFile:
    """Writer of the file ``run.sqlite-records``, for the run that holds the run's file."""

    def __init__(self, file: Path, name: str) -> None:
        self._file = file
        self._id = name.encode()
        self._handle = open_private(count_path(file), os.O_RDWR | os.O_CREAT)

    def write(self, saves: int, records: int) -> None:
        """Write how many checkpoints and records are durable."""
        content = _CONTENT.pack(self._id, saves, records, 0)[:-4]
        try:
            os.pwrite(self._handle, content + struct.pack("<I", zlib.crc32(content)), 0)
        except OSError as error:
            raise_explained(error, f"cannot write beside {self._file}", self._file)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
