"""Results so far: what the queries of a run would give if nothing more came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.events import EdgeEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, match_form
from rxtemporal.engine.driver import Leaf
from rxtemporal.errors import ArgumentError, UnboundedWindowError
from rxtemporal.operators.plan import Node
from rxtemporal.run.run_state import read_run

if TYPE_CHECKING:
    from rxtemporal.engine.codec import Captured
    from rxtemporal.ingress.device_packer import DevicePacker
    from rxtemporal.run.execution import Execution
    from rxtemporal.run.reader import Reader


# a step of time that makes more rows than this is the last one
_MOST_ROWS = 100_000


class RunDouble:
    """Copy of a run that reads and writes nothing, and in which the present is the end.

    Rows that wait for a CTI enter the query, open rows end at the *cut*, one tick above the highest
    start, and time goes on until all results are known that begin by then. Those that begin later
    are left out.
    """

    def __init__(self, execution: Execution, captured: Captured) -> None:
        self._run = run = execution.make_double()
        self._made: list[list[EventBatch]] = [[] for _ in run.wiring.leaves]
        self._errors: list[Exception] = []
        run.wiring.driver.on_error = self._errors.append
        for made, (_, leaf) in zip(self._made, run.wiring.leaves, strict=True):
            leaf.receive, leaf.complete_run = made.append, _do_nothing
        run.state().load(read_run(captured.dumps()))

    def finish(self) -> list[EventBatch]:
        """Return the rows of each output that have not been given, complete."""
        readers = [each for each in self._run.readers if not each.ended]
        for reader in readers:
            self._push(reader, reader.door.pack())
        highest = max((each.place for each in readers), default=MIN_TIME)
        cut = min(highest + TICK, MAX_TIME - TICK)
        for reader in readers:
            for batch in _end_open_rows(reader, cut):
                self._push(reader, batch)
        self._pass_time(cut)
        found = []
        for made, (node, _) in zip(self._made, self._run.wiring.leaves, strict=True):
            rows = _complete_rows(node, made, cut)
            if node.clock is not None and len(rows):
                rows = _cut_by_device(rows, node.list_device_fields(), _list_doors(readers))
            found.append(rows)
        return found

    def _push(self, reader: Reader, batch: EventBatch | None) -> None:
        if batch is None:
            return
        reader.meter.on_next(batch)
        self._refuse_errors()

    def _refuse_errors(self) -> None:
        """Raise the error of an operator, if one has failed."""
        if self._errors:
            raise self._errors[0]

    def _pass_time(self, cut: int) -> None:
        """Advance all sources until what begins by the cut is known, with its end.

        Each step is twice as long as the one before. The end of a row that never ends is not
        waited for where that makes more and more rows, as in windows.
        """
        wiring = self._run.wiring
        streams = [*wiring.stages.values(), *(leaf for _, leaf in wiring.leaves)]
        at, step, made = min(cut + TICK, MAX_TIME), TICK, 0
        while made <= _MOST_ROWS:
            before = sum(each.rows_out for each in streams)
            for node, entry in wiring.sources.items():
                if node.schema is not None and entry.cti < at:
                    entry.on_next(EventBatch.empty(node.schema, at, node.keys))
            if self._errors and isinstance(self._errors[0], UnboundedWindowError):
                return
            self._refuse_errors()
            made = sum(each.rows_out for each in streams) - before
            if at == MAX_TIME or all(_is_known(leaf, cut) for _, leaf in wiring.leaves):
                break
            at, step = min(at + step, MAX_TIME), 2 * step
        for node, leaf in wiring.leaves:
            if type(leaf) is Leaf and node.schema is not None:  # rows that never end
                leaf.take(0, EventBatch.empty(node.schema, MAX_TIME, node.keys), wiring.driver)


def _is_known(leaf: Leaf, cut: int) -> bool:
    """Return True if all results of an output that begin by the cut have left, with their ends."""
    return not leaf.rows and all(given.cti > cut for given in leaf.inputs)


def _do_nothing() -> None:
    """Ignore the end."""


def _end_open_rows(reader: Reader, cut: int) -> Iterator[EventBatch]:
    """Yield batches with the ends of the rows of a stream that are open."""
    door, doors = reader.door, _list_doors([reader])
    highs = _find_highs(doors)
    for row in [*door.open_rows]:
        edge, least = row.edge, max(cut, door.cti)
        for each in doors:
            high = highs[each.name_device(edge.payload)]
            least = max(high + TICK, each.find_cti(edge.payload))
        end = match_form(max(least, edge.start + TICK), edge.start_time)
        door.open_rows.owner = row.owner
        batch = door.take(EdgeEvent.create_end(edge.start_time, end, edge.payload))
        if batch is not None:
            yield batch
    door.open_rows.owner = ""
    if (last := door.pack()) is not None:
        yield last


def _list_doors(readers: Sequence[Reader]) -> list[DevicePacker]:
    """Return the doors of the streams in which each device has its own time."""
    doors: list[Any] = [each.door for each in readers if each.door.by_device]
    return doors


def _find_highs(doors: Sequence[DevicePacker]) -> dict[tuple[Any, ...], int]:
    """Return the highest time of each device, of several streams the higher one."""
    found: dict[tuple[Any, ...], int] = {}
    for door in doors:
        names, highs = door.list_highs()
        for device, high in zip(names.frame.iter_rows(), highs.tolist(), strict=True):
            found[device] = max(high, found.get(device, MIN_TIME))
    return found


def _cut_by_device(
    rows: EventBatch, fields: Sequence[str], doors: Sequence[DevicePacker]
) -> EventBatch:
    """Return the rows that begin by the cut of their own device."""
    highs = _find_highs(doors)
    devices = rows.payload.select(fields).iter_rows()
    cuts = np.array([highs.get(device, MIN_TIME) + TICK for device in devices], np.int64)
    return rows.take(np.flatnonzero(rows.start <= cuts))


def _complete_rows(node: Node, made: Sequence[EventBatch], cut: int) -> EventBatch:
    """Return results as complete rows that begin by the cut: a start edge with its end.

    An end edge whose row has been given before is left out.
    """
    rows = [each for each in made if len(each)]
    if not rows:
        return EventBatch.empty(node.schema or pl.Schema(), MIN_TIME)
    batch = EventBatch.concat(rows) if len(rows) > 1 else rows[0]
    if batch.has_edges:
        batch = _join_edges(batch)
    return batch.take(np.flatnonzero(batch.start <= cut))


def _join_edges(batch: EventBatch) -> EventBatch:
    edge, end = batch.edge, batch.end.copy()
    closes = (edge != 0) & (end != MAX_TIME)
    known = dict(zip(edge[closes].tolist(), end[closes].tolist(), strict=True))
    opens = np.flatnonzero((edge != 0) & (end == MAX_TIME))
    end[opens] = [known.get(each, MAX_TIME) for each in edge[opens].tolist()]
    none: Int64s = np.zeros(len(batch), np.int64)
    return batch.replace(end=end, edge=none).take(~closes)


def select_keys(frame: pl.DataFrame, keys: Mapping[str, Any] | None) -> pl.DataFrame:
    """Return the rows with these values of some fields: one of each, or one of several."""
    for name, wanted in (keys or {}).items():
        if name not in frame.columns:
            raise ArgumentError(
                f"keys={keys!r}: there is no field {name!r}; there are {', '.join(frame.columns)}."
            )
        values = list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
        frame = frame.filter(pl.col(name).is_in(values))
    return frame
