"""Rows on disk: what does not fit into a hand-off, as numbered segments, deleted when read."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from pathlib import Path

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, EventBatch
from rxtemporal.storage.files import reported, unsynced
from rxtemporal.storage.segments import Spool

EDGE = "edge"


class Overflow:
    """Batches of one source on disk, in order, in a folder of their own that goes with them.

    ``segments`` are the numbers and sizes of those that nobody has taken to read. One thread may
    write while another reads, for a segment is not touched any more once it is written.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.segments: deque[tuple[int, int]] = deque()
        self.rows_spilled = 0
        self._path = path
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._spool: Spool | None = None
        self._names: list[str] = []

    def write(self, batch: EventBatch) -> None:
        """Append a batch; ``SpoolError`` if it cannot be written, and then nothing was."""
        with unsynced():
            spool = self._spool if self._spool is not None else self._open(batch)
            self.segments.append((spool.append(_encoded(batch)), len(batch)))
        self.rows_spilled += len(batch)

    def _open(self, batch: EventBatch) -> Spool:
        with reported(f"cannot spill rows to {self._path or tempfile.gettempdir()}"):
            if self._path is not None:
                Path(self._path).mkdir(parents=True, exist_ok=True)
            self._folder = tempfile.TemporaryDirectory(
                prefix="rxtemporal-", dir=self._path, ignore_cleanup_errors=True
            )
        self._names = batch.payload.columns
        self._spool = Spool.open(self._folder.name, "spill", _encoded(batch).schema)
        return self._spool

    def read(self, number: int) -> EventBatch:
        """Return a segment's batch, and delete it."""
        assert self._spool is not None
        frame, cti = self._spool.read(number), self._spool.describe(number).cti
        with unsynced():
            self._spool.discard(number)
        start, end, edge = (frame[name].to_numpy() for name in (START, END, EDGE))
        fields = [frame[str(i)].alias(name) for i, name in enumerate(self._names)]
        payload = pl.DataFrame(fields) if fields else pl.DataFrame(height=frame.height)
        return EventBatch(start, end, edge, payload, cti)

    def close(self) -> None:
        """Delete what is left."""
        self.segments.clear()
        if self._spool is not None:
            self._spool.close()
        if self._folder is not None:
            self._folder.cleanup()


def _encoded(batch: EventBatch) -> EventBatch:
    """Return the batch with its edge ids as a field, and fields by number, so that no name clashes.

    A segment has columns of its own for times, and a field may have such a column's name.
    """
    fields = [field.alias(str(i)) for i, field in enumerate(batch.payload.get_columns())]
    edge = pl.Series(EDGE, np.ascontiguousarray(batch.edge), pl.Int64)
    return batch.replace(payload=pl.DataFrame([edge, *fields]), groups=None)
