"""Capture of a run: the plan runs once over its input, and all that leaves a node is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import BindingError
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.ingress.source import Cursor
from rxtemporal.operators.causes.history import (
    Arrivals,
    ClosedRows,
    History,
    close_rows,
    make_no_rows,
)
from rxtemporal.operators.plan import Node, compose_again, list_nodes, number_names
from rxtemporal.run.execution import Execution
from rxtemporal.run.ordering import accept_next, group_recordings
from rxtemporal.run.stalls import find_stalls
from rxtemporal.run.time_flow import find_imported
from rxtemporal.storage.event_log.cursors import RecordedCursor, RecordedSource
from rxtemporal.storage.event_log.reader import Recording
from rxtemporal.view.lineage.arrival_log import ArrivalLog, Probe, Progress, Steps
from rxtemporal.view.lineage.flow import Flow


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


class PieceCursor(Cursor):
    """Cursor over the items of another one, at most ``most`` rows or events at a time.

    A batch is cut; its own CTI comes with its last row.
    """

    def __init__(self, inner: Cursor, most: int) -> None:
        super().__init__()
        self._inner, self._most = inner, most
        self.checked, self.completes = inner.checked, inner.completes
        self._waiting: list[Any] = []
        # how many rows of the first waiting item have been taken, and the CTI of batches so far
        self._at, self._cti = 0, MIN_TIME

    @property
    def position(self) -> Any:
        """The position of the other cursor."""
        return self._inner.position

    def peek(self) -> int:
        """Return the time of the next row or event, or the highest start so far at the end."""
        return max(self._reached, self._next_start()) if self._load() else self._reached

    def take(self, until: int = MAX_TIME) -> list[Any] | None:
        """Return a piece up to a time, at least one row or event; None at the end."""
        if not self._load():
            return None
        pieces: list[Any] = []
        left = self._most
        while left > 0 and (not pieces or self.peek() <= until) and self._waiting:
            piece = self._take_one(until, left)
            left -= max(1, len(piece)) if isinstance(piece, EventBatch) else 1
            pieces.append(piece)
        return pieces

    def close(self) -> None:
        """Release the source."""
        self._inner.close()

    def _load(self) -> bool:
        while not self._waiting:
            items = self._inner.take()
            self.completes, self.time_form = self._inner.completes, self._inner.time_form
            if items is None:
                return False
            self._waiting, self._at = list(items), 0
        return True

    def _next_start(self) -> int:
        item = self._waiting[0]
        if isinstance(item, EventBatch):
            return int(item.start[self._at]) if len(item) else MIN_TIME
        start = getattr(item, "start", MIN_TIME)
        return start if isinstance(start, int) else MIN_TIME

    def _take_one(self, until: int, most: int) -> Any:
        self._reached = self.peek()
        item = self._waiting[0]
        if not isinstance(item, EventBatch) or len(item) <= 1:
            self._cti = item.cti if isinstance(item, EventBatch) else self._cti
            return self._waiting.pop(0)
        begin = end = self._at
        while end < len(item) and end - begin < most:
            if end > begin and max(self._reached, int(item.start[end])) > until:
                break
            self._reached = max(self._reached, int(item.start[end]))
            end += 1
        piece, self._at = item.slice(begin, end), end
        if end < len(item):
            return piece.replace(cti=min(self._cti, item.cti))
        self._waiting.pop(0)
        self._at, self._cti = 0, item.cti
        return piece


# a run of more arrivals takes several in one step
MOST_STEPS = 100_000


def capture(
    output: Node,
    *,
    every: int | None = None,
    named: Mapping[str, Node] | None = None,
    title: str = "query",
    progress: Progress | None = None,
) -> Flow:
    """Run a plan to the end of its sources, and return all that flowed through it.

    Doors, order of arrival, imports and late events are those of any run. A step takes ``every``
    arrivals at most: by default one, of more than 100,000 arrivals as many as give 100,000 steps.
    ``every=0``: as many as the run takes at once, which is fastest. ``named`` are streams with the
    names under which they are known, as those of a recording are. ``progress`` is called with the
    number of arrivals so far, about once in a thousand. All rows of all nodes are kept in memory.
    ``BindingError``: a source has no end, or pushes its events. An error that ends the run is in
    the result.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(4, 20), rxt.PointEvent(7, 25)], name="readings")
    >>> flow = capture(readings.to_point_events()._node)
    >>> [(history.name, len(history)) for history in flow.histories], flow.steps
    ([('readings', 2), ('to_point_events', 2)], 3)
    """
    output, *others = compose_again([output, *find_imported([output], named or {})], pace=None)
    _refuse_endless([output, *others])
    names = {id(node.source): name for name, node in (named or {}).items()}
    every = _choose_every([output, *others]) if every is None else every
    run = Execution((output, None), names=names, others=others)
    try:
        return _Capture(run, [output, *others], Steps(every, progress), every).take(title)
    finally:
        run.dispose()


class _Capture:
    """One run that is captured."""

    def __init__(self, run: Execution, nodes: list[Node], steps: Steps, every: int) -> None:
        self._run, self._every, self._output = run, every, nodes[0]
        self._nodes = list_nodes(nodes)
        self._steps = steps
        self._probes = {id(node): self._probe(node) for node in self._nodes}
        self._logs: dict[int, ArrivalLog] = {}
        for reader in run.readers:
            self._logs[id(reader.source)] = log = ArrivalLog(reader, self._steps)
            reader.record(log)
        self._errors: list[BaseException] = []

    def _probe(self, node: Node) -> Probe:
        """Return a probe of what leaves a node, attached before the run begins."""
        wiring = self._run.wiring
        if node.operator is None:
            probe = Probe(self._steps)
            entry = next(each for source, each in wiring.entries if source is node.source)
            entry.watch(probe.note)
            return probe
        stage = wiring.stages[node]
        probe = Probe(self._steps, stage)
        stage.watch(probe.note)
        self._steps.watch(probe)
        return probe

    def take(self, title: str) -> Flow:
        """Run to the end, and return the flow."""
        run = self._run
        run.late.observable.subscribe(lambda late: self._steps.log.note_late(late))
        run.start(lambda batch: None, self._errors.append, lambda: None)
        self._drive()
        self._steps.finish()
        # a run that has reached the end of time waits for nothing
        stalls = () if self._errors else find_stalls(run, [title])
        histories, arrivals = self._collect()
        numbers = {id(node): number for number, node in enumerate(self._nodes)}
        return Flow(
            output=numbers[id(self._output)],
            histories=histories,
            arrivals=arrivals,
            every=self._every,
            steps=self._steps.now + 1,
            time=run.time,
            holding_back=tuple(map(str, stalls)),
            error=next(iter(self._errors), None),
            clocks={
                reader.name: clocks
                for reader in run.readers
                if (clocks := reader.door.get_clock_stats()) is not None
            },
        )

    def _drive(self) -> None:
        run, every = self._run, self._every
        if not every:
            asked = group_recordings(run.readers, exact=run.imports)
        else:
            for reader in run.readers:
                reader.answer_promptly()
                if reader.cursor is not None and not isinstance(reader.cursor, RecordedCursor):
                    reader.wrap_cursor(lambda inner: PieceCursor(inner, every))
            asked = group_recordings(run.readers, exact=True, most=every)
        while not run.ended and (waiting := [each for each in asked if each.unread]):
            if every or run.imports:
                accept_next(waiting, run.flow)
            else:
                min(waiting, key=lambda each: each.place).read_batch()

    def _collect(self) -> tuple[tuple[History, ...], dict[str, Arrivals]]:
        histories: list[History] = []
        arrivals: dict[str, Arrivals] = {}
        streams = self._name_streams()
        numbers = {id(node): number for number, node in enumerate(self._nodes)}
        for number, node in enumerate(self._nodes):
            probe = self._probes[id(node)]
            inputs = tuple(numbers[id(each)] for each in node.inputs)
            history, entered = make_history(number, node, inputs, probe)
            source: Any = node.source
            if isinstance(source, SideSource):
                origin = streams[id(source.origin)]
                name = f"{source.what} of {origin}"
                history = dataclasses.replace(history, name=name, origin=origin)
            elif source is not None:
                name = streams[id(source)]
                history = dataclasses.replace(history, name=name, origin=name)
                arrivals[name] = self._logs[id(source)].to_arrivals(entered)
            histories.append(history)
        for key, log in self._logs.items():  # of whose streams only the late events are used
            if streams[key] not in arrivals:
                arrivals[streams[key]] = log.to_arrivals(make_no_rows())
        return tuple(histories), arrivals

    def _name_streams(self) -> dict[int, str]:
        """Return a name for each input stream, by the id of its source; each name is there once."""
        readers = self._run.readers
        names = number_names(reader.name for reader in readers)
        return {id(each.source): name for each, name in zip(readers, names, strict=True)}


def _get_sources(outputs: list[Node]) -> list[Any]:
    """Return the sources that a run of the plans reads, each once."""
    sources: dict[int, Any] = {}
    for node in list_nodes(outputs):
        source: Any = node.source
        source = source.origin if isinstance(source, SideSource) else source
        if source is not None:
            sources[id(source)] = source
    return list(sources.values())


def _refuse_endless(outputs: list[Node]) -> None:
    for source in _get_sources(outputs):
        if source.pushes or not source.bounded:
            what = "pushes its events" if source.pushes else "may have no end"
            raise BindingError(
                f"{source.name!r} {what}, so the run cannot be taken apart. Hint: run(…, "
                "record=folder) records it; then give recording=folder."
            )


def _choose_every(outputs: list[Node]) -> int:
    """Return how many arrivals a step takes, so that there are not too many steps."""
    total = 0
    recordings: dict[int, Recording] = {}
    for source in _get_sources(outputs):
        if isinstance(source, RecordedSource):
            recordings[id(source.recording)] = source.recording
        else:
            cursor = source.open(None)
            while (items := cursor.take()) is not None:
                total += sum(max(1, len(i)) if hasattr(i, "__len__") else 1 for i in items)
            cursor.close()
    total += sum(int(recording.count()) for recording in recordings.values())
    return max(1, -(-total // MOST_STEPS))
