"""Runs of points, intervals and CTIs, as columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import Cti, IntervalEvent, PointEvent, RowEvent
from rxtemporal.core.ticks import MIN_TIME, TICK
from rxtemporal.engine.kernels.door_rules import CTI, ROW
from rxtemporal.ingress.batch_verdicts import NO_KINDS, REASONS, Bytes, Verdicts
from rxtemporal.ingress.lateness import Lateness

_AT_ONCE = {PointEvent, IntervalEvent, Cti}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EventRun:
    """Events as columns; ``ctis`` is the mask of the CTIs."""

    items: Sequence[Any]
    start: Int64s
    end: Int64s
    ctis: Bools

    @classmethod
    def from_items(cls, items: Sequence[Any]) -> EventRun | None:
        """Return events as columns; None if an item is no point, interval or CTI."""
        kinds, n = set(map(type, items)), len(items)
        if not kinds <= _AT_ONCE:
            return None
        start = np.fromiter([item.start for item in items], np.int64, n)
        ctis = np.zeros(n, np.bool_)
        end = start + TICK
        if Cti in kinds:
            ctis = np.fromiter([type(item) is Cti for item in items], np.bool_, n)
        if IntervalEvent in kinds:
            rows = compress(items, (~ctis).tolist())
            end[~ctis] = np.fromiter([row.end for row in rows], np.int64)
        return cls(items, start, end, ctis)

    @property
    def kind(self) -> Bytes:
        """The kind of each item; an empty array if all are complete rows."""
        return np.where(self.ctis, CTI, ROW).astype(np.int8) if self.ctis.any() else NO_KINDS

    @property
    def rows(self) -> int:
        """The number of items that are rows."""
        return len(self.items) - int(self.ctis.sum())


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class JudgedRun:
    """A run with its verdicts, and the payloads of the accepted rows as columns."""

    run: EventRun
    verdicts: Verdicts
    kept: Bools
    payload: Columns

    def late(self) -> list[tuple[RowEvent, Lateness]]:
        """Return each late event, and how late it was."""
        verdicts = self.verdicts
        if not len(verdicts.late):
            return []
        broken = np.maximum(verdicts.before, MIN_TIME)
        columns = (verdicts.late, verdicts.reason, broken, verdicts.by)
        return [
            (self.run.items[n], Lateness(reason, cti, by))
            for n, number, cti, by in zip(*(each.tolist() for each in columns), strict=True)
            if (reason := REASONS[number]) is not None
        ]


def kept_payloads(run: EventRun, kept: Bools) -> list[Any]:
    """Return the payloads of the accepted rows."""
    items = run.items if kept.all() else compress(run.items, kept.tolist())
    return [item.payload for item in items]
