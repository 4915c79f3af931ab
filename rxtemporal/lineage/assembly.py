"""Histories made of the batches that left a node: end edges are put to their start edges."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.lineage.steps import Probe
from rxtemporal.operators.causes.history import ClosedRows, History, close_rows, make_no_rows
from rxtemporal.operators.plan import Node


def make_history(
    number: int, node: Node, inputs: tuple[int, ...], probe: Probe
) -> tuple[History, Int64s]:
    """Return the history of a node, and the row of each entry that has left it, in order."""
    batch = EventBatch.concat([each for _, each in probe.batches]) if probe.batches else None
    steps = [np.full(len(each), step, np.int64) for step, each in probe.batches]
    if batch is None:
        rows = ClosedRows(*(make_no_rows() for _ in ClosedRows._fields))
        start, payload = make_no_rows(), pl.DataFrame(schema=node.schema or {})
    else:
        rows = close_rows(batch, np.concatenate(steps))
        start, payload = batch.start[rows.begins], batch.payload
        if len(rows.begins) < len(batch):
            payload = payload[rows.begins]
    cti_steps, ctis = _split(probe.ctis)
    held_steps, held = _split(probe.held)
    operator = node.operator
    history = History(
        number=number,
        name="" if operator is None else operator.name,
        kind="source" if operator is None else "operator",
        line=None if operator is None else operator.line,
        inputs=inputs,
        keys=node.keys,
        node=node,
        start=start,
        end=rows.end,
        known=rows.known,
        closed=rows.closed,
        payload=payload,
        cti_steps=cti_steps,
        ctis=ctis,
        held_steps=held_steps,
        held=held,
        seconds=probe.seconds,
    )
    return history, rows.entered


def _split(pairs: list[tuple[int, int]]) -> tuple[Int64s, Int64s]:
    both = np.array(pairs, np.int64).reshape(-1, 2)
    # of several in one step the last one counts
    last = np.ones(len(both), np.bool_)
    last[:-1] = np.diff(both[:, 0]) != 0
    return both[last, 0], both[last, 1]
