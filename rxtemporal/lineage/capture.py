"""Capture of a run: the plan runs once over its input, and all that leaves a node is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rxtemporal.errors import BindingError
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.lineage.arrival_tape import ArrivalTape
from rxtemporal.lineage.assembly import make_history
from rxtemporal.lineage.flow import Flow
from rxtemporal.lineage.pieces import PieceCursor
from rxtemporal.lineage.steps import Probe, Progress, Steps
from rxtemporal.operators.causes.history import Arrivals, History, make_no_rows
from rxtemporal.operators.plan import Node, list_nodes
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.ordering import accept_next, group_recordings
from rxtemporal.runtime.stall_search import find_stalls
from rxtemporal.runtime.time_flow import find_imported
from rxtemporal.storage.event_log.cursors import RecordedCursor
from rxtemporal.storage.event_log.reader import Recording
from rxtemporal.storage.event_log.source import RecordedSource

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
    output, *others = _without_pace([output, *find_imported([output], named or {})])
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
        self._tapes: dict[int, ArrivalTape] = {}
        for reader in run.readers:
            self._tapes[id(reader.source)] = tape = ArrivalTape(reader, self._steps)
            reader.record(tape)
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
        stage.output.watch(probe.note)
        self._steps.watch(probe)
        return probe

    def take(self, title: str) -> Flow:
        """Run to the end, and return the flow."""
        run = self._run
        run.late.observable.subscribe(lambda late: self._steps.tape.note_late(late))
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
        )

    def _drive(self) -> None:
        run, every = self._run, self._every
        if not every:
            asked = group_recordings(run.readers, exact=run.imports)
        else:
            for reader in run.readers:
                reader.answer_promptly()
                if reader.cursor is not None and not isinstance(reader.cursor, RecordedCursor):
                    reader.cursor = PieceCursor(reader.cursor, every)
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
                arrivals[name] = self._tapes[id(source)].to_arrivals(entered)
            histories.append(history)
        for key, tape in self._tapes.items():  # of whose streams only the late events are used
            if streams[key] not in arrivals:
                arrivals[streams[key]] = tape.to_arrivals(make_no_rows())
        return tuple(histories), arrivals

    def _name_streams(self) -> dict[int, str]:
        """Return a name for each input stream, by the id of its source; each name is there once."""
        names: dict[int, str] = {}
        for reader in self._run.readers:
            name, again = reader.name, 2
            while name in names.values():
                name, again = f"{reader.name} {again}", again + 1
            names[id(reader.source)] = name
        return names


def _without_pace(outputs: list[Node]) -> list[Node]:
    """Return the same plans over sources that are read as fast as possible."""
    nodes = list_nodes(outputs)
    if not any(node.pace for node in nodes):
        return outputs
    made: dict[int, Node] = {}
    for node in nodes:
        inputs = tuple(made[id(each)] for each in node.inputs)
        made[id(node)] = dataclasses.replace(node, inputs=inputs, pace=None)
    return [made[id(each)] for each in outputs]


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
