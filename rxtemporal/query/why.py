"""why: the input events on which a row of a result stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import polars as pl

from rxtemporal.core.events import EdgeEvent, IntervalEvent, PointEvent
from rxtemporal.core.ticks import TimeLike, time_ticks
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.expressions import check_row_by_row
from rxtemporal.query.bound_query import Query, Streams, bind_query
from rxtemporal.view.lineage.absence import Absence, Wanted, find_absence
from rxtemporal.view.lineage.capture import capture
from rxtemporal.view.lineage.trace import Explanation, explain_row, find_numbered_row, find_row

Named: TypeAlias = PointEvent | IntervalEvent | EdgeEvent | Mapping[str, Any] | int


def why(query: Query, row: Named, *, recording: Streams = None) -> Explanation:
    """Return the input events on which a row of a query's result stands, operator by operator.

    ``row`` is an event of the result; or a mapping of ``start_time``, ``end_time`` and fields, of
    which it may have as few as name one row; or an int, the number of the row in ``to_polars()``.

    The query runs again over its streams, which must end, or over those of a ``recording``: the
    folder that ``run(…, record=folder)`` has written. ``query`` may then be a function of streams.
    Late events are late again, and the rows are those of the recorded run.

    The causes, with the rows that bound them, are enough: each operator makes the row out of them,
    without all other rows. Of a ``scan`` and of other functions with a state they are all rows of
    the key up to then.

    The cost is that run, all rows of all operators in memory, and the search for the causes of one
    row. ``BindingError``: a stream is missing or has no end. ``ArgumentError``: there is no such
    row, or there are several. An error that ends the run is raised if the row did not come before.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> readings = rxt.from_events(
    ...     [rxt.PointEvent(1, {"temp": 20}), rxt.PointEvent(4, {"temp": 24})], name="readings"
    ... )
    >>> warmest = readings.tumbling_window(10).aggregate(warmest=agg.max("temp"))
    >>> explanation = rxt.why(warmest, {"warmest": 24})
    >>> explanation.causes["readings"].rows()
    [(1, 2, 20), (4, 5, 24)]
    """
    bound = bind_query(query, recording)
    flow = capture(bound.stream._node, every=0, named=bound.named)
    if flow.error is not None:  # event by event there are the results before the error
        flow = capture(bound.stream._node, named=bound.named)
        if not len(flow.result) and flow.error is not None:
            raise flow.error
    if isinstance(row, int) and not isinstance(row, bool):
        number = find_numbered_row(flow, bound.stream.to_polars(), row)
    else:
        number = find_row(flow, row)
    return explain_row(flow, number)


def why_not(
    query: Query,
    where: Mapping[str, Any] | pl.Expr | None = None,
    *,
    at: TimeLike | None = None,
    start: TimeLike | None = None,
    recording: Streams = None,
) -> Absence:
    """Return why a query has no row at a time or with some values: what became of the events.

    The missing row is described by ``at``, a time that its lifetime should contain, or ``start``,
    the time at which it should begin; by ``where``, a mapping from fields of the result to values
    or a polars predicate over the result; or by a time and ``where``.
    Of each stream the nearest events are followed forward: first those with the fewest other values
    in the fields that ``where`` names, then by time. The fate of each says where its way ended:
    it came late, a ``where`` dropped it, it had no partner in a join, an anti join removed it, it
    only removes rows of another stream, it lies in no window, its result waits for a CTI, or it is
    in another result.

    The query runs again over its streams, which must end, or over those of a ``recording``: the
    folder that ``run(…, record=folder)`` has written. ``query`` may then be a function of streams.
    The cost is that run, all rows of all operators in memory, and a search for each event.
    ``BindingError``: a stream is missing or has no end. ``ArgumentError``: ``where`` names a field
    that the result does not have, or both times are given.

    >>> import polars as pl
    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events(
    ...     [rxt.PointEvent(3, {"temp": 19}), rxt.PointEvent(7, {"temp": 25})], name="readings"
    ... )
    >>> absence = rxt.why_not(readings.where(pl.col("temp") > 20), at=3)
    >>> absence.candidates["readings"][0].fate.kind
    'dropped'
    """
    if at is None and start is None and where is None:
        raise ArgumentError(
            "why_not needs to know which row is missing. Hint: at=time, a time that it should "
            "contain, start=time, at which it should begin, or where={field: value}."
        )
    if at is not None and start is not None:
        raise ArgumentError(
            "why_not takes at=, a time that the missing row should contain, or start=, the time at "
            "which it should begin, and not both."
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
    time = at if start is None else start
    tick = None if time is None else time_ticks(time)
    return find_absence(flow, Wanted(tick, where, flow.time, begins=start is not None))
