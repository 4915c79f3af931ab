"""Spool of a query: segments with its batches, in order of their CTIs."""

from __future__ import annotations

import os
from typing import Self

import polars as pl

from rxtemporal.core.batch import END, START, EventBatch
from rxtemporal.core.ticks import describe
from rxtemporal.errors import SchemaError, SpoolError
from rxtemporal.storage.segments.folder import SEGMENT
from rxtemporal.storage.segments.writer import SegmentWriter


class Spool(SegmentWriter):
    """Writer of a spool; make it with ``Spool.open``. Not thread-safe.

    ``segments()`` returns the numbers of those not yet discarded, ``last`` is the number of the
    last one ever appended (0: none) and ``cti`` the CTI after it (None: none). ``close`` releases
    the spool for another writer.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> batch = EventBatch.from_dicts([{"start_time": 0, "x": 1}], cti=9)
    >>> with Spool.open(folder.name, "readings", batch.schema) as spool:
    ...     spool.append(batch), spool.last, spool.cti
    (1, 1, 9)
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        name: str,
        schema: pl.Schema,
        *,
        lock: bool = True,
        numbered: str | None = None,
    ) -> Self:
        """Create the spool of the query called ``name``, or open the existing one.

        ``numbered`` is a field that numbers rows; ``highest`` is then kept when segments are
        discarded. As ``SegmentWriter.open``; ``SchemaError``: a field has the name of a column of
        the spool.
        """
        clash = {START, END, SEGMENT} & set(schema)
        if clash:
            raise SchemaError(
                f"the payload has a field {min(clash)!r}, which is a column of the spool. "
                "Hint: rename it with select()."
            )
        spool = super().open(path, name, schema, lock=lock)
        spool._numbered = numbered
        return spool

    @property
    def cti(self) -> int | None:
        """The CTI after the last segment ever appended; None before the first."""
        return None if self._last is None else self._last.cti

    def segments(self) -> list[int]:
        """Return the numbers of the segments that have not been discarded."""
        mark, last = self.bounds()
        return list(range(mark + 1, last + 1))

    def append(self, batch: EventBatch) -> int:
        """Publish a batch as the next segment and return its number, as ``append_frame``.

        Called again after only the last sync has failed, it completes the existing segment.
        """
        self._check_open()
        if batch.schema != self.schema:
            raise SchemaError(f"a batch with {batch.schema} is not for a spool of {self.schema}")
        if self.cti is not None and batch.cti < self.cti:
            raise SpoolError(
                f"CTI {describe(batch.cti)} goes back from the spool's {describe(self.cti)}"
            )
        if self._unsynced and self._complete_last(rows_frame(batch, self.last), batch.cti):
            return self.last
        return self.append_frame(rows_frame(batch, self.last + 1), batch.cti)


def rows_frame(batch: EventBatch, sequence: int) -> pl.DataFrame:
    """Return a batch's rows in the form of a segment: times in ticks, the payload, ``_segment``."""
    return pl.DataFrame(
        [
            pl.Series(START, batch.start, pl.Int64),
            pl.Series(END, batch.end, pl.Int64),
            *batch.payload.get_columns(),
            pl.repeat(sequence, len(batch), dtype=pl.Int64, eager=True).alias(SEGMENT),
        ]
    )
