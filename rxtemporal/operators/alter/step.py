"""Lifetimes altered by the user's functions, checked against the last output CTI."""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, describe
from rxtemporal.engine.kernels.lifetimes import add_length
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import CtiViolationError
from rxtemporal.operators.lifetimes.step import describe_row, drop_vanished

_HINT = (
    "Hint: a fixed shift (shift_event_time), a fixed duration, and changes of both ends that keep "
    "the order of times are safe."
)


class TimeFunction(Protocol):
    """Function of time: maps starts and CTIs."""

    def apply(self, times: Int64s) -> Int64s:
        """Map each time; no argument and no result is an end of time."""


class LengthFunction(Protocol):
    """Function of rows: the new durations."""

    @property
    def reads_end(self) -> bool:
        """True if it reads a row's end, which has to be known first then."""

    def apply(self, batch: EventBatch) -> Int64s:
        """Return the duration of each row in ticks; all positive."""


class SameLength:
    """Durations that stay the same."""

    reads_end = True

    def apply(self, batch: EventBatch) -> Int64s:
        """Return the durations of the rows."""
        return batch.end - batch.start


class FixedLength:
    """One duration for all rows."""

    reads_end = False

    def __init__(self, length: int) -> None:
        self._length = min(length, MAX_TIME - MIN_TIME)

    def apply(self, batch: EventBatch) -> Int64s:
        """Return the one duration for each row."""
        return np.full(len(batch), self._length)


class AlterStep(Stateful):
    """Alters each start by a function of time, and gives each row a new duration from there.

    The CTI goes through the function of time as well. Where the duration reads the end, an open row
    stays open, a row that never ends stays so, and edge ids stay; where it does not, rows are
    complete at once and end edges are dropped. Holds no rows, only the last output CTI: a row that
    lands before it is a CTI violation.
    """

    rows = 0
    held = ("_cti",)

    def __init__(self, times: TimeFunction | None, length: LengthFunction) -> None:
        self._times = times
        self._length = length
        self._cti = MIN_TIME

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows and the CTI, altered."""
        if not self._length.reads_end:
            batch = batch.take_begins()
        start, cti = self._map_times(batch.start), self._map_time(batch.cti)
        end = self._ends(batch, start)
        if self._length.reads_end:
            altered = batch.replace(start=start, end=end, cti=cti)
        else:
            altered = EventBatch.of_rows(start, end, batch.columns, cti, batch.keys)
        self._check(batch, altered)
        self._cti = altered.cti
        if not self._length.reads_end:  # rows that were open or endless have an end now
            return altered.take(altered.start < altered.end)
        return drop_vanished(batch, altered)

    def _map_times(self, times: Int64s) -> Int64s:
        """Map times by the function; the ends of time stay."""
        if self._times is None:
            return times
        inside = (times != MIN_TIME) & (times != MAX_TIME)
        if inside.all():
            return self._times.apply(times)
        landed = times.copy()
        if inside.any():
            landed[inside] = self._times.apply(times[inside])
        return landed

    def _map_time(self, time: int) -> int:
        """Map one time, as the others are mapped."""
        return time if self._times is None else int(self._map_times(np.array([time]))[0])

    def _ends(self, batch: EventBatch, start: Int64s) -> Int64s:
        if not self._length.reads_end:
            return add_length(start, self._length.apply(batch))
        known = batch.end != MAX_TIME
        if len(batch) and known.all():
            return add_length(start, self._length.apply(batch))
        end = batch.end.copy()
        if known.any():
            end[known] = add_length(start[known], self._length.apply(batch.take(known)))
        return end

    def _check(self, batch: EventBatch, altered: EventBatch) -> None:
        """Refuse rows and CTIs that land before the last output CTI."""
        if altered.cti < self._cti:
            raise CtiViolationError(
                f"CTI {describe(batch.cti)} lands at {describe(altered.cti)}, before CTI "
                f"{describe(self._cti)}, which was already given out: time would go back. {_HINT}"
            )
        closes = batch.find_ends()
        judged = altered.start if closes is None else np.where(closes, altered.end, altered.start)
        early = judged < self._cti
        if early.any():
            row = int(early.argmax())
            self._refuse(batch, altered, row, closes is not None and bool(closes[row]))

    def _refuse(self, batch: EventBatch, altered: EventBatch, row: int, closes: bool) -> NoReturn:
        what, lands = ("end", altered.end) if closes else ("start", altered.start)
        raise CtiViolationError(
            f"the {what} of {describe_row(batch, row)} lands at {describe(int(lands[row]))}, "
            f"before CTI {describe(self._cti)}, which was already given out: final results would "
            f"change. {_HINT}"
        )
