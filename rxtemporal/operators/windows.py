"""Windows as operators: which rows belong together, and the results over them.

Bounds (snapshot, hopping) and results (aggregates, ranks, users' operators) are two things, and any
of the one goes with any of the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import polars as pl

from rxtemporal.operators.aggregates import Aggregate
from rxtemporal.operators.operator import Chain, Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys
from rxtemporal.operators.window_results import Aggregates, Apply, ResultSpec, TopK

if TYPE_CHECKING:
    from rxtemporal.engine.steps.step import Step
    from rxtemporal.engine.steps.window_bounds import Bounds

Result = TypeVar("Result")
Other = TypeVar("Other")


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TimeWindows(Operator):
    """Windows along an axis, and the results over them."""

    result: ResultSpec

    @property
    def window(self) -> str:
        """The method that made the window."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The method that made the window, and what follows it."""
        return f"{self.window}.{self.result.name}"

    @property
    def holds(self) -> str:
        """Rows while they live, and what runs along."""
        return "the rows that have not ended before t, and the running results of each key"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then what the results are made of."""
        return self.result.output(schema, keys)

    def keys_after(self, keys: Keys) -> Keys:
        """Return nothing: results end the grouping."""
        return ()

    def bounds(self) -> Bounds:
        """Return new bounds of this kind of windows."""
        raise NotImplementedError

    @property
    def points(self) -> bool:
        """True if results are points at the windows' ends."""
        return False

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """A window holds rows of one key."""
        return partition_by_keys(keys, keys)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.engine.steps.windows import WindowStep

        results = self.result.make(schema, keys)
        output = self.output(schema, keys)
        return WindowStep(self.bounds(), results, schema, output, points=self.points)


@dataclasses.dataclass(frozen=True)
class Windowed(Generic[Result]):
    """Windows: ``aggregate``, ``top_k`` or ``apply`` says what to make of each.

    All of them end a grouping: the keys come first in the payload. The output CTI is the window's.
    Held: the rows until they have ended before the CTI, and for each key its running aggregates.

    ``before`` are the operators that alter lifetimes so that the windows are those meant; ``then``
    takes the finished operator: the windows of a stream give a stream, those of a pipe its value.
    """

    over: Callable[[ResultSpec], Operator]
    then: Callable[[Chain], Result]
    before: tuple[Operator, ...] = ()

    def of(self, compose: Callable[[Chain], Other]) -> Windowed[Other]:
        """Return the same windows, of which ``compose`` makes something else."""
        return Windowed(self.over, compose, self.before)

    def aggregate(self, **aggregates: Aggregate) -> Result:
        """Give one row for each window and key: the keys, then the named aggregates.

        Cost: of what is new, whatever is alive, for the aggregates that run along (see
        ``rxtemporal.agg``); the others cost what the windows hold. An integer sum that overflows is
        an error.
        """
        return self._with(Aggregates(tuple(aggregates.items())))

    def top_k(self, k: int, by: str | pl.Expr, *, descending: bool = True) -> Result:
        """Give the rows of rank ``k`` or better in each window, with the field ``rank``.

        Rows with equal values share a rank, so there may be more than ``k``. Rank 1 is the greatest
        value of ``by`` (a field or an expression), or with ``descending=False`` the least; nulls
        come last in both. A row lives for the window. Cost: of what the windows hold.
        """
        return self._with(TopK(k, by, descending))

    def apply(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        schema: Any = None,
        time_sensitive: bool = False,
    ) -> Result:
        """Give what a function makes of the rows of each window: a user-defined operator.

        The function gets the payloads as a list of dicts, in order of (start, payload), and returns
        payloads, which live for the window. With ``time_sensitive`` it gets interval events with
        lifetimes clipped to the window, and the window (``start``, ``end``, in ticks); it may give
        interval events that lie in the window. ``schema`` names the fields of what it returns. What
        it raises goes to ``on_error``. Cost: a call for each window.
        """
        return self._with(Apply(function, schema, time_sensitive))

    def _with(self, result: ResultSpec) -> Result:
        return self.then(Chain((*self.before, self.over(result))))


def windows(
    over: Callable[[ResultSpec], Operator], before: tuple[Operator, ...] = ()
) -> Windowed[Chain]:
    """Return windows for a pipe."""
    return Windowed(over, lambda chain: chain, before)
