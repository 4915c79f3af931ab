"""What of a stream is settled: the rows that go into a sink, the same in every run.

A sink that takes up a run has to know which rows are there already. So what leaves here with a CTI
depends on the stream's history alone, and not on how it was cut into batches: just the rows that
start before the CTI, and in edge shape just the ends before it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, Int64s
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, describe
from rxtemporal.engine.codec import dumps, loads
from rxtemporal.engine.steps.shape import IntervalStep
from rxtemporal.errors import CheckpointError, EventError

# the columns of edge shape: a row's number, and whether its end has come
EDGE, STATE = "_edge", "_state"


class Settling(Protocol):
    """Takes the batches of a run in order; ``known`` counts what earlier runs have written."""

    schema: pl.Schema
    known: int

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return what is new and settled, with the batch's CTI."""

    def save(self) -> bytes:
        """Return what is held, to go on with it in a run that is resumed."""

    def load(self, state: bytes) -> None:
        """Go on from what ``save`` returned; what was written after that is still left out."""


def settling(
    shape: EventShape, schema: pl.Schema, reached: int, begun: int | None = None
) -> Settling:
    """Return what settles the rows of a shape, where all before the CTI ``reached`` is there.

    ``begun`` is how many rows have been numbered until then in edge shape; None: not known.
    """
    if shape is EventShape.EDGE:
        return _Edges(schema, reached, begun)
    return _Rows(schema, reached, hold=shape is EventShape.POINT)


class _Rows:
    """Complete rows: each is there or not, by its start. Points that come early are held."""

    def __init__(self, schema: pl.Schema, reached: int, *, hold: bool) -> None:
        self.schema = schema
        self.known = 0
        self._reached = reached
        self._promised = MIN_TIME
        self._held = IntervalStep() if hold else None

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that start at or after what was reached, and before the CTI."""
        _check_promise(batch.start, self._promised)
        if batch.edge.any():
            raise EventError("an edge came into a sink of complete rows")
        if self._held is not None:
            batch = self._held.on_batch(batch)
        elif len(batch) and int(batch.start.max()) >= batch.cti:
            raise EventError(
                f"a row starts at {describe(int(batch.start.max()))}, and the CTI of its batch is "
                f"{describe(batch.cti)}: only finished rows go into a sink"
            )
        self._promised = max(self._promised, batch.cti)
        fresh = batch.take(batch.start >= self._reached) if len(batch) else batch
        self.known += len(batch) - len(fresh)
        return fresh

    def save(self) -> bytes:
        """Return the promise and the points that are held."""
        held = None if self._held is None else self._held.save()
        return dumps("sink's rows", [self._promised, held])

    def load(self, state: bytes) -> None:
        """Go on from what ``save`` returned."""
        self._promised, held = loads("sink's rows", state)
        if self._held is not None:
            self._held.load(held)


class _Edges:
    """Rows that are open once their start is settled, and closed once their end is.

    Each row has a number, ``_edge``: its place in the order of start and payload, counted from 1.
    Of rows that are alike in both, the first number ends first. So a run that is repeated gives the
    same numbers, however its batches are cut; the engine's own edge ids would not do.

    Holds what starts at or after the CTI, a number for each open row, and what ends at or after it.
    """

    def __init__(self, schema: pl.Schema, reached: int, begun: int | None) -> None:
        self.schema = pl.Schema({**schema, EDGE: pl.Int64()})
        self.known = 0
        self._reached, self._promised = reached, MIN_TIME
        self._begun = begun
        self._count = 0
        # rows to come, in order of start, with the engine's id; rows to end, in order of end
        self._starting, self._ending = IntervalStep(), IntervalStep()
        # by the engine's ids: ends of rows that are still to come, and the numbers of open rows
        self._ends: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._alike = _Alike()

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return a record for each row that opens, closes, or does both, up to the CTI."""
        ends = (batch.edge != 0) & (batch.end != MAX_TIME)
        _check_promise(np.where(ends, batch.end, batch.start), self._promised)
        self._promised = max(self._promised, batch.cti)
        closing, begins = self._take_ends(batch.take(ends)), batch.take(~ends)
        coming = _numbered(begins, begins.edge)
        if self._reached > MIN_TIME:
            known = self._advanced(coming, closing, min(self._reached, self._promised))
            self.known += len(known)
            if self._promised <= self._reached:
                return EventBatch.empty(self.schema, batch.cti)
            self._go_on()
            coming = closing = EventBatch.empty(self.schema, MIN_TIME)
        return self._advanced(coming, closing, self._promised)

    def save(self) -> bytes:
        """Return the promise, the rows to come and to end, and the numbers of open ones."""
        numbers = [self._count, self._ends, self._open, self._alike.several]
        rows = [self._starting.save(), self._ending.save()]
        return dumps("sink's edges", [self._promised, *numbers, *rows])

    def load(self, state: bytes) -> None:
        """Go on from what ``save`` returned."""
        self._promised, *numbers, starting, ending = loads("sink's edges", state)
        self._count, self._ends, self._open, self._alike.several = numbers
        self._starting.load(starting)
        self._ending.load(ending)
        if self._promised >= self._reached:
            # nothing was written after the state, though time may have passed that no rows brought
            self._reached = MIN_TIME

    def _go_on(self) -> None:
        """Leave what is known behind; the numbers of new rows come after those that are there."""
        if self._count == 0 and self._begun is not None:
            self._count = self._begun  # a source that gives nothing twice
        elif self._begun not in (None, self._count):
            raise CheckpointError(
                f"in edge shape the sink has {self._begun} rows that begin before "
                f"{describe(self._reached)}, and of these the source has given {self._count}. "
                "Hint: rows are updated by their number, so a source has to give all of them again "
                "or none: run with log= or resume=, or give the sink a path and the query a name "
                "of their own."
            )
        self._reached = MIN_TIME

    def _take_ends(self, ends: EventBatch) -> EventBatch:
        """Return the ends of open rows; those of rows that are still to come are noted."""
        first = [self._open.pop(edge, 0) for edge in ends.edge.tolist()]
        for edge, end, known in zip(ends.edge.tolist(), ends.end.tolist(), first, strict=True):
            if not known:
                self._ends[edge] = end
        numbers = np.array(first, np.int64)
        return _numbered(ends.take(numbers > 0), numbers[numbers > 0])

    def _advanced(self, coming: EventBatch, closing: EventBatch, cti: int) -> EventBatch:
        """Move time on to ``cti`` and return what that settles."""
        begun, first = self._begin(self._starting.on_batch(coming.replace(cti=cti)))
        ending = begun.end < MAX_TIME
        known = _numbered(begun.take(ending), first[ending])
        leaving = self._ending.on_batch(_turned(EventBatch.concat([known, closing]), cti))
        closed = _turned(leaving, cti)
        numbers = self._alike.ended(closed.payload[EDGE].to_list())
        closed = _numbered(closed, numbers)
        opened = begun.take(~np.isin(begun.payload[EDGE].to_numpy(), numbers))
        opened = opened.replace(end=np.full(len(opened), MAX_TIME))
        return EventBatch.concat([opened, closed]).replace(cti=cti)

    def _begin(self, rows: EventBatch) -> tuple[EventBatch, Int64s]:
        """Number rows that begin; also return for each the number of the first that is like it."""
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
        self._alike.begin(first)
        return _numbered(rows, numbers), first


class _Alike:
    """Of rows that are alike, which have ended: from the first number on."""

    def __init__(self) -> None:
        # by the number of the first: how many have ended, and how many there are
        self.several: dict[int, tuple[int, int]] = {}

    def begin(self, first: Int64s) -> None:
        """Note rows by the number of the first that is like each."""
        numbers, counts = np.unique(first, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if count > 1:
                self.several[number] = (0, count)

    def ended(self, first: list[int]) -> Int64s:
        """Return the numbers of rows that end, in this order."""
        return np.array([self._end(number) for number in first], np.int64)

    def _end(self, first: int) -> int:
        if first not in self.several:
            return first
        ended, count = self.several.pop(first)
        if ended + 1 < count:
            self.several[first] = (ended + 1, count)
        return first + ended


def _numbered(rows: EventBatch, numbers: Int64s) -> EventBatch:
    """Return rows as complete ones, with these numbers in the column ``_edge``."""
    payload = rows.payload.with_columns(pl.Series(EDGE, numbers, dtype=pl.Int64))
    return EventBatch.of_rows(rows.start, rows.end, payload, rows.cti)


def _turned(rows: EventBatch, cti: int) -> EventBatch:
    """Return rows with their start for their end: what is in order of start is in order of end."""
    return rows.replace(start=rows.end, end=rows.start, cti=cti)


def _check_promise(times: Int64s, promised: int) -> None:
    if len(times) and int(times.min()) < promised:
        raise EventError(
            f"a row starts or ends at {describe(int(times.min()))}, before the CTI "
            f"{describe(promised)} of an earlier batch of this run"
        )
