"""alter_event_lifetime and its two halves: lifetimes altered by user functions."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.events import IntervalEvent
from rxtemporal.core.schema import END, START
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.core.time_forms import find_span_form
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.causes.carried_rows import to_batch
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.expressions import check_row_by_row, infer_schema
from rxtemporal.operators.operator import Keys, RowOperator

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.alter.step import LengthFunction, TimeFunction

TimesGiven: TypeAlias = Callable[[Any], Any] | pl.Expr
LengthGiven: TypeAlias = Span | Callable[[IntervalEvent], Any] | pl.Expr

# the types of times in an expression: datetimes if it accepts them, else ticks
_FORMS: tuple[pl.DataType, ...] = (pl.Datetime("us", "UTC"), pl.Int64())


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class AlterEventLifetime(RowOperator):
    """Starts altered by a function of time, and durations by a function of the row, or kept."""

    checks_ctis = True
    name: str = "alter_event_lifetime"
    start: TimesGiven | None = None
    duration: LengthGiven | None = None

    def __post_init__(self) -> None:
        if self.start is None and self.duration is None:
            raise ArgumentError(f"{self.name} takes start=, duration= or both")
        _check_times(self.start, self.name)
        if isinstance(self.duration, pl.Expr):
            _one_by_name(self.duration, self.name)
        elif self.duration is not None and not callable(self.duration):
            span(self.duration, "duration", least=1)

    @property
    def passes_time(self) -> bool:
        """True if starts are unchanged: then CTIs pass unchanged too."""
        return self.start is None

    @property
    def cti_rule(self) -> str:
        """The CTI moved as a start at its time would be."""
        return "t" if self.start is None else "f(t)"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema; raise if the duration is not valid for it."""
        if isinstance(self.duration, pl.Expr):
            _length_form(self.duration, schema, self.name)
        return schema

    def find_complete(self, begin: int) -> int:
        """Return when the last missing rows would end; of another duration than a span, ``begin``.

        Nothing is known of an expression or a function.
        """
        if self.start is None and isinstance(self.duration, (int, timedelta, str)):
            return min(begin + span(self.duration, "duration", least=1), MAX_TIME)
        return begin

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.alter.step import AlterStep

        return AlterStep(_make_times(self.start, self.name), self._length(schema))

    def _length(self, schema: pl.Schema) -> LengthFunction:
        from rxtemporal.operators.alter.step import (
            ExpressionLength,
            FixedLength,
            FunctionLength,
            SameLength,
        )

        if self.duration is None:
            return SameLength()
        if isinstance(self.duration, pl.Expr):
            form = _length_form(self.duration, schema, self.name)
            return ExpressionLength(self.duration, form, schema)
        if callable(self.duration):
            return FunctionLength(self.duration)
        return FixedLength(span(self.duration, "duration", least=1))

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_altered_rows(self, inputs, output, rows)


def _check_times(given: Any, name: str) -> None:
    """Raise an error if this is not a function of time or None."""
    if isinstance(given, pl.Expr):
        _times_form(given, name)
    elif given is not None and not callable(given):
        hint = ""
        if isinstance(given, (int, timedelta, str)):
            hint = " Hint: use shift_event_time to move lifetimes by a fixed span."
        raise ArgumentError(
            f"{name} takes a function of time, or a polars expression over {START!r}, got "
            f"{given!r}.{hint}"
        )


def _make_times(given: TimesGiven | None, name: str) -> TimeFunction | None:
    """Return the function of time as a function of arrays, or None."""
    from rxtemporal.operators.alter.step import ExpressionTimes, FunctionTimes

    if given is None:
        return None
    if isinstance(given, pl.Expr):
        return ExpressionTimes(given, _times_form(given, name))
    return FunctionTimes(given, takes_datetime=_takes_datetime(given))


def _one_by_name(expression: pl.Expr, name: str) -> None:
    """Raise an error if an expression reads other rows, or fields that it does not name."""
    check_row_by_row(expression, name)
    if '"Selector":' in expression.meta.serialize(format="json"):
        raise ArgumentError(f"{name} takes an expression that names its fields, got {expression}")


def _times_form(expression: pl.Expr, name: str) -> pl.DataType:
    """Return the type of times of an expression for the start; raise if it is not of times."""
    _one_by_name(expression, name)
    if others := set(expression.meta.root_names()) - {START}:
        raise ArgumentError(
            f"{name}: the new start may depend on {START!r} alone, since CTIs, which have no "
            f"payload and no end, are moved in the same way; {expression} reads {min(others)!r}"
        )
    form, dtype = _form(expression, pl.Schema(), (START,), name)
    aware = isinstance(dtype, pl.Datetime) and dtype.time_zone is not None
    if not (aware or dtype.is_integer()):
        raise SchemaError(
            f"{name}: {expression} gives {dtype}; a new start is an aware Datetime or an integer "
            "of ticks. Hint: cast it to Int64."
        )
    return form


def _length_form(expression: pl.Expr, schema: pl.Schema, name: str) -> pl.DataType:
    """Return the type of times in an expression for the duration; raise if it gives no duration."""
    form, dtype = _form(expression, schema, (START, END), name)
    if not (isinstance(dtype, pl.Duration) or dtype.is_integer()):
        raise SchemaError(
            f"{name}: {expression} gives {dtype}; a duration is a Duration or an integer of "
            "ticks. Hint: cast it to Int64."
        )
    return form


def _form(
    expression: pl.Expr, schema: pl.Schema, times: tuple[str, ...], name: str
) -> tuple[pl.DataType, pl.DataType]:
    """Return the type of times that an expression accepts, and the type of its result."""
    for form in _FORMS:
        fields = pl.Schema({**schema, **dict.fromkeys(times, form)})
        try:
            types = infer_schema(fields, [expression], name)
        except SchemaError:
            if form is _FORMS[-1]:
                raise
            continue
        return form, next(iter(types.values()))
    raise AssertionError  # pragma: no cover


def _takes_datetime(function: Callable[..., Any]) -> bool:
    """Return True if a function's first parameter is annotated as a datetime."""
    for resolved in (True, False):  # an annotation may name something unknown at run time
        try:
            parameters = inspect.signature(function, eval_str=resolved).parameters
        except (TypeError, ValueError, NameError):
            continue
        first = next(iter(parameters.values()), None)
        return first is not None and first.annotation in (
            datetime, "datetime", "datetime.datetime",
        )  # fmt: skip
    return False


def alter_event_lifetime(
    start: TimesGiven | None = None, duration: LengthGiven | None = None
) -> AlterEventLifetime:
    """Give each row the lifetime ``[f(start), f(start) + g(row))``.

    ``start`` is f, a function of time alone, since it is applied to CTIs too: the output CTI is
    ``f(t)``. It is a Python function that takes and returns ticks (or aware datetimes, if its
    parameter is annotated ``datetime`` or it does not accept an int), or a polars expression over
    ``start``, which is a Datetime in UTC or, if the expression does not accept one, ticks. Without
    ``start``, starts and CTIs are unchanged.

    ``duration`` is g: a timedelta or ticks; a polars expression over the payload, ``start`` and
    ``end`` (which hide fields of these names), of type Duration or integer; or a Python function of
    the row as an ``IntervalEvent``, which returns a timedelta or ticks. g takes the original row.
    Without ``duration`` the duration is unchanged. Python functions cost one call for each row.

    If g does not read ``end``, rows are complete at once and end edges are ignored. Otherwise, and
    always for a Python function, an open row stays open until its end edge comes, and a row that
    never ends still never ends. f does not move MIN_TIME and MAX_TIME, and its other results are
    clipped to them; a row that becomes empty vanishes. No row is held.

    Errors: a CTI, a start, or the end of an open row that would lie before the last output CTI is a
    ``CtiViolationError``: f and g must keep the order of times. A duration that is not positive is
    an ``EventError``; a result of the wrong type is a ``SchemaError``.
    Source: *Dangers of time travel*, ``AlterEventLifetime``.
    """
    return AlterEventLifetime(start=start, duration=duration, time=find_span_form(duration))


def alter_event_start_time(start: TimesGiven) -> AlterEventLifetime:
    """Move each start to ``f(start)`` and keep the duration.

    Otherwise as ``alter_event_lifetime``; the output CTI is ``f(t)``. An end moves as far as its
    start, not as far as f would move it: unless f is a fixed shift, the end of an open row may lie
    before the CTI, which is a ``CtiViolationError``. A shift to later times does the same with one
    kind of row: an open row that starts at MIN_TIME keeps its start, and so its end.
    ``shift_event_time`` moves that end, too.
    Source: *Dangers of time travel*, ``AlterEventStartTime``.
    """
    return AlterEventLifetime(name="alter_event_start_time", start=start)


def alter_event_duration(duration: LengthGiven) -> AlterEventLifetime:
    """Give each row the duration ``g(row)``.

    Otherwise as ``alter_event_lifetime``; the CTI passes unchanged. With a duration that does not
    read ``end``, rows are complete at once. With one that reads ``end`` and shortens rows, the end
    of an open row may lie before the CTI, which is a ``CtiViolationError``. To shorten rows by a
    fixed span use ``extend_lifetime``, to limit them to one use ``clip_event_duration``.
    Source: *Dangers of time travel*, ``AlterEventDuration``.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, "a"), rxt.IntervalEvent(8, 9, "b")])
    >>> stays.alter_event_duration(2).to_polars().rows()
    [(3, 5, 'a'), (8, 10, 'b')]
    """
    return AlterEventLifetime(
        name="alter_event_duration", duration=duration, time=find_span_form(duration)
    )


def never_ends() -> AlterEventLifetime:
    """Let each row live from its start on, for ever.

    Rows are complete at once, end edges are ignored, and the CTI passes unchanged; nothing is held.
    With ``snapshot_window`` behind it a result is over all rows so far.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(3, 14, "a"), rxt.IntervalEvent(8, 9, "b")])
    >>> stays.never_ends().to_polars().rows()
    [(3, None, 'a'), (8, None, 'b')]
    """
    return AlterEventLifetime(name="never_ends", duration=MAX_TIME - MIN_TIME)


def find_altered_rows(
    operator: AlterEventLifetime, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the one it was made of: rows leave in order, but for those that vanish.

    A row vanishes only at the ends of time. If some have, the functions are called once more for
    each row.
    """
    (given,) = inputs
    if len(given) == len(output):
        return Causes.of_pairs(rows, rows)
    kept = np.array([n for n in range(len(given)) if _stays(operator, given, n)], np.int64)
    rows = rows[rows < len(kept)]
    return Causes.of_pairs(rows, kept[rows])


def _stays(operator: AlterEventLifetime, given: History, number: int) -> bool:
    step = operator.make(given.payload.schema, given.keys)
    return len(step.on_batch(to_batch(given).take(np.array([number])))) > 0
