"""DataFrames as the streams of a query: columns of times, and settings for late events."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.schema import payload_schema
from rxtemporal.core.spans import Span
from rxtemporal.core.time_forms import ONE, TimeForm, Unit, check_unit
from rxtemporal.errors import AdvanceTimeError, ArgumentError, SchemaError
from rxtemporal.ingress.arrivals import refuse_arrival
from rxtemporal.ingress.clock_settings import ClockFields, ClockSettings, read_clock
from rxtemporal.ingress.settings import AdvanceTime, AdvanceTimeSettings, read_advance_time
from rxtemporal.ingress.source import unite_delay
from rxtemporal.spark.schema import arrow_schema, quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rxtemporal.operators.synchronize.plan import Synchronize


@dataclasses.dataclass(frozen=True)
class DataFrameInput:
    """A DataFrame, with the columns and settings for reading it as a stream."""

    frame: DataFrame
    start: str
    end: str | None
    advance_time: AdvanceTimeSettings | None
    order_by: tuple[str, ...]
    cti: str | None = None
    late: str | None = None
    clock: ClockSettings | None = None
    # makes one time of those of the devices, behind the door
    synchronized: Synchronize | None = None

    @property
    def fields(self) -> list[str]:
        """The columns of the payload."""
        times = {self.start, self.end, self.cti, *self.order_by}
        return [name for name in self.frame.columns if name not in times]

    @property
    def in_order(self) -> list[str]:
        """The columns that sort the rows, always in the same order.

        All other columns break ties between rows that are equal in ``order_by`` and times.
        """
        times = [self.start] if self.end is None else [self.start, self.end]
        return list(dict.fromkeys([*self.order_by, *times, *self.fields]))

    @property
    def ends(self) -> bool:
        """True if the end of a bounded DataFrame is the end of its time."""
        generation = None if self.advance_time is None else self.advance_time.generation
        goes_on = generation is not None and not generation.advance_to_infinity_on_shutdown
        return self.cti is None and not goes_on

    @property
    def schema(self) -> pl.Schema:
        """The payload's fields and their types."""
        return payload_fields(self.frame, self.fields)

    @property
    def time(self) -> TimeForm:
        """The form of its times, which is that of its columns."""
        return _find_form(self.frame, self.start)


def stream(
    frame: DataFrame,
    *,
    start: str = START,
    end: str | None = None,
    advance_time: AdvanceTime | None = None,
    order_by: str | Sequence[str] = (),
    cti: str | None = None,
    late: str | None = None,
    unit: Unit | None = None,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> DataFrameInput:
    """Describe how ``run`` reads a DataFrame as a stream.

    ``start`` and ``end`` name columns of timestamps, or of integers: ticks, or Unix times of a
    ``unit`` (``"s"``, ``"ms"``, ``"us"`` or ``"ns"``), which become timestamps. All of them, and
    the column ``cti``, have one form. The others are the payload. Without ``end`` rows are points,
    unless there is a column ``end_time``. A row with a null end never ends.

    A bounded DataFrame without ``advance_time`` is final as a whole. With it, one task finds late
    events in the order of the columns ``order_by`` (which are not part of the payload) before rows
    go to buckets: whether an event is late depends on the order of all events.

    A streaming DataFrame has its CTIs in the column ``cti``: a row in which it is not null is a CTI
    and no event. Or ``advance_time`` generates them, from micro-batches as they come and from
    the rows of one in the order of ``order_by``. A bounded DataFrame with a column ``cti`` is final
    up to the highest of its CTIs: more rows may follow later.

    ``late`` names metrics in a streaming query's progress (``observedMetrics``): the number of
    ``events``, of ``dropped`` and of ``adjusted`` ones, and the ``largest_lateness`` in ticks (the
    delay that would have lost nothing), all since the start of the checkpoint; null in a
    micro-batch without rows of this DataFrame. The name must be unique in the query.

    ``clock`` names the field, or the fields, that name a device: each then has its own time, and
    ``behind``, ``silent_after``, ``forget_after`` and ``spread`` are as in ``from_events``. It
    needs ``advance_time`` and ``order_by``. All rows of a device go to one bucket.
    """
    _check(frame, start)
    if end is None and END in frame.columns and start == START:
        end = END
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    frame, time = _read_columns(frame, [*filter(None, (start, end, cti))], order, unit)
    if advance_time is not None and cti is not None:
        raise AdvanceTimeError(
            "cti= and advance_time= both advance time. Hint: leave one of them out."
        )
    settings = _read_settings(advance_time, order)
    if settings is not None:
        unite_delay(f"column {start!r}", time, settings.time)
    if late is not None:
        _check_late(late, frame, settings)
    given = DataFrameInput(frame, start, end, settings, order, cti, late)
    if clock is not None and cti is not None:
        raise AdvanceTimeError(
            "the CTIs in the column cti= hold for all rows, and with clock= each device has its "
            "own time. Hint: advance_time= and order_by= make CTIs for each device."
        )
    clocks = read_clock(
        clock,
        settings,
        given.schema,
        behind=behind,
        silent_after=silent_after,
        forget_after=forget_after,
        spread=spread,
    )
    return dataclasses.replace(given, clock=clocks)


def _read_columns(
    frame: DataFrame, times: Sequence[str], order: Sequence[str], unit: Unit | None
) -> tuple[DataFrame, TimeForm]:
    """Return the frame with timestamps for the Unix times of a unit, and the form of its times."""
    for name in (*times, *order):
        if name not in frame.columns:
            raise SchemaError(f"there is no column {name!r}; there are {frame.columns}")
    if check_unit(unit) not in (None, "ticks"):
        for name in times:
            frame = _read_unit(frame, name, unit)
    for name in times:
        _check_time(frame, name)
    return frame, _check_one_form(frame, times)


def _read_settings(
    advance_time: AdvanceTime | None, order: tuple[str, ...]
) -> AdvanceTimeSettings | None:
    """Return the settings that make CTIs, once it is checked that there is an order for them."""
    settings = read_advance_time(advance_time)
    if settings is not None:
        _check_order(settings, order)
    elif order:
        raise AdvanceTimeError(
            "order_by= is the order of events for advance_time=, which is missing"
        )
    return settings


def as_input(name: str, given: Any) -> DataFrameInput:
    """Return a query's argument as an input."""
    if isinstance(given, DataFrameInput):
        return given
    if not hasattr(given, "isStreaming"):
        raise ArgumentError(
            f"run takes Spark DataFrames, got {given!r} for {name!r}. "
            "Hint: spark.stream(df, start=…, end=…) names the columns of one."
        )
    return stream(given)


def payload_fields(frame: DataFrame, fields: Sequence[str]) -> pl.Schema:
    """Return the polars types of some columns; raise for types that a payload cannot have."""
    if len(set(fields)) < len(fields):
        raise SchemaError(f"a DataFrame has a column twice: {fields}")
    empty = pl.from_arrow(arrow_schema(frame.select(*map(quote_name, fields)).schema).empty_table())
    assert isinstance(empty, pl.DataFrame)
    zoned = {
        name: pl.Datetime("us", "UTC") if isinstance(dtype, pl.Datetime) and dtype.time_zone
        else dtype
        for name, dtype in empty.schema.items()
    }  # fmt: skip
    return payload_schema(zoned)


def _check(frame: Any, start: str) -> None:
    if not hasattr(frame, "isStreaming"):
        raise ArgumentError(f"stream takes a Spark DataFrame, got {frame!r}")
    hint = "current_timestamp() in a column, where the rows are written, is a time of arrival."
    refuse_arrival(start, "Spark", hint)
    if start not in frame.columns:
        raise SchemaError(
            f"there is no column {start!r}; there are {frame.columns}. "
            "Hint: stream(df, start=…) names the column in which an event starts."
        )


def _check_time(frame: DataFrame, name: str) -> None:
    kind = frame.schema[name].dataType.typeName()
    if kind == "timestamp_ntz":
        raise SchemaError(
            f"column {name!r} is TIMESTAMP_NTZ, which is not an instant. "
            f"Hint: cast it to TIMESTAMP in its time zone."
        )
    if kind not in ("timestamp", "long", "integer", "short", "byte"):
        raise SchemaError(
            f"column {name!r} of type {kind} is not a time; a time is a TIMESTAMP or an integer of "
            "ticks (microseconds since 1970-01-01T00:00:00Z)"
        )


def _find_form(frame: DataFrame, name: str) -> TimeForm:
    """Return the form of a column of times: integers without a unit are ticks."""
    return "datetime" if frame.schema[name].dataType.typeName() == "timestamp" else "ticks"


def _check_one_form(frame: DataFrame, names: Sequence[str]) -> TimeForm:
    """Return the form of the columns of times, which have one; raise if they do not."""
    forms = {name: _find_form(frame, name) for name in names}
    first, *others = names
    for name in others:
        if forms[name] != forms[first]:
            raise SchemaError(
                f"the times of a stream have one form, and {first!r} has {ONE[forms[first]]} where "
                f"{name!r} has {ONE[forms[name]]}. Hint: unit='s', 'ms', 'us' or 'ns' says what "
                "the numbers count; without one they are ticks."
            )
    return forms[first]


def _read_unit(frame: DataFrame, name: str, unit: Unit | None) -> DataFrame:
    """Return a frame in which a column of numbers of a unit has timestamps."""
    import pyspark.sql.functions as sf

    kind, column = frame.schema[name].dataType.typeName(), sf.col(quote_name(name))
    if kind in ("float", "double", "decimal"):
        per = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}[str(unit)]
        ticks = sf.round(column.cast("double") * per).cast("long")
    elif kind not in ("long", "integer", "short", "byte"):
        return frame
    elif unit == "ns":
        # the division of integers is towards zero, and times are floored
        whole = f"cast({quote_name(name)} as bigint)"
        ticks = sf.expr(f"({whole} - pmod({whole}, 1000L)) div 1000L")
    else:
        ticks = column.cast("long") * {"s": 1_000_000, "ms": 1_000, "us": 1}[str(unit)]
    return frame.withColumn(name, sf.timestamp_micros(ticks))


def _check_late(late: Any, frame: DataFrame, settings: AdvanceTimeSettings | None) -> None:
    if not isinstance(late, str) or not late:
        raise ArgumentError(f"late is the name of metrics of a query, a str, got {late!r}")
    if settings is None:
        raise AdvanceTimeError(
            "late= counts events that advance_time= finds late, which is missing: a row that "
            "breaks a CTI of its own DataFrame ends the query"
        )
    if not frame.isStreaming:
        raise AdvanceTimeError(
            "late= adds counts of late events to a streaming query's progress, and this DataFrame "
            "is bounded. Hint: from_dataframe(…).late_events() gives late events in this process."
        )


def _check_order(settings: AdvanceTimeSettings, order: tuple[str, ...]) -> None:
    if settings.imports is not None:
        raise AdvanceTimeError(
            "CTIs cannot be imported from another stream in Spark: each input has its own door. "
            "Hint: import them on the Rx side, or give the streams generation settings."
        )
    if settings.ahead is not None:
        raise AdvanceTimeError(
            "ahead= compares rows with the wall clock when they come in, which Spark does not "
            "know. Hint: leave ahead= out, or read the DataFrame with from_dataframe."
        )
    if not order:
        raise AdvanceTimeError(
            "advance_time= needs the order in which events arrived, and rows of a DataFrame have "
            "none. Hint: order_by='received', the column with their order."
        )
