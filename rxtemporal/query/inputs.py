"""Functions that make a ``Streamable`` from frames, events and sources."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from reactivex import Observable

from rxtemporal.core.events import Event, RowEvent
from rxtemporal.core.safe_text import brief, type_name
from rxtemporal.core.schema import payload_schema
from rxtemporal.core.spans import Span
from rxtemporal.core.time_forms import Unit, check_unit
from rxtemporal.errors import (
    ArgumentError,
    EventError,
    RxTemporalWarning,
    SchemaError,
    explain_calls,
)
from rxtemporal.ingress.arrivals import (
    ARRIVAL,
    HINT_ARRIVAL,
    ArrivalTime,
    check_arrival,
    refuse_arrival,
)
from rxtemporal.ingress.built_in_sources import (
    SIZED_ROWS,
    EventSource,
    FrameSource,
    ObservableSource,
)
from rxtemporal.ingress.clock_settings import ClockFields, add_clock, list_fields
from rxtemporal.ingress.settings import (
    INCREASING_START_TIME,
    AdvanceTime,
    AdvanceTimeSettings,
    HandOff,
    Heartbeat,
    Liveliness,
    check_batch_rows,
    check_hand_off,
    read_advance_time,
)
from rxtemporal.ingress.source import Source, StreamSource, UserSource
from rxtemporal.operators.plan import Node
from rxtemporal.query.async_bridge import AsyncEvents
from rxtemporal.query.streamable import Streamable

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from reactivex import Observable

    from rxtemporal.ingress.row_reader import RowReader
    from rxtemporal.query.file_times import Ambiguous, Nonexistent


# modules of operators that drop items by the wall clock, and the name that users know
_PACKAGE = "reactivex.operators."
_DROPS = {
    "_debounce": "debounce",
    "_sample": "sample",
    "_throttlefirst": "throttle_first",
}
# a chain longer than this is not searched to its end
_MOST = 100


def warn_of_lost_ctis(observable: Any, name: str) -> None:
    """Warn if an Rx operator in front of a stream drops items by the wall clock.

    Such an operator also drops CTIs, and a stream without ``advance_time`` has no others.
    """
    found = next((each for each in _list_operators(observable) if each in _DROPS), None)
    if found is not None:
        warnings.warn(
            f"{_DROPS[found]} comes before the stream {name!r} and drops CTIs as it drops "
            "events, so results may never become final. Hint: put it behind the query "
            "(stream.pipe(…)), or give from_observable advance_time=, which makes CTIs out of the "
            "events that come through.",
            RxTemporalWarning,
            stacklevel=3,
        )


def _list_operators(observable: Any) -> Iterator[str]:
    """Yield the modules of the Rx operators that an observable is made with, the last one first."""
    waiting, seen = [observable], 0
    while waiting and seen < _MOST:
        seen += 1
        observable = waiting.pop()
        subscribe = getattr(observable, "_subscribe", None)
        module = str(getattr(subscribe, "__module__", ""))
        if module.startswith(_PACKAGE):
            yield module.removeprefix(_PACKAGE)
        waiting += _list_sources(subscribe)
        shared = getattr(observable, "source", None)
        if isinstance(shared, Observable):
            waiting.append(shared)


def _list_sources(subscribe: Any) -> list[Any]:
    """Return the observables that a subscribe function closes over."""
    sources = []
    for cell in getattr(subscribe, "__closure__", None) or ():
        try:
            value = cell.cell_contents
        except ValueError:  # not yet assigned
            continue
        values = value if isinstance(value, list | tuple) else (value,)
        sources += [each for each in values if isinstance(each, Observable)]
    return sources


BATCH_ROWS = 65_536
# the events of a list that give its fields when the query is composed
_MOST_SEEN = 1_000


def _stream(source: StreamSource, *clocks: Any) -> Streamable:
    """Return a source as a stream; ``clocks`` are the arguments about the times of devices."""
    return Streamable(Node(source.schema, (), source=add_clock(source, *clocks)))


@explain_calls("from_events([rxt.PointEvent(time, {'temp': 20.5})])")
def from_events(
    events: Iterable[Event],
    *,
    schema: Any = None,
    advance_time: AdvanceTime | None = None,
    name: str = "events",
    unit: Unit | None = None,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream from an iterable of events and CTIs, in their order.

    Payloads are dicts, bare scalars (field ``payload``), or objects of a dataclass, a NamedTuple, a
    pydantic model, a msgspec Struct or an attrs class. ``schema`` is a mapping name → type, or such
    a class, or a TypedDict. Without it the fields of a list are those of its first thousand events,
    known when the query is composed, and integers beside floats are floats; of anything else the
    first event determines the fields. Without ``advance_time`` the
    CTIs among the events count, an event that breaks one is a ``CtiViolationError``, and the stream
    ends with a CTI at the end of time.

    A list (or anything of known length) is processed in batches of at least 1,024 rows; an iterator
    at every CTI, since its next event may take long. Each run iterates anew.

    Times are datetimes, or numbers; both in one stream are an ``EventError``. Numbers are ticks, or
    with ``unit`` Unix times: ``"s"``, ``"ms"``, ``"us"`` or ``"ns"`` since 1970-01-01T00:00:00Z,
    which become datetimes (what is finer than a microsecond is floored).

    ``clock``, ``behind``, ``silent_after``, ``forget_after`` and ``spread`` are about the times of
    single devices, as in ``PushSource``; they need ``advance_time``. A row in which a field of the
    clock is null is an ``EventError``. In a list the time of the fleet is the second-highest of its
    devices, so that one wrong clock moves no other device. A device is silent once the fleet has
    moved on by ``silent_after`` since its last row: no wall clock is asked.

    >>> import rxtemporal as rxt
    >>> events = [rxt.PointEvent(1795457564, {"temp": 20.5})]
    >>> rxt.from_events(events, unit="s").to_events()[0].start_time.isoformat()
    '2026-11-23T18:12:44+00:00'
    """
    given: Any = events
    if not isinstance(given, Iterable) or isinstance(given, str) or hasattr(given, "columns"):
        from rxtemporal.core.safe_text import hint_events

        # a frame is not written out
        shown = type_name(events) if hasattr(given, "columns") else brief(events)
        raise ArgumentError(
            f"from_events takes an iterable of events, got {shown}{hint_events(events)}"
        )
    fields = _look_at(events) if schema is None else payload_schema(schema)
    settings = read_advance_time(advance_time)
    source = EventSource(events, fields, settings, name, unit=check_unit(unit))
    return _stream(source, clock, behind, silent_after, forget_after, spread)


def _look_at(events: Iterable[Any]) -> pl.Schema | None:
    """Return the fields of the first events of a list; None if they cannot be known yet."""
    if not isinstance(events, (list, tuple)):
        return None
    # imported here: only a list without a schema needs it
    from rxtemporal.core.payloads import infer_fields

    payloads = [each.payload for each in events[:_MOST_SEEN] if isinstance(each, RowEvent)]
    return infer_fields(payloads) if payloads else None


def from_async(
    events: AsyncIterable[Any],
    *,
    schema: Any = None,
    advance_time: AdvanceTime | None = None,
    name: str = "async events",
    heartbeat: Heartbeat | None = None,
    idle_after: Span | None = None,
    unit: Unit | None = None,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream from an async iterable of events and CTIs, or of event batches.

    Otherwise as ``from_events``. The iterable is read on the event loop that is running when the
    query starts, or on a new one if none is, and no faster than the query reads: at most about
    1,000 items wait. ``heartbeat`` and ``idle_after`` are as in ``from_observable``.

    ``clock``, ``behind``, ``silent_after``, ``forget_after`` and ``spread`` are as in
    ``PushSource``.

    Threads: the query reads in a thread of its own, so inside an event loop get its results with
    ``to_async`` or ``run``. With ``heartbeat``, ``idle_after``, ``silent_after`` or
    ``forget_after`` a further thread follows this source and delivers the results; a slow consumer
    of ``to_async`` does not hold it back.
    """
    if not isinstance(events, AsyncIterable) or isinstance(events, Streamable):
        hint = "call an async generator function to get one"
        if isinstance(events, Streamable):
            hint = "it is a stream already"
        raise ArgumentError(
            f"from_async takes an async iterable of events, got {events!r}. Hint: {hint}."
        )
    given = None if schema is None else payload_schema(schema)
    settings = read_advance_time(advance_time)
    lively = Liveliness.check(heartbeat, idle_after, settings)
    if lively is None and (silent_after is not None or forget_after is not None):
        lively = Liveliness(None, None)  # the silence of a device, too, needs that thread
    source = EventSource(AsyncEvents(events), given, settings, name, lively, check_unit(unit))
    return _stream(source, clock, behind, silent_after, forget_after, spread)


def from_observable(
    observable: Observable[Any],
    *,
    schema: Any = None,
    start: str | ArrivalTime | None = None,
    end: str | None = None,
    advance_time: AdvanceTime | None = None,
    name: str = "observable",
    batch_rows: int = 1,
    hand_off: HandOff | None = None,
    heartbeat: Heartbeat | None = None,
    idle_after: Span | None = None,
    unit: Unit | None = None,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream from an observable (for example a subject) of events, or of event batches.

    Both may be mixed, but edges come either as events or in batches. Otherwise as ``from_events``.
    ``batch_rows`` is the number of waiting rows at which the next CTI sends them on: 1 gives
    results at every CTI, more makes a busy stream faster and its results later.

    With ``start`` the observable may also send rows: dicts or records that have their times in the
    fields ``start`` and, for intervals, ``end``, as ``PushSource.push`` takes them, one by one or
    in lists. Times are aware datetimes, ISO 8601 texts with an offset, or numbers: ticks, or Unix
    times of a ``unit``. ``schema`` has the other fields, and a row that does not fit it is a
    ``SchemaError``, which ends the stream. With ``start=rxt.ARRIVAL`` rows start when they arrive,
    as in ``PushSource``; events are refused, and without ``advance_time`` each row makes a CTI.

    While the source is silent, a ``heartbeat`` advances its CTI by the wall clock. After
    ``idle_after`` of silence (a timedelta or ticks of wall time) the stream is idle: it follows the
    other streams of the process instead of holding them back, until its next event. Both need a
    policy, since that event may be late.

    ``clock``, ``behind``, ``silent_after``, ``forget_after`` and ``spread`` are as in
    ``PushSource``, and need ``schema``.

    Threads: results are delivered on the thread that pushes; only one thread may push at a time;
    results due to a heartbeat or to idleness, on a timer thread. With ``hand_off``, a ``HandOff``,
    these threads only pass the door, and the query runs on a thread of the run, in larger batches
    when it is behind. The hand-off limits how many rows wait, and beyond that either blocks the
    producer or writes rows to disk. A producer that is blocked when the query fails gets a
    ``BindingError``.
    """
    # imported here: only a stream that may come from a subject loads subjects
    from rxtemporal.reactive.subjects.base import CtiSubject

    given_stream: object = observable
    if isinstance(given_stream, Streamable):
        raise ArgumentError(
            f"from_observable takes an observable, and {brief(observable)} is a stream already. "
            "Hint: use the stream itself."
        )
    if not hasattr(observable, "subscribe"):
        raise ArgumentError(
            f"from_observable takes an observable, got {brief(observable)}. Hint: "
            "rxt.from_events takes a list or an iterator, rxt.from_async an async generator."
        )
    check_hand_off(hand_off, batch_rows)
    given = None if schema is None else payload_schema(schema)
    rows = _make_reader(name, given, start, end, check_unit(unit), list_fields(clock))
    settings = _read_arrival_settings(start, clock, advance_time)
    if settings is None:
        warn_of_lost_ctis(observable, name)
    lively = Liveliness.check(heartbeat, idle_after, settings)
    source = ObservableSource(
        observable,
        given if rows is None else rows.schema,
        settings,
        name,
        batch_rows,
        hand_off=hand_off,
        lively=lively,
        judged=isinstance(observable, CtiSubject),
        rows=rows,
        unit=unit,
    )
    return _stream(source, clock, behind, silent_after, forget_after, spread)


def _read_arrival_settings(
    start: str | ArrivalTime | None, clock: ClockFields | None, advance_time: AdvanceTime | None
) -> AdvanceTimeSettings | None:
    """Return the settings of a stream whose rows may start when they arrive."""
    settings = read_advance_time(advance_time)
    if start is not ARRIVAL:
        return settings
    check_arrival(clock=clock, ahead=None if settings is None else settings.ahead)
    return settings or INCREASING_START_TIME


def _make_reader(
    name: str,
    schema: pl.Schema | None,
    start: str | ArrivalTime | None,
    end: str | None,
    unit: Unit | None,
    required: Sequence[str],
) -> RowReader | None:
    """Return the reader of rows that have their times in these fields; None without ``start``."""
    if start is None:
        if end is not None:
            raise ArgumentError(
                f"end={end!r} goes with start=, the field of the start. Hint: name both."
            )
        return None
    if schema is None:
        raise ArgumentError(
            f"rows with start={start!r} are read by the schema. Hint: schema= has the other "
            'fields, for example schema={"temp": float}.'
        )
    # only a stream that takes rows loads what reads them
    from rxtemporal.ingress.row_reader import RowReader

    return RowReader(name, schema, start=start, end=end, unit=unit, required=required)


def from_source(
    source: Source,
    *,
    start: ArrivalTime | None = None,
    advance_time: AdvanceTime | None = None,
    name: str | None = None,
    batch_rows: int | None = None,
    hand_off: HandOff | None = None,
    heartbeat: Heartbeat | None = None,
    idle_after: Span | None = None,
    unit: Unit | None = None,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream from a source of your own: an instance of a subclass of ``Source``.

    Items are as in ``from_events``, or event batches. ``name`` is by default the source's own.
    With ``start=rxt.ARRIVAL`` a source that pushes sends rows, one by one or in lists, which start
    when they arrive, as in ``from_observable``.
    ``batch_rows`` is the number of waiting rows at which the next CTI sends them on: by default 1,
    or 1,024 if the source is bounded. ``hand_off``, ``heartbeat`` and ``idle_after`` are as in
    ``from_observable``, for a source that pushes. ``unit`` is that of the numbers among the times
    of events, as in ``from_events``; a batch has its times in ticks. ``clock``, ``behind``,
    ``silent_after``, ``forget_after`` and ``spread`` are as in ``PushSource`` for a source that
    pushes, otherwise as in ``from_events``; they need a source that has a ``schema``.

    Each run opens the source once. A run with ``resume=`` saves the position of its cursor with its
    state, and the next run opens the source there.

    Threads: the thread of the run reads the source; for a source that pushes see
    ``from_observable``.
    """
    if not isinstance(source, Source):
        raise ArgumentError(
            f"from_source takes an rxt.Source, got {source!r}. Hint: from_events(…) takes any "
            "iterable of events."
        )
    usual = SIZED_ROWS if source.bounded else 1
    least = usual if batch_rows is None else batch_rows
    check_hand_off(hand_off, least)
    settings = _read_arrival_settings(start, clock, advance_time)
    lively = Liveliness.check(heartbeat, idle_after, settings)
    if not source.pushes and (hand_off is not None or lively is not None):
        raise ArgumentError(
            f"hand_off=, heartbeat= and idle_after= are for a source with pushes = True, and "
            f"{source.name!r} does not push. Hint: leave them out."
        )
    given = None if source.schema is None else payload_schema(source.schema)
    if not source.pushes:
        hint = "a source with pushes = True pushes its rows."
        refuse_arrival(start, f"source {source.name!r}", hint)
    stream = UserSource(
        source,
        given,
        settings,
        name or source.name,
        least,
        hand_off,
        lively,
        check_unit(unit),
        _make_reader(name or source.name, given, start, None, unit, ()),
    )
    return _stream(stream, clock, behind, silent_after, forget_after, spread)


@explain_calls("from_polars(frame, start='time') names the column of the times")
def from_polars(
    frame: pl.DataFrame,
    *,
    start: str,
    end: str | None = None,
    advance_time: AdvanceTime | None = None,
    batch_rows: int = BATCH_ROWS,
    name: str = "frame",
    time_zone: str | None = None,
    ambiguous: Ambiguous | None = None,
    nonexistent: Nonexistent | None = None,
    unit: Unit | None = None,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream from the rows of a frame, in their order.

    ``start`` and ``end`` name columns of datetimes, or of numbers: ticks, or Unix times of a
    ``unit`` (``"s"``, ``"ms"``, ``"us"`` or ``"ns"``). The other columns are the payload.
    Without ``end`` rows are points; a row with a null ``end`` never ends; a null start is an error.
    Datetimes without a zone, and dates, need ``time_zone``; ``ambiguous`` and ``nonexistent`` are
    as in ``read_csv``. Without ``advance_time`` results become final only at the end of the frame.
    ``clock``, ``behind``, ``silent_after``, ``forget_after`` and ``spread`` are as in
    ``from_events``: with them a frame may be sorted by device instead of time.
    """
    refuse_arrival(start, "from_polars", HINT_ARRIVAL)
    if not isinstance(frame, pl.DataFrame):
        raise ArgumentError(
            f"from_polars takes a polars DataFrame, got {type(frame).__name__}{_name_other(frame)}"
        )
    check_batch_rows(batch_rows)
    if time_zone or ambiguous or nonexistent:
        # imported here: only such a frame needs it
        from rxtemporal.query.file_times import TimeOptions

        options = TimeOptions(None, time_zone, ambiguous, nonexistent)
        frame = options.localise_frame(frame, {start, end or start}, name)
    if check_unit(unit) is not None:
        from rxtemporal.ingress.row_columns import read_unit

        frame = read_unit(frame, {start, end or start} & set(frame.columns), unit)

    def frames() -> Iterator[pl.DataFrame]:
        return iter(frame.iter_slices(get_frame_rows(batch_rows)))

    settings = read_advance_time(advance_time)
    source = FrameSource(frames, frame.schema, start, end, settings, name, batch_rows)
    return _stream(source, clock, behind, silent_after, forget_after, spread)


def _name_other(frame: Any) -> str:
    """Return a hint with the function that takes this kind of frame, or nothing."""
    if isinstance(frame, pl.LazyFrame):
        return ". Hint: frame.collect() makes a DataFrame of it."
    home = type(frame).__module__.partition(".")[0]
    function = {
        "pandas": "rxt.from_pandas",
        "pyarrow": "rxt.from_arrow",
        "pyspark": "rxtemporal.spark.from_dataframe",
    }.get(home)
    if isinstance(frame, (dict, list)):
        return ". Hint: pl.DataFrame(…) makes a frame of it."
    return f". Hint: {function} takes it." if function else ""


def from_pandas(
    frame: pd.DataFrame, *, start: str | None = None, end: str | None = None, **options: Any
) -> Streamable:
    """Make a stream from the rows of a pandas frame; otherwise as ``from_polars``.

    Without ``start`` the index has the times. With ``start`` the index is left out.
    """
    if not hasattr(frame, "index") or not hasattr(frame, "columns"):
        raise ArgumentError(f"from_pandas takes a pandas DataFrame, got {type(frame).__name__}")
    if start is None:
        start = "index" if frame.index.name is None else str(frame.index.name)
        if start in frame.columns:
            raise SchemaError(
                f"from_pandas: the index and a column are both called {start!r}. "
                "Hint: rename one, or pass start=."
            )
        frame = frame.rename_axis(start).reset_index()
    for column in (start, end) if options.get("time_zone") is None else ():
        if getattr(frame.dtypes.get(column), "kind", "") == "M" and not hasattr(
            frame.dtypes.get(column), "tz"
        ):
            raise EventError(
                f"column {column!r} has datetimes without a zone, which name no instant. "
                "Hint: time_zone='UTC', or the zone that they mean."
            )
    return from_polars(pl.from_pandas(frame), start=start, end=end, **options)


@explain_calls("from_arrow(table, start='time') names the column of the times")
def from_arrow(
    table: pa.Table, *, start: str, end: str | None = None, **options: Any
) -> Streamable:
    """Make a stream from the rows of an Arrow table; otherwise as ``from_polars``."""
    frame = pl.from_arrow(table)
    if not isinstance(frame, pl.DataFrame):
        raise ArgumentError(f"from_arrow takes an Arrow table, got {type(table).__name__}")
    return from_polars(frame, start=start, end=end, **options)


def get_frame_rows(batch_rows: int) -> int:
    """Return how many rows are converted at once: whole batches, many if they are small."""
    return batch_rows * max(1, BATCH_ROWS // batch_rows)
