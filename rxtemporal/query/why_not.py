"""why_not: the reasons why a result does not have a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from rxtemporal.core.ticks import TimeLike, time_ticks
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.expressions import check_row_by_row
from rxtemporal.query.bound_query import Query, Streams, bind_query
from rxtemporal.view.lineage.absence import Absence, Wanted, find_absence
from rxtemporal.view.lineage.capture import capture


def why_not(
    query: Query,
    where: Mapping[str, Any] | pl.Expr | None = None,
    *,
    at: TimeLike | None = None,
    recording: Streams = None,
) -> Absence:
    """Return why a query has no row at a time or with some values: what became of the events.

    The missing row is described by ``at``, a time that its lifetime should contain, by ``where``, a
    mapping from fields of the result to values or a polars predicate over the result, or by both.
    Of each stream the nearest events are followed forward: first those with the fewest other values
    in the fields that ``where`` names, then by time. The fate of each says where its way ended:
    it came late, a ``where`` dropped it, it had no partner in a join, an anti join removed it, it
    only removes rows of another stream, it lies in no window, its result waits for a CTI, or it is
    in another result.

    The query runs again over its streams, which must end, or over those of a ``recording``: the
    folder that ``run(…, record=folder)`` has written. ``query`` may then be a function of streams.
    The cost is that run, all rows of all operators in memory, and a search for each event.
    ``BindingError``: a stream is missing or has no end. ``ArgumentError``: ``where`` names a field
    that the result does not have.

    >>> import polars as pl
    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events(
    ...     [rxt.PointEvent(3, {"temp": 19}), rxt.PointEvent(7, {"temp": 25})], name="readings"
    ... )
    >>> absence = rxt.why_not(readings.where(pl.col("temp") > 20), at=3)
    >>> absence.candidates["readings"][0].fate.kind
    'dropped'
    """
    if at is None and where is None:
        raise ArgumentError(
            "why_not needs to know which row is missing. Hint: at=time, where={field: value}, or "
            "both."
        )
    if not isinstance(where, Mapping | pl.Expr | None):
        raise ArgumentError(
            "why_not: where is a mapping from fields to values or a polars predicate, got "
            f"{where!r}. Hint: at=… gives a time."
        )
    bound = bind_query(query, recording)
    if isinstance(where, pl.Expr):
        check_row_by_row(where, "where of why_not")
    flow = capture(bound.stream._node, every=0, named=bound.named)
    if flow.error is not None:  # event by event there are the results before the error
        flow = capture(bound.stream._node, named=bound.named)
    tick = None if at is None else time_ticks(at)
    return find_absence(flow, Wanted(tick, where, flow.time))
