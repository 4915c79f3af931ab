"""Rejected rows of a source, as another source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, RowEvent
from rxtemporal.core.safe_text import encodable, json_text
from rxtemporal.core.ticks import TICK
from rxtemporal.ingress.rejected import Rejected
from rxtemporal.ingress.side_source import SideSource

REJECT_FIELDS: dict[str, pl.DataType] = {
    "source": pl.String(),
    "input": pl.String(),
    "index": pl.Int64(),
    "reason": pl.String(),
    "row": pl.String(),
    "arrived": pl.Datetime("us", "UTC"),
}


class RejectListener(Protocol):
    """A run in which rejected rows are a stream."""

    def take(self, rejected: Sequence[Rejected]) -> None:
        """Take rejected rows, from any thread."""


class RejectSource(SideSource):
    """Rejected rows of a source, as another source."""

    what = "rejected rows"

    def __init__(self, origin: Any) -> None:
        super().__init__(origin)
        self.schema = pl.Schema(REJECT_FIELDS)
        # the latest run whose query reads the stream
        self.listener: RejectListener | None = None

    def batch(self, rejected: Sequence[Rejected], start: int, cti: int) -> EventBatch:
        """Return rejected rows as points at a time."""
        columns = {
            "source": [encodable(each.source) for each in rejected],
            "input": [encodable(each.input) for each in rejected],
            "index": [each.index for each in rejected],
            "reason": [each.reason for each in rejected],
            "row": [_text(each.row) for each in rejected],
            "arrived": [each.arrived for each in rejected],
        }
        starts = np.full(len(rejected), start, np.int64)
        payload = pl.DataFrame(columns, schema=self.schema, strict=True)
        return EventBatch.of_rows(starts, starts + TICK, payload, cti)


def _text(row: Any) -> str:
    """Return a row as JSON; an event with its kind, its times and its payload."""
    kind = type(row)
    if kind is Cti or kind in RowEvent.__subclasses__():
        names = ("start_time", "end_time", "edge_type", "payload")
        return json_text({"event": kind.__name__, **{n: v for n in names if (v := _get(row, n))}})
    return json_text(row)


def _get(event: Any, name: str) -> Any:
    try:
        return getattr(event, name, None)
    except Exception:  # a half-made event, or its times' own code
        return None
