"""Live event-flow page: what it reads from a running process while somebody looks at it.

Nothing is kept, and nothing costs anything, before the first looker comes and after the last one
has gone.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import zip_longest
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s, TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import brief, describe_failure
from rxtemporal.core.schema import to_fields
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.driver import Entry
from rxtemporal.engine.stage import Stage
from rxtemporal.ingress.lateness import LateEvent
from rxtemporal.operators.causes.history import ADJUSTED, LATE, NEVER, find_kind
from rxtemporal.operators.plan import Node
from rxtemporal.run.execution import Execution
from rxtemporal.run.process import Process
from rxtemporal.run.reader import Reader
from rxtemporal.run.stalls import find_stalls, format_time
from rxtemporal.view.debug.columns import (
    Column,
    cut_text,
    encode_array,
    encode_series,
    encode_texts,
    encode_ticks,
)
from rxtemporal.view.debug.data import VERSION, write_clocks
from rxtemporal.view.debug.live_causes import KeptBatch, NumberedRows, encode_links, keep_rows
from rxtemporal.view.debug.nodes import (
    describe_fields,
    describe_plan,
    encode_ctis,
    encode_held,
    encode_lanes,
    encode_steps,
    find_lane_fields,
)

# seconds from one look to the next, at least
PAUSE = 0.9
# a look that takes long is followed by a pause of so many times as long
REST = 9
# seconds that a look waits for a process that is busy
PATIENCE = 0.2
# so many rows of each node are kept while somebody looks, and of results so far
MOST_ROWS = 2_000
# so many bytes of rows are kept of each node, to find causes among them: each looker joins them
# once in a second, which takes about 6 ms for each node in which rows flow
MOST_BYTES = 1_000_000


class SoFar(NamedTuple):
    """Result of a look at one query: its last rows, the number of all of them, and an error."""

    rows: EventBatch
    total: int
    error: str = ""


_NOTHING = SoFar(EventBatch.empty(pl.Schema(), MIN_TIME), 0)


class ResultsSoFar:
    """Looks at the results so far of each query of a process, shared by all who ask.

    There is one look at a time, and looks take about a tenth of the time at most: whoever asks
    meanwhile gets what the last one has found. While a query is busy, that stays. Threads: any.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._due = 0.0
        # what is known of each query, in their order
        self.found = [_NOTHING] * len(process._outlets)

    def read(self) -> list[SoFar]:
        """Return what is known of each query, after a look if it is time."""
        if self._lock.acquire(blocking=False):
            try:
                begun = time.monotonic()
                if begun >= self._due:
                    self.found = [self._look(*each) for each in enumerate(self.found)]
                    ended = time.monotonic()
                    self._due = ended + max(PAUSE, REST * (ended - begun))
            finally:
                self._lock.release()
        return self.found

    def _look(self, number: int, before: SoFar) -> SoFar:
        try:
            rows = self._process._look(number, PATIENCE)
        except TimeoutError:
            return before
        except Exception as error:  # of a user's function, too
            return _NOTHING._replace(error=describe_failure(error))
        newest = np.sort(np.argsort(rows.start, kind="stable")[-MOST_ROWS:])
        return SoFar(rows.take(newest), len(rows))


Item = TypeVar("Item")


class Newest(Generic[Item]):
    """The newest items, each with its number from 1 on.

    >>> newest = Newest(2)
    >>> for item in "abc":
    ...     newest.put(item)
    >>> newest.read(0), newest.read(2), newest.count
    (['b', 'c'], ['c'], 3)
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._items: deque[Item] = deque(maxlen=most)
        # the items so far, those included that have gone
        self.count = 0

    def put(self, item: Item) -> None:
        """Take an item; the oldest one goes if there are too many."""
        self._items.append(item)
        self.count += 1

    def read(self, after: int) -> list[Item]:
        """Return the items with a higher number than ``after``, as far as they are there."""
        news = min(self.count - after, len(self._items))
        return list(self._items)[len(self._items) - news :]


class NewestRows:
    """The newest rows of one node as batches, each with its step, and its newest CTIs."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._batches: deque[KeptBatch] = deque()
        self._most, self._bytes = most_bytes, 0
        # the rows so far, those included that have gone
        self.count = 0
        self.ctis: Newest[tuple[int, int]] = Newest()
        self._cti = MIN_TIME
        # the fields, once there is a row
        self.schema: pl.Schema | None = None

    def put(self, step: int, batch: EventBatch) -> None:
        """Take a batch of a step."""
        self.reach(step, batch.cti)
        if not len(batch):
            return
        self.schema = batch.schema
        self.count += len(batch)
        room = self._most * len(batch) // max(1, batch.estimate_bytes())
        # a copy, for a batch may be a small part of a large one
        batch = batch.take(np.arange(max(0, len(batch) - max(1, room)), len(batch)))
        self._batches.append(KeptBatch(self.count, step, batch))
        self._bytes += _measure(batch)
        while self._bytes > self._most and len(self._batches) > 1:
            self._bytes -= _measure(self._batches.popleft().batch)

    def reach(self, step: int, cti: int) -> None:
        """Take the CTI after a step."""
        if cti > self._cti:
            self._cti = cti
            self.ctis.put((step, cti))

    def list_kept(self) -> list[KeptBatch]:
        """Return all batches that are kept."""
        return list(self._batches)

    def read(self, after: int) -> list[tuple[int, EventBatch]]:
        """Return what came after so many rows, as batches with their steps; ``MOST_ROWS`` rows."""
        found: list[tuple[int, EventBatch]] = []
        left = MOST_ROWS
        for count, step, batch in reversed(self._batches):
            if count <= after or not left:
                break
            part = batch if len(batch) <= left else batch.slice(len(batch) - left, len(batch))
            found.append((step, part))
            left -= len(part)
        return found[::-1]


def _measure(batch: EventBatch) -> int:
    """Return about how many bytes a kept batch takes, that of its objects included."""
    return batch.estimate_bytes() + 1_000


_SMALL = (pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16)


def encode_rows(
    batches: Sequence[tuple[int, EventBatch]],
    numbers: Int64s,
    schema: pl.Schema,
    lanes: Sequence[str],
) -> dict[str, Any]:
    """Return the rows of batches, each with its step, as columns; ``numbers`` are those of rows.

    A row with an ``edge`` other than 0 takes the place of the one with the same edge before it:
    its end has become known.
    """
    steps = [np.full(len(each), step) for step, each in batches]
    known = np.concatenate([np.empty(0, np.int64), *steps])
    rows = EventBatch.concat([each for _, each in batches] or [EventBatch.empty(schema, MAX_TIME)])
    is_open = (rows.edge != 0) & (rows.end == MAX_TIME)
    payload = rows.payload
    return {
        "start": encode_ticks(rows.start),
        "end": encode_ticks(rows.end),
        "known": encode_array("i32", known),
        "closed": encode_steps(np.where(is_open, NEVER, known)),
        "edge": encode_array("f64", rows.edge),
        "number": encode_array("f64", numbers),
        "lane": encode_lanes(payload, lanes),
        "payload": [_encode_series(each) for each in payload],
    }


def _encode_series(series: pl.Series) -> Column:
    """Return a column whose type depends on that of the field alone, so that more can follow."""
    is_large = series.dtype.is_integer() and series.dtype not in _SMALL
    return encode_series(series.cast(pl.Float64) if is_large else series)


def encode_late(
    stream: int, name: str, late: Sequence[tuple[int, LateEvent]], schema: pl.Schema
) -> dict[str, Any]:
    """Return late events of one stream, each with its step, as columns of arrivals."""
    events = [each.event for _, each in late]
    reasons = [each.reason for _, each in late]
    verdicts = [ADJUSTED if each.keeps_row else LATE for each in reasons]
    payloads = [to_fields(each.payload) for each in events]
    return {
        "stream": stream,
        "name": name,
        "fields": [{"name": each, "type": "String"} for each in schema],
        "step": encode_array("i32", [step for step, _ in late]),
        "start": encode_ticks(np.array([each.start for each in events], np.int64)),
        "end": encode_ticks(np.array([each.end for each in events], np.int64)),
        "kind": encode_array("u8", list(map(find_kind, events))),
        "verdict": encode_array("u8", verdicts),
        "reason": encode_texts([each.value for each in reasons]),
        "by": encode_array("f64", [each.by for _, each in late]),
        "row": encode_array("i32", [-1] * len(late)),
        "position": encode_array("f64", [-1] * len(late)),
        "input": encode_texts([each.source for _, each in late]),
        "payload": [_encode_field(payloads, field) for field in schema],
    }


def _encode_field(payloads: Sequence[dict[str, Any]], field: str) -> Column:
    return encode_texts([_write(each.get(field)) for each in payloads])


def _write(value: Any) -> str | None:
    """Return the text of a value that the stream has not taken, so that it may be anything."""
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, (bool, int, float, datetime)) else brief(value)


CAUSES_NOTE = "only causes are shown that came while somebody looked, and are among the newest rows"


@dataclasses.dataclass(frozen=True, slots=True)
class News:
    """News of a node: batches and CTIs, each with its step; and all batches that are kept."""

    rows: Sequence[tuple[int, EventBatch]]
    ctis: Sequence[tuple[int, int]]
    kept: Sequence[KeptBatch]

    def list_new(self, kept: NumberedRows) -> Int64s:
        """Return the number of each new row."""
        count = sum(len(batch) for _, batch in self.rows)
        return kept.entered[len(kept.entered) - count :]


class LiveNode:
    """One node of a running plan, and its newest rows while somebody looks."""

    def __init__(self, number: int, node: Node, name: str, place: Entry | Stage) -> None:
        self.number, self.node, self.name = number, node, name
        self.newest = NewestRows()
        self._place = place
        # of a source that is read or that pushes, None for a stream of its late events
        self.reader: Reader | None = None
        # the nodes of the plan, among which are those that read this one
        self.plan: Sequence[Node] = ()

    @property
    def schema(self) -> pl.Schema | None:
        """The fields; None as long as they are not known."""
        return self.node.schema or self.newest.schema

    @property
    def lanes(self) -> tuple[str, ...]:
        """The fields that lay rows out in lanes."""
        return find_lane_fields(self.node, self.plan, self.schema or ())

    def begin(self) -> None:
        """Keep the CTI that the node has reached."""
        if self._place.cti > MIN_TIME:
            self.newest.reach(0, self._place.cti)

    def watch(self, tap: Any) -> None:
        """Call a function with each batch that leaves the node; None: with none any more."""
        self._place.watch(tap)

    def describe(self, inputs: Sequence[int]) -> dict[str, Any]:
        """Return what does not change while it runs."""
        plan = describe_plan(self.number, self.node, self.name, inputs)
        fields = describe_fields(self.schema or pl.Schema())
        note = CAUSES_NOTE if inputs else None
        known = {"fields": fields, "causesNote": note}
        return {**plan, **known, "window": None, "causes": None, "soFar": None}

    def read(self, news: News, numbers: Int64s, step: int, time: TimeForm) -> dict[str, Any]:
        """Return the counters, and what is new: ``numbers`` are those of the new rows."""
        schema = self.schema or pl.Schema()
        steps, ctis = [step for step, _ in news.ctis], [cti for _, cti in news.ctis]
        return {
            "id": self.number,
            "rowsIn": self._count_in(),
            "rowsOut": self._place.rows_out,
            "cti": format_time(self._place.cti, time),
            "held": self._held,
            "seconds": None,
            "rows": encode_rows(news.rows, numbers, schema, self.lanes),
            "ctis": encode_ctis(steps, ctis),
            "heldCurve": encode_held([max(step, 0)], [self._held]),
        }

    def encode_so_far(self, found: SoFar) -> dict[str, Any]:
        """Return the rows that are not final, and how many there are."""
        schema = self.schema or found.rows.schema
        none = np.zeros(len(found.rows), np.int64)
        batches = [(0, found.rows)] if found.total else []
        rows = encode_rows(batches, none, schema, self.lanes)
        return {"count": found.total, "rows": rows}

    @property
    def _held(self) -> int:
        if isinstance(self._place, Stage):
            return self._place.rows
        return 0 if self.reader is None else self.reader.door.rows

    def _count_in(self) -> int:
        if isinstance(self._place, Stage):
            return sum(each.rows_out for each in self._place.inputs)
        return self._place.rows_out if self.reader is None else self.reader.door.events


def list_nodes(execution: Execution) -> list[LiveNode]:
    """Return the nodes of a running plan, sources first."""
    wiring = execution.wiring
    readers = {id(each.source): each for each in execution.readers}
    made: list[LiveNode] = []
    plan: list[tuple[Node, Entry | Stage]] = [*wiring.sources.items(), *wiring.stages.items()]
    for node, place in plan:
        reader = readers.get(id(node.source))
        live = LiveNode(len(made), node, _name(node, reader), place)
        live.reader, live.plan = reader, [each for each, _ in plan]
        made.append(live)
    return made


def _name(node: Node, reader: Reader | None) -> str:
    if reader is not None:
        return reader.name
    if node.operator is not None:
        return node.operator.name
    return "" if node.source is None else node.source.name


_log = get_logger(__name__)


@dataclasses.dataclass
class Place:
    """Numbers that a looker has read: of rows and CTIs of each node, and of late events.

    ``so_far`` has the last look at each query.
    """

    rows: list[int]
    ctis: list[int]
    late: int = 0
    so_far: Sequence[SoFar] = ()


class LiveFlow:
    """The newest rows of each node of a running process, from ``open`` to ``close``.

    A step is a batch that enters the query. Threads: any.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self._execution = process._execution
        self.nodes = list_nodes(self._execution)
        places = {id(each.node): each.number for each in self.nodes}
        self._inputs = [[places[id(below)] for below in each.node.inputs] for each in self.nodes]
        # the number of the node of each query
        self._outputs = [places[id(node)] for node, _ in self._execution.wiring.leaves]
        self._so_far = ResultsSoFar(process)
        self._late: Newest[tuple[int, LateEvent]] = Newest()
        self._lock = threading.Lock()
        self._step = -1
        self._listener: Any = None

    def open(self) -> None:
        """Begin to keep the newest rows."""
        self._listener = self.process.late.subscribe(self._note_late)
        for node in self.nodes:
            node.begin()
            node.watch(partial(self._note, node.number))

    def close(self) -> None:
        """Keep nothing more."""
        for node in self.nodes:
            node.watch(None)
        if self._listener is not None:
            self._listener.dispose()

    def _note(self, number: int, batch: EventBatch) -> None:
        """Keep a batch; never raises, for it is called in the middle of the run."""
        try:
            with self._lock:
                self._step += self.nodes[number].node.source is not None
                self.nodes[number].newest.put(self._step, batch)
        except Exception:
            _log.exception("the live page cannot keep a batch", node=number)

    def _note_late(self, late: LateEvent) -> None:
        with self._lock:
            self._late.put((self._step, late))

    @property
    def known(self) -> int:
        """The number of nodes whose fields are known; if it grows, all has to be read again."""
        return sum(each.schema is not None for each in self.nodes)

    def read_all(self, title: str) -> tuple[dict[str, Any], Place]:
        """Return the plan with all rows that are kept, and the place after them."""
        place = Place([0] * len(self.nodes), [0] * len(self.nodes))
        plan, part = self._describe(title), self.read(place)
        nodes = [{**a, **b} for a, b in zip(plan["nodes"], part["nodes"], strict=True)]
        return {**plan, **part, "nodes": nodes}, place

    def _describe(self, title: str) -> dict[str, Any]:
        """Return the plan, without rows and counters."""
        nodes = [
            {
                **each.describe(self._inputs[each.number]),
                "output": each.number in self._outputs,
            }
            for each in self.nodes
        ]
        delays = {each.name: each.node.cti_delay for each in self.nodes if each.reader}
        return {
            **describe_shell(title), "time": self._execution.time, "output": self._outputs[0],
            "nodes": nodes, "delay": delays,
        }  # fmt: skip

    def read(self, place: Place) -> dict[str, Any]:
        """Return the counters of each node, and what is new since ``place``, which moves on."""
        execution = self._execution
        outlets = self.process._outlets
        sinks = [each.sink for each in outlets]
        stalls = find_stalls(execution, [each.name for each in outlets], sinks)
        # before the rows, so that none is missing that becomes final meanwhile
        so_far = self._read_so_far(place)
        with self._lock:
            step, late = self._step, self._late.read(place.late)
            news = [
                News(each.newest.read(rows), each.newest.ctis.read(ctis), each.newest.list_kept())
                for each, rows, ctis in zip(self.nodes, place.rows, place.ctis, strict=True)
            ]
            place.rows = [each.newest.count for each in self.nodes]
            place.ctis = [each.newest.ctis.count for each in self.nodes]
            place.late = self._late.count
        holding = {each.stream for each in stalls}
        # of the others nobody asks
        moved = {number for number, new in enumerate(news) if new.rows}
        needed = moved.union(*(self._inputs[number] for number in moved))
        kept = [
            keep_rows(each.number, each.node, inputs, new.kept if each.number in needed else ())
            for each, inputs, new in zip(self.nodes, self._inputs, news, strict=True)
        ]
        numbers = [new.list_new(rows) for new, rows in zip(news, kept, strict=True)]
        came = {number: new for number, new in enumerate(numbers) if len(new)}
        links = encode_links(kept, came, execution.time)
        counted = [
            {
                **each.read(new, numbers[each.number], step, execution.time),
                "links": links.get(each.number),
                "holdsBack": each.reader is not None and each.name in holding,
                **so_far.get(each.number, {}),
            }
            for each, new in zip(self.nodes, news, strict=True)
        ]
        return {
            "step": step, "steps": step + 1, "time": execution.time, "nodes": counted,
            "sentence": self._write_sentence([str(each) for each in stalls]),
            "arrivals": list(self._list_late(late)),
        }  # fmt: skip

    def _read_so_far(self, place: Place) -> dict[int, dict[str, Any]]:
        """Return the results so far by the number of the node, where they are new to ``place``."""
        before, place.so_far = place.so_far, self._so_far.read()
        new: dict[int, dict[str, Any]] = {}
        for number, found, known in zip_longest(self._outputs, place.so_far, before):
            node = self.nodes[number]
            if node.schema is None and found.total:
                node.newest.schema = found.rows.schema
            if found is not known:
                new[number] = {"soFar": node.encode_so_far(found)}
        return new

    def _write_sentence(self, stalls: Sequence[str]) -> str:
        if self.process.error is not None:
            return "The run has failed."
        if self.process.ended:
            return "The run has ended: everything is final."
        waits = [f"{each[:1].upper()}{each[1:]}." for each in stalls]
        told = [*waits, *self._count_late()] or ["Nothing is held back."]
        return " ".join([*told, *self._list_clocks(), *self._list_unseen()])

    def _list_clocks(self) -> Iterator[str]:
        for each in self.nodes:
            clocks = None if each.reader is None else each.reader.door.get_clock_stats()
            if clocks is not None:
                yield write_clocks(each.name, clocks, self.process._execution.time)

    def _list_unseen(self) -> Iterator[str]:
        for outlet, found in zip(self.process._outlets, self._so_far.found, strict=True):
            if found.error:
                yield f"Results so far of {outlet.name!r} cannot be shown: {found.error}"

    def _count_late(self) -> Iterator[str]:
        for each in self.nodes:
            if each.reader is not None and (late := sum(each.reader.door.late.values())):
                yield f"Of {each.reader.door.events:,} events of {each.name!r}, {late:,} came late."

    def _list_late(self, late: Sequence[tuple[int, LateEvent]]) -> Iterator[dict[str, Any]]:
        """Yield the late events of each stream."""
        for node in self.nodes:
            own = [each for each in late if each[1].source == node.name]
            if node.reader is not None and own:
                yield encode_late(node.number, node.name, own, node.schema or pl.Schema())


def describe_shell(title: str) -> dict[str, Any]:
    """Return the data of a live page before its first event."""
    return {
        "version": VERSION, "title": cut_text(title), "live": True, "events": "debug/events",
        "time": "datetime", "zone": "UTC", "every": 1, "steps": 0, "sampled": None, "sentence": "",
        "output": 0, "nodes": [], "arrivals": [], "delay": {}, "latency": None, "diff": None,
    }  # fmt: skip
