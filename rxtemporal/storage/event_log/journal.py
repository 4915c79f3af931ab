"""A file that entries are appended to, each with one sync: what has not become segments yet.

::

    number (8 bytes)  length (4)  CRC-32 of the content (4)  CRC-32 of these three (4)  content

Little-endian. A segment costs several files and syncs; what is acknowledged one by one cannot wait
for that many. An entry that the end of the file cuts off was never acknowledged and is forgotten;
one that is there in full and does not fit its checksum is damage.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from rxtemporal.core.log import get_logger
from rxtemporal.errors import SpoolError
from rxtemporal.storage.files import reported, sync, sync_folder

_HEAD = struct.Struct("<QIII")
_FACTS = struct.Struct("<QII")

_log = get_logger(__name__)


class Journal:
    """Entries with ascending numbers, appended by one writer; who opens it keeps others out.

    ``size`` is how many bytes its entries have. Not for two threads at once.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> journal = Journal(Path(folder.name) / "journal")
    >>> journal.append(0, b"first"), list(journal.entries())
    (None, [(0, b'first')])
    >>> journal.close()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with reported(f"cannot open {path}"):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            sync_folder(path.parent)
            self.size = os.fstat(self._handle).st_size
        try:
            self.size = sum(_HEAD.size + len(content) for _, content in self.entries())
            with reported(f"cannot write {path}"):
                os.ftruncate(self._handle, self.size)
        except BaseException:
            self.close()
            raise

    def append(self, number: int, content: bytes) -> None:
        """Put an entry behind the others; it is on disk afterwards.

        ``SpoolError`` if it cannot be written: what was there before is as it was.
        """
        facts = _FACTS.pack(number, len(content), zlib.crc32(content))
        data = memoryview(facts + struct.pack("<I", zlib.crc32(facts)) + content)
        with reported(f"cannot write {self.path}"):
            try:
                done = 0
                while done < len(data):
                    done += os.pwrite(self._handle, data[done:], self.size + done)
                sync(self._handle)
            except BaseException:
                # what follows must not stand behind half an entry
                os.ftruncate(self._handle, self.size)
                raise
        self.size += len(data)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield numbers and contents; ``SpoolError`` where bytes have changed."""
        place = 0
        while place < self.size:
            with reported(f"cannot read {self.path}"):
                head = os.pread(self._handle, _HEAD.size, place)
            if len(head) < _HEAD.size or not any(head):  # some file systems leave zeros
                break
            number, length, crc, check = _HEAD.unpack(head)
            if zlib.crc32(head[: _FACTS.size]) != check:
                raise self._damaged(place)
            with reported(f"cannot read {self.path}"):
                content = _read(self._handle, length, place + _HEAD.size)
            if len(content) < length:
                break
            if zlib.crc32(content) != crc:
                raise self._damaged(place)
            yield number, content
            place += _HEAD.size + length
        if place < self.size:
            _log.warning(
                "an entry was cut off by a crash before it was acknowledged, and is left out",
                path=str(self.path),
                bytes=self.size - place,
            )

    def clear(self) -> None:
        """Delete all entries: they stand elsewhere now."""
        with reported(f"cannot write {self.path}"):
            os.ftruncate(self._handle, 0)
            sync(self._handle)
        self.size = 0

    def close(self) -> None:
        """Let go of the file; doing it twice does no harm."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _damaged(self, place: int) -> SpoolError:
        return SpoolError(
            f"{self.path} is damaged at byte {place:,}: a checksum does not fit. Hint: a file was "
            "changed after it was written; restore the folder from a copy, or begin a new one."
        )


def _read(handle: int, length: int, place: int) -> bytes:
    parts, got = [], 0
    while got < length and (part := os.pread(handle, length - got, place + got)):
        parts.append(part)
        got += len(part)
    return b"".join(parts)
