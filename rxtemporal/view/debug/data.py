"""Data of the event-flow page: a captured run as values that JSON can hold."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rxtemporal.core.batch import Int64s, TimeForm
from rxtemporal.core.safe_text import describe_error
from rxtemporal.ingress.input_state import ClockStats
from rxtemporal.ingress.source import StreamSource
from rxtemporal.operators.causes.history import ADJUSTED, LATE, TIME, Arrivals
from rxtemporal.operators.causes.lost_row import write_delay, write_span
from rxtemporal.view.debug.columns import (
    Column,
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

# so many causes are shown of all rows of a node, and so many are computed to choose them
MOST_CAUSES, MOST_COMPUTED = 400_000, 8_000_000
# rows that are asked for their causes at once: few at first, then as many as have this many causes
_FIRST, _BLOCK_CAUSES = 64, 200_000

_Part = tuple[Int64s, Any, Int64s, Any]
_NO_PART: _Part = (
    np.empty(0, np.int64), np.empty(0, np.int8), np.empty(0, np.int64), np.empty(0, np.int8)
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ShownCauses:
    """Causes of the rows of a node that are shown, in arrays as those of a flow's ``Causes``.

    ``of`` are places among the shown rows. At most ``each`` causes of a row are there (None: all),
    and those of the first ``rows`` rows.
    """

    of: Int64s
    side: Any
    row: Int64s
    role: Any
    each: int | None
    rows: int

    def list_rows(self, side: int) -> Int64s:
        """Return the rows of one input that are causes, ascending."""
        return np.unique(self.row[self.side == side])


def find_causes(flow: Flow, number: int, rows: Int64s, most: int = MOST_CAUSES) -> ShownCauses:
    """Return the direct causes of these rows of a node, about ``most`` for all of them."""
    each = None
    parts, done, computed = _collect(flow, number, rows, None, most)
    if computed > most:
        each = max(1, most // len(rows))
        parts, done, _ = _collect(flow, number, rows, each, MOST_COMPUTED)
    of, side, row, role = (np.concatenate(every) for every in zip(_NO_PART, *parts, strict=True))
    return ShownCauses(of, side, row, role, each, done)


def _collect(
    flow: Flow, number: int, rows: Int64s, each: int | None, most: int
) -> tuple[list[_Part], int, int]:
    """Return causes, of how many rows they are, and how many were computed.

    It ends once more than ``most`` are.
    """
    parts, computed, done = [], 0, 0
    for end, part in _read(flow, number, rows):
        computed += len(part[0])
        parts.append(part if each is None else _shorten(part, each))
        done = end
        if computed > most:
            break
    return parts, done, computed


def _read(flow: Flow, number: int, rows: Int64s) -> Iterator[tuple[int, _Part]]:
    """Yield the causes of the rows, block by block, with the number of rows up to then."""
    begin, size = 0, _FIRST
    while begin < len(rows):
        asked = rows[begin : begin + size]
        found = flow.causes(number, asked)
        of = np.searchsorted(asked, found.of) + begin
        begin += len(asked)
        yield begin, (of, found.side, found.row, found.role)
        size = max(1, min(1 << 16, size * _BLOCK_CAUSES // max(1, len(found.of))))


def _shorten(part: _Part, each: int) -> _Part:
    """Return the first causes of each row."""
    of = part[0]
    first = np.searchsorted(of, of, side="left")
    kept = np.arange(len(of)) - first < each
    return of[kept], part[1][kept], part[2][kept], part[3][kept]


def encode_causes(
    causes: ShownCauses, shown: list[Int64s], count: int
) -> tuple[Column, str | None]:
    """Return the causes of ``count`` rows as columns, and a note if some are not there.

    ``shown`` are the rows of each input that are shown; a cause is named by its place among them.
    """
    place = np.full(len(causes.row), -1, np.int64)
    for side, rows in enumerate(shown):
        mine = causes.side == side
        place[mine] = find_places(rows, causes.row[mine])
    there = place >= 0
    of = causes.of[there]
    offsets = np.searchsorted(of, np.arange(count + 1))
    columns = {
        "offsets": encode_array("i32", offsets),
        "side": encode_array("u8", causes.side[there]),
        "row": encode_array("i32", place[there]),
        "role": encode_array("u8", causes.role[there]),
    }
    return columns, _write_note(causes, count, int(len(there) - there.sum()))


def find_places(rows: Int64s, wanted: Int64s) -> Int64s:
    """Return the place of each wanted row among ``rows``, which ascend; -1 if it is not there.

    >>> find_places(np.array([3, 5]), np.array([5, 4])).tolist()
    [1, -1]
    """
    if not len(rows):
        return np.full(len(wanted), -1, np.int64)
    place = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[place] == wanted, place, -1)


def _write_note(causes: ShownCauses, count: int, hidden: int) -> str | None:
    if count and not causes.rows:
        return "no rule says what the rows of this operator stand on"
    notes = []
    if causes.each is not None:
        notes.append(f"at most {causes.each:,} causes of each row are shown")
    if causes.rows < count:
        notes.append(f"causes are shown of the first {causes.rows:,} of {count:,} rows")
    if hidden:
        notes.append(f"{hidden:,} causes are rows that are not in the sample")
    return "; ".join(notes) or None


def write_sentence(flow: Flow) -> str:
    """Return what the reader of a page wants to know first, in one to a few sentences."""
    if flow.error is not None:
        return f"The run failed: {cut_text(describe_error(flow.error))}"
    waits = [f"{each[:1].upper()}{each[1:].rstrip('.')}." for each in flow.holding_back]
    clocks = [write_clocks(name, each, flow.time) for name, each in flow.clocks.items()]
    return " ".join([*(waits or ["Everything is final."]), *_write_late(flow), *clocks])


def write_clocks(name: str, clocks: ClockStats, time: TimeForm) -> str:
    """Return a sentence about the clocks of a stream's devices, and those furthest behind."""
    verb = "is" if clocks.behind == 1 else "are"
    counts = f"{clocks.behind:,} {verb} behind and {clocks.silent:,} silent"
    furthest = ", ".join(
        f"{each.device!r} by {write_span(each.distance, time)}"
        for each in clocks.furthest
        if each.distance
    )
    told = f"Of {clocks.devices:,} devices of {name!r}, {counts}"
    return f"{told}; furthest behind: {furthest}." if furthest else f"{told}."


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
