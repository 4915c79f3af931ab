"""Windows as operators: bounds that group rows, and results over them.

Any bounds (snapshot, hopping) can be combined with any results (aggregates, ranks, user-defined
operators).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Self, TypeVar, cast

import polars as pl

from rxtemporal.core.safe_text import brief
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import Chain, Keys, Operator, RowExpression
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys
from rxtemporal.operators.windows.overlaps import Overlaps
from rxtemporal.operators.windows.results_plan import (
    RANK,
    Aggregate,
    Aggregates,
    Apply,
    ResultSpec,
    TopK,
    read_orders,
)

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.windows.bounds import Bounds
    from rxtemporal.operators.windows.results import WindowResults
    from rxtemporal.operators.windows.step import WindowStep

Result = TypeVar("Result")
Other = TypeVar("Other")
Method = TypeVar("Method", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class WindowOperator(Operator):
    """Windows, and the results over them."""

    result: ResultSpec
    incomplete = "dropped"

    @property
    def window(self) -> str:
        """The method that made the window."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The method that made the window, and the method of its results."""
        return f"{self.window}.{self.result.name}"

    @property
    def points(self) -> bool:
        """True if results are points at the windows' ends."""
        return False

    def for_stream(self, form: TimeForm | None, schema: pl.Schema | None) -> Self:
        """Return the operator for a stream of such times and fields."""
        result, needed = self.result.for_stream(self.time or form, schema)
        if result is self.result:
            return self
        return dataclasses.replace(self, result=result, time=needed or self.time)

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then the fields of the results."""
        return self.result.output(schema, keys)

    def output_keys(self, keys: Keys) -> Keys:
        """Return nothing: results end the grouping."""
        return ()

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys(keys, keys)

    def list_expressions(
        self, schemas: tuple[pl.Schema, ...], keys: Keys
    ) -> Sequence[RowExpression]:
        """Return what the results read."""
        return self.result.list_expressions(schemas[0])

    def list_costly(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> Sequence[str]:
        """Return the names of the results that are not updated as rows come and go."""
        return self.result.list_costly(schemas[0])

    def find_windows(self, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s] | None:
        """Return the lifetimes of results, which are those of their windows, unless points."""
        return None if self.points else (start, end)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TimeWindows(WindowOperator):
    """Windows along the time axis, and the results over them."""

    @property
    def holds(self) -> str:
        """The rows that are alive, and the running results."""
        return "the rows that have not ended before t, and the running results of each key"

    def bounds(self) -> Bounds:
        """Return new bounds of this kind of windows."""
        raise NotImplementedError

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        results = self.result.make(schema, keys, Overlaps.WHOLE)
        return self.make_step(results, schema, keys, self.output(schema, keys))

    def make_step(
        self, results: WindowResults, schema: pl.Schema, keys: Keys, output: pl.Schema
    ) -> WindowStep:
        """Return a new step that computes results over rows of this schema."""
        from rxtemporal.operators.windows.step import WindowStep

        return WindowStep(self.bounds(), results, schema, output, keys, points=self.points)


def _guess_name(aggregate: Any) -> str:
    """Return an argument for an aggregate as somebody would write it."""
    shown = brief(aggregate) if isinstance(aggregate, Aggregate) else "count()"
    kind = shown.partition("(")[0]
    return "n=agg.count()" if kind == "count" else f"{kind}=agg.{kind}(…)"


def _refuse_unnamed(method: Method) -> Method:
    """Return a method that refuses positional arguments: each aggregate has the name of a field."""

    @functools.wraps(method)
    def aggregate(self: Any, *unnamed: Any, **aggregates: Any) -> Any:
        if unnamed:
            raise ArgumentError(
                f"aggregate takes named aggregates, got {brief(unnamed[0])} without a name. "
                f"Hint: the name is that of the field: aggregate({_guess_name(unnamed[0])})."
            )
        return method(self, **aggregates)

    return cast("Method", aggregate)


@dataclasses.dataclass(frozen=True)
class Windowed(Generic[Result]):
    """Windows of a stream, to be followed by ``aggregate``, ``top_k`` or ``apply``.

    These methods end a grouping and put the keys first in the payload. The window determines the
    output CTI. Held: the rows until they have ended before the CTI, and the running aggregates of
    each key.

    ``over`` makes the operator, behind others that first alter lifetimes if there are any, and
    ``then`` turns the chain of operators into the result: a stream, or in a pipe the chain itself.
    """

    over: Callable[[ResultSpec], Operator | Chain]
    then: Callable[[Chain], Result]

    def __repr__(self) -> str:
        stream = getattr(self.then, "__self__", None)
        return f"<windows of {stream!r}: aggregate(…), top_k(…) or apply(…) gives their results>"

    def bind(self, compose: Callable[[Chain], Other]) -> Windowed[Other]:
        """Return the same windows with ``compose`` as ``then``."""
        return Windowed(self.over, compose)

    def __call__(self, source: object) -> Never:
        """Refuse windows without a result, which stand in a pipe as they are."""
        raise ArgumentError(
            "a window in a pipe has no result. Hint: continue it with .aggregate(…), .top_k(…) or "
            ".apply(…), for example ops.tumbling_window(…).aggregate(n=agg.count())."
        )

    @_refuse_unnamed
    def aggregate(self, **aggregates: Aggregate) -> Result:
        """Return one row for each window and key: the keys, then the named aggregates.

        The cost of incremental aggregates (see ``rxtemporal.agg``) is proportional to the rows that
        enter and leave; that of the others to the rows in the windows. An integer sum that
        overflows is an error.
        """
        return self._with(Aggregates(tuple(aggregates.items())))

    def top_k(
        self,
        k: int,
        by: str | pl.Expr | Sequence[str | pl.Expr],
        *,
        descending: bool | Sequence[bool] = True,
        ties: Literal["share", "first"] = "share",
        rank: str | None = RANK,
    ) -> Result:
        """Return the rows of rank ``k`` or better in each window, with the field ``rank``.

        Rank 1 is the greatest value of ``by`` (a field or an expression), or with
        ``descending=False`` the least; nulls are last in both cases. Of several, the next one
        orders rows that are equal by the ones before, each with its own ``descending`` if that is a
        list. Rows that are equal by all share a rank, so there may be more than ``k``; with
        ``ties="first"`` the first one in order of (start, payload) is before the others, and there
        are ``k``. ``rank`` names the field of the rank; None leaves it out. A result lives for its
        window.

        A batch costs a sort of the rows of the keys whose windows change, and the results; the
        number of windows that hold a row does not matter. Over snapshot windows, rows that never
        end are held only while they are among the best of their key.

        >>> import rxtemporal as rxt
        >>> bids = rxt.from_events([
        ...     rxt.PointEvent(1, {"x": 5, "by": "a"}),
        ...     rxt.PointEvent(2, {"x": 7, "by": "b"}),
        ...     rxt.PointEvent(4, {"x": 7, "by": "c"}),
        ... ])
        >>> first = bids.tumbling_window(10).top_k(1, ["x", rxt.start()], descending=[True, False])
        >>> first.to_polars().rows()
        [(0, 10, 7, 'b', 1)]
        """
        if ties not in ("share", "first"):
            raise ArgumentError(f"top_k: ties is 'share' or 'first', got {brief(ties)}")
        orders, falls = read_orders(by, descending)
        return self._with(TopK(k, orders, falls, ties == "share", rank))

    def apply(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        schema: Any = None,
        time_sensitive: bool = False,
    ) -> Result:
        """Return the results of a function of the rows of each window: a user-defined operator.

        The function takes the payloads as a list of dicts, in order of (start, payload), and
        returns payloads, which live for the window. With ``time_sensitive`` it takes interval
        events with lifetimes clipped to the window, and the window (``start``, ``end``, in ticks);
        it may return interval events that lie in the window. ``schema`` names the fields of the
        results. An error in the function goes to ``on_error``. The cost is one call for each
        window.
        """
        return self._with(Apply(function, schema, time_sensitive))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise an error that says what is missing between a window and another method."""
            if name.startswith("_"):
                raise AttributeError(name)
            raise AttributeError(
                f"windows have no {name!r}: they say which rows belong together, and not yet what "
                "to compute of them. Hint: follow a window with .aggregate(name=agg.…), .top_k(…) "
                "or .apply(…), and then go on."
            )

    def _with(self, result: ResultSpec) -> Result:
        over = self.over(result)
        operators = over.operators if isinstance(over, Chain) else (over,)
        # the spans of the window say the form of the times that are read in front of it
        form = operators[0].time
        prepared = (each.for_stream(form, None) for each in result.list_operators())
        return self.then(Chain((*prepared, *operators)))


def windows(over: Callable[[ResultSpec], Operator | Chain]) -> Windowed[Chain]:
    """Return windows for a pipe."""
    return Windowed(over, lambda chain: chain)
