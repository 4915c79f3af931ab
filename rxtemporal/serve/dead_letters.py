"""Dead letters: what a service has refused, in files of a folder with a size limit."""

from __future__ import annotations

import dataclasses
import os
import re
import threading
from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rxtemporal.core.files import make_folder, open_private
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import encodable
from rxtemporal.serve.responses import dumps
from rxtemporal.serve.settings import DeadLetterSettings

_log = get_logger(__name__)

# the names of senders and streams are in the lines alone
_NAME = re.compile(r"dead-letters-(\d{12})\.jsonl")


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetter:
    """A row or a whole body that was refused; ``index`` is the number of a row in its body."""

    stream: str
    source: str | None
    index: int | None
    reason: str
    raw: bytes

    def to_line(self, time: datetime, most: int) -> bytes:
        """Return the letter as a line of JSON, with at most so many of its raw bytes.

        They stand in ``text``, or in ``base64`` if they are not UTF-8.
        """
        raw = self.raw[:most]
        letter: dict[str, Any] = {
            "time": time,
            "stream": encodable(self.stream),
            "source": None if self.source is None else encodable(self.source),
            "reason": encodable(self.reason),
        }
        if self.index is not None:
            letter["index"] = self.index
        if len(raw) < len(self.raw):
            letter["bytes"] = len(self.raw)
        letter.update(show_bytes(raw))
        return dumps(letter) + b"\n"


def show_bytes(raw: bytes) -> dict[str, str]:
    """Return bytes as a text, or in base64 if they are not UTF-8.

    >>> show_bytes(b"{"), show_bytes(bytes([255]))
    ({'text': '{'}, {'base64': '/w=='})
    """
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(raw).decode()}


class DeadLetters:
    """Files of dead letters: JSON lines, the oldest file dropped when all have too many bytes.

    ``write`` returns when the letters are in the file, so that they outlive the process; they are
    not synchronized to disk, and may be lost with the machine. A folder that cannot be written is
    logged and counted: it stops nobody. Threads: any.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     letters = DeadLetters(DeadLetterSettings(folder=Path(folder)))
    ...     letters.write([DeadLetter("readings", "device 7", 0, "it has no time", b"{}")])
    ...     letters.close()
    ...     [path.name for path in Path(folder).iterdir()]
    ['dead-letters-000000000001.jsonl']
    """

    def __init__(self, settings: DeadLetterSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._file: int | None = None
        self._number = self._size = 0
        # the sizes of the finished files, the oldest first
        self._files: dict[Path, int] = {}
        self.written = self.failed = self.files_dropped = 0
        if settings.folder is not None and settings.folder.is_dir():
            for path in sorted(settings.folder.iterdir()):
                if found := _NAME.fullmatch(path.name):
                    self._number = int(found[1])
                    self._files[path] = path.stat().st_size

    @property
    def is_kept(self) -> bool:
        """True if there is a folder."""
        return self._settings.folder is not None

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Write letters at the end of the newest file."""
        if not self.is_kept:
            return
        now, most = datetime.now(UTC), self._settings.file_bytes // 2
        lines = [letter.to_line(now, most) for letter in letters]
        with self._lock:
            try:
                for line in lines:
                    self._write(line)
                    self.written += 1
            except OSError as error:
                self.failed += 1
                self._close_file()
                _log.error(
                    "dead_letters.failed",
                    folder=self._settings.folder,
                    error=str(error),
                    hint="the rows are in the receipts alone; another folder takes those to come",
                )

    def _write(self, line: bytes) -> None:
        if self._file is None or self._size + len(line) > self._settings.file_bytes:
            self._open_file()
        assert self._file is not None
        while line:
            count = os.write(self._file, line)
            self._size += count
            line = line[count:]

    def _open_file(self) -> None:
        self._close_file()
        make_folder(self._path().parent)
        self._number += 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self._file = open_private(self._path(), flags)
        self._drop_oldest()

    def _path(self) -> Path:
        assert self._settings.folder is not None
        return self._settings.folder / f"dead-letters-{self._number:012}.jsonl"

    def _drop_oldest(self) -> None:
        """Make room for one whole file."""
        most = max(0, self._settings.bytes - self._settings.file_bytes)
        while self._files and sum(self._files.values()) > most:
            path = next(iter(self._files))
            path.unlink(missing_ok=True)
            del self._files[path]
            self.files_dropped += 1
            _log.warning(
                "dead_letters.dropped",
                file=path,
                files=self.files_dropped,
                hint="the newest letters are kept: more of them with a larger bytes",
            )

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._files[self._path()] = self._size
        self._file, self._size = None, 0

    def close(self) -> None:
        """Close the newest file; a letter that is written afterwards begins another one."""
        with self._lock:
            self._close_file()
