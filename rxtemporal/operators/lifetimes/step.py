"""Lifetimes altered row by row, almost without state."""

from __future__ import annotations

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, add, describe
from rxtemporal.engine.kernels.lifetimes import add_length, shift
from rxtemporal.engine.state import Stateful
from rxtemporal.engine.step import Stateless


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

    held = ("_early", "_past_beginning")

    def __init__(self, by: int) -> None:
        self._by = by
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
        )
        return (
            drop_vanished(batch, altered)
            if self._past_beginning
            else self._hold_early(batch, altered)
        )

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


class ToPointsStep(Stateless):
    """Makes each row a point at its start; drops end edges. Holds nothing."""

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return a point for each row that begins, and the CTI."""
        begins = batch.take_begins()
        return EventBatch.of_rows(
            begins.start, add_length(begins.start, TICK), begins.columns, batch.cti, batch.keys
        )


class PointAtEndStep(Stateless):
    """Makes each row that ends a point at its end; drops start edges. Holds nothing."""

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return a point for each row whose end has become known, and the CTI."""
        ends = batch.take(batch.end != MAX_TIME)
        return EventBatch.of_rows(
            ends.end, add_length(ends.end, TICK), ends.columns, batch.cti, batch.keys
        )
