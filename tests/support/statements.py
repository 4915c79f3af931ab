"""The statements that a run gives to SQLite: the seam where its file can be watched, and fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest

from rxtemporal.storage.event_log.stored_log import ORDER_PART

__all__ = [
    "PowerError", "Write", "full_disk", "is_checkpoint", "is_entry", "list_contents", "watch_file",
]  # fmt: skip


class PowerError(Exception):
    """The end of a process at some statement; the package does not explain it to users."""


class Write(NamedTuple):
    """A statement that changes the file, and its values, or a list of them."""

    sql: str
    values: Any


# Called before a statement that changes the file; what it raises is raised by the statement.
Before = Callable[[Write], object]
# Called after each transaction with the statements that are now in the file.
After = Callable[[Sequence[Write]], object]


@contextmanager
def watch_file(
    before: Before = lambda write: None, after: After = lambda writes: None
) -> Iterator[None]:
    """Watch the files that are opened inside, in this process, until they are closed."""

    class Connection(sqlite3.Connection):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.writes: list[Write] = []

        def execute(self, sql: str, values: Any = ()) -> sqlite3.Cursor:
            return self._run(super().execute, Write(sql, values))

        def executemany(self, sql: str, values: Any) -> sqlite3.Cursor:
            return self._run(super().executemany, Write(sql, [*values]))

        def _run(self, call: Callable[..., sqlite3.Cursor], write: Write) -> sqlite3.Cursor:
            if changes(write):
                before(write)
            cursor = call(*write)
            if changes(write):
                self.writes.append(write)
            if write.sql == "ROLLBACK":
                self.writes = []
            if self.writes and not self.in_transaction:
                done, self.writes = self.writes, []
                after(done)
            return cursor

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Connection))
        yield


def full_disk() -> sqlite3.OperationalError:
    """Return SQLite's error on a full disk."""
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def changes(write: Write) -> bool:
    """Return True if a statement changes rows."""
    return write.sql.startswith(("INSERT", "DELETE"))


def is_entry(write: Write) -> bool:
    """Return True if a statement writes an entry of the event log."""
    return write.sql.startswith("INSERT INTO parts")


def list_contents(write: Write) -> list[bytes]:
    """Return the records of each stream in an entry that a statement writes."""
    if not is_entry(write):
        return []
    # (stream, first, records, crc, content) of each row, in one list or in several
    several = [write.values] if isinstance(write.values[0], int) else write.values
    values = [value for each in several for value in each]
    rows = [values[begin : begin + 5] for begin in range(0, len(values), 5)]
    return [row[4] for row in rows if row[0] != ORDER_PART]


def is_checkpoint(write: Write, *, piece: bool = False) -> bool:
    """Return True if a statement makes a checkpoint valid, or writes a ``piece`` of one."""
    if "INTO facts" not in write.sql:
        return False
    name = str(write.values[0])
    return name.startswith("checkpoint ") if piece else name == "checkpoint"
