"""Data of the event-flow page: a captured run as values that JSON can hold."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rxtemporal.core.batch import Int64s, TimeForm
from rxtemporal.core.safe_text import describe_error
from rxtemporal.ingress.source import StreamSource
from rxtemporal.operators.causes.history import ADJUSTED, LATE, TIME, Arrivals
from rxtemporal.operators.causes.lost_row import write_delay, write_span
from rxtemporal.view.debug.causes import ShownCauses, encode_causes, find_causes, find_places
from rxtemporal.view.debug.columns import (
    cut_text,
    encode_array,
    encode_series,
    encode_texts,
    encode_ticks,
)
from rxtemporal.view.debug.nodes import describe_fields, describe_history, find_holders

if TYPE_CHECKING:
    from rxtemporal.operators.causes.history import Arrivals, History
    from rxtemporal.view.lineage.flow import Flow


def write_sentence(flow: Flow) -> str:
    """Return what the reader of a page wants to know first, in one to a few sentences."""
    if flow.error is not None:
        return f"The run failed: {cut_text(describe_error(flow.error))}"
    waits = [f"{each[:1].upper()}{each[1:].rstrip('.')}." for each in flow.holding_back]
    return " ".join([*(waits or ["Everything is final."]), *_write_late(flow)])


def list_cti_delays(flow: Flow) -> dict[str, int | None]:
    """Return how far behind its events each stream makes its CTIs, in ticks; None: it does not."""
    sources = [each for each in flow.histories if each.kind == "source"]
    return {
        each.name: each.node.cti_delay if isinstance(each.node.source, StreamSource) else None
        for each in sources
    }


def _write_late(flow: Flow) -> Iterator[str]:
    delays = list_cti_delays(flow)
    for name, arrivals in flow.arrivals.items():
        late = arrivals.verdict == LATE
        adjusted = arrivals.verdict == ADJUSTED
        fates = [(int(late.sum()), "dropped"), (int(adjusted.sum()), "adjusted")]
        parts = [f"{number:,} {fate}" for number, fate in fates if number]
        if parts:
            events = int((arrivals.verdict != TIME).sum())
            came = (
                f"{name!r}: {sum(number for number, _ in fates):,} of {events:,} events came late"
            )
            remedy = _write_remedy(arrivals, delays.get(name), flow.time)
            yield f"{came} ({', '.join(parts)}){remedy}."


def _write_remedy(arrivals: Arrivals, delay: int | None, time: TimeForm) -> str:
    late = (arrivals.verdict == LATE) | (arrivals.verdict == ADJUSTED)
    furthest = int(arrivals.by[late].max())
    if not furthest:  # ahead of the wall clock, or an end without its start
        return ""
    if delay is None:
        return f", by up to {write_span(furthest, time)}"
    enough, now = write_delay(delay + furthest, time), write_delay(delay, time)
    return f"; a delay of {enough} in place of {now} would have kept them"


# so many arrivals, and so many rows of one node, are shown
MOST_ROWS = 100_000
# so many rows are shown of all nodes together
MOST_IN_ALL = 400_000


@dataclasses.dataclass(frozen=True)
class ShownRows:
    """The rows that are shown of each history, those of each stream's arrivals, and the causes.

    ``of`` is the number of arrivals of the run, ``shown`` how many of them are shown, ``is_whole``
    True if every row and arrival is.
    """

    rows: list[Int64s]
    arrivals: Mapping[str, Int64s]
    causes: list[ShownCauses | None]
    of: int
    shown: int
    is_whole: bool


def take_sample(flow: Flow, most: int = MOST_ROWS, in_all: int = MOST_IN_ALL) -> ShownRows:
    """Return the rows of a flow that are shown: at most so many of each node."""
    room = max(1, min(most, in_all // max(1, len(flow.histories))))
    wanted = [_NO_ROWS] * len(flow.histories)
    causes: list[ShownCauses | None] = [None] * len(flow.histories)
    # from the output to the sources: inputs come before their operators
    for history in reversed(flow.histories):
        chosen = choose(len(history), np.unique(wanted[history.number]), room)
        wanted[history.number] = chosen
        if history.inputs:
            found = find_causes(flow, history.number, chosen)
            causes[history.number] = found
            for side, each in enumerate(history.inputs):
                below = found.list_rows(side)
                wanted[each] = np.concatenate([wanted[each], below])
    arrivals = _choose_arrivals(flow, wanted, most)
    whole = all(len(r) == len(h) for r, h in zip(wanted, flow.histories, strict=True))
    of = sum(len(each) for each in flow.arrivals.values())
    shown = sum(map(len, arrivals.values()))
    return ShownRows(wanted, arrivals, causes, of, shown, whole and of == shown)


_NO_ROWS: Int64s = np.empty(0, np.int64)


def choose(count: int, wanted: Int64s, most: int) -> Int64s:
    """Return at most so many of ``count`` rows, ascending: those wanted, then evenly others.

    >>> choose(10, np.array([1, 2]), 5).tolist()
    [0, 1, 2, 5, 9]
    """
    if count <= most:
        return np.arange(count)
    if len(wanted) >= most:
        return wanted[spread(len(wanted), most)]
    others = np.setdiff1d(np.arange(count), wanted, assume_unique=True)
    return np.sort(np.concatenate([wanted, others[spread(len(others), most - len(wanted))]]))


def spread(count: int, most: int) -> Int64s:
    """Return at most so many of ``count`` numbers, evenly, the first and the last among them."""
    if count <= most:
        return np.arange(count)
    return np.linspace(0, count - 1, most).astype(np.int64)


def _choose_arrivals(flow: Flow, shown: list[Int64s], most: int) -> dict[str, Int64s]:
    """Return the arrivals that are shown of each stream: late ones, then those whose rows are."""
    total = sum(len(each) for each in flow.arrivals.values())
    sources = {each.origin: each.number for each in flow.histories if each.name == each.origin}
    chosen = {}
    for name, each in flow.arrivals.items():
        share = most if total <= most else max(1, most * len(each) // total)
        rows = shown[sources[name]] if name in sources else _NO_ROWS
        chosen[name] = choose(len(each), _find_wanted(each, rows, share), share)
    return chosen


def _find_wanted(arrivals: Arrivals, rows: Int64s, most: int) -> Int64s:
    """Return the arrivals that are wanted: late ones up to half of the room, and those of rows."""
    late = np.flatnonzero(arrivals.verdict == LATE)
    late = late[spread(len(late), max(1, most // 2))]
    own = np.flatnonzero(np.isin(arrivals.row, rows))
    own = np.setdiff1d(own, late, assume_unique=True)
    return np.sort(np.concatenate([late, own[spread(len(own), most - len(late))]]))


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
