"""Files that are there wholly or not at all, a lock against a second writer, errors that help."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rxtemporal.errors import SpoolError

_FULL = "free some space there; what was written before is intact, and the same run can be repeated"
_DENIED = "give this user the right to write there, or choose another path"
_NO_FOLDER = "a part of that path is a file; choose another path"
_HINTS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or choose another path",
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: "that file system is read-only; choose another path",
    errno.ENOTDIR: _NO_FOLDER,
    errno.EEXIST: _NO_FOLDER,
    errno.EXDEV: "a folder and what lies beside it have to be on one file system",
}


@contextmanager
def report_errors(what: str) -> Iterator[None]:
    """Turn an ``OSError`` inside into a ``SpoolError`` that says path, reason and what to do."""
    try:
        yield
    except OSError as error:
        hint = _HINTS.get(error.errno or 0, "look at the device and at the rights on that path")
        where = f" ({error.filename})" if error.filename is not None else ""
        reason = error.strerror or str(error)
        raise SpoolError(f"{what}: {reason}{where}. Hint: {hint}.") from error


def publish(path: Path, data: bytes) -> None:
    """Give ``path`` these bytes in one step: write aside, sync, rename; on failure leave nothing.

    The name itself is on disk after ``sync_folder``.
    """
    aside = path.with_name(f".{path.name}.part")
    try:
        with open(aside, "wb") as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        remove(aside)
        raise


def sync(handle: int) -> None:
    """Have what was written to a file on disk before anything else happens."""
    os.fsync(handle)


def remove(path: Path) -> None:
    """Delete a file if it is there and if that can be done."""
    with contextlib.suppress(OSError):
        path.unlink()


def sync_folder(path: Path) -> None:
    """Have the names in a folder on disk before anything else happens."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, if they are not there; their names are on disk then."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for made in missing:
        # a folder is a name in the one above: without it all that it holds would be out of reach
        sync_folder(made.parent)


class WriterLock:
    """A file that one process at a time holds, and that says which.

    The kernel lets go of it when its process ends, however it ends. A process forked from it does
    not hold it. ``SpoolError`` if it is held.
    """

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            # flock, not lockf: it also keeps out a second writer in the same process
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._handle)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise SpoolError(
                f"{path.parent} is being written by the process with pid {holder}. Hint: end that "
                "one first, or give this run a path of its own."
            ) from error
        try:
            os.ftruncate(self._handle, 0)
            os.write(self._handle, str(os.getpid()).encode())
        except BaseException:
            # on a full disk: held by nobody, it would keep out this process too
            self.release()
            raise
        _held.add(self)

    @property
    def held(self) -> bool:
        """True while this process holds the lock."""
        return self._handle >= 0

    def release(self) -> None:
        """Let another writer in; doing it twice does no harm."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _let_go() -> None:
    """Close the copies that a fork has made: they would hold the lock after its owner's end."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_let_go)
