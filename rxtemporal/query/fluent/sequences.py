"""Sessions, scan and stitch: what looks along a stream in order of time."""

from __future__ import annotations

from typing import Any, Self

from rxtemporal.core.ticks import Span
from rxtemporal.operators.scan import ScanFunction, scan
from rxtemporal.operators.session_lifetimes import session_lifetimes
from rxtemporal.operators.stitch import stitch
from rxtemporal.query.fluent.composing import Composing


class Sequences(Composing):
    """Operators over the rows of each key as they follow each other."""

    def session_lifetimes(self, timeout: Span, max_duration: Span | None = None) -> Self:
        """Let each row live until its session ends.

        Rows of a key whose starts follow each other by less than ``timeout`` share a session (a gap
        of exactly ``timeout`` closes it), which ends ``timeout`` after its last start. Only starts
        count: ends and end edges are swallowed. A row leaves as a start edge when the CTI has
        passed its start, and its end follows with the first CTI that is not below the session's
        end. The CTI passes unchanged. Held: the rows of sessions that have not ended, and some
        numbers for each key seen.

        ``max_duration`` M caps a session on an absolute grid: with c the greatest multiple of M
        (counted from 1970-01-01T00:00:00Z) not above its first start, it ends at c + M at the
        latest if it starts at c, else at c + 2M; one that follows a session closed by its cap, at
        its own c + M.

        >>> import rxtemporal as rxt
        >>> clicks = [rxt.PointEvent(t, {"page": "a"}) for t in (0, 4, 20)]
        >>> rxt.from_events(clicks).session_lifetimes(10).to_polars(time="ticks").rows()
        [(0, 14, 'a'), (4, 14, 'a'), (20, 30, 'a')]
        """
        return self._then(session_lifetimes(timeout, max_duration))

    def scan(self, seed: Any, fn: ScanFunction, *, schema: Any) -> Self:
        """Go along the rows with a state: a stream operator of your own.

        ``fn(state, start, payload)`` is called once for each row, when the CTI has passed its
        start, in order of (start, payload), nulls first. ``start`` is in ticks and ``payload`` a
        dict; the row's end is not shown. It returns the next state, and None, a payload or a list
        of payloads with the fields of ``schema``. These live as long as the row: those of an open
        row leave as start edges. The CTI passes unchanged.

        Each group key has a state of its own, which begins as a copy of ``seed``, and stays in
        front of what comes back. A state has to be made of numbers, strings, times, lists, tuples,
        dicts and sets, so that it can be saved. Held: rows that are not committed, what open rows
        gave, and a state for each key seen. What ``fn`` raises fails the query. Costs a call for
        each row.

        >>> import rxtemporal as rxt
        >>> def total(state, start, payload):
        ...     state += payload["x"]
        ...     return state, {"total": state}
        >>> numbers = rxt.from_events([rxt.PointEvent(t, {"x": t}) for t in (1, 2, 3)])
        >>> numbers.scan(0, total, schema={"total": int}).to_polars()["total"].to_list()
        [1, 3, 6]
        """
        return self._then(scan(seed, fn, schema=schema))

    def stitch(self) -> Self:
        """Join rows of equal payload where one ends at the tick at which the other starts.

        Null equals null and NaN equals NaN. Rows that overlap stay apart: where more of them end
        than begin, those whose chain began first go on; of equal rows that begin together, the one
        that ends first continues the chain that began last. A chain leaves as a start edge when the
        CTI has passed its start, and its end follows when the CTI has passed that: at its end a row
        may still begin. The CTI passes unchanged. Held: the rows that have not ended.

        >>> import rxtemporal as rxt
        >>> on = [rxt.IntervalEvent(s, e, {"lamp": "on"}) for s, e in ((0, 5), (5, 9), (12, 13))]
        >>> rxt.from_events(on).stitch().to_polars(time="ticks").rows()
        [(0, 9, 'on'), (12, 13, 'on')]
        """
        return self._then(stitch())
