"""Lifetimes altered row by row, almost without state."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import Columns
from rxtemporal.core.lines import list_linear, name_bounds
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, add, describe
from rxtemporal.engine.holdings import BATCHES, LATEST, PART, Hold
from rxtemporal.engine.kernels.lifetimes import shift
from rxtemporal.engine.open_rows import WaitingRows
from rxtemporal.engine.shape import PointStep
from rxtemporal.engine.state import Stateful
from rxtemporal.engine.step import Stateless, find_earliest_due


def describe_row(batch: EventBatch, row: int) -> str:
    """Return one row's lifetime and payload as text, for messages."""
    lifetime = f"[{describe(int(batch.start[row]))}, {describe(int(batch.end[row]))})"
    return f"{lifetime} {batch.payload.row(row, named=True)}"


def drop_vanished(before: EventBatch, altered: EventBatch) -> EventBatch:
    """Return the altered rows without those whose lifetime became empty.

    Also drops end edges moved to the end of time: such a row never ends, and nothing closes its
    start edge.
    """
    stays = altered.start < altered.end
    ends = before.find_ends()
    return altered.take(stays if ends is None else stays & ~(ends & (altered.end == MAX_TIME)))


class ShiftStep(Stateful):
    """Moves both ends of each lifetime, and the CTI, by a fixed span. Keeps edge ids.

    An open row shifted back to the beginning of time may still become empty, so its edges wait
    until the output CTI is above that. Holds those; a shift forwards holds nothing.
    """

    held = MappingProxyType({"_early": BATCHES, "_past_beginning": LATEST})

    def __init__(self, by: int, *, moves_lines: bool = False) -> None:
        self._by = by
        self._moves_lines = moves_lines
        self._early: list[EventBatch] = []
        # True once the output CTI is above the beginning of time: no later end can lie there
        self._past_beginning = by >= 0

    @property
    def rows(self) -> int:
        """The number of edges that wait at the beginning of time."""
        return sum(map(len, self._early))

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows and the CTI, moved."""
        altered = batch.replace(
            start=shift(batch.start, self._by),
            end=shift(batch.end, self._by),
            cti=add(batch.cti, self._by),
            payload=self._move_lines(batch) if self._moves_lines else batch.columns,
        )
        return (
            drop_vanished(batch, altered)
            if self._past_beginning
            else self._hold_early(batch, altered)
        )

    def _move_lines(self, batch: EventBatch) -> Columns:
        """Return the payload with the lines moved, which may leave time."""
        moved = [
            (pl.col(bound).cast(pl.Int64) + self._by).cast(batch.schema[bound])
            for name in list_linear(batch.schema)
            for bound in name_bounds(name)
        ]
        return Columns.from_frame(batch.payload.with_columns(moved))

    def _hold_early(self, batch: EventBatch, altered: EventBatch) -> EventBatch:
        early = (altered.edge != 0) & (altered.start == MIN_TIME)
        if altered.has_edges and early.any():
            self._early.append(altered.take(early))
            batch, altered = batch.take(~early), altered.take(~early)
        result = drop_vanished(batch, altered)
        self._past_beginning = altered.cti > MIN_TIME
        if not self._past_beginning or not self._early:
            return result
        waited, self._early = EventBatch.concat(self._early), []
        emptied = waited.edge[waited.end == MIN_TIME]
        return EventBatch.concat([waited.take(~np.isin(waited.edge, emptied)), result])


class LengthenStep(Stateless):
    """Moves the ends of lifetimes to later. Keeps edge ids; holds nothing."""

    def __init__(self, by: int) -> None:
        self._by = by

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows with later ends, and the CTI."""
        return drop_vanished(batch, batch.replace(end=shift(batch.end, self._by)))


class ToPointsStep(PointStep):
    """Makes each row a point at its start. Saved states have its name."""


class PointAtEndStep(Stateless):
    """Makes each row that ends a point at its end; drops start edges. Holds nothing."""

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return a point for each row whose end has become known, and the CTI."""
        ends = batch.take(batch.end != MAX_TIME)
        return EventBatch.of_rows(ends.end, None, ends.columns, batch.cti, batch.keys)


class ShortenStep(Stateful):
    """Moves the ends of lifetimes to earlier by a fixed span; rows not longer than that vanish.

    An open row may still vanish, so it waits until the CTI less the span is above its start: any
    end edge then comes late enough. It leaves as a start edge, and while any such row is open the
    output CTI is behind by the span, since the row's end moves to earlier. Keeps edge ids. Holds
    the open rows.
    """

    held = MappingProxyType({"_waiting": PART, "_left": PART})

    def __init__(self, by: int, schema: pl.Schema) -> None:
        self._by = by
        self._waiting = WaitingRows(schema)
        # rows that have left as start edges and are still open
        self._left = WaitingRows(schema)

    @property
    def rows(self) -> int:
        """The number of open rows."""
        return len(self._waiting) + len(self._left)

    @property
    def next_due(self) -> int | None:
        """The CTI with which the oldest waiting row leaves: its start and the span."""
        first = find_earliest_due(self._waiting)
        return None if first is None else add(first, -self._by)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the shortened rows that are certain not to vanish."""
        opens = (batch.edge != 0) & (batch.end == MAX_TIME)
        self._waiting.add(batch.take(opens), batch.start[opens])
        result = [self._end_rows(batch.take(~opens))]
        numbers = self._waiting.pop_due(add(batch.cti, self._by))
        if len(numbers):
            left = self._waiting.batch(numbers, batch)
            result.insert(0, left)
            self._left.add(left, left.end)
            self._waiting.drop(numbers)
        self._waiting.compact()
        self._left.compact()
        cti = self._promise(batch.cti)
        return EventBatch.concat(result).replace(cti=cti)

    def _end_rows(self, batch: EventBatch) -> EventBatch:
        """Return the rows whose end is known, and the end edges of those that have left."""
        closes = np.flatnonzero(batch.edge)
        waited = self._waiting.close(batch.edge[closes]) >= 0
        self._left.close(batch.edge[closes[~waited]])
        edge = batch.edge.copy()
        edge[closes[waited]] = 0
        shorter = batch.replace(end=shift(batch.end, self._by), edge=edge)
        return shorter.take(shorter.start < shorter.end)

    def find_holds(self, cti: int) -> list[Hold]:
        """Return the open rows: those that have left, whose ends move, and those that wait."""
        waiting, left = (each.list_rows() for each in (self._waiting, self._left))
        return [Hold(waiting.columns, waiting.start), Hold(left.columns, add(cti, self._by))]

    def _promise(self, cti: int) -> int:
        """Return min(t, max(t + d, start of the oldest open row)), for CTI t and change d of ends.

        A row that has left started before t + d, and one that waits did not.
        """
        if cti == MAX_TIME:
            return cti
        if len(self._left):
            return add(cti, self._by)
        oldest = self._waiting.find_first()
        return cti if oldest is None else min(cti, oldest)
