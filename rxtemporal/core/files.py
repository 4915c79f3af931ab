"""Private files that are written atomically, locks against a second writer, errors with hints."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

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
# of file systems without locks
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


@contextmanager
def report_errors(what: str) -> Iterator[None]:
    """Turn an ``OSError`` inside into a ``SpoolError`` with path, reason and hint.

    A broken connection is not of a file, but of a process, such as Spark's; it stays as it is.
    """
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        raise make_error(what, error) from error


def make_error(what: str, error: OSError) -> SpoolError:
    """Return a ``SpoolError`` with path, reason and hint for an error of the file system."""
    hint = _HINTS.get(error.errno or 0, "look at the device and at the rights on that path")
    where = f" ({error.filename})" if error.filename is not None else ""
    return SpoolError(f"{what}: {error.strerror or error}{where}. Hint: {hint}.")


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file; a new one can be read and written by this user alone, whatever the umask is.

    State has the rows of the run, which may be of people, and nothing but the run has to read it.
    An existing file stays as it is. This is an ``opener`` for ``open``, too.
    """
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def publish(path: Path, data: bytes, *, private: bool = True) -> None:
    """Write a file atomically: write aside, sync, rename; on failure leave nothing behind.

    The name itself is durable after ``sync_folder``. ``private``: for this user alone; else as the
    umask says.
    """
    aside = path.with_name(f".{path.name}.part")
    try:
        with open(aside, "wb", opener=open_private if private else None) as file:
            file.write(data)
            file.flush()
            sync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        remove(aside)
        raise


def take_name(aside: Path, path: Path) -> None:
    """Give a file a name; ``FileExistsError`` if there is a file of that name, whoever wrote it.

    The name itself is durable after ``sync_folder``.
    """
    try:
        os.link(aside, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: the name is taken by an empty file
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        try:
            os.replace(aside, path)
        except BaseException:
            remove(path)
            raise
    else:
        remove(aside)


def sync(handle: int) -> None:
    """Wait until all data written to a file is on disk."""
    os.fsync(handle)


def remove(path: Path) -> None:
    """Delete a file if it exists; ignore errors."""
    with contextlib.suppress(OSError):
        path.unlink()


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(path: Path, *, private: bool = True) -> None:
    """Make a folder and its parents if they do not exist; sync their names to disk.

    ``private``: those that are made are for this user alone; else as the umask says.
    """
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for made in reversed(missing):
        made.mkdir(0o700 if private else 0o777, exist_ok=True)
        # without its name in the parent, everything in the folder would be lost
        sync_folder(made.parent)
    path.mkdir(exist_ok=True)  # an error if it is a file


def lock_file(handle: int) -> None:
    """Lock an open file until all copies of the handle are closed, also those made by a fork.

    The kernel releases the lock when the processes end, however they end. ``BlockingIOError``:
    another handle has locked it; another ``OSError``: the file system has no locks.
    """
    try:
        # flock, not lockf: it also keeps out a second writer in the same process
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except PermissionError as error:  # the same, on some file systems
        raise BlockingIOError(*error.args) from error


def open_alone(path: Path) -> BinaryIO:
    """Open a file to be read and appended to, which no other writer has open; made if need be.

    A forked process neither holds its lock nor the file. Where the file system has no locks, other
    writers are not noticed. ``SpoolError``: another writer has it open.
    """
    # also to be read: where locks are mandatory, no other handle can do so
    file = path.open("a+b")
    try:
        lock_file(file.fileno())
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return file
        file.close()
        if not isinstance(error, BlockingIOError):
            raise
        raise SpoolError(
            f"{path} is being written by another writer, of this process or of another one. "
            "Hint: end that one first, or give each its own path."
        ) from error
    if not is_at(file, path):  # the writer before has renamed or removed it
        file.close()
        return open_alone(path)
    _files.add(file)
    return file


def is_at(file: BinaryIO, path: Path) -> bool:
    """Return True if an open file is the one at a path, and no other one is there by now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


class WriterLock:
    """Lock file that one process at a time holds, with the pid of that process.

    The kernel releases it when the process ends, however it ends. A forked process does not hold
    it. ``SpoolError`` if another writer holds it.
    """

    def __init__(self, path: Path) -> None:
        self._handle = open_private(path, os.O_RDWR | os.O_CREAT)
        try:
            try:
                lock_file(self._handle)
            except BlockingIOError as error:
                holder = os.read(self._handle, 32).decode(errors="replace").strip() or "unknown"
                raise SpoolError(
                    f"{path.parent} is being written by the process with pid {holder}. Hint: end "
                    "that one first, or give this run its own path."
                ) from error
            os.ftruncate(self._handle, 0)
            os.write(self._handle, str(os.getpid()).encode())
        except BaseException:
            # on a full disk: if not released, the lock would keep out this process, too
            self.release()
            raise
        _held.add(self)

    @property
    def held(self) -> bool:
        """True while this process holds the lock."""
        return self._handle >= 0

    def release(self) -> None:
        """Release the lock; idempotent."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()
_files: weakref.WeakSet[BinaryIO] = weakref.WeakSet()


def _let_go() -> None:
    """Close the copies made by a fork: they would hold the lock after the end of its owner."""
    for lock in list(_held):
        lock.release()
    for file in list(_files):
        if not file.closed:
            # not closed: another thread may have been writing, and the number would be used again
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, file.fileno(), inheritable=False)
            os.close(null)


os.register_at_fork(after_in_child=_let_go)
