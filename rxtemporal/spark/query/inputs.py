"""DataFrames as the streams of a query: which columns are times, and what judges what is late."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.schema import payload_schema
from rxtemporal.errors import AdvanceTimeError, ArgumentError, SchemaError
from rxtemporal.ingress.settings import AdvanceTimeSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclasses.dataclass(frozen=True)
class Input:
    """A DataFrame and how it is read as a stream."""

    frame: DataFrame
    start: str
    end: str | None
    advance_time: AdvanceTimeSettings | None
    order_by: tuple[str, ...]
    cti: str | None = None
    late: str | None = None

    @property
    def fields(self) -> list[str]:
        """The columns that are the payload."""
        times = {self.start, self.end, self.cti, *self.order_by}
        return [name for name in self.frame.columns if name not in times]

    @property
    def in_order(self) -> list[str]:
        """The columns that put the rows in one order, the same each time that they are read.

        Where those that tell the order are even the others decide, though they mean nothing.
        """
        times = [self.start] if self.end is None else [self.start, self.end]
        return list(dict.fromkeys([*self.order_by, *times, *self.fields]))

    @property
    def ends(self) -> bool:
        """Whether the end of its rows, where it has one, is the end of its time."""
        generation = None if self.advance_time is None else self.advance_time.generation
        goes_on = generation is not None and not generation.advance_to_infinity_on_shutdown
        return self.cti is None and not goes_on

    @property
    def schema(self) -> pl.Schema:
        """The payload's fields and their types."""
        return spark_payload(self.frame, self.fields)

    @property
    def ticks(self) -> bool:
        """Whether times are integers of ticks, and no timestamps."""
        return bool(self.frame.schema[self.start].dataType.typeName() != "timestamp")


def stream(
    frame: DataFrame,
    *,
    start: str = START,
    end: str | None = None,
    advance_time: AdvanceTimeSettings | None = None,
    order_by: str | Sequence[str] = (),
    cti: str | None = None,
    late: str | None = None,
) -> Input:
    """Say how a DataFrame is read as a stream of ``run``.

    ``start`` and ``end`` name columns of timestamps, or of integers of ticks; the others are the
    payload. Without ``end`` rows are points, unless there is a column ``end_time``; where it is
    null a row never ends.

    A bounded DataFrame without ``advance_time`` is final as a whole. With it events are judged in
    the order of the columns ``order_by`` (which are no part of the payload), by one task, before
    they are spread over buckets: which event is late depends on the order of all of them.

    A streaming DataFrame brings its CTIs in the column ``cti``: a row in which it is not null is no
    event, and promises what a CTI promises. Or ``advance_time`` makes them: micro-batches are
    judged as they come, and the rows of one in the order of ``order_by``. A bounded DataFrame with
    a column ``cti`` is final as far as the highest of its CTIs: it may be a part of what is to
    come.

    ``late`` names metrics that Spark shows with a streaming query's progress, as
    ``observedMetrics``: how many ``events`` came to ``advance_time``, how many of them it
    ``dropped`` and ``adjusted``, and the ``largest_lateness`` in ticks, all since the checkpoint
    was begun; null in a micro-batch without rows of this DataFrame. The name is one of its own in
    each query.
    """
    _check(frame, start)
    if end is None and END in frame.columns and start == START:
        end = END
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    for name in (start, end, cti, *order):
        if name is not None and name not in frame.columns:
            raise SchemaError(f"there is no column {name!r}; there are {frame.columns}")
    for name in filter(None, (start, end, cti)):
        _check_time(frame, name)
    if advance_time is not None and cti is not None:
        raise AdvanceTimeError(
            "cti= and advance_time= both say how time advances. Hint: leave one of them out."
        )
    if advance_time is not None:
        _check_order(advance_time, order)
    elif order:
        raise AdvanceTimeError(
            "order_by= is the order in which advance_time= judges events, and there is none"
        )
    if late is not None:
        _check_late(late, frame, advance_time)
    return Input(frame, start, end, advance_time, order, cti, late)


def as_input(name: str, given: Any) -> Input:
    """Return what a query is given under a name as an input."""
    if isinstance(given, Input):
        return given
    if not hasattr(given, "isStreaming"):
        raise ArgumentError(
            f"run takes Spark DataFrames, got {given!r} for {name!r}. "
            "Hint: spark.stream(df, start=…, end=…) names the columns of one."
        )
    return stream(given)


def spark_payload(frame: DataFrame, fields: Sequence[str]) -> pl.Schema:
    """Return the polars types of some columns; refuse what no payload can carry, by name."""
    from pyspark.sql.pandas.types import to_arrow_schema

    if len(set(fields)) < len(fields):
        raise SchemaError(f"a DataFrame has a column twice: {fields}")
    empty = pl.from_arrow(to_arrow_schema(frame.select(*map(quoted, fields)).schema).empty_table())
    assert isinstance(empty, pl.DataFrame)
    zoned = {
        name: pl.Datetime("us", "UTC") if isinstance(dtype, pl.Datetime) and dtype.time_zone
        else dtype
        for name, dtype in empty.schema.items()
    }  # fmt: skip
    return payload_schema(zoned)


def quoted(name: str) -> str:
    """Return a column's name as Spark's expressions take it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def _check(frame: Any, start: str) -> None:
    if not hasattr(frame, "isStreaming"):
        raise ArgumentError(f"stream takes a Spark DataFrame, got {frame!r}")
    if start not in frame.columns:
        raise SchemaError(
            f"there is no column {start!r}; there are {frame.columns}. "
            "Hint: stream(df, start=…) names the column in which an event starts."
        )


def _check_time(frame: DataFrame, name: str) -> None:
    kind = frame.schema[name].dataType.typeName()
    if kind == "timestamp_ntz":
        raise SchemaError(
            f"column {name!r} is TIMESTAMP_NTZ, which names no instant. "
            f"Hint: cast it to TIMESTAMP in the time zone that it means."
        )
    if kind not in ("timestamp", "long", "integer", "short", "byte"):
        raise SchemaError(
            f"column {name!r} of type {kind} is no time; a time is a TIMESTAMP or an integer of "
            "ticks (microseconds since 1970-01-01T00:00:00Z)"
        )


def _check_late(late: Any, frame: DataFrame, settings: AdvanceTimeSettings | None) -> None:
    if not isinstance(late, str) or not late:
        raise ArgumentError(f"late is the name of metrics of a query, a str, got {late!r}")
    if settings is None:
        raise AdvanceTimeError(
            "late= names what advance_time= finds late, and there is none: a row that breaks a CTI "
            "of its own DataFrame ends the query"
        )
    if not frame.isStreaming:
        raise AdvanceTimeError(
            "late= shows with a streaming query's progress what was late, and this DataFrame is "
            "bounded. Hint: from_dataframe(…).late_events() gives what is late, in this process."
        )


def _check_order(settings: AdvanceTimeSettings, order: tuple[str, ...]) -> None:
    if not isinstance(settings, AdvanceTimeSettings):
        raise ArgumentError(f"advance_time is an AdvanceTimeSettings, got {settings!r}")
    if settings.imports is not None:
        raise AdvanceTimeError(
            "CTIs cannot be imported from another stream in Spark: each input is judged by itself. "
            "Hint: import them on the Rx side, or give the streams generation settings."
        )
    if not order:
        raise AdvanceTimeError(
            "advance_time= judges events in the order in which they came, and rows of a DataFrame "
            "have none. Hint: order_by='received', the column that tells their order."
        )
