"""left_anti_join: rows while nothing matches them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.operators.join.plan import Handed, Matcher, On, read_pairs
from rxtemporal.operators.operator import Keys, PartialOperator
from rxtemporal.operators.stream import Other

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import TwoInputStep
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History
    from rxtemporal.operators.causes.lost_row import Fate, LostRow


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class LeftAntiJoin(Matcher):
    """Left rows while no matching right row is alive."""

    pairs_rows = True
    name = "left_anti_join"

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the left's fields."""
        self.key_types(left, right, keys)
        if self.where is not None:
            self.check_where(self._join_fields(left, right, keys)[1])
        return left

    def trace_fields(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> Sequence[Handed]:
        """The left's fields."""
        return [(name, (name, None)) for name in left]

    def _join_fields(
        self, left: pl.Schema, right: pl.Schema, keys: Keys
    ) -> tuple[dict[str, str], pl.Schema]:
        # only where= sees the joined names, so a clash gets a suffix automatically
        suffix = self.suffix or "_right"
        return dataclasses.replace(self, suffix=suffix).merge_fields(left, right, keys)

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step."""
        from rxtemporal.operators.anti_join.step import AntiJoinStep
        from rxtemporal.operators.join.keys import KeyMatcher
        from rxtemporal.operators.join.step import JoinedPayload

        keying = KeyMatcher(keys, self.on, self.key_types(left, right, keys))
        merged = None
        if self.where is not None:
            merged = JoinedPayload(*self._join_fields(left, right, keys))
        return AntiJoinStep(keying, (left, right), merged, self.where, keys)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.anti_join.causes import find_lonely_rows

        return find_lonely_rows(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        from rxtemporal.operators.anti_join.causes import explain_removal

        return explain_removal(self, lost)

    def only_removes(self, side: int) -> bool:
        """Return True for the right input."""
        return side == 1


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SwappedAntiJoin(LeftAntiJoin):
    """An anti join with its sides exchanged, whose ``where`` still sees the names of the join."""

    taken: dict[str, str]
    joined: pl.Schema
    lefts: tuple[str, ...]

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step; ``left`` is the join's right input here."""
        from rxtemporal.operators.anti_join.step import AntiJoinStep
        from rxtemporal.operators.join.keys import KeyMatcher
        from rxtemporal.operators.join.step import JoinedPayload

        keying = KeyMatcher(keys, self.on, self.key_types(left, right, keys))
        merged = JoinedPayload(self.taken, self.joined, first=1)
        return AntiJoinStep(keying, (left, right), merged, self.where, keys)


def left_anti_join(other: Other, on: On = None, where: pl.Expr | None = None) -> PartialOperator:
    """Keep the parts of each lifetime in which no matching other row is alive.

    Each part becomes a row. It is emitted when both CTIs have passed its start, and ends with the
    row or when a match begins. In ``where``, right fields whose names clash have the suffix
    ``_right``. Rows are held until they have ended before both CTIs.
    """
    pairs = read_pairs(on, "left_anti_join")
    return PartialOperator(LeftAntiJoin(on=pairs, where=where), other)
