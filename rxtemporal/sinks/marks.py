"""Marks of files: which run has written one last, and up to where.

A mark is an extended attribute, so it is neither beside a file nor in what its readers see, and it
is there whenever the bytes are that were written after it, however the process ended. A file has no
mark on a file system without such attributes, nor if an earlier version or another program wrote it
or a copy has left the mark out.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

_NAME = "user.rxtemporal.run"
# of file systems without attributes, or that keep them from this user
_NO_MARKS = {errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EACCES}


class WriterMark(NamedTuple):
    """The id of a run, when it began to write the file and how long the file was then, and after.

    ``saves`` counts the states that it had saved before. ``end`` is the length of the file when the
    run closed it; None: it did not.
    """

    run: str
    saves: int = 0
    begin: int = 0
    end: int | None = None

    @classmethod
    def find(cls, path: Path) -> Self | None:
        """Return the mark of a file, if it has one."""
        if not hasattr(os, "getxattr"):
            return None
        with suppress(OSError, ValueError):
            run, saves, begin, end = os.getxattr(path, _NAME).decode().split(" ")
            return cls(run, int(saves), int(begin), int(end) if end else None)
        return None

    def covers(self, run: str, length: int) -> bool:
        """Return True if so many bytes may be of the run: no one else has marked or added some."""
        return self.run == run and (self.end is None or length <= self.end)

    def write(self, handle: int) -> None:
        """Mark a file that is open, if it can have a mark."""
        if not hasattr(os, "setxattr"):
            return
        end = "" if self.end is None else self.end
        try:
            os.setxattr(handle, _NAME, f"{self.run} {self.saves} {self.begin} {end}".encode())
        except OSError as error:
            if error.errno not in _NO_MARKS:
                raise
