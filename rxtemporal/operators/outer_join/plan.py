"""left_outer_join and full_outer_join: joins that keep the rows without a match."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.operators.anti_join.plan import LeftAntiJoin, SwappedAntiJoin
from rxtemporal.operators.join.plan import Handed, Join, Matcher, On, read_pairs
from rxtemporal.operators.operator import Keys, PartialOperator
from rxtemporal.operators.stream import Other

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import TwoInputStep
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class OuterJoin(Matcher):
    """A join that keeps rows while they have no match, with the missing fields null."""

    full: bool = False

    @property
    def name(self) -> str:
        """The method that composed it."""
        return "full_outer_join" if self.full else "left_outer_join"

    def _join(self) -> Join:
        return Join(
            name=self.name, on=self.on, where=self.where, suffix=self.suffix, line=self.line
        )

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the joined fields."""
        return self._join().output(left, right, keys)

    def trace_fields(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> Sequence[Handed]:
        """Return the left fields; in a full join only those that both sides have."""
        if not self.full:
            return [(name, (name, None)) for name in left]
        once = [*keys, *(mine for mine, other in self.on if mine == other)]
        return [(name, (name, name)) for name in once]

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step."""
        from rxtemporal.operators.outer_join.step import NullFields, OuterJoinStep

        join = self._join()
        taken, schema = join.merge_fields(left, right, keys)
        lonely = [LeftAntiJoin(on=self.on, where=self.where, suffix=self.suffix, line=self.line)]
        missing = [NullFields({name: name for name in left}, schema)]
        if self.full:
            lonely.append(self._swap(left, right, keys))
            both = {mine for mine, other in self.on if mine == other} | set(keys)
            names = {name: name for name in both} | taken
            missing.append(NullFields(names, schema))
        antis = [lonely[0].make(left, right, keys)]
        antis += [each.make(right, left, keys) for each in lonely[1:]]
        return OuterJoinStep(join.make(left, right, keys), antis, missing)

    def _swap(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> LeftAntiJoin:
        """Return the anti join of the right input with the left one, ``where`` in its names."""
        on = tuple((other, mine) for mine, other in self.on)
        if self.where is None:
            return LeftAntiJoin(on=on, line=self.line)
        taken, schema = self._join().merge_fields(left, right, keys)
        return SwappedAntiJoin(
            on=on, where=self.where, line=self.line, taken=taken, joined=schema, lefts=tuple(left)
        )

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.outer_join.causes import find_outer_rows

        return find_outer_rows(self, inputs, output, rows)


def left_outer_join(
    other: Other, on: On = None, where: pl.Expr | None = None, *, suffix: str | None = None
) -> PartialOperator:
    """Join, and keep left rows while nothing matches them, with the right fields null.

    The output, the CTI and the held rows are as in ``join`` and ``left_anti_join``.
    """
    pairs = read_pairs(on, "left_outer_join")
    return PartialOperator(OuterJoin(on=pairs, where=where, suffix=suffix), other)


def full_outer_join(
    other: Other, on: On = None, where: pl.Expr | None = None, *, suffix: str | None = None
) -> PartialOperator:
    """Join, and keep rows of both sides while nothing matches them.

    Missing fields are null; fields in ``on`` with the same name on both sides always have a value.
    The output, the CTI and the held rows are as in ``join`` and ``left_anti_join``.
    """
    pairs = read_pairs(on, "full_outer_join")
    operator = OuterJoin(on=pairs, where=where, suffix=suffix, full=True)
    return PartialOperator(operator, other)
