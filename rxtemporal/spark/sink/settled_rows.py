"""Settled rows: the rows that a sink writes, the same in every run.

A sink that resumes has to know which rows have been written. So the rows written up to a CTI depend
only on the stream's history, not on batch boundaries: exactly the rows that start before the CTI,
and in edge shape exactly the ends before it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, Int64s
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, describe
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.engine.shape import IntervalStep
from rxtemporal.errors import CheckpointError, EventError
from rxtemporal.sinks.positioned import find_position, take_rest
from rxtemporal.spark.targets.target import EDGE


class SettledRows(Protocol):
    """Selector of the settled rows of a run; ``known`` counts those of earlier runs."""

    schema: pl.Schema
    known: int

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the new settled rows, with the batch's CTI."""

    def capture(self) -> Captured:
        """Return the held rows, for a run that resumes."""

    def load(self, state: bytes) -> None:
        """Continue from a captured state; rows written after it are still skipped."""


def make_settled_rows(
    shape: EventShape,
    schema: pl.Schema,
    reached: int,
    numbered: int | None = None,
    *,
    by_number: bool = False,
) -> SettledRows:
    """Return the selector for a shape; all rows before the position ``reached`` have been written.

    ``numbered`` is how many rows have a number at that CTI in edge shape; None if unknown.
    ``by_number``: batches are numbered, since each device has its own time.
    """
    if by_number:
        return _NumberedRows(schema, reached)
    if shape is EventShape.EDGE:
        return _EdgeRows(schema, reached, numbered)
    return _CompleteRows(schema, reached, hold=shape is EventShape.POINT)


class _CompleteRows:
    """Selector of complete rows, known or new by their start. Early points are held."""

    def __init__(self, schema: pl.Schema, reached: int, *, hold: bool) -> None:
        self.schema = schema
        self.known = 0
        self._reached = reached
        self._promised = MIN_TIME
        self._held = IntervalStep() if hold else None

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that start at or after ``reached`` and before the CTI."""
        _check_promise(batch.start, self._promised)
        if batch.edge.any():
            raise EventError("a sink of complete rows got an edge")
        if self._held is not None:
            batch = self._held.on_batch(batch)
        elif len(batch) and int(batch.start.max()) >= batch.cti:
            raise EventError(
                f"a row starts at {describe(int(batch.start.max()))}, but the CTI of its batch is "
                f"{describe(batch.cti)}: a sink takes only finished rows"
            )
        self._promised = max(self._promised, batch.cti)
        fresh = batch.take(batch.start >= self._reached) if len(batch) else batch
        self.known += len(batch) - len(fresh)
        return fresh

    def capture(self) -> Captured:
        """Return the CTI and the held points."""
        held = None if self._held is None else self._held.capture()
        return Captured("sink's rows", [self._promised, held])

    def load(self, state: bytes) -> None:
        """Go on from the bytes of what ``capture`` returned."""
        self._promised, held = loads("sink's rows", state)
        if self._held is not None:
            self._held.load(held)


class _NumberedRows:
    """Selector of numbered batches, whose CTI is then the position after them."""

    def __init__(self, schema: pl.Schema, reached: int) -> None:
        self.schema = schema
        self.known = 0
        self._reached = reached

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows of a batch that has not been written."""
        fresh = take_rest(batch, self._reached)
        self.known += len(batch) - len(fresh)
        return fresh.replace(cti=find_position(batch))

    def capture(self) -> Captured:
        """Return that nothing is held."""
        return Captured("sink's rows", [])

    def load(self, state: bytes) -> None:
        """Go on: nothing was held."""


class _EdgeRows:
    """Rows that are written open when their start is settled, and closed when their end is.

    Each row has a number, ``_edge``: its place in the order of start and payload, counted from 1.
    Of rows that are equal in both, the first number ends first. So a repeated run gives the same
    numbers however its batches are cut; the engine's own edge ids would not.

    Holds the rows that start or end at or after the CTI, and a number for each open row.
    """

    def __init__(self, schema: pl.Schema, reached: int, numbered: int | None) -> None:
        self.schema = pl.Schema({**schema, EDGE: pl.Int64()})
        self.known = 0
        self._reached, self._promised = reached, MIN_TIME
        self._numbered = numbered
        self._count = 0
        # rows to come, in order of start, with the engine's id; rows to end, in order of end
        self._starting, self._ending = IntervalStep(), IntervalStep()
        # by the engine's ids: ends of rows that are still to come, and the numbers of open rows
        self._ends: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._equal = _EqualRows()

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return a record for each row that opens, closes, or does both, up to the CTI."""
        ends = (batch.edge != 0) & (batch.end != MAX_TIME)
        _check_promise(np.where(ends, batch.end, batch.start), self._promised)
        self._promised = max(self._promised, batch.cti)
        closing, begins = self._take_ends(batch.take(ends)), batch.take(~ends)
        coming = _with_numbers(begins, begins.edge)
        if self._reached > MIN_TIME:
            known = self._advance(coming, closing, min(self._reached, self._promised))
            self.known += len(known)
            if self._promised <= self._reached:
                return EventBatch.empty(self.schema, batch.cti)
            self._continue_after_known()
            coming = closing = EventBatch.empty(self.schema, MIN_TIME)
        return self._advance(coming, closing, self._promised)

    def capture(self) -> Captured:
        """Return the CTI, the rows to come and to end, and the numbers of open ones."""
        numbers = [self._count, self._ends, self._open, self._equal.several]
        rows = [self._starting.capture(), self._ending.capture()]
        return Captured("sink's edges", [self._promised, *numbers, *rows])

    def load(self, state: bytes) -> None:
        """Go on from the bytes of what ``capture`` returned."""
        self._promised, *numbers, starting, ending = loads("sink's edges", state)
        self._count, self._ends, self._open, self._equal.several = numbers
        self._starting.load(starting)
        self._ending.load(ending)
        if self._promised >= self._reached:
            # nothing was written after the state, though time may have advanced without rows
            self._reached = MIN_TIME

    def _continue_after_known(self) -> None:
        """Stop skipping known rows; the numbers of new rows follow theirs."""
        if self._count == 0 and self._numbered is not None:
            self._count = self._numbered  # a source that repeats nothing
        elif self._numbered not in (None, self._count):
            raise CheckpointError(
                f"cannot resume in edge shape: the sink has {self._numbered} rows that begin "
                f"before {describe(self._reached)}, and the source has given "
                f"{self._count} of them. Hint: rows are updated by their number, so a source "
                "has to repeat all of them or none: run with log= or resume=, or give the sink a "
                "new path and the query a new name."
            )
        self._reached = MIN_TIME

    def _take_ends(self, ends: EventBatch) -> EventBatch:
        """Return the ends of open rows; remember the ends of rows that are still to come."""
        first = [self._open.pop(edge, 0) for edge in ends.edge.tolist()]
        for edge, end, known in zip(ends.edge.tolist(), ends.end.tolist(), first, strict=True):
            if not known:
                self._ends[edge] = end
        numbers = np.array(first, np.int64)
        return _with_numbers(ends.take(numbers > 0), numbers[numbers > 0])

    def _advance(self, coming: EventBatch, closing: EventBatch, cti: int) -> EventBatch:
        """Advance time to ``cti`` and return the rows that this settles."""
        started, first = self._begin(self._starting.on_batch(coming.replace(cti=cti)))
        ending = started.end < MAX_TIME
        known = _with_numbers(started.take(ending), first[ending])
        leaving = self._ending.on_batch(_swap_times(EventBatch.concat([known, closing]), cti))
        closed = _swap_times(leaving, cti)
        numbers = self._equal.end(closed.payload[EDGE].to_list())
        closed = _with_numbers(closed, numbers)
        opened = started.take(~np.isin(started.payload[EDGE].to_numpy(), numbers))
        opened = opened.replace(end=np.full(len(opened), MAX_TIME))
        return EventBatch.concat([opened, closed]).replace(cti=cti)

    def _begin(self, rows: EventBatch) -> tuple[EventBatch, Int64s]:
        """Number rows that begin; also return for each the number of its first equal row."""
        engine = rows.payload[EDGE].to_list()
        known = [self._ends.pop(edge, MAX_TIME) if edge else MAX_TIME for edge in engine]
        rows = rows.replace(end=np.minimum(rows.end, np.array(known, np.int64)))
        frame = rows.payload.with_columns(
            pl.Series(START, rows.start), pl.Series(END, rows.end), pl.int_range(pl.len()).alias("")
        )
        alike = [START, *(name for name in self.schema if name != EDGE)]
        frame = frame.sort(*alike, END, nulls_last=False)
        rows = rows.take(frame[""].to_numpy())
        numbers = self._count + 1 + np.arange(len(rows), dtype=np.int64)
        self._count += len(rows)
        runs = frame.select(pl.struct(alike).rle_id())[START].to_numpy() if len(rows) else numbers
        first = numbers[np.searchsorted(runs, runs)] if len(rows) else numbers
        for edge, end, number in zip(
            rows.payload[EDGE].to_list(), rows.end.tolist(), first.tolist(), strict=True
        ):
            if edge and end == MAX_TIME:
                self._open[edge] = number
        self._equal.begin(first)
        return _with_numbers(rows, numbers), first


class _EqualRows:
    """Equal rows, which end in the order of their numbers."""

    def __init__(self) -> None:
        # by the number of the first: how many have ended, and how many there are
        self.several: dict[int, tuple[int, int]] = {}

    def begin(self, first: Int64s) -> None:
        """Add rows, given the number of the first equal row of each."""
        numbers, counts = np.unique(first, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if count > 1:
                self.several[number] = (0, count)

    def end(self, first: list[int]) -> Int64s:
        """End rows, given the number of the first equal row; return their own numbers."""
        return np.array([self._end_one(number) for number in first], np.int64)

    def _end_one(self, first: int) -> int:
        if first not in self.several:
            return first
        ended, count = self.several.pop(first)
        if ended + 1 < count:
            self.several[first] = (ended + 1, count)
        return first + ended


def _with_numbers(rows: EventBatch, numbers: Int64s) -> EventBatch:
    """Return rows as complete rows, with these numbers in the column ``_edge``."""
    payload = rows.payload.with_columns(pl.Series(EDGE, numbers, dtype=pl.Int64))
    return EventBatch.of_rows(rows.start, rows.end, payload, rows.cti)


def _swap_times(rows: EventBatch, cti: int) -> EventBatch:
    """Return rows with start and end exchanged: order of start becomes order of end."""
    return rows.replace(start=rows.end, end=rows.start, cti=cti)


def _check_promise(times: Int64s, promised: int) -> None:
    if len(times) and int(times.min()) < promised:
        raise EventError(
            f"a row starts or ends at {describe(int(times.min()))}, before the CTI "
            f"{describe(promised)} of an earlier batch of this run"
        )
