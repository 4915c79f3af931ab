"""Causes of the newest rows of a running plan, as far as they are among the rows that are kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s, TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.history import History, PlanNode, close_rows, make_no_rows
from rxtemporal.view.debug.columns import encode_array
from rxtemporal.view.debug.data import find_causes, find_places
from rxtemporal.view.lineage.flow import Flow

# so many causes are sent at once for each node
MOST_LINKS = 20_000
_log = get_logger(__name__)


class KeptBatch(NamedTuple):
    """A batch that is kept: the number of rows of its node ``until`` its end, and its step."""

    until: int
    step: int
    batch: EventBatch


@dataclasses.dataclass(frozen=True, slots=True)
class NumberedRows:
    """The kept rows of a node.

    Rows are numbered from the first that was kept on; ``numbers`` has those of the rows of
    ``history``, ascending, and ``entered`` that of the row of each entry: an end that has become
    known has the number of its row.
    """

    history: History
    numbers: Int64s
    entered: Int64s


def keep_rows(
    number: int, node: PlanNode, inputs: Sequence[int], kept: Sequence[KeptBatch]
) -> NumberedRows:
    """Return the kept rows of one node as a history."""
    batch, steps, own = _join(node, kept)
    known = ~_find_orphans(batch)
    if not known.all():
        batch, steps = batch.take(known), steps[known]
    rows = close_rows(batch, steps)
    numbers = own[known][rows.begins]
    entered = own.copy()
    entered[known] = numbers[rows.entered]
    history = History(
        number=number,
        name="" if node.operator is None else node.operator.name,
        kind="source" if node.operator is None else "operator",
        line=None,
        inputs=tuple(inputs),
        keys=node.keys,
        node=node,
        start=batch.start[rows.begins],
        end=rows.end,
        known=rows.known,
        closed=rows.closed,
        payload=batch.payload[rows.begins],
        cti_steps=make_no_rows(),
        ctis=make_no_rows(),
        held_steps=make_no_rows(),
        held=make_no_rows(),
    )
    return NumberedRows(history, numbers, entered)


def _join(node: PlanNode, kept: Sequence[KeptBatch]) -> tuple[EventBatch, Int64s, Int64s]:
    """Return all rows in one batch, their steps and their numbers."""
    if not kept:
        empty = EventBatch.empty(node.schema or pl.Schema(), MAX_TIME)
        return empty, make_no_rows(), make_no_rows()
    steps = [np.full(len(each.batch), each.step, np.int64) for each in kept]
    own = [np.arange(each.until - len(each.batch), each.until) for each in kept]
    batch = EventBatch.concat([each.batch for each in kept])
    return batch, np.concatenate(steps), np.concatenate(own)


def _find_orphans(batch: EventBatch) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which entries are ends of rows whose beginning is not kept any more."""
    places = np.flatnonzero(batch.edge)
    places = places[np.argsort(batch.edge[places], kind="stable")]
    ends = batch.end[places] != MAX_TIME
    begun = np.zeros(len(places), np.bool_)
    begun[1:] = (np.diff(batch.edge[places]) == 0) & ~ends[:-1]
    orphans = np.zeros(len(batch), np.bool_)
    orphans[places] = ends & ~begun
    return orphans


def encode_links(
    kept: Sequence[NumberedRows], new: Mapping[int, Int64s], time: TimeForm
) -> dict[int, dict[str, Any]]:
    """Return the direct causes of new rows of some nodes, as columns, by the number of the node.

    ``new`` has the numbers of the rows. ``of`` and ``row`` are numbers of rows, ``side`` is that of
    the input. A rule that finds no causes, since older rows are missing, leaves them out.
    """
    flow = Flow(0, tuple(each.history for each in kept), {}, every=0, steps=0, time=time)
    return {node: _encode(flow, kept, node, numbers) for node, numbers in new.items()}


def _encode(flow: Flow, kept: Sequence[NumberedRows], node: int, new: Int64s) -> dict[str, Any]:
    own, inputs = kept[node], kept[node].history.inputs
    rows = find_places(own.numbers, np.unique(new))
    rows = rows[rows >= 0]
    of = row = make_no_rows()
    side = role = np.empty(0, np.int8)
    if inputs and len(rows):
        try:
            found = find_causes(flow, node, rows, MOST_LINKS)
            of, side, role = own.numbers[rows[found.of]], found.side, found.role
            row = np.zeros(len(of), np.int64)
            for number, each in enumerate(inputs):
                row[side == number] = kept[each].numbers[found.row[side == number]]
        except Exception:
            of = row = make_no_rows()
            side = role = np.empty(0, np.int8)
            _log.exception("the live page finds no causes", node=node)
    return {
        "of": encode_array("f64", of), "side": encode_array("u8", side),
        "row": encode_array("f64", row), "role": encode_array("u8", role),
    }  # fmt: skip
