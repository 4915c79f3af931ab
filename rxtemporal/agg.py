"""Aggregates for ``aggregate(name=agg.…)``, over the rows of a window.

With ``where=`` an aggregate is that of the rows that satisfy a predicate: a polars expression,
computed row by row, of which null is false. A window that holds no such row has a result, too.

Nulls are ignored: ``count()`` counts rows, ``count(x)`` counts the values that are not null. Over
no values the sum is 0, and ``mean``, ``min`` and ``max`` are null. ``count, count_distinct, sum,
mean, avg, min, max, std, var, increase, rate, resets, changes, time_mean, integral, duration,
coverage`` and your own incremental aggregates are updated as rows enter and leave a window: their
cost does not grow with the size of the window. The others read all rows of each window.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from rxtemporal.core.spans import Span
from rxtemporal.errors import ArgumentError, explain_calls
from rxtemporal.operators.differences.plan import DifferenceKind, RowDifference
from rxtemporal.operators.expressions import (
    infer_aggregate_type,
    infer_field_type,
    infer_number_type,
)
from rxtemporal.operators.operator import ADDED_LATER
from rxtemporal.operators.windows.results_plan import (
    Aggregate,
    TimeSensitiveAggregate,
    UserDefinedAggregate,
    parse_field,
    parse_predicate,
    restrict,
    show_predicate,
)
from rxtemporal.operators.windows.time_aggregates import (
    IncreaseRate,
    InstantAggregate,
    TimeAggregate,
    TimeUnit,
)

if TYPE_CHECKING:
    from rxtemporal.operators.windows.aggregates import RunningAggregate
    from rxtemporal.operators.windows.rows import ListedAggregate

__all__ = [
    "Aggregate",
    "TimeSensitiveAggregate",
    "UserDefinedAggregate",
    "approx_count_distinct",
    "at_end",
    "at_start",
    "avg",
    "changes",
    "count",
    "count_distinct",
    "coverage",
    "duration",
    "expr",
    "first",
    "increase",
    "integral",
    "last",
    "max",
    "mean",
    "min",
    "quantile",
    "rate",
    "resets",
    "std",
    "sum",
    "time_mean",
    "var",
]

Count = Literal["count", "count_distinct", "approx_count_distinct"]
Kind = Count | Literal["sum", "avg", "mean", "min", "max", "std", "var"]
_COUNTS = typing.get_args(Count)
Interpolation = Literal["nearest", "higher", "lower", "midpoint", "linear", "equiprobable"]
_INTERPOLATIONS = typing.get_args(Interpolation)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Incremental(Aggregate):
    """An aggregate that is updated as rows enter and leave a window."""

    kind: Kind
    reads: pl.Expr | None
    where: pl.Expr | None = dataclasses.field(default=None, metadata=ADDED_LATER)

    def __repr__(self) -> str:
        field = "" if self.reads is None else str(self.reads)
        return f"{self.kind}({(field + show_predicate(self.where)).removeprefix(', ')})"

    @property
    def values(self) -> pl.Expr | None:
        """The values; True for each row to count some rows, None to count all."""
        is_part = self.reads is None and self.where is not None
        return pl.lit(value=True) if is_part else self.reads

    def shares_with(self, other: Aggregate) -> bool:
        if self.reads is None or not isinstance(other, _Incremental) or other.reads is None:
            return False
        from rxtemporal.engine.expressions.tree import identify

        both = self.kind == other.kind == "count_distinct"
        return both and identify(self.reads) == identify(other.reads)

    def make_shared(self, schema: pl.Schema, count: int) -> Any:
        from rxtemporal.operators.windows import distinct_counts as distinct

        if self.kind != "count_distinct" or self.reads is None:
            return None
        dtype = infer_field_type(self.reads, schema)
        if not distinct.are_counted_as_numbers(dtype):
            return None
        return distinct.DistinctNumbers(count, is_float=dtype.is_float())

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        if self.reads is None or self.kind in _COUNTS:
            if self.reads is not None:
                infer_field_type(self.reads, schema)
            return pl.Int64()
        if self.kind in ("min", "max"):
            return infer_field_type(self.reads, schema)
        if (decimal := self._find_decimal(schema)) is not None:
            return pl.Decimal(38, decimal.scale) if self.kind == "sum" else pl.Float64()
        dtype = infer_number_type(self.reads, schema, repr(self))
        return pl.Int64() if self.kind == "sum" and not dtype.is_float() else pl.Float64()

    def _find_decimal(self, schema: pl.Schema) -> pl.Decimal | None:
        """Return the type of the values of a sum or a mean, if they are Decimals."""
        if self.reads is None or self.kind not in ("sum", "avg", "mean"):
            return None
        dtype = infer_field_type(self.reads, schema)
        return dtype if isinstance(dtype, pl.Decimal) else None

    def make(self, name: str, schema: pl.Schema) -> RunningAggregate | None:
        from rxtemporal.operators.windows import aggregates as running
        from rxtemporal.operators.windows import ordered_aggregates as ordered

        if self.values is None:
            return None
        if self.kind == "count":
            return running.Count()
        assert self.reads is not None
        dtype = infer_field_type(self.reads, schema)
        if (decimal := self._find_decimal(schema)) is not None:
            from rxtemporal.operators.windows.aggregates import DecimalSum

            return DecimalSum(decimal, name, mean=self.kind != "sum")
        if self.kind in ("avg", "mean"):
            return running.Average()
        if self.kind in ("std", "var"):
            return running.Variance(root=self.kind == "std")
        if self.kind == "sum":
            return running.FloatSum() if dtype.is_float() else running.IntegerSum(name)
        if self.kind == "count_distinct":
            from rxtemporal.operators.windows.distinct_counts import DistinctObjects

            return self.make_shared(schema, 1) or DistinctObjects()
        if self.kind == "approx_count_distinct":
            from rxtemporal.operators.windows.sketches import SketchedCount

            return SketchedCount()
        greatest = self.kind == "max"
        if dtype in (pl.String, pl.Binary, pl.Decimal):
            return ordered.ObjectExtreme(greatest=greatest)
        return running.Extreme(dtype, greatest=greatest)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Expression(Aggregate):
    """A polars expression over the rows of each window."""

    reads_all_rows = True

    shown: str
    expression: pl.Expr
    of: pl.Expr | None = None
    numeric: bool = False
    where: pl.Expr | None = dataclasses.field(default=None, metadata=ADDED_LATER)

    def __repr__(self) -> str:
        return f"{self.shown[:-1]}{show_predicate(self.where)})"

    def list_inputs(self) -> list[pl.Expr]:
        return [self.expression] if self.where is None else [self.expression, self.where]

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        if self.of is not None:
            if self.numeric:
                infer_number_type(self.of, schema, repr(self))
            else:
                infer_field_type(self.of, schema)
        return infer_aggregate_type(self.expression, schema, self.shown)

    def make(self, name: str, schema: pl.Schema) -> ListedAggregate:
        from rxtemporal.operators.windows.rows import ListedExpression

        return ListedExpression(self.expression, self.dtype(schema), self.where)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _SumOfDifferences(Aggregate):
    """The sum of what each reading differs from the one before of its key."""

    difference: RowDifference
    reads: pl.Expr
    where: pl.Expr | None = dataclasses.field(default=None, metadata=ADDED_LATER)

    @classmethod
    def of(cls, kind: DifferenceKind, field: str | pl.Expr, where: pl.Expr | None) -> Aggregate:
        """Return the sum; rows that do not count are no readings."""
        predicate = parse_predicate(where, kind)
        reads = parse_field(field, kind)
        difference = RowDifference(kind, restrict(reads, predicate))
        return cls(difference, pl.col(difference.field), predicate)

    def __repr__(self) -> str:
        return self.difference.field

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        return schema[self.difference.field]

    def make(self, name: str, schema: pl.Schema) -> RunningAggregate:
        from rxtemporal.operators.windows import aggregates as running

        return running.FloatSum() if self.dtype(schema).is_float() else running.IntegerSum(name)


@explain_calls("n=agg.count()")
def count(field: str | pl.Expr | None = None, *, where: pl.Expr | None = None) -> Aggregate:
    """Count the rows, or the values of a field that are not null, as Int64.

    >>> import polars as pl
    >>> import rxtemporal as rxt
    >>> rows = rxt.from_events([rxt.PointEvent(t, {"x": t}) for t in (2, 5, 8, 31)])
    >>> counts = {"n": count(), "high": count(where=pl.col("x") > 3)}
    >>> rows.tumbling_window(10).aggregate(**counts).to_polars().rows()
    [(0, 10, 3, 2), (30, 40, 1, 1)]
    """
    reads = None if field is None else parse_field(field, "count")
    return _Incremental("count", reads, parse_predicate(where, "count"))


@explain_calls("users=agg.count_distinct('user')")
def count_distinct(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Count the distinct values of a field, as Int64; null is no value.

    NaN equals NaN, and -0.0 equals 0.0. Each distinct value of a key in open windows is held, with
    the number of its rows. Numbers, bools and times cost some tens of nanoseconds a row; texts and
    Decimals, which are counted as Python objects, about a microsecond.

    >>> import rxtemporal as rxt
    >>> rows = rxt.from_events([rxt.PointEvent(t, {"x": t // 4}) for t in range(14)])
    >>> rows.tumbling_window(10).aggregate(n=count_distinct("x")).to_polars().rows()
    [(0, 10, 3), (10, 20, 2)]
    """
    predicate = parse_predicate(where, "count_distinct")
    return _Incremental("count_distinct", parse_field(field, "count_distinct"), predicate)


@explain_calls("users=agg.approx_count_distinct('user')")
def approx_count_distinct(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Estimate the number of distinct values of a field, as Int64; null is no value.

    For windows of so many values that ``count_distinct`` would hold too much: each key holds a
    HyperLogLog sketch of at most 4 kB for each window that is open. The relative standard error is
    1.6 %: two of three results are nearer than that, and 19 of 20 nearer than twice that; small
    numbers are exact. The same values always give the same result. Values are not taken back: where
    a row leaves a window that goes on, it is an error when that happens. So it is for points in
    tumbling windows, and in hopping windows of which the duration is a multiple of the period,
    beside ``count``, ``count_distinct``, ``sum``, ``mean``, ``min`` and ``max``; and for sessions
    and ``whole_window``. It needs the package ``datasketches`` (``rxtemporal[sketches]``).

    >>> import rxtemporal as rxt
    >>> rows = rxt.from_events([rxt.PointEvent(t, {"x": t // 4}) for t in range(14)])
    >>> rows.tumbling_window(10).aggregate(n=approx_count_distinct("x")).to_polars().rows()
    [(0, 10, 3), (10, 20, 2)]
    """
    from rxtemporal.operators.windows.sketches import load_sketches

    load_sketches()
    predicate, who = parse_predicate(where, "approx_count_distinct"), "approx_count_distinct"
    return _Incremental("approx_count_distinct", parse_field(field, who), predicate)


@explain_calls("total=agg.sum('energy')")
def sum(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the sum of a field, Float64 of floats, else Int64 (an overflow is an error).

    Of Decimals it is a Decimal of 38 digits, with their scale; each costs about a microsecond.

    A sum of floats is that of the rows of the window, exact until it is rounded once; infinite
    if it is larger than a Float64 holds.
    """
    predicate = parse_predicate(where, "sum")
    return _Incremental("sum", parse_field(field, "sum"), predicate)


@explain_calls("temp=agg.avg('temp')")
def avg(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the mean of a field, as ``mean``: the name in SQL and StreamInsight."""
    predicate = parse_predicate(where, "avg")
    return _Incremental("avg", parse_field(field, "avg"), predicate)


@explain_calls("temp=agg.mean('temp')")
def mean(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the mean of a field as Float64, sum by count; null if there are no values.

    Of Decimals, too: the exact sum by the count, rounded once.
    """
    predicate = parse_predicate(where, "mean")
    return _Incremental("mean", parse_field(field, "mean"), predicate)


@explain_calls("lowest=agg.min('temp')")
def min(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the least value of a field, in its type; NaN only if all values are NaN."""
    predicate = parse_predicate(where, "min")
    return _Incremental("min", parse_field(field, "min"), predicate)


@explain_calls("highest=agg.max('temp')")
def max(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the greatest value of a field, in its type; NaN only if all values are NaN."""
    predicate = parse_predicate(where, "max")
    return _Incremental("max", parse_field(field, "max"), predicate)


@explain_calls("spread=agg.var('temp')")
def var(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the sample variance (ddof 1) of a field as Float64; null for fewer than two values.

    The relative error is below 1e-9, whatever values were in earlier windows. It is NaN if a value
    is NaN or infinite.
    """
    predicate = parse_predicate(where, "var")
    return _Incremental("var", parse_field(field, "var"), predicate)


@explain_calls("spread=agg.std('temp')")
def std(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the sample standard deviation (ddof 1) of a field, as ``var``."""
    predicate = parse_predicate(where, "std")
    return _Incremental("std", parse_field(field, "std"), predicate)


@explain_calls("opened=agg.first('price')")
def first(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the first value that is not null, with rows in order of (start, payload)."""
    values = parse_field(field, "first")
    expression, predicate = values.drop_nulls().first(), parse_predicate(where, "first")
    return _Expression(f"first({field})", expression, values, where=predicate)


@explain_calls("closed=agg.last('price')")
def last(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the last value that is not null, with rows in order of (start, payload)."""
    values = parse_field(field, "last")
    expression, predicate = values.drop_nulls().last(), parse_predicate(where, "last")
    return _Expression(f"last({field})", expression, values, where=predicate)


@explain_calls("used=agg.increase('meter')")
def increase(
    field: str | pl.Expr, *, interpolate: bool = False, where: pl.Expr | None = None
) -> Aggregate:
    """Return how much a counter has risen: the sum of the rises between neighbouring readings.

    A fall is a reset: the counter has begun at zero, and its new value is the rise. The rise since
    the last reading before the window belongs to the window of the later reading, so the increases
    of adjacent windows add up to that of all. Nothing is extrapolated to the ends of the window.
    A row whose lifetime overlaps several windows counts in each of them, as in all aggregates; with
    ``to_point_events()`` in front, readings count where they start.

    Neighbours are rows of one key in order of (start, payload). The first reading of a key has no
    rise, nor has null, which is no reading; NaN makes the windows of its own row NaN. Int64 of
    integers, Float64 of floats; 0 without a rise.

    With ``interpolate=True`` each rise is spread evenly over the time between its two readings, as
    Float64: behind ``to_signal(linear=(field,))``, of which each row has its rise. So windows add
    up to the whole, also where no reading comes near their bounds.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(t, x) for t, x in enumerate([0, 1, 2, 3, 2, 4])])
    >>> readings.tumbling_window(3).aggregate(used=increase("payload")).to_polars().rows()
    [(0, 3, 2), (3, 6, 5)]
    """
    if interpolate:
        predicate = parse_predicate(where, "increase")
        return TimeAggregate("increase", parse_field(field, "increase"), where=predicate)
    return _SumOfDifferences.of("increase", field, where)


@explain_calls("restarts=agg.resets('uptime')")
def resets(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Count how often a counter has fallen, as Int64; neighbours are those of ``increase``."""
    return _SumOfDifferences.of("resets", field, where)


@explain_calls("switches=agg.changes('state')")
def changes(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Count the readings with another value than the one before, as Int64.

    Of a field of any type. Neighbours are those of ``increase``; null is no reading.
    """
    return _SumOfDifferences.of("changes", field, where)


@explain_calls("flow=agg.rate('meter')")
def rate(
    field: str | pl.Expr, per: Span | None = None, *, where: pl.Expr | None = None
) -> Aggregate:
    """Return how fast a counter rises: its ``increase``, by the length of the window, as Float64.

    ``per`` is the unit of time: with ``per="1h"`` the result is the increase in an hour. It is a
    second by default, and has to be given over ticks. On a snapshot window the CTI is held at the
    start of the oldest snapshot that has not ended.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(t, 3.0 * t) for t in range(1, 20)])
    >>> readings.tumbling_window(10).aggregate(flow=rate("payload", per=1)).to_polars().rows()
    [(0, 10, 2.4), (10, 20, 3.0)]
    """
    predicate = parse_predicate(where, "rate")
    difference = RowDifference("increase", restrict(parse_field(field, "rate"), predicate))
    return IncreaseRate(difference, pl.col(difference.field), TimeUnit.read(per), predicate)


@explain_calls("temp=agg.time_mean('temp')")
def time_mean(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the mean of a field by time, as Float64; null if there are no values.

    Each row counts with the length of its overlap with the window: the result is the sum of value ×
    overlap, divided by the sum of the overlaps of the rows whose value is not null. NaN makes the
    windows of its own row NaN. Each product is rounded, and their exact sum, and the quotient.

    >>> import rxtemporal as rxt
    >>> readings = rxt.from_events([rxt.PointEvent(t, {"v": v}) for t, v in ((2, 1.0), (8, 4.0))])
    >>> signal = readings.to_signal(max_gap=10)
    >>> signal.tumbling_window(10).aggregate(mean=time_mean("v")).to_polars().rows()
    [(0, 10, 1.75), (10, 20, 4.0)]
    """
    predicate = parse_predicate(where, "time_mean")
    return TimeAggregate("time_mean", parse_field(field, "time_mean"), where=predicate)


@explain_calls("energy=agg.integral('power', per='1h')")
def integral(
    field: str | pl.Expr, per: Span | None = None, *, where: pl.Expr | None = None
) -> Aggregate:
    """Return the integral of a field over time, as Float64: the sum of value × overlap.

    ``per`` is the unit of time: of watts, ``per="1h"`` gives watt-hours. It is a second by default,
    and has to be given over ticks. The integral of no values is 0. On a snapshot window the CTI is
    held at the start of the oldest snapshot that has not ended.

    >>> import rxtemporal as rxt
    >>> power = rxt.from_events([rxt.IntervalEvent(2, 8, {"watts": 100.0})])
    >>> power.tumbling_window(5).aggregate(used=integral("watts", per=1)).to_polars().rows()
    [(0, 5, 300.0), (5, 10, 300.0)]
    """
    unit, predicate = TimeUnit.read(per), parse_predicate(where, "integral")
    return TimeAggregate("integral", parse_field(field, "integral"), unit, predicate)


@explain_calls("busy=agg.duration()")
def duration(*, where: pl.Expr | None = None) -> Aggregate:
    """Return the sum of the overlaps of rows with the window: a Duration, over ticks an Int64.

    With ``where=pl.col("state") == "on"`` it is the time in a state.

    Two devices that are on for an hour each give two hours. On a snapshot window the CTI is held at
    the start of the oldest snapshot that has not ended.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(2, 8, "a"), rxt.IntervalEvent(3, 5, "b")])
    >>> stays.tumbling_window(5).aggregate(stayed=duration()).to_polars().rows()
    [(0, 5, 5), (5, 10, 3)]
    """
    return TimeAggregate("duration", where=parse_predicate(where, "duration"))


@explain_calls("known=agg.coverage()")
def coverage() -> Aggregate:
    """Return the part of the window in which any row is alive, as Float64 from 0 to 1.

    It is about all rows of the window; ``where(…)`` in front of the window leaves some out.

    >>> import rxtemporal as rxt
    >>> stays = rxt.from_events([rxt.IntervalEvent(2, 8, "a"), rxt.IntervalEvent(3, 5, "b")])
    >>> stays.tumbling_window(5).aggregate(known=coverage()).to_polars().rows()
    [(0, 5, 0.6), (5, 10, 0.6)]
    """
    return TimeAggregate("coverage")


@explain_calls("opening=agg.at_start('level')")
def at_start(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the value of the row that is alive at the start of the window; null if none is.

    It is about a signal, of which one row of a key is alive at a time: two are an ``EventError``.
    With ``where`` it is null if that row does not satisfy the predicate.

    >>> import rxtemporal as rxt
    >>> signal = rxt.from_events([rxt.IntervalEvent(3, 12, {"v": 7})])
    >>> both = {"first": at_start("v"), "last": at_end("v")}
    >>> signal.tumbling_window(10).aggregate(**both).to_polars().rows()
    [(0, 10, None, 7), (10, 20, 7, None)]
    """
    predicate = parse_predicate(where, "at_start")
    return InstantAggregate(False, parse_field(field, "at_start"), predicate)


@explain_calls("closing=agg.at_end('level')")
def at_end(field: str | pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Return the value of the row that is alive one tick before the end of the window.

    Null and errors are as for ``at_start``. On a snapshot window the CTI is held at the start of
    the oldest snapshot that has not ended.
    """
    predicate = parse_predicate(where, "at_end")
    return InstantAggregate(True, parse_field(field, "at_end"), predicate)


@explain_calls("median=agg.quantile('temp', 0.5)")
def quantile(
    field: str | pl.Expr,
    q: float,
    interpolation: Interpolation = "nearest",
    *,
    where: pl.Expr | None = None,
) -> Aggregate:
    """Return the quantile ``q`` (0 to 1) of the values, as Float64.

    ``interpolation`` is the method used between two values, named as in polars.
    """
    if isinstance(q, bool) or not isinstance(q, (int, float)) or not 0 <= q <= 1:
        raise ArgumentError(f"agg.quantile takes a number between 0 and 1, got {q!r}")
    if interpolation not in _INTERPOLATIONS:
        raise ArgumentError(
            f"agg.quantile interpolates by one of {', '.join(_INTERPOLATIONS)}, "
            f"got {interpolation!r}"
        )
    values = parse_field(field, "quantile")
    expression = values.quantile(q, interpolation).cast(pl.Float64)
    shown, predicate = f"quantile({field}, {q})", parse_predicate(where, "quantile")
    return _Expression(shown, expression, values, numeric=True, where=predicate)


@explain_calls("total=agg.expr((pl.col('price') * pl.col('size')).sum())")
def expr(expression: pl.Expr, *, where: pl.Expr | None = None) -> Aggregate:
    """Compute a polars expression that reduces the rows of a window to one value.

    The rows are in order of (start, payload).
    """
    if not isinstance(expression, pl.Expr):
        raise ArgumentError(f"agg.expr takes a polars expression, got {expression!r}")
    return _Expression(f"expr({expression})", expression, where=parse_predicate(where, "expr"))


_MEANT = {
    "median": "agg.quantile(field, 0.5)",
    "average": "agg.mean(field)",
    "stddev": "agg.std(field)",
    "variance": "agg.var(field)",
    "nunique": "agg.count_distinct(field)",
    "n_unique": "agg.count_distinct(field)",
    "len": "agg.count()",
    "size": "agg.count()",
    "list": "agg.expr(…) reduces the rows to one value; apply(…) sees all of them",
}

if not TYPE_CHECKING:

    def __getattr__(name):
        """Raise an error that names the aggregate that was probably meant."""
        from rxtemporal.core.safe_text import hint_name

        hint = "" if name.startswith("_") else hint_name(name, __all__, _MEANT)
        raise AttributeError(f"rxtemporal.agg has no aggregate {name!r}.{hint}")
