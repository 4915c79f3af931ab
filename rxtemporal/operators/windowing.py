"""A window as a value: what is to be computed over it makes it an operator."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from rxtemporal.aggregate import Aggregate
from rxtemporal.operators.operator import Chain, Operator
from rxtemporal.operators.results import Aggregates, Apply, ResultSpec, TopK
from rxtemporal.reactive.synchronize import composed_at


@dataclasses.dataclass(frozen=True)
class Window:
    """A window of a pipe: ``aggregate``, ``top_k`` or ``apply`` make it an operator.

    ``before`` are the operators that alter lifetimes so that the windows are those meant.
    """

    over: Callable[[ResultSpec, str], Operator]
    before: tuple[Operator, ...] = ()

    def aggregate(self, **aggregates: Aggregate) -> Chain:
        """Return the operator: one row for each window and key, the keys first in the payload."""
        return self._with(Aggregates(tuple(aggregates.items())))

    def top_k(self, k: int, by: str | pl.Expr, *, descending: bool = True) -> Chain:
        """Return the operator: the rows of rank ``k`` or better in each window, with ``rank``."""
        return self._with(TopK(k, by, descending))

    def apply(
        self,
        function: Callable[..., Iterable[Any]],
        *,
        schema: Any = None,
        time_sensitive: bool = False,
    ) -> Chain:
        """Return the operator: what a function makes of the rows of each window."""
        return self._with(Apply(function, schema, time_sensitive))

    def _with(self, result: ResultSpec) -> Chain:
        return Chain((*self.before, self.over(result, composed_at())))
