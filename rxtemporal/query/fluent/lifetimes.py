"""Lifetimes altered: time travel, and the built-in ways of it that are always safe."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from rxtemporal import operators as ops
from rxtemporal.core.ticks import Span, Time
from rxtemporal.operators import alter as altering
from rxtemporal.operators import lifetimes
from rxtemporal.operators.alter import LengthGiven, TimesGiven
from rxtemporal.query.fluent.composing import Composing


class Lifetimes(Composing):
    """Operators that alter lifetimes; payloads and groups stay.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, "a"), rxt.IntervalEvent(8, 9, "b")])
    >>> stays.shift_event_time(10).to_polars().rows()
    [(13, 24, 'a'), (18, 19, 'b')]
    >>> stays.alter_event_duration(2).to_polars().rows()
    [(3, 5, 'a'), (8, 10, 'b')]
    >>> stays.extend_lifetime(-1).to_polars().rows()
    [(3, 13, 'a')]
    >>> stays.clip_event_duration(5).to_polars().rows()
    [(3, 8, 'a'), (8, 9, 'b')]
    >>> stays.point_at_end().to_polars().rows()
    [(9, 10, 'b'), (14, 15, 'a')]
    >>> stays.chop(5).to_polars().rows()
    [(3, 5, 'a'), (5, 10, 'a'), (8, 9, 'b'), (10, 14, 'a')]
    """

    def shift_event_time(self, d: Span) -> Self:
        """Move each row to later, or to earlier if ``d`` is negative.

        Both ends of a lifetime and the CTI are moved by ``d``, a timedelta or ticks, so no promise
        can break. The ends of time stay where they are, and what would go past them stops there; a
        row that is emptied by it is gone. Rows pass at once and nothing is held, except that
        backwards the open rows that come to start at the beginning of time wait until the CTI is
        above that.
        Source: *Dangers of time travel*, ``ShiftEventTime``.
        """
        return self._then(lifetimes.shift_event_time(d))

    def alter_event_lifetime(
        self, start: TimesGiven | None = None, duration: LengthGiven | None = None
    ) -> Self:
        """Give each row the lifetime ``[f(start), f(start) + g(row))``.

        ``start`` is f, a function of time alone, since CTIs go through it too: the output CTI is
        ``f(t)``. It is a Python function, which gets and returns ticks (or aware datetimes, if its
        parameter is annotated ``datetime`` or it cannot take an int), or a polars expression over
        ``start``, which is a Datetime in UTC or, if it cannot be computed so, ticks. Without it
        starts and CTIs stay.

        ``duration`` is g: a timedelta or ticks; a polars expression over the payload, ``start`` and
        ``end`` (which hide fields of these names), of type Duration or integer; or a Python
        function of the row as an ``IntervalEvent``, which returns a timedelta or ticks. g sees the
        row as it was before. Without it the duration stays. Python functions cost a call for each
        row.

        If g names no ``end``, rows are complete at once and end edges say nothing new. Otherwise
        (a Python function always counts so) an open row stays open until its end edge comes, and a
        row that never ends stays so. f leaves the ends of time where they are, and other results
        stop there; what is emptied by it is gone. No row is held.

        Errors: what lands before the last output CTI (a CTI or a start, or the end of an open row)
        is a ``CtiViolationError``: f and g have to keep the order of times. A duration that is not
        positive is an ``EventError``; a result of a wrong type a ``SchemaError``.
        Source: *Dangers of time travel*, ``AlterEventLifetime``.
        """
        return self._then(altering.alter_event_lifetime(start, duration))

    def alter_event_start_time(self, start: TimesGiven) -> Self:
        """Move each start to ``f(start)`` and keep the duration, as ``alter_event_lifetime``.

        The output CTI is ``f(t)``. An end moves as far as its start does, which is not how far f
        would move it: unless f is a fixed shift, the end of an open row may land before the CTI,
        and that is a ``CtiViolationError``.
        Source: *Dangers of time travel*, ``AlterEventStartTime``.
        """
        return self._then(altering.alter_event_start_time(start))

    def alter_event_duration(self, duration: LengthGiven) -> Self:
        """Let each row live for ``g(row)`` from its start on, as ``alter_event_lifetime``.

        The CTI stays ``t``. With a fixed duration, or one that does not read ``end``, rows are
        complete at once and nothing can break. If it does, and shortens, the end of an open row may
        land before the CTI, and that is a ``CtiViolationError``; to shorten by a fixed span there
        is ``extend_lifetime``, to shorten to one ``clip_event_duration``.
        Source: *Dangers of time travel*, ``AlterEventDuration``.
        """
        return self._then(altering.alter_event_duration(duration))

    def to_point_events(self) -> Self:
        """Make each row a point at its start.

        Rows leave at once as ``[start, start + 1 tick)``, open ones too, whose end edges then say
        nothing new. The CTI passes unchanged and nothing is held.
        Source: StreamInsight's ``ToPointEventStream``.
        """
        return self._then(lifetimes.to_point_events())

    def point_at_end(self) -> Self:
        """Make each row that ends a point at its end.

        A row leaves as ``[end, end + 1 tick)`` when its end is known; one that never ends gives
        none. The CTI passes unchanged and nothing is held.
        """
        return self._then(lifetimes.point_at_end())

    def extend_lifetime(self, d: Span) -> Self:
        """Move the end of each row to later, or to earlier if ``d`` is negative.

        Starts stay, and rows that never end stay so. To later, rows and CTIs pass at once and
        nothing is held.

        To earlier, rows not longer than ``-d`` vanish. So a start edge is held until the CTI plus
        ``d`` is above its start; and since its end edge will come to lie ``-d`` earlier, while any
        row is open the output CTI is min(``t``, max(``t + d``, start of the oldest open row)).
        """
        return self._then(lifetimes.extend_lifetime(d))

    def chop(self, period: Span, offset: Time | timedelta = 0) -> Self:
        """Cut each lifetime at every boundary ``offset + n * period`` strictly inside it.

        A row whose end is known gives all its pieces at once. Of one that is open or never ends the
        pieces that start before the CTI leave: complete where they end by then, and the one that
        goes on as a start edge. The CTI passes unchanged. Rows that are open or never end are held
        until they end.

        Errors: ``UnboundedWindowError`` at the end of time if a row never ends, for its pieces are
        without number, and for more than 2**27 pieces at once. The default offset is
        1970-01-01T00:00:00Z, a Thursday.
        """
        return self._then(ops.chop(period, offset))
