"""Search for stalls: from the output of a query back to the sources that it waits for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.stage import Meter, RowHolder, Stage
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.operators.plan import Node
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.reader import Reader
from rxtemporal.runtime.stalls import Stall

SIDES = ("left", "right")


def find_stalls(execution: Execution, queries: Sequence[str]) -> tuple[Stall, ...]:
    """Return the stalls of all queries that have not reached the end of time."""
    found: list[Stall] = []
    for name, (node, stage) in zip(queries, execution.wiring.leaving, strict=True):
        if stage.output.cti < MAX_TIME:
            found += _Search(execution, name, node, stage).find()
    return tuple(found)


@dataclasses.dataclass(frozen=True, slots=True)
class _Input:
    """The input of a two-input operator that is behind the other one."""

    node: Node
    side: int

    @property
    def place(self) -> str:
        """The operator and the line that composed it."""
        assert self.node.operator is not None
        return f"{self.node.operator.name} ({Path(self.node.operator.line).name})"

    @property
    def is_source(self) -> bool:
        """True if a source is this input, with no operator between."""
        return self.node.inputs[self.side].source is not None


class _Search:
    """Search of one query, upstream from its output."""

    def __init__(self, execution: Execution, query: str, output: Node, leaving: Stage) -> None:
        self._query = query
        self._output = output
        self._leaving = leaving
        self._stages = execution.wiring.stages
        self._now = execution.clock.elapsed()
        self._time = execution.time
        self._flow = execution.flow
        self._readers = {id(reader.source): reader for reader in execution.readers}
        nodes = output.list_nodes()
        stages = [self._stages[each] for each in nodes if each.operator is not None]
        readers = [self._reader(each) for each in nodes if each.source is not None]
        self._names = [each.name for each in readers]
        holders: list[RowHolder] = [*stages, *readers, leaving]
        self._rows = sum(each.rows for each in holders)
        due = [each.next_due for each in holders]
        self._due = min((each for each in due if each is not None), default=None)

    def _reader(self, node: Node) -> Reader:
        """Return the reader of a source; late events are read with their original stream."""
        source = node.source.origin if isinstance(node.source, SideSource) else node.source
        return self._readers[id(source)]

    def find(self) -> list[Stall]:
        """Return the stalls of the query."""
        shaped = self._leaving.output
        if shaped.cti < self._leaving.inputs[0].cti and self._leaving.rows:
            return [self._stall(None, shaped, due=self._leaving.next_due)]
        return self._trace(self._output, None)

    def _trace(self, node: Node, behind: _Input | None) -> list[Stall]:
        """Return the stalls of a stream; ``behind`` is the last input on the way that is behind."""
        if node.source is not None:
            return self._at_source(self._reader(node), behind)
        missing = self._stages[node].missing
        # if the plan knows the fields, a CTI is enough to begin
        if missing is not None and node.inputs[missing].schema is None:
            return [self._without_fields(_Input(node, missing))]
        # read once, since the run continues meanwhile
        ctis = [meter.cti for meter in self._stages[node].inputs]
        lowest = [side for side, cti in enumerate(ctis) if cti == min(ctis)]
        if len(lowest) < len(ctis):
            behind = _Input(node, lowest[0])
        # both sides may come from one stream, which is reported once
        found = {
            (each.stream, each.operator): each
            for side in lowest
            for each in self._trace(node.inputs[side], behind)
        }
        return list(found.values())

    def _without_fields(self, behind: _Input) -> Stall:
        """Return the stall of an operator that cannot begin before it knows an input's fields."""
        node, side = behind.node, behind.side
        sources = [each for each in node.inputs[side].list_nodes() if each.source is not None]
        unknown = [each for each in sources if each.schema is None] or sources
        meter = self._stages[node].inputs[side]
        found = self._stall(self._reader(unknown[0]), meter, behind=behind)
        return dataclasses.replace(found, needs_fields=True)

    def _at_source(self, reader: Reader, behind: _Input | None) -> list[Stall]:
        meter, due = reader.meter, None
        if behind is not None:
            stage = self._stages[behind.node]
            meter, due = stage.inputs[behind.side], stage.next_due
        if meter.cti >= MAX_TIME:
            return []
        return [self._stall(reader, meter, due=due, behind=behind)]

    def _stall(
        self,
        reader: Reader | None,
        meter: Meter,
        *,
        due: int | None = None,
        behind: _Input | None = None,
    ) -> Stall:
        stream = None if reader is None else reader.name
        return Stall(
            query=self._query,
            stream=stream,
            operator=None if behind is None else behind.place,
            side=None if behind is None else SIDES[behind.side],
            direct=behind is None or behind.is_source,
            cti=meter.cti,
            cti_age=max(self._now - meter.moved, 0.0),
            rows=self._rows,
            next_due=self._due if due is None else due,
            ended=reader is not None and reader.ended,
            imports=None if reader is None else self._find_ended_import(reader),
            others=tuple(name for name in self._names if name != stream),
            time=self._time,
        )

    def _find_ended_import(self, reader: Reader) -> str | None:
        """Return the ended stream from which a stream without CTIs of its own takes all it has."""
        seen: set[Reader] = set()
        while reader not in seen and not reader.ended:
            seen.add(reader)
            settings, imported = reader.source.settings, self._flow.imported_by(reader)
            if imported is None or settings is None or settings.generation is not None:
                return None
            reader = imported
        return reader.name if reader.ended and seen else None
