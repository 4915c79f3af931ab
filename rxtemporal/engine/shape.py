"""Output shapes: rows in the shape that the subscriber asked for."""

from __future__ import annotations

import heapq
from types import MappingProxyType

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.holdings import BATCHES, PART
from rxtemporal.engine.kernels.order import is_sorted
from rxtemporal.engine.state import Stateful
from rxtemporal.engine.step import Stateless

# so many batches wait as they came; more are merged, since each takes memory of its own
MOST_QUEUED = 64


class _SortedRows:
    """Rows in order of start, of which those before ``done`` have left."""

    __slots__ = ("done", "rows")

    def __init__(self, rows: EventBatch) -> None:
        in_order = rows
        if len(rows) > 1 and not rows.in_order and not is_sorted(rows.start):
            in_order = rows.take(np.argsort(rows.start, kind="stable"))
        # of rows that wait for their ends copied, since end edges update ends and edges in place
        if in_order.has_edges:
            in_order = in_order.replace(end=in_order.end.copy(), edge=in_order.edge.copy())
        self.rows = in_order
        self.done = 0

    def __len__(self) -> int:
        return len(self.rows) - self.done

    def pop_before(self, cti: int) -> EventBatch | None:
        """Remove and return the rows that start before ``cti``."""
        upto = int(np.searchsorted(self.rows.start, cti))
        if upto <= self.done:
            return None
        left = self.rows.slice(self.done, upto)
        self.done = upto
        return left

    def get_rest(self) -> EventBatch:
        """Return the rows that have not left."""
        return self.rows.slice(self.done, len(self.rows))


class _OpenRows(_SortedRows):
    """Open rows, of which ``done`` have been closed and left."""

    __slots__ = ()

    def get_rest(self) -> EventBatch:
        """Return the rows that are open."""
        return self.rows.take(self.rows.edge != 0)


class IntervalStep(Stateful):
    """Returns every row complete, in order of start; a row waits for its end.

    The output CTI waits at the start of the oldest open row, and after an output CTI ``t`` exactly
    the rows with ``start < t`` have left. At the end of time rows that never end leave as
    ``[start, MAX_TIME)``.

    Holds the open rows, and the rows that start at or after the oldest open one. Batches of
    complete rows that follow each other in order of start wait as they came, up to
    ``MOST_QUEUED``. All other rows are a few sorted runs, each at least twice as long as the next:
    a row is moved O(log n) times in all, and a batch costs the rows that are new and those that
    leave, not those that wait.
    """

    held = MappingProxyType({"waiting": BATCHES})
    _run: type[_SortedRows] = _SortedRows

    def __init__(self) -> None:
        self._runs: list[_SortedRows] = []
        # the newest batches of complete rows, none of which starts before the one in front of it
        self._queue: list[EventBatch] = []
        # the place of each open row by edge id, and a heap of (start, edge id): a row that has been
        # closed stays in the heap until it is at the top
        self._open: dict[int, tuple[_SortedRows, int]] = {}
        self._oldest: list[tuple[int, int]] = []

    @property
    def waiting(self) -> list[EventBatch]:
        """The rows that wait, run by run, to be saved."""
        queued = [EventBatch.concat(self._queue)] if self._queue else []
        return [*(run.get_rest() for run in self._runs), *queued]

    @waiting.setter
    def waiting(self, saved: list[EventBatch]) -> None:
        self._runs, self._queue, self._open, self._oldest = [], [], {}, []
        for rows in saved:
            self._add(self._run(rows), new=True)

    @property
    def rows(self) -> int:
        """The number of rows that have not left."""
        return sum(map(len, self._runs)) + sum(map(len, self._queue))

    @property
    def next_due(self) -> int | None:
        """The earliest start of a row that has not left; None if there is none."""
        starts = [first.start.item(0) for first in self._queue[:1]]
        for run in [*self._runs]:  # the step may be running
            if (done := run.done) < len(run.rows):
                starts.append(run.rows.start.item(done))
        return min(starts, default=None)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that start before the CTI that the open rows allow."""
        if batch.has_edges:
            self._take_edges(batch)
        elif len(batch.start):
            if self._passes(batch):
                return batch
            self._take_complete(batch)
        cti = self._hold_cti(batch.cti)
        return self._merge(self._pop_before(cti), batch, cti)

    def _passes(self, batch: EventBatch) -> bool:
        """Return True if complete rows leave as they come: in order, with nothing that waits."""
        start = batch.start
        return (
            start.item(-1) < batch.cti
            and not (self._queue or self._runs)
            and (len(start) == 1 or batch.in_order or is_sorted(start))
        )

    def _take_edges(self, batch: EventBatch) -> None:
        """Have the rows of a batch wait, and close those that its end edges are of."""
        ends = (batch.edge != 0) & (batch.end != MAX_TIME)
        self._push(batch.take(~ends) if ends.any() else batch)
        for edge, end in zip(batch.edge[ends].tolist(), batch.end[ends].tolist(), strict=True):
            run, row = self._open.pop(edge)
            run.rows.end[row], run.rows.edge[row] = end, 0

    def _take_complete(self, batch: EventBatch) -> None:
        """Have complete rows wait: as they are, if they follow those that do."""
        start, queue = batch.start, self._queue
        if len(start) > 1 and not batch.in_order and not is_sorted(start):
            self._push(batch)
            return
        follow = not queue or queue[-1].start.item(-1) <= start.item(0)
        if not follow or len(queue) >= MOST_QUEUED:
            self._queue = []
            self._push(EventBatch.concat(queue))
        self._queue.append(batch)

    def _push(self, rows: EventBatch) -> None:
        if not len(rows):
            return
        self._add(self._run(rows), new=True)
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            both = EventBatch.concat([before.get_rest(), last.get_rest()])
            self._add(self._run(both), new=False)

    def _add(self, run: _SortedRows, *, new: bool) -> None:
        self._runs.append(run)
        for row in np.flatnonzero(run.rows.edge).tolist():
            edge = int(run.rows.edge[row])
            self._open[edge] = (run, row)
            if new:
                heapq.heappush(self._oldest, (int(run.rows.start[row]), edge))

    def _hold_cti(self, cti: int) -> int:
        """Return the CTI, held at the start of the oldest open row."""
        while self._oldest and self._oldest[0][1] not in self._open:
            heapq.heappop(self._oldest)
        return min(cti, self._oldest[0][0]) if self._oldest and cti < MAX_TIME else cti

    def _pop_before(self, cti: int) -> list[EventBatch]:
        """Remove and return the rows that start before ``cti``, as parts in order of start."""
        parts: list[EventBatch] = []
        if self._runs:
            parts = [part for run in self._runs if (part := run.pop_before(cti)) is not None]
            self._runs = [run for run in self._runs if len(run)]
            if cti == MAX_TIME:
                self._open.clear()
        queue, whole = self._queue, 0
        while whole < len(queue) and queue[whole].start.item(-1) < cti:
            whole += 1
        parts += queue[:whole]
        left = queue[whole:]
        if left and left[0].start.item(0) < cti:
            first, upto = left[0], int(left[0].start.searchsorted(cti))
            parts.append(first.slice(0, upto))
            left[0] = first.slice(upto, len(first))
        self._queue = left
        return parts

    def _merge(self, parts: list[EventBatch], batch: EventBatch, cti: int) -> EventBatch:
        """Return the rows of all parts as one complete batch, in order of start."""
        if not parts:
            return batch.none(cti) if len(batch.start) or cti != batch.cti else batch
        left = EventBatch.concat(parts)
        if left is batch and cti == batch.cti:
            return batch
        if left.has_edges:
            rows = left.start, left.end, None, left.columns
            left = EventBatch(*rows, cti, left.keys, clocks=batch.clocks)
        else:
            left = left.replace(cti=cti, clocks=batch.clocks)
        if len(parts) > 1 and not is_sorted(left.start):
            return left.take(np.argsort(left.start, kind="stable"))
        return left


class PromptIntervalStep(IntervalStep):
    """Returns every row complete, and lets none wait for an open one that began before it.

    For rows of devices, each of which has its own time. A row leaves once it is complete and starts
    before ``time``, the CTI of its devices in their sources, or before the CTI of a batch. The
    output CTI waits at the start of the oldest open row. Holds the rows that have not left; a batch
    costs the rows that are new and those that leave.
    """

    held = MappingProxyType({"waiting": BATCHES, "_complete": PART})
    _run = _OpenRows

    def __init__(self) -> None:
        super().__init__()
        self.time = MIN_TIME
        # the complete rows; those that wait in this step itself are open
        self._complete = IntervalStep()

    def pass_time(self, time: int) -> None:
        """Let the rows leave that are complete and start before a time."""
        self.time = max(self.time, time)

    @property
    def rows(self) -> int:
        """The number of rows that have not left."""
        return super().rows + self._complete.rows

    @property
    def next_due(self) -> int | None:
        """The earliest start of a complete row; an open one leaves at the end of time alone."""
        due = self._complete.next_due
        return MAX_TIME if due is None and self._runs else due

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that are complete and start before the time."""
        complete = batch
        if batch.has_edges:
            ends = (batch.edge != 0) & (batch.end != MAX_TIME)
            self._push(batch.take((batch.edge != 0) & ~ends))
            closed = self._close(batch.edge[ends], batch.end[ends])
            complete = EventBatch.concat([batch.take(batch.edge == 0), *closed])
        if batch.cti == MAX_TIME and self._runs:  # those that are open never end
            complete = EventBatch.concat([complete, *(run.get_rest() for run in self._runs)])
            self._runs = []
            self._open.clear()
        time = max(self.time, batch.cti)
        if complete is batch:
            complete = batch.replace(cti=time)
        else:  # no row is an edge any more
            rows = complete.start, complete.end, complete.columns
            complete = EventBatch.of_rows(*rows, time, batch.keys)
        left = self._complete.on_batch(complete)
        return left.replace(cti=self._hold_cti(batch.cti), clocks=batch.clocks)

    def _close(self, edges: Int64s, ends: Int64s) -> list[EventBatch]:
        """Return the open rows with these edge ids, which end then."""
        rows: dict[int, list[int]] = {}
        runs = {id(run): run for run in self._runs}
        for edge, end in zip(edges.tolist(), ends.tolist(), strict=True):
            run, row = self._open.pop(edge)
            run.rows.end[row], run.rows.edge[row] = end, 0
            run.done += 1
            rows.setdefault(id(run), []).append(row)
        closed = [runs[each].rows.take(np.array(numbers)) for each, numbers in rows.items()]
        self._runs = [run for run in self._runs if len(run)]
        return closed


class EdgeStep(Stateless):
    """Returns rows as they come: start edges at once, end edges when known. Holds nothing."""

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the batch."""
        return batch


class PointStep(Stateless):
    """Returns each row as a point at its start; drops end edges. Holds nothing."""

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that begin, as points."""
        begins = batch.take_begins()
        return EventBatch.of_rows(begins.start, None, begins.columns, batch.cti, batch.keys)


def make_shape_step(
    shape: EventShape, *, by_device: bool = False
) -> IntervalStep | EdgeStep | PointStep:
    """Return the step that gives rows this shape.

    ``by_device``: each device has its own time, and no row waits for an open one.
    """
    if shape is EventShape.INTERVAL:
        return PromptIntervalStep() if by_device else IntervalStep()
    return EdgeStep() if shape is EventShape.EDGE else PointStep()
