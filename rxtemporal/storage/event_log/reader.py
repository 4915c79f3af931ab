"""Reader of a recording: its streams, their records and the order of these."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.storage.event_log.database import damage_error, load_count, wal_path
from rxtemporal.storage.event_log.layout import StreamFacts
from rxtemporal.storage.event_log.recorder import RecordedSegments
from rxtemporal.storage.event_log.store import recover
from rxtemporal.storage.event_log.stored_log import FILE, StoredLog
from rxtemporal.storage.event_log.verification import verify


class Stored(Protocol):
    """Records on disk: a folder of segments, or the file of an event log."""

    def header(self) -> dict[str, Any]:
        """Return its header, with the facts of its streams."""

    def schema(self, stream: int) -> pl.Schema | None:
        """Return the declared fields of a stream, if they are stored."""

    def runs(self) -> Iterator[pl.DataFrame]:
        """Yield the runs of records (``stream``, ``records``) in order, in pieces."""

    def frames(self, stream: int, *, newest: bool = False) -> Iterator[pl.DataFrame]:
        """Yield the records of a stream in pieces; ``newest``: the last one first."""


class Recording:
    """A recording, or an event log that no run writes; a recording may have been cut off.

    Only records that are complete at the time of reading are read. ``SpoolError``: there is none,
    or it is damaged.
    """

    def __init__(self, path: str | os.PathLike[str], stored: Stored | None = None) -> None:
        if not isinstance(path, str | os.PathLike):
            raise ArgumentError(f"a recording is the path of its folder, got {path!r}")
        self.path = Path(path)
        self._stored = stored or _find(self.path)
        header = self._stored.header()
        self.name: str = header["name"]
        # True if its run has ended; False if the run was killed or still runs
        self.complete: bool = header.get("complete", False)
        self.streams = [
            StreamRecords(self._stored, number, facts)
            for number, facts in enumerate(header["streams"])
        ]

    def runs(self) -> Iterator[pl.DataFrame]:
        """Yield the runs of records (``stream``, a number, and ``records``) in order, in pieces."""
        return self._stored.runs()

    def count(self) -> int:
        """Return the number of records of all streams."""
        return sum(int(each.get_column("records").sum()) for each in self.runs())


class StreamRecords:
    """The records of one stream."""

    def __init__(self, stored: Stored, number: int, facts: StreamFacts) -> None:
        self.facts = facts
        self._stored = stored
        self._number = number

    @property
    def schema(self) -> pl.Schema | None:
        """The payload's schema; None if no record has a payload."""
        given = self._stored.schema(self._number)
        if given is not None:
            return given
        # later records may know the type of a field that was null in those before
        for frame in self._stored.frames(self._number, newest=True):
            if "payload" in frame.columns:
                return frame.get_column("payload").struct.schema
            # marks alone show no fields; rows and an empty segment do, even if there are none
            if frame.is_empty() or frame.get_column("end_time").count() > 0:
                return pl.Schema()
        return None

    def segments(self) -> Iterator[pl.DataFrame]:
        """Yield the records in pieces: ``kind``, ``start_time``, ``end_time``, … ."""
        return self._stored.frames(self._number)


def _find(path: Path) -> Stored:
    if path.exists() and not path.is_dir():
        raise SpoolError(
            f"{path} is a file, not the folder of a recording. Hint: give the folder that "
            "run(sink, record=folder) has written."
        )
    if not (path / FILE).exists():
        recorded = RecordedSegments(path)
        recorded.verify()
        return recorded
    recover(path)
    log = StoredLog(path)
    header = log.header()
    if header["resume"]:
        raise SpoolError(
            f"{path} is of a run with resume= and has only the events since its last checkpoint. "
            "Hint: run(…, log=folder) keeps all of them."
        )
    if header["open"]:
        raise damage_error(log.file, f"{wal_path(log.file).name} beside it is missing")
    verify(log, load_count(log.file))
    return log
