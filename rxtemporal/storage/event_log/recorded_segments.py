"""Records of a recording, in folders of segments, as ``record=`` writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.errors import SpoolError
from rxtemporal.storage.event_log.database import damage_error
from rxtemporal.storage.event_log.layout import HEADER, ORDER, load_header
from rxtemporal.storage.event_log.record_count import load_count
from rxtemporal.storage.segments import SegmentFolder


class RecordedSegments:
    """Reader of the folders of a recording."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # read before the header and the order, which a run may still write
        self._count = load_count(path / HEADER)
        self._header = load_header(path)
        self._folders = [each.folder for each in self._header["streams"]]

    def header(self) -> dict[str, Any]:
        """Return the header, with the facts of the streams."""
        return self._header

    def schema(self, stream: int) -> pl.Schema | None:
        """Return None: the segments of a stream have its fields."""
        return None

    def runs(self) -> Iterator[pl.DataFrame]:
        """Yield the runs of records in order, a segment at a time."""
        return self._read(ORDER)

    def frames(self, stream: int, *, newest: bool = False) -> Iterator[pl.DataFrame]:
        """Yield the records of a stream, a segment at a time; ``newest``: the last one first."""
        return self._read(self._folders[stream], newest=newest)

    def _read(self, name: str, *, newest: bool = False) -> Iterator[pl.DataFrame]:
        folder = SegmentFolder(self.path / name)
        numbers = range(1, folder.bounds()[1] + 1)
        return map(folder.read, reversed(numbers) if newest else numbers)

    def verify(self) -> None:
        """Check that the order and the streams have all records; ``SpoolError`` if not.

        Contents are verified when they are read.
        """
        file = self.path / HEADER
        self._count.check_id(file, self._header["id"])
        counted = [0] * len(self._folders)
        for frame in self.runs():
            for stream, records in frame.group_by("stream").sum().iter_rows():
                counted[stream] += records
        total = sum(counted)
        # those of an earlier version have no number
        if "number" in self._header:
            self._count.check_saves(file, self._header["number"])
        if self._header.get("records", total) != total:
            raise self._error(ORDER, total, self._header["records"])
        if total < self._count.records:
            raise self._error(ORDER, total, self._count.records)
        for stream, name in enumerate(self._folders):
            there = count_rows(self.path / name)
            complete = "records" in self._header
            if there < counted[stream] or (complete and there > counted[stream]):
                raise self._error(name, there, counted[stream])

    def _error(self, name: str, there: int, wanted: int) -> SpoolError:
        return damage_error(self.path / name, f"of {wanted:,} records it has {there:,}", self.path)


def count_rows(path: Path) -> int:
    """Return how many rows the segments of a folder have; ``SpoolError`` if one is missing."""
    folder = SegmentFolder(path)
    numbers = folder.numbers()["arrow"]
    for wanted, number in enumerate(numbers, 1):
        if wanted != number:
            raise damage_error(folder.file(wanted, "arrow"), "it is missing")
    return sum(folder.describe(number).rows for number in numbers)
