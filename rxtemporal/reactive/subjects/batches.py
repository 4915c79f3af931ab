"""Batches in a CTI synchronizing subject: checks, edges as events, and late rows as events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch
from rxtemporal.core.events import Cti, EventShape, IntervalEvent, PointEvent, RowEvent
from rxtemporal.core.payload_rows import list_payloads
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.kernels.door_rules import DROP_AHEAD, NEVER, ROW
from rxtemporal.errors import EventError
from rxtemporal.ingress.batch_verdicts import NO_KINDS, REASONS, Verdicts, judge_rows
from rxtemporal.ingress.lateness import NO_CTI, LateEvent
from rxtemporal.ingress.settings import AdvanceTimePolicy
from rxtemporal.ingress.unpacker import list_events
from rxtemporal.reactive.subjects.accumulator import SubjectRows


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
    # compiled code is loaded by the first batch with rows
    from rxtemporal.engine.kernels.door import measure_rows

    start, end, edge = batch.start, batch.end, batch.edge
    if not len(start) == len(end) == len(edge) == batch.payload.height:
        return None
    low, high, shortest, longest, has_edges = measure_rows(start, end, edge)
    is_fit = shortest >= TICK and (longest == TICK or shape is EventShape.INTERVAL)
    return SubjectRows(batch, low, high) if is_fit and high < MAX_TIME and not has_edges else None


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


def judge_batch(
    batch: EventBatch, cti: int, policy: AdvanceTimePolicy, dropped: Bools | None = None
) -> tuple[EventBatch, Verdicts]:
    """Return the accepted rows of a batch of complete rows at a CTI, and the verdicts on all.

    ``dropped`` is the mask of rows that are dropped since they are ahead of the wall clock.
    """
    generates_none = (0, 0, 0, policy is AdvanceTimePolicy.ADJUST, 0)
    state = np.array([cti, cti, 0, NEVER, 0, NEVER, 0], np.int64)
    kind = NO_KINDS if dropped is None else np.where(dropped, DROP_AHEAD, ROW).astype(np.int8)
    verdicts = judge_rows(batch.start, batch.end, generates_none, state, kind)
    return verdicts.apply(batch, NO_KINDS), verdicts


def list_late(
    batch: EventBatch, verdicts: Verdicts, shape: EventShape, source: str
) -> Iterator[LateEvent]:
    """Yield the late rows of a batch of complete rows as events."""
    late = verdicts.late_rows(batch)
    if late is None:
        return
    rows = late.rows
    payloads = list_payloads(rows.payload)
    columns = (rows.start, rows.end, late.reason, late.cti, late.by)
    for payload, start, end, number, cti, by in zip(
        payloads, *(each.tolist() for each in columns), strict=True
    ):
        event: Any = PointEvent(start, payload)
        if shape is EventShape.INTERVAL:
            event = IntervalEvent(start, end, payload)
        reason = REASONS[number]
        assert reason is not None
        yield LateEvent(event, source, reason, cti, by)
