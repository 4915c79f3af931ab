"""Nodes of the event-flow page: sources and operators, with their counters and their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.carried_rows import get_cti
from rxtemporal.operators.causes.history import CTI, NEVER, History, PlanNode
from rxtemporal.run.stalls import format_time
from rxtemporal.view.debug.columns import (
    Column,
    cut_text,
    encode_array,
    encode_series,
    encode_texts,
    encode_ticks,
)

if TYPE_CHECKING:
    from rxtemporal.operators.causes.history import History
    from rxtemporal.view.lineage.flow import Flow


# of more windows the first ones are shaded
MOST_WINDOWS = 20_000


def find_windows(history: History) -> dict[str, Column] | None:
    """Return the starts and ends of a window operator's windows, in order; None for another one.

    A result lives for its window, or is a point that begins where the window ends. Windows whose
    length is not known from such a point are not shaded.
    """
    operator = history.node.operator
    windows = None if operator is None else operator.find_windows(history.start, history.end)
    if windows is None:
        return None
    starts, ends = windows
    times = pl.DataFrame({"start": starts, "end": ends}).unique().sort("start", "end")
    times = times.head(MOST_WINDOWS)
    return {name: encode_ticks(np.asarray(times[name].to_numpy())) for name in ("start", "end")}


def describe_plan(number: int, node: PlanNode, name: str, inputs: Sequence[int]) -> dict[str, Any]:
    """Return the part of a node that does not change while it runs."""
    operator = node.operator
    return {
        "id": number,
        "name": cut_text(name),
        "kind": "source" if operator is None else "operator",
        # without the folder: the page may be shared
        "line": None if operator is None else PurePath(operator.line).name,
        "inputs": list(inputs),
        "keys": list(node.keys),
        "ctiRule": None if operator is None else operator.cti_rule,
        "holds": None if operator is None else operator.holds,
        "fields": describe_fields(node.schema or pl.Schema()),
    }


def describe_fields(schema: pl.Schema) -> list[dict[str, str]]:
    """Return the names and the types of fields."""
    return [{"name": cut_text(name), "type": str(dtype)} for name, dtype in schema.items()]


def describe_history(flow: Flow, history: History, rows: Int64s) -> dict[str, Any]:
    """Return a node of the page with these of its rows, without their causes."""
    payload = history.payload[rows]
    plan = [each.node for each in flow.histories]
    lanes = find_lane_fields(history.node, plan, payload.columns)
    return {
        **describe_plan(history.number, history.node, history.name, history.inputs),
        "fields": describe_fields(payload.schema),
        "rowsIn": count_rows_in(flow, history),
        "rowsOut": len(history),
        "cti": format_time(get_cti(history), flow.time),
        "held": int(history.held[-1]) if len(history.held) else 0,
        "seconds": history.seconds,
        "rows": {
            "start": encode_ticks(history.start[rows]),
            "end": encode_ticks(history.end[rows]),
            "known": encode_array("i32", history.known[rows]),
            "closed": encode_steps(history.closed[rows]),
            "lane": encode_lanes(payload, lanes),
            "payload": [encode_series(each) for each in payload],
        },
        "ctis": encode_ctis(history.cti_steps, history.ctis),
        "heldCurve": encode_held(history.held_steps, history.held),
        "window": find_windows(history),
    }


def encode_ctis(steps: npt.ArrayLike, ctis: npt.ArrayLike) -> dict[str, Column]:
    """Return the CTIs of a node after the steps in which they advanced."""
    return {
        "step": encode_array("i32", steps),
        "cti": encode_ticks(np.asarray(ctis, np.int64)),
    }


def encode_held(steps: npt.ArrayLike, held: npt.ArrayLike) -> dict[str, Column]:
    """Return the numbers of rows that a node held after the steps in which that changed."""
    return {"step": encode_array("i32", steps), "rows": encode_array("f64", held)}


def count_rows_in(flow: Flow, history: History) -> int:
    """Return the number of rows that came into an operator, or of events into a source."""
    if history.inputs:
        return sum(len(flow.histories[each]) for each in history.inputs)
    arrivals = flow.arrivals.get(history.origin)
    return len(history) if arrivals is None else int((arrivals.kind != CTI).sum())


def encode_steps(steps: Int64s) -> Column:
    """Return numbers of steps, -1 for one that never came.

    >>> encode_steps(np.array([3]))["n"]
    1
    """
    return encode_array("i32", np.where(steps == NEVER, -1, steps))


def find_lane_fields(
    node: PlanNode, plan: Iterable[PlanNode], fields: Collection[str]
) -> tuple[str, ...]:
    """Return which of its fields lay the rows of a node out in lanes.

    They are the keys of its stream, or of the input whose grouping its operator ends, or those by
    which the next operator groups.
    """
    after = [each for each in plan if any(node is below for below in each.inputs)]
    for each in (node, *node.inputs, *after):
        if each.keys and set(each.keys) <= set(fields):
            keys: tuple[str, ...] = each.keys
            return keys
    return ()


def encode_lanes(payload: pl.DataFrame, fields: Sequence[str]) -> Column | None:
    """Return the text of each row's key; None if rows have none."""
    if not fields:
        return None
    texts = [payload[each].cast(pl.String, strict=False).fill_null("null") for each in fields]
    joined = pl.DataFrame(texts).select(pl.concat_str(pl.all(), separator=", ")).to_series()
    return encode_texts(joined)


def find_holders(flow: Flow) -> set[int]:
    """Return the nodes that hold the output back: sources whose CTI is the lowest, or operators."""
    found: set[int] = set()
    waiting = [flow.histories[flow.output]]
    while waiting:
        history = waiting.pop()
        below = [flow.histories[each] for each in history.inputs]
        lowest = min((get_cti(each) for each in below), default=MAX_TIME)
        if get_cti(history) >= MAX_TIME:
            continue
        if lowest >= MAX_TIME:
            found.add(history.number)
        waiting += [each for each in below if get_cti(each) == lowest < MAX_TIME]
    return found
