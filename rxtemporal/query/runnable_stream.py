"""Results of a stream: the methods that run its query."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import Event, EventShape
from rxtemporal.operators.stream import Stream

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from reactivex import Observable, abc

    from rxtemporal.reactive.subscriber import OnCompleted, OnError

# silence after which the log says why there are no results
WARN_AFTER = timedelta(seconds=30)


class RunnableStream(Stream):
    """A stream whose results can be requested; each request is a new run with its own state."""

    def subscribe(
        self,
        on_next: abc.ObserverBase[Event] | Callable[[Event], None] | None = None,
        on_error: OnError | None = None,
        on_completed: OnCompleted | None = None,
        *,
        shape: EventShape = EventShape.INTERVAL,
        ctis: bool = False,
        **rx: Any,
    ) -> abc.DisposableBase:
        """Run the query and deliver its results as events, as they become known.

        A file, frame or iterable is read to its end before this method returns; a source that
        pushes is followed until you dispose of the returned object. In interval shape a row is
        delivered when its end and everything before it are known; in edge shape its start is
        delivered at once and its end later; in point shape only starts are delivered. With ``ctis``
        CTIs are delivered too.

        If neither rows nor CTIs come out for 30 seconds, the log says which input the query waits
        for and what helps.

        An error of the query goes to ``on_error``, and so does an exception in ``on_next``, which
        ends the run. Without ``on_error`` it is raised here if the source is read here, and logged
        if the source pushes; a ``PushSource`` raises it with the next push.

        An operator of Rx (``rx.merge`` …) that subscribes to the stream gets a ``BindingError``:
        ``to_observable`` returns what it takes.
        """
        from rxtemporal.query import runs

        if rx:
            from rxtemporal.query.rx_pipe import refuse_subscription

            return refuse_subscription(on_next, on_error, rx)
        events = self.to_observable(shape, ctis)
        return runs.subscribe(events, on_next, on_error, on_completed)

    def to_observable(
        self,
        shape: EventShape = EventShape.INTERVAL,
        ctis: bool = True,
        *,
        time: TimeForm | None = None,
    ) -> Observable[Event]:
        """Return an observable of the results as events; each subscription is a new run.

        Times are in the form of the source, or in the form ``time``. Otherwise as ``subscribe``.
        """
        from rxtemporal.query import runs

        return runs.observe(self, shape, ctis, time, WARN_AFTER)

    def to_batches(self, shape: EventShape = EventShape.EDGE) -> Iterator[EventBatch]:
        """Run the query to the end of its source, and yield its results as they become known.

        By default batches are in the stream's own form, edges included. A source that pushes is
        followed until it completes.
        """
        from rxtemporal.query import runs

        return runs.iterate(runs.execute(self, shape))

    def to_events(
        self,
        shape: EventShape = EventShape.INTERVAL,
        *,
        ctis: bool = False,
        time: TimeForm | None = None,
    ) -> list[Event]:
        """Run the query to the end of its source, and return its results as events."""
        from rxtemporal.query import runs

        return runs.collect_events(self, shape, ctis, time)

    def to_async(
        self,
        shape: EventShape = EventShape.INTERVAL,
        *,
        ctis: bool = False,
        time: TimeForm | None = None,
    ) -> AsyncIterator[Event]:
        """Return an async iterator over the results of a new run.

        The query runs in a thread, so the event loop is not blocked. A file, frame or iterable is
        read as fast as results are consumed, at most a few batches ahead; a source that pushes is
        not held back. Leaving the iteration stops the run (at once with ``contextlib.aclosing``).
        """
        from rxtemporal.query import runs

        return runs.iterate_async(self, shape, ctis, time)

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        """Return an async iterator over the rows of a new run, as dicts.

        A row has ``start_time``, ``end_time`` (None: never ends) and its fields. ``async for row in
        query`` runs the query as ``to_async`` does, which returns events.
        """
        from rxtemporal.query import runs

        return runs.iterate_rows_async(self)

    def to_polars(self, *, time: TimeForm | None = None) -> pl.DataFrame:
        """Run the query to the end of its source, and return its results as one frame.

        The columns are ``start_time``, ``end_time`` (null: never ends) and the payload; the rows
        are in order of start. Times are datetimes in UTC if the source's are datetimes, else ticks.
        After some seconds the log names the sources that push, or are iterators, and have not
        ended. A source that never ends, such as a topic of Kafka, is a ``BindingError``.
        """
        from rxtemporal.query import runs

        return runs.collect_frame(self, time)

    def to_arrow(self, *, time: TimeForm | None = None) -> pa.Table:
        """Run the query to the end of its source, and return its results as a pyarrow table.

        Columns, order and errors are those of ``to_polars``.
        """
        return self.to_polars(time=time).to_arrow()

    def to_pandas(self, *, time: TimeForm | None = None) -> pd.DataFrame:
        """Run the query to the end of its source, and return its results as a pandas frame.

        Columns, order and errors are those of ``to_polars``.

        >>> import rxtemporal as rxt
        >>> rxt.from_events([rxt.PointEvent(4, {"x": 1})]).to_pandas().to_dict("list")
        {'start_time': [4], 'end_time': [5], 'x': [1]}
        """
        return self.to_polars(time=time).to_pandas()

    def collect(self, *, time: TimeForm | None = None) -> pl.DataFrame:
        """Return the results as one frame: the same as ``to_polars``, by the name it has in polars.

        ``to_events`` returns a list of events.
        """
        return self.to_polars(time=time)

    def head(self, n: int = 5, *, time: TimeForm | None = None) -> pl.DataFrame:
        """Run the query until its first ``n`` rows are known, and return them as a frame.

        The run stops there, so the source may be endless; a source that pushes is followed until
        there are ``n`` rows. Rows are known when a CTI has passed them: without CTIs (no
        ``advance_time``) not before the end of the source. Otherwise as ``to_polars``.

        >>> import itertools
        >>> import rxtemporal as rxt
        >>> clock = (rxt.PointEvent(n, {"n": n}) for n in itertools.count())
        >>> stream = rxt.from_events(clock, advance_time=rxt.INCREASING_START_TIME)
        >>> stream.where(pl.col("n") % 2 == 1).head(2).rows()
        [(1, 2, 1), (3, 4, 3)]
        """
        from rxtemporal.query.runs import collect_head

        return collect_head(self, n, time)

    def show(self, n: int = 10, *, time: TimeForm | None = None) -> None:
        """Print the first ``n`` rows as a table: names, units or types, rows, ``…`` if more follow.

        As ``head``, the run stops when so many rows, and one more, are known. In a terminal the
        table fits its width: long texts are cut, and the last columns may be left out.

        >>> import rxtemporal as rxt
        >>> rxt.from_events([rxt.PointEvent(n, {"n": n}) for n in range(9)]).show(2)
        start_time  end_time      n
             ticks     ticks  Int64
                 0         1      0
                 1         2      1
        … more rows
        """
        from rxtemporal.query.runs import print_head

        print_head(self, n, time)
