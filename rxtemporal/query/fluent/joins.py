"""Joins: what two streams say of the same moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import polars as pl

from rxtemporal import operators as ops
from rxtemporal.core.ticks import Span
from rxtemporal.query.fluent.composing import Composing

On = str | Sequence[str] | Mapping[str, str] | None


class Joins(Composing):
    """Operators of two streams. Both are ungrouped, or grouped by the same keys.

    The output CTI is the lower of the two inputs': a side that does not advance holds everything
    back. ``on`` is a field's name, names, or a mapping left -> right; null matches nothing, NaN
    equals NaN and -0.0 equals 0.0. Rows of groups match in their group alone, where null equals
    null. ``where`` is a polars predicate over the joined fields; null is false.
    """

    def union(self, other: Self) -> Self:
        """Return the rows of both streams, which have the same fields.

        Rows and lifetimes pass unchanged and at once; the output CTI is the lower of the two.
        Nothing is held.
        """
        return self._then(ops.union(other))

    def join(
        self,
        other: Self,
        on: On = None,
        where: pl.Expr | None = None,
        *,
        suffix: str | None = None,
    ) -> Self:
        """Return both payloads for each pair of matching rows, for as long as both live.

        Fields in ``on`` that have one name appear once; of other fields with the same name the
        right one gets ``suffix``, and without one they are an error. A pair leaves when both CTIs
        have passed its start; while its end is not certain, as a start edge. Rows are held until
        they have ended before both CTIs. Cost: of what is new and of the pairs it makes.
        Source: StreamInsight's and Trill's ``Join``.

        >>> import rxtemporal as rxt
        >>> cars = rxt.from_events([rxt.IntervalEvent(1, 9, {"k": 1, "plate": "A"})])
        >>> tolls = rxt.from_events([rxt.IntervalEvent(4, 20, {"k": 1, "toll": 7})])
        >>> cars.join(tolls, on="k").to_events()
        [IntervalEvent(4, 9, {'k': 1, 'plate': 'A', 'toll': 7})]
        """
        return self._then(ops.join(other, on, where, suffix=suffix))

    def cross_join(
        self, other: Self, where: pl.Expr | None = None, *, suffix: str | None = None
    ) -> Self:
        """Return ``join`` without keys: every row with every other that is alive meanwhile.

        When pairs leave, the CTI, and what is held are as with ``join``.
        """
        return self._then(ops.cross_join(other, where, suffix=suffix))

    def left_anti_join(self, other: Self, on: On = None, where: pl.Expr | None = None) -> Self:
        """Return rows during the parts of their lifetime in which no matching other is alive.

        Each part is a row of its own. A part leaves when both CTIs have passed its start, and is
        closed when something covers it. In ``where``, right fields that clash have the suffix
        ``_right``. Rows are held until they have ended before both CTIs.
        """
        return self._then(ops.left_anti_join(other, on, where))

    def left_outer_join(
        self,
        other: Self,
        on: On = None,
        where: pl.Expr | None = None,
        *,
        suffix: str | None = None,
    ) -> Self:
        """Return ``join`` united with the rows while they match nothing, right fields null.

        When rows leave, the CTI, and what is held are as with ``join`` and ``left_anti_join``.
        """
        return self._then(ops.left_outer_join(other, on, where, suffix=suffix))

    def full_outer_join(
        self,
        other: Self,
        on: On = None,
        where: pl.Expr | None = None,
        *,
        suffix: str | None = None,
    ) -> Self:
        """Return ``join`` united with the rows of both sides while they match nothing.

        Missing fields are null; fields in ``on`` under one name come from whichever side is there.
        When rows leave, the CTI, and what is held are as with ``join`` and ``left_anti_join``.
        """
        return self._then(ops.full_outer_join(other, on, where, suffix=suffix))

    def clip_event_duration(self, other_or_limit: Self | Span, on: On = None) -> Self:
        """End each row where the next matching row of another stream begins, or after a limit.

        One that begins at the same time, or is alive already, does not clip; only starts count. A
        row leaves when both CTIs have passed its start, and its end follows. Held: rows until they
        are clipped or have ended. With a limit (a span of time) a row lives that long at most; then
        the CTI passes unchanged and only open rows are held, until they reach the limit.
        Source: StreamInsight's ``ClipEventDuration``.
        """
        other: Any = other_or_limit
        return self._then(ops.clip_event_duration(other, on))

    def to_signal(self, on: str | Sequence[str] | None = None) -> Self:
        """Make a signal of points: each row lasts until the next one of the same key.

        Only starts count. Two that start together both last; the last one of a key never ends. A
        row leaves as a start edge when the CTI passes its start, and the next one closes it. The
        CTI passes unchanged. Held: the latest rows of each key.
        """
        return self._then(ops.to_signal(on))
