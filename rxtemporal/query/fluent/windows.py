"""Windows: which rows belong together, and what is computed over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Self, TypeVar

import polars as pl

from rxtemporal import operators as ops
from rxtemporal.core.events import WindowOutput
from rxtemporal.core.ticks import Span, Time
from rxtemporal.operators.aggregates import Aggregate
from rxtemporal.operators.windows import Window
from rxtemporal.query.fluent.composing import Composing

Stream = TypeVar("Stream", bound=Composing)


class Windows(Composing):
    """Windows over a stream, each followed by what is to be computed."""

    def snap_to_window_intervals(self, duration: Span, period: Span, alignment: Time = 0) -> Self:
        """Alter lifetimes to cover the assigned interval of every hopping window they touch.

        The windows are ``[a + np, a + np + d)`` for every integer n, and the interval assigned to
        one is ``[end, end + p)``. A row that touches no window (where p > d) vanishes. The CTI is
        altered as a start is. Only open rows in a gap are held, until the CTI decides.
        Source: *Taming Hopping Windows*, ``SnapToWindowIntervals``.
        """
        return self._then(ops.snap_to_window_intervals(duration, period, alignment))

    def snapshot_window(self) -> Windowed[Self]:
        """One window for each maximal stretch of time in which the set of rows alive is the same.

        None where nothing is alive. Follow it with ``aggregate``. The CTI passes unchanged: a
        snapshot that has begun and not ended leaves as a start edge.
        """
        return Windowed(self, ops.snapshot_window())

    def hopping_window(
        self,
        duration: Span,
        period: Span,
        alignment: Time = 0,
        *,
        output: WindowOutput = WindowOutput.WINDOW,
    ) -> Windowed[Self]:
        """The windows ``[a + np, a + np + d)`` for every integer n.

        A row belongs to each one that its lifetime touches; empty windows give nothing. A result
        lives for its window, and then the output CTI is the start of the earliest window that ends
        after the input's; or, with ``output=WindowOutput.POINT_AT_END``, it is a point that starts
        at the window's end, and the CTI passes unchanged. The default alignment is
        1970-01-01T00:00:00Z, a Thursday. A row that never ends has windows up to the CTI; at the
        end of time it is an ``UnboundedWindowError``: see ``hopping_window2``.
        Source: StreamInsight's hopping windows.
        """
        return Windowed(self, ops.hopping_window(duration, period, alignment, output=output))

    def tumbling_window(
        self, duration: Span, alignment: Time = 0, *, output: WindowOutput = WindowOutput.WINDOW
    ) -> Windowed[Self]:
        """Windows that follow one another without overlap: ``hopping_window`` with p = d.

        The output CTI is the start of the window that ``t`` lies in, as a result lives for its
        window; or ``t``, with ``output=WindowOutput.POINT_AT_END``.
        """
        return Windowed(self, ops.tumbling_window(duration, alignment, output=output))

    def hopping_window2(self, duration: Span, period: Span, alignment: Time = 0) -> Windowed[Self]:
        """Hopping windows that give output only where the input changes.

        ``snap_to_window_intervals``, then ``snapshot_window``: each result lives for the interval
        assigned to its window, which begins at the window's end, and equal neighbours that nothing
        separates are one row, so a row that never ends gives a finite result. The output CTI is
        the end of the earliest window that ends after the input's, so it runs ahead. The default
        alignment is 1970-01-01T00:00:00Z. Source: *Taming Hopping Windows*, ``HoppingWindow2``.
        """
        return Windowed(self, ops.hopping_window2(duration, period, alignment))

    def session_window(
        self,
        timeout: Span,
        max_duration: Span | None = None,
        *,
        output: WindowOutput = WindowOutput.WINDOW,
    ) -> Windowed[Self]:
        """One window ``[first start, last start + timeout)`` for each session of a key.

        Rows whose starts follow each other by less than ``timeout`` share a session; the window
        holds the rows that start in it, whatever their ends. ``max_duration`` caps it as in
        ``session_lifetimes``. A result comes when no row can prolong the session; meanwhile the CTI
        is held at the start of the oldest open session, unless results are points at the windows'
        ends. Held: the rows of open sessions.
        """
        return Windowed(self, ops.session_window(timeout, max_duration, output=output))

    def count_window(
        self, n: int, *, output: WindowOutput = WindowOutput.POINT_AT_END
    ) -> Windowed[Self]:
        """Windows of ``n`` consecutive distinct start times of a key, sliding by one of them.

        Each is ``[first start, n-th start + 1 tick)`` and holds the rows that start in it; fewer
        than ``n`` starts give none. A result is a point at the window's end. As a whole window
        (``output=WindowOutput.WINDOW``) it holds the CTI at the start of the oldest unfinished
        window, so a key that falls silent holds everything back for good. Held: the rows of each
        key's last n - 1 starts. Source: StreamInsight's count windows.
        """
        return Windowed(self, ops.count_window(n, output=output))


class Windowed(Generic[Stream]):
    """A stream cut into windows: ``aggregate``, ``top_k`` or ``apply`` says what to make of each.

    All of them end a grouping: the keys come first in the payload. The output CTI is the window's.
    Held: the rows until they have ended before the CTI, and for each key its running aggregates.
    """

    def __init__(self, stream: Stream, window: Window) -> None:
        self._stream = stream
        self._window = window

    def aggregate(self, **aggregates: Aggregate) -> Stream:
        """Return one row for each window, and key: the keys, then the named aggregates.

        Cost: of what is new, whatever is alive, for the aggregates that run along (see
        ``rxtemporal.agg``); the others cost what the windows hold. An integer sum that overflows
        is an error.
        """
        return self._stream._then(self._window.aggregate(**aggregates))

    def top_k(self, k: int, by: str | pl.Expr, *, descending: bool = True) -> Stream:
        """Return the rows of rank ``k`` or better in each window, with the field ``rank``.

        Rows with equal values share a rank, so there may be more than ``k``. Rank 1 is the greatest
        value of ``by`` (a field or an expression), or with ``descending=False`` the least; nulls
        come last in both. A row lives for the window. Cost: of what the windows hold.
        """
        return self._stream._then(self._window.top_k(k, by, descending=descending))

    def apply(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        schema: Any = None,
        time_sensitive: bool = False,
    ) -> Stream:
        """Return what a function makes of the rows of each window: a user-defined operator.

        The function gets the payloads as a list of dicts, in order of (start, payload), and returns
        payloads, which live for the window. With ``time_sensitive`` it gets interval events with
        lifetimes clipped to the window, and the window (``start``, ``end``, in ticks); it may give
        interval events that lie in the window. ``schema`` names the fields of what it returns.
        What it raises goes to ``on_error``. Cost: a call for each window.
        """
        return self._stream._then(
            self._window.apply(function, schema=schema, time_sensitive=time_sensitive)
        )
