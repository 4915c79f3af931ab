"""Runs of points, intervals and CTIs, as columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import Cti, IntervalEvent, PointEvent, RowEvent
from rxtemporal.core.ticks import MIN_TIME, TICK, match_form
from rxtemporal.engine.kernels.door_rules import CTI, ROW
from rxtemporal.ingress.batch_verdicts import NO_KINDS, Bytes, Verdicts
from rxtemporal.ingress.lateness import Lateness

# an interval, until its end has been read
_INTERVAL = 127
_KINDS = {PointEvent: ROW, IntervalEvent: _INTERVAL, Cti: CTI}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EventRun:
    """Events as columns; ``kind`` has the kind of each item, and is empty if all are rows."""

    items: Sequence[Any]
    start: Int64s
    end: Int64s
    kind: Bytes

    @classmethod
    def from_items(cls, items: Sequence[Any]) -> EventRun | None:
        """Return events as columns; None if an item is no point, interval or CTI."""
        try:
            # in C alone, and checked by the way
            kinds = bytearray(map(_KINDS.__getitem__, map(type, items)))
        except KeyError:
            return None
        start = np.fromiter([item.start for item in items], np.int64, len(items))
        end, kind = start + TICK, np.frombuffer(kinds, np.int8)
        if _INTERVAL in kinds:
            rows = kind == _INTERVAL
            end[rows] = np.fromiter([row.end for row in compress(items, rows.tobytes())], np.int64)
            kind[rows] = ROW
        return cls(items, start, end, kind if CTI in kinds else NO_KINDS)

    def select(self, mask: Bools) -> EventRun:
        """Return the items of a mask."""
        items, rows = list(compress(self.items, mask.tobytes())), mask.nonzero()[0]
        kind = self.kind.take(rows) if len(self.kind) else self.kind
        return EventRun(items, self.start.take(rows), self.end.take(rows), kind)

    def list_events(self) -> list[RowEvent | Cti]:
        """Return the items as events; the times of CTIs are those of the columns."""
        times = zip(self.items, self.start.tolist(), strict=True)
        return [
            Cti(match_form(time, item.start_time)) if type(item) is Cti else item
            for item, time in times
        ]

    @property
    def row_mask(self) -> Bools:
        """The mask of the rows."""
        return self.kind == ROW if len(self.kind) else np.ones(len(self.items), np.bool_)

    @property
    def rows(self) -> int:
        """The number of items that are rows."""
        return len(self.items) - int(np.count_nonzero(self.kind))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class JudgedRun:
    """A run with its verdicts, and the payloads of the accepted rows as columns."""

    run: EventRun
    verdicts: Verdicts
    kept: Bools
    payload: Columns

    def make_batch(self, cti: int) -> EventBatch:
        """Return the accepted rows as a batch with this CTI."""
        rows = self.kept.nonzero()[0]  # faster than the mask, twice
        start, end = self.verdicts.start.take(rows), self.verdicts.end.take(rows)
        return EventBatch.of_rows(start, end, self.payload, cti)

    def late(self) -> list[tuple[RowEvent, Lateness]]:
        """Return each late event, and how late it was."""
        verdicts = self.verdicts
        if not len(verdicts.late):
            return []
        broken = np.maximum(verdicts.before, MIN_TIME)
        columns = verdicts.late.tolist(), verdicts.reasons, broken.tolist(), verdicts.by.tolist()
        return [(self.run.items[n], Lateness(*late)) for n, *late in zip(*columns, strict=True)]


def kept_payloads(run: EventRun, kept: Bools) -> list[Any]:
    """Return the payloads of the accepted rows."""
    items = run.items if kept.all() else compress(run.items, kept.tobytes())
    return [item.payload for item in items]
