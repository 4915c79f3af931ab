"""union: the rows of two streams with the same fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.errors import SchemaError
from rxtemporal.operators.operator import Keys, PartialOperator, TwoInputs
from rxtemporal.operators.partition_keys import PartitionRule
from rxtemporal.operators.stream import Other

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import TwoInputStep
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Union(TwoInputs):
    """The rows of both inputs."""

    keeps_lifetimes = True
    name = "union"

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the left fields; raise if the right input has others. Order does not matter."""
        if dict(left) != dict(right):
            differ = [name for name in {**left, **right} if left.get(name) != right.get(name)]
            differences = "; ".join(
                f"{name!r}: {left.get(name, 'missing')} and {right.get(name, 'missing')}"
                for name in differ
            )
            raise SchemaError(
                f"union takes two streams of the same fields, and these differ in {differences}. "
                "Hint: select() the same fields with the same types first."
            )
        return left

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: each row is seen alone, and fields are kept from both inputs."""
        return PartitionRule(None, tuple((name, (name, name)) for name in schemas[0]))

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step."""
        from rxtemporal.operators.union.step import UnionStep

        return UnionStep(left)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.union.causes import find_united_rows

        return find_united_rows(self, inputs, output, rows)


def union(other: Other) -> PartialOperator:
    """Unite the rows of two streams with the same fields.

    Rows and lifetimes pass unchanged and at once; the output CTI is the lower of the two. Nothing
    is held.
    """
    return PartialOperator(Union(), other)
