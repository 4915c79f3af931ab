"""Lifetimes cut, and read, at regular boundaries."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.lines import drop_lines, interpolate, list_linear
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.engine.grids import BoundGrid
from rxtemporal.engine.holdings import NEXT_EDGE, PART
from rxtemporal.engine.kernels.lifetimes import add_length
from rxtemporal.engine.open_rows import WaitingRows
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import UnboundedWindowError
from rxtemporal.operators.lifetimes.step import describe_row

# more pieces of one batch are surely a mistake, and would not fit into memory
MOST_PIECES = 2**27
_AT, _PIECE = 0, 1


class ChopStep(Stateful):
    """Cuts lifetimes at every boundary strictly inside.

    All pieces of a row whose end is known leave at once. Of a row that is open or never ends, the
    pieces that start before the CTI leave: complete if they end by the CTI, and the last one as a
    start edge with an id of its own. Holds the rows that are open or never end, each with the start
    of its first incomplete piece and that piece's id if it has left.
    """

    held = MappingProxyType({"_open": PART, "_next_edge": NEXT_EDGE})

    def __init__(self, grid: BoundGrid, schema: pl.Schema) -> None:
        self.grid = grid
        self._open = WaitingRows(schema, own=2)
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of rows that are open or never end."""
        return len(self._open)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the pieces that are known, and the CTI."""
        endless = batch.end == MAX_TIME
        opens, known = batch.take(endless), batch.take(~endless)
        none = np.zeros(len(opens), np.int64)
        # a piece leaves when the CTI is above its start
        self._open.add(opens, opens.start + 1, opens.start, none)
        begin, piece = self._find_begin(known)
        result = [self._make_pieces(known, begin, known.end, piece), *self._pass_cti(batch)]
        self._open.compact()
        return EventBatch.concat(result)

    def _find_begin(self, known: EventBatch) -> tuple[Int64s, Int64s]:
        """Return the start of each row's first incomplete piece, and its id if it has left.

        ``known`` are rows whose end is known. Of one that was open until now, pieces may have left.
        """
        begin, piece = known.start.copy(), np.zeros(len(known), np.int64)
        closes = np.flatnonzero(known.edge)
        if len(closes):
            numbers = self._open.close(known.edge[closes])
            begin[closes] = self._open.get_own(_AT)[numbers]
            piece[closes] = self._open.get_own(_PIECE)[numbers]
        return begin, piece

    def _pass_cti(self, batch: EventBatch) -> list[EventBatch]:
        """Return the pieces of open rows that start before the CTI."""
        if batch.cti == MAX_TIME and len(self._open):
            self._refuse_endless(batch)
        numbers = self._open.pop_due(batch.cti + 1)
        if not len(numbers):
            return []
        rows = self._open.batch(numbers, batch)
        at, piece = self._open.get_own(_AT), self._open.get_own(_PIECE)
        upto = np.full(len(numbers), batch.cti)
        # the last piece begins at the last boundary below the CTI; one at the CTI ends it
        last = np.maximum(at[numbers], self.grid.find_upto(upto - 1))
        ends = self.grid.find_after(last)
        open_ = ends > batch.cti
        left = self._make_pieces(
            rows, at[numbers], np.where(open_, last, batch.cti), piece[numbers]
        )
        ids = np.where(open_, self._next_edge + np.cumsum(open_) - 1, 0)
        self._next_edge += int(open_.sum())
        at[numbers], piece[numbers] = np.where(open_, last, batch.cti), ids
        self._open.requeue(numbers, np.where(open_, ends, batch.cti + 1))
        return [left, rows.replace(start=last, edge=ids).take(open_)]

    def _make_pieces(
        self, rows: EventBatch, begin: Int64s, end: Int64s, piece: Int64s
    ) -> EventBatch:
        """Return the pieces of ``[begin, end)``, the first as an end edge if it has left."""
        if (begin >= end).any():  # the row ended at a boundary, or no piece of it is complete
            some = begin < end
            rows, begin, end, piece = rows.take(some), begin[some], end[some], piece[some]
        self._refuse_too_many(begin, end)
        row, starts, ends = self.grid.cut(begin, end)
        first = np.ones(len(row), np.bool_)
        first[1:] = row[1:] != row[:-1]
        edge = np.where(first, piece[row], 0)
        whole = len(row) == len(rows)
        return (rows if whole else rows.take(row)).replace(start=starts, end=ends, edge=edge)

    def _refuse_endless(self, batch: EventBatch) -> None:
        rows = self._open.batch(self._open.list_alive()[:1], batch)
        raise UnboundedWindowError(
            f"{len(self._open)} rows never end, such as {describe_row(rows, 0)}; they would give "
            "infinitely many pieces. Hint: end them first with clip_event_duration(limit), or do "
            "not let time advance to its end."
        )

    def _refuse_too_many(self, begin: Int64s, end: Int64s) -> None:
        count = float(self.grid.count_pieces(begin, end).sum(dtype=np.float64))
        if count > MOST_PIECES:
            raise UnboundedWindowError(
                f"{self.grid} cuts {len(begin)} rows into {count:.3g} pieces. "
                "Hint: choose a longer period, or end long rows first with "
                "clip_event_duration(limit)."
            )


class SampleStep(Stateful):
    """Returns a point for each boundary at which a row is alive.

    These are the pieces of the chopped rows that begin at a boundary. Holds the rows that are open
    or never end.
    """

    held = MappingProxyType({"_chop": PART})

    def __init__(self, grid: BoundGrid, schema: pl.Schema) -> None:
        self._chop = ChopStep(grid, schema)
        self._linear = list_linear(schema)
        self._output = drop_lines(schema)

    @property
    def rows(self) -> int:
        """The number of rows that are open or never end."""
        return self._chop.rows

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the points that are known, and the CTI."""
        pieces = self._chop.on_batch(batch).take_begins()
        at = pieces.take(self._chop.grid.is_bound(pieces.start))
        end = add_length(at.start, TICK)
        columns = self._read_lines(at) if self._linear else at.columns
        return EventBatch.of_rows(at.start, end, columns, batch.cti, batch.keys)

    def _read_lines(self, points: EventBatch) -> Columns:
        """Return the payload with the values of lines at the points."""
        start = pl.lit(pl.Series(points.start))
        values = [interpolate(name, start).alias(name) for name in self._linear]
        return Columns.from_frame(points.payload.with_columns(values).select(*self._output))
