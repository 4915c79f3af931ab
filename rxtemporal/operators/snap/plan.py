"""snap_to_window_intervals: lifetimes that cover the intervals assigned to hopping windows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

import polars as pl

from rxtemporal.core.calendars import find_monday
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import MAX_TIME, TimeLike, time_ticks
from rxtemporal.core.time_forms import find_span_form
from rxtemporal.operators.operator import Keys, RowOperator

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.causes.lost_row import Fate, LostRow


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SnapToWindowIntervals(RowOperator):
    """Lifetimes altered to cover the assigned interval of every hopping window they touch."""

    name = "snap_to_window_intervals"
    duration: int
    period: int
    alignment: int

    @property
    def cti_rule(self) -> str:
        """The CTI, altered like a start."""
        return "end of the earliest window that ends after t"

    @property
    def passes_time(self) -> bool:
        """False: CTIs are altered even before the first row."""
        return False

    @property
    def holds(self) -> str:
        """The open rows that may still vanish."""
        return "open rows in a gap between windows, until the CTI passes the next window's start"

    def find_complete(self, begin: int) -> int:
        """Return when the windows of rows that are missing have ended."""
        return min(begin + self.duration, MAX_TIME)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.snap.step import SnapStep

        return SnapStep(self.duration, self.period, self.alignment)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        return find_gap(self, lost) or lost.tell_end()


def snap_to_window_intervals(
    duration: Span, period: Span, alignment: TimeLike = 0
) -> SnapToWindowIntervals:
    """Alter lifetimes to cover the assigned interval of every hopping window they touch.

    The windows are ``[a + np, a + np + d)`` for every integer n, where ``a`` is the alignment,
    ``p`` the period and ``d`` the duration. The interval of a window is ``[end, end + p)``.
    The default alignment is that of ``hopping_window``. A row that touches no window (possible if
    p > d) vanishes. The CTI is altered like a start. Only
    open rows in a gap between windows are held, until the CTI passes the start of the next window.
    Source: *Taming Hopping Windows*, ``SnapToWindowIntervals``.
    """
    return SnapToWindowIntervals(
        duration=span(duration, "duration", least=1),
        period=span(period, "period", least=1),
        alignment=time_ticks(find_monday(period) if alignment == 0 else alignment),
        time=find_span_form(duration, period, alignment),
    )


class WindowGrid(Protocol):
    """A regular grid of windows, in ticks."""

    @property
    def duration(self) -> int:
        """The length of a window."""

    @property
    def period(self) -> int:
        """The distance between the starts of two windows."""

    @property
    def alignment(self) -> int:
        """The start of one of them."""


def find_gap(operator: WindowGrid, lost: LostRow) -> Fate | None:
    """Return that the row lies between windows, or which window has not ended; None for neither."""
    first = (lost.start - operator.alignment - operator.duration) // operator.period + 1
    begin = operator.alignment + first * operator.period
    if begin >= lost.end:
        return lost.tell(
            "outside",
            f"outside every window of {lost.place}: the next one begins at {lost.write(begin)}",
        )
    return lost.wait(begin + operator.duration) if begin + operator.duration > lost.cti else None
