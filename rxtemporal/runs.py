"""Runs of row events into batches at once: what a packer does event by event, for many."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.column_door import REASONS, Bools, Bytes, Judged
from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.events import Cti, IntervalEvent, PointEvent
from rxtemporal.core.payloads import BadPayloadError
from rxtemporal.core.ticks import MIN_TIME, TICK
from rxtemporal.engine.kernels.door_rules import CTI, ROW
from rxtemporal.packing import UNSETTLED_ROWS, Packer

# so many events are taken at once, if there are so many; fewer than the least go one by one
RUN_ROWS, RUN_LEAST = 8_192, UNSETTLED_ROWS

_AT_ONCE = {PointEvent, IntervalEvent, Cti}
_start, _end, _payload = attrgetter("start"), attrgetter("end"), attrgetter("payload")


def taken(packer: Packer, items: Sequence[Any]) -> Iterator[EventBatch]:
    """Yield the batches that a packer makes of events and batches that follow each other.

    Many points and intervals, with CTIs among them, are judged and packed as columns. Where
    something is wrong with one of them the packer takes them one by one, and tells which.
    """
    batch, done = None, False
    if len(items) >= RUN_LEAST and _AT_ONCE.issuperset(map(type, items)):
        waiting = packer.pack()
        if waiting is not None:
            yield waiting
        batch, done = _at_once(packer, _Run.of(items))
    if batch is not None:
        yield batch
    for item in () if done else items:
        batch = packer.take_any(item)
        if batch is not None:
            yield batch


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Events as columns; ``ctis`` tells which are CTIs."""

    items: Sequence[Any]
    start: Int64s
    end: Int64s
    ctis: Bools

    @staticmethod
    def of(items: Sequence[Any]) -> _Run:
        n, types = len(items), list(map(type, items))
        start = np.fromiter(map(_start, items), np.int64, n)
        ctis = np.zeros(n, np.bool_)
        end = start + TICK
        if Cti in types:
            ctis = np.array([each is Cti for each in types], np.bool_)
        if IntervalEvent in types:
            end[~ctis] = np.fromiter(map(_end, compress(items, (~ctis).tolist())), np.int64)
        return _Run(items, start, end, ctis)

    @property
    def kind(self) -> Bytes:
        """What each item is; nothing where all are complete rows."""
        return np.where(self.ctis, CTI, ROW).astype(np.int8) if self.ctis.any() else _NO_KINDS


_NO_KINDS: Bytes = np.empty(0, np.int8)


def _at_once(packer: Packer, run: _Run) -> tuple[EventBatch | None, bool]:
    """Return a run as a batch, and whether it could be taken so."""
    judged = packer.columns.judge(run.start, run.end, run.kind)
    if packer.door.settings is None and _breaks_a_promise(run, judged):
        return None, False
    kept = judged.kept & ~run.ctis
    payloads = list(map(_payload, run.items if kept.all() else compress(run.items, kept.tolist())))
    frame = _framed(packer, payloads)
    if frame is None:
        return None, False
    for tape in (packer.door.tape, packer.door.log):
        if tape is not None:
            tape.events(run.items)
    packer.columns.take(judged, len(run.items) - int(run.ctis.sum()))
    _tell(packer, run, judged)
    if packer.time is None:
        packer.time = "datetime" if isinstance(run.items[0].start_time, datetime) else "ticks"
    cti = max(packer.door.cti, packer.sent)
    if not payloads and cti == packer.sent:
        return None, True
    packer.sent = cti
    return EventBatch.of_rows(judged.start[kept], judged.end[kept], frame, cti), True


def _breaks_a_promise(run: _Run, judged: Judged) -> bool:
    return bool(len(judged.late)) or judged.backwards


def _framed(packer: Packer, payloads: list[Any]) -> pl.DataFrame | None:
    """Return payloads as a frame; None where one does not fit, or a field is not known yet."""
    try:
        packer.payloads.learn(payloads)
        if not packer.payloads.settled and len(payloads) < UNSETTLED_ROWS:
            return None
        return packer.payloads.frame(payloads)
    except BadPayloadError:
        return None


def _tell(packer: Packer, run: _Run, judged: Judged) -> None:
    listener = packer.door.listener
    if listener is None or not len(judged.late):
        return
    broken = np.maximum(judged.before, MIN_TIME).tolist()
    reasons = judged.reason.tolist()
    for n, number, cti, by in zip(
        judged.late.tolist(), reasons, broken, judged.by.tolist(), strict=True
    ):
        reason = REASONS[number]
        assert reason is not None
        listener.event(run.items[n], reason, cti, by)
