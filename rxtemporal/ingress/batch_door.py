"""The door for columns: what a ``Door`` decides event by event, for many rows at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.door_rules import (
    CTI,
    DROPPED,
    END_EDGE,
    NO_OPEN_ROW,
    NOWHERE,
    ROW,
    START_EDGE,
)
from rxtemporal.errors import EventError
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.ingress.settings import AdvanceTimePolicy

if TYPE_CHECKING:
    from rxtemporal.engine.kernels.hash_table import IntTable

Bytes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

# by the kernel's number; 0 is in time
REASONS = (None, *LateReason)
_NO_BYTES: Bytes = np.empty(0, np.int8)
_NO_ROWS: Int64s = np.empty(0, np.int64)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LateRows:
    """Late rows as they came: ``reason`` numbers in ``REASONS``, the CTI broken, by how much."""

    rows: EventBatch
    reason: Bytes
    cti: Int64s
    by: Int64s


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What became of a run of n items: the times that go on, and the door's state after them.

    ``late`` are the numbers of those that were not in time; for each of these the ``reason``, the
    CTI before it and ``by`` how late it was. ``backwards``: whether a CTI among them goes back.
    """

    start: Int64s
    end: Int64s
    state: Int64s
    late: Int64s
    reason: Bytes
    before: Int64s
    by: Int64s
    backwards: bool

    @property
    def kept(self) -> Bools:
        """Which items go on, CTIs among them."""
        kept: Bools = np.ones(len(self.start), np.bool_)
        kept[self.late[(self.reason == DROPPED) | (self.reason == NO_OPEN_ROW)]] = False
        return kept


class ColumnDoor:
    """A door for runs of rows in arrival order: the verdicts of its ``Door``, at once.

    Time and counters are the door's own, so that events and columns may take turns. Holds one entry
    for each open edge row, by its id. Not thread-safe: its owner serialises.
    """

    def __init__(self, door: Door) -> None:
        self.door = door
        # the starts that open rows were given, by edge id; counted from the beginning of time
        self._open: IntTable | None = None

    @property
    def edges(self) -> bool:
        """Whether edges have come in batches."""
        return self._open is not None

    def admit(self, batch: EventBatch) -> EventBatch:
        """Return the rows that go on, and the CTI after them and the batch's own.

        An end edge is matched by its id. Without settings every row goes on; an end edge without an
        open row is an error then, and promises are checked by the caller.
        """
        door = self.door
        if door.tape is not None:
            door.tape.batch(batch)
        kind = _kinds(batch)
        if door.settings is None and not len(kind):
            door.events += len(batch)
            door.enqueue(batch.cti)
            if door.log is not None:
                door.log.batch(batch)
            return batch
        edges = _Edges(self._table(), batch.edge, kind) if len(kind) else None
        row, moved = (_NO_ROWS, _NO_ROWS) if edges is None else (edges.row, edges.moved)
        judged = self.judge(batch.start, batch.end, kind, row, moved)
        if door.settings is None:
            self._refuse_strays(batch, judged)
        self.take(judged, len(batch))
        if edges is not None:
            edges.keep()
        if door.log is not None:
            door.log.batch(batch)
        return self._going_on(batch, kind, judged)

    def let_in(
        self, batch: EventBatch, starts: Int64s, reason: Bytes, before: Int64s, state: Int64s
    ) -> EventBatch:
        """Return what goes on of complete rows that were judged elsewhere, among other streams'.

        For the columns see the kernel; ``state`` is what the door goes on from.
        """
        judged = _judged(batch.start, starts, batch.end, reason, before, state)
        self.take(judged, len(batch))
        return self._going_on(batch, _NO_BYTES, judged)

    def _going_on(self, batch: EventBatch, kind: Bytes, judged: Judged) -> EventBatch:
        door, which = self.door, judged.late
        if len(which) and door.listener is not None:
            broken = np.maximum(judged.before, MIN_TIME)
            late = LateRows(batch.take(which), judged.reason, broken, judged.by)
            door.listener.rows(late)
        door.enqueue(batch.cti)
        return _going_on(batch, kind, judged).replace(cti=max(door.cti, MIN_TIME))

    @property
    def rules(self) -> tuple[int, int, int, bool]:
        """How CTIs are made, N or 0, T and the delay, and whether late rows are adjusted."""
        due, settings = self.door.due, self.door.settings
        adjust = settings is not None and settings.policy is AdvanceTimePolicy.ADJUST
        return due.every, due.span, due.delay, adjust

    @property
    def state(self) -> tuple[int, int, int, int, int]:
        """What the kernels go on from."""
        door, due = self.door, self.door.due
        return door.cti, door.own, due.count, due.last, 0

    def judge(
        self,
        start: Int64s,
        end: Int64s,
        kind: Bytes = _NO_BYTES,
        row: Int64s = _NO_ROWS,
        moved: Int64s = _NO_ROWS,
    ) -> Judged:
        """Return what becomes of items; the door stays as it is. For the columns see the kernel."""
        # compiled code is loaded by the first query that needs it
        from rxtemporal.engine.kernels.door import admit, advance

        state = np.array(self.state, np.int64)
        every, span, delay, _ = self.rules
        if not len(kind) and advance(start, every, span, delay, state):
            return Judged(start, end, state, _NO_ROWS, _NO_BYTES, _NO_ROWS, _NO_ROWS, False)
        starts, ends, reason, before = admit(start, end, kind, row, moved, *self.rules, state)
        times, backwards = start, False
        if len(kind):
            times = np.where(kind == END_EDGE, end, start)
            backwards = bool(((kind == CTI) & (start < before)).any())
        return _judged(times, starts, ends, reason, before, state, backwards=backwards)

    def take(self, judged: Judged, rows: int) -> None:
        """Let the door go on from what was judged, of so many rows."""
        door = self.door
        door.events += rows
        door.cti, door.own, door.due.count, door.due.last, by_import = judged.state.tolist()
        if not len(judged.late):
            return
        door.late_by_import += by_import
        counts = np.bincount(judged.reason, minlength=len(REASONS)).tolist()
        door.late.update({r: n for r, n in zip(REASONS, counts, strict=True) if r and n})
        matched = judged.by[judged.reason != NO_OPEN_ROW]
        if len(matched):
            door.largest_lateness = max(door.largest_lateness, int(matched.max()))

    def saved(self) -> list[Any]:
        """Return what the door holds, and the starts that open rows were given."""
        return [self.door.saved(), None if self._open is None else [*self._open.state()]]

    def restore(self, state: Sequence[Any]) -> None:
        """Go on from what ``saved`` of a door of the same settings returned."""
        door, table = state
        self.door.restore(door)
        if table is not None:
            from rxtemporal.engine.kernels.hash_table import IntTable

            self._open = IntTable.restore(*table)

    def _table(self) -> IntTable:
        if self._open is None:
            from rxtemporal.engine.kernels.hash_table import IntTable

            self._open = IntTable()
        return self._open

    def _refuse_strays(self, batch: EventBatch, judged: Judged) -> None:
        strays = judged.late[judged.reason == NO_OPEN_ROW]
        if len(strays):
            stray = batch.take(strays[:1])
            raise EventError(
                f"row {int(strays[0])} of a batch of stream {self.door.source!r} is an end edge of "
                f"id {int(stray.edge[0])}, under which no row is open: {stray.to_dicts()[0]}. "
                "Hint: an end edge carries its start edge's id."
            )

    def import_cti(self, cti: int) -> bool:
        """Take a CTI of another stream; return whether it advances this one."""
        return self.door.import_cti(cti)

    def finish(self) -> int:
        """The source has completed; return the CTI."""
        self.door.finish()
        return max(self.door.cti, MIN_TIME)


def _judged(
    times: Int64s,
    starts: Int64s,
    ends: Int64s,
    reason: Bytes,
    before: Int64s,
    state: Int64s,
    *,
    backwards: bool = False,
) -> Judged:
    """Return the verdicts, with which were late and by how much of their ``times``."""
    late = np.flatnonzero(reason)
    broken = before[late]
    by = np.maximum(broken - times[late], 0)
    return Judged(starts, ends, state, late, reason[late], broken, by, backwards)


def _kinds(batch: EventBatch) -> Bytes:
    """Return what each row is; nothing where all are complete."""
    if not batch.edge.any():
        return _NO_BYTES
    edges = batch.edge != 0
    ends = edges & (batch.end != MAX_TIME)
    return np.where(ends, END_EDGE, np.where(edges, START_EDGE, ROW)).astype(np.int8)


def _going_on(batch: EventBatch, kind: Bytes, judged: Judged) -> EventBatch:
    if not len(kind):
        if not len(judged.late):
            return batch
        return batch.replace(start=judged.start).take(judged.kept)
    # an end edge at the end of time leaves its row as it is: one that never ends
    endless = (kind == END_EDGE) & (judged.end == MAX_TIME)
    return batch.replace(start=judged.start, end=judged.end).take(judged.kept & ~endless)


class _Edges:
    """The edges of one batch: the row of each, and the starts that the rows were given.

    Rows that this batch opens have the first numbers, those that were open before the next ones.
    """

    def __init__(self, table: IntTable, edge: Int64s, kind: Bytes) -> None:
        from rxtemporal.engine.kernels.hash_table import IntTable

        self._table = table
        starts, ends = np.flatnonzero(kind == START_EDGE), np.flatnonzero(kind == END_EDGE)
        self._ids = edge[starts]
        here = IntTable()
        here.insert(self._ids, np.arange(len(starts)))
        rows = here.pop(edge[ends])
        self._open = np.ones(len(starts), np.bool_)
        self._open[rows[rows >= 0]] = False
        elsewhere = np.flatnonzero(rows < 0)
        given = table.pop(edge[ends[elsewhere]])
        known = np.flatnonzero(given >= 0)
        rows[elsewhere[known]] = len(starts) + np.arange(len(known))
        self.moved = np.full(len(starts) + len(known), NOWHERE, np.int64)
        self.moved[len(starts) :] = given[known] + MIN_TIME
        self.row = np.full(len(edge), -1, np.int64)
        self.row[starts] = np.arange(len(starts))
        self.row[ends] = rows

    def keep(self) -> None:
        """Remember the rows that stay open; of one that was dropped nothing is."""
        given = self.moved[: len(self._ids)]
        stay = self._open & (given != NOWHERE)
        if stay.any():
            self._table.insert(self._ids[stay], given[stay] - MIN_TIME)


def admit_merged(
    doors: Sequence[ColumnDoor],
    rows: Sequence[EventBatch],
    places: Sequence[Int64s],
    importers: Sequence[Sequence[int]],
) -> list[EventBatch]:
    """Return what goes on of each stream's complete rows, accepted merged by their places.

    The row with the lowest place is next, ties go by order of the streams, and each CTI that is
    made goes on at once to the streams that import it (``importers``: their numbers, for each
    stream) and from them to theirs. So the verdicts are those of one event after the other; only
    the time that is told with them is the last one reached.
    """
    # compiled code is loaded by the first query that needs it
    from rxtemporal.engine.kernels.door import admit_merged

    lengths = [len(each) for each in rows]
    begins = np.concatenate([[0], np.cumsum(lengths)])
    start = np.concatenate([each.start for each in rows])
    state = np.array([door.state for door in doors], np.int64)
    starts, reason, before = admit_merged(
        # the places of one stream ascend, so that this is but a merge
        np.argsort(np.concatenate(places), kind="stable"),
        np.repeat(np.arange(len(rows)), lengths),
        start,
        np.concatenate([each.end for each in rows]),
        np.array([door.rules for door in doors], np.int64),
        np.concatenate([[0], np.cumsum([len(each) for each in importers])]),
        np.array([number for each in importers for number in each], np.int64),
        state,
    )
    out = []
    for i, (door, batch) in enumerate(zip(doors, rows, strict=True)):
        part = slice(begins[i], begins[i + 1])
        out.append(door.let_in(batch, starts[part], reason[part], before[part], state[i]))
    return out
