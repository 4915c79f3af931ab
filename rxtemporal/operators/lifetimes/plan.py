"""shift_event_time, extend_lifetime, to_point_events and point_at_end."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.lines import list_linear
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.core.time_forms import find_span_form
from rxtemporal.operators.operator import Keys, RowOperator

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ShiftEventTime(RowOperator):
    """Both ends of each lifetime, and the CTI, moved by a fixed span."""

    name = "shift_event_time"
    by: int
    cti_rule = "t + d"
    passes_time = False

    def find_complete(self, begin: int) -> int:
        """Return the time, moved as the rows are."""
        return min(begin + self.by, MAX_TIME)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.lifetimes.step import ShiftStep

        return ShiftStep(self.by, moves_lines=bool(list_linear(schema)))


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ToPointEvents(RowOperator):
    """Each row as a point at its start."""

    name = "to_point_events"
    knows_ends = True

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.lifetimes.step import ToPointsStep

        return ToPointsStep()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class PointAtEnd(RowOperator):
    """Each row that ends as a point at its end."""

    name = "point_at_end"
    knows_ends = True

    def find_complete(self, begin: int) -> int:
        """Return the time behind the points of rows that ended at it."""
        return min(begin + 1, MAX_TIME)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.lifetimes.step import PointAtEndStep

        return PointAtEndStep()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ExtendLifetime(RowOperator):
    """Each end moved by a fixed span, of either sign."""

    name = "extend_lifetime"
    by: int

    @property
    def cti_rule(self) -> str:
        """The CTI, held back by open rows if lifetimes are shortened."""
        return "t" if self.by >= 0 else "min(t, max(t + d, start of the oldest open row))"

    @property
    def holds_time(self) -> bool:
        """True if lifetimes are shortened."""
        return self.by < 0

    @property
    def holds(self) -> str:
        """Open rows if lifetimes are shortened: they may vanish, and then hold the CTI back."""
        return "nothing" if self.by >= 0 else "open rows, until they end"

    def find_complete(self, begin: int) -> int:
        """Return when the last rows that are missing would have ended."""
        return min(begin + max(self.by, 0), MAX_TIME)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        if self.by >= 0:
            from rxtemporal.operators.lifetimes.step import LengthenStep

            return LengthenStep(self.by)
        from rxtemporal.operators.lifetimes.step import ShortenStep

        return ShortenStep(self.by, schema)


def shift_event_time(d: Span) -> ShiftEventTime:
    """Move each row by ``d`` in time: ``[start + d, end + d)``.

    ``d`` is a timedelta or ticks; a negative ``d`` moves rows to earlier times. The CTI moves as
    well, so it stays valid. MIN_TIME and MAX_TIME do not move, and other times are clipped to them;
    a row that becomes empty vanishes. The line of a linear signal moves with its row. Rows pass at
    once and nothing is held, with one exception: if ``d`` is negative, open rows whose start
    becomes MIN_TIME wait until the CTI is above it.
    Source: *Dangers of time travel*, ``ShiftEventTime``.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, "a"), rxt.IntervalEvent(8, 9, "b")])
    >>> stays.shift_event_time(10).to_polars().rows()
    [(13, 24, 'a'), (18, 19, 'b')]
    """
    return ShiftEventTime(by=span(d, "d"), time=find_span_form(d))


def to_point_events() -> ToPointEvents:
    """Make each row a point at its start.

    Rows, open ones too, are emitted at once as ``[start, start + 1 tick)``; end edges are ignored.
    The CTI passes unchanged and nothing is held.
    Source: StreamInsight's ``ToPointEventStream``.
    """
    return ToPointEvents()


def point_at_end() -> PointAtEnd:
    """Make each row that ends a point at its end.

    A row is emitted as ``[end, end + 1 tick)`` when its end is known; a row that never ends gives
    no point. The CTI passes unchanged and nothing is held.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, "a"), rxt.IntervalEvent(8, 9, "b")])
    >>> stays.point_at_end().to_polars().rows()
    [(9, 10, 'b'), (14, 15, 'a')]
    """
    return PointAtEnd()


def extend_lifetime(d: Span) -> ExtendLifetime:
    """Move each end by ``d``: ``[start, end + d)``; a row that becomes empty vanishes.

    Starts do not change, and rows that never end still never end. If ``d`` is positive, rows and
    CTIs pass at once and nothing is held.

    If ``d`` is negative, rows not longer than ``-d`` vanish. So a start edge is held until the CTI
    plus ``d`` is above its start. Since its end moves to an earlier time, the output CTI while any
    row is open is min(``t``, max(``t + d``, start of the oldest open row)).

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, "a"), rxt.IntervalEvent(8, 9, "b")])
    >>> stays.extend_lifetime(-1).to_polars().rows()
    [(3, 13, 'a')]
    """
    return ExtendLifetime(by=span(d, "d"), time=find_span_form(d))
