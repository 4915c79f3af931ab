"""The reading side of a recording: its streams, their records, and who brought how many when."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rxtemporal.storage.event_log.layout import ORDER, StreamFacts, header_of
from rxtemporal.storage.segments import SegmentFolder


class Recording:
    """A recording that is there; it may still be written, or have been cut off.

    What is read is what is complete when it is asked for. ``SpoolError``: there is none, or it is
    damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        header = header_of(self.path)
        self.name: str = header["name"]
        # whether its run has ended it; one that was killed could not, nor one that still runs
        self.complete: bool = header.get("complete", False)
        self.streams = [StreamRecords(self.path, facts) for facts in header["streams"]]
        self._order = SegmentFolder(self.path / ORDER)

    def runs(self) -> Iterator[pl.DataFrame]:
        """Yield which ``stream`` (its number) brought how many ``records`` next, in pieces."""
        _, last = self._order.bounds()
        for number in range(1, last + 1):
            yield self._order.read(number)

    def count(self) -> int:
        """Return how many records there are, of all streams."""
        return sum(int(each.get_column("records").sum()) for each in self.runs())


class StreamRecords:
    """The records of one stream of a recording."""

    def __init__(self, path: Path, facts: StreamFacts) -> None:
        self.facts = facts
        self._folder = SegmentFolder(path / facts.folder)

    @property
    def schema(self) -> pl.Schema | None:
        """The payload's schema; None where no record has shown one."""
        _, last = self._folder.bounds()
        # later segments may know the type of a field that was null in those before
        return self._schema(last) if last else None

    def _schema(self, number: int) -> pl.Schema | None:
        frame = self._folder.read(number)
        if "payload" in frame.columns:
            return frame.get_column("payload").struct.schema
        # marks alone show nothing; rows, and an empty segment, that there are no fields
        shows = frame.is_empty() or frame.get_column("end_time").count() > 0
        if shows or number == 1:
            return pl.Schema() if shows else None
        return self._schema(number - 1)

    def segments(self) -> Iterator[pl.DataFrame]:
        """Yield the records a segment at a time: ``kind``, ``start_time``, ``end_time``, … ."""
        for number in range(1, self._folder.bounds()[1] + 1):
            yield self._folder.read(number)
