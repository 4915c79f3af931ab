"""Batches in a CTI synchronizing subject: checks, edges as events, and late rows as events.

Importing this module loads compiled code; the first batch of a subject does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, EventShape, RowEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.door_rules import CTI
from rxtemporal.engine.kernels.door import measure_rows
from rxtemporal.errors import EventError
from rxtemporal.ingress.batch_verdicts import EventRun, Rules, State, Verdicts, judge_rows
from rxtemporal.ingress.lateness import NO_CTI, LateReason
from rxtemporal.ingress.unpacker import list_events
from rxtemporal.reactive.subjects.inputs import SubjectRows


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


def judge_run(run: EventRun, rules: Rules, state: State) -> tuple[EventRun, Verdicts] | None:
    """Return what passes of points or intervals and CTIs, and the verdicts on all.

    None if they have to be taken one by one: the start of an interval has to be adjusted, or a CTI
    is an end of time.
    """
    sent = run.start[:0]
    if len(run.kind):
        is_cti = run.kind == CTI
        sent = run.start[is_cti]
        if sent.min() <= MIN_TIME or sent.max() >= MAX_TIME:
            return None
    verdicts = judge_rows(run.start, run.end, rules, state, run.kind)
    if not len(verdicts.late) and not len(sent):
        return run, verdicts
    if LateReason.ADJUSTED in verdicts.reasons:
        return None
    passes, start = verdicts.kept, run.start
    if len(sent):
        passes = passes.copy()  # the verdicts keep their own
        made = np.maximum(sent - rules.cti_delay, MIN_TIME)
        before = np.maximum.accumulate(np.append(state[0], made))[:-1]
        passes[is_cti] = made > before
        start = start.copy()
        start[is_cti] = made
    passed = EventRun(run.items, start, run.end, run.kind, run.time_types)
    return (passed if passes.all() else passed.select(passes)), verdicts
