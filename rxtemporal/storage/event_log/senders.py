"""Columns of records that tell their sender: ``input``, ``seq``, ``ahead`` and ``named_start``.

A column is there if one of the records has a value: ``input`` is a name, ``seq`` and
``named_start`` are numbers, ``ahead`` is true. A record without any value comes back as the plain
event, or in a plain batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Event
from rxtemporal.ingress.source import Sent, SentRows

_TYPES = {
    "input": pl.String(),
    "seq": pl.Int64(),
    "ahead": pl.Boolean(),
    "named_start": pl.Int64(),
}
NOBODY = (None, None, False, None)


def get_event(item: Any) -> Any:
    """Return an item without its sender."""
    return item.event if type(item) is Sent else item


def add_senders(frame: pl.DataFrame, items: Sequence[Any]) -> pl.DataFrame:
    """Add the senders of items to their records, of which each item is one."""
    return add_columns(frame, [item[1:] if type(item) is Sent else NOBODY for item in items])


def add_columns(frame: pl.DataFrame, senders: Sequence[Sequence[Any]]) -> pl.DataFrame:
    """Add the values of a sender to each record."""
    return _add(frame, *map(list, zip(*senders, strict=True)))


def add_row_senders(frame: pl.DataFrame, sent: SentRows) -> pl.DataFrame:
    """Add the sender of a batch to its records: its rows, and its CTI if there is one more."""
    rows = len(sent.batch)
    name = pl.Series([sent.input], dtype=pl.String).new_from_index(0, frame.height)
    seq: Any = sent.seq
    if seq is not None and frame.height > rows:
        seq = [*seq.tolist(), None]
    ahead = None
    if sent.ahead is not None or sent.cti_ahead:
        ahead = np.zeros(frame.height, np.bool_)
        ahead[rows:] = sent.cti_ahead
        if sent.ahead is not None:
            ahead[:rows] = sent.ahead
    return _add(frame, name, seq, ahead, None)


def _add(frame: pl.DataFrame, *values: Any) -> pl.DataFrame:
    made = [
        pl.Series(name, column, dtype)
        for (name, dtype), column in zip(_TYPES.items(), values, strict=True)
        if column is not None
    ]
    # hstack takes a tenth of what with_columns does
    return frame.hstack([each for each in made if _has_values(each)])


def _has_values(column: pl.Series) -> bool:
    return column.any() if column.dtype == pl.Boolean else column.count() > 0


class Senders:
    """The senders of the records of a segment."""

    def __init__(self, columns: pl.DataFrame) -> None:
        self._columns = columns
        same = pl.struct("input", pl.col("seq").is_null()).rle_id()
        self._stretch = columns.select(same).to_series().to_numpy()
        self._ahead = columns.get_column("ahead").to_numpy()

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> Senders | None:
        """Return the senders of records; None if none has one."""
        if not any(name in frame.columns for name in _TYPES):
            return None
        missing = [pl.lit(None, of).alias(k) for k, of in _TYPES.items() if k not in frame.columns]
        columns = frame.with_columns(missing).select(*_TYPES)
        return cls(columns.with_columns(pl.col("ahead").fill_null(value=False)))

    def stretches(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the bounds of the stretches of records of one input, all with numbers or none."""
        cuts = np.flatnonzero(np.diff(self._stretch[begin:end])) + 1 + begin
        return pairwise([begin, *cuts.tolist(), end])

    def add_to_rows(self, batch: EventBatch, begin: int) -> EventBatch | SentRows:
        """Return the rows of one stretch, which begin at a record, with their sender."""
        columns = self._columns.slice(begin, len(batch))
        name, numbers = columns.item(0, "input"), columns.get_column("seq")
        seq = None if numbers.null_count() else numbers.to_numpy()
        ahead = self._ahead[begin : begin + len(batch)]
        if name is None and seq is None and not ahead.any():
            return batch
        return SentRows(batch, name, seq, ahead if ahead.any() else None)

    def add_to_events(self, events: Iterable[Event], begin: int) -> Iterator[Event | Sent]:
        """Yield events, whose records begin at ``begin``, with their senders."""
        for event, row in zip(events, self._columns[begin:].iter_rows(), strict=False):
            yield event if row == NOBODY else Sent(event, *row)
