"""SQLite file that one process writes: durable transactions, and errors with hints."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sqlite3
import struct
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from rxtemporal.core.files import make_error, open_private
from rxtemporal.errors import SpoolError

# every commit is on disk before it returns
SYNCHRONOUS = "FULL"
# SQLite copies the WAL into the file when it has 1,000 frames, and begins anew
WAL_SIZE = 32 + 1_024 * (24 + 4_096)
# SQLite's errors of the file system, as error numbers of the system
_ERRNOS = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EROFS,
    sqlite3.SQLITE_PERM: errno.EACCES,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_IOERR: errno.EIO,
    sqlite3.SQLITE_BUSY: errno.EBUSY,
    sqlite3.SQLITE_LOCKED: errno.EBUSY,
}


def damage_error(path: Path, what: str, folder: Path | None = None) -> SpoolError:
    """Return the error that names a damaged file, and says what can be had.

    ``folder`` is that of the run, by default the one that the file is in.
    """
    return SpoolError(
        f"{path} is damaged: {what}. Hint: a file was changed or lost after it was written; "
        f"restore the folder from a copy, or begin with a new one. rxtemporal inspect "
        f"{folder or path.parent} --salvage OUT says what is lost, and copies what is whole."
    )


class Database:
    """Connection to an existing SQLite file; errors are raised as ``SpoolError``.

    To ``write``, it keeps a write-ahead log (WAL) beside the file and locks the file. To ``check``,
    it reads file and WAL and changes neither; it leaves an index of the WAL beside them. To
    ``read``, it reads the file alone and takes no lock, so no process may write meanwhile.

    Threads: any, one transaction at a time.
    """

    def __init__(self, path: Path, use: Literal["write", "check", "read"]) -> None:
        self.path = path
        self._forked = False
        self._writes = use == "write"
        self._lock = threading.RLock()
        mode = {"write": "mode=rw", "check": "mode=ro", "read": "mode=ro&immutable=1"}[use]
        with explain_errors(f"cannot open {path}", path):
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?{mode}",
                uri=True, isolation_level=None, check_same_thread=False,
            )  # fmt: skip
        _open.add(self)
        try:
            if self._writes:
                self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        self.row("PRAGMA locking_mode = EXCLUSIVE")
        self.row("PRAGMA journal_mode = WAL")
        self.row(f"PRAGMA synchronous = {SYNCHRONOUS}")
        # deleted content need not be overwritten
        self.row("PRAGMA secure_delete = OFF")
        # a large checkpoint leaves a large WAL
        self.row("PRAGMA journal_size_limit = 16777216")

    def row(self, sql: str, *values: Any) -> Any:
        """Return the first row of a statement's result; None without one."""
        self._refuse_fork()
        with self._lock, explain_errors(f"cannot read {self.path}", self.path):
            return self._connection.execute(sql, values).fetchone()

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Return all rows of a statement's result."""
        self._refuse_fork()
        with self._lock, explain_errors(f"cannot read {self.path}", self.path):
            return self._connection.execute(sql, values).fetchall()

    def write(self, sql: str, values: Sequence[Any]) -> None:
        """Run one statement as a transaction of its own, which is durable afterwards."""
        self._refuse_fork()
        with self._lock:
            try:  # each push may write; a context would take as long again
                self._connection.execute(sql, values)
            except FAULTS as error:
                raise_explained(error, f"cannot write {self.path}", self.path)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction: commit durably on exit, roll back on an exception."""
        self._refuse_fork()
        with self._lock, explain_errors(f"cannot write {self.path}", self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # on a full disk SQLite may have rolled back already
                with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
                    self._connection.execute("ROLLBACK")
                raise

    def copy_wal(self) -> None:
        """Copy the WAL into the file, durably; the WAL stays."""
        self.row("PRAGMA wal_checkpoint(FULL)")

    def extend_wal(self) -> None:
        """Give the WAL the size that it grows to, so that no commit makes it longer.

        A sync also has to write the new size of a file that has grown, which takes half as long
        again. SQLite takes zeros at the end for frames that are not written yet. If there is no
        room for them, the WAL stays as it is.
        """
        path = wal_path(self.path)
        with self._lock, contextlib.suppress(OSError), open(path, "r+b", buffering=0) as wal:
            size = os.fstat(wal.fileno()).st_size
            missing = max(0, WAL_SIZE - size)
            try:
                extended = os.pwrite(wal.fileno(), bytes(missing), size) == missing
                os.fsync(wal.fileno())
            except OSError:
                extended = False
            if not extended:
                os.ftruncate(wal.fileno(), size)

    def close(self, *, keep_wal: bool = False) -> None:
        """Close the connection; idempotent.

        SQLite then deletes the WAL. With ``keep_wal`` it stays, as after a crash.
        """
        if self._forked:
            return
        wal = wal_path(self.path)
        with self._lock:
            if keep_wal and self._writes and has_wal(self.path):
                # neither room on the disk nor links are needed; SQLite has the file open
                try:
                    os.rename(wal, aside_wal(self.path))
                except OSError:
                    self._never_close()
                    raise
            with contextlib.suppress(sqlite3.Error, UnicodeDecodeError):
                self._connection.close()
            if self._writes:
                restore_wal(self.path)

    def _refuse_fork(self) -> None:
        if self._forked:
            raise SpoolError(
                f"{self.path} is open in the process from which this one was forked. Hint: run the "
                "query in one process, and start others with multiprocessing's method spawn."
            )

    def leave_to_parent(self) -> None:
        """Never use or close the connection in a forked process: closing it deletes the WAL."""
        self._forked = True
        self._never_close()

    def _never_close(self) -> None:
        # not even when the interpreter ends
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))


_open: weakref.WeakSet[Database] = weakref.WeakSet()


def _leave_to_parent() -> None:
    for database in list(_open):
        database.leave_to_parent()


os.register_at_fork(after_in_child=_leave_to_parent)


# errors of SQLite and the file system; SQLite quotes damaged names in its messages, which sqlite3
# then cannot decode
FAULTS = (OSError, UnicodeDecodeError, sqlite3.Error)


def raise_explained(error: Exception, what: str, path: Path) -> NoReturn:
    """Raise one of ``FAULTS`` as a ``SpoolError`` with a hint; an error of the caller as it is."""
    if isinstance(error, OSError):
        raise make_error(what, error) from error
    if isinstance(error, UnicodeDecodeError):
        raise damage_error(path, "it has text that is not UTF-8") from error
    if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.ProgrammingError):
        number = _ERRNOS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        if number is None:
            raise damage_error(path, str(error)) from error
        raise make_error(what, OSError(number, os.strerror(number), str(path))) from error
    raise error


@contextmanager
def explain_errors(what: str, path: Path) -> Iterator[None]:
    """Return a context that raises errors as ``raise_explained`` does."""
    try:
        yield
    except FAULTS as error:
        raise_explained(error, what, path)


def wal_path(path: Path) -> Path:
    """Return the path of the WAL that SQLite keeps for a file."""
    return path.with_name(f"{path.name}-wal")


def shm_path(path: Path) -> Path:
    """Return the path of the index of the WAL that SQLite makes to read it."""
    return path.with_name(f"{path.name}-shm")


def has_wal(path: Path) -> bool:
    """Return True if a file has a WAL that is not empty."""
    wal = wal_path(path)
    return wal.exists() and wal.stat().st_size > 0


def restore_wal(path: Path) -> None:
    """Rename a WAL that was kept to its original name; call before the file is opened."""
    with contextlib.suppress(FileNotFoundError):
        os.replace(aside_wal(path), wal_path(path))


def aside_wal(path: Path) -> Path:
    """Return the path of a file's WAL while the file is closed and the WAL is kept."""
    return path.with_name(f".{path.name}-wal.part")


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
