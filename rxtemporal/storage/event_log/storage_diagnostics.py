"""Figures of a run's file: its size, and its last checkpoint."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from pathlib import Path
from typing import NamedTuple

from rxtemporal.storage.event_log.database import wal_path


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
