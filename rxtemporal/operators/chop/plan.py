"""chop and sample: lifetimes cut, and read, at the boundaries of a grid."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.calendars import Calendar, find_monday, names_calendar, read_calendar
from rxtemporal.core.lines import drop_lines
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import TimeLike, time_ticks
from rxtemporal.core.time_forms import TimeForm, find_span_form
from rxtemporal.operators.causes.carried_rows import carry, get_cti, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import Fate, LostRow
from rxtemporal.operators.operator import ADDED_LATER, Keys, RowOperator

if TYPE_CHECKING:
    from rxtemporal.engine.grids import BoundGrid
    from rxtemporal.engine.step import Step

# a text that is a span: a number with a unit
_SPAN = re.compile(r"\s*-?\s*\d+(\.\d+)?\s*[a-z]")


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Chop(RowOperator):
    """Lifetimes cut at every boundary ``offset + n * period`` strictly inside them."""

    name = "chop"
    period: int
    offset: int
    calendar: Calendar | None = dataclasses.field(default=None, metadata=ADDED_LATER)
    holds = "open rows and rows that never end, until they end"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.chop.step import ChopStep

        return ChopStep(make_grid(self.period, self.offset, self.calendar), schema)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_chopped_rows(self, inputs, output, rows)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SampleRows(RowOperator):
    """A point at every boundary ``offset + n * every`` at which a row is alive."""

    name = "sample"
    every: int
    offset: int
    calendar: Calendar | None = dataclasses.field(default=None, metadata=ADDED_LATER)
    holds = "open rows and rows that never end, until they end"

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.chop.step import SampleStep

        return SampleStep(make_grid(self.every, self.offset, self.calendar), schema)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_chopped_rows(self, inputs, output, rows)

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the fields; those that move along lines are numbers, without their lines."""
        return drop_lines(schema)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return the times between which a row lives."""
        grid, before = make_grid(self.every, self.offset, self.calendar), np.array([lost.start - 1])
        after = grid.find_after(before).item()
        if lost.end <= after:
            between = f"{lost.write(grid.find_upto(before).item())} and {lost.write(after)}"
            return lost.tell("outside", f"gives no row in {lost.place}: it lives between {between}")
        return lost.wait(after + 1) if after >= lost.cti else lost.tell_end()


def make_grid(period: int, offset: int, calendar: Calendar | None) -> BoundGrid:
    """Return the boundaries of a calendar, or the regular ones if there is none."""
    from rxtemporal.engine.grids import CalendarGrid, RegularGrid

    return RegularGrid(period, offset) if calendar is None else CalendarGrid(calendar)


def chop(period: Span, offset: TimeLike | timedelta = 0, *, time_zone: str | None = None) -> Chop:
    """Cut each lifetime at every boundary ``offset + n * period`` strictly inside it.

    All pieces of a row with a known end are emitted at once. For a row that is open or never ends,
    the pieces that start before the CTI are emitted: complete if they end by then, and the last one
    as a start edge. The CTI passes unchanged. Rows that are open or never end are held until they
    end.

    With ``time_zone`` the boundaries are local: midnights of days, Mondays, and first days of
    months, as those of ``tumbling_window``, also for ``"1mo"`` and ``"1y"`` without a zone.

    Errors: ``UnboundedWindowError`` at the end of time if a row never ends, since it has infinitely
    many pieces, and for more than 2**27 pieces at once. The default offset is
    1970-01-01T00:00:00Z, a Thursday; of ``"1w"`` it is a Monday.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, "a"), rxt.IntervalEvent(8, 9, "b")])
    >>> stays.chop(5).to_polars().rows()
    [(3, 5, 'a'), (5, 10, 'a'), (8, 9, 'b'), (10, 14, 'a')]
    """
    length, at, calendar = _read_boundaries(period, offset, time_zone, "period")
    form: TimeForm | None = "datetime" if calendar else find_span_form(period, offset)
    return Chop(period=length, offset=at, calendar=calendar, time=form)


def sample(
    every: Span, offset: TimeLike | timedelta = 0, *, time_zone: str | None = None
) -> SampleRows:
    """Return a point for each row that is alive at a time ``offset + n * every``.

    The point has the row's payload; a field that moves along a line (``to_signal(linear=…)``) has
    its value at that time, as Float64, and is a plain field then. A row gives as many points as
    there are such times in its lifetime, and none if there is none; an end that is such a time does
    not count, as it is exclusive.

    Behind ``to_signal`` this is resampling: the last reading of each key at regular times;
    ``max_gap`` says how old it may be. Two signals that are sampled alike can be joined.

    All points of a row with a known end are emitted at once. For a row that is open or never ends,
    a point is emitted with the first CTI above it. The CTI passes unchanged. Rows that are open or
    never end are held until they end.

    With ``time_zone`` the times are local, as those at which ``chop`` cuts.

    Errors: ``UnboundedWindowError`` at the end of time if a row never ends, since it has infinitely
    many points, and for more than 2**27 points at once. The default offset is
    1970-01-01T00:00:00Z, a Thursday; of ``"1w"`` it is a Monday.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(t, {"v": v}) for t, v in ((3, 5), (14, 7))])
    >>> readings.to_signal(max_gap=20).sample(10).to_polars().rows()
    [(10, 11, 5), (20, 21, 7), (30, 31, 7)]
    """
    length, at, calendar = _read_boundaries(every, offset, time_zone, "every")
    form: TimeForm | None = "datetime" if calendar else find_span_form(every, offset)
    return SampleRows(every=length, offset=at, calendar=calendar, time=form)


def _read_boundaries(
    period: Span, offset: TimeLike | timedelta, time_zone: str | None, name: str
) -> tuple[int, int, Calendar | None]:
    """Return period and offset of boundaries in ticks, or their calendar."""
    if names_calendar(period, time_zone):
        return 0, 0, read_calendar(period, time_zone, offset, name)
    at = find_monday(period) if offset == 0 else _read_offset(offset)
    return span(period, name, least=1), at, None


def _read_offset(offset: TimeLike | timedelta) -> int:
    """Return a time, or a span since 1970-01-01T00:00:00Z, as ticks."""
    spans = isinstance(offset, timedelta) or (isinstance(offset, str) and _SPAN.match(offset))
    return span(offset, "offset") if spans else time_ticks(offset)  # type: ignore[arg-type]


def find_chopped_rows(
    operator: Chop | SampleRows, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each piece, or point, its row."""
    # a run with rows that never end fails at the end of time, and what has left came before
    made = carry(operator, inputs, get_cti(output))
    of, at = match_output(output, made, rows)
    return Causes.of_pairs(of, made.numbers[0][at])
