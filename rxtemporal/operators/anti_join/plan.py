"""left_anti_join: rows while nothing matches them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, Int64s
from rxtemporal.operators.causes.carried_rows import CarriedRows, carry, match_output
from rxtemporal.operators.causes.causes import BOUNDARY, Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import MOST_OTHERS, Fate, LostRow
from rxtemporal.operators.join.key_pairs import KeyPairs, On
from rxtemporal.operators.join.plan import Handed, Matcher, find_pairs
from rxtemporal.operators.operator import Keys, PartialOperator
from rxtemporal.operators.stream import Other

if TYPE_CHECKING:
    from rxtemporal.engine.step import TwoInputStep
    from rxtemporal.operators.join.step import JoinedPayload


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
        # only where= sees the joined names
        return self.with_suffix().merge_fields(left, right, keys)

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step."""
        from rxtemporal.engine.key_matcher import KeyMatcher
        from rxtemporal.operators.anti_join.step import AntiJoinStep

        keying = KeyMatcher(keys, self.on, self.key_types(left, right, keys))
        merged = None if self.where is None else self._join_payload(left, right, keys)
        return AntiJoinStep(keying, (left, right), merged, self.where, keys)

    def _join_payload(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> JoinedPayload:
        """Return the payload that ``where`` sees."""
        from rxtemporal.operators.join.step import JoinedPayload

        return JoinedPayload(*self._join_fields(left, right, keys))

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_lonely_rows(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        return explain_removal(self, lost)

    def only_removes(self, side: int) -> bool:
        """Return True for the right input."""
        return side == 1


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class SwappedAntiJoin(LeftAntiJoin):
    """An anti join with its sides exchanged, whose ``where`` still sees the names of the join."""

    taken: dict[str, str]
    joined: pl.Schema

    def _join_payload(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> JoinedPayload:
        """Return the payload that ``where`` sees; ``left`` is the join's right input here."""
        from rxtemporal.operators.join.step import JoinedPayload

        return JoinedPayload(self.taken, self.joined, first=1)


def left_anti_join(other: Other, on: On = None, where: pl.Expr | None = None) -> PartialOperator:
    """Keep the parts of each lifetime in which no matching other row is alive.

    Each part becomes a row. It is emitted when both CTIs have passed its start, and ends with the
    row or when a match begins. In ``where``, right fields whose names clash have the suffix
    ``_right``. Rows are held until they have ended before both CTIs.
    """
    keys = KeyPairs.read(on, "left_anti_join")
    return keys.bind(LeftAntiJoin(on=keys.names, where=where), other)


def find_lonely_rows(
    operator: LeftAntiJoin, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row its left row, and the right rows that remove that beside the gap."""
    made = carry(operator, inputs)
    of, at = match_output(output, made, rows)
    return find_gaps(of, made.take(at), find_pairs(operator, inputs))


def find_gaps(of: Int64s, pieces: CarriedRows, pairs: CarriedRows, *, own: int = 0) -> Causes:
    """Return the causes of pieces of rows of one side, ``own``, that nothing of the other covers.

    ``pairs`` are all pairs that match. The rows of the other side that cover the own one without a
    gap up to where a piece begins, or from where it ends, are boundaries. Without those that do
    not touch the piece there would be another piece, which a later operator would see.
    """
    (number,) = pieces.numbers
    stretches = _join_stretches(pairs, own)
    begun = _find_partners(of, number, pieces.start, stretches, END)
    ended = _find_partners(of, number, pieces.end, stretches, START)
    parts = [Causes.of_pairs(of, number, side=own)]
    for whose, pair in (begun, ended):
        other = pairs.numbers[1 - own][pair]
        parts.append(Causes.of_pairs(whose, other, side=1 - own, role=BOUNDARY))
    return Causes.concat(parts)


def _join_stretches(pairs: CarriedRows, own: int) -> pl.DataFrame:
    """Return for each pair its number, its own row, and the stretch without a gap it is part of."""
    start, end, number = pl.col(START), pl.col(END), pl.col("number")
    reached = end.cum_max().shift().over("number")
    return (
        pl.DataFrame(
            {
                "pair": np.arange(len(pairs.start)),
                "number": pairs.numbers[own],
                START: pairs.start,
                END: pairs.end,
            }
        )
        .sort("number", START)
        .with_columns(stretch=(reached.is_null() | (start > reached)).cum_sum())
        .with_columns(start.min().over("stretch"), end.max().over("stretch"))
        .select("pair", number, START, END)
    )


def _find_partners(
    of: Int64s, number: Int64s, time: Int64s, stretches: pl.DataFrame, edge: str
) -> tuple[Int64s, Int64s]:
    """Return the pairs of the stretches whose ``edge`` is at these times, and whose they are."""
    wanted = pl.DataFrame({"of": of, "number": number, "time": time})
    found = wanted.join(
        stretches, left_on=["number", "time"], right_on=["number", edge], how="inner"
    )
    return found.get_column("of").to_numpy(), found.get_column("pair").to_numpy()


def explain_removal(operator: LeftAntiJoin, lost: LostRow) -> Fate:
    """Return the rows that removed a left row, or those that a right row removes."""
    other = lost.inputs[1 - lost.side]
    pairs = find_pairs(operator, lost.inputs).numbers
    alive = lost.find_alive(other, np.unique(pairs[1 - lost.side][pairs[lost.side] == lost.row]))
    if lost.side == 1:
        return lost.tell_removal(alive, "removes")
    if not len(alive):
        return lost.tell_end()
    return lost.tell(
        "removed",
        f"removed by {lost.place}: {lost.list_rows(other, alive)}",
        others=lost.frame(other, alive[:MOST_OTHERS]),
    )
