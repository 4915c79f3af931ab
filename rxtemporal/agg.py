"""Aggregates: what ``aggregate(name=agg.…)`` computes over the rows of a window.

Nulls are ignored; ``count()`` counts rows, ``count(x)`` values that are not null. The sum of
nothing is 0; ``avg``, ``min`` and ``max`` of nothing are null. ``count, sum, avg, min, max, std,
var`` and incremental ones of your own run along with the rows that come and go: their cost does not
grow with what a window holds. The others look at each window's rows anew.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.expressions import field_type, of_many, row_by_row
from rxtemporal.schema import typed

if TYPE_CHECKING:
    from rxtemporal.steps.listed import Listed
    from rxtemporal.steps.running import Running

__all__ = [
    "Aggregate",
    "TimeSensitiveAggregate",
    "UserDefinedAggregate",
    "avg",
    "count",
    "expr",
    "first",
    "last",
    "max",
    "min",
    "quantile",
    "std",
    "sum",
    "var",
]

Kind = Literal["count", "sum", "avg", "min", "max", "std", "var"]
Interpolation = Literal["nearest", "higher", "lower", "midpoint", "linear", "equiprobable"]
_INTERPOLATIONS = typing.get_args(Interpolation)


class Aggregate:
    """One aggregate, of a field or of an expression computed row by row."""

    reads: pl.Expr | None = None

    def check(self) -> None:
        """Refuse what is wrong of itself, whatever fields there are."""

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return the result's type for rows of this schema; refuse what has no such aggregate."""
        raise NotImplementedError

    def make(self, name: str, schema: pl.Schema) -> Running | Listed | None:
        """Return a new state for this aggregate; None for the count of rows, which needs none."""
        raise NotImplementedError


def _is_number(dtype: pl.DataType) -> bool:
    # decimals are left out: they would have to be added up exactly
    return dtype.is_float() or dtype.is_integer() or dtype in (pl.Boolean, pl.Null)


def _undefined(aggregate: Aggregate, dtype: pl.DataType) -> SchemaError:
    units = "take a number of units of it first, such as .dt.total_seconds()"
    advice = units if dtype.is_temporal() else "cast it to Float64"
    return SchemaError(f"{aggregate!r} of type {dtype} is not defined. Hint: {advice}.")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Incremental(Aggregate):
    """An aggregate that follows rows as they come and go."""

    kind: Kind
    reads: pl.Expr | None

    def __repr__(self) -> str:
        return f"{self.kind}({'' if self.reads is None else self.reads})"

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        if self.reads is None or self.kind == "count":
            if self.reads is not None:
                field_type(self.reads, schema)
            return pl.Int64()
        dtype = field_type(self.reads, schema)
        if self.kind in ("min", "max"):
            return dtype
        if not _is_number(dtype):
            raise _undefined(self, dtype)
        return pl.Int64() if self.kind == "sum" and not dtype.is_float() else pl.Float64()

    def make(self, name: str, schema: pl.Schema) -> Running | None:
        from rxtemporal.steps import ordered, running

        if self.reads is None:
            return None
        if self.kind == "count":
            return running.Count()
        dtype = field_type(self.reads, schema)
        if self.kind == "avg":
            return running.Average()
        if self.kind in ("std", "var"):
            return running.Variance(root=self.kind == "std")
        if self.kind == "sum":
            return running.FloatSum() if dtype.is_float() else running.IntegerSum(name)
        greatest = self.kind == "max"
        if dtype in (pl.String, pl.Binary, pl.Decimal):
            return ordered.ObjectExtreme(greatest=greatest)
        return running.Extreme(dtype, greatest=greatest)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Expression(Aggregate):
    """A polars expression over the rows of each window."""

    shown: str
    expression: pl.Expr
    of: pl.Expr | None = None
    numeric: bool = False

    def __repr__(self) -> str:
        return self.shown

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        if self.of is not None:
            dtype = field_type(self.of, schema)
            if self.numeric and not _is_number(dtype):
                raise _undefined(self, dtype)
        return of_many(self.expression, schema, self.shown)

    def make(self, name: str, schema: pl.Schema) -> Listed:
        from rxtemporal.steps.listed import ListedExpression

        return ListedExpression(self.expression, self.dtype(schema))


class _UserCode(Aggregate):
    """What users' own aggregates have in common: what they read, and what type they give."""

    _dtype: Any = None

    def __init__(self, field: str | pl.Expr | None = None, *, dtype: Any = None) -> None:
        self.reads = None if field is None else _reading(field, type(self).__name__)
        if dtype is not None:
            self._dtype = dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.reads is None else self.reads})"

    def _says(self) -> Any:
        """Return the function whose annotation tells the result's type."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuse a class that lacks a function, or does not tell what type it gives."""
        self._given()

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        if self.reads is not None:
            field_type(self.reads, schema)
        return self._given()

    def _given(self) -> pl.DataType:
        given, says = self._dtype, self._says()
        if given is None:
            try:
                given = typing.get_type_hints(says).get("return")
            except NameError:  # an annotation that names what is not there at run time
                given = None
        if given is None or given is Any:
            raise SchemaError(
                f"the type of {self!r} is not known. "
                "Hint: give dtype=float (or a polars type), or annotate what it returns."
            )
        return typed(repr(self), given)


class UserDefinedAggregate(_UserCode):
    """An aggregate of your own: a class with ``compute``, or with four incremental functions.

    ``compute(values)`` gets the values of ``field`` that are not null (or, without a field, the
    payloads as dicts) of each window, in order of (start, payload), and returns one value. Or:
    ``init()`` gives a state, ``add(state, value)`` and ``remove(state, value)`` return the state
    with a value more or less, ``result(state)`` the value: for windows that share rows this costs
    what changes. ``remove(add(s, x), x)`` has to be ``s``. A state that is to be saved is made of
    numbers, strings, times, lists, tuples, dicts and sets. The type of the result is ``dtype``, or
    what ``compute`` or ``result`` is annotated with.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> class Spread(agg.UserDefinedAggregate):
    ...     def compute(self, values: list[int]) -> int:
    ...         ordered = sorted(values)
    ...         return ordered[-1] - ordered[0]
    >>> readings = rxt.from_events([rxt.PointEvent(1, 20), rxt.PointEvent(2, 27)])
    >>> readings.tumbling_window(10).aggregate(spread=Spread("payload")).to_events()
    [IntervalEvent(0, 10, {'spread': 7})]
    """

    def compute(self, values: list[Any]) -> Any:
        """Return the value of a window."""
        raise NotImplementedError

    def init(self) -> Any:
        """Return the state over no rows."""
        raise NotImplementedError

    def add(self, state: Any, value: Any) -> Any:
        """Return the state with a value more."""
        raise NotImplementedError

    def remove(self, state: Any, value: Any) -> Any:
        """Return the state with a value less."""
        raise NotImplementedError

    def result(self, state: Any) -> Any:
        """Return the value of a state."""
        raise NotImplementedError

    @property
    def _incremental(self) -> bool:
        four = ("init", "add", "remove", "result")
        own = [name for name in four if _own(self, name, UserDefinedAggregate)]
        plain = _own(self, "compute", UserDefinedAggregate)
        if plain == (len(own) == len(four)) or (own and len(own) < len(four)):
            missing = ", ".join(name for name in four if name not in own)
            raise ArgumentError(
                f"{type(self).__name__} needs either compute, or all of init, add, remove and "
                f"result{f' (missing: {missing})' if own and missing else ''}"
            )
        return not plain

    def _says(self) -> Any:
        return self.result if self._incremental else self.compute

    def make(self, name: str, schema: pl.Schema) -> Running | Listed:
        """Return a new state for this aggregate."""
        from rxtemporal.steps.user_code import Incremental, PerWindow

        if self._incremental:
            return Incremental(self, self.reads, name, self.dtype(schema))
        return PerWindow(self.compute, self.reads, self.dtype(schema), sensitive=False)


class TimeSensitiveAggregate(_UserCode):
    """An aggregate of your own that sees lifetimes: ``compute(events, window)`` returns one value.

    ``events`` are the window's rows as interval events, lifetimes clipped to the window, payloads
    as dicts; ``window`` has ``start`` and ``end``; all times are ticks. It needs the window's end:
    on a snapshot window the CTI waits at the start of the oldest snapshot that has not ended. A
    ``field`` only picks what ``event.payload`` is: its value in place of the dict.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> class Weighted(agg.TimeSensitiveAggregate):
    ...     def compute(self, events: list[rxt.IntervalEvent], window) -> float:
    ...         length = window.end - window.start
    ...         total = 0.0
    ...         for event in events:
    ...             total += (event.end - event.start) * event.payload["x"]
    ...         return total / length
    >>> rows = rxt.from_events([rxt.IntervalEvent(0, 5, {"x": 2.0})])
    >>> rows.tumbling_window(10).aggregate(mean=Weighted()).to_events()
    [IntervalEvent(0, 10, {'mean': 1.0})]
    """

    def compute(self, events: list[Any], window: Any) -> Any:
        """Return the value of a window."""
        raise NotImplementedError

    def _says(self) -> Any:
        if not _own(self, "compute", TimeSensitiveAggregate):
            raise ArgumentError(f"{type(self).__name__} needs compute(events, window)")
        return self.compute

    def make(self, name: str, schema: pl.Schema) -> Listed:
        """Return a new state for this aggregate."""
        from rxtemporal.steps.user_code import PerWindow

        return PerWindow(self.compute, self.reads, self.dtype(schema), sensitive=True)


def _own(user: Any, name: str, base: type) -> bool:
    return getattr(type(user), name) is not getattr(base, name)


def _reading(field: Any, who: str) -> pl.Expr:
    if isinstance(field, str):
        return pl.col(field)
    if isinstance(field, pl.Expr):
        return row_by_row(field, f"agg.{who}")
    raise ArgumentError(f"agg.{who} takes a field's name or a polars expression, got {field!r}")


def count(field: str | pl.Expr | None = None) -> Aggregate:
    """Count the rows, or the values of a field that are not null. Int64."""
    return _Incremental("count", None if field is None else _reading(field, "count"))


def sum(field: str | pl.Expr) -> Aggregate:
    """Add up a field. Int64 of integers and bools (overflow is an error), Float64 of floats."""
    return _Incremental("sum", _reading(field, "sum"))


def avg(field: str | pl.Expr) -> Aggregate:
    """Return the mean of a field. Float64, null of nothing."""
    return _Incremental("avg", _reading(field, "avg"))


def min(field: str | pl.Expr) -> Aggregate:
    """Return the least value of a field, in the field's type; NaN only if there is nothing else."""
    return _Incremental("min", _reading(field, "min"))


def max(field: str | pl.Expr) -> Aggregate:
    """Return the greatest value of a field, in its type; NaN only if there is nothing else."""
    return _Incremental("max", _reading(field, "max"))


def var(field: str | pl.Expr) -> Aggregate:
    """Return the variance of a field as a sample's (ddof 1). Float64, null below two values."""
    return _Incremental("var", _reading(field, "var"))


def std(field: str | pl.Expr) -> Aggregate:
    """Return the standard deviation of a field as a sample's (ddof 1). Float64, null below two."""
    return _Incremental("std", _reading(field, "std"))


def first(field: str | pl.Expr) -> Aggregate:
    """Return the first value that is not null, rows taken by (start, payload), in its type."""
    values = _reading(field, "first")
    return _Expression(f"first({field})", values.drop_nulls().first(), values)


def last(field: str | pl.Expr) -> Aggregate:
    """Return the last value that is not null, rows taken by (start, payload), in its type."""
    values = _reading(field, "last")
    return _Expression(f"last({field})", values.drop_nulls().last(), values)


def quantile(field: str | pl.Expr, q: float, interpolation: Interpolation = "nearest") -> Aggregate:
    """Return the value below which the part ``q`` (0 to 1) of the values lie. Float64.

    ``interpolation`` says what is done between two values, as polars names it.
    """
    if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0 <= q <= 1:
        raise ArgumentError(f"agg.quantile takes a part between 0 and 1, got {q!r}")
    if interpolation not in _INTERPOLATIONS:
        raise ArgumentError(
            f"agg.quantile interpolates by one of {', '.join(_INTERPOLATIONS)}, "
            f"got {interpolation!r}"
        )
    values = _reading(field, "quantile")
    expression = values.quantile(q, interpolation).cast(pl.Float64)
    return _Expression(f"quantile({field}, {q})", expression, values, numeric=True)


def expr(expression: pl.Expr) -> Aggregate:
    """Compute any polars expression that gives one value for the rows of a window.

    Rows come in order of (start, payload).
    """
    if not isinstance(expression, pl.Expr):
        raise ArgumentError(f"agg.expr takes a polars expression, got {expression!r}")
    return _Expression(f"expr({expression})", expression)
