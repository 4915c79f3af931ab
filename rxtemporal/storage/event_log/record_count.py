"""Number of the records that a run has acknowledged, in a file beside the run's own.

SQLite reads a write-ahead log whose end was cut off, or damaged, as one that ends earlier. The
number is written after each commit, so it is never ahead of the run's file, and a run's file with
fewer records has lost some. It is not synced: after a crash of the machine it may be too low, and
then it finds less.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from rxtemporal.storage.event_log.database import damage_error, explain_errors

_CONTENT = struct.Struct("<32sqI")


class RecordCount:
    """The file ``run.sqlite-records``: the id of the run's file, and a number of its records.

    Without the file, or with one that is torn, ``records`` is 0, which any file has.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        path = file.with_name(f"{file.name}-records")
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._id = b""
        self.records = 0
        content = os.pread(self._handle, _CONTENT.size, 0)
        if len(content) == _CONTENT.size:
            name, records, crc = _CONTENT.unpack(content)
            if crc == zlib.crc32(content[:-4]):
                self._id, self.records = name, records

    def check(self, name: str, records: int) -> None:
        """Refuse a file of another id, or with fewer records; continue from its number."""
        if self._id not in (b"", name.encode()):
            raise damage_error(self._file, "it belongs to another run")
        if records < self.records:
            lost = f"of {self.records:,} records that were acknowledged it has {records:,}"
            raise damage_error(self._file, lost)
        self._id = name.encode()
        self.raise_to(records)

    def raise_to(self, records: int) -> None:
        """Write the number of durable records."""
        self.records = records
        content = _CONTENT.pack(self._id, records, 0)[:-4]
        with explain_errors(f"cannot write beside {self._file}", self._file):
            os.pwrite(self._handle, content + struct.pack("<I", zlib.crc32(content)), 0)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
