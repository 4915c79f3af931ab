"""Lifetimes altered by the user's functions, checked against the last output CTI."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NoReturn, Protocol

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Columns, Nullable, SeriesColumn
from rxtemporal.core.event_columns import make_events
from rxtemporal.core.events import IntervalEvent, find_late_bound
from rxtemporal.core.payloads import list_dicts
from rxtemporal.core.schema import END, START
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, describe, ticks, to_datetime
from rxtemporal.engine.expressions.evaluator import Evaluator
from rxtemporal.engine.holdings import LATEST
from rxtemporal.engine.kernels.lifetimes import LONGEST, add_length
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import CtiViolationError, EventError, SchemaError
from rxtemporal.operators.expressions import infer_field_type
from rxtemporal.operators.lifetimes.step import describe_row, drop_vanished


def _time_column(name: str, times: Int64s, time: pl.DataType) -> pl.Series:
    return pl.Series(name, times, dtype=pl.Int64).cast(time)


def _compute(frame: pl.DataFrame, expression: pl.Expr) -> pl.Series:
    result = frame.select(expression).to_series()
    # a literal gives one value for all rows
    return result if len(result) == frame.height else result.new_from_index(0, frame.height)


class ExpressionTimes:
    """A polars expression over ``start``, a column of type ``time``: datetimes or ticks."""

    def __init__(self, expression: pl.Expr, time: pl.DataType) -> None:
        self._expression = expression
        self._time = time

    def apply(self, times: Int64s) -> Int64s:
        """Map each time by the expression."""
        frame = pl.DataFrame([_time_column(START, times, self._time)])
        landed = _compute(frame, self._expression)
        if landed.null_count():
            row = int(landed.is_null().arg_max() or 0)
            raise EventError(
                f"{self._expression} gives no time for start {describe(int(times[row]))}"
            )
        if isinstance(landed.dtype, pl.Datetime):
            landed = landed.dt.cast_time_unit("us").to_physical()
        return landed.cast(pl.Int64).clip(MIN_TIME, MAX_TIME).to_numpy(writable=True)


class FunctionTimes:
    """A Python function of a time: in ticks, or as a datetime if the function takes only those.

    The first call finds out, unless the function's annotation says so.
    """

    def __init__(self, function: Callable[[Any], Any], *, takes_datetime: bool) -> None:
        self._function = function
        self._takes_datetime: bool | None = takes_datetime or None

    def apply(self, times: Int64s) -> Int64s:
        """Map each time by a call of the function."""
        values = times.tolist()
        if self._takes_datetime is None and values:
            self._takes_datetime = self._fails_on_ticks(values[0])
        given = map(to_datetime, values) if self._takes_datetime else values
        landed = list(map(self._function, given))
        found = _to_integers(landed, MIN_TIME, MAX_TIME)
        if found is None:
            found = np.array(list(map(self._to_tick, landed, values)), np.int64)
        return found

    def _to_tick(self, landed: Any, time: int) -> int:
        tick = _to_integer(landed)
        if tick is None and isinstance(landed, datetime) and landed.tzinfo is not None:
            tick = ticks(landed)
        if tick is None:
            raise SchemaError(
                f"a function of time returns an int of ticks or an aware datetime, got {landed!r} "
                f"({type(landed).__name__}) for the time {describe(time)}"
            )
        return min(max(tick, MIN_TIME), MAX_TIME)

    def _fails_on_ticks(self, time: int) -> bool:
        """Return True if the function takes a datetime and not an int."""
        try:
            self._function(time)
        except (TypeError, AttributeError):
            try:
                self._function(to_datetime(time))
            except Exception:
                return False  # it fails on both: the user gets the error on ticks
            return True
        except Exception:
            return False
        return False


class ExpressionLength:
    """A polars expression over the payload, and ``start`` and ``end`` of type ``time``."""

    def __init__(self, expression: pl.Expr, time: pl.DataType, payload: pl.Schema) -> None:
        read = expression.meta.root_names()
        # in expressions these are the row's, also if the payload has such fields
        self._names = [name for name in payload if name in read and name not in (START, END)]
        fields = {name: payload[name] for name in self._names}
        self._schema = pl.Schema({**fields, START: time, END: time})
        self.reads_end = END in read
        dtype = infer_field_type(expression, self._schema)
        self._compute = Evaluator(_count_ticks(expression, dtype), self._schema)

    def apply(self, batch: EventBatch) -> Int64s:
        """Return the duration of each row in ticks."""
        # of either type, times are ticks in memory
        fields = [batch.columns[name] for name in self._names]
        rows = Columns(self._schema, [*fields, batch.start, batch.end], len(batch))
        lengths = self._compute(rows)
        if isinstance(lengths, Nullable):
            ticks = np.where(lengths.valid, lengths.values, 0)
            return _check_positive(ticks, batch, ~lengths.valid)
        assert not isinstance(lengths, SeriesColumn)
        return _check_positive(lengths, batch)


def _count_ticks(expression: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return an expression of a duration whose value in memory is in ticks."""
    if not isinstance(dtype, pl.Duration):
        return expression.cast(pl.Int64)
    return expression if dtype.time_unit == "us" else expression.dt.cast_time_unit("us")


class FunctionLength:
    """A Python function of a row, which it gets as an ``IntervalEvent`` with a known end."""

    reads_end = True

    def __init__(self, function: Callable[[IntervalEvent], Any]) -> None:
        self._function = function

    def apply(self, batch: EventBatch) -> Int64s:
        """Return the duration of each row in ticks; costs a call for each row."""
        starts = batch.start.tolist()
        payloads = list_dicts(batch.columns)
        ends = batch.end.tolist()
        events: list[Any] = make_events(IntervalEvent, starts, starts, ends, payloads)
        lengths = list(map(self._function, events))
        found = _to_integers(lengths, -LONGEST, LONGEST)
        if found is None:
            found = np.array(list(map(self._to_tick, lengths, events)), np.int64)
        return _check_positive(found, batch)

    def _to_tick(self, length: Any, event: Any) -> int:
        tick = ticks(length) if isinstance(length, timedelta) else _to_integer(length)
        if tick is None:
            raise SchemaError(
                "a function of a row's duration returns a timedelta or an int of ticks, got "
                f"{length!r} ({type(length).__name__}) for {event}"
            )
        return min(max(tick, -LONGEST), LONGEST)


def _to_integers(values: list[Any], least: int, most: int) -> Int64s | None:
    """Return plain ints as an array, limited to a range; None if some need to be looked at."""
    if not {int}.issuperset(map(type, values)):
        return None
    try:
        found = np.array(values, np.int64)
    except OverflowError:
        return None
    return np.minimum(np.maximum(found, least), most)


def _to_integer(value: Any) -> int | None:
    """Return an int or numpy integer as an int; None for anything else, bools included."""
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        return None
    return int(value.__index__())


def _check_positive(lengths: Int64s, batch: EventBatch, none: Any = None) -> Int64s:
    """Return the lengths; raise unless all are positive, and name the first such row."""
    if len(lengths) and lengths.min() <= 0:
        row = int((lengths <= 0).argmax())
        length = "none" if none is not None and none[row] else f"{lengths[row]} ticks"
        raise EventError(
            f"a duration has to be positive, got {length} for {describe_row(batch, row)}. "
            "Hint: to drop a row use where()."
        )
    return lengths


_HINT = (
    "Hint: a fixed shift (shift_event_time), a fixed duration, and changes of both ends that keep "
    "the order of times are safe."
)


class TimeFunction(Protocol):
    """Function of time: maps starts and CTIs."""

    def apply(self, times: Int64s) -> Int64s:
        """Map each time; no argument and no result is an end of time."""


class LengthFunction(Protocol):
    """Function of rows: the new durations."""

    @property
    def reads_end(self) -> bool:
        """True if it reads a row's end, which has to be known first then."""

    def apply(self, batch: EventBatch) -> Int64s:
        """Return the duration of each row in ticks; all positive."""


class SameLength:
    """Durations that stay the same."""

    reads_end = True

    def apply(self, batch: EventBatch) -> Int64s:
        """Return the durations of the rows."""
        return batch.end - batch.start


class FixedLength:
    """One duration for all rows."""

    reads_end = False

    def __init__(self, length: int) -> None:
        self._length = min(length, MAX_TIME - MIN_TIME)

    def apply(self, batch: EventBatch) -> Int64s:
        """Return the one duration for each row."""
        return np.full(len(batch), self._length)


class AlterStep(Stateful):
    """Alters each start by a function of time, and gives each row a new duration from there.

    The CTI goes through the function of time as well. Where the duration reads the end, an open row
    stays open, a row that never ends stays so, and edge ids stay; where it does not, rows are
    complete at once and end edges are dropped. Holds no rows, only the last output CTI: a row that
    lands before it is a CTI violation.
    """

    rows = 0
    held = MappingProxyType({"_cti": LATEST})

    def __init__(self, times: TimeFunction | None, length: LengthFunction) -> None:
        self._times = times
        self._length = length
        self._cti = MIN_TIME

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows and the CTI, altered."""
        if not self._length.reads_end:
            batch = batch.take_begins()
        start, cti = self._map_times(batch.start), self._map_time(batch.cti)
        end = self._ends(batch, start)
        if self._length.reads_end:
            altered = batch.replace(start=start, end=end, cti=cti)
        else:
            altered = EventBatch.of_rows(start, end, batch.columns, cti, batch.keys)
        self._check(batch, altered)
        self._cti = altered.cti
        if not self._length.reads_end:  # rows that were open or endless have an end now
            return altered.take(altered.start < altered.end)
        return drop_vanished(batch, altered)

    def _map_times(self, times: Int64s) -> Int64s:
        """Map times by the function; the ends of time stay."""
        if self._times is None:
            return times
        inside = (times != MIN_TIME) & (times != MAX_TIME)
        if inside.all():
            return self._times.apply(times)
        landed = times.copy()
        if inside.any():
            landed[inside] = self._times.apply(times[inside])
        return landed

    def _map_time(self, time: int) -> int:
        """Map one time, as the others are mapped."""
        return time if self._times is None else int(self._map_times(np.array([time]))[0])

    def _ends(self, batch: EventBatch, start: Int64s) -> Int64s:
        if not self._length.reads_end:
            return add_length(start, self._length.apply(batch))
        known = batch.end != MAX_TIME
        if len(batch) and known.all():
            return add_length(start, self._length.apply(batch))
        end = batch.end.copy()
        if known.any():
            end[known] = add_length(start[known], self._length.apply(batch.take(known)))
        return end

    def _check(self, batch: EventBatch, altered: EventBatch) -> None:
        """Refuse rows and CTIs that land before the last output CTI."""
        if altered.cti < self._cti:
            raise CtiViolationError(
                f"CTI {describe(batch.cti)} lands at {describe(altered.cti)}, before CTI "
                f"{describe(self._cti)}, which was already given out: time would go back. {_HINT}"
            )
        closes = batch.find_ends()
        early = altered.start < find_late_bound(self._cti)
        if closes is not None:
            early = np.where(closes, altered.end < self._cti, early)
        if early.any():
            row = int(early.argmax())
            self._refuse(batch, altered, row, closes is not None and bool(closes[row]))

    def _refuse(self, batch: EventBatch, altered: EventBatch, row: int, closes: bool) -> NoReturn:
        what, lands = ("end", altered.end) if closes else ("start", altered.start)
        raise CtiViolationError(
            f"the {what} of {describe_row(batch, row)} lands at {describe(int(lands[row]))}, "
            f"before CTI {describe(self._cti)}, which was already given out: final results would "
            f"change. {_HINT}"
        )
