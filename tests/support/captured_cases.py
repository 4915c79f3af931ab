"""Runs of the laws' cases taken apart, and an operator run again over some of its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import law_streams
import numpy as np
import physical
from oracle import Event, freeze

import rxtemporal as rxt
from rxtemporal.core.batch import EventBatch
from rxtemporal.operators.causes.carried_rows import to_batch
from rxtemporal.operators.causes.history import History, close_rows
from rxtemporal.view.lineage.capture import capture
from rxtemporal.view.lineage.flow import Flow

Outcome = tuple[int, int, Any]


class CutSource(rxt.Source):
    """Events of a run that was stopped: the stream does not end with them."""

    bounded = True
    schema = physical.SCHEMA

    def __init__(self, items: Sequence[Event]) -> None:
        self._items = items

    def open(self, position: Any = None) -> rxt.Cursor:
        """Return a cursor over the events, which is cut off behind them."""
        cursor = rxt.Cursor([physical.event(item) for item in self._items], run_rows=100)
        cursor.completes = False
        return cursor


def read_cut(items: Sequence[Event], name: str, *, real: bool = False) -> rxt.Streamable:
    """Return a stream of these items that is cut off behind them; ``real`` as in a case."""
    unit: Any = "us" if real else None
    return rxt.from_source(CutSource(items), name=name, unit=unit)


def capture_case(name: str, sides: law_streams.Sides, every: int | None = None) -> Flow:
    """Run a case of the laws over drawn streams, and return its flow."""
    case = law_streams.CASES[name]
    return capture_query(case.query, sides, every, real=case.real)


def capture_query(
    query: physical.Query,
    sides: Sequence[Sequence[Event]],
    every: int | None = 0,
    *,
    real: bool = False,
) -> Flow:
    """Run a query over drawn streams that are cut off behind their events; return its flow."""
    streams = [
        read_cut(items, side, real=real) for items, side in zip(sides, physical.SIDES, strict=False)
    ]
    flow = capture(query(*streams)._node, every=every)
    if not isinstance(flow.error, rxt.UnboundedWindowError | None):
        raise flow.error
    return flow


def outcomes(history: History) -> list[Outcome]:
    """Return the rows of a node as values: start, end, payload."""
    payloads = history.payload.to_dicts() or [{}] * len(history)
    return list(zip(history.start.tolist(), history.end.tolist(), payloads, strict=True))


def run_alone(flow: Flow, number: int, rows: Sequence[Sequence[int]]) -> list[Outcome]:
    """Return what an operator makes of some rows of its inputs, `rows` of each, alone."""
    history = flow.histories[number]
    inputs = [flow.histories[each] for each in history.inputs]
    batches = [
        to_batch(each).take(np.array(sorted(some), np.int64))
        for each, some in zip(inputs, rows, strict=True)
    ]
    operator: Any = history.node.operator
    step = operator.make(*(batch.schema for batch in batches), inputs[0].keys)
    if len(batches) == 1:
        out = step.on_batch(batches[0])
    else:
        out = EventBatch.concat([step.on_left(batches[0]), step.on_right(batches[1])])
    closed = close_rows(out, np.zeros(len(out), np.int64))
    payload = out.payload[closed.begins].to_dicts() or [{}] * len(closed.begins)
    start = out.start[closed.begins].tolist()
    return list(zip(start, closed.end.tolist(), payload, strict=True))


def is_among(wanted: Outcome, made: Sequence[Outcome]) -> bool:
    """Return True if a row is among others; floats may differ in their last digits."""
    return any(_equal(wanted, each) for each in made)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return freeze(a) == freeze(b)
