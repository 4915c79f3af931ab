"""Batches in a CTI synchronizing subject: checks, edges as events, and late rows as events.

Importing this module loads compiled code; the first batch of a subject does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.event_columns import make_events
from rxtemporal.core.events import Cti, EventShape, IntervalEvent, PointEvent, RowEvent
from rxtemporal.core.payload_rows import list_payloads
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.kernels.door import admit_rows, measure_rows
from rxtemporal.errors import EventError
from rxtemporal.ingress.batch_verdicts import Bytes
from rxtemporal.ingress.lateness import NO_CTI, LateEvent, LateReason
from rxtemporal.ingress.settings import AdvanceTimePolicy
from rxtemporal.ingress.unpacker import list_events
from rxtemporal.reactive.subjects.rows import SubjectRows

_NONE: Bools = np.empty(0, np.bool_)
# by the kernel's number
_REASONS = dict(enumerate(LateReason, 1))


def read_batch(batch: EventBatch, shape: EventShape) -> list[Any]:
    """Return a batch as the items that a subject takes: edges as events, other rows together.

    Raises unless all rows have the subject's shape, and the batch keeps the contract of batches.
    """
    if shape is EventShape.EDGE:
        _check_batch(batch, shape)
        return _split_edges(batch)
    rows = _measure(batch, shape) if len(batch) else SubjectRows(batch, MAX_TIME, NO_CTI)
    if rows is None:
        _check_batch(batch, shape)
        raise EventError("the lifetime of a row of a batch is longer than time")
    return [rows]


def _measure(batch: EventBatch, shape: EventShape) -> SubjectRows | None:
    """Return the measures of a batch with rows; None if one of them does not fit."""
    start, end = batch.start, batch.end
    if batch.has_edges or not len(start) == len(end) == len(batch.edge) == batch.columns.height:
        return None
    low, high, shortest, longest = measure_rows(start, end)
    is_fit = shortest >= TICK and (longest == TICK or shape is EventShape.INTERVAL)
    return SubjectRows(batch, low, high) if is_fit and high < MAX_TIME else None


def _check_batch(batch: EventBatch, shape: EventShape) -> None:
    batch.check()
    if shape is not EventShape.EDGE and not batch.edge.any():
        if shape is EventShape.INTERVAL:
            return
        misfits = batch.end - batch.start != TICK
    else:
        misfits = (batch.edge == 0) == (shape is EventShape.EDGE)
    if misfits.any():
        row = int(misfits.argmax())
        raise EventError(
            f"this subject takes {shape.value} events, but row {row} of a batch is "
            f"{list_events(batch.slice(row, row + 1), 'ticks')[0]!r}"
        )


def _split_edges(batch: EventBatch) -> list[RowEvent | Cti]:
    """Return the edges of a batch as events, and its CTI after them."""
    ctis = [Cti(batch.cti)] if batch.cti > MIN_TIME else []
    return [*list_events(batch, "ticks"), *ctis]


class JudgedRows(NamedTuple):
    """The accepted rows of a batch and their numbers, and how many are late or ahead of the clock.

    ``reason`` has the verdict on each row of the batch, if they are named.
    """

    accepted: EventBatch
    kept: Int64s
    reason: Bytes
    dropped: int
    adjusted: int
    ahead: int

    def count_late(self, late: Counter[LateReason]) -> None:
        """Add the rows that are not accepted as they came."""
        if self.dropped:
            late[LateReason.DROPPED] += self.dropped
        if self.adjusted:
            late[LateReason.ADJUSTED] += self.adjusted
        if self.ahead:
            late[LateReason.AHEAD] += self.ahead


def judge_batch(
    batch: EventBatch,
    cti: int,
    policy: AdvanceTimePolicy,
    dropped: Bools | None,
    *,
    named: bool,
) -> JudgedRows:
    """Judge a batch of complete rows at a CTI; with ``named``, note the verdict on each.

    ``dropped`` is the mask of rows that are dropped since they are ahead of the wall clock.
    """
    kept, starts, ends, reason, late, adjusted = admit_rows(
        batch.start,
        batch.end,
        _NONE if dropped is None else dropped,
        cti,
        policy is AdvanceTimePolicy.ADJUST,
        named,
    )
    # complete rows, so all edges are 0
    rows = len(kept)
    accepted = EventBatch(starts, ends, batch.edge[:rows], batch.columns.take(kept), batch.cti)
    return JudgedRows(accepted, kept, reason, late, adjusted, len(batch.start) - rows - late)


def list_late(
    batch: EventBatch, judged: JudgedRows, cti: int, shape: EventShape, source: str
) -> Iterator[LateEvent]:
    """Yield the late rows of a batch of complete rows, with their verdicts, as events."""
    late = judged.reason.nonzero()[0]
    rows, broken = batch.take(late), max(cti, MIN_TIME)
    starts = rows.start.tolist()
    kind = PointEvent if shape is EventShape.POINT else IntervalEvent
    events = make_events(kind, starts, starts, rows.end.tolist(), list_payloads(rows.columns))
    for event, number in zip(events, judged.reason[late].tolist(), strict=True):
        yield LateEvent(event, source, _REASONS[number], broken, max(broken - event.start, 0))
