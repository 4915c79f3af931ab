"""Aggregates by time: each row counts with the length of its overlap with the window."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import polars as pl

from rxtemporal.core.columns import Column
from rxtemporal.core.lines import find_linear, interpolate, measure_rise, span_line
from rxtemporal.core.spans import SECOND, Span, span
from rxtemporal.core.time_forms import TimeForm, find_span_form
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.differences.plan import RowDifference
from rxtemporal.operators.expressions import infer_field_type, infer_number_type
from rxtemporal.operators.operator import ADDED_LATER
from rxtemporal.operators.windows.overlaps import AT, COVER, OVERLAP, Overlaps, WindowSum
from rxtemporal.operators.windows.results_plan import Aggregate, restrict, show_predicate

if TYPE_CHECKING:
    from rxtemporal.operators.windows.bounds import Windows
    from rxtemporal.operators.windows.rows import ListedAggregate

TimeKind = Literal["time_mean", "integral", "duration", "coverage", "increase"]


@dataclasses.dataclass(frozen=True, slots=True)
class TimeUnit:
    """The span ``per=`` of an aggregate, as the user gave it, and as ticks once that is known."""

    given: Span | None
    ticks: int | None

    @classmethod
    def read(cls, per: Any) -> TimeUnit:
        """Return the argument, checked."""
        return cls(per, None if per is None else span(per, "per", least=1))

    def __str__(self) -> str:
        """Return the argument as users write it."""
        return "" if self.given is None else f", per={self.given!r}"

    @property
    def form(self) -> TimeForm | None:
        """The form of the times over which the span is meant; None if it is not given."""
        return None if self.given is None else find_span_form(self.given)

    def settle(self, form: TimeForm, who: str) -> TimeUnit:
        """Return the span for a stream of times of a form; a second by default."""
        if self.form is not None and self.form != form:
            shown = "a number of ticks" if self.form == "ticks" else "a span with a unit"
            raise ArgumentError(
                f"agg.{who}: per={self.given!r} is {shown}, and the times of the stream are "
                f"{'ticks' if form == 'ticks' else 'datetimes'}. Hint: "
                + ("per= is a number of ticks here." if form == "ticks" else "write per='1h'.")
            )
        if self.ticks is not None:
            return self
        if form == "ticks":
            raise ArgumentError(
                f"agg.{who} over a stream in ticks needs the unit of time of its result. "
                "Hint: per=1 is for one tick."
            )
        return TimeUnit(None, SECOND)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class TimeAggregate(Aggregate):
    """An aggregate of the lengths for which rows overlap their window, and of their values."""

    kind: TimeKind
    reads: pl.Expr | None = None
    per: TimeUnit = TimeUnit(None, None)
    where: pl.Expr | None = dataclasses.field(default=None, metadata=ADDED_LATER)
    form: TimeForm | None = dataclasses.field(default=None, repr=False)
    reads_window = True

    def __repr__(self) -> str:
        interpolates = ", interpolate=True" if self.kind == "increase" else ""
        field = "" if self.reads is None else str(self.reads)
        given = f"{field}{self.per}{interpolates}{show_predicate(self.where)}"
        return f"{self.kind}({given.removeprefix(', ')})"

    @property
    def by_time(self) -> bool:  # type: ignore[override]
        """True: it reads the overlaps of rows with their windows."""
        return True

    @property
    def covers(self) -> bool:  # type: ignore[override]
        """True if it needs the time in which any row is alive."""
        return self.kind == "coverage"

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """True if its value depends on the length of a window in which nothing changes."""
        return self.kind in ("integral", "duration")

    @property
    def own_time(self) -> TimeForm | None:  # type: ignore[override]
        """The form of the unit of time."""
        return self.per.form

    @property
    def needs_form(self) -> bool:  # type: ignore[override]
        """True if it depends on the form of times."""
        return self.kind in ("integral", "duration")

    def for_stream(self, form: TimeForm, schema: pl.Schema | None) -> Aggregate:
        """Return the aggregate for a stream of such times and fields."""
        per = self.per.settle(form, self.kind) if self.kind == "integral" else self.per
        if self.reads is not None and schema is not None:
            field = find_linear(self.reads, schema)
            if field is not None:
                return LineAggregate(self.kind, self.reads, field, per, self.where)
        if self.kind == "increase":
            if schema is None:
                return self
            raise SchemaError(
                f"{self!r} spreads each rise evenly over the time between two readings, and "
                f"{self.reads} does not move along a line. Hint: to_signal(linear=('x',)) for a "
                "field 'x'; agg.increase('x') counts each rise with its later reading."
            )
        return dataclasses.replace(self, form=form, per=per) if self.needs_form else self

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return Float64, or of durations that of lengths of time."""
        if self.reads is not None:
            infer_number_type(self.reads, schema, repr(self))
        if self.kind == "duration":
            return pl.Int64() if self.form == "ticks" else pl.Duration("us")
        return pl.Float64()

    def list_sums(self, overlaps: Overlaps) -> Sequence[WindowSum]:
        """Return what is summed over the rows of a window."""
        whole = overlaps is Overlaps.WHOLE
        overlap = pl.lit(1, pl.Int64) if whole else pl.col(OVERLAP)
        if self.kind == "coverage":
            return [] if whole else [WindowSum(pl.col(COVER))]
        if self.kind == "duration":
            if whole and self.where is None:
                return []
            return [WindowSum(restrict(overlap, self.where))]
        assert self.counted is not None
        value = self.counted.cast(pl.Float64)
        return [WindowSum(value, weighed=not whole, mean=self.kind == "time_mean")]

    def combine(self, sums: Sequence[Column], windows: Windows, overlaps: Overlaps) -> Column:
        """Return the results for the sums over each window."""
        from rxtemporal.operators.windows import combinations

        whole = overlaps is Overlaps.WHOLE
        lengths = windows.end - windows.start
        if self.kind == "coverage":
            return combinations.divide(lengths if whole else sums[0], lengths)
        if self.kind == "duration":
            if not whole:
                return sums[0]
            alive: Any = sums[0] if sums else windows.alive
            return combinations.multiply(alive, lengths)
        if self.kind == "time_mean":
            return sums[0]
        assert self.per.ticks is not None
        return combinations.scale(sums[0], lengths if whole else 1, self.per.ticks)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LineAggregate(Aggregate):
    """An aggregate by time of a field that moves along a line during the lifetime of each row.

    Over a stretch of time the mean of a line is its value in the middle.
    """

    kind: TimeKind
    reads: pl.Expr | None
    field: str = ""
    per: TimeUnit = TimeUnit(None, None)
    where: pl.Expr | None = dataclasses.field(default=None, metadata=ADDED_LATER)
    by_time = True
    finished = True
    reads_window = True

    def __repr__(self) -> str:
        return f"{self.kind}({self.field} along its line{self.per}{show_predicate(self.where)})"

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return Float64."""
        return pl.Float64()

    @property
    def _mean_of_overlap(self) -> pl.Expr:
        return interpolate(self.field, pl.col(AT), pl.col(OVERLAP) / 2)

    def list_sums(self, overlaps: Overlaps) -> Sequence[WindowSum] | None:
        """Return what is summed over the rows of a window; None if its bounds are needed before."""
        if self.kind == "increase":
            speed = restrict(measure_rise(self.field) / span_line(self.field), self.where)
            return [WindowSum(speed, weighed=overlaps is not Overlaps.WHOLE)]
        if overlaps is Overlaps.WHOLE:
            return None
        value = restrict(self._mean_of_overlap, self.where)
        return [WindowSum(value, weighed=True, mean=self.kind == "time_mean")]

    def combine(self, sums: Sequence[Column], windows: Windows, overlaps: Overlaps) -> Column:
        """Return the results for the sums over each window."""
        from rxtemporal.operators.windows import combinations

        if self.kind == "time_mean":
            return sums[0]
        lengths = windows.end - windows.start
        whole = overlaps is Overlaps.WHOLE and self.kind == "increase"
        return combinations.scale(sums[0], lengths if whole else 1, self.per.ticks or 1)

    def make(self, name: str, schema: pl.Schema) -> ListedAggregate:
        """Return a new state, for windows whose bounds are known only when they end."""
        from rxtemporal.operators.windows.combinations import LineOfWindow

        per = self.per.ticks if self.kind == "integral" else None
        value = restrict(self._mean_of_overlap, self.where)
        return LineOfWindow(value, per)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class IncreaseRate(Aggregate):
    """The increase of a counter in a window, by the length of the window."""

    difference: RowDifference
    reads: pl.Expr
    per: TimeUnit = TimeUnit(None, None)
    where: pl.Expr | None = dataclasses.field(default=None, metadata=ADDED_LATER)

    def __repr__(self) -> str:
        return f"rate({self.difference.reads}{self.per})"

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """True: the result depends on the length of the window."""
        return True

    @property
    def own_time(self) -> TimeForm | None:  # type: ignore[override]
        """The form of the unit of time."""
        return self.per.form

    needs_form = True
    reads_window = True

    def for_stream(self, form: TimeForm, schema: pl.Schema | None) -> Self:
        """Return the aggregate for a stream of times of this form."""
        return dataclasses.replace(self, per=self.per.settle(form, "rate"))

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return Float64."""
        return pl.Float64()

    def list_sums(self, overlaps: Overlaps) -> Sequence[WindowSum]:
        """Return the differences."""
        return [WindowSum(self.reads)]

    def combine(self, sums: Sequence[Column], windows: Windows, overlaps: Overlaps) -> Column:
        """Return the increases by the lengths of their windows."""
        from rxtemporal.operators.windows import combinations

        assert self.per.ticks is not None
        return combinations.scale(sums[0], self.per.ticks, windows.end - windows.start)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class InstantAggregate(Aggregate):
    """The value of the row that is alive at the start of a window, or one tick before its end."""

    at_end: bool
    reads: pl.Expr
    where: pl.Expr | None = dataclasses.field(default=None, metadata=ADDED_LATER)
    # the field, if its values move along lines
    line: str | None = None
    is_instant = True
    reads_all_rows = True
    reads_window = True

    def __repr__(self) -> str:
        return f"{self.name}({self.reads}{show_predicate(self.where)})"

    @property
    def name(self) -> str:
        """The name of the function that makes it."""
        return "at_end" if self.at_end else "at_start"

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """True if the end of the window has to be known."""
        return self.at_end

    def for_stream(self, form: TimeForm, schema: pl.Schema | None) -> Self:
        """Return the aggregate for a stream of such fields."""
        line = None if schema is None else find_linear(self.reads, schema)
        return self if line is None else dataclasses.replace(self, line=line)

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return the type of the values; Float64 along a line."""
        dtype = infer_field_type(self.reads, schema)
        return dtype if self.line is None else pl.Float64()

    def make(self, name: str, schema: pl.Schema) -> ListedAggregate:
        """Return a new state for this aggregate."""
        from rxtemporal.operators.windows.combinations import Instant

        reads = self.reads if self.line is None else interpolate(self.line, pl.col(AT))
        given = restrict(reads, self.where), self.dtype(schema), self.name
        return Instant(*given, at_end=self.at_end)
