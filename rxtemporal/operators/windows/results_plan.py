"""Descriptions of the results of windows: aggregates, ranks, user-defined operators."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from rxtemporal.core.record_classes import is_record_class
from rxtemporal.core.schema import declared_type, payload_schema
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.differences.plan import Differences, RowDifference
from rxtemporal.operators.expressions import check_predicate, check_row_by_row, infer_field_type
from rxtemporal.operators.operator import Keys, Operator, RowExpression
from rxtemporal.operators.row_times import TIME_FIELDS, add_times
from rxtemporal.operators.windows.overlaps import (
    AT,
    COVER,
    OVERLAP,
    Overlaps,
    SlicePlan,
    WindowSum,
    add_overlap,
)

if TYPE_CHECKING:
    from rxtemporal.core.columns import Column
    from rxtemporal.engine.expressions.evaluator import Expressions
    from rxtemporal.operators.causes.lost_row import Fate, LostRow
    from rxtemporal.operators.windows.aggregates import RunningAggregate
    from rxtemporal.operators.windows.bounds import Windows
    from rxtemporal.operators.windows.members import WindowRows
    from rxtemporal.operators.windows.results import Combination, Output, SharedField, WindowResults
    from rxtemporal.operators.windows.rows import ListedAggregate

# so many aggregates share a state at most: each has a bit of a byte
MOST_SHARED = 8


class Aggregate:
    """One aggregate, of a field or of an expression computed row by row."""

    reads: pl.Expr | None = None
    # the predicate of the rows that count; None: all do
    where: pl.Expr | None = None
    # what it needs to know of the row before
    difference: RowDifference | None = None
    by_time = False
    """True if it reads for how long rows overlap their windows."""
    covers = False
    """True if it reads for how long any row does."""
    finished = False
    """True if the end of a window has to be known before there is a result."""
    own_time: TimeForm | None = None
    """The form of times that its own spans have."""
    reads_all_rows = False
    """True if it is computed from all rows of a window, and not updated as they come and go."""
    is_instant = False
    """True if it reads rows at a bound of their window, where pieces do as well as whole rows."""
    reads_window = False
    """True if it depends on where its window begins and ends."""

    def check(self) -> None:
        """Raise an error if this aggregate is invalid for every schema."""

    def list_inputs(self) -> list[pl.Expr]:
        """Return all expressions that are computed over the rows."""
        given = self.where, self.reads, None if self.difference is None else self.difference.reads
        return [each for each in given if each is not None]

    @property
    def values(self) -> pl.Expr | None:
        """The values that it is computed of; None for whole rows."""
        return self.reads

    @property
    def counted(self) -> pl.Expr | None:
        """The values, null in rows that do not count; None for whole rows."""
        return None if self.values is None else restrict(self.values, self.where)

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return the type of the result for rows of this schema; raise if it is not defined."""
        raise NotImplementedError

    needs_form = False
    """True if it depends on the form of times."""

    def for_stream(self, form: TimeForm, schema: pl.Schema | None) -> Aggregate:
        """Return the aggregate for a stream of times of this form, and rows with these fields."""
        return self

    def make(self, name: str, schema: pl.Schema) -> RunningAggregate | ListedAggregate | None:
        """Return a new state for this aggregate; None for the count of rows, which needs none."""
        raise NotImplementedError

    def shares_with(self, other: Aggregate) -> bool:
        """Return True if another one differs in name, and in the rows that count, alone."""
        return False

    def make_shared(self, schema: pl.Schema, count: int) -> Any:
        """Return a new state for so many aggregates that share one; None if they cannot."""
        return None

    def list_sums(self, overlaps: Overlaps) -> Sequence[WindowSum] | None:
        """Return what is summed over the rows of a window, if the result is made of such sums."""
        return None

    def combine(self, sums: Sequence[Column], windows: Windows, overlaps: Overlaps) -> Column:
        """Return the results for the sums over each window."""
        raise NotImplementedError


def parse_predicate(where: Any, who: str) -> pl.Expr | None:
    """Return the predicate of the rows that an aggregate counts; None: all."""
    if where is None:
        return None
    return check_row_by_row(where, f"where= of agg.{who}")


def restrict(value: pl.Expr, where: pl.Expr | None) -> pl.Expr:
    """Return a value, null in rows that do not satisfy a predicate; None: all rows do."""
    return value if where is None else pl.when(where).then(value)


def show_predicate(where: pl.Expr | None) -> str:
    """Return the argument as users write it."""
    return "" if where is None else f", where={where}"


def parse_field(field: Any, who: str) -> pl.Expr:
    """Return the expression that an aggregate reads, from a field's name or an expression."""
    if isinstance(field, str):
        return pl.col(field)
    if isinstance(field, pl.Expr):
        return check_row_by_row(field, f"agg.{who}")
    raise ArgumentError(f"agg.{who} takes a field's name or a polars expression, got {field!r}")


class _UserCode(Aggregate):
    """Base class of user-defined aggregates: the field that they read, and their type."""

    _dtype: Any = None

    def __init__(
        self,
        field: str | pl.Expr | None = None,
        *,
        dtype: Any = None,
        where: pl.Expr | None = None,
    ) -> None:
        self.reads = None if field is None else parse_field(field, type(self).__name__)
        self.where = parse_predicate(where, type(self).__name__)
        if dtype is not None:
            self._dtype = dtype

    def __repr__(self) -> str:
        field = "" if self.reads is None else str(self.reads)
        return f"{type(self).__name__}({(field + show_predicate(self.where)).removeprefix(', ')})"

    def _says(self) -> Any:
        """Return the function whose return annotation is the type of the result."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise an error if a function is missing or the type of the result is unknown."""
        self._check_type()

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        if self.reads is not None:
            infer_field_type(self.reads, schema)
        return self._check_type()

    def _check_type(self) -> pl.DataType:
        given, says = self._dtype, self._says()
        if given is None:
            try:
                given = typing.get_type_hints(says).get("return")
            except NameError:  # the annotation names something that does not exist at run time
                given = None
        if given is None or given is Any:
            raise SchemaError(
                f"the type of {self!r} is not known. "
                "Hint: give dtype=float (or a polars type), or annotate the return type."
            )
        # stored, since another process cannot resolve the names in annotations
        dtype = self._dtype = declared_type(repr(self), given)
        return dtype


class UserDefinedAggregate(_UserCode):
    """Base class of your own aggregates, with ``compute`` or with four incremental functions.

    ``compute(values)`` takes the values of ``field`` that are not null (or, without a field, the
    payloads as dicts) in one window, in order of (start, payload), and returns one value.

    The incremental functions cost only what changes between windows: ``init()`` returns a state,
    ``add(state, value)`` and ``remove(state, value)`` return the state with one value more or less,
    and ``result(state)`` returns the value. ``remove(add(s, x), x)`` must equal ``s``. To be saved,
    a state must consist of numbers, strings, times, lists, tuples, dicts and sets.

    The type of the result is ``dtype``, or the return annotation of ``compute`` or ``result``.
    With ``where`` only the rows count that satisfy this predicate.

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
        """Return the state for no rows."""
        raise NotImplementedError

    def add(self, state: Any, value: Any) -> Any:
        """Return the state with one value added."""
        raise NotImplementedError

    def remove(self, state: Any, value: Any) -> Any:
        """Return the state with one value removed."""
        raise NotImplementedError

    def result(self, state: Any) -> Any:
        """Return the value of a state."""
        raise NotImplementedError

    @property
    def reads_all_rows(self) -> bool:  # type: ignore[override]
        """True if it has ``compute``."""
        return not self._incremental

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

    def make(self, name: str, schema: pl.Schema) -> RunningAggregate | ListedAggregate:
        """Return a new state for this aggregate."""
        from rxtemporal.operators.windows.user_functions import (
            IncrementalAggregate,
            WindowAggregate,
        )

        if self._incremental:
            return IncrementalAggregate(self, name, self.dtype(schema))
        given = self.compute, self.reads, self.where, self.dtype(schema)
        return WindowAggregate(*given, sensitive=False)


class TimeSensitiveAggregate(_UserCode):
    """Base class of your own aggregates that see lifetimes; override ``compute``.

    ``compute(events, window)`` returns one value. ``events`` are the rows of the window as interval
    events, with lifetimes clipped to the window and payloads as dicts; ``window`` has ``start`` and
    ``end``; all times are ticks. The end of the window must be known: on a snapshot window the CTI
    is held at the start of the oldest snapshot that has not ended. With ``field``,
    ``event.payload`` is the value of that field instead of the dict.

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

    finished = True
    reads_all_rows = True

    def compute(self, events: list[Any], window: Any) -> Any:
        """Return the value of a window."""
        raise NotImplementedError

    def _says(self) -> Any:
        if not _own(self, "compute", TimeSensitiveAggregate):
            raise ArgumentError(f"{type(self).__name__} needs compute(events, window)")
        return self.compute

    def make(self, name: str, schema: pl.Schema) -> ListedAggregate:
        """Return a new state for this aggregate."""
        from rxtemporal.operators.windows.user_functions import WindowAggregate

        given = self.compute, self.reads, self.where, self.dtype(schema)
        return WindowAggregate(*given, sensitive=True)


def _own(user: Any, name: str, base: type) -> bool:
    return getattr(type(user), name) is not getattr(base, name)


RANK = "rank"


class ResultSpec:
    """A way to compute result rows from the rows of a window, validated when composed."""

    name: str
    finished = False
    """True if a window's end has to be known before there is a result."""
    by_time = False
    """True if it reads for how long rows overlap their windows."""
    reads_window = False
    """True if it depends on where windows begin and end."""

    def for_stream(
        self, form: TimeForm | None, schema: pl.Schema | None
    ) -> tuple[Self, TimeForm | None]:
        """Return the results for a stream of such times and fields, and the form that they need."""
        return self, None

    def list_operators(self) -> tuple[Operator, ...]:
        """Return the operators that first prepare the rows."""
        return ()

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the schema of the results: the keys first."""
        raise NotImplementedError

    def make(
        self, schema: pl.Schema, keys: Keys, overlaps: Overlaps = Overlaps.PAIRS
    ) -> WindowResults:
        """Return a new state, for windows that say so much of how rows overlap them."""
        raise NotImplementedError

    def prepare(self, schema: pl.Schema, keys: Keys) -> Callable[[], WindowResults]:
        """Return a function that returns new states, of which many are made."""
        return partial(self.make, schema, keys)

    def list_expressions(self, schema: pl.Schema) -> Sequence[RowExpression]:
        """Return the expressions that are computed for each row, before the results."""
        return ()

    def list_costly(self, schema: pl.Schema) -> Sequence[str]:
        """Return the names of what is computed from all rows of each window."""
        return (self.name,)

    def explain_loss(self, lost: LostRow, windows: WindowRows) -> Fate:
        """Return why no result stands on a row of a finished window."""
        return lost.tell_end()


def _guess_aggregate(given: Any) -> str:
    """Return what somebody meant who gave this value as an aggregate."""
    if isinstance(given, pl.Expr):
        return "agg.expr(…) with this expression, or agg.sum('field')"
    name = given if isinstance(given, str) else getattr(given, "__name__", "count")
    if name == "count" or name not in ("sum", "avg", "mean", "min", "max", "std", "var"):
        return "agg.count()"
    return f"agg.{name}('field')"


@dataclasses.dataclass(frozen=True, eq=False)
class Aggregates(ResultSpec):
    """One row for each window."""

    aggregates: tuple[tuple[str, Aggregate], ...]
    name = "aggregate"

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise ArgumentError(
                "aggregate takes at least one name=aggregate, such as n=agg.count()"
            )
        for name, aggregate in self.aggregates:
            if not isinstance(aggregate, Aggregate):
                raise ArgumentError(
                    f"aggregate {name!r} is {aggregate!r}; it has to come from rxtemporal.agg, "
                    f"such as {_guess_aggregate(aggregate)}"
                )
            aggregate.check()

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """True if one of the aggregates needs the end of a window."""
        return any(each.finished for _, each in self.aggregates)

    @property
    def by_time(self) -> bool:  # type: ignore[override]
        """True if one of the aggregates is by time."""
        return any(each.by_time for _, each in self.aggregates)

    @property
    def reads_window(self) -> bool:  # type: ignore[override]
        """True if one of the aggregates depends on where windows begin and end."""
        return any(each.reads_window for _, each in self.aggregates)

    def for_stream(
        self, form: TimeForm | None, schema: pl.Schema | None
    ) -> tuple[Self, TimeForm | None]:
        """Return the aggregates for a stream of such times and fields; datetimes by default."""
        said = (each.own_time for _, each in self.aggregates)
        known = form or next(filter(None, said), None) or "datetime"
        settled = tuple((name, each.for_stream(known, schema)) for name, each in self.aggregates)
        if all(new is old for (_, new), (_, old) in zip(settled, self.aggregates, strict=True)):
            return self, None
        needs_form = any(each.needs_form for _, each in self.aggregates)
        return dataclasses.replace(self, aggregates=settled), known if needs_form else None

    def plan_slices(self, schema: pl.Schema, *, overlapping: bool) -> SlicePlan:
        """Return how rows are cut, for windows that are adjacent or ``overlapping``."""
        from rxtemporal.operators.windows.rows import ListedAggregate

        others = [
            (name, each) for name, each in self.aggregates if not (each.by_time or each.is_instant)
        ]
        # in adjacent windows each row has one piece in each, which counts in its place, but begins
        # where the window does
        listed = [
            each.list_sums(Overlaps.PIECES) is None
            and isinstance(each.make(name, schema), ListedAggregate)
            for name, each in others
        ]
        beside = (overlapping and bool(others)) or any(listed)
        return SlicePlan(beside, any(each.covers for _, each in self.aggregates))

    def list_operators(self) -> tuple[Operator, ...]:
        """Return the operators that add what an aggregate needs of a row, or of the one before."""
        times = add_times(read for _, of in self.aggregates for read in of.list_inputs())
        each = [each.difference for _, each in self.aggregates if each.difference is not None]
        differences = tuple({difference.field: difference for difference in each}.values())
        return (*times, *((Differences(differences=differences),) if differences else ()))

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then the aggregates."""
        fields = {key: schema[key] for key in keys}
        checked = set[int]()  # several often have the same predicate
        for name, aggregate in self.aggregates:
            if name in fields:
                raise SchemaError(f"aggregate {name!r} has the name of a group key")
            if aggregate.where is not None and id(aggregate.where) not in checked:
                check_predicate(aggregate.where, schema, f"where= of aggregate {name!r}")
                checked.add(id(aggregate.where))
            fields[name] = aggregate.dtype(schema)
        return pl.Schema(fields)

    def make(
        self,
        schema: pl.Schema,
        keys: Keys,
        overlaps: Overlaps = Overlaps.PAIRS,
        slicing: SlicePlan | None = None,
    ) -> WindowResults:
        """Return new aggregates."""
        return self._compile(schema, overlaps)(overlaps, slicing)

    def prepare(self, schema: pl.Schema, keys: Keys) -> Callable[[], WindowResults]:
        """Return a function that returns new aggregates; what they read is compiled once."""
        return self._compile(schema, Overlaps.PAIRS)

    def _compile(self, schema: pl.Schema, overlaps: Overlaps) -> Callable[..., WindowResults]:
        """Return ``_make`` for rows of this schema."""
        from rxtemporal.engine.expressions.evaluator import Expressions

        if self.by_time and overlaps is not Overlaps.WHOLE:
            schema = add_overlap(schema)
        return partial(self._make, schema, Expressions(schema))

    def _make(
        self,
        schema: pl.Schema,
        known: Expressions,
        overlaps: Overlaps = Overlaps.PAIRS,
        slicing: SlicePlan | None = None,
    ) -> WindowResults:
        from rxtemporal.operators.windows.results import AggregateResults

        # the differences from the rows before, and the overlaps, are not the user's fields
        own = {each.difference.field for _, each in self.aggregates if each.difference is not None}
        if self.by_time and overlaps is not Overlaps.WHOLE:
            own |= {AT, OVERLAP, COVER}
        outputs: dict[str, Output | SharedField | Combination] = {}
        for group in self._group():
            if shared := self._share_output(group, schema, known):
                outputs |= shared
                continue
            for name, each in group:
                outputs[name] = self._make_output(name, each, schema, own, overlaps, slicing, known)
        return AggregateResults([outputs[name] for name, _ in self.aggregates], own, slicing)

    def _group(self) -> list[list[tuple[str, Aggregate]]]:
        """Return the aggregates, those that may share a state together."""
        groups: list[list[tuple[str, Aggregate]]] = []
        for name, aggregate in self.aggregates:
            for group in groups:
                if len(group) < MOST_SHARED and aggregate.shares_with(group[0][1]):
                    group.append((name, aggregate))
                    break
            else:
                groups.append([(name, aggregate)])
        return groups

    def _share_output(
        self, group: Sequence[tuple[str, Aggregate]], schema: pl.Schema, known: Expressions
    ) -> Mapping[str, SharedField] | None:
        """Return the fields of a group that shares a state; None if it does not."""
        from rxtemporal.operators.windows.results import SharedField, SharedOutput

        name, first = group[0]
        by = first.make_shared(schema, len(group))
        if by is None or first.values is None:
            return None
        wheres = [known.find_predicate(each.where) for _, each in group]
        part = SharedOutput(name, known.find(first.values), by, wheres=wheres)
        return {name: SharedField(name, part, number) for number, (name, _) in enumerate(group)}

    def _make_output(
        self,
        name: str,
        aggregate: Aggregate,
        schema: pl.Schema,
        own: set[str],
        overlaps: Overlaps,
        slicing: SlicePlan | None,
        known: Expressions,
    ) -> Output | Combination:
        from rxtemporal.operators.windows import aggregates as running
        from rxtemporal.operators.windows.results import Combination, Output
        from rxtemporal.operators.windows.rows import ListedAggregate

        sums = aggregate.list_sums(overlaps)
        if sums is not None:
            parts = []
            for each in sums:
                by: running.FloatSum | running.IntegerSum = running.IntegerSum(name)
                if infer_field_type(each.value, schema).is_float():
                    kind = running.Average if each.mean else running.FloatSum
                    by = kind(weighed=each.weighed)
                value = known.find(each.value)
                parts.append(Output(name, value, by, aggregate.by_time, each.weighed))
            combine = partial(aggregate.combine, overlaps=overlaps)
            return Combination(name, parts, combine)
        made = aggregate.make(name, schema)
        if made is None and slicing is not None and slicing.marks:
            # not all rows that a window holds count
            return Output(name, known.find(pl.col(COVER).is_null()), running.Count())
        if made is None or isinstance(made, ListedAggregate):
            return Output(name, None, made)
        # an aggregate without a field reads whole rows, as structs
        reads = aggregate.values
        if reads is None:
            reads = pl.struct(pl.all().exclude([*own, *TIME_FIELDS]))
        where = known.find_predicate(aggregate.where)
        return Output(name, known.find(reads), made, where=where)

    def list_costly(self, schema: pl.Schema) -> Sequence[str]:
        """Return the names of the aggregates that are not updated as rows come and go."""
        return [name for name, each in self.aggregates if each.reads_all_rows]

    def list_expressions(self, schema: pl.Schema) -> Sequence[RowExpression]:
        """Return what the aggregates read, null in rows that do not count."""
        return [
            RowExpression(name, reads, schema)
            for name, aggregate in self.aggregates
            if (reads := aggregate.counted) is not None
        ]


def read_orders(by: Any, descending: Any) -> tuple[tuple[str | pl.Expr, ...], tuple[bool, ...]]:
    """Return what ranks are by, and for each whether the greatest value is first."""
    several = isinstance(by, (list, tuple))
    orders = tuple(by) if several else (by,)
    for each in orders:
        if not isinstance(each, (str, pl.Expr)):
            raise ArgumentError(
                f"top_k takes a field's name or a polars expression to rank by, got {each!r}"
            )
        if isinstance(each, pl.Expr):
            check_row_by_row(each, "top_k")
    is_list = isinstance(descending, (list, tuple))
    falls = tuple(descending) if is_list else len(orders) * (descending,)
    if not orders:
        raise ArgumentError("top_k ranks by at least one field. Hint: top_k(3, 'price').")
    if len(falls) != len(orders) or not all(isinstance(f, bool) for f in falls):
        raise ArgumentError(
            f"top_k: descending is True or False, or a list with one for each of by=, which are "
            f"{len(orders)}; got {descending!r}"
        )
    return orders, falls


@dataclasses.dataclass(frozen=True, eq=False)
class TopK(ResultSpec):
    """The rows with the best ranks; ``shares``: rows that are equal share a rank."""

    k: int
    by: tuple[str | pl.Expr, ...]
    descending: tuple[bool, ...]
    shares: bool = True
    rank: str | None = RANK
    name = "top_k"

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise ArgumentError(f"top_k takes a number of ranks, at least 1, got {self.k!r}")
        if self.rank is not None and not (isinstance(self.rank, str) and self.rank):
            raise ArgumentError(f"top_k: rank is the name of a field, or None, got {self.rank!r}")

    @property
    def expressions(self) -> list[pl.Expr]:
        """The expressions to rank by, the first one first."""
        return [pl.col(each) if isinstance(each, str) else each for each in self.by]

    def list_operators(self) -> tuple[Operator, ...]:
        """Return the operator that adds the times of rows, if ranks are by them."""
        return add_times(self.expressions)

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, the other fields, and the rank."""
        for each in self.expressions:
            infer_field_type(each, schema, "top_k")
        if self.rank in schema:
            raise SchemaError(
                f"top_k adds the field {self.rank!r}, which exists already. Hint: rank='place' "
                "names it otherwise, and rank=None leaves it out."
            )
        others = {name: schema[name] for name in schema if name not in (*keys, *TIME_FIELDS)}
        fields = {**{key: schema[key] for key in keys}, **others}
        return pl.Schema(fields if self.rank is None else {**fields, self.rank: pl.Int64()})

    def make(
        self, schema: pl.Schema, keys: Keys, overlaps: Overlaps = Overlaps.PAIRS
    ) -> WindowResults:
        """Return a new ranking."""
        from rxtemporal.operators.windows.results import TopKResults

        fields = [name for name in self.output(schema, keys) if name not in (*keys, self.rank)]
        orders = list(zip(self.expressions, self.descending, strict=True))
        return TopKResults(self.k, orders, fields, self.rank, schema, shares=self.shares)

    def explain_loss(self, lost: LostRow, windows: WindowRows) -> Fate:
        """Return the rows of its windows that ranked before it."""
        from rxtemporal.operators.windows.members import explain_rank

        return explain_rank(self, lost, windows)


@dataclasses.dataclass(frozen=True, eq=False)
class Apply(ResultSpec):
    """The results of a user function for the rows of a window."""

    function: Callable[..., Iterable[Any]]
    schema: Any
    time_sensitive: bool
    name = "apply"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentError(f"apply takes a function of a window's rows, got {self.function!r}")
        # what annotations name is not there any more in a process that this is sent to
        object.__setattr__(self, "schema", self._fields())

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """True if the function sees lifetimes."""
        return self.time_sensitive

    def _fields(self) -> pl.Schema:
        if self.schema is not None:
            return payload_schema(self.schema)
        try:
            returned = typing.get_type_hints(self.function).get("return")
        except (NameError, TypeError):  # an annotation that names what is not there, or none
            returned = None
        inner = typing.get_args(returned)
        if inner and is_record_class(inner[0]):
            return payload_schema(inner[0])
        raise SchemaError(
            "apply has to know the fields of its function's results. Hint: give "
            'schema={"name": type, …}, or annotate that it returns list[SomeDataclass].'
        )

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then the declared fields."""
        fields = self._fields()
        if clash := set(keys) & set(fields):
            raise SchemaError(
                f"apply: {min(clash)!r} is a group key, which is added automatically. "
                "Hint: leave it out of the function's results."
            )
        return pl.Schema({**{key: schema[key] for key in keys}, **fields})

    def make(
        self, schema: pl.Schema, keys: Keys, overlaps: Overlaps = Overlaps.PAIRS
    ) -> WindowResults:
        """Return a new state."""
        from rxtemporal.operators.windows.user_functions import ApplyResults

        return ApplyResults(self.function, self._fields(), sensitive=self.time_sensitive)

    def explain_loss(self, lost: LostRow, windows: WindowRows) -> Fate:
        """Return that the function gave nothing for the row's window."""
        name = getattr(self.function, "__name__", "the function")
        return lost.tell("dropped", f"{name} of {lost.place} returned nothing for its window")
