"""Data of the event-flow page: a captured run as values that JSON can hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.debug.causes import encode_causes, find_places
from rxtemporal.debug.columns import (
    cut_text,
    encode_array,
    encode_series,
    encode_texts,
    encode_ticks,
)
from rxtemporal.debug.nodes import describe_fields, describe_history, find_holders
from rxtemporal.debug.sentence import list_cti_delays, write_sentence
from rxtemporal.debug.shown_rows import MOST_IN_ALL, MOST_ROWS, ShownRows, take_sample

if TYPE_CHECKING:
    from rxtemporal.lineage.flow import Flow
    from rxtemporal.operators.causes.history import Arrivals, History

VERSION = 1


def describe_flow(
    flow: Flow, title: str, *, most: int = MOST_ROWS, in_all: int = MOST_IN_ALL
) -> dict[str, Any]:
    """Return a run as the page reads it: its plan, its rows with their causes, its arrivals.

    Of a run with more than ``most`` arrivals, or as many rows in one node, a sample is there, and
    ``sampled`` says so.
    """
    sample = take_sample(flow, most, in_all)
    holders = find_holders(flow)
    return {
        "version": VERSION,
        "title": cut_text(title),
        "time": flow.time,
        "zone": "UTC",
        "every": flow.every,
        "steps": flow.steps,
        "sampled": None if sample.is_whole else {"of": sample.of, "shown": sample.shown},
        "sentence": write_sentence(flow),
        "output": flow.output,
        "nodes": [_describe_node(flow, each, sample, holders) for each in flow.histories],
        "arrivals": [
            _describe_arrivals(flow, name, each, sample) for name, each in flow.arrivals.items()
        ],
        "delay": list_cti_delays(flow),
        "latency": None,
        "diff": None,
        "live": False,
    }


def write_json(flow: dict[str, Any]) -> str:
    """Return the data of a page as JSON, in ASCII and without ``<``: it cannot end its script.

    >>> write_json({"title": "</script>"})
    '{"title":"\\\\u003c/script>"}'
    """
    text = json.dumps(flow, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _describe_node(
    flow: Flow, history: History, sample: ShownRows, holders: set[int]
) -> dict[str, Any]:
    rows, causes = sample.rows[history.number], sample.causes[history.number]
    node = describe_history(flow, history, rows)
    node["holdsBack"] = history.number in holders
    node["causes"] = node["causesNote"] = None
    if causes is not None:
        shown = [sample.rows[each] for each in history.inputs]
        node["causes"], node["causesNote"] = encode_causes(causes, shown, len(rows))
    return node


def _describe_arrivals(
    flow: Flow, name: str, arrivals: Arrivals, shown: ShownRows
) -> dict[str, Any]:
    """Return the shown arrivals of one stream, in order."""
    at = shown.arrivals[name]
    number = find_source(flow, name)
    payload = arrivals.payload[at]
    return {
        "stream": number,
        "name": cut_text(name),
        "fields": describe_fields(payload.schema),
        "step": encode_array("i32", arrivals.step[at]),
        "start": encode_ticks(arrivals.start[at]),
        "end": encode_ticks(arrivals.end[at]),
        "kind": encode_array("u8", arrivals.kind[at]),
        "verdict": encode_array("u8", arrivals.verdict[at]),
        "reason": encode_texts(arrivals.reason[at]),
        "by": encode_array("f64", arrivals.by[at]),
        "row": encode_array("i32", _find_shown(shown, number, arrivals.row[at])),
        "position": encode_array("f64", arrivals.position[at]),
        "input": encode_texts(arrivals.input[at]),
        "payload": [encode_series(each) for each in payload],
    }


def find_source(flow: Flow, name: str) -> int | None:
    """Return the number of the source of a stream; None if no operator reads it."""
    found = (each.number for each in flow.histories if each.name == each.origin == name)
    return next(found, None)


def _find_shown(sample: ShownRows, number: int | None, rows: Int64s) -> Int64s:
    """Return the places of rows among those of their source that are shown; -1 for others."""
    if number is None:
        return np.full(len(rows), -1, np.int64)
    return find_places(sample.rows[number], rows)
