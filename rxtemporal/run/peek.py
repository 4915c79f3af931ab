"""Results so far: what a query of a run would give if nothing more came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.events import EdgeEvent
from rxtemporal.core.safe_text import brief
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, match_form
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.errors import ArgumentError, BindingError, UnboundedWindowError
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.operators.wiring import Wiring
from rxtemporal.run.evolution import connect_cuts, restore_cut
from rxtemporal.run.execution import Execution, SourceEntry, list_entries
from rxtemporal.run.hand_off import QueueCopy
from rxtemporal.run.late import LateEvents, LateFeed, RejectedRows

if TYPE_CHECKING:
    from rxtemporal.ingress.device_clocks import DeviceClocks


# with so many rows of which none is awaited, the ends that are not known yet count as never
_MOST_ROWS = 1_000_000
# with so many rows the results are given up
_FAR_TOO_MANY = 50_000_000


class RunDouble:
    """Copy of what makes one output of a run, in which the present is the end.

    It reads and writes nothing. Rows that wait enter the query, open rows end at the *cut*, one
    tick above the highest start, and time goes on until all results are known that begin by then.
    Those that begin later are left out.
    """

    def __init__(self, run: Execution, number: int) -> None:
        self._node, shape = run.outputs[number]
        self._wiring = Wiring([self._node], [shape])
        self._errors: list[Exception] = []
        self._wiring.driver.report_to(self._errors.append)
        self._made: list[EventBatch] = []
        ((_, self._leaf),) = self._wiring.leaves
        self._leaf.deliver_to(self._made.append)
        self._sources = [SourceDouble(run, each) for each in list_entries(self._wiring, float)]
        nodes, stages = [*self._wiring.stages], run.wiring.stages
        # each stage of the double with that of the run
        self._pairs = [(self._wiring.stages[node], stages[node]) for node in nodes]
        self._pairs.append((self._leaf, run.wiring.leaves[number][1]))
        self._nodes = [*nodes, self._node]
        self._captured = Captured("run", {})

    def copy(self, run: Execution) -> None:
        """Copy the state of the run; the caller holds it.

        Producers wait for the doors alone, as far as they can go on while nothing is delivered.
        """
        with run.lock:
            doors = [each.capture() for each in self._sources]
        held = [
            [stage.capture(), stage.cti, stage.rows_out, stage.cut and stage.cut.save()]
            for _, stage in self._pairs
        ]
        self._captured = Captured("run", {"doors": doors, "held": held})
        for source in self._sources:
            source.read_waiting()

    def finish(self) -> EventBatch:
        """Return the rows of the output that have not been given, complete."""
        self._load(loads("run", self._captured))
        for source in self._sources:
            source.give_waiting()
            self._refuse_errors()
        cut = min(max(each.highest for each in self._sources) + TICK, MAX_TIME - TICK)
        for source in self._sources:
            source.end_open_rows(cut)
            self._refuse_errors()
        self._pass_time(cut)
        rows = _complete_rows(self._made, self._node.schema)
        rows = rows.take(np.flatnonzero(rows.start <= cut))
        if self._node.clock is not None and len(rows):
            rows = _cut_by_device(rows, self._node.list_device_fields(), self._sources)
        return rows

    def _load(self, state: Mapping[str, Any]) -> None:
        for (stage, _), node, saved in zip(self._pairs, self._nodes, state["held"], strict=True):
            held, cti, rows, cut = saved
            stage.load(held, is_copy=True)
            stage.resume(rows, cti)
            if cut is not None:
                restore_cut(node, stage, cut)
        connect_cuts(self._wiring)
        for source, door in zip(self._sources, state["doors"], strict=True):
            source.load(door)

    def _refuse_errors(self) -> None:
        """Raise the error of an operator, if one has failed."""
        if self._errors:
            raise self._errors[0]

    def _pass_time(self, cut: int) -> None:
        """Advance all sources until what begins by the cut is known, with its end.

        Each step is twice as long as the one before. The end of a row that never ends is not
        waited for where that makes more and more rows, as windows over it do.
        """
        stages = [stage for stage, _ in self._pairs]
        at, step, before = min(cut + TICK, MAX_TIME), TICK, sum(each.rows_out for each in stages)
        while True:
            for source in self._sources:
                source.advance(at)
            if self._errors and isinstance(self._errors[0], UnboundedWindowError):
                break  # what begins by the cut is known before the end of time
            self._refuse_errors()
            begun = self._leaf.floor > cut
            if at == MAX_TIME or (begun and not self._leaf.rows and not _count_open(self._made)):
                break
            made = sum(each.rows_out for each in stages) - before
            if begun and made > _MOST_ROWS:
                break
            if made > _FAR_TOO_MANY:
                raise BindingError(
                    f"there are more than {_FAR_TOO_MANY:,} rows between the last event and the "
                    "end of the windows that are open. Hint: let the rows end, as with "
                    "to_signal(max_gap=), or look at a query whose windows are shorter."
                )
            at, step = min(at + step, MAX_TIME), 2 * step
        if self._leaf.rows:
            self._leaf.give_endless(self._wiring.driver)


class SourceDouble:
    """Copy of the door of a source, and of what waits in front of the query."""

    def __init__(self, run: Execution, entry: SourceEntry) -> None:
        self._reader = reader = run.find_reader(entry.source)
        self.door = run.make_door(entry.source, StreamTime(reader.door.times.form))
        beside = entry.put_rejected_beside()
        self._rejected = beside if isinstance(beside, RejectedRows) else None
        self._main = entry.main
        self._late = LateEvents(LateFeed(), self.door, beside, entry.lates)
        self._waiting = QueueCopy()
        self._ended = False

    @property
    def highest(self) -> int:
        """The highest start of a row that has entered the query."""
        return self._main.highest

    def capture(self) -> list[Any]:
        """Return the state of the door; the caller holds the run and the lock of the door."""
        reader = self._reader
        self._waiting = QueueCopy() if reader.queue is None else reader.queue.copy()
        if self._rejected is not None and reader.rejected is not None:
            self._rejected.copy_from(reader.rejected)
        self._ended = reader.ended
        self._main.resume_at(reader.place)
        return [reader.door.save(), reader.late.save()]

    def read_waiting(self) -> None:
        """Read what waits on disk; the caller holds the run."""
        self._waiting.read()

    def load(self, state: Sequence[Any]) -> None:
        """Continue from the state of the door."""
        door, late = state
        self.door.load(door)
        self._late.load(late)

    def give_waiting(self) -> None:
        """Push what waits into the query, late and rejected rows with it, or the end."""
        entry = self._late.entry
        for batch in self._waiting.batches:
            entry.on_next(batch)
        if self._ended:
            entry.on_completed()
        else:
            rows = self.door.pack()
            entry.on_next(self._make_empty(self.door.sent) if rows is None else rows)

    def end_open_rows(self, cut: int) -> None:
        """End the rows that are open, each at the cut of its device."""
        if self._ended:
            return
        door, clocks = self.door, _list_clocks([self])
        highs = _find_highs(clocks)
        for row in [*door.open_rows]:
            edge, least = row.edge, max(cut, door.cti)
            for each in clocks:
                high = highs[each.name_device(edge.payload)]
                least = max(high + TICK, each.find_cti(edge.payload))
            end = match_form(max(least, edge.start + TICK), edge.start_time)
            door.open_rows.set_owner(row.owner)
            batch = door.take(EdgeEvent.create_end(edge.start_time, end, edge.payload))
            if batch is not None:
                self._main.on_next(batch)
        door.open_rows.set_owner("")
        if (last := door.pack()) is not None:
            self._main.on_next(last)

    def advance(self, time: int) -> None:
        """Advance the stream, and those of its late and rejected rows."""
        if self._main.cti < time:
            self._late.entry.on_next(self._make_empty(time))

    def _make_empty(self, cti: int) -> EventBatch:
        return EventBatch.empty(self.door.payloads.frame([]).schema, cti)


def _list_clocks(sources: Sequence[SourceDouble]) -> list[DeviceClocks]:
    """Return the clocks of the streams in which each device has its own time."""
    return [each.door.clocks for each in sources if each.door.by_device]


def _find_highs(clocks: Sequence[DeviceClocks]) -> dict[tuple[Any, ...], int]:
    """Return the highest time of each device, of several streams the higher one."""
    found: dict[tuple[Any, ...], int] = {}
    for each in clocks:
        names, highs = each.list_highs()
        for device, high in zip(names.frame.iter_rows(), highs.tolist(), strict=True):
            found[device] = max(high, found.get(device, MIN_TIME))
    return found


def _cut_by_device(
    rows: EventBatch, fields: Sequence[str], sources: Sequence[SourceDouble]
) -> EventBatch:
    """Return the rows that begin by the cut of their own device."""
    highs = _find_highs(_list_clocks(sources))
    devices = rows.payload.select(fields).iter_rows()
    cuts = np.array([highs.get(device, MIN_TIME) + TICK for device in devices], np.int64)
    return rows.take(np.flatnonzero(rows.start <= cuts))


def _find_open(edge: Int64s, end: Int64s) -> tuple[Int64s, Bools]:
    """Return the places of start edges, and the mask of end edges."""
    return np.flatnonzero((edge != 0) & (end == MAX_TIME)), (edge != 0) & (end != MAX_TIME)


def _count_open(made: Sequence[EventBatch]) -> int:
    """Return how many start edges have no end edge yet."""
    edged = [each for each in made if each.has_edges]
    if not edged:
        return 0
    edge = np.concatenate([each.edge for each in edged])
    opens, closes = _find_open(edge, np.concatenate([each.end for each in edged]))
    return len(np.setdiff1d(edge[opens], edge[closes]))


def _complete_rows(made: Sequence[EventBatch], schema: pl.Schema | None) -> EventBatch:
    """Return results as complete rows: a start edge with its end.

    An end edge whose row has been given before is left out.
    """
    rows = [each for each in made if len(each)]
    if not rows:
        return EventBatch.empty(schema or pl.Schema(), MIN_TIME)
    batch = EventBatch.concat(rows) if len(rows) > 1 else rows[0]
    if not batch.has_edges:
        return batch
    edge, end = batch.edge, batch.end.copy()
    opens, closes = _find_open(edge, end)
    known = dict(zip(edge[closes].tolist(), end[closes].tolist(), strict=True))
    end[opens] = [known.get(each, MAX_TIME) for each in edge[opens].tolist()]
    none: Int64s = np.zeros(len(batch), np.int64)
    return batch.replace(end=end, edge=none).take(~closes)


def select_keys(
    frame: pl.DataFrame, keys: Mapping[str, Any] | None, *, is_known: bool
) -> pl.DataFrame:
    """Return the rows with these values of some fields: one of each, or one of several.

    ``is_known`` is False as long as the fields are not known; then there is no row.
    """
    if keys is None:
        return frame
    if not isinstance(keys, Mapping):
        raise ArgumentError(
            f"keys are fields with their values, got {brief(keys)}. Hint: keys={{'room': 'lab'}}."
        )
    for name, wanted in keys.items() if is_known else ():
        if name not in frame.columns:
            there = ", ".join(frame.columns)
            raise ArgumentError(f"keys: there is no field {brief(name)}; there are {there}.")
        values = list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
        try:
            frame = frame.filter(pl.col(name).is_in(values, nulls_equal=True))
        except (pl.exceptions.PolarsError, TypeError):
            raise ArgumentError(
                f"keys: field {name!r} is of type {frame.schema[name]}, which has no values such "
                f"as {brief(wanted)}."
            ) from None
    return frame
