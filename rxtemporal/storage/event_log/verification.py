"""Verification of a run's file: its structure is sound, its checksums fit, nothing is missing."""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import time
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rxtemporal.errors import CheckpointError, SpoolError
from rxtemporal.storage.event_log.database import RecordCount, damage_error, wal_path
from rxtemporal.storage.event_log.stored_log import ORDER_PART, PARTS, TABLES, StoredLog

_HEADER = struct.Struct(">8I")
_FRAME_HEAD = 24
_WORD = 0xFFFFFFFF
Words = npt.NDArray[np.uint32]


class Wal:
    """The frames of a WAL, in order; a part of a frame at the end is left out.

    ``numbers``: the number of the page in each frame. ``sizes``: the file's size in pages after a
    commit, else 0. ``current``: True for frames that are not older ones. ``valid``: True for
    current frames whose checksum continues that of the frame before.
    """

    def __init__(self, content: bytes) -> None:
        magic, _, self.page_size, _, *salts, one, two = _HEADER.unpack_from(content)
        size = _FRAME_HEAD + self.page_size
        count = (len(content) - _HEADER.size) // size
        frames = np.frombuffer(content, np.uint8, count * size, _HEADER.size).reshape(count, size)
        heads = np.ascontiguousarray(frames[:, :_FRAME_HEAD]).view(">u4").astype(np.uint32)
        self._frames = frames
        self.numbers, self.sizes = heads[:, 0], heads[:, 1]
        self.current = (heads[:, 2:4] == np.array(salts, np.uint32)).all(axis=1)
        before = np.concatenate([np.array([[one, two]], np.uint32), heads[:-1, 4:6]])[:count]
        order = ">u4" if magic & 1 else "<u4"
        summed = np.concatenate([frames[:, :8], frames[:, _FRAME_HEAD:]], axis=1)
        words = np.ascontiguousarray(summed).view(order).astype(np.uint32)
        weights, step = _weights(words.shape[1])
        sums = words @ weights + before @ step
        self.valid = self.current & (sums == heads[:, 4:6]).all(axis=1)

    @property
    def accepted(self) -> int:
        """The number of frames that SQLite accepts: up to the last commit before a wrong one."""
        leading = int(np.append(self.valid, False).argmin())
        commits = np.flatnonzero(self.sizes[:leading])
        return int(commits[-1]) + 1 if len(commits) else 0

    @property
    def has_lost_commits(self) -> bool:
        """True if a commit that SQLite does not accept has more after it."""
        rest = np.flatnonzero(self.current[self.accepted :]) + self.accepted
        return bool(self.sizes[rest[:-1]].any())

    def page(self, frame: int) -> bytes:
        """Return the page in a frame."""
        return self._frames[frame, _FRAME_HEAD:].tobytes()


def read_wal(path: Path) -> Wal | None:
    """Return the WAL in a file; None without a file, or if its header is damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    whole = len(content) >= _HEADER.size and _is_header(content)
    return Wal(content) if whole else None


def is_damaged(path: Path) -> bool:
    """Return True if a WAL is missing or has lost records that were committed."""
    wal = read_wal(path)
    return wal is None or not len(wal.numbers) or wal.has_lost_commits


def _is_header(content: bytes) -> bool:
    """Return True if the header's checksum is right."""
    magic, _, page_size, *_, one, two = _HEADER.unpack_from(content)
    words = np.frombuffer(content, ">u4" if magic & 1 else "<u4", 6).astype(np.uint32)
    weights, _ = _weights(6)
    return page_size >= 512 and bool((words @ weights == (one, two)).all())


@lru_cache
def _weights(count: int) -> tuple[Words, Words]:
    """Return the weights of words in a checksum, and the matrix of the checksum before them."""
    rows, a, b, c, d = [], 1, 0, 0, 1  # the power of [[1, 1], [1, 2]] for the pairs that follow
    for _ in range(count // 2):
        rows += [[b, d], [a + b, c + d]]
        a, b, c, d = (a + b) & _WORD, (a + 2 * b) & _WORD, (c + d) & _WORD, (c + 2 * d) & _WORD
    weights = np.array(rows[::-1], np.uint64) & _WORD
    return weights.astype(np.uint32), np.array([[a, c], [b, d]], np.uint32)


@dataclasses.dataclass(frozen=True, slots=True)
class StorageDiagnostics:
    """Diagnostics of the folder of a run with ``log=`` or ``resume=``.

    ``file_bytes`` is the size on disk of event log and checkpoint together. ``records`` are the
    durable records that the next run would read again: those since the last checkpoint, and with
    ``log=`` all. The rest is None with ``log=``: ``checkpoints`` counts those of all lives of the
    run, ``checkpoint_bytes`` is the size of the last one, and ``checkpoint_age`` how many seconds
    ago it was saved; in a run that has saved none yet, how long ago it began.
    """

    file_bytes: int
    records: int
    checkpoints: int | None = None
    checkpoint_bytes: int | None = None
    checkpoint_age: float | None = None


class SavedState(NamedTuple):
    """Last checkpoint: when it was saved (of a monotonic clock), its size, and what it covers."""

    time: float
    bytes: int = 0
    records: int = 0


def diagnose_storage(
    file: Path, records: int, saved: SavedState, saves: int, *, resume: bool
) -> StorageDiagnostics:
    """Return the figures of a run's file; 0 bytes if it is gone."""
    size = 0
    for each in (file, wal_path(file)):
        with contextlib.suppress(OSError):
            size += each.stat().st_size
    waiting = max(records - saved.records, 0)
    if not resume:
        return StorageDiagnostics(size, waiting)
    age = max(time.monotonic() - saved.time, 0.0)
    return StorageDiagnostics(size, waiting, saves, saved.bytes, age)


def verify(log: StoredLog, count: RecordCount) -> int:
    """Verify a file, of which the count beside it tells the least that it has had.

    Returns the number of the next record. ``SpoolError``, or ``CheckpointError`` where the state is
    damaged, names the place of the damage. Reads the whole file once.
    """
    header = log.header()
    count.check_id(log.file, header["id"])
    with log.connect() as database:
        (found,) = database.row("PRAGMA integrity_check(1)")
        if found != "ok":
            raise damage_error(log.file, " ".join(str(found).split()))
        tables = database.rows("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
        if {sql for (sql,) in tables} != {*TABLES}:
            raise damage_error(log.file, "its tables have changed")
        names = [name for (name,) in database.rows("SELECT name FROM facts")]
        for name in names:
            _verify_fact(log, name)
    checkpoint = log.find_checkpoint()
    for each in (checkpoint, *checkpoint.kept):
        if {*each.pieces}.difference(names):
            raise CheckpointError(
                str(damage_error(log.file, "a part of the checkpoint is missing"))
            )
    records = _verify_parts(log)
    if records < header["records"]:
        raise _gap(log, records, header["records"])
    count.check_records(log.file, records)
    count.check_saves(log.file, header.get("saves", 0))
    return records


def _verify_fact(log: StoredLog, name: str) -> None:
    try:
        log.fact(name)
    except SpoolError as error:
        if name.startswith("checkpoint"):
            raise CheckpointError(str(error)) from error
        raise


def _verify_parts(log: StoredLog) -> int:
    """Return the number of the next record, if the parts are contiguous and whole."""
    covered = reached = start = log.find_checkpoint().oldest
    missing, at = 0, 0
    with log.connect() as database:
        while (row := database.row(f"{PARTS} WHERE id > ? LIMIT 1", at)) is not None:
            at, stream, first, records, *_ = row
            log.content(row)
            if first < covered:
                continue  # the checkpoint has it, and it was not deleted yet
            if stream == ORDER_PART:
                if missing or first != reached:
                    raise _gap(log, start, first)
                missing, start, reached = records, first, first + records
            elif first != start:
                raise _gap(log, start, reached)
            else:
                missing -= records
    if missing:
        raise _gap(log, start, reached)
    return reached


def _gap(log: StoredLog, first: int, end: int) -> SpoolError:
    return damage_error(log.file, f"of the records {first:,} to {end:,} some are missing")
